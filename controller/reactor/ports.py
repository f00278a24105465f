"""
The ports of the loop: store, channels to brokers, queries, clock, observer.

Adapters (``zk``, ``brokers``, ``telemetry``) and the simulator implement them. Results arrive as
events in the inbox, never as return values or callbacks. Only ``Store.commit`` blocks: a cycle has
to know what is durable before it sends anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from controller.core import model
from controller.core.cluster.model import BEFORE_FEATURES, LiveBroker

if TYPE_CHECKING:  # a command writes the operations below, and needs none of these
    from controller.core.calls.broker_requests import BrokerAnswer
    from controller.core.calls.client_requests import ClientAnswer
    from controller.core.effects import SubmitReassignments
    from controller.core.pacing.throttle_settings import Entity
    from controller.core.records import Change, Decision, Event
    from controller.core.topics.model import ConfigRequest
    from controller.core.view import ClusterView

# --- the store ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """The znode must be at this version."""

    path: str
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class Create:
    """Create a persistent znode; its parents exist, or the store creates them beforehand."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CreateSequential:
    """Create a persistent znode with a unique name: ZooKeeper appends ten digits."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a znode's data if it is at this version."""

    path: str
    data: bytes
    version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode; ``version`` None where it does not matter who changed it last."""

    path: str
    version: model.ZkVersion | None


Operation = Check | Create | CreateSequential | SetData | Delete


class WriteError(StrEnum):
    """Why one operation of a multi failed."""

    BAD_VERSION = "bad_version"
    NO_NODE = "no_node"
    NODE_EXISTS = "node_exists"
    NOT_EMPTY = "not_empty"
    NO_AUTH = "no_auth"
    """ZooKeeper's permissions forbid it."""
    TOO_LARGE = "too_large"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rejected:
    """The multi was rejected as a whole because of its ``index``-th operation."""

    index: int
    error: WriteError


@dataclass(frozen=True, slots=True)
class Committed:
    """The multi is durable."""


class ZnodeFamily(StrEnum):
    """A znode family that ``Store.read`` reads whole; watched, unless only the daemon writes it."""

    BROKERS = "brokers"
    TOPICS = "topics"
    LEGACY_PLAN = "legacy_plan"
    SPECS = "goals"
    DELETIONS = "deletions"
    ISR_NOTIFICATIONS = "isr_notifications"
    LOG_DIR_EVENTS = "log_dir_events"
    PREFERRED_ELECTION = "preferred_election"
    ORPHANS = "orphans"
    GUARDS = "guards"
    SUBMISSIONS = "submissions"
    """The names only; ``Store.read_submissions`` reads their content."""
    CANCELLATION = "cancellation"
    KILL_SWITCH = "kill_switch"
    QUEUE = "queue"
    CONTROLS = "controls"
    HISTORY = "history"
    APPLIED_THROTTLES = "leases"
    PRODUCER_IDS = "producer_ids"
    """Only where the daemon serves brokers."""


class Store(Protocol):
    """
    ZooKeeper as the loop sees it.

    The store adds checks of the claim (``/controller_epoch`` and, when daemons compete,
    ``/reassigner/epoch``) in front of every multi of ``commit``, so that an unfenced write cannot
    be expressed. Without the claim, the leading daemon may write only the znodes of
    ``paths.is_paperwork``, fenced by ``/reassigner/epoch`` alone.
    """

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """
        Write the multis, pipelined and in order, and wait for all.

        Raises:
            ControllerMovedError: a fence failed; neither that multi nor any later one is written.
                Without the claim also if a multi writes other znodes than ``paths.is_paperwork``
                allows; then nothing is written.
            SessionLostError: the session expired, and the claim with it.
            CommitUnknownError: the connection broke while waiting; any multi may be durable.
        """

    def read(self, znode: ZnodeFamily) -> None:
        """
        Read and watch a znode family; its ``...Read`` event follows now and at every change.

        Requests and plans (``reads.CANCELLABLE``) are read after a cancellation and reported before
        it, so that the view knows every request older than the cancellation.
        """

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """
        Read and watch topic znodes, pipelined; ``TopicsRead`` follows now and at each change.

        They are read before topics that are read again for other reasons. Every read that begins
        from now on, until the next call, returns this ``read_generation``.
        """

    def read_states(
        self, partitions: Sequence[model.TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """
        Read states, pipelined: ``StatesRead`` follows.

        If watched, the event names those whose next change is reported as ``StateChanged``. States
        are read after the topics that were requested before them.
        """

    def read_topic_trees(self, topics: Sequence[str]) -> None:
        """List the znodes of topics that are to be deleted, pipelined: one ``TopicTreesRead``."""

    def read_submissions(self, names: Sequence[str]) -> None:
        """Read requests as submitted, pipelined: one ``SubmissionsRead`` follows."""

    def read_accepted(self, request: model.RequestId) -> None:
        """Read the accepted entries of a request: ``AcceptedRead`` follows."""

    def read_entity_configs(self, entities: Sequence[Entity]) -> None:
        """Read dynamic settings, pipelined: one ``EntityConfigsRead`` follows."""

    def begin_tenure(self) -> None:
        """Begin a tenure without the role: ``ControllerClaimed`` with the leader's epoch."""

    def claim_controller(self, *, at_once: bool = False) -> None:
        """
        Try to become the controller: one ``ControllerClaimed`` or ``ClaimFailed`` follows.

        Unless ``at_once``, the claim lets the present controller complete the event it handles.
        """

    def resign_controller(self) -> None:
        """Resign by deleting ``/controller`` under the fence: ``Deposed`` follows."""


# --- channels to brokers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderAndIsrState:
    """One partition of a LeaderAndIsr request, with the field names of Kafka's protocol."""

    partition: model.TopicPartition
    controller_epoch: model.ControllerEpoch
    leader: model.BrokerId
    leader_epoch: model.LeaderEpoch
    isr: model.Replicas
    partition_epoch: model.ZkVersion
    replicas: model.Replicas
    adding_replicas: model.Replicas
    removing_replicas: model.Replicas
    is_new: bool
    topic_id: str | None
    """Sent as of version 5; one request has states with ids only, or without."""
    leader_recovery_state: int = 0
    """1 while the leader recovers from an unclean election (KIP-704); sent as of version 6."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The partitions that a broker leads or follows."""

    controller_epoch: model.ControllerEpoch
    states: tuple[LeaderAndIsrState, ...]
    live_leaders: tuple[LiveBroker, ...]
    protocol: str = BEFORE_FEATURES
    """The inter-broker protocol that determines the version of the request."""


@dataclass(frozen=True, slots=True)
class UpdateMetadataState:
    """One partition as clients see it."""

    partition: model.TopicPartition
    controller_epoch: model.ControllerEpoch
    leader: model.BrokerId
    leader_epoch: model.LeaderEpoch
    isr: model.Replicas
    partition_epoch: model.ZkVersion
    replicas: model.Replicas
    offline_replicas: model.Replicas
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """Metadata for clients, always with all live brokers: a broker replaces its list by it."""

    controller_epoch: model.ControllerEpoch
    states: tuple[UpdateMetadataState, ...]
    live_brokers: tuple[LiveBroker, ...]
    protocol: str = BEFORE_FEATURES


@dataclass(frozen=True, slots=True)
class StopReplicaState:
    """One replica to stop, or to stop and delete."""

    partition: model.TopicPartition
    leader_epoch: model.LeaderEpoch
    delete: bool


@dataclass(frozen=True, slots=True)
class StopReplica:
    """Replicas to stop, with equal ``delete`` flags: below version 3 a request has only one."""

    controller_epoch: model.ControllerEpoch
    states: tuple[StopReplicaState, ...]
    protocol: str = BEFORE_FEATURES


BrokerRequest = LeaderAndIsr | UpdateMetadata | StopReplica


class Channels(Protocol):
    """
    One ordered connection per broker, one request in flight on each.

    The same request is resent until it is answered or the channel is closed. The answer arrives as
    ``LeaderAndIsrAnswered``, ``UpdateMetadataAnswered`` or ``StopReplicaAnswered``; a closed
    channel delivers no answer. Every request carries the broker epoch of the ``LiveBroker`` with
    which the channel was opened.
    """

    def open(self, broker: LiveBroker) -> None:
        """Connect in the background; another broker epoch replaces an open channel."""

    def close(self, broker: model.BrokerId) -> None:
        """Disconnect and forget; unknown ids are ignored."""

    def close_all(self) -> None:
        """Disconnect from every broker at once: the claim is lost."""

    def send(self, broker: model.BrokerId, request: BrokerRequest) -> None:
        """
        Send the next request; the loop waits for its answer before the next.

        Ignored if no channel is open: the broker is gone, which an event reports or has reported.
        """


class TopicConfigs(Protocol):
    """Effective topic settings (DescribeConfigs)."""

    def describe(self, topics: Sequence[str], request: ConfigRequest) -> None:
        """
        Query in the background: ``TopicConfigsRead`` follows, with the reason where it failed.

        The answer carries the newest ``request`` before it was sent: the reported settings are no
        older than that query.
        """


class BrokerSettings(Protocol):
    """Settings of brokers that change with a restart only (DescribeConfigs)."""

    def describe_brokers(self, brokers: Sequence[LiveBroker]) -> None:
        """Ask each broker in the background: a ``BrokerSettingsRead`` follows for each."""


class Latencies(Protocol):
    """
    Measures what clients see, by the produce probe and the query.

    The result is a ``LatencyMeasured`` about once a second, also where nothing could be measured.
    """

    def measure(self, until: model.Instant, hosts: frozenset[model.BrokerId]) -> None:
        """
        Measure until an instant; a later call with a later one extends it.

        The topic of the probe gets a partition for each of the ``hosts`` that has none of it.
        """


class LogDirs(Protocol):
    """The log directories of brokers, and the replicas in them (KIP-113)."""

    def describe(
        self,
        brokers: Sequence[LiveBroker],
        partitions: Sequence[model.TopicPartition],
        *,
        is_whole: bool,
    ) -> None:
        """
        Query brokers for their log directories and their replicas of these partitions.

        A ``LogDirsDescribed`` of each follows, with the reason where it did not answer. What is
        requested while a broker answers is one query after that. If ``is_whole``, brokers with
        several directories list, and count, all logs.
        """

    def alter(self, broker: LiveBroker, replicas: Mapping[model.TopicPartition, str]) -> None:
        """
        Request a directory for each replica, once: ``LogDirsAltered`` follows for all of them.

        A replica that does not exist is created there, unless the broker restarts before.
        """

    def forget(self) -> None:
        """Drop the requested directories that were not sent: the daemon no longer leads."""


class ControllerEndpoint(Protocol):
    """
    The server for requests of brokers and clients to the controller.

    ``BrokerRequestReceived`` or ``ClientRequestReceived`` follows each request that is passed on.
    """

    def respond(self, ticket: int, response: BrokerAnswer | ClientAnswer) -> None:
        """Answer a request; ignored if the peer does not wait for it any more."""

    def serve(self, epoch: model.ControllerEpoch) -> None:
        """Pass on requests that are permitted from now on: the role is held with this epoch."""

    def refuse_all(self) -> None:
        """Answer NOT_CONTROLLER to all requests, until the role is held again."""


class Submissions(Protocol):
    """The znodes by which operators request reassignments, for clients of the endpoint."""

    def submit(self, wanted: SubmitReassignments) -> None:
        """Write a request and a cancellation in the background: ``ReassignmentsSubmitted``."""

    def forget(self) -> None:
        """Drop what is not written yet: the clients were answered NOT_CONTROLLER."""


class AlterEntry(NamedTuple):
    """One partition of an AlterPartitionReassignments request."""

    partition: model.TopicPartition
    target: model.Replicas
    cancels: bool = False
    """Whether to cancel the reassignment; ``target`` is then the resulting assignment."""


class Reassignments(Protocol):
    """
    The cluster's own controller, on whichever broker it is (KIP-455).

    Every entry is answered by ``ReassignmentsAltered``, unless ``forget`` drops it.
    """

    def alter(self, entries: Sequence[AlterEntry]) -> None:
        """
        Send entries in the background, once, and soon or not at all.

        A failed entry is not repeated: its preconditions may have changed.
        """

    def elect(self, partitions: Sequence[model.TopicPartition]) -> None:
        """Request preferred leader elections; no event follows."""

    def probe(self) -> None:
        """Ask whether it serves AlterPartitionReassignments: ``ReassignmentsProbed`` follows."""

    def vouch(self) -> None:
        """
        Allow sending for a few seconds: the daemon leads and its loop runs.

        Called in every cycle. A process that was stopped must not resume and send an entry that
        another leader may have cancelled.
        """

    def forget(self) -> None:
        """Drop everything that was not sent: the daemon no longer leads."""


# --- the rest ----------------------------------------------------------------------------------


class Clock(Protocol):
    """Monotonic time in seconds."""

    def now(self) -> model.Instant:
        """Return the present instant."""


class SessionLease(Protocol):
    """The guaranteed life of the ZooKeeper session without contact."""

    @property
    def timeout_s(self) -> float:
        """The session timeout that the server granted, in seconds."""

    @property
    def ends(self) -> model.Instant:
        """The earliest instant at which the server may expire the session."""


class Inbox(Protocol):
    """The queue into which adapters put their events, from any thread."""

    def put(self, event: Event) -> None:
        """Add an event; returns soon and never raises."""


class Failpoints:
    """
    Points between two writes or sends of the loop, called on its thread; nothing happens there.

    A test stops or kills the daemon there; no call need return.
    """

    def committing(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """Changes are about to be written."""

    def committed(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """Changes are durable; the view does not contain them yet."""

    def sending(self, request: BrokerRequest) -> None:
        """A request is about to be handed to its channel."""

    def sent(self, broker: model.BrokerId, request: BrokerRequest) -> None:
        """A request was handed to its channel."""

    def altering(self) -> None:
        """Requests to the cluster's own controller are about to be handed over, or were."""

    def placing(self) -> None:
        """Requests for log directories are about to be handed over."""

    def placed(self) -> None:
        """Requests for log directories were handed over."""


class Observer(Protocol):
    """Receives everything and decides nothing: logs, metrics, journal and status use it."""

    def on_event(self, event: Event, view: ClusterView) -> None:
        """An event updated the view."""

    def on_committed(self, change: Change, view: ClusterView) -> None:
        """A change became durable and was applied."""

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """The store rejected a change, which will be decided anew."""

    def on_request_sent(self, broker: model.BrokerId, request: BrokerRequest) -> None:
        """A request was handed to a channel."""

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:
        """A round of the loop ended; ``seconds`` by part: decide, commit, send."""
