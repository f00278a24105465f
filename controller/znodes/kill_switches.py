"""
The kill switch ``/admin/reassign_cancel``: while it exists, nothing new starts (KIP-236).

Its content has no effect. We write the reason, the author and the time for operators; other content
is shown as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.znodes import json_documents as documents


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """A kill switch that is on."""

    reason: str = ""
    by: str = ""
    since_ms: int = 0
    """Milliseconds since 1970."""


def decode_kill_switch(data: bytes, created_ms: int) -> KillSwitch:
    """Decode the node; with any content, the switch is on."""
    document = documents.read_document(data)
    if isinstance(document, str):
        shown = documents.excerpt(data.decode(errors="replace")) if data else ""
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
