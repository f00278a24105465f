"""
What the loop needs of the outside: store, channels to brokers, topic settings, clock, observer.

Adapters (``zk``, ``brokers``, ``telemetry``) and the simulator implement these. Answers never come
as return values or callbacks but as events in the inbox; only ``Store.commit`` waits, because a
turn must know what became durable before it sends anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from controller.core.applied_throttles import Entity
from controller.core.events import Event
from controller.core.model import (
    BrokerId,
    ConfigQuestion,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    LiveBroker,
    Replicas,
    RequestId,
    TopicPartition,
    ZkVersion,
)
from controller.core.records import Change, Decision
from controller.core.view import ClusterView

# --- the store ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """The znode must be at this version."""

    path: str
    version: ZkVersion


@dataclass(frozen=True, slots=True)
class Create:
    """Create a persistent znode; its parents exist or are made beforehand by the store."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CreateSequential:
    """Create a persistent znode with a name nobody had: ZooKeeper appends ten digits."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a znode's data if it is at this version."""

    path: str
    data: bytes
    version: ZkVersion


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode; ``version`` None only for nodes that nobody ever changes (notifications)."""

    path: str
    version: ZkVersion | None


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
    """The multi was refused as a whole because of its ``index``-th operation."""

    index: int
    error: WriteError


@dataclass(frozen=True, slots=True)
class Committed:
    """The multi is durable."""


class Znode(StrEnum):
    """What is read whole from the start on (``Store.read``); watched, unless only we write it."""

    BROKERS = "brokers"
    TOPICS = "topics"
    LEGACY_PLAN = "legacy_plan"
    GOALS = "goals"
    DELETIONS = "deletions"
    ISR_NOTIFICATIONS = "isr_notifications"
    LOG_DIR_EVENTS = "log_dir_events"
    PREFERRED_ELECTION = "preferred_election"
    ORPHANS = "orphans"
    GUARDS = "guards"
    SUBMISSIONS = "submissions"
    """The names only: ``Store.read_submissions`` reads what they hold."""
    CANCELLATION = "cancellation"
    KILL_SWITCH = "kill_switch"
    QUEUE = "queue"
    CONTROLS = "controls"
    HISTORY = "history"
    LEASES = "leases"


class Store(Protocol):
    """
    ZooKeeper as the loop sees it.

    Every multi of ``commit`` is led by checks of our claim (``/controller_epoch`` and, when daemons
    compete, ``/reassigner/epoch``); the store adds them, so that an unfenced write cannot be
    spelled. Without the claim the leading daemon may still do its paperwork
    (``paths.is_paperwork``), fenced by ``/reassigner/epoch`` alone.
    """

    def commit(self, multis: Sequence[Sequence[Operation]]) -> list[Committed | Rejected]:
        """
        Write the multis, pipelined and in order, and wait for all.

        Raises:
            ControllerMovedError: a fence did not hold; nothing of that multi, nor of any later one,
                is written. Without the claim: there is more in them than paperwork, and nothing at
                all is written.
            SessionLostError: the session expired; the claim is gone with it.
            CommitUnknownError: the connection broke while waiting; any multi may be durable.
        """
        ...

    def read(self, znode: Znode) -> None:
        """
        Read it and watch it: the matching ``...Read`` event follows, now and at every change.

        A cancellation comes after what it may mean (``reads.CANCELLABLE``): requests and plans
        are read after it and told before it, so that none that is older is still unknown.
        """
        ...

    def read_topics(self, topics: Sequence[str], *, read_generation: int) -> None:
        """
        Read and watch topic znodes, pipelined; ``TopicsRead`` follows now and at each change.

        Args:
            topics: Their names; they go before what is read again for other reasons.
            read_generation: Returned with every read that begins from now on, until the next call.

        """
        ...

    def read_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool, read_generation: int
    ) -> None:
        """
        Read states, pipelined: ``StatesRead`` follows.

        If watched, it names those whose next change will be told as ``StateChanged``. States are
        read after the topics that were asked for before them.
        """
        ...

    def read_submissions(self, names: Sequence[str]) -> None:
        """Read requests as submitted, pipelined: one ``SubmissionsRead`` follows."""
        ...

    def read_accepted(self, request: RequestId) -> None:
        """Read the accepted entries of a request: ``AcceptedRead`` follows."""
        ...

    def read_entity_configs(self, entities: Sequence[Entity]) -> None:
        """Read dynamic settings, pipelined: one ``EntityConfigsRead`` follows."""
        ...

    def begin_tenure(self) -> None:
        """Work without the role: ``ControllerClaimed`` with our leadership's epoch follows."""
        ...

    def claim_controller(self, *, at_once: bool = False) -> None:
        """
        Try to become the controller.

        A broker that has the role may still write until it had time to end the event it is in,
        unless it is taken ``at_once``.
        ``ControllerClaimed``, ``ClaimFailed`` or ``Deposed`` follows.
        """
        ...

    def resign_controller(self) -> None:
        """Give the role back by deleting ``/controller`` under the fence: ``Deposed`` follows."""
        ...


# --- channels to brokers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderAndIsrState:
    """One partition of a LeaderAndIsr request, as Kafka's protocol words it."""

    partition: TopicPartition
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    partition_epoch: ZkVersion
    replicas: Replicas
    adding_replicas: Replicas
    removing_replicas: Replicas
    is_new: bool
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The controller tells a broker which partitions it leads or follows, and how."""

    controller_epoch: ControllerEpoch
    states: tuple[LeaderAndIsrState, ...]
    live_leaders: tuple[LiveBroker, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadataState:
    """One partition as clients are to see it."""

    partition: TopicPartition
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    partition_epoch: ZkVersion
    replicas: Replicas
    offline_replicas: Replicas
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """Always with the complete live-broker list: a broker replaces its own list by it."""

    controller_epoch: ControllerEpoch
    states: tuple[UpdateMetadataState, ...]
    live_brokers: tuple[LiveBroker, ...]


@dataclass(frozen=True, slots=True)
class StopReplicaState:
    """One replica to stop, or to stop and delete."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


@dataclass(frozen=True, slots=True)
class StopReplica:
    """One request's states share a ``delete`` flag (below version 3 a request has only one)."""

    controller_epoch: ControllerEpoch
    states: tuple[StopReplicaState, ...]


BrokerRequest = LeaderAndIsr | UpdateMetadata | StopReplica


class Channels(Protocol):
    """
    One ordered connection per broker, one request in flight on each.

    A request is resent, the same, until it is answered or the channel is closed. The answer arrives
    as ``LeaderAndIsrAnswered``, ``UpdateMetadataAnswered`` or ``StopReplicaAnswered``; a closed
    channel answers nothing more. The broker epoch put into every request is that of the
    ``LiveBroker`` it was opened with.
    """

    def open(self, broker: LiveBroker) -> None:
        """Connect in the background; opening an open channel with another epoch replaces it."""
        ...

    def close(self, broker: BrokerId) -> None:
        """Disconnect and forget; unknown ids are ignored."""
        ...

    def close_all(self) -> None:
        """Disconnect from every broker at once: the claim is lost."""
        ...

    def send(self, broker: BrokerId, request: BrokerRequest) -> None:
        """
        Hand over the next request; the loop sends one at a time and waits for the answer.

        Ignored when no channel is open: the broker is gone, and an event says so or said so.
        """
        ...


class TopicConfigs(Protocol):
    """Effective topic settings (DescribeConfigs)."""

    def describe(self, topics: Sequence[str], asked: ConfigQuestion) -> None:
        """
        Ask in the background: ``TopicConfigsRead`` follows, with a text where it failed.

        Args:
            topics: Whose settings are wanted.
            asked: This question. The answer carries the newest one handed over before its request
                was sent: what the broker reports is no older than that.

        """
        ...


class Sizes(Protocol):
    """How large replicas are on disk (DescribeLogDirs)."""

    def measure(self, partitions: Sequence[TopicPartition]) -> None:
        """Ask in the background: ``SizesRead`` follows, of those that were learnt."""
        ...


class AlterEntry(NamedTuple):
    """What the cluster's controller is told of one partition."""

    partition: TopicPartition
    target: Replicas
    cancels: bool = False
    """To take back what it was told before; ``target`` is where that leads."""


class Reassignments(Protocol):
    """
    The cluster's own controller, whoever that is at the moment (KIP-455).

    Every order is answered, in ``ReassignmentsAltered``, unless it is forgotten.
    """

    def alter(self, orders: Sequence[AlterEntry]) -> None:
        """
        Tell it in the background, once, and soon or not at all.

        What failed is not repeated: it was decided on what was known then.
        """
        ...

    def elect(self, partitions: Sequence[TopicPartition]) -> None:
        """Have it elect preferred leaders; nothing follows, and what fails is not repeated."""
        ...

    def probe(self) -> None:
        """Ask whether it understands orders: ``ReassignmentsProbed`` follows."""
        ...

    def vouch(self) -> None:
        """
        Go on for a little while: we lead and are awake.

        Said with every turn. A process that was stopped must not wake up in the middle of telling
        what another leader may have taken back.
        """
        ...

    def forget(self) -> None:
        """Send nothing more of what was asked for: we do not lead any more."""
        ...


# --- the rest ----------------------------------------------------------------------------------


class Clock(Protocol):
    """Monotonic time in seconds."""

    def now(self) -> Instant:
        """Return the present instant."""
        ...


class SessionLease(Protocol):
    """How long the ZooKeeper session, and what hangs on it, certainly lives without us."""

    @property
    def timeout_s(self) -> float:
        """The session time-out that the server granted, in seconds."""
        ...

    @property
    def ends(self) -> Instant:
        """The instant at which the server may have ended the session, as far as we heard."""
        ...


class Inbox(Protocol):
    """Where every adapter, on whatever thread, puts its events."""

    def put(self, event: Event) -> None:
        """Add an event; never blocks for long and never raises."""
        ...


class Failpoints(Protocol):
    """
    Points between two writes or sends of the loop, called on its thread; absent in production.

    A test stops or kills the daemon there; no call need return.
    """

    def committing(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """Changes are about to be written."""
        ...

    def committed(self, view: ClusterView, changes: Iterable[Change]) -> None:
        """Changes are durable; the view does not contain them yet."""
        ...

    def sending(self, request: BrokerRequest) -> None:
        """A request is about to be handed to its channel."""
        ...

    def sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """A request was handed to its channel."""
        ...

    def altering(self) -> None:
        """Requests to the cluster's own controller are about to be handed over, or were."""
        ...


class Observer(Protocol):
    """Sees everything, steers nothing: logs, metrics, journal and status hang here."""

    def on_event(self, event: Event, view: ClusterView) -> None:
        """An event was folded into the view."""
        ...

    def on_committed(self, change: Change, view: ClusterView) -> None:
        """A change became durable and was applied."""
        ...

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """A change was refused by the store and will be decided anew."""
        ...

    def on_request_sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """A request was handed to a channel."""
        ...

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:
        """A turn of the loop ended; ``seconds`` per part: decide, commit, send."""
        ...
