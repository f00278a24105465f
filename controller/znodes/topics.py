"""
The topic znode: the assignment of its partitions (``kafka.zk.TopicZNode``).

Format 1 has partitions only (up to 2.3), 2 adds the adding and removing replicas (2.4), 3 the topic
id (2.8). Kafka ignores the number and so does the decoder; the encoder writes 3 where there is an
id and 2 otherwise, which 2.3 reads as well.

Invariant: what is decoded satisfies AR and RR within RS, no partition without replicas, none twice.
"""

from __future__ import annotations

import re
from typing import Final

from controller.core import model
from controller.znodes import json_documents as documents
from controller.znodes.paths import parse_number

_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
"""A ``org.apache.kafka.common.Uuid``: 16 bytes in base64url without padding."""


def decode_topic(
    data: bytes,
    version: model.ZkVersion,
    czxid: model.Zxid,
    mzxid: model.Zxid = model.UNKNOWN_ZXID,
) -> model.TopicAssignment | str:
    """
    Decode ``/brokers/topics/T``.

    Args:
        data: The content.
        version: Its data version.
        czxid: Its creation: differs between topics of the same name.
        mzxid: Its last write.

    """
    document = documents.read_document(data)
    if isinstance(document, str):
        return document
    partitions = _assignments(document)
    if isinstance(partitions, str):
        return partitions
    topic_id = document.get("topic_id")
    is_marked = "adding_replicas" in document
    if topic_id is None:
        return model.TopicAssignment(partitions, version, czxid, None, mzxid, is_marked)
    if not isinstance(topic_id, str) or _TOPIC_ID.fullmatch(topic_id) is None:
        return f"{documents.excerpt(topic_id)} is not a topic id"
    return model.TopicAssignment(partitions, version, czxid, topic_id, mzxid, is_marked)


def _assignments(document: documents.Document) -> dict[int, model.PartitionAssignment] | str:  # noqa: PLR0911 - one return per reason
    replicas = _by_partition(document, "partitions")
    adding = _by_partition(document, "adding_replicas", {})
    removing = _by_partition(document, "removing_replicas", {})
    if isinstance(replicas, str):
        return replicas
    if isinstance(adding, str):
        return adding
    if isinstance(removing, str):
        return removing
    unlisted = {*adding, *removing} - {*replicas}
    if unlisted:
        return f"partition {min(unlisted)} has adding or removing replicas but is not listed"
    partitions: dict[int, model.PartitionAssignment] = {}
    for number, rs in replicas.items():
        entry = model.PartitionAssignment(rs, adding.get(number, ()), removing.get(number, ()))
        if not rs:
            return f"partition {number}: the replica list is empty"
        if not {*entry.adding_replicas, *entry.removing_replicas} <= {*rs}:
            return f"partition {number}: adding or removing a broker that is not among its replicas"
        partitions[number] = entry
    return partitions


def _by_partition(
    document: documents.Document, key: str, absent: object = None
) -> dict[int, model.Replicas] | str:
    """Read a map of partitions to broker ids."""
    value = document.get(key, absent)
    if not documents.is_object(value):
        return f"{key} is not an object but {documents.excerpt(value)}"
    read: dict[int, model.Replicas] = {}
    for name, listed in value.items():
        number = parse_number(name)
        if number is None:
            return f"{key}: {documents.excerpt(name)} is not a partition"
        ids = documents.read_broker_ids(listed)
        if isinstance(ids, str):
            return f"{key}: partition {number}: {ids}"
        read[number] = ids
    return read


def encode_topic(assignment: model.TopicAssignment) -> bytes:
    """Encode the whole znode, partitions in order of their number, without its data version."""
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
