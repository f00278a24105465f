"""
Our record of one reassignment: ``/admin/reassignments/<topic>/<partition>``.

It keeps what the topic znode forgets: the original replicas in their order. ``top`` and ``legacy``
are written for people and other tools (KIP-236); they follow from the rest and are not read back.
"""

from __future__ import annotations

from typing import Final

from controller.core.model import Goal, Replicas, RequestId, Route, ZkVersion
from controller.znodes.documents import (
    excerpt,
    is_text,
    read_document,
    read_replicas,
    version_problem,
    write_document,
)
from controller.znodes.paths import valid_request

_ROUTES: Final = {route.value: route for route in (Route.LEGACY, Route.REQUEST)}
"""A foreign reassignment has no record of ours."""


def decode_goal(data: bytes, version: ZkVersion) -> Goal | str:  # noqa: PLR0911 - one return per reason
    """Decode a goal as read at a version."""
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
    return Goal(target, original, RequestId(request), route, version)


def encode_goal(goal: Goal) -> bytes:
    """Encode a goal (its version is not part of it)."""
    return write_document(
        {
            "version": 1,
            "original": goal.original,
            "target": goal.target,
            "top": goal.top,
            "request": goal.request,
            "route": goal.route.value,
            "legacy": goal.route is Route.LEGACY,
        }
    )
