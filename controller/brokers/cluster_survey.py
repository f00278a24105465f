"""
A survey of a whole cluster, for a snapshot: replicas, sizes, log directories.

One DescribeLogDirs per broker: nothing is queried per partition. Answers are passed on as they
arrive, so that only one of them is in memory. Reads only.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from controller.brokers.broker_queries import ConnectionSettings, query_all
from controller.brokers.connections import BrokerConnection, ConnectionLimits
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import Capacities, describe_all, description_of, no_capacities
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, LogDir, TopicPartition
from controller.errors import BrokerUnreachableError, ControllerError
from controller.planning.volumes import volume_names

WITHIN_S: Final = 120.0
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=60.0)


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """A replica in a log directory of a broker."""

    partition: TopicPartition
    log_dir: str
    size: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """The replicas of one broker."""

    broker: BrokerId
    replicas: tuple[HeldReplica, ...]
    capacity: int | None
    """Bytes that its replicas may take in all; None: the broker does not report it."""
    dirs: tuple[LogDir, ...] = ()
    volumes: Mapping[str, str] = field(default_factory=dict)
    """The volume of each directory; those of one volume have the same."""


class ClusterSurvey:
    """Queries all brokers at once."""

    def __init__(
        self,
        security: Security,
        listeners: ListenerChoice,
        capacities: Capacities = no_capacities,
    ) -> None:
        """
        Prepare; nothing is connected.

        Args:
            security: TLS and SASL settings.
            listeners: The choice of a broker's listener.
            capacities: Returns the configured capacities of a broker's directories.

        """
        self._settings = ConnectionSettings(security, listeners, LIMITS)
        self._capacities = capacities

    def holdings(
        self, brokers: Collection[LiveBroker], *, within_s: float = WITHIN_S
    ) -> Iterator[Holdings]:
        """
        Yield the replicas of each broker, in the order of the answers.

        Raises:
            BrokerUnreachableError: a broker does not answer: a snapshot needs all of them.

        """

        async def hold(broker: LiveBroker, connection: BrokerConnection) -> Holdings:
            answer = await connection.send_and_receive(describe_all(connection))
            return holdings_of(broker.id, answer, self._capacities(broker.id))

        if not brokers:
            raise BrokerUnreachableError("no broker is live")
        deadline = time.monotonic() + within_s
        missing = len(brokers)
        with closing(query_all(self._settings, brokers, hold, deadline=deadline)) as answers:
            for broker, answer in answers:
                if isinstance(answer, ControllerError):
                    why = f"broker {broker} does not report its log directories: {answer}"
                    raise BrokerUnreachableError(why) from answer
                missing -= 1
                yield answer
        if missing:
            raise BrokerUnreachableError("not all brokers answered in time")


def holdings_of(
    broker: BrokerId,
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    capacities: Mapping[str, int],
) -> Holdings:
    """Decode a DescribeLogDirs response, without future replicas of moves between disks."""
    described, found = description_of(answer)
    replicas = tuple(
        HeldReplica(partition, replica.directory, replica.size)
        for partition, replica in found.items()
        if replica.directory is not None
    )
    dirs = tuple(directory.log_dir(capacities, is_whole=True) for directory in described)
    held = {directory.path: directory.bytes for directory in described}
    volumes = volume_names(dirs, held, separate=capacities)
    # A volume counts once.
    usable = {volumes[d.path]: d.usable for d in dirs if d.usable is not None}
    capacity = sum(r.size for r in replicas) + sum(usable.values()) if usable else None
    return Holdings(broker, replicas, capacity, dirs, volumes)
