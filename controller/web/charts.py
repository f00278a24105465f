"""
Positions of the charts of the status page: work over the last hour, and the fill of directories.

The templates in ``templates/pictures.html`` draw them. Pure: numbers in, numbers out. A chart has
at most ``COLUMNS`` points, however many samples there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, log10
from typing import Any, Final, NamedTuple

from controller.telemetry.trends import TrendPoint
from controller.units import show_bytes, show_duration

WIDTH: Final = 600
HEIGHT: Final = 150
LEFT: Final = 62
TOP: Final = 10
BOTTOM: Final = 22
COLUMNS: Final = 180
SPAN_MIN_S: Final = 60.0
"""The shortest axis of time."""
TICKS: Final = 2
_STEPS: Final = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)

Picture = Mapping[str, Any]


class _Curve(NamedTuple):
    value: Callable[[TrendPoint], float]
    name: str


def charts_of(points: Sequence[TrendPoint]) -> Mapping[str, Picture] | None:
    """Return the charts of throughput and partitions in flight; None for fewer than two points."""
    if len(points) <= 1:
        return None
    shown = _thinned(points)
    rate = _Curve(lambda p: p.bytes_per_s, "throughput")
    counts = [_Curve(lambda p: p.in_flight, "in flight"), _Curve(lambda p: p.copying, "copying")]
    return {
        "throughput": _chart(shown, [rate], lambda v: f"{show_bytes(v)}/s", least=1e6),
        "in_flight": _chart(shown, counts, lambda v: f"{v:g}", least=4),
    }


def _thinned(points: Sequence[TrendPoint]) -> Sequence[TrendPoint]:
    """Return every n-th point, counted from the last, so that at most ``COLUMNS`` are left."""
    every = ceil(len(points) / COLUMNS)
    return points[::-1][::every][::-1]


def _chart(
    points: Sequence[TrendPoint],
    curves: Sequence[_Curve],
    words: Callable[[float], str],
    least: float,
) -> Picture:
    last = points[-1]
    span = max(SPAN_MIN_S, (last.wall - points[0].wall).total_seconds())
    top = _rounded(max(least, *(curve.value(p) for p in points for curve in curves)))
    floor = HEIGHT - BOTTOM

    def at(point: TrendPoint, value: float) -> str:
        x = WIDTH - (WIDTH - LEFT) * (last.wall - point.wall).total_seconds() / span
        return f"{x:.1f} {floor - (floor - TOP) * value / top:.1f}"

    lines = []
    for curve in curves:
        path = "M" + "L".join(at(p, curve.value(p)) for p in points)
        first = at(points[0], 0.0).partition(" ")[0]
        lines.append({"path": path, "area": f"{path}L{WIDTH} {floor}L{first} {floor}Z"})
    values = ", ".join(
        f"{curve.name} {words(curve.value(last))} now, "
        f"at most {words(max(map(curve.value, points)))}"
        for curve in curves
    )
    since = show_duration(span)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "label": f"the last {since}: {values}",
        "since": f"{since} ago",
        "lines": lines,
        "ticks": [
            {
                "y": round(floor - (floor - TOP) * n / TICKS, 1),
                "words": words(top * n / TICKS),
            }
            for n in range(TICKS + 1)
        ],
    }


def _rounded(value: float) -> float:
    """Return the next round number."""
    power = 10.0 ** int(log10(value)) if value >= 1 else 1.0
    return next(step * power for step in _STEPS if step * power >= value)


def fill_of(directory: Mapping[str, Any], disks: Mapping[str, Any]) -> Picture | None:
    """
    Return the shares of a log directory's volume in percent; None if its size is not known.

    Args:
        directory: One of ``log_dirs`` of the status.
        disks: ``disks`` of the status.

    """
    total, usable = directory["total_bytes"], directory["usable_bytes"]
    if not total or usable is None:
        return None
    used = 100.0 * max(0, total - usable) / total
    reserved = min(100.0 - used, 100.0 * directory["reserved_bytes"] / total)
    kept = max(disks["min_free_bytes"], disks["min_free_share"] * total)
    limit = None if disks["min_free"] is None else max(0.0, 100.0 - 100.0 * kept / total)
    return {"used": used, "reserved": reserved, "limit": limit}
