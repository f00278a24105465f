"""
A profile of the daemon: ``python -m benchmarks.profiles [PARTITIONS [TOPICS]]``.

On the ground of ``scale``: a plan there, unwatched, for the processor time of every thread; then
the plan back under cProfile, for the functions of the loop. Printed, and no part of ``make bench``.
"""

from __future__ import annotations

import json
import os
import pstats
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from benchmarks.grounds import (
    BESIDE_THE_FLEET,
    Ground,
    Shape,
    await_settled,
    daemon_in_charge,
    fleet,
    moved,
)
from benchmarks.profiled import DIRECTORY, PROFILE, THREADS
from integration.rigs.cluster import Cluster
from integration.rigs.processes import exit_on_sigterm
from integration.rigs.waiting import eventually

SHOWN: Final = 45
_TICK_S: Final = 0.5


def _threads(directory: Path) -> Counter[str]:
    time.sleep(_TICK_S)
    return Counter(json.loads((directory / THREADS).read_text()))


def measure(shape: Shape) -> None:
    """Print where the time goes."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        os.environ[DIRECTORY] = name
        with Cluster.running(BESIDE_THE_FLEET) as cluster, fleet(cluster):
            ground = Ground(cluster, shape, "profiled")
            ground.make()
            with daemon_in_charge(cluster, "all", module="benchmarks.profiled") as daemon:
                await_settled(shape)
                before = _threads(directory)
                _, took = moved(cluster, ground)
                used = _threads(directory)
                used.subtract(before)
                print(f"{shape}: {took:.1f} s, {used.total() / shape.partitions * 1e3:.2f} ms each")
                for thread, seconds in used.most_common():
                    print(f"  {seconds:8.2f} s  {thread}")
                time.sleep(_TICK_S)
                daemon.signal(signal.SIGUSR1)
                moved(cluster, ground)
                daemon.signal(signal.SIGUSR2)
                eventually((directory / PROFILE).exists, within_s=60)
                time.sleep(_TICK_S)
        stats = pstats.Stats(str(directory / PROFILE))
        if keep := os.environ.get("BENCHMARKS_PROFILE_KEPT"):
            stats.dump_stats(keep)
        stats.sort_stats("tottime").print_stats(SHOWN)
        stats.sort_stats("cumulative").print_stats(SHOWN)


if __name__ == "__main__":
    exit_on_sigterm()
    numbers = [int(word) for word in sys.argv[1:]]
    measure(Shape(*(numbers + [10_000, 500][len(numbers) :])))
