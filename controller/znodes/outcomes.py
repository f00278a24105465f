"""
How a request ended: ``/reassigner/outcomes/<request>/summary``.

Bounded: ZooKeeper would refuse a znode that grew with the request. Refusals that do not fit are
left out and counted; the shards beside it have them all (``outcome_parts``). At most
``RAW_MAX_BYTES`` of the content of an unreadable node are kept.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from controller.core.model import OutcomeKind, Refusal, RefusalReason, RequestId
from controller.core.requests.outcomes import Summary
from controller.znodes import json_documents as documents
from controller.znodes.json_members import Members
from controller.znodes.partition_lists import read_partition
from controller.znodes.paths import valid_request

OUTCOME_MAX_BYTES: Final = 512 * 1024
RAW_MAX_BYTES: Final = 192 * 1024
_FRAME_BYTES: Final = 48 * 1024
"""Room for all but the refusals and the raw content; texts of operators are bounded."""

_REASONS: Final = {reason.value: reason for reason in RefusalReason}
_FATES: Final = {fate.value: fate for fate in OutcomeKind}


def encode_outcome(summary: Summary) -> bytes:
    """Encode a summary of at most ``OUTCOME_MAX_BYTES``."""
    document: dict[str, object] = {
        "version": 1,
        "request": summary.request,
        "kind": summary.kind,
        "total": summary.total,
        "done": summary.done,
        "fates": {fate.value: count for fate, count in summary.fates.items()},
        "reason": summary.reason,
        "requested_by": summary.requested_by,
        "submitted_ms": summary.submitted_ms,
        "ended_ms": summary.ended_ms,
    }
    if summary.approved:
        document |= {"approved": summary.approved, "approved_by": summary.approved_by}
    if summary.moved_bytes is not None:
        document["moved_bytes"] = summary.moved_bytes
    budget = OUTCOME_MAX_BYTES - _FRAME_BYTES
    if summary.raw is not None:
        kept = summary.raw[:RAW_MAX_BYTES]
        document["raw"] = base64.b64encode(kept).decode("ascii")
        document["raw_left_out"] = summary.raw_left_out + len(summary.raw) - len(kept)
        budget -= 4 * len(kept) // 3 + 4
    refused: list[dict[str, object]] = []
    for refusal in summary.refused:
        row = write_refusal(refusal)
        budget -= len(documents.write_document(row)) + 1
        if budget < 0:
            break
        refused.append(row)
    document["refused"] = refused
    document["refused_left_out"] = summary.refused_left_out + len(summary.refused) - len(refused)
    return documents.write_document(document)


def decode_outcome(data: bytes) -> Summary | str:  # noqa: PLR0911 - one return per reason
    """Decode a summary; one of an older format has fewer members."""
    document = documents.read_versioned(data)
    if isinstance(document, str):
        return document
    request, done = document.get("request"), document.get("done")
    if not documents.is_text(request) or not valid_request(request):
        return f"{documents.excerpt(request)} is not a request id"
    if not documents.is_int(done):
        return f"done is not a count but {documents.excerpt(done)}"
    refused = read_refusals(RequestId(request), document.get("refused"))
    if isinstance(refused, str):
        return refused
    fates = _fates(document.get("fates", {}))
    if isinstance(fates, str):
        return fates
    raw = _raw(document)
    if isinstance(raw, str):
        return raw
    members = Members(document)
    left_out = members.number("refused_left_out", low=0) or 0
    known = done + sum(refusal.entries for refusal in refused) + left_out + sum(fates.values())
    summary = Summary(
        request=RequestId(request),
        kind=members.text("kind") or request.partition("-")[0],
        total=members.count("total") if "total" in members else known,
        done=done,
        refused=refused,
        refused_left_out=left_out,
        fates=fates,
        reason=members.text("reason"),
        requested_by=members.text("requested_by"),
        approved=members.digest("approved"),
        approved_by=members.text("approved_by"),
        submitted_ms=members.number("submitted_ms", low=0, high=documents.LONG_MAX) or 0,
        ended_ms=members.number("ended_ms", low=0, high=documents.LONG_MAX) or 0,
        moved_bytes=members.number("moved_bytes", low=0, high=documents.LONG_MAX),
        raw=raw,
        raw_left_out=members.number("raw_left_out", low=0) or 0,
    )
    return summary if members.problem is None else members.problem


def write_refusal(refusal: Refusal) -> dict[str, object]:
    """Return a refusal as a row."""
    row: dict[str, object] = {
        "entry": refusal.entry,
        "reason": refusal.reason.value,
        "detail": refusal.detail,
    }
    if refusal.entries != 1:
        row["entries"] = refusal.entries
    if refusal.was_accepted:
        row["was_accepted"] = True
    if refusal.partition is not None:
        row |= {"topic": refusal.partition.topic, "partition": refusal.partition.partition}
    return row


def read_refusals(request: RequestId, value: object) -> tuple[Refusal, ...] | str:
    """Read the refusals of a request."""
    if not documents.is_list(value):
        return f"refused is not a list but {documents.excerpt(value)}"
    refusals: list[Refusal] = []
    for row in value:
        refusal = _refusal(request, row)
        if refusal is None:
            return f"{documents.excerpt(row)} is not a refusal"
        refusals.append(refusal)
    return tuple(refusals)


def _refusal(request: RequestId, row: object) -> Refusal | None:
    if not documents.is_object(row):
        return None
    entry, detail, named = row.get("entry"), row.get("detail"), row.get("reason")
    reason = _REASONS.get(named) if isinstance(named, str) else None
    entries, was_accepted = row.get("entries", 1), row.get("was_accepted") is True
    if (
        not documents.is_text(entry)
        or not documents.is_text(detail)
        or reason is None
        or not documents.is_int(entries)
    ):
        return None
    if "topic" not in row:
        return Refusal(request, entry, reason, detail, None, entries, was_accepted)
    partition = read_partition(row["topic"], row.get("partition"))
    if partition is None:
        return None
    return Refusal(request, entry, reason, detail, partition, entries, was_accepted)


def _fates(value: object) -> Mapping[OutcomeKind, int] | str:
    if not documents.is_object(value):
        return f"fates is not an object but {documents.excerpt(value)}"
    fates: dict[OutcomeKind, int] = {}
    for name, count in value.items():
        if name not in _FATES or not documents.is_int(count):
            return f"fates: {documents.excerpt(name)}: {documents.excerpt(count)} is not known"
        fates[_FATES[name]] = count
    return fates


def _raw(document: documents.Document) -> bytes | str | None:
    raw = document.get("raw")
    if raw is None:
        return None
    if not isinstance(raw, str):
        return f"raw is not base64 but {documents.excerpt(raw)}"
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        return "raw is not base64"
