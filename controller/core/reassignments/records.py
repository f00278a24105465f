"""Events and records of reassignments and of orphans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.core import model
from controller.core.bases import Durable, Fact, Volatile
from controller.core.model import Blocked, BrokerId, Instant, Replicas, RequestId, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.model import Orphan


@dataclass(frozen=True, slots=True)
class SpecsRead(
    Fact,
    wakes=(
        *("tenure", "endings", "throttles", "cancel"),
        *("submissions", "queue", "plan"),
    ),
):
    """Every record under ``/admin/reassignments``; unreadable ones with the reason as text."""

    specs: Mapping[TopicPartition, model.ReassignmentSpec]
    unreadable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OrphansRead(Fact, wakes=("tenure", "orphans")):
    """Everything recorded under ``/reassigner/orphans``."""

    orphans: frozenset[Orphan]


class StopReplicaResult(NamedTuple):
    """One partition of a StopReplica answer."""

    partition: TopicPartition
    leader_epoch: model.LeaderEpoch
    delete: bool
    error: int


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered(Fact, wakes=()):
    """A broker's answer to StopReplica."""

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
class ReassignmentsAltered(Fact, wakes=()):
    """The cluster's controller answered, or did not in time: one result for each entry."""

    results: tuple[AlterResult, ...]
    controller: BrokerId | None
    """The controller that answered; None: none did."""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AlterationsWithdrawn(Fact, wakes=()):
    """Queued AlterPartitionReassignments entries were not sent, as their preconditions changed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class SpecRecord(
    Durable, wakes=("capacity", "plan", "tenure", "throttles", "cancel", "submissions")
):
    """``/admin/reassignments/T/P``: created when ``spec.version`` is None, else replaced."""

    partition: TopicPartition
    spec: model.ReassignmentSpec


DONE: Final = "done"
"""The outcome of a reassignment at its target."""


@dataclass(frozen=True, slots=True)
class SpecEndedRecord(
    Durable,
    wakes=(
        *("capacity", "plan", "tenure", "queue", "drains"),
        *("deletions", "endings", "throttles", "cancel"),
    ),
):
    """The reassignment ended: its record is deleted; ``version`` None when there was none."""

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
class PhaseRecord(Volatile, wakes=(), is_journaled=False):
    """The partition's phase; recovery derives it from the durable records."""

    partition: TopicPartition
    phase: phases.Phase
    at: Instant
    cause: str


@dataclass(frozen=True, slots=True)
class BlockedRecord(Volatile, wakes=(), is_journaled=False):
    """What the partition waits for; None when it makes progress."""

    partition: TopicPartition
    blocked: Blocked | None
    at: Instant


@dataclass(frozen=True, slots=True)
class ForeignAdoptedRecord(Volatile, wakes=("capacity",), is_journaled=False):
    """All foreign reassignments in the topic znodes are adopted."""


@dataclass(frozen=True, slots=True)
class StartSkippedRecord(Volatile, wakes=(), is_journaled=False):
    """These cannot begin now; others are considered before them next time."""

    partitions: tuple[TopicPartition, ...]
    scans_left: int
    """Scans still needed until all were considered."""


@dataclass(frozen=True, slots=True)
class PendingSortedRecord(Volatile, wakes=(), is_journaled=False):
    """Pending reassignments are sorted by the order in force."""


@dataclass(frozen=True, slots=True)
class OrphanRecord(Durable, wakes=("orphans", "deletions")):
    """A replica that could not be deleted: ``/reassigner/orphans/<broker>/<topic>-<partition>``."""

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class OrphanEndedRecord(Durable, wakes=("tenure",)):
    """The orphan is deleted or was adopted by a new assignment."""

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
