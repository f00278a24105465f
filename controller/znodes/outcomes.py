"""
How a request ended: ``/reassigner/outcomes/<request>/summary``.

Bounded: a znode that grew with the request would one day be refused by ZooKeeper. What does not fit
is left out and counted, and of an unreadable node's content at most ``RAW_MAX_BYTES`` are kept.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from controller.core.model import Refusal, RefusalReason, RequestId
from controller.core.records import OutcomeRecord
from controller.znodes.documents import (
    excerpt,
    is_int,
    is_list,
    is_object,
    is_text,
    read_document,
    version_problem,
    write_document,
)
from controller.znodes.paths import valid_request

OUTCOME_MAX_BYTES: Final = 512 * 1024
RAW_MAX_BYTES: Final = 192 * 1024
_FRAME_BYTES: Final = 2048
"""Room for everything but the refusals and the raw content."""

_REASONS: Final = {reason.value: reason for reason in RefusalReason}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A summary as read back."""

    request: RequestId
    done: int
    refused: tuple[Refusal, ...]
    refused_left_out: int = 0
    """Refusals that did not fit."""
    raw: bytes | None = None
    raw_left_out: int = 0
    """Bytes of ``raw`` that did not fit."""


def encode_outcome(record: OutcomeRecord) -> bytes:
    """Encode a summary of at most ``OUTCOME_MAX_BYTES``."""
    document: dict[str, object] = {"version": 1, "request": record.request, "done": record.done}
    budget = OUTCOME_MAX_BYTES - _FRAME_BYTES
    if record.raw is not None:
        kept = record.raw[:RAW_MAX_BYTES]
        document["raw"] = base64.b64encode(kept).decode("ascii")
        document["raw_left_out"] = len(record.raw) - len(kept)
        budget -= 4 * len(kept) // 3 + 4
    refused: list[dict[str, str]] = []
    for refusal in record.refused:
        row = {"entry": refusal.entry, "reason": refusal.reason.value, "detail": refusal.detail}
        budget -= len(write_document(row)) + 1
        if budget < 0:
            break
        refused.append(row)
    document["refused"] = refused
    document["refused_left_out"] = len(record.refused) - len(refused)
    return write_document(document)


def decode_outcome(data: bytes) -> Outcome | str:  # noqa: PLR0911 - one return per reason
    """Decode a summary."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    problem = version_problem(document, (1,))
    if problem is not None:
        return problem
    request, done = document.get("request"), document.get("done")
    if not is_text(request) or not valid_request(request):
        return f"{excerpt(request)} is not a request id"
    if not is_int(done):
        return f"done is not a count but {excerpt(done)}"
    left_out, raw_left_out = document.get("refused_left_out", 0), document.get("raw_left_out", 0)
    if not is_int(left_out) or not is_int(raw_left_out):
        return "what was left out is not a count"
    refused = _refused(RequestId(request), document.get("refused"))
    if isinstance(refused, str):
        return refused
    raw = document.get("raw")
    if raw is None:
        return Outcome(RequestId(request), done, refused, left_out)
    if not isinstance(raw, str):
        return f"raw is not base64 but {excerpt(raw)}"
    try:
        content = base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        return "raw is not base64"
    return Outcome(RequestId(request), done, refused, left_out, content, raw_left_out)


def _refused(request: RequestId, value: object) -> tuple[Refusal, ...] | str:
    if not is_list(value):
        return f"refused is not a list but {excerpt(value)}"
    refusals: list[Refusal] = []
    for row in value:
        if not is_object(row):
            return f"{excerpt(row)} is not a refusal"
        entry, detail, named = row.get("entry"), row.get("detail"), row.get("reason")
        reason = _REASONS.get(named) if isinstance(named, str) else None
        if not is_text(entry) or not is_text(detail) or reason is None:
            return f"{excerpt(row)} is not a refusal"
        refusals.append(Refusal(request, entry, reason, detail))
    return tuple(refusals)
