"""
Bytes, rates and times of a status, in words; what the daemon does not tell is left out.

Amounts change all the time. ``milestone`` tells when they changed enough to say so again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.cli.units import show_bytes

_UNITS: Final = ((86_400, "days"), (3600, "h"), (60, "min"), (1, "s"))
_SOME: Final = 2
"""A unit is used from so many of it on."""
MILESTONES: Final = 10
"""Of a request's bytes."""


def amount_words(request: Mapping[str, Any]) -> str:
    """Return how much of a request is copied, how fast, and when it may end; empty if unknown."""
    volume = _volume(request)
    parts: list[str] = []
    if volume is not None:
        moved, total = volume
        parts.append(f"{show_bytes(moved)} of {show_bytes(total)} copied")
    rate = request.get("bytes_per_s")
    if rate:
        parts.append(f"{show_bytes(rate)}/s")
    left = eta_words(request.get("eta_s"))
    if left:
        parts.append(left)
    return ", ".join(parts)


def share_copied(request: Mapping[str, Any]) -> float | None:
    """Return which part of a request's bytes is copied, None where that is not known."""
    volume = _volume(request)
    return None if volume is None else min(1.0, volume[0] / max(1, volume[1]))


def milestone(request: Mapping[str, Any]) -> int:
    """Return a number that grows from time to time while bytes are copied."""
    share = share_copied(request)
    return 0 if share is None else int(share * MILESTONES)


def _volume(request: Mapping[str, Any]) -> tuple[int, int] | None:
    found = request.get("bytes")
    if not isinstance(found, Mapping):
        return None
    moved, total = found.get("moved"), found.get("total")
    if not isinstance(total, int) or not total:
        return None
    return (moved if isinstance(moved, int) else 0), total


def eta_words(found: object) -> str:
    """Word the seconds that are left, at least and at most; empty where nobody knows."""
    match found:
        case [int() | float() as low, int() | float() as high]:
            least, most = duration_words(low), duration_words(high)
            return f"{least} left" if least == most else f"{least} to {most} left"
    return ""


def duration_words(seconds: float) -> str:
    """Word a duration in the largest unit of which there are some."""
    for size, unit in _UNITS:
        if seconds >= _SOME * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds)} s"


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What goes to and from one broker, in words."""

    broker: int
    incoming: str
    outgoing: str

    def __str__(self) -> str:
        return f"broker {self.broker}: in {self.incoming}, out {self.outgoing}"


def broker_loads(status: Mapping[str, Any]) -> Iterator[BrokerLoad]:
    """Return the brokers that have a part in the work just now."""
    for row in status.get("broker_loads") or ():
        incoming, outgoing = row.get("incoming") or 0, row.get("outgoing") or 0
        if incoming or outgoing:
            yield BrokerLoad(row["broker"], _load(row, "in", incoming), _load(row, "out", outgoing))


def busy_brokers(status: Mapping[str, Any]) -> tuple[tuple[int, int, int], ...]:
    """Return the same as numbers that change only with the replicas."""
    rows = status.get("broker_loads") or ()
    return tuple((r["broker"], r.get("incoming") or 0, r.get("outgoing") or 0) for r in rows)


def _load(row: Mapping[str, Any], way: str, replicas: int) -> str:
    left, rate = row.get(f"{way}_bytes_remaining"), row.get(f"{way}_bytes_per_s")
    parts = [f"{show_bytes(left)} left"] if left else []
    parts += [f"{show_bytes(rate)}/s"] if rate else []
    return f"{replicas} ({', '.join(parts)})" if parts and replicas else str(replicas)
