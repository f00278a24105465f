"""
Everything the checks look at, as values: the znodes and what brokers said.

Made by ``zk.surveys`` and ``brokers.broker_survey``. Reading takes a while and the cluster goes
on meanwhile, so what is compared with the brokers' disks is what the topic znodes said before *and*
after the disks were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core.applied_throttles import AppliedThrottle, Entity
from controller.core.events import ClaimGuardsRead, Orphan
from controller.core.model import (
    BrokerId,
    LegacyPlan,
    LiveBroker,
    PartitionAssignment,
    PartitionState,
    ReassignmentSpec,
    TopicAssignment,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Disks:
    """What one broker says of its log directories (DescribeLogDirs)."""

    replicas: frozenset[TopicPartition]
    """Those with a directory, ones being deleted aside."""
    failed: tuple[str, ...] = ()
    """Log directories that are offline."""
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Bytes of each replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswers:
    """What the brokers said; a text says why one did not."""

    disks: Mapping[BrokerId, Disks | str] = field(default_factory=dict)
    min_insync_replicas: Mapping[str, int | str] = field(default_factory=dict)
    """Effective ``min.insync.replicas`` by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Znodes:
    """What ZooKeeper holds; what could not be understood is in ``unreadable`` by its path."""

    brokers: Mapping[BrokerId, LiveBroker]
    topics: Mapping[str, TopicAssignment]
    states: Mapping[TopicPartition, PartitionState]
    specs: Mapping[TopicPartition, ReassignmentSpec] = field(default_factory=dict)
    orphans: frozenset[Orphan] = frozenset()
    legacy: LegacyPlan | None = None
    deletions: frozenset[str] = frozenset()
    guards: ClaimGuardsRead | None = None
    daemons: tuple[str | None, ...] = ()
    """Where each daemon says it answers, the leader first; None for one that cannot be read."""
    kill_switch: bool = False
    notifications: Mapping[str, int] = field(default_factory=dict)
    """Nodes in each directory of notifications, by its path."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the larger znodes and of listings, by path."""
    acls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Permissions of Kafka's roots and of ours, by path."""
    topic_throttles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broker_throttles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the name of the znode: a broker id, or ``<default>``."""
    applied_throttles: Mapping[Entity, AppliedThrottle] = field(default_factory=dict)
    """What we set of throttles, and what stood there before."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    """Paths that ZooKeeper does not let us read; what they hold is taken for absent here."""

    def is_hidden(self, *roots: str) -> bool:
        """Return whether one of these znodes, or one below them, may not be read."""
        return any(p == root or p.startswith(f"{root}/") for p in self.hidden for root in roots)

    def assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return what the topic znode says of a partition."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look at the cluster."""

    znodes: Znodes
    topics_before: Mapping[str, TopicAssignment]
    """The topic znodes as they were before the brokers were asked."""
    brokers: BrokerAnswers = field(default_factory=BrokerAnswers)
    controller_id: int = 1_000_000
    """Our id as a controller, by the settings."""
    jute_maxbuffer: int = 0xFFFFF
    """``jute.maxbuffer`` of the ZooKeeper servers, by the settings."""
    daemon_problem: str | None = None
    """Why the leading daemon did not answer; None if it did, or if there is none."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Brokers that the leading daemon cannot reach while it holds the role, and why."""
    daemon_refusals: tuple[str, ...] = ()
    """Why the leading daemon cannot work here, as its status says: only the role shows some."""
