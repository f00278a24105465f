"""Requests of brokers to their controller, and its answers: values with Kafka's field names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    Replicas,
    TopicPartition,
    ZkVersion,
)


@dataclass(frozen=True, slots=True)
class Permission:
    """That a peer may make a request: nothing reaches the core without one."""

    peer: str
    """Who was authorised: the principal or the client id, and the address."""
    granted_by: BrokerId | None
    """The broker that authorised the request; None: the endpoint, which authenticates brokers."""
    controller_epoch: ControllerEpoch
    """Of the tenure in which that was; the request is void in any other."""


class IsrChange(NamedTuple):
    """The ISR that the leader of one partition requests."""

    topic: str | None
    """None as of version 2, which carries topic ids only."""
    topic_id: str | None
    """As in the topic znode; None below version 2."""
    partition: int
    leader_epoch: LeaderEpoch
    isr: Replicas
    leader_recovery_state: int
    partition_epoch: ZkVersion


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """A leader's request to change the ISR of partitions (KIP-497)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    version: int
    changes: tuple[IsrChange, ...]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """A broker's request for a block of producer ids (KIP-730)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker's request to lose its leaderships before it stops."""

    broker: BrokerId
    broker_epoch: BrokerEpoch | None
    """None in version 1, which has none."""


RequestFromBroker = AlterPartition | AllocateProducerIds | ControlledShutdown


class IsrResult(NamedTuple):
    """The answer for one partition of an AlterPartition: what is durable now."""

    topic: str | None
    topic_id: str | None
    partition: int
    error: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Replicas
    leader_recovery_state: int
    partition_epoch: ZkVersion


@dataclass(frozen=True, slots=True)
class AlterPartitionAnswer:
    """The answer to an AlterPartition."""

    error: int
    results: tuple[IsrResult, ...] = ()


class ProducerIdBlock(NamedTuple):
    """A block of producer ids, as its znode has it."""

    broker: BrokerId
    """The broker that it was handed out to."""
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ProducerIdsAnswer:
    """The answer to an AllocateProducerIds."""

    error: int
    first: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class ControlledShutdownAnswer:
    """The answer to a ControlledShutdown: the partitions that the broker still leads."""

    error: int
    remaining: tuple[TopicPartition, ...] = ()


BrokerAnswer = AlterPartitionAnswer | ProducerIdsAnswer | ControlledShutdownAnswer


@dataclass(frozen=True, slots=True)
class PendingBrokerRequest:
    """A request of a broker that is not answered yet."""

    request: RequestFromBroker
    since: Instant
