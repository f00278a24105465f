"""
Requests of operators' tools and clients to the controller, and its answers: plain values.

They have Kafka's field names. ``client_calls`` decides the answers, those about topics
``topics.topic_creation`` and ``pending_deletions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.core.model import Instant, Replicas, RequestId, TopicPartition, Zxid
from controller.core.topics.model import TopicResult, TopicSettings
from controller.kafka_errors import NONE


class TopicRefusedError(ValueError):
    """A topic is not created or extended; ``code`` is the error of Kafka's protocol."""

    def __init__(self, code: int, message: str) -> None:
        """Keep the error code."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The settings of brokers that a new topic depends on."""

    num_partitions: int
    default_replication_factor: int
    uses_topic_ids: bool
    """Whether topic znodes have an id: as of inter-broker protocol 2.8."""


DYNAMIC_TOPIC_CONFIG: Final = 1
"""The source of a setting that the topic sets itself (``DescribeConfigsResponse``)."""


class EffectiveConfig(NamedTuple):
    """A setting of a new topic as brokers describe it, with Kafka's field names."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = DYNAMIC_TOPIC_CONFIG
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[tuple[int, Replicas], ...]
    """The replicas of each partition as sent; empty where brokers are to be chosen."""
    configs: tuple[tuple[str, str | None], ...]
    """The settings as sent."""
    topic_id: str
    """A random id, as in the topic znode; the choice of brokers also depends on it."""
    config_problem: str | None = None
    """Why brokers reject the settings."""

    @property
    def settings(self) -> TopicSettings:
        """The settings that are validated and written; of a name sent twice, the last counts."""
        last = dict(self.configs)
        return tuple(sorted((name, value) for name, value in last.items() if value is not None))

    @property
    def assigned(self) -> dict[int, Replicas]:
        """The replicas that are checked and written; of a partition sent twice, the last count."""
        return dict(sorted(dict(self.assignments).items()))


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Create topics that the client may create."""

    topics: tuple[NewTopic, ...]
    defaults: TopicDefaults
    timeout_s: float
    validate_only: bool


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic that is to have more partitions."""

    name: str
    count: int
    """The partitions in all."""
    assignments: tuple[Replicas, ...] | None
    """The replicas of the new ones; None where brokers are to be chosen."""


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Add partitions to topics that the client may alter (KIP-195)."""

    topics: tuple[MorePartitions, ...]
    timeout_s: float
    validate_only: bool


@dataclass(frozen=True, slots=True)
class TopicToDelete:
    """A topic to be deleted."""

    name: str
    topic_id: str | None
    """The id by which the client names it; None: it names it by its name."""


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete topics that the client may delete; answered as soon as the requests are durable."""

    topics: tuple[TopicToDelete, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AwaitDeletions:
    """Wait until no live broker knows topics any more whose deletion was requested."""

    topics: Mapping[str, Zxid]
    """Their names, and the creations that are deleted: others of the same names may follow."""
    timeout_s: float


RequestOnTopics = CreateTopics | CreatePartitions
TopicRequest = RequestOnTopics | DeleteTopics | AwaitDeletions


@dataclass(frozen=True, slots=True)
class CreateTopicsAnswer:
    """The answer to a CreateTopics; the error concerns the whole request."""

    error: int
    results: tuple[TopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatePartitionsAnswer:
    """The answer to a CreatePartitions; the error concerns the whole request."""

    error: int
    results: tuple[TopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopicsAnswer:
    """The answer to a DeleteTopics or AwaitDeletions; the error concerns the whole request."""

    error: int
    results: tuple[TopicResult, ...] = ()


TopicAnswer = CreateTopicsAnswer | CreatePartitionsAnswer | DeleteTopicsAnswer


def topic_answer(
    request: TopicRequest, results: tuple[TopicResult, ...], error: int = NONE
) -> TopicAnswer:
    """Return the answer with these results."""
    match request:
        case CreateTopics():
            return CreateTopicsAnswer(error, results)
        case CreatePartitions():
            return CreatePartitionsAnswer(error, results)
        case DeleteTopics() | AwaitDeletions():
            return DeleteTopicsAnswer(error, results)


def topic_error(request: TopicRequest, error: int) -> TopicAnswer:
    """Return the answer that consists of an error."""
    named = (
        request.topics if isinstance(request, AwaitDeletions) else (t.name for t in request.topics)
    )
    return topic_answer(request, tuple(TopicResult(n, error) for n in dict.fromkeys(named)), error)


# --- partitions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect leaders of partitions (KIP-183, KIP-460)."""

    partitions: tuple[TopicPartition, ...] | None
    """None: of all partitions that need the election."""
    timeout_s: float
    is_unclean: bool = False
    """Any live replica is to lead where none does, though records are lost; or the preferred."""


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    """Reassign partitions, or cancel their reassignment (AlterPartitionReassignments, KIP-455)."""

    targets: Mapping[TopicPartition, Replicas | None]
    """None cancels."""
    client: str
    """The client, for the record of the request."""


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """List reassignments that have not ended (ListPartitionReassignments, KIP-455)."""

    partitions: frozenset[TopicPartition] | None
    """None: all."""


@dataclass(frozen=True, slots=True)
class CedeRole:
    """
    Let one of the brokers be the controller for a while: it has to carry out a client's request.

    The answer comes when the role is given back; it is always NOT_CONTROLLER.
    """

    request: str
    """The name of the client's request."""


RequestFromClient = ElectLeaders | AlterReassignments | ListReassignments | TopicRequest | CedeRole


class PartitionResult(NamedTuple):
    """The result for one partition."""

    partition: TopicPartition
    error: int
    message: str | None = None


class OngoingReassignment(NamedTuple):
    """A reassignment that has not ended: what is still to be added and removed."""

    partition: TopicPartition
    replicas: Replicas
    """Present and new replicas, the new ones first, as Kafka writes them (KIP-455)."""
    adding_replicas: Replicas
    removing_replicas: Replicas


@dataclass(frozen=True, slots=True)
class ElectLeadersAnswer:
    """The answer to an ElectLeaders; of all partitions, it leaves out those without need."""

    error: int
    results: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReassignmentsAnswer:
    """The answer to an AlterPartitionReassignments."""

    error: int
    results: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ListReassignmentsAnswer:
    """The answer to a ListPartitionReassignments."""

    error: int
    reassignments: tuple[OngoingReassignment, ...] = ()


@dataclass(frozen=True, slots=True)
class CedeRoleAnswer:
    """The answer to a CedeRole."""

    error: int


ClientAnswer = (
    ElectLeadersAnswer
    | AlterReassignmentsAnswer
    | ListReassignmentsAnswer
    | TopicAnswer
    | CedeRoleAnswer
)


@dataclass(frozen=True, slots=True)
class SubmittedReassignments:
    """Where the accepted part of an AlterPartitionReassignments is durable."""

    request: RequestId | None
    """The request; None: there was nothing to reassign, or it was not written."""
    cancellation: RequestId | None
    """The cancellation; None: there was nothing to cancel, or it was not written."""
    problem: str | None = None
    """Why one of them was not written."""


@dataclass(frozen=True, slots=True)
class PendingClientRequest:
    """A request of a client that is not answered yet."""

    request: RequestFromClient
    since: Instant
    results: tuple[PartitionResult, ...] | None = None
    """The results that are final already; None: nothing was judged yet."""
    submitted: SubmittedReassignments | None = None
    """What became of the other partitions of an AlterPartitionReassignments."""
    electing: frozenset[TopicPartition] = field(default_factory=frozenset)
    """Partitions whose leader is being elected."""
    topics: Mapping[str, TopicResult] = field(default_factory=dict)
    """Topics that are written, or that ZooKeeper rejects, with their results."""


def error_answer(request: RequestFromClient, error: int) -> ClientAnswer:
    """Return the answer that consists of an error."""
    match request:
        case ElectLeaders(partitions=partitions):
            each = (PartitionResult(p, error) for p in partitions or ())
            return ElectLeadersAnswer(error, tuple(each))
        case AlterReassignments():
            return AlterReassignmentsAnswer(error)
        case ListReassignments():
            return ListReassignmentsAnswer(error)
        case CreateTopics() | CreatePartitions() | DeleteTopics() | AwaitDeletions():
            return topic_error(request, error)
        case CedeRole():
            return CedeRoleAnswer(error)
