"""
Which phases the partitions of a request went through, and when: for the page's pictures.

Bounded: few requests, and of each the first partitions; the journal has everything. Written by the
loop, read by the HTTP server's threads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from controller.core.model import TopicPartition
from controller.telemetry.phase_changes import PhaseChange

REQUESTS_KEPT: Final = 50
PARTITIONS_KEPT: Final = 100
SPANS_KEPT: Final = 200
"""Of one partition; one that goes to and fro for days keeps its latest."""
ENDED: Final = "ended"


@dataclass(slots=True)
class Span:
    """A partition was in a phase."""

    phase: str
    since: datetime
    until: datetime | None = None
    """None: it still is."""


@dataclass(slots=True)
class Timeline:
    """One request."""

    partitions: dict[TopicPartition, list[Span]] = field(default_factory=dict)
    left_out: set[TopicPartition] = field(default_factory=set)
    summary: Mapping[str, Any] | None = None
    """What was told when it ended."""


class Timelines:
    """The latest requests."""

    def __init__(self) -> None:
        """Know nothing."""
        self._lock = threading.Lock()
        self._requests: OrderedDict[str, Timeline] = OrderedDict()

    def changed(self, change: PhaseChange, wall: datetime) -> None:
        """Take a phase change."""
        if change.request is not None:
            self.moved(
                change.request,
                change.partition,
                before=change.before,
                phase=change.phase,
                seconds=change.seconds,
                wall=wall,
            )

    def moved(  # noqa: PLR0913 - what a phase change is made of
        self,
        request: str,
        partition: TopicPartition,
        *,
        before: str,
        phase: str,
        seconds: float | None,
        wall: datetime,
    ) -> None:
        """Take that a partition came from a phase, after so many seconds, into another one."""
        with self._lock:
            timeline = self._kept(request)
            self._requests.move_to_end(request)
            spans = timeline.partitions.get(partition)
            if spans is None:
                if len(timeline.partitions) >= PARTITIONS_KEPT:
                    timeline.left_out.add(partition)
                    return
                spans = timeline.partitions[partition] = []
            if not spans and seconds:
                spans.append(Span(before, wall - timedelta(seconds=seconds)))
            if spans and spans[-1].until is None:
                spans[-1].until = wall
            if phase != ENDED:
                spans.append(Span(phase, wall))
            del spans[:-SPANS_KEPT]

    def ended(self, summary: Mapping[str, Any], wall: datetime) -> None:
        """Take what was told of a request's end, after which no phase goes on; later words win."""
        with self._lock:
            timeline = self._kept(str(summary["request"]))
            timeline.summary = summary
            for spans in timeline.partitions.values():
                if spans and spans[-1].until is None:
                    spans[-1].until = wall

    def _kept(self, request: str) -> Timeline:
        """Return a request's timeline, a new one where it has none; the oldest makes room."""
        timeline = self._requests.setdefault(request, Timeline())
        while len(self._requests) > REQUESTS_KEPT:
            self._requests.popitem(last=False)
        return timeline

    def of(self, request: str) -> Timeline | None:
        """Return a copy of a request's timeline; None: it is not kept any more."""
        with self._lock:
            found = self._requests.get(request)
            if found is None:
                return None
            return Timeline(
                {
                    p: [Span(s.phase, s.since, s.until) for s in spans]
                    for p, spans in found.partitions.items()
                },
                set(found.left_out),
                found.summary,
            )

    def summaries(self) -> list[Mapping[str, Any]]:
        """Return what was told of the ends of requests, the latest first."""
        with self._lock:
            found = [t.summary for t in self._requests.values() if t.summary is not None]
        return found[::-1]
