"""
Surveys of brokers for commands: log directories, and effective settings.

Synchronous; all brokers at once, with a connection each. The result of a broker that does not
answer is the reason; it does not delay the others.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.api_key import ApiKey

from controller.brokers.broker_connections import BrokerConnection, ConnectionLimits
from controller.brokers.broker_queries import query_all
from controller.brokers.config_queries import (
    BROKER,
    LIMITS,
    PROTOCOL,
    TopicConfigQuery,
    describe_configs,
    protocol_of,
)
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.log_dirs import Capacities, describe_all, description_of, no_capacities
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, LogDir, TopicPartition
from controller.core.topics.model import NEVER_REQUESTED
from controller.core.topics.records import TopicConfigsRead
from controller.doctor.broker_answers import BrokerAnswers, Disks, Protocol
from controller.errors import BrokerUnreachableError, ControllerError
from controller.planning.volumes import volume_names

if TYPE_CHECKING:
    from controller.core.records import Event

WITHIN_S: Final = 30.0
HOLDINGS_WITHIN_S: Final = 120.0
HOLDINGS_LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=60.0)
FETCH_OF_BRIDGE: Final = 17
"""The version of Fetch that Kafka 3.9 brought (KIP-853): no request shows a release itself."""
SILENT: Final = "no answer in time"


# --- log directories and effective settings of topics --------------------------------------------


def query_brokers(
    connections: ConnectionSettings,
    brokers: Collection[LiveBroker],
    topics: Collection[str],
    *,
    within_s: float = WITHIN_S,
) -> BrokerAnswers:
    """Query every broker for its log directories, and one for the settings of topics."""
    deadline = time.monotonic() + within_s
    disks: dict[BrokerId, Disks | str] = {b.id: SILENT for b in brokers}
    with _setting_queries(connections, brokers, topics) as inbox:
        for broker, answer in query_all(connections, LIMITS, brokers, _disks, deadline=deadline):
            disks[broker] = str(answer) if isinstance(answer, ControllerError) else answer
        return BrokerAnswers(disks=disks, min_insync_replicas=_min_insync(inbox, topics, deadline))


def query_min_insync(
    connections: ConnectionSettings,
    brokers: Collection[LiveBroker],
    topics: Collection[str],
    *,
    within_s: float = WITHIN_S,
) -> Mapping[str, int | str]:
    """Return the effective min.insync.replicas of topics, or the reason why it is unknown."""
    deadline = time.monotonic() + within_s
    with _setting_queries(connections, brokers, topics) as inbox:
        return _min_insync(inbox, topics, deadline)


@contextmanager
def _setting_queries(
    connections: ConnectionSettings, brokers: Collection[LiveBroker], topics: Collection[str]
) -> Iterator[queue.Queue[Event]]:
    """Query the settings of topics; the answers arrive in the queue."""
    inbox: queue.Queue[Event] = queue.Queue()
    configs = TopicConfigQuery(inbox, connections)
    configs.start()
    try:
        configs.update_brokers(brokers)
        configs.describe(sorted(topics), NEVER_REQUESTED)
        yield inbox
    finally:
        configs.stop()


def _min_insync(
    inbox: queue.Queue[Event], topics: Collection[str], deadline: float
) -> Mapping[str, int | str]:
    found: dict[str, int | str] = dict.fromkeys(topics, SILENT)
    waiting = set(topics)
    while waiting:
        try:
            read = inbox.get(timeout=max(0.001, deadline - time.monotonic()))
        except queue.Empty:
            break
        if isinstance(read, TopicConfigsRead):
            for topic, config in read.configs.items():
                found[topic] = config if isinstance(config, str) else config.min_insync_replicas
            waiting -= read.configs.keys()
    return found


async def _disks(_broker: LiveBroker, connection: BrokerConnection) -> Disks | str:
    return disks_of(await describe_all(connection))


def disks_of(answer: Any) -> Disks | str:  # noqa: ANN401 - kafka-python has no types
    """Decode a DescribeLogDirs response; future logs are not counted as replicas."""
    if not answer.results:
        return "it reports no log directory: Describe on the cluster is not allowed"
    failed = tuple(d.log_dir for d in answer.results if d.error_code)
    found = description_of(answer)
    dirs = tuple(d.log_dir({}, is_whole=True) for d in found.dirs)
    replicas = {p: r for p, r in found.replicas.items() if r.directory is not None}
    sizes = {p: r.size for p, r in replicas.items()}
    placed = {p: r.directory for p, r in replicas.items() if r.directory is not None}
    futures = {p: r.future for p, r in found.replicas.items() if r.future is not None}
    return Disks(frozenset(replicas), failed, sizes, dirs, placed, futures)


# --- protocols -----------------------------------------------------------------------------------


def query_protocols(
    connections: ConnectionSettings,
    brokers: Collection[LiveBroker],
    *,
    within_s: float = WITHIN_S,
) -> Mapping[BrokerId, Protocol | str]:
    """Query every broker for its inter-broker protocol, which only it knows."""
    deadline = time.monotonic() + within_s
    found: dict[BrokerId, Protocol | str] = {b.id: SILENT for b in brokers}
    for broker, answer in query_all(connections, LIMITS, brokers, _protocol, deadline=deadline):
        found[broker] = str(answer) if isinstance(answer, ControllerError) else answer
    return found


async def _protocol(broker: LiveBroker, connection: BrokerConnection) -> Protocol | str:
    (described,) = await describe_configs(connection, [(BROKER, str(broker.id))], [PROTOCOL])
    if described.error_code:
        return f"error {described.error_code}: {described.error_message or 'no message'}"
    said = next((c.value for c in described.configs if c.name == PROTOCOL), None)
    protocol = protocol_of(said)
    if protocol is None:
        return f"{PROTOCOL} is {said!r}"
    return Protocol(
        protocol, is_bridge=connection.version(ApiKey.Fetch, FETCH_OF_BRIDGE) == FETCH_OF_BRIDGE
    )


# --- replicas and sizes of a whole cluster, for a snapshot ---------------------------------------


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


def query_holdings(
    connections: ConnectionSettings,
    brokers: Collection[LiveBroker],
    capacities: Capacities = no_capacities,
) -> Iterator[Holdings]:
    """
    Yield the replicas of each broker as the answers arrive, so that one of them is in memory.

    Raises:
        BrokerUnreachableError: a broker does not answer: a snapshot needs all of them.
    """

    async def hold(broker: LiveBroker, connection: BrokerConnection) -> Holdings:
        return holdings_of(broker.id, await describe_all(connection), capacities(broker.id))

    if not brokers:
        raise BrokerUnreachableError("no broker is live")
    deadline = time.monotonic() + HOLDINGS_WITHIN_S
    missing = len(brokers)
    with closing(
        query_all(connections, HOLDINGS_LIMITS, brokers, hold, deadline=deadline)
    ) as answers:
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
