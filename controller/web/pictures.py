"""
The values of the pictures on the pages, which the templates in ``templates/pictures.html`` draw.

Work over the last hour, the fill of log directories, copies between brokers, and the phases of
partitions. Pure: numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from math import ceil, inf, log10
from typing import Any, Final

from controller.telemetry.status_publisher import TREND_INTERVAL_S
from controller.telemetry.timelines import Timeline, TrendPoint
from controller.units import show_duration, show_rate

Picture = Mapping[str, Any]

# --- charts of the last hour ---------------------------------------------------------------------

WIDTH: Final = 600
HEIGHT: Final = 150
LEFT: Final = 62
"""Where the axis of time begins; the words of the other axis stand before it."""
TOP: Final = 10
FLOOR: Final = 128
COLUMNS: Final = 180
"""The most points of a chart, however many samples there are."""
SPAN_MIN_S: Final = 60.0
"""The shortest axis of time."""
GAP: Final = 6
"""A curve is interrupted where so many points are missing."""
_STEPS: Final = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)


def charts_of(points: Sequence[TrendPoint]) -> Mapping[str, Picture] | None:
    """Return the charts of throughput and partitions in flight; None for fewer than two points."""
    if len(points) <= 1:
        return None
    stride = ceil(len(points) / COLUMNS)
    shown = points[::-stride][::-1]  # the last point is one of them
    times, gap_s = [p.wall for p in shown], GAP * stride * TREND_INTERVAL_S
    rate = {"throughput": [p.bytes_per_s for p in shown]}
    counts = {"in flight": [p.in_flight for p in shown], "copying": [p.copying for p in shown]}
    return {
        "throughput": _chart(times, gap_s, rate, show_rate, least=1e6),
        "in_flight": _chart(times, gap_s, counts, lambda v: f"{v or 0:g}", least=4),
    }


def _chart(
    times: Sequence[datetime],
    gap_s: float,
    curves: Mapping[str, Sequence[float | None]],
    words: Callable[[float | None], str],
    least: float,
) -> Picture:
    last = times[-1]
    span = max(SPAN_MIN_S, (last - times[0]).total_seconds())
    known = {name: [v for v in curve if v is not None] for name, curve in curves.items()}
    top = _round_up(max(least, 0.0, *chain(*known.values())))
    scale = (WIDTH - LEFT) / span
    xs = [WIDTH - scale * (last - time).total_seconds() for time in times]

    def y(value: float) -> float:
        return round(FLOOR - (FLOOR - TOP) * value / top, 1)

    values = ", ".join(
        f"{name} {words(curves[name][-1])} now, at most {words(max(found, default=None))}"
        for name, found in known.items()
    )
    since = show_duration(span)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "label": f"the last {since}: {values}",
        "since": f"{since} ago",
        "curves": [
            _curve(zip(xs, (v if v is None else y(v) for v in curve), strict=True), scale * gap_s)
            for curve in curves.values()
        ],
        "ticks": [(y(value), words(value)) for value in (0.0, top / 2, top)],
    }


def _curve(points: Iterable[tuple[float, float | None]], gap: float) -> tuple[str, str]:
    """Return a line and the area below it, interrupted where nothing is known for a time."""
    line, area, before = "", "", -inf
    for x, y in points:
        is_begin = x - before > gap
        if y is None or is_begin:
            area, before = f"{area}V{FLOOR}Z" if before > -inf else area, -inf
        if y is not None:
            line += f"{'M' if is_begin else 'L'}{x:.1f} {y}"
            area += f"M{x:.1f} {FLOOR}L{x:.1f} {y}" if is_begin else f"L{x:.1f} {y}"
            before = x
    return line, f"{area}V{FLOOR}Z" if before > -inf else area


def _round_up(value: float) -> float:
    power = 10.0 ** int(log10(value)) if value >= 1 else 1.0
    return next(step * power for step in _STEPS if step * power >= value)


# --- log directories -----------------------------------------------------------------------------


def fill_of(directory: Mapping[str, Any], disks: Mapping[str, Any]) -> Picture | None:
    """Return the shares of a log directory's volume in percent; None if its size is not known."""
    total, usable = directory["total_bytes"], directory["usable_bytes"]
    if not total or usable is None:
        return None
    used = 100.0 * max(0, total - usable) / total
    reserved = min(100.0 - used, 100.0 * directory["reserved_bytes"] / total)
    kept = max(disks["min_free_bytes"], disks["min_free_share"] * total)
    limit = None if disks["min_free"] is None else max(0.0, 100.0 - 100.0 * kept / total)
    return {"used": used, "reserved": reserved, "limit": limit}


# --- copies between brokers ----------------------------------------------------------------------

BROKERS_MAX: Final = 60
"""Rows and columns of the matrix; brokers with the least work are left out beyond it."""


def copy_matrix(
    loads: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]]
) -> Picture | None:
    """
    Return which brokers serve copies to which, and the bytes each has to receive.

    None if no broker has work.
    """
    shown = _busiest(loads)
    if not shown:
        return None
    at = {load["broker"]: n for n, load in enumerate(shown)}
    found = [r for r in routes if r["from"] in at and r["to"] in at]
    return {
        "brokers": [(load["broker"], load["in_bytes_remaining"]) for load in shown],
        "bytes_most": max(1, *(load["in_bytes_remaining"] for load in shown)),
        "routes": [{**r, "row": at[r["from"]], "column": at[r["to"]]} for r in found],
        "replicas_most": max((r["replicas"] for r in routes), default=1),
    }


def _busiest(loads: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def work(load: Mapping[str, Any]) -> tuple[int, int]:
        copies = load["incoming"] + load["outgoing"]
        return copies, load["in_bytes_remaining"] + load["out_bytes_remaining"]

    busy = sorted((load for load in loads if any(work(load))), key=work, reverse=True)
    return sorted(busy[:BROKERS_MAX], key=lambda load: load["broker"])


# --- phases of partitions ------------------------------------------------------------------------

COLORS: Final[Mapping[str, str]] = {
    "pending": "#cfd6e1",
    "A1": "#b39ddb",
    "A2": "#90caf9",
    "A2-syncing": "#1e88e5",
    "B3": "#ffb74d",
    "B5": "#e57373",
}
NAME_MAX: Final = 34
_TICKS: Final = 4


def phase_timeline(timeline: Timeline, now: datetime) -> Picture | None:
    """
    Return the phases of a request's partitions on one axis of time, as shares of it.

    Phases that have not ended are drawn until ``now``. None if no phase is known.
    """
    every = [span for spans in timeline.partitions.values() for span in spans]
    if not every:
        return None
    begin = min(span.since for span in every)
    whole = max(span.until or now for span in every) - begin
    whole_s = max(whole.total_seconds(), 0.001)
    rows = []
    for partition, spans in sorted(timeline.partitions.items()):
        drawn = []
        for span in spans:
            seconds = ((span.until or now) - span.since).total_seconds()
            since = (span.since - begin).total_seconds() / whole_s
            drawn.append((span.phase, seconds, since, seconds / whole_s))
        rows.append((_short(str(partition)), drawn))
    return {
        "rows": rows,
        "letters": max(len(name) for name, _ in rows),
        "ticks": [f"{begin + whole * n / _TICKS:%H:%M:%S}" for n in range(_TICKS + 1)],
    }


def _short(name: str) -> str:
    """Return the end of a long name, with the number of the partition."""
    return name if len(name) <= NAME_MAX else f"…{name[1 - NAME_MAX :]}"
