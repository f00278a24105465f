"""The reduction of measurements to figures, and their output."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
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
    spec: str = ""
    is_met: bool | None = None
    """None for what is only there to be compared with."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one round measured."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    """What the goal allows: of the value, or of its ratio where there is one; None for no goal."""
    beside: float | None = None
    """What it is held against, measured in the same round."""
    beside_what: str = ""

    @property
    def held(self) -> float:
        """What the goal is about."""
        return self.value if self.beside is None else self.value / self.beside


def reduced(rounds: Sequence[Sample]) -> Figure:
    """Reduce what the rounds measured of one thing to the median of each and the spread."""
    one, values = rounds[0], [sample.value for sample in rounds]
    held = median(sample.held for sample in rounds)
    times = "" if one.beside is None else f" times {one.beside_what}"
    return Figure(
        what=one.what,
        median=f"{median(values):.1f} {one.unit}",
        spread=f"{min(values):.1f} to {max(values):.1f} {one.unit}" if len(values) > 1 else "",
        runs=len(values),
        ratio=f"{held:.2f}{times}" if times else "",
        spec="" if one.limit is None else f"under {one.limit:g}{times or ' ' + one.unit}",
        is_met=None if one.limit is None else held < one.limit,
    )


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
        spec=f"under {goal_ms:.0f} ms",
        is_met=top * 1000 <= goal_ms,
    )


def machine() -> str:
    """Return what it was measured on."""
    return (
        f"{os.cpu_count()} cores, {_processor()}, {platform.machine()}, "
        f"Python {platform.python_version()}."
    )


def _processor(known: Path = Path("/proc/cpuinfo")) -> str:
    lines = known.read_text().splitlines() if known.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "processor unknown"


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a Markdown table, ratios first: single figures say less."""
    lines = [
        "| ratio | what | median | spread | runs | goal | met |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.ratio} | {f.what} | {f.median} | {f.spread} | {f.runs} | {f.spec} | {_met(f)} |"
        for f in figures
    ]
    return "\n".join(lines)


def _met(figure: Figure) -> str:
    if figure.is_met is None:
        return ""
    return "yes" if figure.is_met else "no"
