"""
Reassignments and requests: one partition's reassignment, its load, and its request.

Held by the view and changed by ``observe`` and ``apply`` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core import model, outcomes, phases, submissions
from controller.core.model import (
    Blocked,
    BrokerId,
    Instant,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.options import EngineName

START: Final = Instant(0.0)
"""Before the first event."""


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
    """
    Delegated: whether an unanswered alter entry may still be carried out, of this daemon or an
    earlier one.
    """
    lost: frozenset[BrokerId] = model.NO_BROKERS
    """Delegated: replicas that were dropped while their broker was dead."""
    deleted: frozenset[BrokerId] = model.NO_BROKERS
    """Dropped replicas whose deletion was confirmed in this tenure."""
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
        """
        Return whether an earlier tenure or target may have had replicas moved between directories.

        They ask for that when the topic znode is at the target.
        """
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
        self.phase = phases.checked(self.phase, phase, change, partition)
        self.phase_since = at
        self.blocked = self.blocked_since = None

    def update(self, phase: phases.Phase, partition: TopicPartition) -> None:
        """
        Change the fields of the present phase; its age and what it waits for stay.

        Raises:
            InvariantError: it is another phase, or one without such fields.

        """
        self.phase = phases.checked(self.phase, phase, phases.PhaseCause.UPDATE, partition)

    def wait(self, blocked: Blocked | None, at: Instant) -> None:
        """Note what it waits for; a new detail of the same reason does not restart the wait."""
        before = self.blocked
        if (
            blocked is None
            or before is None
            or (before.by, before.is_copying) != (blocked.by, blocked.is_copying)
        ):
            self.blocked_since = at if blocked else None
        self.blocked = blocked


@dataclass(slots=True)
class Request:
    """One request, from its first accepted or refused entry to some time after its summary."""

    route: Route
    since: Instant
    kind: str = ""
    """``legacy``, ``request``, ``queue``, ``cancel`` or ``foreign``."""
    options: submissions.RequestOptions = field(default_factory=submissions.RequestOptions)
    parts: dict[str, outcomes.Part] = field(default_factory=dict)
    total: int = 0
    """The number of known entries, including refused ones."""
    open: int = 0
    """Reassignments that have not ended."""
    in_flight: int = 0
    accepted: int = 0
    """The number of entries in its shards of accepted ones."""
    settled: set[TopicPartition] = field(default_factory=set)
    """Accepted or refused entries, while submitted znodes of the request exist."""
    refused: list[model.Refusal] = field(default_factory=list)
    endings: dict[TopicPartition, model.PartitionOutcome] = field(default_factory=dict)
    """Partitions that did not reach their target, until the summary is written."""
    fates: Counter[model.OutcomeKind] = field(default_factory=Counter)
    moved_bytes: int | None = None
    """Bytes copied for partitions that ended, as far as their sizes were known."""
    uncounted: int = 0
    """Partitions that were copied and ended before a broker reported their size."""
    has_ended: bool = False
    """Whether its summary is written."""

    @property
    def done(self) -> int:
        """Entries that reached their target; an upper bound while submitted znodes of it exist."""
        return max(self.total - self.open - self.refused_count - self.fates.total(), 0)

    @property
    def refused_count(self) -> int:
        """The number of refused entries."""
        return sum(r.entries for r in self.refused)

    @property
    def unsettled(self) -> int:
        """Entries that were neither accepted nor refused, by the most complete count."""
        counted = self.accepted + sum(r.entries for r in self.refused if not r.was_accepted)
        named = len(self.settled) + sum(r.entries for r in self.refused if r.partition is None)
        return max(self.total - max(counted, named), 0)

    def ended(self, ending: model.PartitionOutcome) -> None:
        """Count an outcome, once per partition."""
        if ending.partition not in self.endings:
            self.endings[ending.partition] = ending
            self.fates[ending.fate] += 1


def kind_of(request: RequestId) -> str:
    """Return the kind of a request by its id: ``legacy``, ``queue``, ``cancel`` or ``request``."""
    prefix = request.partition("-")[0]
    return prefix if prefix in {"legacy", "queue", "cancel"} else "request"


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """A topic as it was when entries of its partitions were judged acceptable."""

    czxid: model.Zxid
    version: model.ZkVersion
    """With ``czxid`` it identifies the content of the znode."""
    config: model.TopicConfig | None


@dataclass(frozen=True, slots=True)
class AtomicCheck:
    """The facts by which an atomic request was judged acceptable; while they hold, it still is."""

    parts: frozenset[tuple[str, model.Zxid, model.ZkVersion]]
    refused: int
    """The number of its refusals."""
    brokers: frozenset[BrokerId]
    deletions: frozenset[str] | None
    unreadable_specs: frozenset[str]
    engine: EngineName | None
    other_routes: int
    """As in ``ClusterView``."""
    log_dirs: tuple[tuple[BrokerId, Mapping[str, bool] | None], ...]
    """The reports of the brokers whose log directories its entries name."""
    topics: Mapping[str, TopicCheck | None]
    """Every topic with an entry; None where it cannot be judged."""
