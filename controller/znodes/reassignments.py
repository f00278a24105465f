"""
Our record of one reassignment: ``/admin/reassignments/<topic>/<partition>``.

It keeps what the topic znode does not: the original replicas in their order, and replicas of
earlier targets. ``top`` and ``legacy`` are for operators and other tools (KIP-236); they follow
from the rest and are not decoded.
"""

from __future__ import annotations

from typing import Final

from controller.core.model import (
    NO_BROKERS,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    ZkVersion,
)
from controller.znodes.json_documents import (
    excerpt,
    is_text,
    read_broker_ids,
    read_document,
    read_replicas,
    version_problem,
    write_document,
)
from controller.znodes.paths import valid_request

_ROUTES: Final = {route.value: route for route in (Route.LEGACY, Route.REQUEST)}
"""A foreign reassignment has no record of ours."""


def decode_spec(data: bytes, version: ZkVersion) -> ReassignmentSpec | str:  # noqa: PLR0911 - one return per reason
    """Decode a record as read at a version."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    problem = version_problem(document, (1,))
    if problem is not None:
        return problem
    target = read_replicas(document.get("target"))
    if isinstance(target, str):
        return f"target: {target}"
    original: Replicas | None = None
    if document.get("original") is not None:
        read = read_replicas(document["original"])
        if isinstance(read, str):
            return f"original: {read}"
        original = read
    request = document.get("request")
    if not is_text(request) or not valid_request(request):
        return f"{excerpt(request)} is not a request id"
    named = document.get("route")
    route = _ROUTES.get(named) if isinstance(named, str) else None
    if route is None:
        return f"route {excerpt(named)} is not known"
    cancelled_by = document.get("cancelled_by")
    if cancelled_by is not None and not (is_text(cancelled_by) and valid_request(cancelled_by)):
        return f"cancelled_by: {excerpt(cancelled_by)} is not a request id"
    abandoned = read_broker_ids(document.get("abandoned", []))
    if isinstance(abandoned, str):
        return f"abandoned: {abandoned}"
    return ReassignmentSpec(
        target,
        original,
        RequestId(request),
        route,
        version,
        None if cancelled_by is None else RequestId(cancelled_by),
        frozenset(abandoned) or NO_BROKERS,
    )


def encode_spec(spec: ReassignmentSpec) -> bytes:
    """Encode a record, without its znode version."""
    document: dict[str, object] = {
        "version": 1,
        "original": spec.original,
        "target": spec.target,
        "top": spec.top,
        "request": spec.request,
        "route": spec.route.value,
        "legacy": spec.route is Route.LEGACY,
    }
    if spec.cancelled_by is not None:
        document["cancelled_by"] = spec.cancelled_by
    if spec.abandoned:
        document["abandoned"] = sorted(spec.abandoned)
    return write_document(document)
