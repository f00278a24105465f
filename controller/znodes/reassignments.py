"""
The records of reassignments, and of replicas that could not be deleted (orphans).

``/admin/reassignments/<topic>/<partition>`` keeps what the topic znode does not: the original
replicas in their order, replicas of earlier targets, which topic of that name it was accepted for,
the replicas that were approved, and the log directories that the entry names. ``top`` and
``legacy`` are for operators and other tools (KIP-236); they follow from the rest and are not
decoded.
"""

from __future__ import annotations

from typing import Final

from controller.core import model
from controller.core.reassignments.model import Orphan
from controller.core.requests.submissions import listed_dirs
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import UnreadableError, excerpt, total
from controller.znodes.paths import parse_number, parse_topic_partition, read_request

_ROUTES: Final = {route.value: route for route in (model.Route.LEGACY, model.Route.REQUEST)}
"""A foreign reassignment has no record."""


@total
def decode_spec(data: bytes, version: model.ZkVersion) -> model.ReassignmentSpec:
    """Decode a record as read at a version."""
    document = documents.read_versioned(data)
    target = documents.read_replicas(document.get("target"), "target: ")
    original, expected, asked = (
        _optional_replicas(document, key) for key in ("original", "expected", "asked")
    )
    request = read_request(document.get("request"))
    named = document.get("route")
    route = _ROUTES.get(named) if isinstance(named, str) else None
    if route is None:
        raise UnreadableError(f"route {excerpt(named)} is not known")
    cancelled_by = document.get("cancelled_by")
    if cancelled_by is not None:
        cancelled_by = read_request(cancelled_by, "cancelled_by: ")
    czxid = document.get("topic_czxid")
    if czxid is not None:
        czxid = _topic_czxid(document)
    abandoned, unplaced = (_broker_set(document, key) for key in ("abandoned", "unplaced"))
    log_dirs = documents.read_log_dirs(document.get("log_dirs", ["any"] * len(target)), target)
    return model.ReassignmentSpec(
        target,
        original,
        request,
        route,
        version,
        cancelled_by,
        abandoned,
        czxid,
        expected,
        asked,
        log_dirs,
        unplaced,
    )


def _optional_replicas(document: documents.Document, key: str) -> model.Replicas | None:
    listed = document.get(key)
    return None if listed is None else documents.read_replicas(listed, f"{key}: ")


def _broker_set(document: documents.Document, key: str) -> frozenset[model.BrokerId]:
    return (
        frozenset(documents.read_broker_ids(document.get(key, []), f"{key}: ")) or model.NO_BROKERS
    )


def _topic_czxid(document: documents.Document) -> model.Zxid:
    return model.Zxid(
        documents.read_int(document, "topic_czxid", "a zxid", high=documents.LONG_MAX)
    )


def encode_spec(spec: model.ReassignmentSpec) -> bytes:
    """Encode a record, without its znode version."""
    document: dict[str, object] = {
        "version": 1,
        "original": spec.original,
        "target": spec.target,
        "top": spec.top,
        "request": spec.request,
        "route": spec.route.value,
        "legacy": spec.route is model.Route.LEGACY,
    }
    optional: dict[str, object] = {
        "cancelled_by": spec.cancelled_by,
        "abandoned": sorted(spec.abandoned) or None,
        "topic_czxid": spec.topic_czxid,
        "expected": spec.expected,
        "asked": spec.asked,
        "log_dirs": listed_dirs(spec.target, spec.log_dirs) if spec.log_dirs else None,
        "unplaced": sorted(spec.unplaced) or None,
    }
    document |= {key: value for key, value in optional.items() if value is not None}
    return documents.write_document(document)


@total
def decode_orphan(broker: str, name: str, data: bytes) -> Orphan:
    """Decode ``/reassigner/orphans/<broker>/<topic>-<partition>``."""
    broker_id, partition = parse_number(broker), parse_topic_partition(name)
    if broker_id is None:
        raise UnreadableError(f"{excerpt(broker)} is not a broker id")
    if partition is None:
        raise UnreadableError(f"{excerpt(name)} is not a partition")
    document = documents.read_versioned(data)
    czxid, reason = _topic_czxid(document), document.get("reason")
    if not documents.is_text(reason):
        raise UnreadableError(f"reason is not a text but {excerpt(reason)}")
    failed_in = None
    if document.get("failed_in") is not None:
        failed_in = model.BrokerEpoch(
            documents.read_int(document, "failed_in", "a broker epoch", high=documents.LONG_MAX)
        )
    return Orphan(model.BrokerId(broker_id), partition, czxid, reason, failed_in)


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
