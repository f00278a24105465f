"""
Everything the daemon knows, owned by the one thread of the loop.

The view changes in exactly two ways: ``observe`` folds in what was read or answered, ``apply`` what
we wrote and know to be durable. ``decide`` only reads it. Whatever has to be looked at because of a
change is noted in ``due``; the loop takes it and hands it to ``decide``.

The view has no memory of its own worth saving: after a restart the same events rebuild it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from controller.core.events import GuardsRead, Orphan
from controller.core.model import (
    Blocked,
    BrokerId,
    ControllerEpoch,
    Goal,
    Instant,
    LeaderEpoch,
    LiveBroker,
    PartitionAssignment,
    PartitionState,
    Refusal,
    Replicas,
    RequestId,
    Route,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.options import Options
from controller.core.phases import Ended, Pending, Phase, Shrinking, Starting, Stopping

START: Final = Instant(0.0)
"""Before anything happened."""


@dataclass(slots=True)
class Topic:
    """A topic znode as last read or written; ``partitions`` is ours to change."""

    partitions: dict[int, PartitionAssignment]
    version: ZkVersion
    czxid: Zxid
    topic_id: str | None
    stale: bool = False
    """A write was rejected: nothing of this topic is decided before it is read again."""


@dataclass(slots=True)
class LegacyNode:
    """``/admin/reassign_partitions`` as last read or written; ``entries`` is ours to change."""

    entries: dict[TopicPartition, Replicas]
    version: ZkVersion
    czxid: Zxid
    refused: tuple[tuple[str, str], ...] = ()
    unreadable: str | None = None
    raw: bytes = b""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Tenure:
    """Our time as the cluster's controller."""

    epoch: ControllerEpoch
    since: Instant


@dataclass(frozen=True, slots=True)
class Load:
    """What the step in flight costs: brokers that receive a copy, and the one that serves it."""

    incoming: Replicas
    outgoing: BrokerId | None


@dataclass(slots=True)
class Reassignment:
    """One partition's reassignment: its durable goal and how far it has come."""

    goal: Goal
    since: Instant
    phase: Phase = field(default_factory=Pending)
    phase_since: Instant = START
    step: int = 0
    """Steps begun so far, as far as this process knows."""
    blocked: Blocked | None = None
    blocked_since: Instant | None = None
    load: Load | None = None
    inherited: bool = False
    """Whether an earlier tenure, or another controller, had a part in it."""
    deleted: set[BrokerId] = field(default_factory=set)
    """Dropped replicas whose deletion was confirmed in this tenure."""

    @property
    def in_flight(self) -> bool:
        """Whether a step is under way."""
        return not isinstance(self.phase, Pending | Ended)

    @property
    def begun(self) -> bool:
        """Whether anything of it may stand in the topic znode."""
        return self.step > 0 or self.in_flight


@dataclass(slots=True)
class Tally:
    """Counts of one request, as far as this process saw it."""

    route: Route
    since: Instant
    total: int = 0
    done: int = 0
    refused: list[Refusal] = field(default_factory=list)


@dataclass(slots=True)
class Due:
    """What has to be looked at since the last turn."""

    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    seeded: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose state was read for the first time in this tenure."""
    refreshed: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose ISR changed by their leader."""
    joined: set[BrokerId] = field(default_factory=set)
    left: set[BrokerId] = field(default_factory=set)
    bounced: set[BrokerId] = field(default_factory=set)
    changed: set[TopicPartition] = field(default_factory=set)
    """Partitions whose watch fired."""
    listed_topics: bool = False
    notified: dict[TopicPartition, None] = field(default_factory=dict)
    log_dir_brokers: set[BrokerId] = field(default_factory=set)
    elections: bool = False
    tenure: bool = False
    """Whether claiming or giving back has to be considered."""
    claimed: bool = False
    plan: bool = False
    timer: bool = False
    """Whether a time came that somebody asked for."""
    dropped: set[TopicPartition] = field(default_factory=set)
    """Entries an operator took out of the legacy znode."""
    orphans: bool = False
    """Whether an orphan may be deletable now."""
    buried: set[Orphan] = field(default_factory=set)
    """Orphans whose deletion was acknowledged."""
    capacity: bool = False
    """A slot may have become free: look at what waits."""
    brokers_changed: bool = False

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions to be looked at."""
        self.partitions.update(dict.fromkeys(partitions))


@dataclass(slots=True)
class ClusterView:
    """The cluster, the work and the tenure, as known now."""

    options: Options
    leading: bool = False
    tenure: Tenure | None = None
    claiming: bool = False
    resigning: bool = False
    retry_claim_at: Instant = START
    idle_since: Instant | None = None
    stopping: bool = False
    fenced: str | None = None
    """A broker said that a newer controller exists."""

    brokers: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    asked_topics: set[str] = field(default_factory=set)
    unreadable_topics: dict[str, str] = field(default_factory=dict)
    before: dict[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas a partition had before somebody else began to change them."""
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    distrusted: dict[TopicPartition, ZkVersion] = field(default_factory=dict)
    """Versions of states that a rejected write made us forget: a read that is older is no news."""
    stateless: set[TopicPartition] = field(default_factory=set)
    """Partitions known to have no state znode yet."""
    unseeded: dict[TopicPartition, None] = field(default_factory=dict)
    seeding: set[TopicPartition] = field(default_factory=set)
    refreshing: set[TopicPartition] = field(default_factory=set)
    offline: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set)
    """Replicas whose log directory failed."""
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    asked_configs: dict[str, Instant] = field(default_factory=dict)
    config_errors: dict[str, str] = field(default_factory=dict)
    deletions: frozenset[str] | None = None
    deletions_since: Instant | None = None
    """Since when some topic deletion has been pending."""
    yielded: frozenset[str] = frozenset()
    """Deletions for which the role was already given back once."""
    guards: GuardsRead | None = None

    legacy: LegacyNode | None = None
    legacy_read: bool = False
    legacy_confirmed: bool = False
    """Whether the legacy znode was read in this tenure: only then is a difference an edit."""
    legacy_ended: Zxid | None = None
    goals_read: bool = False
    may_have_foreign: bool = False
    """Whether the topic znodes may name reassignments that nobody drives yet."""
    doubtful_goals: set[TopicPartition] = field(default_factory=set)
    """Records a write of ours was refused for: the next read says whether they exist."""
    unreadable_goals: dict[str, str] = field(default_factory=dict)
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    waiting: dict[TopicPartition, None] = field(default_factory=dict)
    """Pending reassignments in the order they will be looked at."""
    resumed: dict[TopicPartition, None] = field(default_factory=dict)
    """Pending ones with steps behind them: they go first when there is room."""
    requests: dict[RequestId, Tally] = field(default_factory=dict)
    acked: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = field(default_factory=dict)
    """The newest LeaderAndIsr each reassigning partition's leader acknowledged in this tenure."""
    confirmed: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = field(default_factory=dict)
    """For partitions with orphans: the epoch their leader is known to have in this tenure."""
    in_flight: int = 0
    incoming: dict[BrokerId, int] = field(default_factory=dict)
    outgoing: dict[BrokerId, int] = field(default_factory=dict)
    preferred: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose preferred leader is to be elected."""
    preferred_version: ZkVersion | None = None
    preferred_at: Instant = START
    orphans: dict[tuple[BrokerId, TopicPartition], Orphan] = field(default_factory=dict)
    orphans_tried: set[Orphan] = field(default_factory=set)
    """Orphans whose deletion was asked for in this tenure."""
    orphaned: set[TopicPartition] = field(default_factory=set)
    """Partitions of the orphans: their leaders' answers matter before anything is deleted."""
    orphans_read: bool = False
    orphans_failed: set[Orphan] = field(default_factory=set)
    """Orphans on a failed disk: not tried again before their broker registers anew."""
    orphans_after: Instant = START
    """Orphans alone are no reason to claim before that."""
    notifications: dict[str, tuple[str, ...]] = field(default_factory=dict)
    due: Due = field(default_factory=Due)

    # --- questions -----------------------------------------------------------------------------

    @property
    def is_warm(self) -> bool:
        """Whether everything that must be known before a claim has been read."""
        return (
            self.listed is not None
            and self.legacy_read
            and self.goals_read
            and self.orphans_read
            and self.deletions is not None
            and self.guards is not None
            and bool(self.brokers)
            and all(t in self.topics or t in self.unreadable_topics for t in self.listed)
        )

    def assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return what the topic znode says, None for an unknown or stale partition."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.stale:
            return None
        return topic.partitions.get(partition.partition)

    def known_assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return what the topic znode said last, even where that is in doubt: good for telling."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def is_live(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Whether the broker is registered and its copy of the partition not on a failed disk."""
        return broker in self.brokers and (broker, partition) not in self.offline

    def live(self, replicas: Iterable[BrokerId], partition: TopicPartition) -> Replicas:
        """Return the members that are live, in order."""
        return tuple(r for r in replicas if self.is_live(r, partition))

    def has_excluded(self, partition: TopicPartition) -> bool:
        """Whether this tenure took the removing replicas out of ISR: they get StopReplica only."""
        reassignment = self.reassignments.get(partition)
        if reassignment is None:
            return False
        phase = reassignment.phase
        return isinstance(phase, Shrinking | Stopping) or (
            isinstance(phase, Starting) and phase.excluded_at is not None
        )

    def serving_replicas(self, partition: TopicPartition) -> Replicas:
        """
        Return the replica set brokers are to be told.

        RS until the write that takes the dropped replicas out of the ISR, TR from that write on.
        """
        assignment = self.known_assignment(partition)
        if assignment is None:
            return ()
        if self.has_excluded(partition):
            return assignment.target_replicas
        return assignment.replicas

    def is_acknowledged(self, partition: TopicPartition) -> bool:
        """Whether the current leader acknowledged the current leader epoch in this tenure."""
        state = self.states.get(partition)
        return state is not None and self.acked.get(partition) == (
            state.leader,
            state.leader_epoch,
        )

    def partitions(self) -> Iterable[TopicPartition]:
        """Return every partition of every known topic."""
        return (
            TopicPartition(name, number)
            for name, topic in self.topics.items()
            for number in topic.partitions
        )

    def legacy_reassignments(self) -> list[TopicPartition]:
        """Return the unfinished reassignments that came by the legacy znode."""
        return [p for p, r in self.reassignments.items() if r.goal.route is Route.LEGACY]

    def take_due(self) -> Due:
        """Return what has to be looked at and start a new list."""
        due, self.due = self.due, Due()
        return due
