"""
Where brokers have replicas, and requests to have them elsewhere (KIP-113).

Implements ``reactor.ports.Directories`` by DescribeLogDirs and AlterReplicaLogDirs. The latter goes
to the broker of the replica and needs Alter on the cluster. Every broker has a line of its own, so
that none waits for another; requests that wait in it are merged.

Invariants: every request is answered by an event, unless it was forgotten; no alteration is sent
later than ``FRESH_S`` after it was requested, as it may have been cancelled since.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest

from controller.brokers.broker_queries import PooledQuery
from controller.brokers.connections import ConnectionLimits
from controller.brokers.endpoints import ListenerChoice, Security
from controller.brokers.log_dirs import NAMED_MAX, REFUSED
from controller.brokers.messages import frame_of
from controller.core.disks.directory_ledger import NO_ANSWER
from controller.core.disks.records import DirectoryResult, LogDirsAltered, LogDirsDescribed
from controller.core.model import LiveBroker, PlacedReplica, TopicPartition
from controller.errors import ProtocolError, TransientError
from controller.reactor.ports import Clock, Inbox

VERSION: Final = 1
"""Of both requests: what every broker serves."""
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=20.0)
FRESH_S: Final = 6.0
"""Seconds in which an alteration must be sent; connecting may take most of them."""


@dataclass(slots=True)
class _Line:
    """What waits for one registration of a broker."""

    broker: LiveBroker
    since: float = 0.0
    alterations: dict[TopicPartition, str] = field(default_factory=dict)
    questions: list[tuple[TopicPartition, ...]] = field(default_factory=list)
    is_busy: bool = False


class ReplicaDirectories(PooledQuery):
    """Implements ``reactor.ports.Directories``."""

    limits = LIMITS

    def __init__(
        self, inbox: Inbox, security: Security, listeners: ListenerChoice, clock: Clock
    ) -> None:
        """
        Prepare; see ``BrokerQuery``.

        Args:
            inbox: Receives the answers.
            security: TLS and SASL settings.
            listeners: The choice of a broker's listener.
            clock: The clock of the loop.

        """
        super().__init__("replica-directories", inbox, security, listeners)
        self._clock = clock
        # Touched on the IO thread only:
        self._lines: dict[LiveBroker, _Line] = {}

    def describe(self, broker: LiveBroker, partitions: Sequence[TopicPartition]) -> None:
        """Query in the background; see ``reactor.ports.Directories``."""
        wanted = tuple(partitions)
        self._io.post(lambda: self._add(broker, question=wanted))

    def alter(self, broker: LiveBroker, replicas: Mapping[TopicPartition, str]) -> None:
        """Request in the background; see ``reactor.ports.Directories``."""
        wanted, since = dict(replicas), time.monotonic()
        self._io.post(lambda: self._add(broker, alterations=wanted, since=since))

    def forget(self) -> None:
        """Drop what was not sent."""
        self._io.post(self._clear)

    # --- on the IO thread ----------------------------------------------------------------------

    def _clear(self) -> None:
        for line in self._lines.values():
            line.alterations = {}
            line.questions = []

    def _add(
        self,
        broker: LiveBroker,
        *,
        question: tuple[TopicPartition, ...] | None = None,
        alterations: Mapping[TopicPartition, str] | None = None,
        since: float = 0.0,
    ) -> None:
        line = self._lines.setdefault(broker, _Line(broker))
        if question is not None:
            line.questions.append(question)
        if alterations:
            line.since = min(line.since, since) if line.alterations else since
            line.alterations.update(alterations)
        if not line.is_busy:
            line.is_busy = True
            self._io.spawn(lambda: self._work(line))

    async def _work(self, line: _Line) -> None:
        """Carry out what waits; alterations first, which the answers to questions then show."""
        while line.alterations or line.questions:
            if line.alterations:
                alterations, line.alterations = line.alterations, {}
                self._inbox.put(await self._altered(line.broker, alterations, line.since))
            else:
                question, line.questions = line.questions, []
                wanted = dict.fromkeys(p for named in question for p in named)
                self._inbox.put(await self._described(line.broker, wanted))
        del self._lines[line.broker]

    async def _altered(
        self, broker: LiveBroker, alterations: Mapping[TopicPartition, str], since: float
    ) -> LogDirsAltered:
        try:
            connection = await self._connected(broker)
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

    async def _described(
        self, broker: LiveBroker, wanted: Mapping[TopicPartition, None]
    ) -> LogDirsDescribed:
        at, requested = self._clock.now(), frozenset(wanted)
        try:
            connection = await self._connected(broker)
            at = self._clock.now()
            answer = await connection.send_and_receive(frame_of(_describe_request(wanted)))
        except (TransientError, ProtocolError) as error:
            self._close(broker.id)
            return LogDirsDescribed(broker.id, broker.epoch, at, {}, requested, problem=str(error))
        if not answer.results:
            # Before version 3 there is no error code for a missing permission.
            return LogDirsDescribed(broker.id, broker.epoch, at, {}, requested, problem=REFUSED)
        dirs = {d.log_dir: bool(d.error_code) for d in answer.results}
        placed = placed_in(answer, wanted)
        return LogDirsDescribed(broker.id, broker.epoch, at, dirs, requested, placed)


def alter_request(replicas: Mapping[TopicPartition, str]) -> Any:  # noqa: ANN401 - kafka-python has no types
    """Return the request for a directory of each replica."""
    dirs: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), directory in replicas.items():
        dirs.setdefault(directory, {}).setdefault(topic, []).append(partition)
    return AlterReplicaLogDirsRequest(
        dirs=[(directory, list(topics.items())) for directory, topics in dirs.items()],
        version=VERSION,
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


def _describe_request(wanted: Mapping[TopicPartition, None]) -> Any:  # noqa: ANN401 - kafka-python has no types
    if len(wanted) > NAMED_MAX:
        return DescribeLogDirsRequest(topics=None, version=VERSION)
    topics: dict[str, list[int]] = {}
    for topic, partition in wanted:
        topics.setdefault(topic, []).append(partition)
    return DescribeLogDirsRequest(topics=list(topics.items()), version=VERSION)


def placed_in(
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    wanted: Mapping[TopicPartition, None],
) -> dict[TopicPartition, PlacedReplica]:
    """Return where the wanted replicas are; those in failed directories are not listed."""
    current: dict[TopicPartition, str] = {}
    futures: dict[TopicPartition, tuple[str, int]] = {}
    for result in answer.results:
        for topic in result.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if partition not in wanted:
                    continue
                if row.is_future_key:
                    futures[partition] = result.log_dir, max(0, row.partition_size)
                else:
                    current[partition] = result.log_dir
    return {
        p: PlacedReplica(current.get(p), *futures.get(p, (None, 0))) for p in {**current, **futures}
    }
