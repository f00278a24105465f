"""
What the core asks for: imperatives without a handle to anything.

An effect that belongs to a ``Change`` is carried out only after the change's records are durable.
What a request says of a partition is looked up in the view at that time, so it is never older than
the write.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.core.applied_throttles import Entity
from controller.core.model import (
    BrokerId,
    Instant,
    LeaderEpoch,
    LiveBroker,
    Replicas,
    RequestId,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    """
    Tell these brokers the partition's state.

    Those in ``new`` get the partition by the very write that this follows: they may create its log
    beside a failed disk, unless they are in the ISR by the time it is told (``outbox``).
    """

    partition: TopicPartition
    brokers: tuple[BrokerId, ...]
    new: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    """Tell brokers what clients should see of these partitions; ``brokers`` None: all live ones."""

    partitions: tuple[TopicPartition, ...]
    brokers: tuple[BrokerId, ...] | None = None


@dataclass(frozen=True, slots=True)
class SendLiveBrokers:
    """An UpdateMetadata with the live brokers and no partition, ahead of anything queued."""


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    """Stop a replica, or stop and delete it."""

    partition: TopicPartition
    broker: BrokerId
    leader_epoch: LeaderEpoch
    delete: bool


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """A broker registered: connect to it."""

    broker: LiveBroker


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """A registration disappeared: forget everything queued for it."""

    broker: BrokerId


class ReadPurpose(StrEnum):
    """Why states are read: it decides what follows from the answer."""

    SEED = "seed"
    """The first read of this tenure: brokers are told what is found, in case they never were."""
    REFRESH = "refresh"
    """A leader said that the ISR changed: clients are told."""
    WATCH = "watch"
    """A reassignment waits for the ISR: the next change is told as ``StateChanged``."""
    ROUND = "round"
    """Others may have changed them: nobody is told, the cluster's health is judged."""
    MISSING = "missing"
    """There was none, or none that could be understood, and a reassignment waits for it."""
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
    """Learn the effective settings of topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadSubmissions:
    """Read requests that were listed: ``SubmissionsRead`` follows. They are never changed."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadAccepted:
    """Read where the partitions of a request were: ``AcceptedRead`` follows."""

    request: RequestId


@dataclass(frozen=True, slots=True)
class ReadEntityConfigs:
    """Read dynamic settings of topics and brokers: ``EntityConfigsRead`` follows."""

    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class MeasureSizes:
    """Ask brokers how large these partitions are: ``SizesRead`` follows as they answer."""

    partitions: tuple[TopicPartition, ...]
    copies: bool = False
    """Whether it is for how far copies are, not for the sizes of all."""


@dataclass(frozen=True, slots=True)
class ClaimController:
    """Become the cluster's controller."""

    at_once: bool = False
    """
    Whether in a race with the broker that has the role, which is not let finish its event then.

    Otherwise it is, since one that was stopped amid an event may not work when it is elected again.
    """


@dataclass(frozen=True, slots=True)
class BeginTenure:
    """Work as the leading daemon while a broker stays the controller: ``ControllerClaimed``."""


@dataclass(frozen=True, slots=True)
class ProbeReassignments:
    """Ask the cluster's controller whether it can be told: ``ReassignmentsProbed`` follows."""


@dataclass(frozen=True, slots=True)
class AlterReassignment:
    """
    Tell the cluster's controller what replicas a partition is to have (KIP-455).

    ``cancels``: to take back what it was told before; ``target`` is where that leads.
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
    """Give the controller role back."""

    reason: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Ask to be told ``TimerFired(name)`` at ``at``; a later call with the name replaces it."""

    name: str
    at: Instant


@dataclass(frozen=True, slots=True)
class Stop:
    """Everything is handed back: the process may end."""


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
    | ReadSubmissions
    | ReadAccepted
    | ReadEntityConfigs
    | MeasureSizes
    | ClaimController
    | BeginTenure
    | ProbeReassignments
    | AlterReassignment
    | ElectPreferred
    | ResignController
    | SetTimer
    | Stop
)
