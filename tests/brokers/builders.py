"""Builders of the requests the tests send."""

from __future__ import annotations

from controller.core.model import (
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

CONTROLLER = BrokerId(1_000_000)
EPOCH = ControllerEpoch(17)


def ids(*numbers: int) -> Replicas:
    """Return broker ids."""
    return tuple(BrokerId(number) for number in numbers)


_TWO = ids(1, 2)


def assigned(
    topic: str = "orders",
    partition: int = 0,
    *,
    leader: int = 1,
    leader_epoch: int = 5,
    replicas: Replicas = _TWO,
    adding: Replicas = (),
    removing: Replicas = (),
    topic_id: str | None = None,
    recovery: int = 0,
) -> LeaderAndIsrState:
    """Return one partition of a LeaderAndIsr; new where something is added."""
    return LeaderAndIsrState(
        partition=TopicPartition(topic, partition),
        controller_epoch=EPOCH,
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        isr=ids(1, 2),
        partition_epoch=ZkVersion(41),
        replicas=replicas,
        adding_replicas=adding,
        removing_replicas=removing,
        is_new=bool(adding),
        topic_id=topic_id,
        leader_recovery_state=recovery,
    )


def leader_and_isr(*states: LeaderAndIsrState, epoch: ControllerEpoch = EPOCH) -> LeaderAndIsr:
    """Return a LeaderAndIsr of these partitions, of one partition if none is given."""
    return LeaderAndIsr(epoch, states or (assigned(),), ())


def stopped(
    topic: str = "orders", partition: int = 0, *, leader_epoch: int = 5, delete: bool = True
) -> StopReplicaState:
    """Return one replica to stop."""
    return StopReplicaState(TopicPartition(topic, partition), LeaderEpoch(leader_epoch), delete)


def stop_replica(*states: StopReplicaState) -> StopReplica:
    """Return a StopReplica of these replicas, of one if none is given."""
    return StopReplica(EPOCH, states or (stopped(),))


def no_metadata(epoch: ControllerEpoch = EPOCH) -> UpdateMetadata:
    """Return an UpdateMetadata that says nothing but the controller epoch."""
    return UpdateMetadata(epoch, (), ())
