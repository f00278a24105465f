"""
Many partitions on a hundred simulated brokers: Kafka's controller, then ours.

A real ZooKeeper and one real broker, which is the Java controller and holds nothing; the fleet
answers with canned bytes, so that controllers are measured and not brokers. Of Kafka's controller
the first minutes are enough: how many partitions it ended in them; a daemon ends the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Extent, Figure
from benchmarks.grounds import (
    BESIDE_THE_FLEET,
    BROKERS,
    ENDS_WITHIN_S,
    PLAN,
    Fleet,
    Ground,
    Shape,
    await_settled,
    daemon_in_charge,
    fleet,
    has_goals,
    moved,
    submit_plan,
)
from benchmarks.processes import memory_kb, processor_s
from integration.rigs.cluster import Cluster
from integration.rigs.waiting import eventually

WINDOW_S: Final = 300.0
"""How long Kafka's controller is watched: in a shorter one it ends none of ten thousand."""
KAFKA_GOAL: Final = 30.0
KAFKA_GOAL_FROM: Final = 10_000
"""The size from which that is the goal."""
FLAT_GOAL: Final = 1.2
BOTH: Final = (Shape(1_000, 500), Shape(10_000, 500), Shape(10_000, 1))
OURS_ALONE: Final[Mapping[Extent, tuple[Shape, ...]]] = {
    Extent.ORDINARY: (Shape(50_000, 500),),
    Extent.FULL: (Shape(50_000, 500), Shape(100_000, 500)),
}


@dataclass(frozen=True, slots=True)
class Watched:
    """What became of a plan in Kafka's controller's hands."""

    ended: int
    """Partitions."""
    seconds: float
    fleet_share: float
    """Of the time, how long the processes of the fleet were at work."""

    @property
    def rate(self) -> float:
        """Partitions ended in a second."""
        return self.ended / self.seconds


def kafka_rate(cluster: Cluster, brokers: Fleet, ground: Ground, window_s: float) -> Watched:
    """Let Kafka's controller work for the window, then have a daemon end what is left."""
    eventually(lambda: cluster.controller() in cluster.brokers, within_s=60)
    targets = ground.targets()
    used, started = brokers.processor_s(), time.monotonic()
    submit_plan(cluster, targets)
    while True:
        time.sleep(1.0)
        took = time.monotonic() - started
        if cluster.zk.exists(PLAN) is None or took >= window_s:
            break
    watched = Watched(ground.ended(targets), took, (brokers.processor_s() - used) / took)
    if cluster.zk.exists(PLAN) is not None:
        with daemon_in_charge(cluster, "all"):  # it would take Kafka's controller hours
            eventually(
                lambda: cluster.zk.exists(PLAN) is None and not has_goals(cluster),
                within_s=ENDS_WITHIN_S,
                every_s=1.0,
                what="a daemon ends what Kafka's controller left",
            )
        eventually(lambda: cluster.controller() in cluster.brokers, within_s=120)
    return watched


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan cost our daemon, from the submission to the end of the last partition."""

    seconds: float
    cpu_s: float
    peak_mb: float
    """Of the daemon's whole life."""
    fleet_share: float


def our_cost(cluster: Cluster, brokers: Fleet, ground: Ground, step_size: str) -> Cost:
    """Let a daemon carry a plan out."""
    with daemon_in_charge(cluster, step_size) as daemon:
        await_settled(ground.shape)
        used, served = processor_s(daemon.pid), brokers.processor_s()
        targets, took = moved(cluster, ground)
        used, served = processor_s(daemon.pid) - used, brokers.processor_s() - served
        peak_mb = memory_kb(daemon.pid, "VmHWM") / 1024
        assert ground.ended(targets) == ground.shape.partitions
    return Cost(took, used, peak_mb, served / took)


def measure(extent: Extent) -> list[Figure]:
    """Measure Kafka's controller and ours, then ours alone."""
    figures: list[Figure] = []
    with Cluster.running(BESIDE_THE_FLEET) as cluster, fleet(cluster) as brokers:
        first: float | None = None
        for number, shape in enumerate((*BOTH, *OURS_ALONE[extent])):
            ground = Ground(cluster, shape, f"g{number}")
            ground.make()
            kafka = None
            if shape in BOTH:
                kafka = kafka_rate(cluster, brokers, ground, WINDOW_S)
                figures.append(_kafkas(shape, kafka))
            cost = our_cost(cluster, brokers, ground, "all")
            each = cost.seconds / shape.partitions
            first = each if first is None else first
            figures.append(_ours(shape, cost, kafka, each / first))
    return figures


def _kafkas(shape: Shape, watched: Watched) -> Figure:
    words = (
        f"Kafka's controller, {shape}: {watched.ended} in {watched.seconds:.0f} s, "
        f"the fleet at work {watched.fleet_share:.0%} of them"
    )
    return _figure(words, watched.rate)


def _ours(shape: Shape, cost: Cost, kafka: Watched | None, flat: float) -> Figure:
    rate = shape.partitions / cost.seconds
    words = (
        f"ours, {shape}: {1000 * cost.cpu_s / shape.partitions:.1f} ms of processor each, "
        f"{cost.peak_mb:.0f} MB at most, the fleet at work {cost.fleet_share:.0%} of "
        f"{cost.seconds:.0f} s"
    )
    ratios = [] if kafka is None else [_beside(rate, kafka)]
    ratios.append(f"a partition takes {flat:.2f} times as long as in the first")
    specs, of_goal = ["cost flat within 20 %"], flat / FLAT_GOAL
    if kafka is not None and shape.partitions >= KAFKA_GOAL_FROM:
        specs.insert(0, f"{KAFKA_GOAL:g} times Kafka's")
        of_goal = max(of_goal, KAFKA_GOAL * kafka.rate / rate)
    return _figure(
        words,
        rate,
        ratio=", ".join(ratios),
        spec=", ".join(specs),
        of_goal=of_goal,
    )


def _beside(rate: float, kafka: Watched) -> str:
    return f"{rate / kafka.rate:.0f} times Kafka's" if kafka.ended else "Kafka's ended none"


def _figure(
    what: str, rate: float, *, ratio: str = "", spec: str = "", of_goal: float | None = None
) -> Figure:
    return Figure(
        what=f"fleet of {BROKERS}: {what}",
        median=f"{rate:.1f}/s",
        runs=1,
        ratio=ratio,
        spec=spec,
        of_goal=of_goal,
    )
