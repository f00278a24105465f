"""
The phases of the latest requests' partitions over time, for the status page.

Bounded by numbers of requests, partitions and phases; the journal has everything. Written by the
loop, read by the HTTP server's threads. ``replay`` restores them at start from the journal, with
everything else that is known of earlier processes.
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
from controller.telemetry.journal import VERSION
from controller.telemetry.journal_files import FILE_NAME
from controller.telemetry.phase_changes import EnteredPhase
from controller.telemetry.progress import LoggedProgress
from controller.telemetry.rates import CopyRates

REQUESTS_KEPT: Final = 50
PARTITIONS_KEPT: Final = 100
SPANS_KEPT: Final = 200
"""The latest phases of one partition that are kept."""
ENDED: Final = "ended"


class TrendPoint(NamedTuple):
    """The work of one moment, for the charts of the status page."""

    wall: datetime
    bytes_per_s: float | None
    """None: unknown."""
    in_flight: int
    copying: int


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
_KINDS: Final = tuple(
    f'"kind":"{kind}"'.encode()
    for kind in ("phase", "request_ended", "copied", "progress", "throughput")
)


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier processes of this daemon did, as far as its journal has it."""

    timelines: Timelines = field(default_factory=Timelines)
    rates: CopyRates = field(default_factory=CopyRates)
    logged: dict[str, LoggedProgress] = field(default_factory=dict)
    """The last progress of requests."""
    trend: list[TrendPoint] = field(default_factory=list)


def replay(directory: Path, past: Past, *, bytes_max: int = BYTES_MAX) -> None:
    """
    Restore the past from the end of the journal in a directory.

    Files that are missing or unreadable, and lines that are cut off, of another version or
    incomplete are ignored.
    """
    for line in _lines(directory, bytes_max):
        if any(kind in line for kind in _KINDS):
            try:
                _take(json.loads(line), past)
            except (ValueError, KeyError, TypeError):
                continue


def _take(document: dict[str, Any], past: Past) -> None:
    if document["v"] != VERSION:
        return
    timelines = past.timelines
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
            past.rates.add(replica, ended - seconds, ended, size)
    elif document["kind"] == "progress":
        is_whole = document["bytes_since"] is None and not document["sizes_unknown"]
        if is_whole and document["bytes_total"] is not None:
            known = {k: document[k] for k in LoggedProgress._fields}
            past.logged[str(document["request"])] = LoggedProgress(**known)
    elif document["kind"] == "throughput":
        rate = document["bytes_per_s"]
        counts = int(document["in_flight"]), int(document["copying"])
        past.trend.append(TrendPoint(at, None if rate is None else float(rate), *counts))
    elif document["kind"] == "request_ended":
        summed = {k: document[k] for k in ("seconds", "entries", "done", "refused", "cancelled")}
        summary = {"request": str(document["request"]), "state": str(document["state"])}
        timelines.end_request({**summary, **summed, "bytes_moved": document["bytes_moved"]}, at)


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
