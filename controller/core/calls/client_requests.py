"""
Vocabulary: requests of operators' tools and clients to the controller, and its answers.

Plain values with Kafka's field names. ``controller.endpoint.client_codec`` reads and writes their
frames; ``client_calls`` decides the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.core.calls import topic_requests
from controller.core.calls.topic_requests import (
    AwaitDeletions,
    CreatePartitions,
    CreatePartitionsAnswer,
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    TopicResult,
)
from controller.core.model import Instant, Replicas, RequestId, TopicPartition


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect leaders of partitions (KIP-183, KIP-460)."""

    partitions: tuple[TopicPartition, ...] | None
    """None: of all partitions that need the election."""
    timeout_s: float
    is_unclean: bool = False
    """
    Any live replica becomes the leader where there is none, though records are lost; False: the
    preferred one becomes the leader.
    """


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


RequestFromClient = (
    ElectLeaders
    | AlterReassignments
    | ListReassignments
    | CreateTopics
    | CreatePartitions
    | DeleteTopics
    | AwaitDeletions
    | CedeRole
)


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
    | CreateTopicsAnswer
    | CreatePartitionsAnswer
    | DeleteTopicsAnswer
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
            return topic_requests.error_answer(request, error)
        case CedeRole():
            return CedeRoleAnswer(error)
