"""The vocabulary of reassignments: one partition's reassignment, its load, and orphans."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from controller.core import model
from controller.core.bases import Ledger, Lifetime
from controller.core.model import (
    START,
    Blocked,
    BrokerId,
    Instant,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.reassignments import phases


@dataclass(frozen=True, slots=True)
class Load:
    """The load of the step in flight: brokers that receive a copy, and the one that serves it."""

    incoming: Replicas
    outgoing: BrokerId | None
    size: int = 0
    """Bytes to copy, as far as the partition's size is known."""


@dataclass(slots=True)
class Reassignment:
    """One partition's reassignment: its durable spec and its progress."""

    spec: model.ReassignmentSpec
    since: Instant
    phase: phases.Phase = field(default_factory=phases.Pending)
    phase_since: Instant = START
    step: int = 0
    """Steps begun so far in this tenure; one that the tenure found in flight counts."""
    blocked: Blocked | None = None
    blocked_since: Instant | None = None
    load: Load | None = None
    part_way: bool = False
    """Whether a tenure found it without a step in flight and away from its original replicas."""
    inherited: bool = False
    """Whether an earlier tenure, or another controller, took part in it."""
    requested: Replicas | None = None
    """Delegated: the target of the last alter entry, as far as this process knows."""
    is_requested: bool = False
    """Delegated: whether that request is under way or queued; no other is sent then."""
    in_doubt: bool = False
    """Delegated: whether an unanswered alter entry, of any daemon, may still be carried out."""
    lost: frozenset[BrokerId] = model.NO_BROKERS
    """Delegated: replicas that were dropped while their broker was dead."""
    deleted: frozenset[BrokerId] = model.NO_BROKERS
    rejoined: frozenset[BrokerId] = model.NO_BROKERS
    """Added replicas whose broker registered since the partition's state was last written."""

    @property
    def in_flight(self) -> bool:
        """Whether a step is in flight."""
        return not isinstance(self.phase, phases.Pending | phases.Ended)

    @property
    def is_put_off(self) -> bool:
        """Whether it is pending and to be considered again at a certain time only."""
        return isinstance(self.phase, phases.Pending) and self.phase.not_before is not None

    @property
    def is_copying(self) -> bool:
        """Whether a step is in flight that waits only for its new replicas."""
        return self.in_flight and self.blocked is not None and self.blocked.is_copying

    @property
    def may_be_made(self) -> bool:
        """Delegated: whether the cluster's controller may still carry out a request for it."""
        return self.is_requested or self.in_doubt

    @property
    def begun(self) -> bool:
        """Whether any step of it may be in the topic znode."""
        return self.step > 0 or self.in_flight

    def receivers(self, assignment: model.PartitionAssignment) -> Replicas:
        """Return the brokers to which the step in flight copies, or is to copy when it begins."""
        removing, added = assignment.removing_replicas, assignment.adding_replicas
        match self.phase:
            case phases.Pending() | phases.Placing() | phases.Ended():
                return ()
            case phases.AwaitingController(target=target):
                there = assignment.replicas
                return tuple(r for r in target if r not in there or r in added)
            case _:
                return tuple(r for r in added if r not in removing)

    def may_have_placed(self, assignment: model.PartitionAssignment) -> bool:
        """Return whether an earlier tenure or target may have had replicas moved within brokers."""
        placed = self.spec.placed_brokers if self.inherited else ()
        return any(b in assignment.replicas for b in (*placed, *self.spec.unplaced))

    @property
    def has_moved(self) -> bool:
        """Whether it began its first step, in any tenure."""
        return self.begun or self.part_way

    def enter(
        self,
        phase: phases.Phase,
        at: Instant,
        partition: TopicPartition,
        change: phases.PhaseCause = phases.PhaseCause.STEP,
    ) -> None:
        """
        Enter a phase; the blocked reason of the former phase is cleared.

        Raises:
            InvariantError: the present phase may not be followed by it.

        """
        self.phase = phases.legal_phase(self.phase, phase, change, partition)
        self.phase_since = at
        self.blocked = self.blocked_since = None

    def update(self, phase: phases.Phase, partition: TopicPartition) -> None:
        """
        Change the fields of the present phase; its age and what it waits for stay.

        Raises:
            InvariantError: it is another phase, or one without such fields.

        """
        self.phase = phases.legal_phase(self.phase, phase, phases.PhaseCause.UPDATE, partition)

    def wait(self, blocked: Blocked | None, at: Instant) -> None:
        """Note what it waits for; a new detail of the same reason does not restart the wait."""
        before, self.blocked = self.blocked, blocked
        if blocked is None:
            self.blocked_since = None
        elif before is None or (before.by, before.is_copying) != (blocked.by, blocked.is_copying):
            self.blocked_since = at


@dataclass(frozen=True, slots=True)
class Orphan:
    """A replica whose log may be left on a broker, as recorded under ``/reassigner/orphans``."""

    broker: BrokerId
    partition: TopicPartition
    topic_czxid: model.Zxid
    reason: str
    failed_in: model.BrokerEpoch | None = None
    """
    The registration in which the broker's disk failed during the deletion, None if it did not.

    The broker forgets such a replica at once, and answers NONE to a repeated request although the
    directory still exists: only its answer in another registration is meaningful.
    """


class RemovedReplica(NamedTuple):
    """A replica that another controller removed from an assignment."""

    broker: BrokerId
    partition: TopicPartition
    topic_czxid: model.Zxid
    """The topic, as a later one of the same name has nothing to do with it."""


@dataclass(slots=True)
class ReassignmentLedger(Ledger):
    """The reassignments and orphans. Their records are durable; reads correct them."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    by_partition: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    topics_at_work: Counter[str] = field(default_factory=Counter)
    """The number of reassignments of each topic; topics without any have no entry."""
    rolling_back: Counter[RequestId] = field(default_factory=Counter)
    """The number of reassignments that each cancellation rolls back; others have no entry."""
    other_routes: int = 0
    """How often one of a route other than ``request`` began, changed its spec or ended."""
    unreadable_specs: dict[str, str] = field(default_factory=dict)
    orphans: dict[tuple[BrokerId, TopicPartition], Orphan] = field(default_factory=dict)
    orphaned: Counter[TopicPartition] = field(default_factory=Counter)
    """Orphans per partition: its leader must be confirmed before any of them is deleted."""
    orphans_failed: set[Orphan] = field(default_factory=set)
    """Orphans on a failed disk: not tried again before their broker registers again."""
    before: dict[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas of a partition before another client began to change them."""
    departed: dict[RemovedReplica, Instant] = field(default_factory=dict)
    """Replicas that another controller removed, and when that was seen."""
    orphans_after: Instant = START
    """Orphans alone are no reason to claim before this time."""
    orphans_retry_s: float = 0.0
    """The back-off after the last tenure that led to that time, in seconds."""
    orphans_left: dict[Orphan, Replicas] = field(default_factory=dict)
    """
    Orphans that the last tenure left although their brokers were live.

    Each with all brokers seen in the ISR of a partition with a leader since brokers last came or
    went.
    """

    def has_excluded(self, partition: TopicPartition) -> bool:
        """Return whether this tenure excluded the removing replicas: they only get StopReplica."""
        reassignment = self.by_partition.get(partition)
        phase = None if reassignment is None else reassignment.phase
        if isinstance(phase, phases.Starting):
            return phase.excluded_at is not None
        return isinstance(phase, phases.Shrinking | phases.Stopping)

    def excluded(
        self, partition: TopicPartition, assignment: model.PartitionAssignment
    ) -> Replicas:
        """Return the removing replicas of the assignment that this tenure took out of the ISR."""
        reassignment = self.by_partition.get(partition)
        match None if reassignment is None else reassignment.phase:
            case phases.Starting(excluded=excluded) | phases.Shrinking(excluded=excluded):
                return tuple(r for r in assignment.removing_replicas if r in excluded)
            case phases.Stopping():
                return assignment.removing_replicas
            case _:
                return ()

    def legacy_reassignments(self) -> list[TopicPartition]:
        """Return the unfinished reassignments of the legacy znode."""
        return [p for p, r in self.by_partition.items() if r.spec.route is Route.LEGACY]


@dataclass(slots=True)
class ReassignmentLeadership(Ledger):
    """Which of the daemon's own records were read, and which await another read."""

    lifetime: ClassVar[Lifetime] = Lifetime.LEADERSHIP

    specs_read: bool = False
    orphans_read: bool = False
    unconfirmed_specs: set[TopicPartition] = field(default_factory=set)
    """Records of which a write was rejected: the next read shows whether they exist."""


@dataclass(slots=True)
class ReassignmentTenure(Ledger):
    """What this tenure found of steps, orphans and foreign reassignments."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    may_have_foreign: bool = False
    """Whether topic znodes may contain foreign reassignments that are not adopted yet."""
    progress_at: Instant = START
    """When one of our steps in flight last made progress; with StopReplica sent, its deadline."""
    whole_since: dict[TopicPartition, Instant] = field(default_factory=dict)
    """Since when the added replicas of a step in flight have the whole log, as far as reported."""
    confirmed: dict[TopicPartition, tuple[BrokerId, model.LeaderEpoch]] = field(
        default_factory=dict
    )
    """For partitions with orphans: the epoch that their leader is known to have in this tenure."""
    orphans_tried: set[Orphan] = field(default_factory=set)
    orphan_logs: dict[tuple[BrokerId, TopicPartition], str] = field(default_factory=dict)
    """The log directories in which the logs of orphans stand, as brokers reported them."""

    def forget(self, partition: TopicPartition) -> None:
        """Forget what was found of a partition whose topic is gone."""
        self.confirmed.pop(partition, None)
        self.whole_since.pop(partition, None)
