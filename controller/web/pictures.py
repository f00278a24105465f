"""
Positions of the pictures on the pages: copies between brokers, and phases of partitions.

The templates in ``templates/pictures.html`` draw them. Pure: numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from controller.telemetry.timelines import Timeline

BROKERS_MAX: Final = 60
"""Rows and columns of the matrix; brokers with the least work are left out beyond it."""
CELL: Final = 22
MARGIN: Final = 64
BAR: Final = 90
WIDTH: Final = 1000
ROW: Final = 20
LETTER: Final = 7.2
"""Width of a letter of the names beside the timeline."""
TICKS: Final = 4

COLORS: Final[Mapping[str, str]] = {
    "pending": "#cfd6e1",
    "A1": "#b39ddb",
    "A2": "#90caf9",
    "A2-syncing": "#1e88e5",
    "B3": "#ffb74d",
    "B5": "#e57373",
}

NAME_MAX: Final = 34

Picture = Mapping[str, Any]


def copy_matrix(
    loads: Sequence[Mapping[str, Any]], routes: Sequence[Mapping[str, Any]]
) -> Picture | None:
    """
    Return which brokers serve copies to which, and the bytes each has to receive.

    Args:
        loads: ``broker_loads`` of the status.
        routes: ``routes`` of the status.

    Returns:
        None if no broker has work.

    """
    shown = _busiest(loads)
    if not shown:
        return None
    at = {load["broker"]: MARGIN + n * CELL for n, load in enumerate(shown)}
    side = len(shown) * CELL
    bytes_most = max(1, *(load["in_bytes_remaining"] for load in shown))
    replicas_most = max((r["replicas"] for r in routes), default=1)
    return {
        "margin": MARGIN,
        "cell": CELL,
        "side": side,
        "width": MARGIN + side + BAR + 90,
        "height": MARGIN + side + 8,
        "lines": range(MARGIN, MARGIN + side + 1, CELL),
        "brokers": [
            {
                "id": load["broker"],
                "at": at[load["broker"]],
                "bytes": load["in_bytes_remaining"],
                "bar": BAR * load["in_bytes_remaining"] / bytes_most,
            }
            for load in shown
        ],
        "routes": [
            {
                "leader": route["from"],
                "replica": route["to"],
                "replicas": route["replicas"],
                "x": at[route["to"]],
                "y": at[route["from"]],
                "depth": 0.7 + 0.3 * route["replicas"] / replicas_most,
            }
            for route in routes
            if route["from"] in at and route["to"] in at
        ],
    }


def _busiest(loads: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def work(load: Mapping[str, Any]) -> tuple[int, int]:
        copies = load["incoming"] + load["outgoing"]
        return copies, load["in_bytes_remaining"] + load["out_bytes_remaining"]

    busy = sorted((load for load in loads if any(work(load))), key=work, reverse=True)
    return sorted(busy[:BROKERS_MAX], key=lambda load: load["broker"])


def phase_timeline(timeline: Timeline, now: datetime) -> Picture | None:
    """
    Return the phases of a request's partitions on one axis of time.

    Args:
        timeline: The partitions and their phases.
        now: The end of phases that have not ended.

    Returns:
        None if no phase is known.

    """
    every = [span for spans in timeline.partitions.values() for span in spans]
    if not every:
        return None
    begin = min(span.since for span in every)
    end = max(span.until or now for span in every)
    names = {partition: _short(str(partition)) for partition in sorted(timeline.partitions)}
    left = 2 * LETTER + LETTER * max(map(len, names.values()))
    scale = (WIDTH - left) / max((end - begin).total_seconds(), 0.001)
    rows = []
    for n, (partition, name) in enumerate(names.items()):
        drawn = []
        for span in timeline.partitions[partition]:
            seconds = ((span.until or now) - span.since).total_seconds()
            x = left + scale * (span.since - begin).total_seconds()
            width = max(1.0, scale * seconds)
            drawn.append({"phase": span.phase, "seconds": seconds, "x": x, "width": width})
        rows.append({"partition": name, "y": 22 + n * ROW, "spans": drawn})
    ticks = [
        {
            "x": left + (WIDTH - left) * n / TICKS,
            "words": f"{begin + (end - begin) * n / TICKS:%H:%M:%S}",
            "anchor": "start" if n == 0 else "end" if n == TICKS else "middle",
        }
        for n in range(TICKS + 1)
    ]
    return {
        "left": left,
        "width": WIDTH,
        "height": 30 + len(rows) * ROW,
        "bar": ROW - 6,
        "ticks": ticks,
        "begin": ticks[0]["words"],
        "end": ticks[-1]["words"],
        "rows": rows,
    }


def _short(name: str) -> str:
    """Return the end of a long name, with the number of the partition."""
    return name if len(name) <= NAME_MAX else f"…{name[1 - NAME_MAX :]}"
