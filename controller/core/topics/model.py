"""
The vocabulary of topics: a topic znode as last read or written.

The next write of a topic znode is based on its copy. Where a write was rejected the copy is stale,
and no decision uses it before it is read again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from controller.core import model
from controller.core.bases import Ledger, Lifetime
from controller.core.model import START, Instant, TopicPartition
from controller.kafka_errors import UNKNOWN_SERVER_ERROR


class ConfigRequest(NamedTuple):
    """A request for topic settings: its sequence number and the time it was made."""

    number: int
    at: Instant


NEVER_REQUESTED: Final = ConfigRequest(0, Instant(-math.inf))
"""Precedes every request: an answer to it is too old for any decision."""


BY_DEFAULT: Final = -1
"""A number that the client leaves to the brokers."""
TopicSettings = tuple[tuple[str, str], ...]
"""Name and value of settings of a new topic, each name once, sorted by name."""


class TopicResult(NamedTuple):
    """The result for one topic."""

    name: str
    error: int
    message: str | None = None
    num_partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    topic_id: str | None = None
    first_new: int = 0
    """The lowest number of a partition that is new."""
    czxid: model.Zxid = model.UNKNOWN_ZXID
    """The creation of a topic that is deleted: another one of the same name may follow at once."""

    @property
    def new_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions whose leaders are awaited."""
        return tuple(
            TopicPartition(self.name, number)
            for number in range(self.first_new, self.num_partitions)
        )

    def rejected(self, why: str) -> TopicResult:
        """Return the result of a topic that cannot be written."""
        return TopicResult(self.name, UNKNOWN_SERVER_ERROR, why)


@dataclass(slots=True)
class Topic:
    """A topic znode as last read or written; ``partitions`` is mutable."""

    partitions: dict[int, model.PartitionAssignment]
    version: model.ZkVersion
    czxid: model.Zxid
    topic_id: str | None
    """The id in the znode, or the last known one where a write of others left it out."""
    lacks_id: bool = False
    """Whether the znode has no id."""
    stale: bool = False
    """A write was rejected: nothing of this topic is decided before it is read again."""
    invalidated_in: int = 0
    """The read generation that made it stale: only a read that began later ends that."""
    read_in: int = 0
    """The read generation in which the newest read of it began."""
    unmarked: dict[int, model.Zxid] = field(default_factory=dict)
    """
    When each partition was last written, as far as known, by a release that does not mark AR and RR
    (Kafka 2.3); empty where the znode was marked when it was first read.
    """
    requests_before: int = 0
    """
    The newest settings request when this topic was first read: an answer to it, or to an older one,
    may describe a deleted topic of the same name.
    """

    def invalidate(self, generation: int) -> None:
        """Suspend decisions about it until a read that began in this generation or later."""
        self.stale, self.invalidated_in = True, generation

    @classmethod
    def of(cls, read: model.TopicAssignment, known_id: str | None = None) -> Topic:
        """
        Return a topic znode as it was read.

        ``known_id`` is the id of the same topic, for content that has none: a tool of before 2.8
        wrote it, and brokers would refuse another id for their logs.
        """
        return cls(
            dict(read.partitions),
            read.version,
            read.czxid,
            read.topic_id or known_id,
            lacks_id=read.topic_id is None,
        )


def is_no_news(read: model.ZkVersion, known: model.ZkVersion, *, stale: bool) -> bool:
    """Return whether a read was overtaken; an older read cannot confirm stale content."""
    return read < known or (read == known and not stale)


def unmarked_since(known: Topic | None, read: model.TopicAssignment) -> dict[int, model.Zxid]:
    """Return when each partition was written without marks; an unchanged one keeps its time."""
    if read.is_marked and (known is None or not known.unmarked):
        return {}
    before = {} if known is None else known.partitions
    kept = {} if known is None else known.unmarked
    return {
        n: kept[n] if n in kept and before.get(n) == assignment else read.mzxid
        for n, assignment in read.partitions.items()
    }


@dataclass(slots=True)
class TopicLedger(Ledger):
    """The topics and their settings as this session read them."""

    lifetime: ClassVar[Lifetime] = Lifetime.SESSION

    listed: frozenset[str] | None = None
    by_name: dict[str, Topic] = field(default_factory=dict)
    names_by_id: dict[str, str] = field(default_factory=dict)
    """The names of these topics by their ids."""
    without_id: set[str] = field(default_factory=set)
    """Those whose znode has no id."""
    missing: set[str] = field(default_factory=set)
    """
    Those of ``listed`` that the newest list or a read did not show; they were requested again.

    Until a read confirms that they are gone, they count as listed.
    """
    requested: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)
    configs: dict[str, model.TopicConfig] = field(default_factory=dict)
    """Settings requested within ``config_refresh``; older ones are removed, for every reader."""
    config_answers: dict[str, ConfigRequest] = field(default_factory=dict)
    """The request that each of ``configs`` answers."""
    config_oldest: Instant = START
    """No entry of ``config_answers`` was requested before this."""
    requested_configs: dict[str, ConfigRequest] = field(default_factory=dict)
    """The newest request for each topic; once it is answered, its time is that of the answer."""
    config_errors: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, topic: Topic) -> None:
        """Put a topic as it was read in the place of what was known of it."""
        self._forget_id(name)
        self.by_name[name] = topic
        if topic.topic_id is not None:
            self.names_by_id[topic.topic_id] = name
        if topic.lacks_id:
            self.without_id.add(name)

    def id_written(self, name: str, topic_id: str) -> None:
        """Note that the znode of a topic has this id now."""
        self._forget_id(name)
        self.by_name[name].topic_id, self.by_name[name].lacks_id = topic_id, False
        self.names_by_id[topic_id] = name

    def forget(self, name: str) -> Topic | None:
        """Forget a topic that is gone and its settings, and return what was known of it."""
        self._forget_id(name)
        self.configs.pop(name, None)
        self.config_answers.pop(name, None)
        self.requested_configs.pop(name, None)
        self.config_errors.pop(name, None)
        return self.by_name.pop(name, None)

    def _forget_id(self, name: str) -> None:
        self.without_id.discard(name)
        known = self.by_name.get(name)
        topic_id = None if known is None else known.topic_id
        if topic_id is not None and self.names_by_id.get(topic_id) == name:
            del self.names_by_id[topic_id]

    def name_of(self, name: str | None, topic_id: str | None) -> str | None:
        """Return the name of a topic that is named by either; None: no known one has the id."""
        return self.names_by_id.get(topic_id or "") if name is None else name

    def assignment(self, partition: TopicPartition) -> model.PartitionAssignment | None:
        """Return the entry of the topic znode, None for an unknown or stale partition."""
        topic = self.by_name.get(partition.topic)
        if topic is None or topic.stale:
            return None
        return topic.partitions.get(partition.partition)

    def known_assignment(self, partition: TopicPartition) -> model.PartitionAssignment | None:
        """Return the last known entry of the topic znode, even a stale one."""
        topic = self.by_name.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def assignments(self) -> Iterator[tuple[TopicPartition, model.PartitionAssignment]]:
        """Yield every partition of every known topic with its last known entry."""
        for name, topic in self.by_name.items():
            for number, assignment in topic.partitions.items():
                yield TopicPartition(name, number), assignment

    def partitions_of(self, name: str) -> tuple[TopicPartition, ...]:
        """Return the last known partitions of a topic."""
        topic = self.by_name.get(name)
        return () if topic is None else tuple(TopicPartition(name, n) for n in topic.partitions)

    def partitions(self) -> Iterable[TopicPartition]:
        """Return every partition of every known topic."""
        return (partition for partition, _ in self.assignments())


@dataclass(slots=True)
class TopicTenure(Ledger):
    """The topics that are being read in this tenure."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    reading: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TopicHistory(Ledger):
    """What only grows, so that an answer to an old request is recognised."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    config_request: ConfigRequest = NEVER_REQUESTED
    """The newest request for settings."""
