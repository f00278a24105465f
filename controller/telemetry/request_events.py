"""
Log events about requests and copies: started, progress, ended; sizes and copies.

Events of requests are made from the status document, so that log, journal, page and notifications
agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller.core.disks.records import LogDirsDescribed
from controller.core.model import Instant, TopicPartition
from controller.core.view import ClusterView
from controller.telemetry.advice import OPEN_STATES
from controller.telemetry.copies import CopyEnded, CopyEvent, IsrShrunk
from controller.telemetry.json_values import Clocks, json_fields
from controller.telemetry.log_events import Level, LogEvent

BUSY_EVERY_S: Final = 10.0
"""Between two ``progress`` events of a request that made progress."""
IDLE_EVERY_S: Final = 60.0
"""The same without progress."""
OTHER_OUTCOMES: Final = ("refused", "cancelled", "superseded", "skipped")
OPTIONS: Final = ("priority", "throttle", "asked_for", "requested_by", "approved", "approved_by")


@dataclass(slots=True)
class _Logged:
    """The last ``progress`` event of an open request."""

    at: Instant
    progress: tuple[object, ...]


class RequestEvents:
    """Makes events of the changes between two status documents."""

    def __init__(self) -> None:
        self._open: dict[str, _Logged] = {}
        self._sized: set[TopicPartition] = set()
        self._concluded: set[str] = set()
        """Requests whose outcome this process wrote, without ``request_ended`` so far."""
        self._ended: set[str] = set()
        """Requests with ``request_ended``, whose outcome is not written yet."""

    def owes_an_end(self) -> bool:
        """Return whether the next status document brings a ``request_ended``."""
        return bool(self._concluded)

    def concluded(self, request: str) -> None:
        """Record that this process wrote a request's outcome, and so logs its end."""
        if request in self._ended:
            self._ended.discard(request)
        else:
            self._concluded.add(request)

    def of(self, status: Mapping[str, Any], now: Instant) -> Iterator[LogEvent]:
        """
        Return events for the changes since the last status document.

        A request that ended before this daemon led has none: another daemon logged them.
        """
        if status["role"] != "leader":
            self._open.clear()
            self._concluded.clear()
            self._ended.clear()
            return
        named = set()
        for request in status["requests"]:
            named.add(request["id"])
            yield from self._of(request, now, status["at"])
            if request["id"] in self._concluded and _had_work(request):
                # It started and ended between two status documents.
                yield _begin_event(request)
                yield _progress(request)
                yield _end_event(request, status["at"])
        self._concluded.clear()
        self._ended &= named
        for name in [n for n in self._open if n not in named]:
            # The status has a limited number of requests; this one is open, and may return.
            del self._open[name]

    def _of(self, request: Mapping[str, Any], now: Instant, at: str) -> Iterator[LogEvent]:
        name, is_open = request["id"], request["state"] in OPEN_STATES
        logged = self._open.get(name)
        if logged is None:
            if is_open:
                self._open[name] = _Logged(now, _moving(request))
                yield _begin_event(request)
                yield _progress(request)
            return
        if not is_open:
            del self._open[name]
            if name in self._concluded:
                self._concluded.discard(name)
            else:
                self._ended.add(name)
            yield _progress(request)
            yield _end_event(request, at)
            return
        progress = _moving(request)
        every_s = IDLE_EVERY_S if progress == logged.progress else BUSY_EVERY_S
        if now >= logged.at + every_s:
            logged.at, logged.progress = now, progress
            yield _progress(request)

    def sizes(self, event: LogDirsDescribed, view: ClusterView) -> Iterator[LogEvent]:
        """Return events for sizes that are known for the first time."""
        if len(self._sized) > len(view.reassignments.by_partition):
            self._sized &= view.reassignments.by_partition.keys()
        for partition in event.replicas:
            reassignment = view.reassignments.by_partition.get(partition)
            size = view.disks_process.sizes.get(partition)
            if partition in self._sized or reassignment is None or size is None:
                continue
            self._sized.add(partition)
            spec = reassignment.spec
            assignment = view.topics.known_assignment(partition)
            before = spec.original
            if before is None:
                before = () if assignment is None else assignment.replicas
            yield LogEvent(
                "size",
                Level.DEBUG,
                {
                    **partition._asdict(),
                    "request": spec.request,
                    "bytes": size,
                    "copies": sum(r not in before for r in spec.target),
                },
            )


def copy_events(events: Iterable[CopyEvent], clocks: Clocks) -> Iterator[LogEvent]:
    """Return events for copies that ended, and for shrunk ISRs."""
    for event in events:
        match event:
            case CopyEnded():
                fields = {**json_fields(event), "begun": clocks.at(event.begun)}
                kind = "copied" if fields.pop("is_whole") else "copy_abandoned"
                fields["throttled"] = fields.pop("is_throttled")
                fields["bytes_in_per_s"] = fields.pop("growth")
                yield LogEvent(kind, Level.DEBUG, fields)
            case IsrShrunk():
                yield LogEvent("isr_shrunk", Level.WARNING, event)
            case _:
                pass


def _moving(request: Mapping[str, Any]) -> tuple[object, ...]:
    counts, volume = request["partitions"], request["bytes"]
    return (*counts.values(), None if volume is None else volume["moved"])


def _had_work(request: Mapping[str, Any]) -> bool:
    """Return whether any entry was accepted; a cancellation has none of its own."""
    counts = request["partitions"]
    return request["kind"] != "cancel" and bool(counts["total"] > counts["refused"])


def _begin_event(request: Mapping[str, Any]) -> LogEvent:
    fields = {
        "request": request["id"],
        "request_kind": request["kind"],
        "route": request["route"],
        "entries": request["partitions"]["total"],
        **{key: request[key] for key in OPTIONS},
    }
    return LogEvent("request_begun", Level.INFO, fields)


def _state_of(request: Mapping[str, Any]) -> str:
    """Return the state as the journal has it, which does not change when a request has ended."""
    lasting = {"standing": "done", "undoing": "undone"}
    return lasting.get(request["state"], str(request["state"]))


def _progress(request: Mapping[str, Any]) -> LogEvent:
    counts, volume = request["partitions"], request["bytes"] or {}
    low, high = request["eta_s"] or (None, None)
    fields = {
        "request": request["id"],
        "state": _state_of(request),
        "entries": counts["total"],
        **{s: counts[s] for s in ("done", "in_flight", "waiting", "refused", "cancelled")},
        **{f"bytes_{part}": volume.get(part) for part in ("total", "moved", "remaining")},
        "bytes_since": request["bytes_since"],
        "share": request["share"],
        "sizes_unknown": request["sizes_unknown"],
        "rate": request["bytes_per_s"],
        "eta_low_s": low,
        "eta_high_s": high,
    }
    return LogEvent("progress", Level.DEBUG, fields)


def _end_event(request: Mapping[str, Any], at: str) -> LogEvent:
    took = datetime.fromisoformat(at) - datetime.fromisoformat(request["since"])
    counts, volume = request["partitions"], request["bytes"] or {}
    fields = {
        "request": request["id"],
        "state": _state_of(request),
        "seconds": round(max(0.0, took.total_seconds()), 3),
        "entries": counts["total"],
        "done": counts["done"],
        **{state: counts[state] for state in OTHER_OUTCOMES},
        "bytes_moved": volume.get("moved") if request["bytes_since"] is None else None,
    }
    return LogEvent("request_ended", Level.DEBUG, fields)
