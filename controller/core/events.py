"""
Events: facts in the past tense, each a plain value.

A read carries the present content of a znode, never a difference. An answer of a broker carries
what was sent, so that it is matched without callbacks. No event holds a client, a future or a
function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.core import model
from controller.core.calls.broker_requests import BrokerAsk, Permission, ProducerIdBlock
from controller.core.calls.client_requests import ClientAsk, SubmittedReassignments
from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition
from controller.core.pacing.applied_throttles import AppliedThrottle, Entity, EntityConfig
from controller.core.pacing.controls import Controls
from controller.core.requests import outcomes
from controller.core.requests.submissions import Cancellation, RequestOptions, Submission

# --- read from ZooKeeper -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """All registrations under ``/brokers/ids``."""

    brokers: Mapping[BrokerId, model.LiveBroker]


@dataclass(frozen=True, slots=True)
class TopicsListed:
    """The children of ``/brokers/topics``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """Topic znodes; None for one that does not exist, a text for one that cannot be decoded."""

    topics: Mapping[str, model.TopicAssignment | str | None]
    read_generation: int = 0
    """``ClusterView.read_generation`` when the read began."""


@dataclass(frozen=True, slots=True)
class ProducerIdsRead:
    """``/latest_producer_id_block``: read at a claim where the daemon serves brokers."""

    block: ProducerIdBlock | str | None
    """The last block that was handed out; a text where it cannot be decoded; None: no block yet."""
    version: model.ZkVersion | None = None
    """None where there is no znode."""


@dataclass(frozen=True, slots=True)
class StatesRead:
    """Partition states; None where there is no znode, a text where it cannot be decoded."""

    states: Mapping[TopicPartition, model.PartitionState | str | None]
    read_generation: int = 0
    """As in ``TopicsRead``."""
    armed: frozenset[TopicPartition] | None = None
    """
    The states whose next change will be reported as ``StateChanged``; None where no watch was set.
    """


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The watch on a partition's state fired; its present content is not known yet."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class LegacyPlanRead:
    """``/admin/reassign_partitions``; None when it does not exist."""

    plan: model.LegacyPlan | None


@dataclass(frozen=True, slots=True)
class SpecsRead:
    """Every record under ``/admin/reassignments``; unreadable ones with the reason as text."""

    specs: Mapping[TopicPartition, model.ReassignmentSpec]
    unreadable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeletionsRead:
    """Topics queued under ``/admin/delete_topics``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicTreesRead:
    """The znodes of topics that are to be deleted; None for a topic that does not exist."""

    trees: Mapping[str, model.TopicTree | None]


@dataclass(frozen=True, slots=True)
class IsrNotificationsRead:
    """ISR change notifications of leaders: znode names and the partitions they list."""

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
    version: model.ZkVersion | None = None


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


@dataclass(frozen=True, slots=True)
class OrphansRead:
    """Everything recorded under ``/reassigner/orphans``."""

    orphans: frozenset[Orphan]


@dataclass(frozen=True, slots=True)
class ClaimGuardsRead:
    """The facts that decide whether the native engine may claim the role in this cluster."""

    controller_broker: BrokerId | None
    """The broker in ``/controller``; None when the znode does not exist."""
    controller_is_ephemeral: bool
    kraft_controller_epoch: int
    feature_enabled: bool
    migration: str | None
    """The reason for which ``/migration`` forbids a claim; None when it permits one."""


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

    plan: model.LegacyPlan | None


@dataclass(frozen=True, slots=True)
class ControlsRead:
    """Everything below ``/reassigner/control``."""

    controls: Controls


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """Everything below ``/reassigner/outcomes``, as far as it matters from now on."""

    open: Mapping[RequestId, outcomes.OpenHistory]
    ended: Mapping[RequestId, outcomes.EndedHistory]


@dataclass(frozen=True, slots=True)
class AcceptedRead:
    """The accepted entries of a request, in the order in which they were accepted."""

    request: RequestId
    entries: tuple[model.AcceptedEntry, ...]
    options: RequestOptions = field(default_factory=RequestOptions)
    """The options of the request."""
    elsewhere: frozenset[TopicPartition] = frozenset()
    """Partitions that did not reach their target, or whose outcome cannot be read."""


@dataclass(frozen=True, slots=True)
class AppliedThrottlesRead:
    """Everything below ``/reassigner/throttles``."""

    applied_throttles: Mapping[Entity, AppliedThrottle]


@dataclass(frozen=True, slots=True)
class EntityConfigsRead:
    """Dynamic settings of topics and brokers; a text where one cannot be decoded."""

    configs: Mapping[Entity, EntityConfig | str]


@dataclass(frozen=True, slots=True)
class SizesRead:
    """Bytes on disk of partitions, of the largest replica where several were reported."""

    sizes: Mapping[TopicPartition, int]
    errors: Mapping[BrokerId, str] = field(default_factory=dict)
    """Brokers that reported nothing, and why."""
    replicas: Mapping[TopicPartition, Mapping[BrokerId, int]] = field(default_factory=dict)
    """Bytes of each replica by broker; omitted where very many were requested."""
    unmeasured: frozenset[TopicPartition] = frozenset()
    """Requested partitions of which no broker reported a replica."""
    disks: Mapping[BrokerId, model.BrokerDisks] = field(default_factory=dict)
    """The log directories of the brokers that answered."""
    placed: Mapping[TopicPartition, Mapping[BrokerId, str]] = field(default_factory=dict)
    """The directory of each replica by broker, of brokers with several; omitted like sizes."""
    unable: frozenset[BrokerId] = model.NO_BROKERS
    """The brokers with an error that answered: they will report nothing later, either."""
    asked: frozenset[BrokerId] = model.NO_BROKERS
    """The brokers that were queried; none means all."""


@dataclass(frozen=True, slots=True)
class WallClockRead:
    """The present reading of the wall clock: the core has only a monotonic one."""

    unix_s: float


# --- tenure and session ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeadershipGained:
    """This daemon leads among the daemons."""


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """Another daemon leads, or the leader is unknown."""

    reason: str


@dataclass(frozen=True, slots=True)
class ControllerClaimed:
    """``/controller`` is ours at this epoch."""

    epoch: model.ControllerEpoch


@dataclass(frozen=True, slots=True)
class ClaimFailed:
    """The claim failed; it may be tried again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deposed:
    """The claim is lost or given up: no write or request is allowed any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """The process was asked to stop: resign and end."""


# --- answers of brokers ------------------------------------------------------------------------


class LeaderAndIsrResult(NamedTuple):
    """One partition of a LeaderAndIsr answer, with the epoch that was sent."""

    partition: TopicPartition
    leader_epoch: model.LeaderEpoch
    error: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker's answer; ``resent`` when an earlier copy of the request may have reached it."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    error: int
    results: tuple[LeaderAndIsrResult, ...]
    resent: bool
    took_s: float = 0.0
    """Seconds from the first sending to the answer."""


class StopReplicaResult(NamedTuple):
    """One partition of a StopReplica answer."""

    partition: TopicPartition
    leader_epoch: model.LeaderEpoch
    delete: bool
    error: int


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker's answer to StopReplica."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    error: int
    results: tuple[StopReplicaResult, ...]
    resent: bool
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class UpdateMetadataAnswered:
    """A broker's answer to UpdateMetadata."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    error: int
    took_s: float = 0.0


class AlterResult(NamedTuple):
    """The outcome of one AlterPartitionReassignments entry, answered or not."""

    partition: TopicPartition
    target: Replicas
    error: int
    why: str = ""
    fate: model.AlterOutcome = model.AlterOutcome.ANSWERED


@dataclass(frozen=True, slots=True)
class ReassignmentsAltered:
    """The cluster's controller answered, or did not in time: one result for each entry."""

    results: tuple[AlterResult, ...]
    controller: BrokerId | None
    """The controller that answered; None: none did."""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AlterationsWithdrawn:
    """Queued AlterPartitionReassignments entries were not sent, as their preconditions changed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsProbed:
    """Whether the controller supports AlterPartitionReassignments; ``problem`` None if so."""

    problem: str | None
    is_final: bool = False
    """Whether the problem is permanent: its release does not know the request."""


@dataclass(frozen=True, slots=True)
class LogDirsDescribed:
    """The log directories of a broker, and where the replicas are that it was asked for."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    at: model.Instant
    """The instant before the broker was queried."""
    dirs: Mapping[str, bool]
    """Whether each of its directories has failed."""
    asked: frozenset[TopicPartition] = frozenset()
    """The requested partitions."""
    replicas: Mapping[TopicPartition, model.PlacedReplica] = field(default_factory=dict)
    """Those of them that it has, except in failed directories."""
    problem: str | None = None
    """Why nothing is known; None: it answered."""


class DirectoryResult(NamedTuple):
    """The answer to one replica of AlterReplicaLogDirs; the error is negative without one."""

    partition: TopicPartition
    directory: str
    error: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class LogDirsAltered:
    """A broker's answer to AlterReplicaLogDirs, or that there was none."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    results: tuple[DirectoryResult, ...]


@dataclass(frozen=True, slots=True)
class TopicConfigsRead:
    """Effective settings of topics; a text says why they could not be read."""

    configs: Mapping[str, model.TopicConfig | str]
    asked: model.ConfigQuestion = model.NEVER_ASKED
    """The newest request at the time the broker was sent the request."""


@dataclass(frozen=True, slots=True)
class BrokerSettingsRead:
    """Settings of a broker that change with a restart only, and matter to a controller."""

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    """A broker reads the settings when it starts."""
    deletes_topics: bool | None
    """``delete.topic.enable``; None: it did not answer."""
    problem: str = ""
    """Why it did not answer."""
    protocol: str | None = None
    """``inter.broker.protocol.version``; None: it did not answer, or with none."""


@dataclass(frozen=True, slots=True)
class BrokerAsked:
    """A broker sent a request to its controller, and waits for the answer."""

    ticket: int
    """The number of the request, by which it is answered; unique in the process."""
    request: BrokerAsk
    permission: Permission


@dataclass(frozen=True, slots=True)
class ClientAsked:
    """A client sent a request to the controller, as a broker permits it, and waits."""

    ticket: int
    """As in ``BrokerAsked``; the numbers of both are one sequence."""
    request: ClientAsk
    permission: Permission


@dataclass(frozen=True, slots=True)
class ReassignmentsSubmitted:
    """What a client asked to reassign or to cancel is durable, or the reason why it is not."""

    ticket: int
    submitted: SubmittedReassignments


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer set with ``SetTimer`` fired."""

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
    | TopicTreesRead
    | IsrNotificationsRead
    | LogDirEventsRead
    | PreferredElectionRead
    | ProducerIdsRead
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
    | LogDirsDescribed
    | LogDirsAltered
    | TopicConfigsRead
    | BrokerSettingsRead
    | BrokerAsked
    | ClientAsked
    | ReassignmentsSubmitted
    | TimerFired
)
