"""
Many partitions on a hundred simulated brokers: Kafka's controller, then ours.

A real ZooKeeper and one real broker, which is the Java controller and holds nothing; the fleet
answers with canned bytes, so that controllers are measured and not brokers. Of Kafka's controller
the first minutes are enough: how many partitions it ended in them; a daemon ends the rest.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Extent, Figure
from benchmarks.grounds import (
    BROKERS,
    ENDS_WITHIN_S,
    PLAN,
    Ground,
    Shape,
    await_settled,
    daemon_in_charge,
    fleet,
    has_goals,
    moved,
    submit_plan,
)
from integration.cluster import Cluster, ClusterOptions
from integration.servers import BrokerOptions
from integration.waiting import eventually

WINDOW_S: Final[Mapping[Extent, float]] = {Extent.ORDINARY: 120.0, Extent.FULL: 300.0}
"""How long Kafka's controller is watched."""
KAFKA_GOAL: Final = 30.0
FLAT_GOAL: Final = 1.2
BOTH: Final = (Shape(1_000, 500), Shape(10_000, 500), Shape(10_000, 1))
OURS_ALONE: Final[Mapping[Extent, tuple[Shape, ...]]] = {
    Extent.ORDINARY: (Shape(50_000, 500),),
    Extent.FULL: (Shape(50_000, 500), Shape(100_000, 500)),
}


def kafka_rate(cluster: Cluster, ground: Ground, window_s: float) -> tuple[float, int, float]:
    """Let Kafka's controller work for the window; return partitions a second, ended, seconds."""
    eventually(lambda: cluster.controller() in cluster.brokers, within_s=60)
    targets = ground.targets()
    started = time.monotonic()
    submit_plan(cluster, targets)
    while True:
        time.sleep(1.0)
        took = time.monotonic() - started
        if cluster.zk.exists(PLAN) is None or took >= window_s:
            break
    ended = ground.ended(targets)
    if cluster.zk.exists(PLAN) is not None:
        with daemon_in_charge(cluster, "all"):  # it would take Kafka's controller hours
            eventually(
                lambda: cluster.zk.exists(PLAN) is None and not has_goals(cluster),
                within_s=ENDS_WITHIN_S,
                every_s=1.0,
                what="a daemon ends what Kafka's controller left",
            )
        eventually(lambda: cluster.controller() in cluster.brokers, within_s=120)
    return ended / took, ended, took


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan cost our daemon."""

    seconds: float
    cpu_s: float
    """Of its whole life: start, reading the cluster, the plan, the end."""
    peak_mb: float


def our_cost(cluster: Cluster, ground: Ground, step_size: str) -> Cost:
    """Let a daemon carry a plan out."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with daemon_in_charge(cluster, step_size):
        await_settled(ground.shape)
        targets, took = moved(cluster, ground)
        assert ground.ended(targets) == ground.shape.partitions
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(took, cpu, after.ru_maxrss / 1024)


def measure(extent: Extent) -> list[Figure]:
    """Measure Kafka's controller and ours, then ours alone."""
    options = ClusterOptions(brokers=1, broker=BrokerOptions(heap_mb=2048))
    figures: list[Figure] = []
    with Cluster.running(options) as cluster, fleet(cluster):
        first: float | None = None
        for number, shape in enumerate((*BOTH, *OURS_ALONE[extent])):
            ground = Ground(cluster, shape, f"g{number}")
            ground.make()
            kafka = None
            if shape in BOTH:
                kafka, ended, took = kafka_rate(cluster, ground, WINDOW_S[extent])
                figures.append(
                    _figure(f"Kafka's controller, {shape}: {ended} in {took:.0f} s", kafka)
                )
            cost = our_cost(cluster, ground, "all")
            each = cost.seconds / shape.partitions
            first = each if first is None else first
            figures.append(_ours(shape, cost, kafka, each / first))
    return figures


def _ours(shape: Shape, cost: Cost, kafka: float | None, flat: float) -> Figure:
    rate = shape.partitions / cost.seconds
    words = (
        f"ours, {shape}: {1000 * cost.cpu_s / shape.partitions:.1f} ms of processor each, "
        f"{cost.peak_mb:.0f} MB"
    )
    ratios = [] if kafka is None else [f"{rate / kafka:.0f} times Kafka's"]
    ratios.append(f"a partition takes {flat:.2f} times as long as in the first")
    is_fast = kafka is None or rate / kafka >= KAFKA_GOAL
    return _figure(
        words,
        rate,
        ratio=", ".join(ratios),
        goal=f"{KAFKA_GOAL:g} times Kafka's, cost flat within 20 %",
        is_met=is_fast and flat <= FLAT_GOAL,
    )


def _figure(
    what: str, rate: float, *, ratio: str = "", goal: str = "", is_met: bool | None = None
) -> Figure:
    return Figure(
        what=f"fleet of {BROKERS}: {what}",
        median=f"{rate:.1f}/s",
        runs=1,
        ratio=ratio,
        goal=goal,
        is_met=is_met,
    )
