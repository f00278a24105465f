"""What every measurement is reduced to, and how it is printed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median, quantiles


class Extent(Enum):
    """How much is measured."""

    ORDINARY = "ordinary"
    """Fewer rounds, no very large shapes."""
    FULL = "full"
    """Everything there are goals for."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: what was measured, with its spread and the goal it is held against."""

    what: str
    median: str
    runs: int
    spread: str = ""
    """From the least to the most, or the 99th percentile; empty for a single run."""
    ratio: str = ""
    """To what it is held against, measured in the same run."""
    goal: str = ""
    is_met: bool | None = None
    """None for what is only there to be compared with."""


def in_milliseconds(what: str, seconds: Sequence[float], *, goal_ms: float) -> Figure:
    """
    Reduce latencies to their median and spread, which ends with the 99th percentile.

    Below 100 runs that is the largest, and what the goal is held against.
    """
    top = quantiles(seconds, n=100)[98] if len(seconds) >= 100 else max(seconds)
    return Figure(
        what=what,
        median=f"{median(seconds) * 1000:.0f} ms",
        spread=f"{min(seconds) * 1000:.0f} to {top * 1000:.0f} ms",
        runs=len(seconds),
        goal=f"under {goal_ms:.0f} ms",
        is_met=top * 1000 <= goal_ms,
    )


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a Markdown table, the machine named first."""
    lines = [
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}.",
        "",
        "| what | median | spread | runs | ratio | goal | met |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.what} | {f.median} | {f.spread} | {f.runs} | {f.ratio} | {f.goal} | {_met(f)} |"
        for f in figures
    ]
    return "\n".join(lines)


def _met(figure: Figure) -> str:
    if figure.is_met is None:
        return ""
    return "yes" if figure.is_met else "no"
