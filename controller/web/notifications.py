"""
Notifications of starts, ends, stalls, cancellations and refusals, made of log events.

Stalls and refusals are coalesced: for one request, or one reason, at most one notification in ten
seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from controller.core.model import Instant
from controller.telemetry.json_values import iso_time
from controller.telemetry.log_events import LogEvent
from controller.units import show_bytes, show_duration

EVERY_S: Final = 10.0
SAMPLE_MAX: Final = 5
CANCELLATIONS_KEPT: Final = 50


class NotificationKind(StrEnum):
    """The values of the setting ``notify_on``."""

    STARTED = "started"
    ENDED = "ended"
    STALLED = "stalled"
    CANCELLED = "cancelled"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Notification:
    """One message, for people as ``text`` and for programs as ``document``."""

    kind: NotificationKind
    at: datetime
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def document(self, cluster: str) -> dict[str, Any]:
        """Return the JSON document for webhooks and the exec hook."""
        return {
            "v": 1,
            "event": self.kind.value,
            "at": iso_time(self.at),
            "cluster": cluster,
            "text": self.text,
            **self.fields,
        }


@dataclass(slots=True)
class _Gathered:
    """Events of one kind that wait to be sent together."""

    count: int = 0
    sample: list[str] = field(default_factory=list)


class Coalescer:
    """Makes notifications of log events."""

    def __init__(self) -> None:
        self._once: list[Notification] = []
        self._gathered: dict[tuple[NotificationKind, str], _Gathered] = {}
        self._sent_at: dict[tuple[NotificationKind, str], Instant] = {}
        self._cancellations: deque[str] = deque(maxlen=CANCELLATIONS_KEPT)

    def take(self, event: LogEvent, at: datetime) -> None:
        """Add an event, most kinds of which are ignored."""
        # The fields of most events are never needed, and computing them takes time.
        match event.kind:
            case "request_begun":
                self._add(NotificationKind.STARTED, at, _start_text(event.fields), event)
            case "request_ended":
                self._add(NotificationKind.ENDED, at, _end_text(event.fields), event)
            case "cancellation_seen":
                self._add_cancellation(event, at)
            case "refused":
                refused = event.fields
                self._gather(NotificationKind.REFUSED, refused["request"], 1, _refusal(refused))
            case "refused_more":
                refused = event.fields
                self._gather(NotificationKind.REFUSED, refused["request"], refused["entries"])
            case "stalled":
                stalled = event.fields
                name = f"{stalled['topic']}-{stalled['partition']}"
                self._gather(NotificationKind.STALLED, stalled["by"], 1, name)
            case "stalled_more":
                for by, count in event.fields["by"].items():
                    self._gather(NotificationKind.STALLED, by, count)
            case _:
                pass

    def due(self, now: Instant, at: datetime) -> Iterator[Notification]:
        """Return the notifications to be sent now."""
        yield from self._once
        self._once.clear()
        for key in list(self._gathered):
            sent = self._sent_at.get(key)
            if sent is None or now >= sent + EVERY_S:
                self._sent_at[key] = now
                yield _together(*key, self._gathered.pop(key), at)
        for key in [k for k, sent in self._sent_at.items() if now >= sent + EVERY_S]:
            if key not in self._gathered:
                del self._sent_at[key]

    def _add(self, kind: NotificationKind, at: datetime, text: str, event: LogEvent) -> None:
        self._once.append(Notification(kind, at, text, event.fields))

    def _add_cancellation(self, event: LogEvent, at: datetime) -> None:
        """Add a cancellation the first time it is seen."""
        request = event.fields["request"]
        if request in self._cancellations:
            return
        self._cancellations.append(request)
        self._add(NotificationKind.CANCELLED, at, _cancellation_text(event.fields), event)

    def _gather(self, kind: NotificationKind, key: str, count: int, name: str = "") -> None:
        gathered = self._gathered.setdefault((kind, key), _Gathered())
        gathered.count += count
        if name and len(gathered.sample) < SAMPLE_MAX:
            gathered.sample.append(name)


def _start_text(fields: Mapping[str, Any]) -> str:
    by = f" by {fields['requested_by']}" if fields["requested_by"] else ""
    why = f": {fields['asked_for']}" if fields["asked_for"] else ""
    return f"{fields['request']} has started, {fields['entries']} partitions{by}{why}"


def _end_text(fields: Mapping[str, Any]) -> str:
    moved, took = fields["bytes_moved"], show_duration(fields["seconds"])
    words = [
        f"{fields['request']} has ended ({fields['state']}) after {took}",
        f"{fields['done']} of {fields['entries']} done",
    ]
    words += [
        f"{fields[state]} {state}"
        for state in ("refused", "cancelled", "superseded", "skipped")
        if fields[state]
    ]
    if moved is not None:
        words.append(f"{show_bytes(moved)} copied")
    return ", ".join(words)


def _cancellation_text(fields: Mapping[str, Any]) -> str:
    if fields["unreadable"] is not None:
        return f"a cancellation is not readable: {fields['unreadable']}"
    what = "everything in progress" if fields["everything"] else "a selection"
    by = f" by {fields['requested_by']}" if fields["requested_by"] else ""
    why = f": {fields['reason']}" if fields["reason"] else ""
    return f"{what} is being cancelled{by}{why}"


def _refusal(fields: Mapping[str, Any]) -> str:
    return f"{fields['entry']} ({fields['reason']}: {fields['detail']})"


def _together(kind: NotificationKind, key: str, gathered: _Gathered, at: datetime) -> Notification:
    more = "" if gathered.count <= len(gathered.sample) else ", ..."
    named = "; ".join(gathered.sample) + more
    if kind is NotificationKind.STALLED:
        text = f"{gathered.count} partitions are stalled ({key}): {named}"
        about: dict[str, Any] = {"by": key, "partitions": gathered.count}
    else:
        text = f"{gathered.count} entries of {key} were refused: {named}"
        about = {"request": key, "entries": gathered.count}
    return Notification(kind, at, text, {**about, "sample": list(gathered.sample)})
