"""
Log directories of brokers (DescribeLogDirs, AlterReplicaLogDirs), implementing ``ports.LogDirs``.

Every broker has a line of its own, so that none waits for another; what waits in it is merged. A
broker reports its own replicas only. For very many partitions it is queried for all that it has:
listing them would be longer than the answer.

A broker from Kafka 3.3 on reports the free space of its log directories; that of an older one is
its configured capacity less all its logs. All logs are also needed to count them, where a broker
has several directories: it places a new one where it has the fewest.

Capacities are configured in a file, TOML or JSON: a table for each broker id, with the bytes of
each log directory; the table ``default`` holds for brokers without one of their own. It is read
again when it changes. A file that became invalid changes nothing: the capacities of before stay.

Invariants: every query results in one ``LogDirsDescribed`` for each broker, and every request in
one ``LogDirsAltered`` unless it was forgotten; no directory is requested later than ``FRESH_S``
after that was decided, as it may have been cancelled since.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from kafka.protocol.api_key import ApiKey

from controller.brokers.broker_connections import BrokerConnection, ConnectionLimits
from controller.brokers.broker_queries import PooledQuery
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.frames import Frame, by_topic, frame_of
from controller.core.cluster.model import LiveBroker
from controller.core.disks.placements import NO_ANSWER
from controller.core.disks.records import DirectoryResult, LogDirsAltered, LogDirsDescribed
from controller.core.model import BrokerId, LogDir, PlacedReplica, TopicPartition
from controller.errors import InvalidInputError, ProtocolError, TransientError
from controller.followed_files import FollowedFiles
from controller.units import parse_bytes

if TYPE_CHECKING:
    from controller.reactor.ports import Clock, Inbox

VERSION: Final = 1
"""The version of both requests that every broker serves."""
SPACE_VERSION: Final = 4
"""Adds the size and the free space of each directory's volume (Kafka 3.3)."""
NAMED_MAX: Final = 1_000
"""Largest number of partitions that a request lists."""
REFUSED: Final = (
    "it does not describe its log directories: the daemon needs Describe on the cluster"
)
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=20.0)
_DEFAULT: Final = "default"
FRESH_S: Final = 6.0
"""Seconds in which a directory must be requested; connecting may take most of them."""


Capacities = Callable[[BrokerId], Mapping[str, int]]
"""Configured bytes of each log directory of a broker; empty for a broker that is not configured."""


def no_capacities(_broker: BrokerId) -> Mapping[str, int]:
    """Return no capacity for any broker."""
    return {}


@dataclass(frozen=True, slots=True)
class _Query:
    """What brokers are queried about."""

    partitions: frozenset[TopicPartition]
    is_whole: bool
    encoded: dict[tuple[int, bool], Frame] = field(default_factory=dict, compare=False)

    def merge_with(self, later: _Query) -> _Query:
        """Return one query instead of this and a later one."""
        is_whole = self.is_whole or later.is_whole
        if (later.partitions, later.is_whole) == (self.partitions, is_whole):
            return later
        return _Query(self.partitions | later.partitions, is_whole)

    def request(self, version: int, *, is_whole: bool) -> Frame:
        """Return the request, encoded once for all brokers: with many partitions it takes long."""
        key = version, is_whole
        if key not in self.encoded:
            request = _describe_request(self.partitions, version, is_whole=is_whole)
            self.encoded[key] = frame_of(request)
        return replace(self.encoded[key])  # each connection sets its own header


@dataclass(slots=True)
class _Line:
    """What waits for one registration of a broker."""

    broker: LiveBroker
    query: _Query | None = None
    alterations: dict[TopicPartition, str] = field(default_factory=dict)
    since: float = 0.0
    """When the first of them was requested."""
    is_busy: bool = False


class BrokerLogDirs(PooledQuery):
    """Implements ``reactor.ports.LogDirs``."""

    limits = LIMITS

    def __init__(
        self,
        inbox: Inbox,
        connections: ConnectionSettings,
        clock: Clock,
        capacities: Capacities = no_capacities,
    ) -> None:
        """Prepare; see ``BrokerQuery``. The clock is the loop's."""
        super().__init__("log-dirs", inbox, connections)
        self._clock = clock
        self._capacities = capacities
        # Touched on the IO thread only:
        self._lines: dict[LiveBroker, _Line] = {}
        self._several: set[BrokerId] = set()
        """Brokers with several directories: their logs are counted in each."""

    def describe(
        self, brokers: Sequence[LiveBroker], partitions: Sequence[TopicPartition], *, is_whole: bool
    ) -> None:
        """Query in the background; see ``reactor.ports.LogDirs``."""
        query, queried = _Query(frozenset(partitions), is_whole), tuple(brokers)
        self._io.post(lambda: self._add_query(queried, query))

    def alter(self, broker: LiveBroker, replicas: Mapping[TopicPartition, str]) -> None:
        """Request in the background; see ``reactor.ports.LogDirs``."""
        wanted, since = dict(replicas), time.monotonic()
        self._io.post(lambda: self._add_alterations(broker, wanted, since))

    def forget(self) -> None:
        """Drop the requested directories that were not sent."""
        self._io.post(self._clear)

    # --- on the IO thread ----------------------------------------------------------------------

    def _clear(self) -> None:
        for line in self._lines.values():
            line.alterations = {}

    def _add_query(self, brokers: Sequence[LiveBroker], query: _Query) -> None:
        for broker in brokers:
            line = self._lines.setdefault(broker, _Line(broker))
            line.query = query if line.query is None else line.query.merge_with(query)
            self._begin(line)

    def _add_alterations(
        self, broker: LiveBroker, wanted: Mapping[TopicPartition, str], since: float
    ) -> None:
        line = self._lines.setdefault(broker, _Line(broker))
        line.since = min(line.since, since) if line.alterations else since
        line.alterations.update(wanted)
        self._begin(line)

    def _begin(self, line: _Line) -> None:
        if not line.is_busy:
            line.is_busy = True
            self._io.spawn(lambda: self._work(line))

    async def _work(self, line: _Line) -> None:
        """Carry out what waits; alterations first, which the answers to queries then show."""
        while line.alterations or line.query is not None:
            if line.alterations:
                alterations, line.alterations = line.alterations, {}
                self._inbox.put(await self._alter(line.broker, alterations, line.since))
            elif line.query is not None:
                query, line.query = line.query, None
                self._inbox.put(await self._describe(line.broker, query))
        del self._lines[line.broker]

    async def _alter(
        self, broker: LiveBroker, alterations: Mapping[TopicPartition, str], since: float
    ) -> LogDirsAltered:
        try:
            connection = await self._open_connection(broker)
            if time.monotonic() - since > FRESH_S:
                problem = "it took too long to reach the broker"
            else:
                answer = await connection.send_and_receive(frame_of(alter_request(alterations)))
                return LogDirsAltered(broker.id, broker.epoch, results_of(answer, alterations))
        except (TransientError, ProtocolError) as error:
            self._close(broker.id)
            problem = str(error)
        results = (DirectoryResult(p, d, NO_ANSWER, problem) for p, d in alterations.items())
        return LogDirsAltered(broker.id, broker.epoch, tuple(results))

    async def _describe(self, broker: LiveBroker, query: _Query) -> LogDirsDescribed:
        silent = LogDirsDescribed(broker.id, broker.epoch, self._clock.now(), query.partitions)
        try:
            connection = await self._open_connection(broker)
            version = version_of(connection)
            capacities = {} if version >= SPACE_VERSION else self._capacities(broker.id)
            is_whole = (
                bool(capacities)
                or (query.is_whole and broker.id in self._several)
                or len(query.partitions) > NAMED_MAX
            )
            at = self._clock.now()
            answer = await connection.send_and_receive(query.request(version, is_whole=is_whole))
        except (TransientError, ProtocolError) as error:
            self._close(broker.id)
            is_refused = isinstance(error, ProtocolError)
            return replace(silent, problem=str(error), is_refused=is_refused)
        if not answer.results:
            # Before version 3 there is no error code for a missing permission.
            return replace(silent, problem=REFUSED, is_refused=True)
        found = description_of(answer, query.partitions)
        (self._several.add if len(found.dirs) > 1 else self._several.discard)(broker.id)
        dirs = tuple(d.log_dir(capacities, is_whole=is_whole) for d in found.dirs)
        return replace(silent, at=at, dirs=dirs, replicas=found.replicas)


def version_of(connection: BrokerConnection) -> int:
    """Return the version of the query that a broker is sent."""
    highest = connection.version(ApiKey.DescribeLogDirs, SPACE_VERSION, unknown=VERSION)
    return SPACE_VERSION if highest == SPACE_VERSION else VERSION


async def describe_all(connection: BrokerConnection) -> Any:  # noqa: ANN401 - kafka-python has no types
    """Return a broker's answer with everything that it has."""
    request = _describe_request((), version_of(connection), is_whole=True)
    return await connection.send_and_receive(frame_of(request))


def _describe_request(partitions: Iterable[TopicPartition], version: int, *, is_whole: bool) -> Any:  # noqa: ANN401 - kafka-python has no types
    topics = None if is_whole else by_topic(sorted(partitions))
    return DescribeLogDirsRequest(topics=topics, version=version)


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
    """What a broker describes: its directories, and the wanted replicas in them."""

    dirs: tuple[_Directory, ...]
    replicas: Mapping[TopicPartition, PlacedReplica]


def description_of(
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    wanted: Container[TopicPartition] | None = None,
) -> Description:
    """Decode a response; without ``wanted``, with all replicas outside of failed directories."""
    current: dict[TopicPartition, tuple[str, int]] = {}
    futures: dict[TopicPartition, tuple[str, int]] = {}
    dirs = []
    for result in answer.results:
        total, usable = getattr(result, "total_bytes", -1), getattr(result, "usable_bytes", -1)
        directory = _Directory(result.log_dir, total, usable, bool(result.error_code))
        dirs.append(directory)
        if directory.is_failed:
            continue
        for topic in result.topics:
            for row in topic.partitions:
                size = max(0, row.partition_size)
                directory.logs += 1
                directory.bytes += size
                partition = TopicPartition(topic.name, row.partition_index)
                if wanted is None or partition in wanted:
                    found = futures if row.is_future_key else current
                    found[partition] = result.log_dir, size
    replicas = {
        p: PlacedReplica(*current.get(p, (None, 0)), *futures.get(p, (None, 0)))
        for p in {**current, **futures}
    }
    return Description(tuple(dirs), replicas)


def alter_request(replicas: Mapping[TopicPartition, str]) -> Any:  # noqa: ANN401 - kafka-python has no types
    """Return the request for a directory of each replica."""
    dirs: dict[str, list[TopicPartition]] = {}
    for partition, directory in replicas.items():
        dirs.setdefault(directory, []).append(partition)
    return AlterReplicaLogDirsRequest(
        dirs=[(directory, by_topic(own)) for directory, own in dirs.items()], version=VERSION
    )


def results_of(
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    replicas: Mapping[TopicPartition, str],
) -> tuple[DirectoryResult, ...]:
    """Return the result of each requested replica, also where the response omits one."""
    found = {
        TopicPartition(topic.topic_name, row.partition_index): row.error_code
        for topic in answer.results
        for row in topic.partitions
    }
    return tuple(
        DirectoryResult(p, d, found[p])
        if p in found
        else DirectoryResult(p, d, NO_ANSWER, "the response omits it")
        for p, d in replicas.items()
    )


# --- configured capacities ----------------------------------------------------------------------


class DiskCapacities:
    """The capacities in a file; called with a broker, it returns the bytes by directory."""

    def __init__(self, path: Path, problem: Callable[[str], None]) -> None:
        """
        Read the file; ``problem`` is called with what is wrong when it became invalid.

        Raises:
            InvalidInputError: the file cannot be read, or is invalid.
        """
        self._tables = FollowedFiles((path,), lambda: read_capacities(path), problem)

    def __call__(self, broker: BrokerId) -> Mapping[str, int]:
        """Return the capacities of a broker, of the present file."""
        tables = self._tables.content()
        return tables.get(str(broker), tables.get(_DEFAULT, {}))


def read_capacities(path: Path) -> Mapping[str, Mapping[str, int]]:
    """
    Read and check a file of capacities.

    Raises:
        InvalidInputError: it cannot be read, or a value is wrong; the message names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise InvalidInputError(f"{path}: not a {kind} file: {error}") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: must be a table of brokers")
    return {name: _directories(path, name, table) for name, table in content.items()}


def _directories(path: Path, name: str, table: object) -> Mapping[str, int]:
    where = f"{path}, {name}"
    if name != _DEFAULT and not (name.isascii() and name.isdigit()):
        raise InvalidInputError(f"{where}: must be a broker id or {_DEFAULT!r}")
    if not isinstance(table, dict):
        raise InvalidInputError(f"{where}: must be a table of log directories and their bytes")
    capacities = {}
    for directory, value in table.items():
        if not directory.startswith("/"):
            raise InvalidInputError(f"{where}: {directory!r} is not an absolute path")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidInputError(f"{where}, {directory}: must be bytes such as '2TB'")
        capacities[directory] = parse_bytes(f"{where}, {directory}", str(value))
    return capacities
