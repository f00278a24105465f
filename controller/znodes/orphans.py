"""
Replicas that could not be deleted: ``/reassigner/orphans/<broker>/<topic>-<partition>``.

Broker and partition are the path. The content has the czxid of the topic, and the reason.
"""

from __future__ import annotations

from controller.core.model import BrokerEpoch, BrokerId, Zxid
from controller.core.reassignments.model import Orphan
from controller.znodes import json_documents as documents
from controller.znodes.paths import parse_number, parse_topic_partition


def decode_orphan(broker: str, name: str, data: bytes) -> Orphan | str:  # noqa: PLR0911 - one return per reason
    """Decode an orphan from the last two components of its path and its content."""
    broker_id, partition = parse_number(broker), parse_topic_partition(name)
    if broker_id is None:
        return f"{documents.excerpt(broker)} is not a broker id"
    if partition is None:
        return f"{documents.excerpt(name)} is not a partition"
    document = documents.read_versioned(data)
    if isinstance(document, str):
        return document
    czxid, reason = document.get("topic_czxid"), document.get("reason")
    failed_in = document.get("failed_in")
    if not documents.is_int(czxid, high=documents.LONG_MAX):
        return f"topic_czxid is not a zxid but {documents.excerpt(czxid)}"
    if not documents.is_text(reason):
        return f"reason is not a text but {documents.excerpt(reason)}"
    if failed_in is None:
        return Orphan(BrokerId(broker_id), partition, Zxid(czxid), reason)
    if not documents.is_int(failed_in, high=documents.LONG_MAX):
        return f"failed_in is not a broker epoch but {documents.excerpt(failed_in)}"
    return Orphan(BrokerId(broker_id), partition, Zxid(czxid), reason, BrokerEpoch(failed_in))


def encode_orphan(orphan: Orphan) -> bytes:
    """Encode an orphan; broker and partition are the path."""
    document: dict[str, object] = {
        "version": 1,
        "topic_czxid": orphan.topic_czxid,
        "reason": orphan.reason,
    }
    if orphan.failed_in is not None:
        document["failed_in"] = orphan.failed_in
    return documents.write_document(document)
