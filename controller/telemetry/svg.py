"""
Pictures as inline SVG: who copies from whom, and which phases partitions went through.

Pure: numbers and texts in, markup out; every text is escaped. No script, no other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from controller.telemetry.timelines import Timeline

BROKERS_MAX: Final = 60
"""Rows and columns of the matrix; beyond, those with the least to do are left out."""
CELL: Final = 22
MARGIN: Final = 64
BAR: Final = 90
WIDTH: Final = 720
ROW: Final = 16
NAME: Final = 220

COLORS: Final[Mapping[str, str]] = {
    "pending": "#cfd6e1",
    "A1": "#b39ddb",
    "A2": "#90caf9",
    "A2-syncing": "#1e88e5",
    "B3": "#ffb74d",
    "B5": "#e57373",
}


def matrix(loads: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]]) -> str:
    """
    Return who serves copies to whom, with what each has still to receive and to lose.

    Args:
        loads: ``broker_loads`` of the status.
        routes: ``routes`` of the status.

    """
    shown = _busiest(loads)
    if not shown:
        return ""
    place = {load["broker"]: n for n, load in enumerate(shown)}
    most = max((r["replicas"] for r in routes), default=1)
    side = len(shown) * CELL
    width, height = MARGIN + side + BAR + 90, MARGIN + side + 8
    parts = [
        f'<text x="{MARGIN + side / 2:g}" y="12" text-anchor="middle">copies to broker</text>',
        f'<text x="{MARGIN + side + 8}" y="{MARGIN - 8}">still to receive</text>',
    ]
    parts += _axes(shown, side)
    for route in routes:
        if route["from"] not in place or route["to"] not in place:
            continue
        x, y = MARGIN + place[route["to"]] * CELL, MARGIN + place[route["from"]] * CELL
        words = f"{route['from']} serves {route['replicas']} replicas to {route['to']}"
        depth = 0.25 + 0.75 * route["replicas"] / most
        parts.append(
            f'<g><title>{escape(words)}</title><rect class="route" x="{x + 1}" y="{y + 1}" '
            f'width="{CELL - 2}" height="{CELL - 2}" fill="#1e88e5" fill-opacity="{depth:.2f}"/>'
            f'<text x="{x + CELL / 2:g}" y="{y + 15}" text-anchor="middle">'
            f"{int(route['replicas'])}</text></g>"
        )
    parts += _bars(shown, side)
    return (
        f'<svg role="img" aria-label="copies between brokers" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">{"".join(parts)}</svg>'
    )


def _axes(shown: Sequence[Mapping[str, Any]], side: int) -> Iterable[str]:
    for n, load in enumerate(shown):
        at = MARGIN + n * CELL
        name = escape(str(load["broker"]))
        yield f'<text x="{MARGIN - 6}" y="{at + 15}" text-anchor="end">{name}</text>'
        yield f'<text x="{at + CELL / 2:g}" y="{MARGIN - 8}" text-anchor="middle">{name}</text>'
        yield f'<path d="M{MARGIN} {at}h{side}M{at} {MARGIN}v{side}" stroke="#dde2ea"/>'
    end = MARGIN + side
    yield f'<path d="M{MARGIN} {end}h{side}M{end} {MARGIN}v{side}" stroke="#dde2ea"/>'
    yield f'<text x="4" y="{MARGIN - 8}">from</text>'


def _bars(shown: Sequence[Mapping[str, Any]], side: int) -> Iterable[str]:
    most = max(1, *(load["in_bytes_remaining"] for load in shown))
    for n, load in enumerate(shown):
        y = MARGIN + n * CELL
        size = load["in_bytes_remaining"]
        length = BAR * size / most
        yield (
            f'<rect x="{MARGIN + side + 8}" y="{y + 4}" width="{length:.1f}" height="{CELL - 8}" '
            f'fill="#81c784"/><text x="{MARGIN + side + 12 + length:.1f}" y="{y + 15}">'
            f"{escape(quantity(size))}</text>"
        )


def _busiest(loads: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def work(load: Mapping[str, Any]) -> tuple[int, int]:
        copies = load["incoming"] + load["outgoing"]
        return copies, load["in_bytes_remaining"] + load["out_bytes_remaining"]

    busy = sorted((load for load in loads if any(work(load))), key=work, reverse=True)
    return sorted(busy[:BROKERS_MAX], key=lambda load: load["broker"])


def timeline(found: Timeline, now: datetime) -> str:
    """
    Return the phases of a request's partitions on one axis of time.

    Args:
        found: What is kept of it.
        now: Where phases that last still end.

    """
    spans = [s for many in found.partitions.values() for s in many]
    if not spans:
        return ""
    begin = min(s.since for s in spans)
    end = max(s.until or now for s in spans)
    total = max((end - begin).total_seconds(), 0.001)

    def x(moment: datetime) -> float:
        return NAME + (WIDTH - NAME) * (moment - begin).total_seconds() / total

    parts = [
        f'<text x="{NAME}" y="12">{begin:%H:%M:%S}</text>',
        f'<text x="{WIDTH}" y="12" text-anchor="end">{end:%H:%M:%S}</text>',
    ]
    for n, (partition, many) in enumerate(sorted(found.partitions.items())):
        y = 20 + n * ROW
        parts.append(
            f'<text x="{NAME - 6}" y="{y + 11}" text-anchor="end">{escape(str(partition))}</text>'
        )
        for span in many:
            until = span.until or now
            left = x(span.since)
            words = f"{span.phase} {(until - span.since).total_seconds():.1f} s"
            parts.append(
                f'<rect class="span" x="{left:.1f}" y="{y + 1}" height="{ROW - 3}" '
                f'width="{max(1.0, x(until) - left):.1f}" '
                f'fill="{COLORS.get(span.phase, "#9e9e9e")}">'
                f"<title>{escape(f'{partition} {words}')}</title></rect>"
            )
    height = 28 + len(found.partitions) * ROW
    return (
        f'<svg role="img" aria-label="phases of partitions" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">{"".join(parts)}</svg>'
    )


def legend() -> str:
    """Return what the colours of the timeline mean."""
    items = (
        f'<span class="key"><i style="background:{color}"></i>{escape(phase)}</span>'
        for phase, color in COLORS.items()
    )
    return f'<p class="muted">{" ".join(items)}</p>'


def quantity(size: float) -> str:
    """Return bytes as people write them."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":  # noqa: PLR2004 - decimal units, as Kafka's tools have
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
