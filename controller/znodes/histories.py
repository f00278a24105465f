"""
What is kept of a request, below ``/reassigner/outcomes/<request>``.

``summary`` says how it ended. It is bounded: ZooKeeper would refuse a znode that grew with the
request. Refusals that do not fit are left out and counted; the shards beside it have them all.

``part-<name>`` has the options of one submitted znode. A shard ``accepted-...`` has the original
and target replicas of accepted entries, a shard ``ended-...`` the refusals, and the endings other
than done. The names are in ``paths``; the size of a shard is not known here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Final

from controller.core.model import (
    OutcomeKind,
    PartitionOutcome,
    Refusal,
    RefusalReason,
    RequestId,
    ZkVersion,
    Zxid,
)
from controller.core.requests.outcomes import Part, Summary
from controller.core.requests.submissions import AcceptedEntry
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import Members, UnreadableError, excerpt, total
from controller.znodes.paths import PART, is_submission, parse_number, read_partition, read_request
from controller.znodes.plans import read_options, write_options

_REASONS: Final = {reason.value: reason for reason in RefusalReason}
_FATES: Final = {fate.value: fate for fate in OutcomeKind}

# --- the summary ---------------------------------------------------------------------------------

OUTCOME_MAX_BYTES: Final = 512 * 1024
RAW_MAX_BYTES: Final = 192 * 1024
"""What is kept of the content of an unreadable node."""
_FRAME_BYTES: Final = 48 * 1024
"""Room for all but the refusals and the raw content; texts of operators are bounded."""


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
        document["approved"] = summary.approved
    if summary.approved_by:
        document["approved_by"] = summary.approved_by
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
        row = refusal_row(refusal)
        budget -= len(documents.write_document(row)) + 1
        if budget < 0:
            break
        refused.append(row)
    document["refused"] = refused
    document["refused_left_out"] = summary.refused_left_out + len(summary.refused) - len(refused)
    return documents.write_document(document)


@total
def decode_outcome(data: bytes) -> Summary:
    """Decode a summary; one of an older format has fewer members."""
    document = documents.read_versioned(data)
    request = read_request(document.get("request"))
    done = documents.read_int(document, "done", "a count")
    refused = _read_refusals(request, document)
    fates = _read_fates(document)
    raw = _read_raw(document)
    members = Members(document, None)
    left_out = members.number("refused_left_out", low=0) or 0
    known = done + sum(refusal.entries for refusal in refused) + left_out + sum(fates.values())
    return Summary(
        request=request,
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


def _read_fates(document: documents.Document) -> Mapping[OutcomeKind, int]:
    fates: dict[OutcomeKind, int] = {}
    for name, count in documents.read_object(document, "fates", {}).items():
        if name not in _FATES or not documents.is_int(count):
            raise UnreadableError(f"fates: {excerpt(name)}: {excerpt(count)} is not known")
        fates[_FATES[name]] = count
    return fates


def _read_raw(document: documents.Document) -> bytes | None:
    raw = document.get("raw")
    if raw is None:
        return None
    if not isinstance(raw, str):
        raise UnreadableError(f"raw is not base64 but {excerpt(raw)}")
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnreadableError("raw is not base64") from error


# --- parts ---------------------------------------------------------------------------------------


def part_name(name: str) -> str | None:
    """Return the submitted znode, or the version of the cancel znode, that a part is of."""
    part = name.removeprefix(PART)
    is_known = is_submission(part) or parse_number(part) is not None
    return part if part != name and is_known else None


@total
def decode_part(name: str, data: bytes) -> Part:
    """Decode a part from the last component of its path and its content."""
    named = part_name(name)
    if named is None:
        raise UnreadableError(f"{excerpt(name)} is not a part")
    document = documents.read_versioned(data)
    options = read_options(document)
    members = Members(document, None)
    version = members.number("approved_version", low=0)
    return Part(
        named,
        members.count("total"),
        members.count("created_ms"),
        options,
        None if version is None else ZkVersion(version),
        _counts_by_request(members, "cancels"),
        _counts_by_request(members, "undoes"),
    )


def _counts_by_request(members: Members, key: str) -> dict[RequestId, int]:
    found: dict[RequestId, int] = {}
    for name, number in members.mapping(key).items():
        if not documents.is_int(number):
            raise UnreadableError(f"{key}: {excerpt(name)}: {excerpt(number)} is not a count")
        found[read_request(name, f"{key}: ")] = number
    return found


def encode_part(part: Part) -> bytes:
    """Encode a part; its name is the path."""
    counts: dict[str, object] = {
        "version": 1,
        "total": part.total,
        "created_ms": part.created_ms,
        **{key: own for key in ("cancels", "undoes") if (own := getattr(part, key))},
    }
    if part.approved_version is not None:
        counts["approved_version"] = part.approved_version
    return documents.write_document(counts | write_options(part.options))


# --- accepted entries ----------------------------------------------------------------------------


@total
def decode_accepted(data: bytes, recorded_in: Zxid | None = None) -> tuple[AcceptedEntry, ...]:
    """Decode a shard of accepted entries, all or nothing; its czxid is when they were recorded."""
    rows = documents.read_list(documents.read_versioned(data), "accepted")
    return documents.read_rows(
        rows, lambda row: _accepted_entry(row, recorded_in), "an accepted entry"
    )


def encode_accepted(entries: Sequence[AcceptedEntry]) -> bytes:
    """Encode a shard of accepted entries."""
    return documents.write_document({"version": 1, "accepted": [accepted_row(e) for e in entries]})


def accepted_row(entry: AcceptedEntry) -> list[object]:
    """Return an accepted entry as a row."""
    return [entry.partition.topic, entry.partition.partition, entry.original, entry.target]


def _accepted_entry(row: object, recorded_in: Zxid | None) -> AcceptedEntry:
    match row:
        case [topic, number, before, after]:
            original = None if before is None else documents.read_replicas(before)
            target = documents.read_replicas(after)
            return AcceptedEntry(read_partition(topic, number), original, target, recorded_in)
        case _:
            raise UnreadableError("not a row of four")


# --- refusals and endings ------------------------------------------------------------------------

_BY: Final = re.compile(r"by (\S+)")
"""The detail of an outcome that a request caused (``PartitionOutcome.detail``)."""


@total
def decode_ended(
    request: RequestId, data: bytes
) -> tuple[tuple[Refusal, ...], tuple[PartitionOutcome, ...]]:
    """Decode a shard of refusals and of endings other than done, all or nothing."""
    document = documents.read_versioned(data)
    rows = documents.read_list(document, "ended")
    refusals = _read_refusals(request, document)
    return refusals, documents.read_rows(rows, lambda row: _ending(request, row), "an ending")


def encode_ended(refusals: Sequence[Refusal], endings: Sequence[PartitionOutcome]) -> bytes:
    """Encode a shard of refusals and of endings other than done."""
    return documents.write_document(
        {
            "version": 1,
            "refused": [refusal_row(refusal) for refusal in refusals],
            "ended": [ending_row(ending) for ending in endings],
        }
    )


def ending_row(ending: PartitionOutcome) -> list[object]:
    """Return an ending as a row."""
    where = ending.partition
    return [where.topic, where.partition, ending.fate.value, ending.detail]


def _ending(request: RequestId, row: object) -> PartitionOutcome:
    match row:
        case [topic, number, str(named), detail] if named in _FATES and documents.is_text(detail):
            partition, fate = read_partition(topic, number), _FATES[named]
            caused = _BY.fullmatch(detail)
            if caused is None:
                return PartitionOutcome(request, partition, fate, detail)
            return PartitionOutcome(request, partition, fate, by=RequestId(caused[1]))
        case _:
            raise UnreadableError("not a row of four")


def refusal_row(refusal: Refusal) -> dict[str, object]:
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


def _read_refusals(request: RequestId, document: documents.Document) -> tuple[Refusal, ...]:
    rows = documents.read_list(document, "refused")
    return documents.read_rows(rows, lambda row: _refusal(request, row), "a refusal")


def _refusal(request: RequestId, row: object) -> Refusal:
    if not documents.is_object(row):
        raise UnreadableError("not an object")
    entry, detail, named = row.get("entry"), row.get("detail"), row.get("reason")
    reason = _REASONS.get(named) if isinstance(named, str) else None
    if not documents.is_text(entry) or not documents.is_text(detail) or reason is None:
        raise UnreadableError("without an entry, a detail or a known reason")
    entries = documents.read_int(row, "entries", "a count", absent=1)
    partition = read_partition(row["topic"], row.get("partition")) if "topic" in row else None
    was_accepted = row.get("was_accepted") is True
    return Refusal(request, entry, reason, detail, partition, entries, was_accepted)
