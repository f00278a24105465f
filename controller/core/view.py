"""
Everything the daemon knows, owned by the one thread of the loop.

The view changes in exactly two ways: ``observe`` folds in what was read or answered, ``apply`` what
we wrote and know to be durable. ``decide`` only reads it. Whatever has to be looked at because of a
change is noted in ``due``; the loop takes it and hands it to ``decide``.

The view has no memory of its own worth saving: after a restart the same events rebuild it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from controller.core.agendas import Due
from controller.core.controls import Controls
from controller.core.events import AcceptedRead, GuardsRead, Orphan
from controller.core.evidence import EVIDENCE_KEPT, IsrLoss, SlowAnswer
from controller.core.histories import EndedHistory
from controller.core.leases import Entity, EntityConfig, Lease, LeaseRefusal
from controller.core.model import (
    NEVER_ASKED,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ConfigQuestion,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    LiveBroker,
    PartitionAssignment,
    PartitionState,
    Replicas,
    RequestId,
    Route,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.nodes import PlanNode, Topic
from controller.core.options import EngineName, Options
from controller.core.phases import Shrinking, Starting, Stopping
from controller.core.stakes import Stakes
from controller.core.submissions import Cancellation, Submission
from controller.core.verdicts import Grounds
from controller.core.waiting import WaitingList
from controller.core.works import START, Reassignment, Request

SHARES = 10
"""What part of a long turn one takes that keeps other requests waiting."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """Our time as the cluster's controller."""

    epoch: ControllerEpoch
    since: Instant


@dataclass(slots=True)
class ClusterView:
    """The cluster, the work and the tenure, as known now."""

    options: Options
    engine: EngineName | None = field(init=False)
    """Who changes replicas; None: not chosen yet."""
    engine_why: str | None = None
    delegable: bool = False
    """Whether the cluster's controller said that it can be told what to move."""
    undelegable: str | None = None
    """Why it never can."""
    probing: bool = False
    leading: bool = False
    tenure: Tenure | None = None
    claiming: bool = False
    resigning: bool = False
    retry_claim_at: Instant = START
    idle_since: Instant | None = None
    stopping: bool = False
    fenced: str | None = None
    """A broker said that a newer controller exists."""
    heeded: bool = False
    """Whether a broker accepted an UpdateMetadata of this tenure; nothing is changed before."""
    refusers: dict[BrokerId, int] = field(default_factory=dict)
    """Brokers that refuse what this tenure sends, by the error code, until they accept again."""
    unheeded: str | None = None
    """Why the last tenure ended without a hold on the brokers, until one accepts another."""

    brokers: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    missing_topics: set[str] = field(default_factory=set)
    """Listed topics whose znode was not there when it was read; asked for again since."""
    asked_topics: set[str] = field(default_factory=set)
    unreadable_topics: dict[str, str] = field(default_factory=dict)
    before: dict[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas a partition had before somebody else began to change them."""
    departed: dict[tuple[BrokerId, TopicPartition], Instant] = field(default_factory=dict)
    """Replicas that somebody else took out of an assignment, and when we saw it."""
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    doubts: int = 0
    """
    How often what was read, or was being read, was put in doubt: by a claim or a rejected write.

    Whoever reads is told it with the question, so that an answer that was under way shows.
    """
    claim_doubt: int = 0
    """The doubt of the claim: what began to be read before it says nothing in the tenure."""
    distrusted: dict[TopicPartition, int] = field(default_factory=dict)
    """The doubt in which a rejected write made us forget a state: a read from before is no news."""
    watched: dict[TopicPartition, bool] = field(default_factory=dict)
    """
    States somebody waits for: whether they were read since the watch was set.

    One whose watch fired is taken out until it is read again.
    """
    round_at: Instant = START
    """When states that others change are read anew."""
    round_from: int = 0
    stateless: set[TopicPartition] = field(default_factory=set)
    """Partitions known to have no state znode yet."""
    unreadable_states: dict[TopicPartition, str] = field(default_factory=dict)
    """Why states could not be understood when last read; what was known before is kept."""
    missing_at: Instant = START
    """When states of reassignments that were not there, or not readable, may be read again."""
    unseeded: dict[TopicPartition, None] = field(default_factory=dict)
    seeding: set[TopicPartition] = field(default_factory=set)
    refreshing: set[TopicPartition] = field(default_factory=set)
    bounced: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict)
    """
    Brokers that came or went while a partition's topic or state was unknown or in doubt.

    They are treated as failed when the partition can be judged; one that is not live by then is
    dead anyway. Only known partitions have an entry.
    """
    bounced_ahead: set[BrokerId] = field(default_factory=set)
    """
    Brokers that came or went since the claim was asked for.

    For partitions that are not known yet; and for all where that was before the claim was heard of.
    """
    offline: set[tuple[BrokerId, TopicPartition]] = field(default_factory=set)
    """Replicas whose log directory failed."""
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    """
    Settings of topics asked for within ``config_refresh``; older ones are removed, so unknown.

    Every reader thus decides by the same rule of freshness (``config_reads.forget_old_configs``).
    """
    config_answers: dict[str, ConfigQuestion] = field(default_factory=dict)
    """The question that each of ``configs`` answers."""
    config_oldest: Instant = START
    """No entry of ``config_answers`` was asked before this."""
    config_question: ConfigQuestion = NEVER_ASKED
    """The newest question for settings."""
    asked_configs: dict[str, ConfigQuestion] = field(default_factory=dict)
    """The newest question for each topic; its time is that of the answer, once there is one."""
    config_errors: dict[str, str] = field(default_factory=dict)
    leaderless: dict[TopicPartition, int] = field(default_factory=dict)
    """
    Partitions durably without a leader, each with the newest question before it came to that.

    Settings permit an unclean election only in an answer to a later question. Raised again when a
    broker of the partition registers, a disk returns or its replicas change.
    """
    deletions: frozenset[str] | None = None
    being_deleted: frozenset[str] = frozenset()
    """
    Topics whose deletion a Kafka controller may have begun: pending at the claim, and since then.

    Brokers are sent them with the leader that means deletion. That is what a Kafka controller sends
    after a takeover, of topics whose deletion it cannot continue yet too. Otherwise a topic that is
    half deleted would appear to clients again. A deletion that is asked for in the tenure begins
    only after it: until then clients keep the topic.
    """
    deletions_since: dict[str, Instant] = field(default_factory=dict)
    """
    Since when each topic deletion has been pending.

    The time in which we had the role does not count for those that are not in ``yielded``.
    """
    held_up_since: Instant = START
    """Since when a claim has been held up by one deletion after the other."""
    yielded: frozenset[str] = frozenset()
    """Deletions for which the role was already left to a broker for their time."""
    progress_at: Instant = START
    """When a step of ours in flight last made progress; with deletions out, their deadline."""
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes that the added replicas of a step in flight hold, as far as brokers reported them."""
    guards: GuardsRead | None = None

    legacy: PlanNode | None = None
    legacy_read: bool = False
    legacy_confirmed: bool = False
    """Whether the legacy znode was read in this tenure: only then is a difference an edit."""
    legacy_ended: Zxid | None = None
    legacy_last: Zxid | None = None
    """The plan at the last look, be it in an earlier session; 0: there was none."""
    legacy_came: Instant | None = None
    """When that plan was seen to come; None: it was there at the first look."""
    taken_out: set[TopicPartition] = field(default_factory=set)
    """
    Entries an operator took out of the legacy znode that may have begun or not.

    Another controller may have begun them before the claim: their topics are being read.
    """
    goals_read: bool = False
    may_have_foreign: bool = False
    """Whether the topic znodes may name reassignments that nobody drives yet."""
    doubtful_goals: set[TopicPartition] = field(default_factory=set)
    """Records a write of ours was refused for: the next read says whether they exist."""
    unreadable_goals: dict[str, str] = field(default_factory=dict)
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    topics_at_work: Counter[str] = field(default_factory=Counter)
    """How many reassignments each topic has; those without are not in it."""
    led_back: Counter[RequestId] = field(default_factory=Counter)
    """How many reassignments each cancellation leads back; those without are not in it."""
    other_routes: int = 0
    """How often a reassignment of another route than requests began, changed hands or went."""
    waiting: WaitingList = field(default_factory=WaitingList)
    """Pending reassignments in the order they will be looked at."""
    resumed: dict[TopicPartition, None] = field(default_factory=dict)
    """Pending ones with steps behind them: they go first when there is room."""
    scans_left: int = 0
    """How many more scans it takes until all of them were looked at since a slot became free."""
    requests: dict[RequestId, Request] = field(default_factory=dict)
    acked: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = field(default_factory=dict)
    """The newest LeaderAndIsr each reassigning partition's leader acknowledged in this tenure."""
    confirmed: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = field(default_factory=dict)
    """For partitions with orphans: the epoch their leader is known to have in this tenure."""
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
    """Orphans whose deletion was asked for in this tenure."""
    orphaned: Counter[TopicPartition] = field(default_factory=Counter)
    """Orphans of a partition: its leader's answers matter before any of them is deleted."""
    orphans_read: bool = False
    orphans_failed: set[Orphan] = field(default_factory=set)
    """Orphans on a failed disk: not tried again before their broker registers anew."""
    orphans_after: Instant = START
    """Orphans alone are no reason to claim before that."""
    orphans_retry_s: float = 0.0
    """How long that was after the end of the last tenure, in seconds."""
    orphans_left: dict[Orphan, Replicas] = field(default_factory=dict)
    """
    Orphans that the last tenure left, though their brokers were there, and what it saw.

    Each with all who were in the ISR of a partition with a leader since brokers last came or went.
    """
    notifications: dict[str, tuple[str, ...]] = field(default_factory=dict)

    submissions: dict[str, Submission] = field(default_factory=dict)
    """Requests that are not wholly accepted yet, in the order of their names."""
    submissions_listed: frozenset[str] | None = None
    asked_submissions: set[str] = field(default_factory=set)
    left_submissions: set[str] = field(default_factory=set)
    """Those that could not be taken away, left alone for a while."""
    judged: dict[str, int] = field(default_factory=dict)
    """How many entries of a submission were accepted or refused, from the first on."""
    found_good: dict[RequestId, Grounds] = field(default_factory=dict)
    """By what requests that are all or nothing were last found good as a whole."""
    cancellation: Cancellation | None = None
    cancellation_read: bool = False
    cancellation_stale: bool = False
    """Its end was refused: somebody changed it or took it away, and it is read again."""
    cancellation_ended: Zxid | None = None
    kill_switch: bool | None = None
    """Whether ``/admin/reassign_cancel`` exists; None until that is known."""
    queue: PlanNode | None = None
    queue_read: bool = False
    queue_ended: Zxid | None = None
    controls: Controls = field(default_factory=Controls)
    controls_read: bool = False
    controls_known: bool = False
    """Whether all of them were ever understood, be it in an earlier session."""
    history_read: bool = False
    ended: dict[RequestId, EndedHistory] = field(default_factory=dict)
    """Requests whose outcome is kept, the oldest first."""
    accepted: dict[RequestId, AcceptedRead] = field(default_factory=dict)
    """Where the partitions of a request were, for one that is to be undone as a whole."""
    asked_accepted: set[RequestId] = field(default_factory=set)
    unlearned: set[RequestId] = field(default_factory=set)
    """Requests of which a daemon before accepted entries: which ones was not read yet."""
    shards: int = 0
    """Shards of outcomes written in this tenure: their names must differ."""
    leases: dict[Entity, Lease] = field(default_factory=dict)
    leases_read: bool = False
    entity_configs: dict[Entity, EntityConfig | str] = field(default_factory=dict)
    """Dynamic settings of the topics and brokers that are, or are to be, throttled."""
    asked_entities: dict[Entity, Instant] = field(default_factory=dict)
    """When dynamic settings were last asked for."""
    doubtful_leases: set[Entity] = field(default_factory=set)
    """Leases a write of ours was refused for: the next read says whether they exist."""
    lease_refusals: dict[Entity, LeaseRefusal] = field(default_factory=dict)
    kept_throttles: dict[Entity, tuple[str, ...]] = field(default_factory=dict)
    """Settings of somebody else that stand where a throttle of ours is wanted."""
    stakes: Stakes = field(default_factory=Stakes)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes on disk, as far as brokers told."""
    measured: dict[TopicPartition, tuple[Instant, int]] = field(default_factory=dict)
    """The size from which growth is counted, and when it was told."""
    growth: dict[TopicPartition, float] = field(default_factory=dict)
    """Bytes per second by which a partition grew between two sizes: what producers send."""
    unmeasured: dict[TopicPartition, None] = field(default_factory=dict)
    """Reassignments whose size was never asked for."""
    unmeasured_since: Instant = START
    measure_at: Instant = START
    """When all sizes are to be asked for again."""
    copies_at: Instant = START
    """When those of the partitions being copied are."""
    shrunk: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions we do not move whose ISR is smaller than their replica set."""
    under_min_isr: dict[TopicPartition, None] = field(default_factory=dict)
    """Those of them known to be below ``min.insync.replicas``, or without a leader."""
    unjudged_topics: set[str] = field(default_factory=set)
    """Topics of shrunk partitions whose settings are not known yet."""
    isr_losses: deque[IsrLoss] = field(default_factory=lambda: deque(maxlen=EVIDENCE_KEPT))
    slow_answers: deque[SlowAnswer] = field(default_factory=lambda: deque(maxlen=EVIDENCE_KEPT))
    pace: int | None = None
    """How many partitions may be in flight by the adaptive pace; None: as many as the limit."""
    pace_since: Instant = START
    """When the interval began that is judged next."""
    wall: tuple[Instant, float] | None = None
    """An instant and what the wall clock said then, in seconds since 1970."""
    due: Due = field(default_factory=Due)

    def __post_init__(self) -> None:
        """Take the engine that the settings name; ``auto`` is chosen when enough is known."""
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
            and self.goals_read
            and self.orphans_read
            and self.submissions_listed is not None
            and self.cancellation_read
            and self.kill_switch is not None
            and self.queue_read
            and self.controls_read
            and self.history_read
            and self.leases_read
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
        """Return what the topic znode said last, even in doubt: to tell, or to have it checked."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def settled_assignment(self, partition: TopicPartition) -> PartitionAssignment | None:
        """
        Return what the topic znode says, None unless it was read in this tenure.

        The controller before us may have written it after an earlier read. What was read of states
        says nothing of that: it may be newer.
        """
        topic = self.topics.get(partition.topic)
        if self.tenure is None or topic is None or topic.read_in < self.claim_doubt:
            return None
        return self.assignment(partition)

    def is_live(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Whether the broker is registered and its copy of the partition not on a failed disk."""
        return broker in self.brokers and (broker, partition) not in self.offline

    def failed_in(self, broker: BrokerId, partition: TopicPartition) -> BrokerEpoch | None:
        """Return the broker's registration if the replica's disk failed in it."""
        if broker not in self.brokers or (broker, partition) not in self.offline:
            return None
        return self.brokers[broker].epoch

    def is_undeletable(self, orphan: Orphan) -> bool:
        """Whether it is on a disk that failed, and its broker has not registered anew since."""
        if orphan in self.orphans_failed:
            return True
        broker = self.brokers.get(orphan.broker)
        return broker is not None and broker.epoch == orphan.failed_in

    def is_in_reach(self, orphan: Orphan) -> bool:
        """Whether its broker is registered and may still delete it."""
        return orphan.broker in self.brokers and not self.is_undeletable(orphan)

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

    def permits_unclean(self, partition: TopicPartition) -> bool:
        """
        Return whether the topic's settings permit an unclean election of the partition now.

        Kafka's controller reads them in every offline election. So only an answer counts whose
        question was asked after the partition was durably without a leader.
        """
        since, answers = self.leaderless.get(partition), self.config_answers.get(partition.topic)
        if since is None or answers is None or answers.number <= since:
            return False
        return self.configs[partition.topic].unclean_leader_election

    def note_leader(self, partition: TopicPartition, before: PartitionState | None) -> None:
        """Note from which question on an unclean election may be permitted; ``before``: state."""
        state = self.states.get(partition)
        if state is None or state.leader != NO_LEADER:
            self.leaderless.pop(partition, None)
        elif partition not in self.leaderless or before is None or before.leader != NO_LEADER:
            self.leaderless[partition] = self.config_question.number

    def note_candidate(self, partition: TopicPartition) -> None:
        """Have an unclean election wait for a new question: other replicas may be elected now."""
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
        """Whether a step of our own requests is in flight: moves of others do not count."""
        if not self.in_flight:
            return False
        return any(r.in_flight for r in self.requests.values() if r.route is not Route.FOREIGN)

    def note_progress(self, partition: TopicPartition, at: Instant) -> None:
        """Note that the partition's step in flight made progress, if it is one of ours."""
        reassignment = self.reassignments.get(partition)
        if (
            reassignment is not None
            and reassignment.in_flight
            and reassignment.goal.route is not Route.FOREIGN
        ):
            self.progress_at = max(self.progress_at, at)

    def unix_s(self, now: Instant) -> float | None:
        """Return what the wall clock says at an instant; None until it was read."""
        if self.wall is None:
            return None
        at, unix_s = self.wall
        return unix_s + (now - at)

    def legacy_reassignments(self) -> list[TopicPartition]:
        """Return the unfinished reassignments that came by the legacy znode."""
        return [p for p, r in self.reassignments.items() if r.goal.route is Route.LEGACY]

    def take_due(self) -> Due:
        """
        Return what one turn looks at and start a new list with what is more.

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
            # What is being read again may be an older ISR of a leader that forgot the newer one.
            is_read = self._is_judgeable(partition) and partition not in self.seeding
            if is_read and partition in self.bounced:
                bounced = self.bounced.pop(partition)
                due.bounced_from.setdefault(partition, set()).update(bounced)
        return due

    def _keep_taken_out(self, due: Due) -> None:
        taken_out = self.taken_out | due.dropped
        self.taken_out = {
            p for p in taken_out & self.reassignments.keys() if not self.assignment(p)
        }
        due.dropped = taken_out - self.taken_out

    def _keep_bounces(self, due: Due) -> None:
        """
        Keep the bounces of partitions that nothing can be decided of now.

        A broker that left counts as well: it may be back when the state is read, which would then
        show a live leader. So does one that joined: the state may be from before it went.
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
        Whether a bounce can be treated: the topic and the state are known and not in doubt.

        That there is no state is known as well. Nobody is elected for a topic that is to be deleted
        unless it is moved: an operator may take the deletion back.
        """
        if partition.topic in (self.deletions or ()) and partition not in self.reassignments:
            return False
        is_read = partition in self.states or partition in self.stateless
        return is_read and self.assignment(partition) is not None

    def shared(self, most: int) -> int:
        """
        Return how many of so many a turn may do: fewer while it keeps others from being accepted.

        Long turns get more done, and a request that is alone, or has long been accepted, waits for
        no turn.
        """
        unread = (self.submissions_listed or frozenset()) - self.submissions.keys()
        named = (n for n in self.submissions if n not in self.left_submissions)
        asking = len({self.submissions[name].request for name in named}) + bool(unread)
        if self.legacy is not None and len(self.legacy.entries) > self.other_routes:
            asking += 1
        return most if asking <= 1 else max(most // SHARES, 1)
