"""
What other planners make of a made-up cluster: the stock tool, and Cruise Control's order of goals.

The stock tool's assignment is its own, called from its jar. Seconds of Cruise Control's order are
those of our re-implementation (``goal_order``), and say nothing about Cruise Control's own.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.clusters import MadeCluster
from benchmarks.goal_order import GoalOrder
from integration.rigs.kafka_jars import JarsUnavailableError, classpath

STOCK: Final = Path(__file__).parent / "stock" / "StockAssignment.java"
OTHERS_HEAD: Final = """\
| cluster | seed | by | bytes / bound | moves | highest share by the mean: disk, in, out, \
leader in, replicas, leaders | topics that rise | CPU |
|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPlan:
    """The figures of one plan."""

    cluster: str
    planner: str
    bytes_ratio: float
    moves: int
    shares: tuple[float, ...]
    rises: int
    """Topics with more replicas on one broker than on any before."""
    seconds: float

    def line(self) -> str:
        """Return a line of the table."""
        return (
            f"| {self.cluster} | {self.planner} | {self.bytes_ratio:.3f} | {self.moves} "
            f"| {', '.join(f'{share:.3f}' for share in self.shares)} | {self.rises} "
            f"| {self.seconds:.0f} s |"
        )


def other_plans(
    made: MadeCluster, tolerance: float, cluster: str, bound: int
) -> Iterator[OtherPlan]:
    """Yield the figures of the other planners' plans of a cluster with rates."""

    def figures(planner: str, after: Any, seconds: float) -> OtherPlan:
        size, moves = copied(made, after)
        return OtherPlan(
            cluster=cluster,
            planner=planner,
            bytes_ratio=size / bound,
            moves=moves,
            shares=highest_shares(made, after),
            rises=int(
                np.count_nonzero(concentration(made, after) > concentration(made, made.replicas))
            ),
            seconds=seconds,
        )

    begun = time.monotonic()
    stock = stock_plan(made)
    if stock is not None:
        yield figures("stock tool", stock, time.monotonic() - begun)
    for is_even, planner in ((True, "goal order"), (False, "goal order without numbers")):
        begun = time.process_time()
        order = GoalOrder(made, tolerance)
        order.plan(is_even=is_even)
        yield figures(planner, order.replicas, time.process_time() - begun)


def stock_plan(made: MadeCluster) -> Any | None:
    """Return the stock tool's assignment of every topic; None where its jars cannot be had."""
    counts = np.bincount(made.topic, minlength=len(made.topics))
    factor = made.replicas.shape[1]
    brokers = "".join(f"{n} {rack}\n" for n, rack in enumerate(made.racks, start=1))
    topics = "".join(f"{count} {factor}\n" for count in counts.tolist())
    try:
        command = ["java", "-cp", classpath(), str(STOCK)]
        done = subprocess.run(
            command, input=f"{brokers}\n{topics}", capture_output=True, text=True, check=True
        )
    except (JarsUnavailableError, OSError):
        return None
    return np.array([[int(b) for b in line.split(",")] for line in done.stdout.splitlines()])


def copied(made: MadeCluster, after: Any) -> tuple[int, int]:
    """Return the bytes and the replicas that an assignment copies."""
    kept = (after[:, :, None] == made.replicas[:, None, :]).any(axis=2)
    new = after.shape[1] - kept.sum(axis=1)
    return int((new * made.size).sum()), int(new.sum())


def highest_shares(made: MadeCluster, after: Any) -> tuple[float, ...]:
    """Return the highest share of a broker's capacity by the mean, of each load."""
    size, factor = len(made.racks), after.shape[1]
    held, led = after.ravel() - 1, after[:, 0] - 1
    sent = made.bytes_out + (factor - 1) * made.bytes_in
    loads = (
        np.bincount(held, np.repeat(made.size, factor), size),
        np.bincount(held, np.repeat(made.bytes_in, factor), size),
        np.bincount(led, sent, size),
        np.bincount(led, made.bytes_in, size),
        np.bincount(held, minlength=size),
        np.bincount(led, minlength=size),
    )
    fair = made.capacity / made.capacity.sum()
    return tuple(float((load / load.sum() / fair).max()) for load in loads)


def concentration(made: MadeCluster, replicas: Any) -> Any:
    """Return the largest number of each topic's replicas on one broker."""
    by_topic = np.zeros((len(made.topics), len(made.racks)), dtype=np.int64)
    np.add.at(by_topic, (made.topic[:, None], replicas - 1), 1)
    return by_topic.max(axis=1)
