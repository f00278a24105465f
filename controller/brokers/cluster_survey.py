"""
A survey of a whole cluster, for a snapshot: replicas, sizes, log directories, leaders, ISRs.

One DescribeLogDirs per broker and one Metadata in all: nothing is queried per partition. Answers
are passed on as they arrive, so that only one of them is in memory. Reads only.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import MetadataRequest

from controller.brokers.broker_queries import ConnectionSettings, ask_all
from controller.brokers.connections import Connection, ConnectionLimits
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import Capacities, description_of, no_capacities
from controller.brokers.messages import frame_of
from controller.core.model import BrokerId, LiveBroker, LogDir, TopicPartition
from controller.errors import BrokerUnreachableError, ControllerError
from controller.planning.volumes import volume_names

WITHIN_S: Final = 120.0
CLUSTER_ID_WITHIN_S: Final = 30.0
LOG_DIRS_VERSION_MAX: Final = 4
"""Since this version, brokers report the size of their volumes."""
METADATA_VERSION_MAX: Final = 8
"""Later versions change the encoding and name topics by id."""
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


@dataclass(frozen=True, slots=True)
class LedPartition:
    """The leader and the ISR of a partition."""

    partition: TopicPartition
    leader: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leading:
    """The content of a Metadata response."""

    cluster_id: str
    partitions: tuple[LedPartition, ...]


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

        async def hold(broker: LiveBroker, connection: Connection) -> Holdings:
            version = _version(connection, ApiKey.DescribeLogDirs, LOG_DIRS_VERSION_MAX)
            request = DescribeLogDirsRequest(topics=None, version=version)
            answer = await connection.ask(frame_of(request))
            return holdings_of(broker.id, answer, self._capacities(broker.id))

        deadline = time.monotonic() + within_s
        missing = len(brokers)
        with closing(ask_all(self._settings, brokers, hold, deadline=deadline)) as answers:
            for broker, answer in answers:
                if isinstance(answer, ControllerError):
                    why = f"broker {broker} does not report its log directories: {answer}"
                    raise BrokerUnreachableError(why) from answer
                missing -= 1
                yield answer
        if missing:
            raise BrokerUnreachableError("not all brokers answered in time")

    def leading(self, brokers: Collection[LiveBroker], *, with_topics: bool = True) -> Leading:
        """
        Return leaders, ISRs and the cluster's id from the first broker that answers.

        Raises:
            BrokerUnreachableError: no broker answers.

        """

        async def lead(_: LiveBroker, connection: Connection) -> Leading:
            request = MetadataRequest(
                topics=None if with_topics else [],
                allow_auto_topic_creation=False,
                version=_version(connection, ApiKey.Metadata, METADATA_VERSION_MAX),
            )
            return leading_of(await connection.ask(frame_of(request)))

        problem: ControllerError | None = None
        for broker in sorted(brokers, key=lambda b: b.id):
            deadline = time.monotonic() + WITHIN_S
            for _, answer in ask_all(self._settings, (broker,), lead, deadline=deadline):
                if isinstance(answer, Leading):
                    return answer
                problem = answer
        raise BrokerUnreachableError("no broker answers for all topics") from problem


def _version(connection: Connection, key: int, highest: int) -> int:
    return min(highest, connection.understood.get(key, (0, highest))[1])


def holdings_of(
    broker: BrokerId,
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    capacities: Mapping[str, int],
) -> Holdings:
    """Decode a DescribeLogDirs response, without future replicas of moves between disks."""
    replicas = tuple(
        HeldReplica(
            TopicPartition(topic.name, row.partition_index), directory.log_dir, row.partition_size
        )
        for directory in answer.results
        if not directory.error_code
        for topic in directory.topics
        for row in topic.partitions
        if not row.is_future_key
    )
    described = description_of(answer, {}).dirs
    dirs = tuple(directory.log_dir(capacities, is_whole=True) for directory in described)
    held = {directory.path: directory.bytes for directory in described}
    volumes = volume_names(dirs, held, separate=capacities)
    # A volume counts once.
    usable = {volumes[d.path]: d.usable for d in dirs if d.usable is not None}
    capacity = sum(r.size for r in replicas) + sum(usable.values()) if usable else None
    return Holdings(broker, replicas, capacity, dirs, volumes)


def leading_of(answer: Any) -> Leading:  # noqa: ANN401 - kafka-python has no types
    """Decode a Metadata response."""
    return Leading(
        answer.cluster_id or "",
        tuple(
            LedPartition(
                TopicPartition(topic.name, row.partition_index),
                row.leader_id,
                tuple(row.isr_nodes),
            )
            for topic in answer.topics
            if not topic.error_code
            for row in topic.partitions
        ),
    )


def cluster_id_of(
    bootstrap_servers: str, security: Security, *, within_s: float = CLUSTER_ID_WITHIN_S
) -> str:
    """
    Return the id of the cluster that brokers belong to.

    Args:
        bootstrap_servers: ``HOST:PORT[,HOST:PORT]``.
        security: TLS and SASL settings.
        within_s: How long to wait for an answer.

    Raises:
        BrokerUnreachableError: no broker answers.

    """
    try:
        client = AdminClient(
            {"bootstrap.servers": bootstrap_servers, "log_level": 0, **client_settings(security)}
        )
        # describe_cluster would wait for a broker that is the controller; in a tenure no broker is.
        return str(client.list_topics(timeout=within_s).cluster_id)
    except KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        raise BrokerUnreachableError(f"{bootstrap_servers} does not answer: {reason}") from error


def client_settings(security: Security) -> dict[str, str | bool]:
    """Return the security settings under librdkafka's names."""
    tls = security.tls
    wanted = {
        "security.protocol": security.security_protocol,
        "ssl.ca.location": tls.cafile,
        "ssl.certificate.location": tls.certfile,
        "ssl.key.location": tls.keyfile or tls.certfile,
        "ssl.key.password": None if tls.password is None else tls.password.reveal(),
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.sasl_username,
        "sasl.password": security.password(),
    }
    found: dict[str, str | bool] = {k: str(v) for k, v in wanted.items() if v is not None}
    if not tls.check_hostname:
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found
