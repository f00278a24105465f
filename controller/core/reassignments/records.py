"""Events and records of reassignments and of orphans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from controller.core import model
from controller.core.bases import Durable, Fact, Flags, Volatile
from controller.core.model import Blocked, BrokerId, Instant, Replicas, RequestId, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.model import Orphan


@dataclass(frozen=True, slots=True)
class SpecsRead(Fact):
    """Every record under ``/admin/reassignments``; unreadable ones with the reason as text."""

    wakes: ClassVar[Flags] = (
        *("tenure", "endings", "throttles", "cancel"),
        *("submissions", "queue", "plan"),
    )

    specs: Mapping[TopicPartition, model.ReassignmentSpec]
    unreadable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OrphansRead(Fact):
    """Everything recorded under ``/reassigner/orphans``."""

    wakes: ClassVar[Flags] = ("tenure", "orphans")

    orphans: frozenset[Orphan]


class StopReplicaResult(NamedTuple):
    """One partition of a StopReplica answer."""

    partition: TopicPartition
    leader_epoch: model.LeaderEpoch
    delete: bool
    error: int


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered(Fact):
    """A broker's answer to StopReplica."""

    wakes: ClassVar[Flags] = ()

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    error: int
    results: tuple[StopReplicaResult, ...]
    resent: bool
    took_s: float = 0.0


class AlterResult(NamedTuple):
    """The outcome of one AlterPartitionReassignments entry, answered or not."""

    partition: TopicPartition
    target: Replicas
    error: int
    why: str = ""
    fate: model.AlterOutcome = model.AlterOutcome.ANSWERED


@dataclass(frozen=True, slots=True)
class ReassignmentsAltered(Fact):
    """The cluster's controller answered, or did not in time: one result for each entry."""

    wakes: ClassVar[Flags] = ()

    results: tuple[AlterResult, ...]
    controller: BrokerId | None
    """The controller that answered; None: none did."""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AlterationsWithdrawn(Fact):
    """Queued AlterPartitionReassignments entries were not sent, as their preconditions changed."""

    wakes: ClassVar[Flags] = ()

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class SpecRecord(Durable):
    """``/admin/reassignments/T/P``: created when ``spec.version`` is None, else replaced."""

    wakes: ClassVar[Flags] = ("capacity", "plan", "tenure", "throttles", "cancel", "submissions")

    partition: TopicPartition
    spec: model.ReassignmentSpec


@dataclass(frozen=True, slots=True)
class SpecEndedRecord(Durable):
    """The reassignment ended: its record is deleted; ``version`` None when there was none."""

    wakes: ClassVar[Flags] = (
        *("capacity", "plan", "tenure", "queue"),
        *("deletions", "endings", "throttles", "cancel"),
    )

    partition: TopicPartition
    version: model.ZkVersion | None
    request: RequestId
    outcome: str
    stands: bool = False
    """
    Whether it ends without a step of ours: valid only while the topic znode is unchanged since the
    read.
    """


@dataclass(frozen=True, slots=True)
class PhaseRecord(Volatile):
    """The partition's phase; recovery derives it from the durable records."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    partition: TopicPartition
    phase: phases.Phase
    at: Instant
    cause: str


@dataclass(frozen=True, slots=True)
class BlockedRecord(Volatile):
    """What the partition waits for; None when it makes progress."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    partition: TopicPartition
    blocked: Blocked | None
    at: Instant


@dataclass(frozen=True, slots=True)
class ForeignAdoptedRecord(Volatile):
    """All foreign reassignments in the topic znodes are adopted."""

    wakes: ClassVar[Flags] = ("capacity",)
    is_journaled: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class StartSkippedRecord(Volatile):
    """These cannot begin now; others are considered before them next time."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    partitions: tuple[TopicPartition, ...]
    scans_left: int
    """Scans still needed until all were considered."""


@dataclass(frozen=True, slots=True)
class PendingSortedRecord(Volatile):
    """Pending reassignments are sorted by the order in force."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class OrphanRecord(Durable):
    """A replica that could not be deleted: ``/reassigner/orphans/<broker>/<topic>-<partition>``."""

    wakes: ClassVar[Flags] = ("orphans", "deletions")

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class OrphanEndedRecord(Durable):
    """The orphan is deleted or was adopted by a new assignment."""

    wakes: ClassVar[Flags] = ("tenure",)

    orphan: Orphan


ReassignmentEvent = (
    SpecsRead | OrphansRead | StopReplicaAnswered | ReassignmentsAltered | AlterationsWithdrawn
)


ReassignmentRecord = (
    SpecRecord
    | SpecEndedRecord
    | PhaseRecord
    | BlockedRecord
    | ForeignAdoptedRecord
    | StartSkippedRecord
    | PendingSortedRecord
    | OrphanRecord
    | OrphanEndedRecord
)
