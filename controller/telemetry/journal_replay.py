"""
What earlier runs did, from the end of their journal: so that a restart leaves the page its history.

Reads a bounded number of bytes, once, before the loop begins. Lines that are torn, of another
version, or without what is looked for are passed over: the page is the poorer by them, no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from controller.core.model import TopicPartition
from controller.telemetry.journal import FILE_NAME
from controller.telemetry.journal_kinds import VERSION
from controller.telemetry.timelines import Timelines

BYTES_MAX: Final = 16 * 1024 * 1024
_TELLING: Final = (b'"kind":"phase"', b'"kind":"request_ended"')


def replay(directory: Path, timelines: Timelines, *, bytes_max: int = BYTES_MAX) -> None:
    """
    Fill in what the journal says of the latest requests.

    Args:
        directory: The journal's; files that are not there, or cannot be read, say nothing.
        timelines: What is filled in.
        bytes_max: How much of the journal's end is read.

    """
    for line in _lines(directory, bytes_max):
        if any(kind in line for kind in _TELLING):
            try:
                _take(json.loads(line), timelines)
            except (ValueError, KeyError, TypeError):
                continue


def _take(document: dict[str, Any], timelines: Timelines) -> None:
    if document["v"] != VERSION:
        return
    at = datetime.fromisoformat(document["at"])
    if document["kind"] == "phase":
        if document["request"] is not None:
            timelines.moved(
                str(document["request"]),
                TopicPartition(str(document["topic"]), int(document["partition"])),
                before=str(document["before"]),
                phase=str(document["phase"]),
                seconds=document["seconds"],
                wall=at,
            )
    elif document["kind"] == "request_ended":
        numbers = {k: document[k] for k in ("seconds", "entries", "done", "refused", "cancelled")}
        summary = {"request": str(document["request"]), "state": str(document["state"])}
        timelines.ended({**summary, **numbers, "bytes_moved": document["bytes_moved"]}, at)


def _lines(directory: Path, bytes_max: int) -> Iterator[bytes]:
    """Yield the last lines, the oldest first; what was set aside last comes before the rest."""
    tails: list[bytes] = []
    left = bytes_max
    for name in (FILE_NAME, f"{FILE_NAME}.1"):
        tail = _tail(directory / name, left)
        tails.append(tail)
        left -= len(tail)
        if left <= 0:
            break
    for tail in reversed(tails):
        yield from tail.splitlines()


def _tail(path: Path, bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - bytes_max))
            found = file.read(bytes_max)
    except OSError:
        return b""
    return found if size <= bytes_max else found.partition(b"\n")[2]
