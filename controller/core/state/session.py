"""
What the reads of one ZooKeeper session established.

Its watches report every later change, and they are lost with the session: then a new one takes its
place (``tenure_reset.end_session``), and everything is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from controller.core import model
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import START, Instant, RequestId, TopicPartition
from controller.core.requests.model import AtomicCheck
from controller.core.requests.submissions import Submission
from controller.core.role.records import ClaimGuardsRead
from controller.core.topics.model import Topic


@dataclass(slots=True)
class SessionState(Ledger):
    """The reads of this session, answered and requested."""

    lifetime: ClassVar[Lifetime] = Lifetime.SESSION

    # topics and what surrounds them
    listed: frozenset[str] | None = None
    topics: dict[str, Topic] = field(default_factory=dict)
    names_by_id: dict[str, str] = field(default_factory=dict)
    """The names of these topics by their ids."""
    without_id: set[str] = field(default_factory=set)
    """Those whose znode has no id."""
    missing_topics: set[str] = field(default_factory=set)
    """Listed topics whose znode was missing when it was read; they were requested again."""
    requested_topics: set[str] = field(default_factory=set)
    unreadable_topics: dict[str, str] = field(default_factory=dict)
    guards: ClaimGuardsRead | None = None
    legacy_read: bool = False
    queue_read: bool = False
    cancellation_read: bool = False
    controls_read: bool = False
    kill_switch: bool | None = None
    """Whether ``/admin/reassign_cancel`` exists; None until that is known."""

    # settings of topics
    configs: dict[str, model.TopicConfig] = field(default_factory=dict)
    """
    Settings of topics requested within ``config_refresh``; older ones are removed.

    Every reader thus obeys the same rule of freshness (``topic_configs.forget_old_configs``).
    """
    config_answers: dict[str, model.ConfigRequest] = field(default_factory=dict)
    """The request that each of ``configs`` answers."""
    config_oldest: Instant = START
    """No entry of ``config_answers`` was requested before this."""
    requested_configs: dict[str, model.ConfigRequest] = field(default_factory=dict)
    """The newest request for each topic; once it is answered, its time is that of the answer."""
    config_errors: dict[str, str] = field(default_factory=dict)

    # submitted requests
    submissions_listed: frozenset[str] | None = None
    submissions: dict[str, Submission] = field(default_factory=dict)
    """Requests that are not completely accepted yet, in the order of their names."""
    requested_submissions: set[str] = field(default_factory=set)
    left_submissions: set[str] = field(default_factory=set)
    """Request znodes that could not be deleted; left alone for a while."""
    judged: dict[str, int] = field(default_factory=dict)
    """The number of entries of a submission that were accepted or refused, from the first on."""
    atomic_checks: dict[RequestId, AtomicCheck] = field(default_factory=dict)
    """The facts by which atomic requests were last judged acceptable as a whole."""
    requested_accepted: set[RequestId] = field(default_factory=set)

    def put_topic(self, name: str, topic: Topic) -> None:
        """Put a topic as it was read in the place of what was known of it."""
        self._forget_id(name)
        self.topics[name] = topic
        if topic.topic_id is not None:
            self.names_by_id[topic.topic_id] = name
        if topic.lacks_id:
            self.without_id.add(name)

    def id_written(self, name: str, topic_id: str) -> None:
        """Note that the znode of a topic has this id now."""
        self._forget_id(name)
        self.topics[name].topic_id, self.topics[name].lacks_id = topic_id, False
        self.names_by_id[topic_id] = name

    def pop_topic(self, name: str) -> Topic | None:
        """Remove a topic, and return what was known of it."""
        self._forget_id(name)
        return self.topics.pop(name, None)

    def _forget_id(self, name: str) -> None:
        self.without_id.discard(name)
        known = self.topics.get(name)
        topic_id = None if known is None else known.topic_id
        if topic_id is not None and self.names_by_id.get(topic_id) == name:
            del self.names_by_id[topic_id]

    def name_of(self, name: str | None, topic_id: str | None) -> str | None:
        """Return the name of a topic that is named by either; None: no known one has the id."""
        return self.names_by_id.get(topic_id or "") if name is None else name

    def assignment(self, partition: TopicPartition) -> model.PartitionAssignment | None:
        """Return the entry of the topic znode, None for an unknown or stale partition."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.stale:
            return None
        return topic.partitions.get(partition.partition)

    def known_assignment(self, partition: TopicPartition) -> model.PartitionAssignment | None:
        """Return the last known entry of the topic znode, even a stale one."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def assignments(self) -> Iterator[tuple[TopicPartition, model.PartitionAssignment]]:
        """Yield every partition of every known topic with its last known entry."""
        for name, topic in self.topics.items():
            for number, assignment in topic.partitions.items():
                yield TopicPartition(name, number), assignment

    def partitions(self) -> Iterable[TopicPartition]:
        """Return every partition of every known topic."""
        return (
            TopicPartition(name, number)
            for name, topic in self.topics.items()
            for number in topic.partitions
        )
