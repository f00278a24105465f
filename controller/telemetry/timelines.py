"""
The phases of the latest requests' partitions over time, for the status page.

Bounded by numbers of requests, partitions and phases; the journal has everything. Written by the
loop, read by the HTTP server's threads. ``replay`` restores them at start from the journal.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from controller.core.model import BrokerId, TopicPartition
from controller.telemetry.journal import FILE_NAME, VERSION
from controller.telemetry.phase_changes import EnteredPhase
from controller.telemetry.rates import CopyRates

REQUESTS_KEPT: Final = 50
PARTITIONS_KEPT: Final = 100
SPANS_KEPT: Final = 200
"""The latest phases of one partition that are kept."""
ENDED: Final = "ended"


class Span(NamedTuple):
    """A time that a partition spent in a phase."""

    phase: str
    since: datetime
    until: datetime | None = None
    """None: it has not ended."""


@dataclass(slots=True)
class Timeline:
    """The phases of one request's partitions."""

    partitions: dict[TopicPartition, list[Span]] = field(default_factory=dict)
    left_out: set[TopicPartition] = field(default_factory=set)
    """Partitions beyond ``PARTITIONS_KEPT``."""
    summary: Mapping[str, Any] | None = None
    """The fields of its ``request_ended``; None while it is open."""


class Timelines:
    """The timelines of the latest requests; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: OrderedDict[str, Timeline] = OrderedDict()

    def add_change(self, change: EnteredPhase, wall: datetime) -> None:
        """Add a phase change; one without a request is left out."""
        if change.request is None:
            return
        with self._lock:
            timeline = self._timeline_of(change.request)
            self._requests.move_to_end(change.request)
            spans = timeline.partitions.get(change.partition)
            if spans is None:
                if len(timeline.partitions) >= PARTITIONS_KEPT:
                    timeline.left_out.add(change.partition)
                    return
                spans = timeline.partitions[change.partition] = []
            if not spans and change.seconds:
                spans.append(Span(change.before, wall - timedelta(seconds=change.seconds)))
            if spans and spans[-1].until is None:
                spans[-1] = spans[-1]._replace(until=wall)
            if change.phase != ENDED:
                spans.append(Span(change.phase, wall))
            del spans[:-SPANS_KEPT]

    def end_request(self, summary: Mapping[str, Any], wall: datetime) -> None:
        """Add the summary of an ended request, and end its phases; a later summary replaces it."""
        with self._lock:
            timeline = self._timeline_of(str(summary["request"]))
            timeline.summary = summary
            for spans in timeline.partitions.values():
                if spans and spans[-1].until is None:
                    spans[-1] = spans[-1]._replace(until=wall)

    def _timeline_of(self, request: str) -> Timeline:
        """Return a request's timeline, made if missing; drop the oldest beyond the bound."""
        timeline = self._requests.setdefault(request, Timeline())
        while len(self._requests) > REQUESTS_KEPT:
            self._requests.popitem(last=False)
        return timeline

    def of(self, request: str) -> Timeline | None:
        """Return a copy of a request's timeline; None if it is not kept."""
        with self._lock:
            found = self._requests.get(request)
            if found is None:
                return None
            spans = {p: list(spans) for p, spans in found.partitions.items()}
            return Timeline(spans, set(found.left_out), found.summary)

    def summaries(self) -> list[Mapping[str, Any]]:
        """Return the summaries of ended requests, the latest first."""
        with self._lock:
            found = [t.summary for t in self._requests.values() if t.summary is not None]
        return found[::-1]


BYTES_MAX: Final = 16 * 1024 * 1024
_KINDS: Final = (b'"kind":"phase"', b'"kind":"request_ended"', b'"kind":"copied"')


def replay(
    directory: Path, timelines: Timelines, rates: CopyRates, *, bytes_max: int = BYTES_MAX
) -> None:
    """
    Restore the timelines and the rates of copies from the end of the journal in a directory.

    Files that are missing or unreadable, and lines that are cut off, of another version or
    incomplete are ignored.
    """
    for line in _lines(directory, bytes_max):
        if any(kind in line for kind in _KINDS):
            try:
                _take(json.loads(line), timelines, rates)
            except (ValueError, KeyError, TypeError):
                continue


def _take(document: dict[str, Any], timelines: Timelines, rates: CopyRates) -> None:
    if document["v"] != VERSION:
        return
    at = datetime.fromisoformat(document["at"])
    if document["kind"] == "phase":
        if document["request"] is not None:
            change = EnteredPhase(
                partition=TopicPartition(str(document["topic"]), int(document["partition"])),
                phase=str(document["phase"]),
                before=str(document["before"]),
                seconds=document["seconds"],
                request=str(document["request"]),
            )
            timelines.add_change(change, at)
    elif document["kind"] == "copied":
        if document["bytes"] and not document["throttled"]:
            ended, seconds = at.timestamp(), float(document["seconds"])
            replica, size = BrokerId(int(document["replica"])), int(document["bytes"])
            rates.add(replica, ended - seconds, ended, size)
    elif document["kind"] == "request_ended":
        numbers = {k: document[k] for k in ("seconds", "entries", "done", "refused", "cancelled")}
        summary = {"request": str(document["request"]), "state": str(document["state"])}
        timelines.end_request({**summary, **numbers, "bytes_moved": document["bytes_moved"]}, at)


def _lines(directory: Path, bytes_max: int) -> Iterator[bytes]:
    """Yield the last lines, the oldest first, of the rotated file and of the present one."""
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
