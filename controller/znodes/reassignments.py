"""
The record of one reassignment: ``/admin/reassignments/<topic>/<partition>``.

It keeps what the topic znode does not: the original replicas in their order, and replicas of
earlier targets. ``top`` and ``legacy`` are for operators and other tools (KIP-236); they follow
from the rest and are not decoded.
"""

from __future__ import annotations

from typing import Final

from controller.core import model
from controller.znodes import json_documents as documents
from controller.znodes.paths import valid_request

_ROUTES: Final = {route.value: route for route in (model.Route.LEGACY, model.Route.REQUEST)}
"""A foreign reassignment has no record."""


def decode_spec(data: bytes, version: model.ZkVersion) -> model.ReassignmentSpec | str:  # noqa: PLR0911 - one return per reason
    """Decode a record as read at a version."""
    document = documents.read_document(data)
    if isinstance(document, str):
        return document
    problem = documents.version_problem(document, (1,))
    if problem is not None:
        return problem
    target = documents.read_replicas(document.get("target"))
    if isinstance(target, str):
        return f"target: {target}"
    original: model.Replicas | None = None
    if document.get("original") is not None:
        read = documents.read_replicas(document["original"])
        if isinstance(read, str):
            return f"original: {read}"
        original = read
    request = document.get("request")
    if not documents.is_text(request) or not valid_request(request):
        return f"{documents.excerpt(request)} is not a request id"
    named = document.get("route")
    route = _ROUTES.get(named) if isinstance(named, str) else None
    if route is None:
        return f"route {documents.excerpt(named)} is not known"
    cancelled_by = document.get("cancelled_by")
    if cancelled_by is not None and not (
        documents.is_text(cancelled_by) and valid_request(cancelled_by)
    ):
        return f"cancelled_by: {documents.excerpt(cancelled_by)} is not a request id"
    abandoned = documents.read_broker_ids(document.get("abandoned", []))
    if isinstance(abandoned, str):
        return f"abandoned: {abandoned}"
    return model.ReassignmentSpec(
        target,
        original,
        model.RequestId(request),
        route,
        version,
        None if cancelled_by is None else model.RequestId(cancelled_by),
        frozenset(abandoned) or model.NO_BROKERS,
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
    if spec.cancelled_by is not None:
        document["cancelled_by"] = spec.cancelled_by
    if spec.abandoned:
        document["abandoned"] = sorted(spec.abandoned)
    return documents.write_document(document)
