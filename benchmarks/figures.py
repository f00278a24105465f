"""The reduction of measurements to figures, and their output."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite
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
    of_goal: float | None = None
    """
    How far it is from its goal: 1 and less meet it, 1.5 misses it by 50 %.

    None for what is only there to be compared with.
    """

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.of_goal is None else self.of_goal <= 1.0

    @property
    def verdict(self) -> str:
        """Whether the goal is met, or by how much it is missed, in words; empty without one."""
        if self.of_goal is None:
            return ""
        if self.of_goal <= 1.0:
            return "yes"
        return f"missed by {self.of_goal - 1:.0%}" if isfinite(self.of_goal) else "missed"


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
        of_goal=None if one.limit is None else held / one.limit,
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
        of_goal=top * 1000 / goal_ms,
    )


def machine() -> str:
    """Return what it was measured on."""
    return (
        f"{os.cpu_count()} cores, {processor()}, {platform.machine()}, "
        f"Python {platform.python_version()}."
    )


def processor(known: Path = Path("/proc/cpuinfo")) -> str:
    """Return the model of the processor."""
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
        f"| {f.ratio} | {f.what} | {f.median} | {f.spread} | {f.runs} | {f.spec} | {f.verdict} |"
        for f in figures
    ]
    return "\n".join(lines)


def verdicts(figures: Iterable[Figure]) -> str:
    """Return how many goals are met, and each that is not, with by how much, the worst first."""
    aimed = [(f.of_goal, f) for f in figures if f.of_goal is not None]
    missed = sorted((pair for pair in aimed if pair[0] > 1.0), key=lambda pair: -pair[0])
    lines = [f"{len(aimed) - len(missed)} of {len(aimed)} goals are met."]
    lines += [f"* {f.verdict}: {f.what}; goal: {f.spec}" for _, f in missed]
    return "\n".join(lines)
