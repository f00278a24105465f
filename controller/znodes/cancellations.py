"""
Cancellations, ``/admin/cancel_reassignment_in_progress``, and the kill switch.

An empty node cancels everything in progress (KIP-236), as does an object without a selection. An
object may select requests, topics and partitions. What is unreadable cancels nothing; an empty list
is refused, because without it everything would be selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.core.model import TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import (
    UNASKED,
    Cancellation,
    CancelScope,
)
from controller.errors import CancellationPendingError, ReassignmentConflictError
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import TEXT_MAX, UnreadableError, excerpt
from controller.znodes.paths import CANCEL, read_partition, read_request, read_topic

_SELECTIONS: Final = ("requests", "topics", "partitions")
_UNDO: Final = ("throttle", "window")
_KEYS: Final = frozenset({"version", "scope", "reason", "requested_by", *_SELECTIONS, *_UNDO})
_SCOPES: Final = {scope.value: scope for scope in CancelScope}


def decode_cancellation(
    data: bytes, version: ZkVersion, czxid: Zxid, created_ms: int, mzxid: Zxid = UNASKED
) -> Cancellation:
    """Decode a cancellation; ``unreadable`` says what is wrong with it."""
    if not data:
        return Cancellation(version, czxid, created_ms, mzxid=mzxid)
    try:
        read = _read(data)
    except UnreadableError as error:
        return Cancellation(version, czxid, created_ms, unreadable=str(error), raw=data)
    return replace(read, version=version, czxid=czxid, created_ms=created_ms, mzxid=mzxid)


def _read(data: bytes) -> Cancellation:
    document = documents.read_document(data, unique=True)
    members = documents.Members(document, _KEYS)
    documents.check_version(document, absent=1)
    selected: dict[str, Sequence[object]] = {}
    for key in _SELECTIONS:
        selected[key] = members.listed(key)
        if key in members and not selected[key]:
            raise UnreadableError(f"{key} is empty: without it, everything would be selected")
    named = document.get("scope", CancelScope.IN_FLIGHT.value)
    scope = _SCOPES.get(named) if isinstance(named, str) else None
    if scope is None:
        raise UnreadableError(f'scope is "in_flight" or "all", not {excerpt(named)}')
    if scope is not CancelScope.ALL and any(key in members for key in _UNDO):
        raise UnreadableError("throttle and window are for finished partitions, of the scope all")
    return Cancellation(
        requests=frozenset(map(read_request, selected["requests"])),
        topics=frozenset(map(read_topic, selected["topics"])),
        partitions=frozenset(documents.read_rows(selected["partitions"], _read_row, "a partition")),
        scope=scope,
        reason=members.text("reason"),
        requested_by=members.text("requested_by"),
        throttle=members.throttle("throttle"),
        window=members.window("window"),
    )


def encode_cancellation(cancellation: Cancellation) -> bytes:
    """Encode a cancellation; one of everything, with no other member, is an empty node."""
    is_default = cancellation.scope is CancelScope.IN_FLIGHT
    members: dict[str, object] = {
        "requests": sorted(cancellation.requests),
        "topics": sorted(cancellation.topics),
        "partitions": [
            {"topic": p.topic, "partition": p.partition} for p in sorted(cancellation.partitions)
        ],
        "scope": None if is_default else cancellation.scope.value,
        "reason": cancellation.reason,
        "requested_by": cancellation.requested_by,
        "throttle": cancellation.throttle,
        "window": None if cancellation.window is None else str(cancellation.window),
    }
    document = {key: value for key, value in members.items() if value}
    return documents.write_document({"version": 1} | document) if document else b""


def _read_row(row: object) -> TopicPartition:
    if not documents.is_object(row) or row.keys() != {"topic", "partition"}:
        raise UnreadableError("not an object of topic and partition")
    return read_partition(row["topic"], row["partition"])


def combine(
    found: Cancellation | None, wanted: Cancellation, *, is_selected: bool = False
) -> Cancellation:
    """
    Return what the znode has to hold so that the wanted cancellation is carried out as well.

    The znode has one time for all that it names: of the last change of its data. What it named
    before would select all that was submitted in between. So what is selected already is replaced
    by what is wanted: its rollbacks continue by their own records. What is not selected yet is
    replaced only by what covers it; request ids can be added to, as they select no other request.
    Its throttle and window are those of its rollback from the begin: they cannot be changed.

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
    own, wished = (found.throttle, found.window), (wanted.throttle, wanted.window)
    if wished not in {own, (None, None)}:
        raise CancellationPendingError(
            f"{found.request} is in progress and moves partitions back with other options: retry "
            f"when it has ended (`reassigner list {found.request}`)"
        )
    reasons = dict.fromkeys(r for r in (found.reason, wanted.reason) if r)
    people = dict.fromkeys(p for p in (found.requested_by, wanted.requested_by) if p)
    whole = replace(
        wanted, reason="; ".join(reasons)[:TEXT_MAX], requested_by=", ".join(people)[:TEXT_MAX]
    )
    if wanted.scope is CancelScope.ALL:
        whole = replace(whole, throttle=found.throttle, window=found.window)
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


# --- the kill switch -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """
    ``/admin/reassign_cancel``: while it exists, nothing new starts (KIP-236).

    Its content has no effect. We write the reason, the author and the time for operators; other
    content is shown as it is.
    """

    reason: str = ""
    by: str = ""
    since_ms: int = 0
    """Milliseconds since 1970."""


def decode_kill_switch(data: bytes, created_ms: int) -> KillSwitch:
    """Decode the node; with any content, the switch is on."""
    try:
        document = documents.read_document(data)
    except UnreadableError:
        shown = excerpt(data.decode(errors="replace")) if data else ""
        return KillSwitch(reason=shown, since_ms=created_ms)
    reason, by, since = (document.get(key) for key in ("reason", "by", "since_ms"))
    return KillSwitch(
        reason if documents.is_text(reason) else "",
        by if documents.is_text(by) else "",
        since if documents.is_int(since, high=documents.LONG_MAX) else created_ms,
    )


def encode_kill_switch(switch: KillSwitch) -> bytes:
    """Encode the node."""
    return documents.write_document(
        {"version": 1, "reason": switch.reason, "by": switch.by, "since_ms": switch.since_ms}
    )
