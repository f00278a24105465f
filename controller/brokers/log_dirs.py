"""
Sizes of replicas and free space of disks (DescribeLogDirs), implementing ``reactor.ports.Sizes``.

A broker reports its own replicas only, so all live brokers are queried, or those with a replica of
what is to be measured, several at a time. For very
many partitions a broker is queried for all it has: listing them would be longer than the answer.

A broker from Kafka 3.3 on reports the free space of its log directories; that of an older one is
its configured capacity less all its logs. All logs are also needed to count them, where a broker
has several directories: it places a new one where it has the fewest.

Invariants: every query results in one ``SizesRead``, with the sizes that were reported; a broker
that does not answer is named in it, and delays it by no more than its timeouts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.api_key import ApiKey

from controller.brokers.broker_queries import PooledQuery
from controller.brokers.connections import ConnectionLimits
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.messages import Frame, frame_of
from controller.core.disks.records import SizesRead
from controller.core.model import (
    NO_BROKERS,
    BrokerDisks,
    BrokerId,
    LiveBroker,
    LogDir,
    TopicPartition,
)
from controller.errors import ProtocolError, TransientError
from controller.reactor.ports import Clock, Inbox

VERSION: Final = 1
"""What every broker serves."""
SPACE_VERSION: Final = 4
"""Adds the size and the free space of each directory's volume (Kafka 3.3)."""
NAMED_MAX: Final = 1_000
"""Largest number of partitions that a request lists."""
DETAILED_MAX: Final = 20_000
"""Largest number of partitions for which the size of each replica is reported."""
REFUSED: Final = (
    "it does not describe its log directories: the daemon needs Describe on the cluster"
)
AT_ONCE: Final = 8
"""Brokers queried at the same time."""
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=20.0)


Capacities = Callable[[BrokerId], Mapping[str, int]]
"""Configured bytes of each log directory of a broker; empty for a broker that is not configured."""


def no_capacities(_broker: BrokerId) -> Mapping[str, int]:
    """Return no capacity for any broker."""
    return {}


@dataclass(slots=True)
class _Round:
    """One query to all brokers."""

    wanted: Mapping[TopicPartition, None]
    whole: bool
    left: deque[LiveBroker]
    brokers: frozenset[BrokerId] = NO_BROKERS
    unanswered: int = 0
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    errors: dict[BrokerId, str] = field(default_factory=dict)
    unable: set[BrokerId] = field(default_factory=set)
    replicas: dict[TopicPartition, dict[BrokerId, int]] = field(default_factory=dict)
    placed: dict[TopicPartition, dict[BrokerId, str]] = field(default_factory=dict)
    disks: dict[BrokerId, BrokerDisks] = field(default_factory=dict)
    encoded: dict[tuple[int, bool], Frame] = field(default_factory=dict)

    def question(self, version: int, *, whole: bool) -> Frame:
        """
        Return the request for one more broker.

        It is encoded once for all brokers, as this takes long with many partitions.

        Raises:
            ProtocolError: a value cannot be encoded.

        """
        key = version, whole
        if key not in self.encoded:
            self.encoded[key] = frame_of(_request(self.wanted, version, whole=whole))
        return replace(self.encoded[key])  # each connection sets its own header

    def add(self, broker: BrokerId, found: Description, *, has_several: bool) -> None:
        """Take the answer of a broker."""
        is_detailed = len(self.wanted) <= DETAILED_MAX
        for partition, (size, path) in found.replicas.items():
            self.sizes[partition] = max(size, self.sizes.get(partition, 0))
            if is_detailed:
                self.replicas.setdefault(partition, {})[broker] = size
                if has_several:
                    self.placed.setdefault(partition, {})[broker] = path


@dataclass(slots=True)
class _Line:
    """Queries that follow each other: what is requested during one is the next."""

    wanted: dict[TopicPartition, None] = field(default_factory=dict)
    brokers: set[BrokerId] = field(default_factory=set)
    """The brokers of the next query; none means all."""
    whole: bool = False
    is_requested: bool = False
    is_busy: bool = False


class LogDirQuery(PooledQuery):
    """
    Implements ``reactor.ports.Sizes``.

    A query to a few brokers does not wait for one to all, which takes long with many partitions.
    """

    limits = LIMITS

    def __init__(
        self,
        inbox: Inbox,
        security: Security,
        listeners: ListenerChoice,
        clock: Clock,
        capacities: Capacities = no_capacities,
    ) -> None:
        """
        Prepare; see ``BrokerQuery``.

        Args:
            inbox: Receives the answers.
            security: TLS and SASL settings.
            listeners: The choice of a broker's listener.
            clock: The clock of the loop.
            capacities: Returns the configured capacities of an old broker.

        """
        super().__init__("log-dirs", inbox, security, listeners)
        self._clock = clock
        self._capacities = capacities
        # Touched on the IO thread only:
        self._several: set[BrokerId] = set()
        """Brokers with several directories: their logs are counted in each."""
        self._of_all = _Line()
        self._of_some = _Line()

    def measure(
        self,
        partitions: Sequence[TopicPartition],
        *,
        whole: bool,
        brokers: frozenset[BrokerId] = NO_BROKERS,
    ) -> None:
        """Query in the background; see ``reactor.ports.Sizes``."""
        wanted = dict.fromkeys(partitions)
        self._io.post(lambda: self._enqueue(wanted, brokers, whole=whole))

    # --- on the IO thread ----------------------------------------------------------------------

    def _enqueue(
        self, wanted: Mapping[TopicPartition, None], brokers: frozenset[BrokerId], *, whole: bool
    ) -> None:
        line = self._of_some if brokers else self._of_all
        line.wanted.update(wanted)
        line.brokers |= brokers
        line.whole = line.whole or whole
        line.is_requested = True
        if not line.is_busy:
            self._begin(line)

    def _begin(self, line: _Line) -> None:
        """Query brokers for the partitions requested since the last query."""
        only = line.brokers or self._brokers.keys()
        brokers = deque(broker for n, broker in sorted(self._brokers.items()) if n in only)
        begun = _Round(line.wanted, line.whole, brokers, frozenset(line.brokers))
        line.wanted, line.brokers, line.whole, line.is_requested = {}, set(), False, False
        line.is_busy = True
        if not brokers:
            self._end(line, begun)
        for _ in range(min(AT_ONCE, len(brokers))):
            begun.unanswered += 1
            self._io.spawn(lambda: self._work(line, begun))

    async def _work(self, line: _Line, current: _Round) -> None:
        """Query one broker after the other; the last worker delivers the result."""
        while current.left:
            broker = current.left.popleft()
            try:
                await self._query(broker, current)
            except (TransientError, ProtocolError) as error:
                current.errors[broker.id] = str(error)
                if isinstance(error, ProtocolError):
                    current.unable.add(broker.id)
                self._close(broker.id)
        current.unanswered -= 1
        if not current.unanswered:
            self._end(line, current)

    def _end(self, line: _Line, current: _Round) -> None:
        line.is_busy = False
        self._inbox.put(
            SizesRead(
                current.sizes,
                current.errors,
                current.replicas,
                frozenset(current.wanted.keys() - current.sizes.keys()),
                current.disks,
                current.placed,
                frozenset(current.unable),
                current.brokers,
            )
        )
        if line.is_requested:
            self._begin(line)

    async def _query(self, broker: LiveBroker, current: _Round) -> None:
        """Query a broker for the partitions and its directories."""
        connection = await self._connected(broker)
        _, highest = connection.understood.get(ApiKey.DescribeLogDirs, (0, VERSION))
        version = SPACE_VERSION if highest >= SPACE_VERSION else VERSION
        capacities = {} if version >= SPACE_VERSION else self._capacities(broker.id)
        needs_all = current.whole and (bool(capacities) or broker.id in self._several)
        is_whole = needs_all or len(current.wanted) > NAMED_MAX
        at = self._clock.now()
        answer = await connection.send_and_receive(current.question(version, whole=is_whole))
        if not answer.results:
            # Before version 3 there is no error code for a missing permission.
            current.errors[broker.id] = REFUSED
            current.unable.add(broker.id)
            return
        found = description_of(answer, current.wanted)
        has_several = len(found.dirs) > 1
        (self._several.add if has_several else self._several.discard)(broker.id)
        current.add(broker.id, found, has_several=has_several)
        if capacities and not is_whole:
            return  # Without all its logs, the free space is unknown: the last one stays.
        dirs = tuple(d.log_dir(capacities, is_whole=is_whole) for d in found.dirs)
        current.disks[broker.id] = BrokerDisks(broker.epoch, at, dirs)


def _request(wanted: Mapping[TopicPartition, None], version: int, *, whole: bool) -> Any:  # noqa: ANN401 - kafka-python has no types
    if whole:
        return DescribeLogDirsRequest(topics=None, version=version)
    topics: dict[str, list[int]] = {}
    for topic, partition in wanted:
        topics.setdefault(topic, []).append(partition)
    return DescribeLogDirsRequest(topics=list(topics.items()), version=version)


@dataclass(slots=True)
class _Directory:
    """A log directory as described."""

    path: str
    total: int
    usable: int
    is_failed: bool
    logs: int = 0
    bytes: int = 0

    def log_dir(self, capacities: Mapping[str, int], *, is_whole: bool) -> LogDir:
        """Return the value for the core, with a configured capacity where none is reported."""
        logs = self.logs if is_whole else None
        if self.is_failed:
            return LogDir(self.path, is_failed=True)
        if self.usable >= 0:
            return LogDir(self.path, self.total, self.usable, logs)
        capacity = capacities.get(self.path)
        if capacity is None:
            return LogDir(self.path, logs=logs)
        usable = max(0, capacity - self.bytes)
        return LogDir(self.path, capacity, usable, logs, is_estimate=True)


class Description(NamedTuple):
    """What a broker describes: its directories, and the wanted replicas with their directories."""

    dirs: tuple[_Directory, ...]
    replicas: Mapping[TopicPartition, tuple[int, str]]


def description_of(
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    wanted: Container[TopicPartition],
) -> Description:
    """Decode a response; failed directories and future replicas have no size."""
    replicas: dict[TopicPartition, tuple[int, str]] = {}
    dirs = []
    for result in answer.results:
        total, usable = getattr(result, "total_bytes", -1), getattr(result, "usable_bytes", -1)
        directory = _Directory(result.log_dir, total, usable, bool(result.error_code))
        dirs.append(directory)
        if directory.is_failed:
            continue
        for topic in result.topics:
            for row in topic.partitions:
                directory.logs += 1
                directory.bytes += max(0, row.partition_size)
                partition = TopicPartition(topic.name, row.partition_index)
                if partition in wanted and not row.is_future_key and row.partition_size >= 0:
                    size, _ = replicas.get(partition, (-1, ""))
                    if row.partition_size > size:
                        replicas[partition] = row.partition_size, result.log_dir
    return Description(tuple(dirs), replicas)
