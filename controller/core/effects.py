"""
Effects: imperatives of the core, without a handle to anything.

An effect of a ``Change`` is carried out only after the change's records are durable. The content of
a request about a partition is taken from the view at that time, so it is never older than the
write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from controller.core import model
from controller.core.calls import broker_requests, client_requests
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, Instant, Replicas, RequestId, TopicPartition
from controller.core.pacing import throttle_settings


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    """
    Send the partition's state to these brokers.

    Brokers in ``new`` get the partition by the write that this follows: they may create its log
    beside a failed disk, unless they are in the ISR when the request is sent (``outbox``).
    """

    partition: TopicPartition
    brokers: tuple[BrokerId, ...]
    new: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    """Send the metadata of these partitions to brokers; ``brokers`` None: to all live ones."""

    partitions: tuple[TopicPartition, ...]
    brokers: tuple[BrokerId, ...] | None = None


@dataclass(frozen=True, slots=True)
class SendLiveBrokers:
    """Send an UpdateMetadata with the live brokers and no partition, ahead of anything queued."""


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    """Stop a replica, or stop and delete it."""

    partition: TopicPartition
    broker: BrokerId
    leader_epoch: model.LeaderEpoch
    delete: bool


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """Connect to a broker that registered."""

    broker: LiveBroker


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """Close the channel of a registration that disappeared, with everything queued for it."""

    broker: BrokerId


class ReadPurpose(StrEnum):
    """The purpose of a read of states, which decides what follows from the answer."""

    SEED = "seed"
    """The first read of this tenure: the result is sent to brokers, as they may lack it."""
    REFRESH = "refresh"
    """A leader reported an ISR change: the metadata is sent to all brokers."""
    WATCH = "watch"
    """A reassignment waits for the ISR: the next change is reported as ``StateChanged``."""
    ROUND = "round"
    """Others may have changed them: nothing is sent, the health of the cluster is judged."""
    MISSING = "missing"
    """The state was missing or unreadable, and a reassignment waits for it."""
    CONFLICT = "conflict"
    """A write was rejected."""


@dataclass(frozen=True, slots=True)
class ReadStates:
    """Read partition states."""

    partitions: tuple[TopicPartition, ...]
    purpose: ReadPurpose


@dataclass(frozen=True, slots=True)
class ReadTopics:
    """Read topic znodes and watch them."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribeTopicConfigs:
    """Request the effective settings of topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribeBrokerSettings:
    """Ask brokers for the settings that matter to a controller: ``BrokerSettingsRead`` follows."""

    brokers: tuple[LiveBroker, ...]


@dataclass(frozen=True, slots=True)
class ReadTopicTrees:
    """List the znodes of topics that are to be deleted: ``TopicTreesRead`` follows."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadSubmissions:
    """Read requests that were listed: ``SubmissionsRead`` follows. Their content never changes."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadAccepted:
    """Read the original replicas of a request's partitions: ``AcceptedRead`` follows."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class MeasureLatency:
    """
    Measure what clients see until an instant: a throttle ``auto`` follows it.

    The topic of the produce probe is to have a replica on each of the ``hosts``.
    """

    until: Instant
    hosts: frozenset[BrokerId] = frozenset()


@dataclass(frozen=True, slots=True)
class ReadEntityConfigs:
    """Read dynamic settings of topics and brokers: ``EntityConfigsRead`` follows."""

    entities: tuple[throttle_settings.Entity, ...]


class DescribePurpose(Enum):
    """Why brokers are queried for their log directories."""

    ALL = auto()
    """The sizes of all reassigning partitions, and the free space."""
    NEW = auto()
    """The sizes of new reassignments."""
    COPIES = auto()
    """The progress of copies."""
    ROOM = auto()
    """Whether a broker without room for a copy has some now."""
    PLACEMENTS = auto()
    """Where brokers have replicas that are to be in named directories."""
    ENTRIES = auto()
    """The directories that entries to be accepted name."""
    ORPHANS = auto()
    """Whether brokers still have the logs of orphans."""


@dataclass(frozen=True, slots=True)
class DescribeLogDirs:
    """Query brokers for their log directories: a ``LogDirsDescribed`` of each follows."""

    brokers: frozenset[BrokerId]
    partitions: tuple[TopicPartition, ...]
    """The partitions whose replicas they describe."""
    purpose: DescribePurpose
    is_whole: bool = False
    """Whether they list all their logs where the choice of a directory depends on their number."""


@dataclass(frozen=True, slots=True)
class PlaceReplica:
    """Request the log directory of a replica, also a future one: ``LogDirsAltered`` follows."""

    partition: TopicPartition
    broker: BrokerId
    directory: str


@dataclass(frozen=True, slots=True)
class ClaimController:
    """Become the cluster's controller."""

    at_once: bool = False
    """
    Whether to race the broker that has the role, without waiting for its event in progress.

    A broker that was interrupted in an event may not work when it is elected again.
    """


@dataclass(frozen=True, slots=True)
class BeginTenure:
    """Work while a broker stays the controller: ``ControllerClaimed`` follows."""


@dataclass(frozen=True, slots=True)
class ProbeReassignments:
    """Probe the controller for AlterPartitionReassignments: ``ReassignmentsProbed`` follows."""


@dataclass(frozen=True, slots=True)
class AlterReassignment:
    """
    Ask the cluster's controller for the replicas of a partition (KIP-455).

    ``cancels``: cancel the reassignment in progress; ``target`` is the assignment that leads to.
    """

    partition: TopicPartition
    target: Replicas
    cancels: bool = False


@dataclass(frozen=True, slots=True)
class ElectPreferred:
    """Have the cluster's controller elect the preferred leaders of these partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ResignController:
    """Give up the controller role."""

    reason: str


@dataclass(frozen=True, slots=True)
class SubmitReassignments:
    """
    Write a client's request as an operator's command does: a request and a cancellation.

    ``ReassignmentsSubmitted`` follows. The znodes are not the controller's: whichever daemon leads
    when they are read carries them out.
    """

    ticket: int
    targets: Mapping[TopicPartition, Replicas]
    cancelled: frozenset[TopicPartition]
    results: tuple[client_requests.PartitionResult, ...]
    client: str
    until: Instant
    """When the client is answered that its time is over; nothing is written later."""


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer a request of a broker or a client to the controller."""

    ticket: int
    response: broker_requests.BrokerAnswer | client_requests.ClientAnswer


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Request ``TimerFired(name)`` at ``at``; a later call with the same name replaces it."""

    name: str
    at: Instant


@dataclass(frozen=True, slots=True)
class Stop:
    """The role is given up: the process may end."""


Effect = (
    SendLeaderAndIsr
    | SendUpdateMetadata
    | SendLiveBrokers
    | SendStopReplica
    | OpenChannel
    | CloseChannel
    | ReadStates
    | ReadTopics
    | DescribeTopicConfigs
    | DescribeBrokerSettings
    | ReadTopicTrees
    | ReadSubmissions
    | ReadAccepted
    | ReadEntityConfigs
    | MeasureLatency
    | DescribeLogDirs
    | PlaceReplica
    | ClaimController
    | BeginTenure
    | ProbeReassignments
    | AlterReassignment
    | ElectPreferred
    | ResignController
    | SubmitReassignments
    | Respond
    | SetTimer
    | Stop
)
