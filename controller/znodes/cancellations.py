"""
Cancellations: ``/admin/cancel_reassignment_in_progress``.

An empty node cancels everything in progress (KIP-236), as does an object without a selection. An
object may select requests, topics and partitions. What is unreadable cancels nothing; an empty list
is refused, because without it everything would be selected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controller.core.model import RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import UNASKED, Cancellation, CancelScope
from controller.errors import CancellationPendingError, ReassignmentConflictError
from controller.znodes import json_documents as documents
from controller.znodes.json_members import TEXT_MAX, Members
from controller.znodes.partition_lists import read_partition
from controller.znodes.paths import CANCEL, valid_request, valid_topic

_SELECTIONS: Final = ("requests", "topics", "partitions")
_KEYS: Final = frozenset({"version", "scope", "reason", "requested_by", *_SELECTIONS})
_SCOPES: Final = {scope.value: scope for scope in CancelScope}


def decode_cancellation(
    data: bytes, version: ZkVersion, czxid: Zxid, created_ms: int, mzxid: Zxid = UNASKED
) -> Cancellation:
    """Decode a cancellation; ``unreadable`` says what is wrong with it."""
    if not data:
        return Cancellation(version, czxid, created_ms, mzxid=mzxid)
    document = documents.read_document(data, unique=True)
    if isinstance(document, str):
        return _unreadable(data, version, czxid, created_ms, document)
    members = Members(document)
    members.only(_KEYS)
    problem = documents.version_problem(document, (1,), absent=1)
    if problem is not None:
        members.wrong(problem)
    selected: dict[str, tuple[object, ...]] = {}
    for key in _SELECTIONS:
        selected[key] = members.listed(key)
        if key in members and not selected[key]:
            members.wrong(f"{key} is empty: without it, everything would be selected")
    named = document.get("scope", CancelScope.IN_FLIGHT.value)
    scope = _SCOPES.get(named) if isinstance(named, str) else None
    if scope is None:
        members.wrong(f'scope is "in_flight" or "all", not {documents.excerpt(named)}')
    requests = {_request(members, value) for value in selected["requests"]}
    topics = {_topic(members, value) for value in selected["topics"]}
    partitions = {_partition(members, value) for value in selected["partitions"]}
    reason, requested_by = members.text("reason"), members.text("requested_by")
    if members.problem is not None:
        return _unreadable(data, version, czxid, created_ms, members.problem)
    return Cancellation(
        version,
        czxid,
        created_ms,
        frozenset(request for request in requests if request is not None),
        frozenset(topic for topic in topics if topic is not None),
        frozenset(partition for partition in partitions if partition is not None),
        scope or CancelScope.IN_FLIGHT,
        reason,
        requested_by,
        mzxid=mzxid,
    )


def encode_cancellation(cancellation: Cancellation) -> bytes:
    """Encode a cancellation; one of everything, with no other member, is an empty node."""
    document: dict[str, object] = {}
    if cancellation.requests:
        document["requests"] = sorted(cancellation.requests)
    if cancellation.topics:
        document["topics"] = sorted(cancellation.topics)
    if cancellation.partitions:
        document["partitions"] = [
            {"topic": p.topic, "partition": p.partition} for p in sorted(cancellation.partitions)
        ]
    if cancellation.scope is not CancelScope.IN_FLIGHT:
        document["scope"] = cancellation.scope.value
    if cancellation.reason:
        document["reason"] = cancellation.reason
    if cancellation.requested_by:
        document["requested_by"] = cancellation.requested_by
    return documents.write_document({"version": 1} | document) if document else b""


def _unreadable(
    data: bytes, version: ZkVersion, czxid: Zxid, created_ms: int, reason: str
) -> Cancellation:
    return Cancellation(version, czxid, created_ms, unreadable=reason, raw=data)


def _request(members: Members, value: object) -> RequestId | None:
    if documents.is_text(value) and valid_request(value):
        return RequestId(value)
    members.wrong(f"{documents.excerpt(value)} is not a request id")
    return None


def _topic(members: Members, value: object) -> str | None:
    if documents.is_text(value) and valid_topic(value):
        return value
    members.wrong(f"{documents.excerpt(value)} is not a topic name")
    return None


def _partition(members: Members, value: object) -> TopicPartition | None:
    read = (
        read_partition(value["topic"], value["partition"])
        if documents.is_object(value) and value.keys() == {"topic", "partition"}
        else None
    )
    if read is None:
        members.wrong(f"{documents.excerpt(value)} is not a partition")
    return read


def combine(
    found: Cancellation | None, wanted: Cancellation, *, is_selected: bool = False
) -> Cancellation:
    """
    Return what the znode has to hold so that the wanted cancellation is carried out as well.

    The znode has one time for all that it names: of the last change of its data. What it named
    before would select all that was submitted in between. So what is selected already is replaced
    by what is wanted: its rollbacks continue by their own records. What is not selected yet is
    replaced only by what covers it; request ids can be added to, as they select no other request.

    Args:
        found: The cancellation in the znode.
        wanted: The one to carry out.
        is_selected: Whether all partitions that ``found`` selects are recorded.

    Raises:
        CancellationPendingError: the one in the znode has to be selected first.
        ReassignmentConflictError: the one in the znode cannot be decoded.

    """
    if found is None:
        return wanted
    if found.unreadable is not None:
        raise ReassignmentConflictError(f"{CANCEL} cannot be extended: {found.unreadable}")
    reasons = dict.fromkeys(r for r in (found.reason, wanted.reason) if r)
    people = dict.fromkeys(p for p in (found.requested_by, wanted.requested_by) if p)
    whole = replace(
        wanted,
        reason="; ".join(reasons)[:TEXT_MAX],
        requested_by=", ".join(people)[:TEXT_MAX],
    )
    if is_selected or _covers(wanted, found):
        return whole
    if all(_names_requests_only(c) for c in (found, wanted)) and found.scope is wanted.scope:
        return replace(whole, requests=found.requests | wanted.requests)
    raise CancellationPendingError(
        f"{found.request} is in progress and has not selected its partitions yet: what it names "
        "cannot be combined with a later cancellation; retry when a daemon has selected them "
        f"(`reassigner list {found.request}`)"
    )


def _names_requests_only(cancellation: Cancellation) -> bool:
    return bool(cancellation.requests) and not (cancellation.topics or cancellation.partitions)


def _covers(wanted: Cancellation, found: Cancellation) -> bool:
    """Return whether a cancellation names everything that an earlier one names."""
    if wanted.is_everything:
        return wanted.scope is CancelScope.ALL or wanted.scope is found.scope
    if found.is_everything or found.scope is not wanted.scope:
        return False
    if wanted.scope is CancelScope.ALL and (found.requests or wanted.requests):
        # With requests, topics and partitions restrict what is undone of them (``requests.undo``).
        return False
    return (
        wanted.requests >= found.requests
        and wanted.topics >= found.topics
        and all(p in wanted.partitions or p.topic in wanted.topics for p in found.partitions)
    )
