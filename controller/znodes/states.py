"""
The state of a partition: leader, in-sync replicas, epochs (``kafka.zk.TopicPartitionStateZNode``).

Leaders below inter-broker protocol 2.7 write it as well as the controller, both by compare-and-set;
so a state is worthless without the version it was read at.
"""

from __future__ import annotations

from typing import Final

from controller.core.model import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    Replicas,
    ZkVersion,
)
from controller.znodes.json_documents import (
    excerpt,
    is_int,
    read_broker_ids,
    read_document,
    write_document,
)

RECOVERY_STATES: Final = (0, 1)
"""RECOVERED and RECOVERING (KIP-704); the key is absent when it is RECOVERED."""


def decode_state(data: bytes, version: ZkVersion) -> PartitionState | str:  # noqa: PLR0911 - one return per reason
    """Decode ``/brokers/topics/T/partitions/P/state`` as read at a version."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    leader, leader_epoch = document.get("leader"), document.get("leader_epoch")
    controller_epoch = document.get("controller_epoch")
    recovery = document.get("leader_recovery_state", 0)
    if not is_int(leader, low=NO_LEADER):
        return f"leader is not a broker id but {excerpt(leader)}"
    if not is_int(leader_epoch):
        return f"leader_epoch is not an epoch but {excerpt(leader_epoch)}"
    if not is_int(controller_epoch):
        return f"controller_epoch is not an epoch but {excerpt(controller_epoch)}"
    if not is_int(recovery) or recovery not in RECOVERY_STATES:
        return f"leader_recovery_state {excerpt(recovery)} is not known"
    isr = read_broker_ids(document.get("isr"))
    if isinstance(isr, str):
        return f"isr: {isr}"
    return PartitionState(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        isr=isr,
        controller_epoch=ControllerEpoch(controller_epoch),
        version=version,
        leader_recovery_state=recovery,
    )


def encode_state(
    *,
    leader: BrokerId | int,
    leader_epoch: LeaderEpoch | int,
    isr: Replicas | tuple[int, ...],
    controller_epoch: ControllerEpoch | int,
    leader_recovery_state: int = 0,
) -> bytes:
    """Encode a partition's state; recovery state 0 is left out, as brokers below 3.2 expect."""
    document: dict[str, object] = {
        "version": 1,
        "leader": leader,
        "leader_epoch": leader_epoch,
        "controller_epoch": controller_epoch,
        "isr": isr,
    }
    if leader_recovery_state:
        document["leader_recovery_state"] = leader_recovery_state
    return write_document(document)
