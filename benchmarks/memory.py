"""
The memory that partitions in flight take, measured in a process of its own.

The real loop on the simulated cluster; the figure is the process's peak and so includes the
simulated ZooKeeper and brokers: an upper bound.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from math import inf
from typing import Final

from benchmarks.figures import Extent, Figure
from controller.core.core_settings import Options
from controller.core.model import TopicPartition
from tests.sim.daemons import DaemonLoop
from tests.sim.histories import reactors
from tests.sim.world import World

IN_FLIGHT: Final = 10_000
TOPICS: Final = 20
GOAL_MB: Final = 200
NEVER_S: Final = 1e9
UNLIMITED: Final = 1_000_000


def fill() -> tuple[int, DaemonLoop]:
    """Bring that many partitions in flight, where they stay; return how many and the loop."""
    world = World(1, produce_every_s=NEVER_S)
    partitions = [
        TopicPartition(f"t{t}", n) for t in range(TOPICS) for n in range(IN_FLIGHT // TOPICS)
    ]
    for t in range(TOPICS):
        world.create_topic(
            f"t{t}",
            {p.partition: _pair(p.partition) for p in partitions if p.topic == f"t{t}"},
            produce=False,
        )
    world.run_for(60)
    for broker in world.brokers.values():
        broker.replication.extra_fetch_s = NEVER_S
    options = Options(
        max_partitions_in_flight=UNLIMITED,
        max_incoming_per_broker=UNLIMITED,
        max_outgoing_per_broker=UNLIMITED,
    )
    daemon = world.add_daemon(reactors(options))
    world.run_for(5)
    world.submit_plan({p: _pair(p.partition + 2) for p in partitions})
    world.run_for(20)
    moving = [p for p in partitions if world.assignment(p).adding_replicas]
    return len(moving), daemon.loop


def _pair(n: int) -> list[int]:
    return [1 + n % 5, 1 + (n + 1) % 5]


def measure(extent: Extent) -> list[Figure]:
    """Measure in a fresh interpreter; it is the same to every extent."""
    del extent
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory"], check=True, capture_output=True, text=True
    )
    moving, megabytes = (int(word) for word in done.stdout.split())
    return [
        Figure(
            what=f"peak memory with {moving} partitions in flight (simulated cluster included)",
            median=f"{megabytes} MB",
            runs=1,
            spec=f"under {GOAL_MB} MB",
            of_goal=megabytes / GOAL_MB if moving == IN_FLIGHT else inf,
        )
    ]


if __name__ == "__main__":
    count, _loop = fill()
    print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
