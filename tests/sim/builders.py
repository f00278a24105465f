"""Builders for tests of the simulation: requests with everything a test does not care about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from controller.core.cluster.model import LiveBroker
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Replicas,
    TopicPartition,
    ZkVersion,
)
from controller.reactor.ports import (
    LeaderAndIsr,
    LeaderAndIsrState,
    StopReplica,
    StopReplicaState,
    UpdateMetadata,
)

Kind = TypeVar("Kind")


def ids(numbers: Sequence[int]) -> Replicas:
    """Return broker ids."""
    return tuple(BrokerId(n) for n in numbers)


def live_broker(number: int, epoch: int = 1) -> LiveBroker:
    """Return a registration."""
    return LiveBroker(BrokerId(number), BrokerEpoch(epoch), ())


def update_metadata(live: Sequence[int], *, controller_epoch: int = 1) -> UpdateMetadata:
    """Return an UpdateMetadata with live brokers and no partitions."""
    brokers = tuple(live_broker(n) for n in live)
    return UpdateMetadata(ControllerEpoch(controller_epoch), (), brokers)


def leader_and_isr(
    partition: TopicPartition,
    *,
    leader: int,
    replicas: Sequence[int],
    isr: Sequence[int] | None = None,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    controller_epoch: int = 1,
    is_new: bool = True,
) -> LeaderAndIsr:
    """Return a LeaderAndIsr of one partition."""
    state = LeaderAndIsrState(
        partition=partition,
        controller_epoch=ControllerEpoch(controller_epoch),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        isr=ids(replicas if isr is None else isr),
        partition_epoch=ZkVersion(partition_epoch),
        replicas=ids(replicas),
        adding_replicas=(),
        removing_replicas=(),
        is_new=is_new,
        topic_id=None,
    )
    return LeaderAndIsr(ControllerEpoch(controller_epoch), (state,), (live_broker(leader),))


def stop_replica(
    partition: TopicPartition, *, leader_epoch: int, delete: bool, controller_epoch: int = 1
) -> StopReplica:
    """Return a StopReplica of one partition."""
    state = StopReplicaState(partition, LeaderEpoch(leader_epoch), delete)
    return StopReplica(ControllerEpoch(controller_epoch), (state,))


class Recorder:
    """An inbox that only remembers."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def put(self, event: object) -> None:
        """Remember an event."""
        self.events.append(event)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return the events of a kind, in order."""
        return [e for e in self.events if isinstance(e, kind)]
