"""
The values of the pictures on the pages, which the templates in ``templates/pictures.html`` draw.

Work over the last hour, the fill of log directories, copies between brokers, and the phases of
partitions. Pure: numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import ceil, log10
from typing import Any, Final

from controller.telemetry.status_publisher import TrendPoint
from controller.telemetry.timelines import Timeline
from controller.units import show_bytes, show_duration

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
_STEPS: Final = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)


def charts_of(points: Sequence[TrendPoint]) -> Mapping[str, Picture] | None:
    """Return the charts of throughput and partitions in flight; None for fewer than two points."""
    if len(points) <= 1:
        return None
    shown = points[:: -ceil(len(points) / COLUMNS)][::-1]  # the last point is one of them
    times = [p.wall for p in shown]
    rate = {"throughput": [p.bytes_per_s for p in shown]}
    counts = {"in flight": [p.in_flight for p in shown], "copying": [p.copying for p in shown]}
    return {
        "throughput": _chart(times, rate, lambda v: f"{show_bytes(v)}/s", least=1e6),
        "in_flight": _chart(times, counts, lambda v: f"{v:g}", least=4),
    }


def _chart(
    times: Sequence[datetime],
    curves: Mapping[str, Sequence[float]],
    words: Callable[[float], str],
    least: float,
) -> Picture:
    last = times[-1]
    span = max(SPAN_MIN_S, (last - times[0]).total_seconds())
    top = _round_up(max(least, *map(max, curves.values())))
    xs = [WIDTH - (WIDTH - LEFT) * (last - time).total_seconds() / span for time in times]

    def y(value: float) -> float:
        return round(FLOOR - (FLOOR - TOP) * value / top, 1)

    paths = [
        "M" + "L".join(f"{x:.1f} {y(value)}" for x, value in zip(xs, values, strict=True))
        for values in curves.values()
    ]
    values = ", ".join(
        f"{name} {words(found[-1])} now, at most {words(max(found))}"
        for name, found in curves.items()
    )
    since = show_duration(span)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "label": f"the last {since}: {values}",
        "since": f"{since} ago",
        "lines": paths,
        "below": f"L{WIDTH} {FLOOR}L{xs[0]:.1f} {FLOOR}Z",
        "ticks": [(y(value), words(value)) for value in (0.0, top / 2, top)],
    }


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
