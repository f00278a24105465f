"""
The record of one reassignment: ``/admin/reassignments/<topic>/<partition>``.

It keeps what the topic znode does not: the original replicas in their order, replicas of earlier
targets, which topic of that name it was accepted for, the replicas that were approved, and the log
directories that the entry names. ``top`` and ``legacy`` are for operators and other tools
(KIP-236); they follow from the rest and are not decoded.
"""

from __future__ import annotations

from typing import Final, TypeGuard

from controller.core import model
from controller.core.requests.submissions import listed_dirs
from controller.znodes import json_documents as documents
from controller.znodes.paths import valid_request

_ROUTES: Final = {route.value: route for route in (model.Route.LEGACY, model.Route.REQUEST)}
"""A foreign reassignment has no record."""


def decode_spec(data: bytes, version: model.ZkVersion) -> model.ReassignmentSpec | str:  # noqa: PLR0911 - one return per reason
    """Decode a record as read at a version."""
    document = documents.read_versioned(data)
    if isinstance(document, str):
        return document
    target = documents.read_replicas(document.get("target"))
    if isinstance(target, str):
        return f"target: {target}"
    others = _read_others(document)
    if isinstance(others, str):
        return others
    request = document.get("request")
    if not _is_request(request):
        return f"{documents.excerpt(request)} is not a request id"
    named = document.get("route")
    route = _ROUTES.get(named) if isinstance(named, str) else None
    if route is None:
        return f"route {documents.excerpt(named)} is not known"
    cancelled_by, czxid = document.get("cancelled_by"), document.get("topic_czxid")
    if cancelled_by is not None and not _is_request(cancelled_by):
        return f"cancelled_by: {documents.excerpt(cancelled_by)} is not a request id"
    if czxid is not None and not documents.is_int(czxid, high=documents.LONG_MAX):
        return f"topic_czxid is not a zxid but {documents.excerpt(czxid)}"
    brokers = _read_brokers(document)
    log_dirs = documents.read_log_dirs(document.get("log_dirs", ["any"] * len(target)), target)
    if isinstance(brokers, str) or isinstance(log_dirs, str):
        return brokers if isinstance(brokers, str) else str(log_dirs)
    return model.ReassignmentSpec(
        target,
        others["original"],
        model.RequestId(request),
        route,
        version,
        None if cancelled_by is None else model.RequestId(cancelled_by),
        brokers["abandoned"],
        None if czxid is None else model.Zxid(czxid),
        others["expected"],
        others["asked"],
        log_dirs,
        brokers["unplaced"],
    )


def _read_others(document: documents.Document) -> dict[str, model.Replicas | None] | str:
    """Read the replica lists that may be missing."""
    others: dict[str, model.Replicas | None] = {}
    for key in ("original", "expected", "asked"):
        listed = document.get(key)
        read = None if listed is None else documents.read_replicas(listed)
        if isinstance(read, str):
            return f"{key}: {read}"
        others[key] = read
    return others


def _read_brokers(document: documents.Document) -> dict[str, frozenset[model.BrokerId]] | str:
    """Read the sets of brokers that may be missing."""
    others: dict[str, frozenset[model.BrokerId]] = {}
    for key in ("abandoned", "unplaced"):
        read = documents.read_broker_ids(document.get(key, []))
        if isinstance(read, str):
            return f"{key}: {read}"
        others[key] = frozenset(read) or model.NO_BROKERS
    return others


def _is_request(value: object) -> TypeGuard[str]:
    return documents.is_text(value) and valid_request(value)


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
    if spec.cancelled_by is not None:
        document["cancelled_by"] = spec.cancelled_by
    if spec.abandoned:
        document["abandoned"] = sorted(spec.abandoned)
    if spec.topic_czxid is not None:
        document["topic_czxid"] = spec.topic_czxid
    if spec.expected is not None:
        document["expected"] = spec.expected
    if spec.asked is not None:
        document["asked"] = spec.asked
    if spec.log_dirs:
        document["log_dirs"] = listed_dirs(spec.target, spec.log_dirs)
    if spec.unplaced:
        document["unplaced"] = sorted(spec.unplaced)
    return documents.write_document(document)
