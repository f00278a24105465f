"""What every measurement is reduced to, and how it is printed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: what was measured, with its spread and the goal it is held against."""

    what: str
    median: str
    p99: str
    runs: int
    goal: str
    is_met: bool


def in_milliseconds(what: str, seconds: Sequence[float], *, goal_ms: float) -> Figure:
    """Reduce latencies to their median and 99th percentile (the largest below 100 runs)."""
    top = quantiles(seconds, n=100)[98] if len(seconds) >= 100 else max(seconds)
    return Figure(
        what=what,
        median=f"{median(seconds) * 1000:.0f} ms",
        p99=f"{top * 1000:.0f} ms",
        runs=len(seconds),
        goal=f"under {goal_ms:.0f} ms",
        is_met=top * 1000 <= goal_ms,
    )


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a Markdown table, the machine named first."""
    lines = [
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}.",
        "",
        "| what | median | p99 / max | runs | goal | met |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.what} | {f.median} | {f.p99} | {f.runs} | {f.goal} | {'yes' if f.is_met else 'no'} |"
        for f in figures
    ]
    return "\n".join(lines)
