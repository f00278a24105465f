"""
Kafka's znodes of topics and partitions: assignments, states, and lists of partitions.

What is decoded of a topic satisfies AR and RR within RS, no partition without replicas, none twice.
"""

from __future__ import annotations

import re
from typing import Final

from controller.core import model
from controller.core.leadership.model import RECOVERED, RECOVERING
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import UnreadableError, excerpt, total
from controller.znodes.paths import parse_number, read_partition

# --- topics --------------------------------------------------------------------------------------

_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
"""A ``org.apache.kafka.common.Uuid``: 16 bytes in base64url without padding."""


@total
def decode_topic(
    data: bytes, version: model.ZkVersion, czxid: model.Zxid, mzxid: model.Zxid = model.UNKNOWN_ZXID
) -> model.TopicAssignment:
    """
    Decode ``/brokers/topics/T`` (``kafka.zk.TopicZNode``).

    Format 1 has partitions only (up to 2.3), 2 adds the adding and removing replicas (2.4), 3 the
    topic id (2.8); Kafka ignores the number, too. The czxid differs between topics of one name.
    """
    document = documents.read_document(data)
    partitions = _assignments(document)
    topic_id = document.get("topic_id")
    if topic_id is not None and (
        not isinstance(topic_id, str) or _TOPIC_ID.fullmatch(topic_id) is None
    ):
        raise UnreadableError(f"{excerpt(topic_id)} is not a topic id")
    is_marked = "adding_replicas" in document
    return model.TopicAssignment(partitions, version, czxid, topic_id, mzxid, is_marked)


def _assignments(document: documents.Document) -> dict[int, model.PartitionAssignment]:
    replicas = _by_partition(document, "partitions")
    adding = _by_partition(document, "adding_replicas", {})
    removing = _by_partition(document, "removing_replicas", {})
    unlisted = {*adding, *removing} - {*replicas}
    if unlisted:
        raise UnreadableError(
            f"partition {min(unlisted)} has adding or removing replicas but is not listed"
        )
    partitions: dict[int, model.PartitionAssignment] = {}
    for number, rs in replicas.items():
        entry = model.PartitionAssignment(rs, adding.get(number, ()), removing.get(number, ()))
        if not rs:
            raise UnreadableError(f"partition {number}: the replica list is empty")
        if not {*entry.adding_replicas, *entry.removing_replicas} <= {*rs}:
            raise UnreadableError(
                f"partition {number}: adding or removing a broker that is not among its replicas"
            )
        partitions[number] = entry
    return partitions


def _by_partition(
    document: documents.Document, key: str, absent: object = None
) -> dict[int, model.Replicas]:
    """Read a map of partitions to broker ids."""
    read: dict[int, model.Replicas] = {}
    for name, listed in documents.read_object(document, key, absent).items():
        number = parse_number(name)
        if number is None:
            raise UnreadableError(f"{key}: {excerpt(name)} is not a partition")
        read[number] = documents.read_broker_ids(listed, f"{key}: partition {number}: ")
    return read


def encode_topic(assignment: model.TopicAssignment) -> bytes:
    """
    Encode the whole znode, partitions in order of their number, without its data version.

    The format is 3 where there is an id and 2 otherwise, which 2.3 reads as well.
    """
    entries = sorted(assignment.partitions.items())
    document: dict[str, object] = {
        "version": 2,
        "partitions": {str(n): e.replicas for n, e in entries},
        "adding_replicas": {str(n): e.adding_replicas for n, e in entries if e.adding_replicas},
        "removing_replicas": {
            str(n): e.removing_replicas for n, e in entries if e.removing_replicas
        },
    }
    if assignment.topic_id is not None:
        document |= {"version": 3, "topic_id": assignment.topic_id}
    return documents.write_document(document)


# --- states --------------------------------------------------------------------------------------

RECOVERY_STATES: Final = (RECOVERED, RECOVERING)
"""The key is absent when the state is RECOVERED."""


@total
def decode_state(
    data: bytes, version: model.ZkVersion, mzxid: model.Zxid = model.UNKNOWN_ZXID
) -> model.PartitionState:
    """
    Decode ``/brokers/topics/T/partitions/P/state`` (``kafka.zk.TopicPartitionStateZNode``).

    Leaders below inter-broker protocol 2.7 write it as well as the controller, both by
    compare-and-set; so a state is worthless without the version it was read at.
    """
    document = documents.read_document(data)
    leader = documents.read_int(document, "leader", "a broker id", low=model.NO_LEADER)
    leader_epoch = documents.read_int(document, "leader_epoch", "an epoch")
    controller_epoch = documents.read_int(document, "controller_epoch", "an epoch")
    recovery = document.get("leader_recovery_state", 0)
    if not documents.is_int(recovery) or recovery not in RECOVERY_STATES:
        raise UnreadableError(f"leader_recovery_state {excerpt(recovery)} is not known")
    return model.PartitionState(
        leader=model.BrokerId(leader),
        leader_epoch=model.LeaderEpoch(leader_epoch),
        isr=documents.read_broker_ids(document.get("isr"), "isr: "),
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


# --- written by brokers and tools for the controller, which deletes it once processed ------------


@total
def decode_partition_list(data: bytes) -> frozenset[model.TopicPartition]:
    """
    Decode a list of partitions, as a whole or not at all.

    ``/admin/preferred_replica_election`` (``PreferredReplicaElectionZNode``), and the children of
    ``/isr_change_notification`` (``IsrChangeNotificationSequenceZNode``).
    """
    listed = documents.read_list(documents.read_versioned(data, absent=1), "partitions")
    return frozenset(documents.read_rows(listed, _read_row, "a partition"))


def _read_row(row: object) -> model.TopicPartition:
    if not documents.is_object(row):
        raise UnreadableError("not an object")
    return read_partition(row.get("topic"), row.get("partition"))


@total
def decode_log_dir_event(data: bytes) -> model.BrokerId:
    """Decode the broker whose log directory failed (``LogDirEventNotificationSequenceZNode``)."""
    broker = documents.read_document(data).get("broker")
    if not documents.is_int(broker):
        raise UnreadableError(f"{excerpt(broker)} is not a broker id")
    return model.BrokerId(broker)
