"""
What becomes durable: one record per fact a znode will hold, and the volatile ones that ride along.

The reactor merges the records of many changes into few fenced multis and only then applies them to
the view (``apply``). A record never says how it is written; that is ``reactor.group_commit``.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.applied_throttles import AppliedThrottle, Entity
from controller.core.atomic_checks import AtomicCheck
from controller.core.effects import Effect
from controller.core.events import Orphan
from controller.core.model import (
    NO_BROKERS,
    AcceptedEntry,
    Blocked,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionOutcome,
    ReassignmentSpec,
    Refusal,
    Replicas,
    RequestId,
    TopicPartition,
    ZkVersion,
)
from controller.core.options import EngineName
from controller.core.outcomes import Part, Summary
from controller.core.phases import Phase


@dataclass(frozen=True, slots=True)
class AssignmentRecord:
    """The partition's entry in its topic znode, merged with the other partitions' of the batch."""

    partition: TopicPartition
    assignment: PartitionAssignment


@dataclass(frozen=True, slots=True)
class StateRecord:
    """
    A compare-and-set of a partition's state.

    ``leader_epoch`` is always one more than before: brokers ignore a LeaderAndIsr whose epoch they
    have, so a write without the bump could never be delivered.
    """

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    controller_epoch: ControllerEpoch
    expected_version: ZkVersion
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class StateCreatedRecord:
    """The first state of a new partition."""

    partition: TopicPartition
    leader: BrokerId
    isr: Replicas
    controller_epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class SpecRecord:
    """``/admin/reassignments/T/P``: created when ``goal.version`` is None, else replaced."""

    partition: TopicPartition
    spec: ReassignmentSpec


@dataclass(frozen=True, slots=True)
class SpecEndedRecord:
    """The reassignment ended: its record goes; ``version`` None when there was none of ours."""

    partition: TopicPartition
    version: ZkVersion | None
    request: RequestId
    outcome: str
    stands: bool = False
    """It ends where the partition stands, no step of ours was seen to end there: that holds only as
    long as the topic znode says what was read."""


@dataclass(frozen=True, slots=True)
class LegacyEntryRecord:
    """The entry in ``/admin/reassign_partitions``; ``replicas`` None takes it out."""

    partition: TopicPartition
    replicas: Replicas | None


@dataclass(frozen=True, slots=True)
class LegacyPlanEndedRecord:
    """``/admin/reassign_partitions`` goes, if it is still at this version."""

    version: ZkVersion


@dataclass(frozen=True, slots=True)
class RefusalRecord:
    """Entries that are not carried out, in a shard with the endings of their request."""

    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class PartitionOutcomeRecord:
    """How a partition ended that did not simply reach its target, in a shard of its request."""

    ending: PartitionOutcome


@dataclass(frozen=True, slots=True)
class PartRecord:
    """A submitted znode is being accepted: ``/reassigner/outcomes/<request>/part-<name>``."""

    request: RequestId
    part: Part


@dataclass(frozen=True, slots=True)
class AcceptedRecord:
    """An accepted entry, in a shard with the others of its request in the same multi."""

    request: RequestId
    entry: AcceptedEntry


@dataclass(frozen=True, slots=True)
class SubmissionReliedRecord:
    """Volatile: decided by this version of a submitted znode; refused when it is another."""

    name: str
    version: ZkVersion


@dataclass(frozen=True, slots=True)
class SubmissionEndedRecord:
    """``/admin/reassignment_requests/<name>`` goes: all of it was accepted or refused."""

    name: str
    version: ZkVersion


@dataclass(frozen=True, slots=True)
class CancellationEndedRecord:
    """``/admin/cancel_reassignment_in_progress`` goes, if it is still at this version."""

    version: ZkVersion


@dataclass(frozen=True, slots=True)
class QueueEntryEndedRecord:
    """The entry leaves ``/admin/reassign_partitions_queue``: it starts, or never will."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class QueueEndedRecord:
    """``/admin/reassign_partitions_queue`` goes, if it is still at this version."""

    version: ZkVersion


@dataclass(frozen=True, slots=True)
class RequestOutcomeRecord:
    """How a request ended: ``/reassigner/outcomes/<request>/summary``."""

    summary: Summary


@dataclass(frozen=True, slots=True)
class RequestOutcomeForgottenRecord:
    """An old outcome goes, with all its children; where they are very many, first some of them."""

    request: RequestId
    children: tuple[str, ...]
    is_last: bool = True
    """Whether the outcome itself goes with these children."""


@dataclass(frozen=True, slots=True)
class AppliedThrottleRecord:
    """
    A throttle is set: the lease, the entity's settings and their announcement, in one multi.

    ``values`` are all settings of the entity; ``expected_version`` None creates the znode.
    """

    lease: AppliedThrottle
    values: tuple[tuple[str, str], ...]
    expected_version: ZkVersion | None


@dataclass(frozen=True, slots=True)
class AppliedThrottleEndedRecord:
    """
    A throttle is lifted: the settings as they are to be, announced, and the lease goes.

    ``values`` None leaves the settings alone: nothing of ours stands there any more.
    """

    entity: Entity
    applied_version: ZkVersion
    values: tuple[tuple[str, str], ...] | None
    expected_version: ZkVersion | None


@dataclass(frozen=True, slots=True)
class Settled:
    """A topic or a broker whose throttle is right, as of a note in ``view.stakes``."""

    entity: Entity
    note: int
    kept: tuple[str, ...] = ()
    """What somebody else set, and we leave, as ``key=value``."""


@dataclass(frozen=True, slots=True)
class ThrottlesSettledRecord:
    """Volatile: the throttles of these stand, or nobody wants any."""

    settled: tuple[Settled, ...]


@dataclass(frozen=True, slots=True)
class OrphanRecord:
    """A replica that could not be deleted: ``/reassigner/orphans/<broker>/<topic>-<partition>``."""

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class OrphanEndedRecord:
    """The orphan is gone or was adopted by a new assignment."""

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class NotificationsDeletedRecord:
    """Processed children of a notification directory; ``kind`` is its name in ``znodes.paths``."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreferredElectionEndedRecord:
    """``/admin/preferred_replica_election`` goes."""

    version: ZkVersion


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """Volatile: the partition's phase; recovery finds it anew from the durable records."""

    partition: TopicPartition
    phase: Phase
    at: Instant
    cause: str


@dataclass(frozen=True, slots=True)
class BlockedRecord:
    """Volatile: what the partition waits for; None when it goes on."""

    partition: TopicPartition
    blocked: Blocked | None
    at: Instant


@dataclass(frozen=True, slots=True)
class PreferredTriedRecord:
    """
    Volatile: the preferred leaders of these partitions are elected, or cannot be.

    Part of the change that writes the election: refused with it, the election is still to be held.
    """

    partitions: tuple[TopicPartition, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class LeadersBalancedRecord:
    """Volatile: the balance of leaderships was checked; these are to go to preferred leaders."""

    partitions: tuple[TopicPartition, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class ForeignAdoptedRecord:
    """Volatile: everything the topic znodes name is driven by us."""


@dataclass(frozen=True, slots=True)
class StartSkippedRecord:
    """Volatile: these cannot begin now; others are looked at before them next time."""

    partitions: tuple[TopicPartition, ...]
    scans_left: int
    """How many more scans it takes until everybody was looked at."""


@dataclass(frozen=True, slots=True)
class EngineRecord:
    """Volatile: which engine works from now on, and why."""

    engine: EngineName
    why: str


@dataclass(frozen=True, slots=True)
class StatesPolledRecord:
    """Volatile: some states are being read anew; when the next are, and from which on."""

    again: Instant
    next_from: int


@dataclass(frozen=True, slots=True)
class IdleRecord:
    """Volatile: since when there has been nothing to do; None when there is."""

    since: Instant | None


@dataclass(frozen=True, slots=True)
class YieldedRecord:
    """Volatile: the role is given back so that these topics can be deleted."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class UpdateRefusedRecord:
    """Volatile: the role is given back as brokers do not do what the tenure sends."""

    why: str


@dataclass(frozen=True, slots=True)
class JudgedRecord:
    """Volatile: so many entries of a submitted znode, from the first on, are dealt with."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class AtomicCheckedRecord:
    """Volatile: nothing speaks against any entry of a request that is all or nothing."""

    request: RequestId
    grounds: AtomicCheck


@dataclass(frozen=True, slots=True)
class PendingSortedRecord:
    """Volatile: those that wait are put in the order that holds now."""


@dataclass(frozen=True, slots=True)
class LeaderMovedRecord:
    """Volatile: a step of ours moved a leadership from one broker to another."""

    brokers: tuple[BrokerId, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class PaceRecord:
    """Volatile: how many partitions may be in flight now, and the evidence for it."""

    before: int | None
    """None: the first of a tenure."""
    in_flight_max: int
    evidence: str
    at: Instant


Record = (
    AssignmentRecord
    | StateRecord
    | StateCreatedRecord
    | SpecRecord
    | SpecEndedRecord
    | LegacyEntryRecord
    | LegacyPlanEndedRecord
    | RefusalRecord
    | PartitionOutcomeRecord
    | PartRecord
    | AcceptedRecord
    | SubmissionReliedRecord
    | SubmissionEndedRecord
    | CancellationEndedRecord
    | QueueEntryEndedRecord
    | QueueEndedRecord
    | RequestOutcomeRecord
    | RequestOutcomeForgottenRecord
    | AppliedThrottleRecord
    | AppliedThrottleEndedRecord
    | JudgedRecord
    | AtomicCheckedRecord
    | LeaderMovedRecord
    | LeadersBalancedRecord
    | PendingSortedRecord
    | ThrottlesSettledRecord
    | PaceRecord
    | OrphanRecord
    | OrphanEndedRecord
    | NotificationsDeletedRecord
    | PreferredElectionEndedRecord
    | PhaseRecord
    | BlockedRecord
    | PreferredTriedRecord
    | ForeignAdoptedRecord
    | StartSkippedRecord
    | EngineRecord
    | StatesPolledRecord
    | IdleRecord
    | YieldedRecord
    | UpdateRefusedRecord
)


@dataclass(frozen=True, slots=True)
class Change:
    """Records that become durable together, and the effects that may follow only then."""

    records: tuple[Record, ...]
    effects: tuple[Effect, ...] = ()
    partition: TopicPartition | None = None
    """Whose change this is: what is looked at again when the write is rejected."""
    bounced: frozenset[BrokerId] = NO_BROKERS
    """Brokers whose bounce it treats; they are kept where it is not written."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one turn wants: changes to commit, and effects that need no write first."""

    changes: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()
