"""
The view: everything the daemon knows, owned by the thread of the loop.

``observe`` folds in facts that were read or answered, ``apply`` the writes that are known to be
durable, and ``tenure_reset`` begins and ends a tenure; ``decide`` only reads the view. Whatever
must be examined because of a change is noted in ``due``; the loop passes it to ``decide``.

The view has no state of its own worth saving: after a restart the same events rebuild it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from controller.core.applied_throttles import AppliedThrottle, Entity, EntityConfig, ThrottleRefusal
from controller.core.cached_znodes import PlanNode, Topic
from controller.core.controls import Controls
from controller.core.events import AcceptedRead, ClaimGuardsRead, Orphan
from controller.core.model import (
    EVIDENCE_KEPT,
    NEVER_ASKED,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ConfigQuestion,
    ControllerEpoch,
    Instant,
    IsrLoss,
    LeaderEpoch,
    LiveBroker,
    PartitionAssignment,
    PartitionState,
    Replicas,
    RequestId,
    Route,
    SlowAnswer,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.options import EngineName, Options
from controller.core.outcomes import EndedHistory
from controller.core.participants import Participants
from controller.core.pending_queue import PendingQueue
from controller.core.phases import Shrinking, Starting, Stopping
from controller.core.reassignments import START, AtomicCheck, Reassignment, Request
from controller.core.submissions import Cancellation, Submission
from controller.core.worklist import Worklist

SHARES = 10
"""The share of a long cycle that is left while it delays other requests."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """The time in which the daemon is the cluster's controller."""

    epoch: ControllerEpoch
    since: Instant


@dataclass(slots=True)
class ClusterView:
    """The cluster, the reassignments and the tenure as known now."""

    options: Options
    engine: EngineName | None = field(init=False)
    """The engine at work; None before it is chosen."""
    engine_why: str | None = None
    delegable: bool = False
    """Whether the cluster's controller supports AlterPartitionReassignments."""
    undelegable: str | None = None
    """Why the cluster's controller never can; None where it may."""
    probing: bool = False
    leading: bool = False
    tenure: Tenure | None = None
    claiming: bool = False
    resigning: bool = False
    retry_claim_at: Instant = START
    idle_since: Instant | None = None
    stopping: bool = False
    fenced: str | None = None
    """The broker's report that a newer controller exists, as a sentence."""
    heeded: bool = False
    """
    Whether a broker accepted an UpdateMetadata of this tenure; nothing is changed before that.
    """
    refusers: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that refuse the requests of this tenure, by error code, until they accept again."""
    unheeded: str | None = None
    """Why brokers did not accept the requests of the last tenure, until one accepts another."""

    brokers: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    missing_topics: set[str] = field(default_factory=set)
    """Listed topics whose znode was missing when it was read; they were requested again."""
    asked_topics: set[str] = field(default_factory=set)
    unreadable_topics: dict[str, str] = field(default_factory=dict)
    before: dict[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas of a partition before another client began to change them."""
    departed: dict[tuple[BrokerId, TopicPartition], Instant] = field(default_factory=dict)
    """Replicas that another controller removed from an assignment, and when that was seen."""
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    read_generation: int = 0
    """
    How often cached reads were invalidated, by a claim or a rejected write.

    A read carries the generation in which it began, so that an answer that was under way at an
    invalidation is recognised.
    """
    claim_generation: int = 0
    """The generation of the claim: a read that began before it is not valid in the tenure."""
    distrusted: dict[TopicPartition, int] = field(default_factory=dict)
    """The generation in which a rejected write invalidated a state: an earlier read is ignored."""
    watched: dict[TopicPartition, bool] = field(default_factory=dict)
    """
    States that are watched: whether they were read since the watch was set.

    A state whose watch fired is removed until it is read again.
    """
    round_at: Instant = START
    """When the next round reads states that others change."""
    round_from: int = 0
    stateless: set[TopicPartition] = field(default_factory=set)
    """Partitions known to have no state znode yet."""
    unreadable_states: dict[TopicPartition, str] = field(default_factory=dict)
    """Why states could not be decoded when last read; the former state is kept."""
    missing_at: Instant = START
    """When missing or unreadable states of reassignments may be read again."""
    unseeded: dict[TopicPartition, None] = field(default_factory=dict)
    seeding: set[TopicPartition] = field(default_factory=set)
    refreshing: set[TopicPartition] = field(default_factory=set)
    bounced: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict)
    """
    Brokers that came or went while a partition's topic or state was unknown or invalid.

    They are treated as failed when the partition can be judged; one that is not live by then is
    dead anyway. Only known partitions have an entry.
    """
    bounced_ahead: set[BrokerId] = field(default_factory=set)
    """
    Brokers that came or went since the claim was requested.

    They concern partitions that are not known yet, and all partitions where it happened before the
    claim was confirmed.
    """
    offline: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set)
    """Replicas whose log directory failed."""
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    """
    Settings of topics requested within ``config_refresh``; older ones are removed.

    Every reader thus obeys the same rule of freshness (``topic_configs.forget_old_configs``).
    """
    config_answers: dict[str, ConfigQuestion] = field(default_factory=dict)
    """The request that each of ``configs`` answers."""
    config_oldest: Instant = START
    """No entry of ``config_answers`` was requested before this."""
    config_question: ConfigQuestion = NEVER_ASKED
    """The newest request for settings."""
    asked_configs: dict[str, ConfigQuestion] = field(default_factory=dict)
    """The newest request for each topic; once it is answered, its time is that of the answer."""
    config_errors: dict[str, str] = field(default_factory=dict)
    leaderless: dict[TopicPartition, int] = field(default_factory=dict)
    """
    Partitions durably without a leader, each with the newest settings request before that.

    Settings permit an unclean election only in an answer to a later request. Raised again when a
    broker of the partition registers, a disk returns or the replicas change.
    """
    deletions: frozenset[str] | None = None
    being_deleted: frozenset[str] = frozenset()
    """
    Topics whose deletion a Kafka controller may have begun: pending at the claim, and since then.

    Brokers are sent them with the leader that means deletion. A Kafka controller sends the same
    after a failover, also of topics whose deletion it cannot continue yet; otherwise a half-deleted
    topic would appear to clients again. A deletion that is requested during the tenure begins only
    after it: until then clients keep the topic.
    """
    deletions_since: dict[str, Instant] = field(default_factory=dict)
    """
    Since when each topic deletion has been pending.

    The time of our tenures does not count for those that are not in ``yielded``.
    """
    held_up_since: Instant = START
    """Since when consecutive deletions have delayed a claim."""
    yielded: frozenset[str] = frozenset()
    """Deletions for which a broker already had the role for their time."""
    progress_at: Instant = START
    """When one of our steps in flight last made progress; with StopReplica sent, its deadline."""
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes that the added replicas of a step in flight hold, as far as brokers reported them."""
    guards: ClaimGuardsRead | None = None

    legacy: PlanNode | None = None
    legacy_read: bool = False
    legacy_confirmed: bool = False
    """Whether the legacy znode was read in this tenure: only then is a difference an edit."""
    legacy_ended: Zxid | None = None
    legacy_last: Zxid | None = None
    """The plan at the last look, also in an earlier session; 0: there was none."""
    legacy_came: Instant | None = None
    """When that plan appeared; None: it existed at the first look."""
    taken_out: set[TopicPartition] = field(default_factory=set)
    """
    Entries that an operator removed from the legacy znode, and that may have begun.

    Another controller may have begun them before the claim: their topics are being read.
    """
    specs_read: bool = False
    may_have_foreign: bool = False
    """Whether topic znodes may contain foreign reassignments that are not adopted yet."""
    doubtful_specs: set[TopicPartition] = field(default_factory=set)
    """Records of which a write was rejected: the next read shows whether they exist."""
    unreadable_specs: dict[str, str] = field(default_factory=dict)
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    topics_at_work: Counter[str] = field(default_factory=Counter)
    """The number of reassignments of each topic; topics without any have no entry."""
    led_back: Counter[RequestId] = field(default_factory=Counter)
    """The number of reassignments that each cancellation rolls back; others have no entry."""
    other_routes: int = 0
    """
    How often a reassignment of a route other than ``request`` began, changed its spec or ended.
    """
    waiting: PendingQueue = field(default_factory=PendingQueue)
    """Pending reassignments in the order in which they will be considered."""
    resumed: dict[TopicPartition, None] = field(default_factory=dict)
    """Pending ones that completed a step: they start first when capacity is free."""
    scans_left: int = 0
    """Scans still needed until all pending ones were considered since a slot became free."""
    requests: dict[RequestId, Request] = field(default_factory=dict)
    acked: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = field(default_factory=dict)
    """
    The newest LeaderAndIsr that each reassigning partition's leader acknowledged in this tenure.
    """
    confirmed: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = field(default_factory=dict)
    """For partitions with orphans: the epoch that their leader is known to have in this tenure."""
    in_flight: int = 0
    incoming: dict[BrokerId, int] = field(default_factory=dict)
    outgoing: dict[BrokerId, int] = field(default_factory=dict)
    bytes_in_flight: int = 0
    leader_moves: dict[BrokerId, tuple[Instant, int]] = field(default_factory=dict)
    """Since when, and how many, leaderships a broker lost or gained within a second."""
    preferred: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose preferred leader is to be elected."""
    preferred_version: ZkVersion | None = None
    preferred_at: Instant = START
    balanced_at: Instant = START
    """When the balance of leaderships was last checked."""
    orphans: dict[tuple[BrokerId, TopicPartition], Orphan] = field(default_factory=dict)
    orphans_tried: set[Orphan] = field(default_factory=set)
    """Orphans whose deletion was requested in this tenure."""
    orphaned: Counter[TopicPartition] = field(default_factory=Counter)
    """Orphans per partition: its leader must be confirmed before any of them is deleted."""
    orphans_read: bool = False
    orphans_failed: set[Orphan] = field(default_factory=set)
    """Orphans on a failed disk: not tried again before their broker registers again."""
    orphans_after: Instant = START
    """Orphans alone are no reason to claim before this time."""
    orphans_retry_s: float = 0.0
    """The back-off after the last tenure that led to that time, in seconds."""
    orphans_left: dict[Orphan, Replicas] = field(default_factory=dict)
    """
    Orphans that the last tenure left although their brokers were live, with the ISRs it saw.

    Each with all brokers seen in the ISR of a partition with a leader since brokers last came or
    went.
    """
    notifications: dict[str, tuple[str, ...]] = field(default_factory=dict)

    submissions: dict[str, Submission] = field(default_factory=dict)
    """Requests that are not completely accepted yet, in the order of their names."""
    submissions_listed: frozenset[str] | None = None
    asked_submissions: set[str] = field(default_factory=set)
    left_submissions: set[str] = field(default_factory=set)
    """Request znodes that could not be deleted; left alone for a while."""
    judged: dict[str, int] = field(default_factory=dict)
    """The number of entries of a submission that were accepted or refused, from the first on."""
    found_good: dict[RequestId, AtomicCheck] = field(default_factory=dict)
    """The facts by which atomic requests were last judged good as a whole."""
    cancellation: Cancellation | None = None
    cancellation_read: bool = False
    cancellation_stale: bool = False
    """
    The write of its end was rejected because the znode was changed or deleted; it is read again.
    """
    cancellation_ended: Zxid | None = None
    kill_switch: bool | None = None
    """Whether ``/admin/reassign_cancel`` exists; None until that is known."""
    queue: PlanNode | None = None
    queue_read: bool = False
    queue_ended: Zxid | None = None
    controls: Controls = field(default_factory=Controls)
    controls_read: bool = False
    controls_known: bool = False
    """Whether all controls were ever decoded, also in an earlier session."""
    history_read: bool = False
    ended: dict[RequestId, EndedHistory] = field(default_factory=dict)
    """Requests whose outcome is kept, the oldest first."""
    accepted: dict[RequestId, AcceptedRead] = field(default_factory=dict)
    """The original replicas of a request's partitions, for one that is to be undone as a whole."""
    asked_accepted: set[RequestId] = field(default_factory=set)
    unlearned: set[RequestId] = field(default_factory=set)
    """Requests of which an earlier daemon accepted entries that were not read yet."""
    shards: int = 0
    """Shards of outcomes written in this tenure: their names must differ."""
    applied_throttles: dict[Entity, AppliedThrottle] = field(default_factory=dict)
    applied_throttles_read: bool = False
    entity_configs: dict[Entity, EntityConfig | str] = field(default_factory=dict)
    """Dynamic settings of the topics and brokers that are, or are to be, throttled."""
    asked_entities: dict[Entity, Instant] = field(default_factory=dict)
    """When dynamic settings were last requested."""
    doubtful_throttles: set[Entity] = field(default_factory=set)
    """Applied throttles of which a write was rejected: the next read shows whether they exist."""
    throttle_refusals: dict[Entity, ThrottleRefusal] = field(default_factory=dict)
    kept_throttles: dict[Entity, tuple[str, ...]] = field(default_factory=dict)
    """Settings of others that occupy the place of a wanted throttle."""
    participants: Participants = field(default_factory=Participants)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes on disk, as far as brokers reported them."""
    measured: dict[TopicPartition, tuple[Instant, int]] = field(default_factory=dict)
    """The size from which growth is counted, and when it was reported."""
    growth: dict[TopicPartition, float] = field(default_factory=dict)
    """Bytes per second by which a partition grew between two sizes: the producers' rate."""
    unmeasured: dict[TopicPartition, None] = field(default_factory=dict)
    """Reassignments whose size was never requested."""
    unmeasured_since: Instant = START
    measure_at: Instant = START
    """When all sizes are to be requested again."""
    copies_at: Instant = START
    """When the sizes of the partitions being copied are to be requested again."""
    shrunk: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions without a reassignment whose ISR is smaller than their replica set."""
    under_min_isr: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them known to be below ``min.insync.replicas``, or without a leader."""
    unjudged_topics: set[str] = field(default_factory=set)
    """Topics of shrunk partitions whose settings are not known yet."""
    isr_losses: deque[IsrLoss] = field(default_factory=lambda: deque(maxlen=EVIDENCE_KEPT))
    slow_answers: deque[SlowAnswer] = field(default_factory=lambda: deque(maxlen=EVIDENCE_KEPT))
    pace: int | None = None
    """The adaptive limit of partitions in flight; None: the configured limit holds."""
    pace_since: Instant = START
    """When the interval under judgement began."""
    wall: tuple[Instant, float] | None = None
    """An instant and the wall clock's reading at it, in seconds since 1970."""
    due: Worklist = field(default_factory=Worklist)

    def __post_init__(self) -> None:
        """Take the engine of the settings; ``auto`` is decided when enough is known."""
        engine = self.options.engine
        self.engine = None if engine is EngineName.AUTO else engine
        self.engine_why = None if self.engine is None else "the settings say so"

    # --- questions -----------------------------------------------------------------------------

    @property
    def is_warm(self) -> bool:
        """Whether everything that must be known before a claim has been read."""
        return (
            self.listed is not None
            and self.legacy_read
            and self.specs_read
            and self.orphans_read
            and self.submissions_listed is not None
            and self.cancellation_read
            and self.kill_switch is not None
            and self.queue_read
            and self.controls_read
            and self.history_read
            and self.applied_throttles_read
            and self.deletions is not None
            and self.guards is not None
            and bool(self.brokers)
            and all(t in self.topics or t in self.unreadable_topics for t in self.listed)
        )

    def assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return the entry of the topic znode, None for an unknown or stale partition."""
        topic = self.topics.get(partition.topic)
        if topic is None or topic.stale:
            return None
        return topic.partitions.get(partition.partition)

    def known_assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """Return the last known entry of the topic znode, even a stale one."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def settled_assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """
        Return the entry of the topic znode, None unless it was read in this tenure.

        The previous controller may have written it after an earlier read. What was read of states
        gives no evidence of that: it may be newer.
        """
        topic = self.topics.get(partition.topic)
        if self.tenure is None or topic is None or topic.read_in < self.claim_generation:
            return None
        return self.assignment(partition)

    def is_live(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Return whether the broker is registered and its replica not on a failed disk."""
        return broker in self.brokers and (broker, partition) not in self.offline

    def failed_in(self, broker: BrokerId, partition: TopicPartition) -> BrokerEpoch | None:
        """Return the broker's registration if the replica's disk failed in it."""
        if broker not in self.brokers or (broker, partition) not in self.offline:
            return None
        return self.brokers[broker].epoch

    def is_undeletable(self, orphan: Orphan) -> bool:
        """Return whether its disk failed and its broker has not registered again since."""
        if orphan in self.orphans_failed:
            return True
        broker = self.brokers.get(orphan.broker)
        return broker is not None and broker.epoch == orphan.failed_in

    def is_in_reach(self, orphan: Orphan) -> bool:
        """Return whether its broker is registered and may still delete it."""
        return orphan.broker in self.brokers and not self.is_undeletable(orphan)

    def live(self, replicas: Iterable[BrokerId], partition: TopicPartition) -> Replicas:
        """Return the members that are live, in order."""
        return tuple(r for r in replicas if self.is_live(r, partition))

    def has_excluded(self, partition: TopicPartition) -> bool:
        """Return whether this tenure excluded the removing replicas: they only get StopReplica."""
        reassignment = self.reassignments.get(partition)
        if reassignment is None:
            return False
        phase = reassignment.phase
        return isinstance(phase, Shrinking | Stopping) or (
            isinstance(phase, Starting) and phase.excluded_at is not None
        )

    def serving_replicas(self, partition: TopicPartition) -> Replicas:
        """
        Return the replica set to send to brokers.

        RS until the write that takes the dropped replicas out of the ISR, TR from that write on.
        """
        assignment = self.known_assignment(partition)
        if assignment is None:
            return ()
        if self.has_excluded(partition):
            return assignment.target_replicas
        return assignment.replicas

    def is_acknowledged(self, partition: TopicPartition) -> bool:
        """Return whether the current leader acknowledged its epoch in this tenure."""
        state = self.states.get(partition)
        return state is not None and self.acked.get(partition) == (
            state.leader,
            state.leader_epoch,
        )

    def permits_unclean(self, partition: TopicPartition) -> bool:
        """
        Return whether the topic's settings permit an unclean election of the partition now.

        Kafka's controller reads them in every offline election. So only an answer counts that was
        requested after the partition was durably without a leader.
        """
        since, answers = self.leaderless.get(partition), self.config_answers.get(partition.topic)
        if since is None or answers is None or answers.number <= since:
            return False
        return self.configs[partition.topic].unclean_leader_election

    def note_leader(self, partition: TopicPartition, before: PartitionState | None) -> None:
        """
        Note the settings request after which an unclean election may be permitted.

        Args:
            partition: The partition whose state changed.
            before: Its former state.

        """
        state = self.states.get(partition)
        if state is None or state.leader != NO_LEADER:
            self.leaderless.pop(partition, None)
        elif partition not in self.leaderless or before is None or before.leader != NO_LEADER:
            self.leaderless[partition] = self.config_question.number

    def note_candidate(self, partition: TopicPartition) -> None:
        """Have an unclean election wait for a new settings request."""
        if partition in self.leaderless:
            self.leaderless[partition] = self.config_question.number

    def partitions(self) -> Iterable[TopicPartition]:
        """Return every partition of every known topic."""
        return (
            TopicPartition(name, number)
            for name, topic in self.topics.items()
            for number in topic.partitions
        )

    @property
    def is_moving_ours(self) -> bool:
        """Whether a step of a request or legacy plan is in flight; not a foreign one."""
        if not self.in_flight:
            return False
        return any(r.in_flight for r in self.requests.values() if r.route is not Route.FOREIGN)

    def note_progress(self, partition: TopicPartition, at: Instant) -> None:
        """Note that the partition's step in flight made progress, unless it is foreign."""
        reassignment = self.reassignments.get(partition)
        if (
            reassignment is not None
            and reassignment.in_flight
            and reassignment.spec.route is not Route.FOREIGN
        ):
            self.progress_at = max(self.progress_at, at)

    def unix_s(self, now: Instant) -> float | None:
        """Return the wall clock's reading at an instant; None until it was read."""
        if self.wall is None:
            return None
        at, unix_s = self.wall
        return unix_s + (now - at)

    def legacy_reassignments(self) -> list[TopicPartition]:
        """Return the unfinished reassignments of the legacy znode."""
        return [p for p, r in self.reassignments.items() if r.spec.route is Route.LEGACY]

    def take_due(self) -> Worklist:
        """
        Return the worklist of this cycle and start a new one with the surplus.

        A bounce is passed on once the partition can be judged, and kept until then. So is an entry
        that was taken out of the legacy znode.
        """
        due = self.due
        self._keep_taken_out(due)
        self._keep_bounces(due)
        self.due = due.leave(self.shared(self.options.look_chunk))
        for partition in tuple(due.bounced_from):
            if not self._is_judgeable(partition):
                self._keep_bounce(partition, due.bounced_from.pop(partition))
        for partition in due.partitions if self.bounced else ():
            # A state that is being read again may be an older ISR of a leader that lost the newer
            # one.
            is_read = self._is_judgeable(partition) and partition not in self.seeding
            if is_read and partition in self.bounced:
                bounced = self.bounced.pop(partition)
                due.bounced_from.setdefault(partition, set()).update(bounced)
        return due

    def _keep_taken_out(self, due: Worklist) -> None:
        taken_out = self.taken_out | due.dropped
        self.taken_out = {
            p for p in taken_out & self.reassignments.keys() if not self.assignment(p)
        }
        due.dropped = taken_out - self.taken_out

    def _keep_bounces(self, due: Worklist) -> None:
        """
        Keep the bounces of partitions that cannot be judged now.

        A broker that left counts as well: it may be back when the state is read, which would then
        show a live leader. So does one that joined: the state may be from before it left.
        """
        came = due.bounced | due.left | (due.joined - due.elsewhere)
        for partition in due.partitions if came and self.tenure is not None else ():
            if not self._is_judgeable(partition):
                self._keep_bounce(partition, came)

    def _keep_bounce(self, partition: TopicPartition, brokers: Collection[BrokerId]) -> None:
        assignment = self.known_assignment(partition)
        replicas = () if assignment is None else assignment.replicas
        concerned = [r for r in replicas if r in brokers]
        if concerned:
            self.bounced.setdefault(partition, set()).update(concerned)

    def _is_judgeable(self, partition: TopicPartition) -> bool:
        """
        Return whether a bounce can be handled: topic and state are known and not in doubt.

        That there is no state is known as well. Nobody is elected for a topic that is to be deleted
        unless it is reassigned: an operator may withdraw the deletion.
        """
        if partition.topic in (self.deletions or ()) and partition not in self.reassignments:
            return False
        is_read = partition in self.states or partition in self.stateless
        return is_read and self.assignment(partition) is not None

    def shared(self, most: int) -> int:
        """
        Reduce a per-cycle limit while other requests wait to be accepted.

        Long cycles have more throughput; a single request, or one that was accepted long ago, waits
        for no cycle.
        """
        unread = (self.submissions_listed or frozenset()) - self.submissions.keys()
        named = (n for n in self.submissions if n not in self.left_submissions)
        asking = len({self.submissions[name].request for name in named}) + bool(unread)
        if self.legacy is not None and len(self.legacy.entries) > self.other_routes:
            asking += 1
        return most if asking <= 1 else max(most // SHARES, 1)
