"""
The state of a partition: leader, in-sync replicas, epochs (``kafka.zk.TopicPartitionStateZNode``).

Leaders below inter-broker protocol 2.7 write it as well as the controller, both by compare-and-set;
so a state is worthless without the version it was read at.
"""

from __future__ import annotations

from typing import Final

from controller.core import model
from controller.core.leadership.model import RECOVERED, RECOVERING
from controller.znodes import json_documents as documents

RECOVERY_STATES: Final = (RECOVERED, RECOVERING)
"""The key is absent when the state is RECOVERED."""


def decode_state(  # noqa: PLR0911 - one return per reason
    data: bytes, version: model.ZkVersion, mzxid: model.Zxid = model.UNKNOWN_ZXID
) -> model.PartitionState | str:
    """Decode ``/brokers/topics/T/partitions/P/state`` as read at a version, and its last write."""
    document = documents.read_document(data)
    if isinstance(document, str):
        return document
    leader, leader_epoch = document.get("leader"), document.get("leader_epoch")
    controller_epoch = document.get("controller_epoch")
    recovery = document.get("leader_recovery_state", 0)
    if not documents.is_int(leader, low=model.NO_LEADER):
        return f"leader is not a broker id but {documents.excerpt(leader)}"
    if not documents.is_int(leader_epoch):
        return f"leader_epoch is not an epoch but {documents.excerpt(leader_epoch)}"
    if not documents.is_int(controller_epoch):
        return f"controller_epoch is not an epoch but {documents.excerpt(controller_epoch)}"
    if not documents.is_int(recovery) or recovery not in RECOVERY_STATES:
        return f"leader_recovery_state {documents.excerpt(recovery)} is not known"
    isr = documents.read_broker_ids(document.get("isr"))
    if isinstance(isr, str):
        return f"isr: {isr}"
    return model.PartitionState(
        leader=model.BrokerId(leader),
        leader_epoch=model.LeaderEpoch(leader_epoch),
        isr=isr,
        controller_epoch=model.ControllerEpoch(controller_epoch),
        version=version,
        leader_recovery_state=recovery,
        mzxid=mzxid,
    )


def encode_state(
    *,
    leader: model.BrokerId | int,
    leader_epoch: model.LeaderEpoch | int,
    isr: model.Replicas | tuple[int, ...],
    controller_epoch: model.ControllerEpoch | int,
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
    return documents.write_document(document)
