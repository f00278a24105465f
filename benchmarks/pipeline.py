"""
``make bench-pipeline``: how good and how fast plans of made-up clusters are, through Spark.

Each cluster is planned within 5 % and within 2 % of even, for several seeds, beside what the stock
tool's own algorithm would do to it. Times begin when Spark has started and the snapshot is written,
and end when the last file is. CPU time is that of all processes: on a busy machine it means more.

With ``--rated``, S, M and L have rates that are independent of sizes, and machines of two sizes:
plans share disk, bytes in and bytes out by capacity. With ``--others``, the plans of the stock
tool's algorithm and of the order of Cruise Control's goals stand beside them.

The brokers of J have four log directories each: they are evened out within brokers, and the cluster
is planned with a directory for each new replica.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.clusters import RATED, SHAPES, make_cluster
from benchmarks.other_plans import OTHERS_HEAD, OtherPlan, copied, other_plans, stock_plan
from benchmarks.processes import memory_kb, processor_s
from benchmarks.snapshots import write_capacities, write_cluster
from controller.pipeline import commands
from controller.pipeline.capacity_file import read_capacities
from controller.pipeline.directory_plan import DirectorySummary
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.plan_summary import PlanSummary
from controller.pipeline.spark_session import open_session
from controller.pipeline.volume_table import DirectoryFill
from controller.pipeline.waves import WaveLimits

FILL: Final = 0.96
"""Usable fraction of the volumes of J, of which some are nearly full."""
DIRECTORY_GOAL: Final = 1.05
GOALS: Final = {
    ("S", 0.05): (1.04, 1.05, None),
    ("S", 0.02): (1.03, 1.04, None),
    ("M", 0.05): (1.02, 1.05, 60.0),
    ("M", 0.02): (1.02, 1.04, 60.0),
    ("L", 0.05): (1.02, 1.05, 150.0),
    ("L", 0.02): (1.02, 1.04, 150.0),
    ("X", 0.05): (1.02, 1.05, 600.0),
    ("X", 0.02): (1.02, 1.04, 600.0),
}
"""Bytes and moves by their bounds, and seconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """One plan."""

    shape: str
    seed: int
    tolerance: float
    summary: PlanSummary
    seconds: float
    cpu_s: float
    stock: tuple[int, int] | None
    """Bytes and moves of the stock algorithm; None where its jars cannot be had."""

    @property
    def meets(self) -> bool:
        """Whether every goal is met."""
        of_bytes, of_moves, limit_s = GOALS[self.shape, self.tolerance]
        found = self.summary
        return (
            found.bytes_ratio <= of_bytes
            and found.moves_ratio <= of_moves
            and not (found.sizes.outside or found.counts.outside or found.leaders.outside)
            and not (found.rack_violations_after or found.concentration_rises or found.racks_lost)
            and (limit_s is None or self.seconds <= limit_s)
        )

    def line(self) -> str:
        """Return a line of the table."""
        found = self.summary
        outside = sum(len(x.outside) for x in (found.sizes, found.counts, found.leaders))
        stock = "-"
        if self.stock is not None:
            stock = (
                f"{self.stock[0] / found.bytes_bound:.1f} / {self.stock[1] / found.moves_bound:.1f}"
            )
        return (
            f"| {self.shape} | {self.seed} | {self.tolerance:.0%} | {found.bytes_ratio:.3f} "
            f"| {found.moves_ratio:.3f} | {found.moves} | {found.leader_changes} | {outside} "
            f"| {found.rack_violations_before} / {found.rack_violations_after} "
            f"| {found.concentration_before} / {found.concentration_after} "
            f"| {found.concentration_rises} | {self.seconds:.0f} s | {self.cpu_s:.0f} s | {stock} "
            f"| {'yes' if self.meets else 'no'} |"
        )


@dataclass(frozen=True, slots=True)
class DirectoryRun:
    """One plan of log directories."""

    operation: str
    seed: int
    tolerance: float
    summary: PlanSummary | DirectorySummary
    waves: int
    seconds: float
    cpu_s: float

    @property
    def meets(self) -> bool:
        """Whether the plan is complete, and no directory is above the limit in any wave."""
        found = self.summary
        return (
            not found.notes
            and found.bytes_ratio <= DIRECTORY_GOAL
            and all(
                f.peak_bytes <= max(f.bytes_before, FILL * f.total_bytes) for f in found.log_dirs
            )
        )

    def line(self) -> str:
        """Return a line of the table."""
        found = self.summary
        total = [max(1, f.total_bytes) for f in found.log_dirs]
        before, peak, after = (
            [held / size for held, size in zip(held_by, total, strict=True)]
            for held_by in (
                [f.bytes_before for f in found.log_dirs],
                [f.peak_bytes for f in found.log_dirs],
                [f.bytes_after for f in found.log_dirs],
            )
        )
        return (
            f"| {self.operation} | {self.seed} | {self.tolerance:.0%} | {found.bytes_ratio:.4f} "
            f"| {found.moves} | {self.waves} | {min(before):.0%} to {max(before):.0%} "
            f"| {max(peak):.0%} | {min(after):.0%} to {max(after):.0%} "
            f"| {_unevenness(found.log_dirs, before):.0%} "
            f"/ {_unevenness(found.log_dirs, after):.0%} "
            f"| {self.seconds:.0f} s | {self.cpu_s:.0f} s | {'yes' if self.meets else 'no'} |"
        )


def _unevenness(fills: Sequence[DirectoryFill], shares: Sequence[float]) -> float:
    """Return the largest deviation of a directory from the mean of its broker."""
    by_broker: dict[int, list[float]] = {}
    for fill, share in zip(fills, shares, strict=True):
        by_broker.setdefault(fill.broker, []).append(share)
    means = {broker: sum(found) / len(found) for broker, found in by_broker.items()}
    return max(
        abs(share / means[broker] - 1) if means[broker] else 0.0
        for broker, found in by_broker.items()
        for share in found
    )


DIRECTORY_HEAD: Final = """\
| plan of J | seed | within | bytes / bound | moves | waves | fill before | peak | fill after \
| largest deviation within a broker before / after | time | CPU | met |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""
HEAD: Final = """\
| cluster | seed | within | bytes / bound | moves / bound | moves | leader changes \
| brokers outside | racks broken before / after | most of a topic on a broker before / after \
| topics that rise | time | CPU | stock: bytes / moves by bound | met |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


RATED_GOALS: Final = (1.05, 1.10)
"""The highest share of disk, bytes in and bytes out by the mean, and bytes by their bound."""
TOLERANCE: Final = 0.05
SHARED: Final = ("disk", "bytes_in", "bytes_out", "leader_bytes_in", "replicas", "leaders")
RATED_HEAD: Final = """\
| cluster | seed | bytes / bound | moves | leader changes | highest share by the mean, before: \
disk, in, out | after: disk, in, out, leader in, replicas, leaders | topics that rise \
| racks lost | time | CPU | met |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True)
class RatedRun:
    """One plan by rates and capacities."""

    shape: str
    seed: int
    summary: PlanSummary
    seconds: float
    cpu_s: float

    def _highest(self, *, is_after: bool) -> list[float]:
        goals = {goal.goal: goal for goal in self.summary.goals}
        return [(goals[n].after if is_after else goals[n].before)[1] for n in SHARED]

    @property
    def meets(self) -> bool:
        """Whether every goal is met."""
        share, of_bytes = RATED_GOALS
        found, limit_s = self.summary, GOALS[self.shape, 0.05][2]
        return (
            max(self._highest(is_after=True)[:3]) <= share
            and found.bytes_ratio <= of_bytes
            and not (found.rack_violations_after or found.concentration_rises or found.racks_lost)
            and not any(goal.broken for goal in found.goals)
            and (limit_s is None or self.seconds <= limit_s)
        )

    def line(self) -> str:
        """Return a line of the table."""
        found = self.summary
        before, after = (
            ", ".join(f"{share:.3f}" for share in self._highest(is_after=flag))
            for flag in (False, True)
        )
        first = ", ".join(before.split(", ")[:3])
        return (
            f"| {self.shape} | {self.seed} | {found.bytes_ratio:.3f} | {found.moves} "
            f"| {found.leader_changes} | {first} | {after} | {found.concentration_rises} "
            f"| {found.racks_lost} | {self.seconds:.0f} s | {self.cpu_s:.0f} s "
            f"| {'yes' if self.meets else 'no'} |"
        )


def run_rated(
    spark: Any, shape: str, seed: int, report: Callable[[str], None], *, with_others: bool
) -> tuple[RatedRun, list[OtherPlan]]:
    """Make one cluster with rates and machines of two sizes, and plan it."""
    made = make_cluster(RATED[shape], seed)
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
        snapshot = f"{directory}/snapshot"
        write_cluster(spark, made, snapshot)
        capacities = read_capacities(write_capacities(made, Path(directory) / "capacities.csv"))
        begun, used = time.monotonic(), cpu_seconds(spark)
        options = PlanOptions(seed=seed, capacities=capacities)
        out = f"{directory}/plan"
        summary, _, _ = commands.make_plan(spark, snapshot, options, WaveLimits(), out, report)
        seconds, cpu_s = time.monotonic() - begun, cpu_seconds(spark) - used
        spark.catalog.clearCache()
    report(f"most memory so far: {memory_text(spark)}")
    found = RatedRun(shape, seed, summary, seconds, cpu_s)
    report(found.line())
    others = list[OtherPlan]()
    if with_others:
        for other in other_plans(made, TOLERANCE, f"{shape} | {seed}", summary.bytes_bound):
            report(other.line())
            others.append(other)
    return found, others


def memory_text(spark: Any) -> str:
    """Return the most memory of Spark's JVM and of this process so far, as a text."""
    driver = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - the only source
    jvm, own = (memory_kb(pid, "VmHWM") / 1024 for pid in (driver, os.getpid()))
    return f"JVM {jvm:.0f} MB, Python {own:.0f} MB"


def cpu_seconds(spark: Any) -> float:
    """Return the CPU time of this process and of Spark's JVM so far."""
    used = time.process_time()
    with suppress(OSError, AttributeError):
        used += processor_s(spark.sparkContext._gateway.proc.pid)  # noqa: SLF001 - the only source
    return used


def run(
    spark: Any,
    shape: str,
    seed: int,
    tolerances: Sequence[float],
    report: Callable[[str], None],
) -> list[Run]:
    """Make one cluster and plan it within each tolerance."""
    made = make_cluster(SHAPES[shape], seed)
    # The stock algorithm takes as long as everything else there, and is no better on more.
    after = None if shape == "X" else stock_plan(made)
    stock = None if after is None else copied(made, after)
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
        snapshot = f"{directory}/snapshot"
        write_cluster(spark, made, snapshot)
        for tolerance in tolerances:
            begun, used = time.monotonic(), cpu_seconds(spark)
            options = PlanOptions(tolerance=tolerance, seed=seed)
            out = f"{directory}/plan"
            summary, _, _ = commands.make_plan(spark, snapshot, options, WaveLimits(), out, report)
            seconds, cpu_s = time.monotonic() - begun, cpu_seconds(spark) - used
            spark.catalog.clearCache()
            found.append(Run(shape, seed, tolerance, summary, seconds, cpu_s, stock))
            report(found[-1].line())
    return found


def run_directories(
    spark: Any,
    seed: int,
    tolerances: Sequence[float],
    report: Callable[[str], None],
) -> list[DirectoryRun]:
    """Make a cluster with several directories on each broker, and plan them."""
    made = make_cluster(SHAPES["J"], seed)
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
        snapshot, out = f"{directory}/snapshot", f"{directory}/plan"
        write_cluster(spark, made, snapshot)
        for tolerance in tolerances:
            for operation, options in (
                ("--balance-dirs", PlanOptions(balance_dirs=True)),
                ("--place-dirs", PlanOptions(place_dirs=True)),
            ):
                wanted = replace(options, tolerance=tolerance, seed=seed, fill=FILL)
                begun, used = time.monotonic(), cpu_seconds(spark)
                make = commands.balance_directories if wanted.balance_dirs else commands.make_plan
                summary, waves, _ = make(spark, snapshot, wanted, WaveLimits(), out, report)
                seconds, cpu_s = time.monotonic() - begun, cpu_seconds(spark) - used
                spark.catalog.clearCache()
                found.append(
                    DirectoryRun(operation, seed, tolerance, summary, len(waves), seconds, cpu_s)
                )
                report(found[-1].line())
    return found


def main() -> int:
    """Measure and print; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="SML", help="some of S, M, L, X and J")
    parser.add_argument("--memory", default="4g", help="of the driver; X needs 8g")
    parser.add_argument("--master", default="local[2]", help="of Spark")
    parser.add_argument("--seeds", default="1,2", help="such as 1,2")
    parser.add_argument("--within", default="0.05,0.02", help="0.05, 0.02 or both")
    parser.add_argument("--rated", action="store_true", help="with rates and two sizes of machines")
    parser.add_argument("--others", action="store_true", help="with --rated: and other planners")
    wanted = parser.parse_args()
    tolerances = [float(text) for text in wanted.within.split(",")]
    spark = open_session(wanted.master, memory=wanted.memory, is_brief=True)
    begun = time.monotonic()

    def report(what: str) -> None:
        print(f"[{time.monotonic() - begun:7.1f}] {what}", file=sys.stderr, flush=True)

    if wanted.rated:
        rated = [
            run_rated(spark, shape, seed, report, with_others=wanted.others)
            for shape in wanted.shapes.replace("J", "")
            for seed in map(int, wanted.seeds.split(","))
        ]
        spark.stop()
        print(RATED_HEAD, *(one.line() for one, _ in rated), sep="\n")
        if wanted.others:
            print("", OTHERS_HEAD, *(one.line() for _, each in rated for one in each), sep="\n")
        return 0 if all(one.meets for one, _ in rated) else 1

    found = [
        one
        for shape in wanted.shapes.replace("J", "")
        for seed in map(int, wanted.seeds.split(","))
        for one in run(spark, shape, seed, tolerances, report)
    ]
    placed = [
        one
        for seed in map(int, wanted.seeds.split(","))
        if "J" in wanted.shapes
        for one in run_directories(spark, seed, tolerances, report)
    ]
    spark.stop()
    if found:
        print(HEAD, *(one.line() for one in found), "", sep="\n")
    if placed:
        print(DIRECTORY_HEAD, *(one.line() for one in placed), sep="\n")
    return 0 if all([*(one.meets for one in found), *(one.meets for one in placed)]) else 1


if __name__ == "__main__":
    sys.exit(main())
