"""
What the core is told: facts in the past tense, each a plain value.

Reads carry the level (what a znode holds now), never a difference. Answers of brokers carry what
was sent, so that they can be matched without callbacks. No event holds a client, a future or a
function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.core.applied_throttles import AppliedThrottle, Entity, EntityConfig
from controller.core.controls import Controls
from controller.core.model import (
    NEVER_ASKED,
    AcceptedEntry,
    AlterOutcome,
    BrokerEpoch,
    BrokerId,
    ConfigQuestion,
    ControllerEpoch,
    LeaderEpoch,
    LegacyPlan,
    LiveBroker,
    PartitionState,
    ReassignmentSpec,
    Replicas,
    RequestId,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.outcomes import EndedHistory, OpenHistory
from controller.core.submissions import Cancellation, RequestOptions, Submission

# --- read from ZooKeeper -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """All registrations under ``/brokers/ids``."""

    brokers: Mapping[BrokerId, LiveBroker]


@dataclass(frozen=True, slots=True)
class TopicsListed:
    """The children of ``/brokers/topics``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """Topic znodes; None for one that does not exist, a text for one that cannot be understood."""

    topics: Mapping[str, TopicAssignment | str | None]
    read_generation: int = 0
    """How many doubts (``ClusterView.doubts``) there had been when the reading began."""


@dataclass(frozen=True, slots=True)
class StatesRead:
    """Partition states; None where there is no znode, a text where it cannot be understood."""

    states: Mapping[TopicPartition, PartitionState | str | None]
    read_generation: int = 0
    """As of topics."""
    armed: frozenset[TopicPartition] | None = None
    """Whose next change will be told as ``StateChanged``; None where no watch was asked for."""


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The watch on a partition's state fired; what it holds now is not known yet."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class LegacyPlanRead:
    """``/admin/reassign_partitions``; None when it does not exist."""

    plan: LegacyPlan | None


@dataclass(frozen=True, slots=True)
class SpecsRead:
    """Every record under ``/admin/reassignments``; unreadable ones with the reason as text."""

    specs: Mapping[TopicPartition, ReassignmentSpec]
    unreadable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeletionsRead:
    """Topics queued under ``/admin/delete_topics``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class IsrNotificationsRead:
    """ISR change notifications of the leaders: znode names and the partitions they list."""

    names: tuple[str, ...]
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LogDirEventsRead:
    """Log directory failure notifications: znode names and the brokers that wrote them."""

    names: tuple[str, ...]
    brokers: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class PreferredElectionRead:
    """``/admin/preferred_replica_election``; None when it does not exist."""

    partitions: frozenset[TopicPartition] | None
    version: ZkVersion | None = None


@dataclass(frozen=True, slots=True)
class Orphan:
    """A log directory we could not have deleted, as recorded under ``/reassigner/orphans``."""

    broker: BrokerId
    partition: TopicPartition
    topic_czxid: Zxid
    reason: str
    failed_in: BrokerEpoch | None = None
    """
    The registration in which the broker's disk failed under the deletion, None if it did not.

    The broker forgets such a replica at once, and answers NONE when asked again though the
    directory is still there: only in another registration its answer means something.
    """


@dataclass(frozen=True, slots=True)
class OrphansRead:
    """Everything recorded under ``/reassigner/orphans``."""

    orphans: frozenset[Orphan]


@dataclass(frozen=True, slots=True)
class ClaimGuardsRead:
    """What decides whether a controller of ours would be safe here (design: native refuses)."""

    controller_broker: BrokerId | None
    """Who ``/controller`` names; None when it does not exist."""
    controller_is_ephemeral: bool
    kraft_controller_epoch: int
    feature_enabled: bool
    migration: str | None
    """Why ``/migration`` forbids a claim; None when it does not."""


# --- what operators ask for --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmissionsListed:
    """The children of ``/admin/reassignment_requests``."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class SubmissionsRead:
    """Requests as submitted; None for one that is gone."""

    submissions: Mapping[str, Submission | None]


@dataclass(frozen=True, slots=True)
class CancellationRead:
    """``/admin/cancel_reassignment_in_progress``; None when it does not exist."""

    cancellation: Cancellation | None


@dataclass(frozen=True, slots=True)
class KillSwitchRead:
    """Whether ``/admin/reassign_cancel`` exists."""

    is_on: bool


@dataclass(frozen=True, slots=True)
class QueueRead:
    """``/admin/reassign_partitions_queue``, a plan like the legacy one; None: does not exist."""

    plan: LegacyPlan | None


@dataclass(frozen=True, slots=True)
class ControlsRead:
    """Everything below ``/reassigner/control``."""

    controls: Controls


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """Everything below ``/reassigner/outcomes``, as far as it matters from now on."""

    open: Mapping[RequestId, OpenHistory]
    ended: Mapping[RequestId, EndedHistory]


@dataclass(frozen=True, slots=True)
class AcceptedRead:
    """The accepted entries of a request, in the order in which they were accepted."""

    request: RequestId
    entries: tuple[AcceptedEntry, ...]
    options: RequestOptions = field(default_factory=RequestOptions)
    """How it was to be carried out."""
    elsewhere: frozenset[TopicPartition] = frozenset()
    """Partitions that it did not bring to their target, or of which that cannot be read."""


@dataclass(frozen=True, slots=True)
class AppliedThrottlesRead:
    """Everything below ``/reassigner/throttles``."""

    applied_throttles: Mapping[Entity, AppliedThrottle]


@dataclass(frozen=True, slots=True)
class EntityConfigsRead:
    """Dynamic settings of topics and brokers; a text where one cannot be understood."""

    configs: Mapping[Entity, EntityConfig | str]


@dataclass(frozen=True, slots=True)
class SizesRead:
    """Bytes on disk of partitions, of the largest replica where several were asked."""

    sizes: Mapping[TopicPartition, int]
    errors: Mapping[BrokerId, str] = field(default_factory=dict)
    """Brokers that did not tell, and why."""
    replicas: Mapping[TopicPartition, Mapping[BrokerId, int]] = field(default_factory=dict)
    """Bytes of each replica, by who holds it; left out where very many were asked for."""


@dataclass(frozen=True, slots=True)
class WallClockRead:
    """What the clock on the wall says now: the core has only a monotonic one."""

    unix_s: float


# --- tenure and session ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeadershipGained:
    """This daemon leads among the daemons."""


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Another daemon leads, or nobody knows."""

    reason: str


@dataclass(frozen=True, slots=True)
class ControllerClaimed:
    """``/controller`` is ours at this epoch."""

    epoch: ControllerEpoch


@dataclass(frozen=True, slots=True)
class ClaimFailed:
    """The claim did not succeed; it may be tried again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deposed:
    """The claim is lost or given back: nothing may be written or sent any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The process was asked to stop: hand back and end."""


# --- answers of brokers ------------------------------------------------------------------------


class LeaderAndIsrResult(NamedTuple):
    """One partition of a LeaderAndIsr answer, with the epoch that was sent."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    error: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker's answer; ``resent`` when the request may have reached it before."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    error: int
    results: tuple[LeaderAndIsrResult, ...]
    resent: bool
    took_s: float = 0.0
    """From the first sending to the answer."""


class StopReplicaResult(NamedTuple):
    """One partition of a StopReplica answer."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool
    error: int


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker's answer to StopReplica."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    error: int
    results: tuple[StopReplicaResult, ...]
    resent: bool
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class UpdateMetadataAnswered:
    """A broker's answer to UpdateMetadata."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    error: int
    took_s: float = 0.0


class AlterResult(NamedTuple):
    """What the cluster's controller answered to one order, or that it did not."""

    partition: TopicPartition
    target: Replicas
    error: int
    why: str = ""
    fate: AlterOutcome = AlterOutcome.ANSWERED


@dataclass(frozen=True, slots=True)
class ReassignmentsAltered:
    """The cluster's controller answered, or did not in time: one result for each order."""

    results: tuple[AlterResult, ...]
    controller: BrokerId | None
    """Who answered; None: nobody did."""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AlterationsWithdrawn:
    """Orders that waited for their turn were not sent, as what they stood on changed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsProbed:
    """Whether the cluster's controller can be told what to move; ``problem`` None: it can."""

    problem: str | None
    is_final: bool = False
    """Whether the problem is not one of the moment: its release does not know the request."""


@dataclass(frozen=True, slots=True)
class TopicConfigsRead:
    """Effective settings of topics; a text says why one could not be learnt."""

    configs: Mapping[str, TopicConfig | str]
    asked: ConfigQuestion = NEVER_ASKED
    """The newest question that had been asked when the broker was sent the request."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A time asked for by ``SetTimer`` has come."""

    name: str


Event = (
    BrokersRead
    | TopicsListed
    | TopicsRead
    | StatesRead
    | StateChanged
    | LegacyPlanRead
    | SpecsRead
    | DeletionsRead
    | IsrNotificationsRead
    | LogDirEventsRead
    | PreferredElectionRead
    | OrphansRead
    | ClaimGuardsRead
    | SubmissionsListed
    | SubmissionsRead
    | CancellationRead
    | KillSwitchRead
    | QueueRead
    | ControlsRead
    | HistoryRead
    | AcceptedRead
    | AppliedThrottlesRead
    | EntityConfigsRead
    | SizesRead
    | WallClockRead
    | LeadershipGained
    | LeadershipLost
    | ControllerClaimed
    | ClaimFailed
    | Deposed
    | ShutdownRequested
    | LeaderAndIsrAnswered
    | StopReplicaAnswered
    | UpdateMetadataAnswered
    | ReassignmentsAltered
    | AlterationsWithdrawn
    | ReassignmentsProbed
    | TopicConfigsRead
    | TimerFired
)
