"""
Records: one per durable change of a znode, and volatile ones that accompany them.

The reactor merges the records of many changes into few fenced multis and only then applies them to
the view (``apply``). A record never says how it is written; ``reactor.group_commit`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.core import events, model, options
from controller.core.calls.broker_requests import BrokerAnswer, ProducerIdBlock
from controller.core.calls.client_requests import PartitionResult
from controller.core.calls.topic_requests import TopicResult, TopicSettings
from controller.core.effects import Effect
from controller.core.model import Blocked, BrokerId, Instant, Replicas, RequestId, TopicPartition
from controller.core.pacing import applied_throttles
from controller.core.reassignments import phases
from controller.core.requests import outcomes
from controller.core.requests.model import AtomicCheck


@dataclass(frozen=True, slots=True)
class AssignmentRecord:
    """The partition's entry in its topic znode, merged with other partitions of the batch."""

    partition: TopicPartition
    assignment: model.PartitionAssignment


@dataclass(frozen=True, slots=True)
class TopicIdRecord:
    """The id of a topic whose znode has none, merged with assignments of the batch."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class StateRecord:
    """
    A compare-and-set of a partition's state.

    ``leader_epoch`` is always one more than before: brokers ignore a LeaderAndIsr with an epoch
    they have, so a write without the bump could never be delivered.
    """

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: model.LeaderEpoch
    isr: Replicas
    controller_epoch: model.ControllerEpoch
    expected_version: model.ZkVersion
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class StateCreatedRecord:
    """The first state of a new partition."""

    partition: TopicPartition
    leader: BrokerId
    isr: Replicas
    controller_epoch: model.ControllerEpoch


@dataclass(frozen=True, slots=True)
class IsrRecord:
    """
    A compare-and-set of the ISR alone, as the partition's leader asked for it (KIP-497).

    Leader and epochs stay: it is the leader's decision, which below inter-broker protocol 2.7 it
    writes itself. The controller epoch stays, too: it says who decided the leader epoch.
    """

    partition: TopicPartition
    before: model.PartitionState
    isr: Replicas
    leader_recovery_state: int


@dataclass(frozen=True, slots=True)
class AskAnsweredRecord:
    """Volatile: the request of a broker or a client is answered."""

    ticket: int
    answer: BrokerAnswer | None = None
    """None to a client, and where nothing follows from the answer."""


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """``/latest_producer_id_block``: created when ``expected_version`` is None, else replaced."""

    block: ProducerIdBlock
    expected_version: model.ZkVersion | None


@dataclass(frozen=True, slots=True)
class ShutdownBegunRecord:
    """Volatile: a broker asked for a controlled shutdown, in this registration."""

    broker: BrokerId
    epoch: model.BrokerEpoch


@dataclass(frozen=True, slots=True)
class ElectionsAskedRecord:
    """Volatile: a client waits for leaders of these partitions."""

    ticket: int
    partitions: tuple[TopicPartition, ...]
    results: tuple[PartitionResult, ...]
    """The results of the others."""
    is_unclean: bool = False
    """Whether any live replica may lead, or the preferred one shall."""


@dataclass(frozen=True, slots=True)
class TopicCreatedRecord:
    """The topic znode with its settings in ``/config/topics``, for a client's CreateTopics."""

    ticket: int
    result: TopicResult
    """The client's, once each partition has a leader; it has the topic id, too."""
    replicas: tuple[Replicas, ...]
    """By the number of the partition."""
    configs: TopicSettings
    """As brokers validated them."""
    replaces_configs: bool
    """Whether a former topic of the name left its settings."""


@dataclass(frozen=True, slots=True)
class TopicGrownRecord:
    """
    Volatile: partitions are added to a topic for a client's CreatePartitions.

    The assignment records of the same change are what becomes durable.
    """

    ticket: int
    result: TopicResult
    """The client's, once each partition has a leader."""


@dataclass(frozen=True, slots=True)
class DeletionRequestedRecord:
    """``/admin/delete_topics/T`` is created, for a client's DeleteTopics, if the topic exists."""

    ticket: int
    result: TopicResult
    """The client's."""


@dataclass(frozen=True, slots=True)
class DeletionBegunRecord:
    """
    The deletion of a topic begins: its marker exists and its znode is as it was read.

    Nothing is written; the multi checks both.
    """

    topic: str
    version: model.ZkVersion
    """The version of the topic znode."""


@dataclass(frozen=True, slots=True)
class PartitionZnodesDeletedRecord:
    """Some znodes below a topic znode are deleted: the topic has too many for one multi."""

    topic: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicDeletedRecord:
    """
    A topic, the rest below it, its settings and its marker are deleted in one multi.

    What there is to delete is what was listed of it (``TenureState.topic_trees``).
    """

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionMarkerEndedRecord:
    """``/admin/delete_topics/T`` is deleted: there is no such topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionBlockedRecord:
    """Volatile: what the deletion of a topic waits for; None when it proceeds."""

    topic: str
    wait: str | None


@dataclass(frozen=True, slots=True)
class SpecRecord:
    """``/admin/reassignments/T/P``: created when ``spec.version`` is None, else replaced."""

    partition: TopicPartition
    spec: model.ReassignmentSpec


@dataclass(frozen=True, slots=True)
class SpecEndedRecord:
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
class LegacyEntryRecord:
    """The entry in ``/admin/reassign_partitions``; ``replicas`` None removes it."""

    partition: TopicPartition
    replicas: Replicas | None
    log_dirs: model.LogDirs = ()


@dataclass(frozen=True, slots=True)
class LegacyPlanEndedRecord:
    """``/admin/reassign_partitions`` is deleted, if it is still at this version."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class RefusalRecord:
    """Refused entries, in a shard with the other outcomes of their request."""

    refusals: tuple[model.Refusal, ...]


@dataclass(frozen=True, slots=True)
class PartitionOutcomeRecord:
    """The outcome of a partition that did not reach its target, in a shard of its request."""

    ending: model.PartitionOutcome


@dataclass(frozen=True, slots=True)
class PartRecord:
    """A submitted znode is being accepted: ``/reassigner/outcomes/<request>/part-<name>``."""

    request: RequestId
    part: outcomes.Part


@dataclass(frozen=True, slots=True)
class AcceptedRecord:
    """An accepted entry, in a shard with others of its request in the same multi."""

    request: RequestId
    entry: model.AcceptedEntry


@dataclass(frozen=True, slots=True)
class SubmissionReliedRecord:
    """Volatile: the change is valid only for this version of a submitted znode."""

    name: str
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class SubmissionEndedRecord:
    """``/admin/reassignment_requests/<name>`` is deleted: all of it was accepted or refused."""

    name: str
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class CancellationEndedRecord:
    """``/admin/cancel_reassignment_in_progress`` is deleted, if it is still at this version."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class QueueEntryEndedRecord:
    """The entry leaves ``/admin/reassign_partitions_queue``: it starts, or never will."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class QueueEndedRecord:
    """``/admin/reassign_partitions_queue`` is deleted, if it is still at this version."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class RequestOutcomeRecord:
    """The outcome of a request: ``/reassigner/outcomes/<request>/summary``."""

    summary: outcomes.Summary


@dataclass(frozen=True, slots=True)
class RequestOutcomeForgottenRecord:
    """An old outcome is deleted with its children; where they are very many, some of them first."""

    request: RequestId
    children: tuple[str, ...]
    is_last: bool = True
    """Whether the outcome itself is deleted with these children."""


@dataclass(frozen=True, slots=True)
class AppliedThrottleRecord:
    """
    A throttle is applied: its record, the entity's settings and their notification, in one multi.

    ``values`` are all settings of the entity; ``expected_version`` None creates the znode.
    """

    lease: applied_throttles.AppliedThrottle
    values: tuple[tuple[str, str], ...]
    expected_version: model.ZkVersion | None


@dataclass(frozen=True, slots=True)
class AppliedThrottleEndedRecord:
    """
    A throttle is lifted: the restored settings, their notification, and the record is deleted.

    ``values`` None leaves the settings alone: none of them is ours any more.
    """

    entity: applied_throttles.Entity
    applied_version: model.ZkVersion
    values: tuple[tuple[str, str], ...] | None
    expected_version: model.ZkVersion | None


@dataclass(frozen=True, slots=True)
class Settled:
    """A topic or a broker whose throttle is settled, as of a note in ``view.participants``."""

    entity: applied_throttles.Entity
    note: int
    kept: tuple[str, ...] = ()
    """Settings of others that are kept, as ``key=value``."""


@dataclass(frozen=True, slots=True)
class ThrottlesSettledRecord:
    """Volatile: the effective throttles match the wanted ones."""

    settled: tuple[Settled, ...]


@dataclass(frozen=True, slots=True)
class OrphanRecord:
    """A replica that could not be deleted: ``/reassigner/orphans/<broker>/<topic>-<partition>``."""

    orphan: events.Orphan


@dataclass(frozen=True, slots=True)
class OrphanEndedRecord:
    """The orphan is deleted or was adopted by a new assignment."""

    orphan: events.Orphan


@dataclass(frozen=True, slots=True)
class NotificationsDeletedRecord:
    """Processed children of a notification directory; ``kind`` is its name in ``znodes.paths``."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreferredElectionEndedRecord:
    """``/admin/preferred_replica_election`` is deleted."""

    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """Volatile: the partition's phase; recovery derives it from the durable records."""

    partition: TopicPartition
    phase: phases.Phase
    at: Instant
    cause: str


@dataclass(frozen=True, slots=True)
class BlockedRecord:
    """Volatile: what the partition waits for; None when it makes progress."""

    partition: TopicPartition
    blocked: Blocked | None
    at: Instant


@dataclass(frozen=True, slots=True)
class PreferredTriedRecord:
    """
    Volatile: the preferred leaders of these partitions are elected, or cannot be.

    Part of the change that writes the election: if that is rejected, the election is still due.
    """

    partitions: tuple[TopicPartition, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class LeadersBalancedRecord:
    """Volatile: the balance of leaderships was checked; these need a preferred election."""

    partitions: tuple[TopicPartition, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class ForeignAdoptedRecord:
    """Volatile: all foreign reassignments in the topic znodes are adopted."""


@dataclass(frozen=True, slots=True)
class StartSkippedRecord:
    """Volatile: these cannot begin now; others are considered before them next time."""

    partitions: tuple[TopicPartition, ...]
    scans_left: int
    """Scans still needed until all were considered."""


@dataclass(frozen=True, slots=True)
class EngineRecord:
    """Volatile: the engine from now on, and why."""

    engine: options.EngineName
    why: str


@dataclass(frozen=True, slots=True)
class StatesPolledRecord:
    """Volatile: some states are being read again; when the next follow, and from which on."""

    again: Instant
    next_from: int


@dataclass(frozen=True, slots=True)
class IdleRecord:
    """Volatile: since when there has been nothing to do; None when there is."""

    since: Instant | None


@dataclass(frozen=True, slots=True)
class YieldedRecord:
    """Volatile: the role is given up so that these topics can be deleted."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class RoleCededRecord:
    """Volatile: the role is given up so that a broker carries out this request of a client."""

    request: str


@dataclass(frozen=True, slots=True)
class UpdateRefusedRecord:
    """Volatile: the role is given up because brokers refuse the requests of the tenure."""

    why: str


@dataclass(frozen=True, slots=True)
class EndpointUnreachedRecord:
    """Volatile: the role is given up because brokers cannot reach the controller endpoint."""

    brokers: frozenset[BrokerId]
    why: str


@dataclass(frozen=True, slots=True)
class JudgedRecord:
    """Volatile: this many entries of a submitted znode, from the first on, are settled."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class AtomicCheckedRecord:
    """Volatile: every entry of an atomic request was judged acceptable."""

    request: RequestId
    grounds: AtomicCheck


@dataclass(frozen=True, slots=True)
class PendingSortedRecord:
    """Volatile: pending reassignments are sorted by the order in force."""


@dataclass(frozen=True, slots=True)
class LeaderMovedRecord:
    """Volatile: a step moved a leadership from one broker to another."""

    brokers: tuple[BrokerId, ...]
    at: Instant


@dataclass(frozen=True, slots=True)
class PaceRecord:
    """Volatile: the limit of partitions in flight from now on, and the evidence for it."""

    before: int | None
    """None for the first of a tenure."""
    in_flight_max: int
    evidence: str
    at: Instant


Record = (
    AssignmentRecord
    | TopicIdRecord
    | StateRecord
    | StateCreatedRecord
    | IsrRecord
    | AskAnsweredRecord
    | ProducerIdsRecord
    | ShutdownBegunRecord
    | ElectionsAskedRecord
    | TopicCreatedRecord
    | TopicGrownRecord
    | DeletionRequestedRecord
    | DeletionBegunRecord
    | PartitionZnodesDeletedRecord
    | TopicDeletedRecord
    | DeletionMarkerEndedRecord
    | DeletionBlockedRecord
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
    | RoleCededRecord
    | UpdateRefusedRecord
    | EndpointUnreachedRecord
)


@dataclass(frozen=True, slots=True)
class Change:
    """Records that become durable together, and the effects that may follow only then."""

    records: tuple[Record, ...]
    effects: tuple[Effect, ...] = ()
    partition: TopicPartition | None = None
    """The partition that is changed: it is examined again when the write is rejected."""
    bounced: frozenset[BrokerId] = model.NO_BROKERS
    """Brokers whose bounce the change handles; they are kept if it is not written."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of one cycle: changes to commit, and effects that need no write first."""

    changes: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()
