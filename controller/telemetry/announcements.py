"""
What is worth waking somebody for: starts, ends, stalls, cancellations and refusals.

Made of the notes that log and journal have too. Many of a kind become one announcement, and for
one request, or one reason, there is one in ten seconds at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from controller.core.model import Instant
from controller.telemetry.json_values import iso
from controller.telemetry.log_events import LogEvent
from controller.telemetry.svg import duration, quantity

EVERY_S: Final = 10.0
SAMPLE_MAX: Final = 5
CANCELLATIONS_KEPT: Final = 50


class Occasion(StrEnum):
    """What is announced."""

    STARTED = "started"
    ENDED = "ended"
    STALLED = "stalled"
    CANCELLED = "cancelled"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Announcement:
    """One thing to tell the world."""

    occasion: Occasion
    at: datetime
    text: str
    """In one sentence."""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def document(self, cluster: str) -> dict[str, Any]:
        """
        Return it for a program.

        Args:
            cluster: Which cluster it is about.

        """
        return {
            "v": 1,
            "event": self.occasion.value,
            "at": iso(self.at),
            "cluster": cluster,
            "text": self.text,
            **self.fields,
        }


@dataclass(slots=True)
class _Gathered:
    """Several of one kind that wait to be told together."""

    count: int = 0
    sample: list[str] = field(default_factory=list)


class Announcements:
    """Gathers notes; what is due is announced."""

    def __init__(self) -> None:
        """Know nothing."""
        self._once: list[Announcement] = []
        self._gathered: dict[tuple[Occasion, str], _Gathered] = {}
        self._told_at: dict[tuple[Occasion, str], Instant] = {}
        self._cancellations: dict[str, None] = {}

    def take(self, note: LogEvent, at: datetime, *, leading: bool) -> None:
        """Take a note; a standby announces nothing: the leader does."""
        if leading:
            self._take(note, at)

    def due(self, now: Instant, at: datetime) -> Iterator[Announcement]:
        """Return what is to be announced now."""
        yield from self._once
        self._once.clear()
        for key in list(self._gathered):
            told = self._told_at.get(key)
            if told is None or now >= told + EVERY_S:
                self._told_at[key] = now
                yield _together(*key, self._gathered.pop(key), at)
        for key in [k for k, told in self._told_at.items() if now >= told + EVERY_S]:
            if key not in self._gathered:
                del self._told_at[key]

    def _take(self, note: LogEvent, at: datetime) -> None:
        # Fields are asked for only where they are told: most notes are of what nobody waits for.
        match note.kind:
            case "request_begun":
                self._announce(Occasion.STARTED, at, _started(note.fields), note)
            case "request_ended":
                self._announce(Occasion.ENDED, at, _ended(note.fields), note)
            case "cancellation_seen":
                self._cancelled(note, at)
            case "refused":
                refused = note.fields
                self._gather(Occasion.REFUSED, refused["request"], 1, _refusal(refused))
            case "refused_more":
                self._gather(Occasion.REFUSED, note.fields["request"], note.fields["entries"])
            case "stalled":
                stalled = note.fields
                name = f"{stalled['topic']}-{stalled['partition']}"
                self._gather(Occasion.STALLED, stalled["by"], 1, name)
            case "stalled_more":
                for by, count in note.fields["by"].items():
                    self._gather(Occasion.STALLED, by, count)
            case _:
                pass

    def _announce(self, occasion: Occasion, at: datetime, text: str, note: LogEvent) -> None:
        self._once.append(Announcement(occasion, at, text, note.fields))

    def _cancelled(self, note: LogEvent, at: datetime) -> None:
        """Announce a cancellation the first time it is seen."""
        request = note.fields["request"]
        if request in self._cancellations:
            return
        self._cancellations[request] = None
        while len(self._cancellations) > CANCELLATIONS_KEPT:
            del self._cancellations[next(iter(self._cancellations))]
        self._announce(Occasion.CANCELLED, at, _cancelled(note.fields), note)

    def _gather(self, occasion: Occasion, key: str, count: int, name: str = "") -> None:
        gathered = self._gathered.setdefault((occasion, key), _Gathered())
        gathered.count += count
        if name and len(gathered.sample) < SAMPLE_MAX:
            gathered.sample.append(name)


def _started(fields: Mapping[str, Any]) -> str:
    by = f" by {fields['requested_by']}" if fields["requested_by"] else ""
    why = f": {fields['asked_for']}" if fields["asked_for"] else ""
    return f"{fields['request']} has begun, {fields['entries']} partitions{by}{why}"


def _ended(fields: Mapping[str, Any]) -> str:
    moved = fields["bytes_moved"]
    words = [
        f"{fields['request']} has ended ({fields['state']}) after {duration(fields['seconds'])}",
        f"{fields['done']} of {fields['entries']} done",
    ]
    words += [
        f"{fields[state]} {state}"
        for state in ("refused", "cancelled", "superseded", "skipped")
        if fields[state]
    ]
    if moved is not None:
        words.append(f"{quantity(moved)} copied")
    return ", ".join(words)


def _cancelled(fields: Mapping[str, Any]) -> str:
    if fields["unreadable"] is not None:
        return f"a cancellation cannot be understood: {fields['unreadable']}"
    what = "everything in progress" if fields["everything"] else "a selection"
    by = f" by {fields['requested_by']}" if fields["requested_by"] else ""
    why = f": {fields['reason']}" if fields["reason"] else ""
    return f"{what} is being cancelled{by}{why}"


def _refusal(fields: Mapping[str, Any]) -> str:
    return f"{fields['entry']} ({fields['reason']}: {fields['detail']})"


def _together(occasion: Occasion, key: str, gathered: _Gathered, at: datetime) -> Announcement:
    more = "" if gathered.count <= len(gathered.sample) else ", ..."
    named = "; ".join(gathered.sample) + more
    if occasion is Occasion.STALLED:
        text = f"{gathered.count} partitions have not come on for long (wait for {key}): {named}"
        about: dict[str, Any] = {"by": key, "partitions": gathered.count}
    else:
        text = f"{gathered.count} entries of {key} were refused: {named}"
        about = {"request": key, "entries": gathered.count}
    return Announcement(occasion, at, text, {**about, "sample": list(gathered.sample)})
