"""
The duration of ``pipeline snapshot`` on a large cluster.

A real ZooKeeper and a real broker, which is the Java controller and answers for all leaders and
settings; a hundred simulated brokers have the replicas and describe their log directories. The
whole command is timed, including the start of Spark.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.figures import Extent, Figure
from benchmarks.fleet import REPLICA_BYTES
from benchmarks.grounds import BESIDE_THE_FLEET, BROKERS, Ground, Shape, fleet
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import run_reassigner

SHAPE: Final = Shape(100_000, 500)
REPLICATION_FACTOR: Final = 3
GOAL_S: Final = 60.0
WITHIN_S: Final = 900.0
RUNS: Final = {Extent.ORDINARY: 1, Extent.FULL: 3}


def snapshot_seconds(cluster: Cluster, directory: Path) -> float:
    """Take a snapshot, check that everything is in it, and return how long it took."""
    begun = time.monotonic()
    done = run_reassigner(
        *("pipeline", "snapshot", "--zookeeper", cluster.zookeeper_connect),
        *("--out", str(directory / "snapshot"), "--master", "local[2]", "--json"),
        within_s=WITHIN_S,
        errors_too=False,
    )
    took = time.monotonic() - begun
    assert done.code == 0, done.stdout
    counted = json.loads(done.stdout)
    replicas = SHAPE.partitions * REPLICATION_FACTOR
    assert counted["partitions"] == SHAPE.partitions
    assert counted["replicas"] == replicas
    assert counted["bytes"] == replicas * REPLICA_BYTES
    assert counted["brokers"] == BROKERS + 1
    return took


def measure(extent: Extent) -> list[Figure]:
    """Make the cluster and take snapshots of it."""
    with Cluster.running(BESIDE_THE_FLEET) as cluster, fleet(cluster, describes_disks=True):
        Ground(cluster, SHAPE, "g").make()
        with tempfile.TemporaryDirectory(prefix="bench-snapshot-") as directory:
            times = []
            for _ in range(RUNS[extent]):
                times.append(snapshot_seconds(cluster, Path(directory)))
                print(f"a snapshot took {times[-1]:.1f} s", file=sys.stderr)
    times.sort()
    return [
        Figure(
            what=f"fleet of {BROKERS}: a snapshot of {SHAPE}, the start of Spark included",
            median=f"{times[len(times) // 2]:.0f} s",
            spread=f"{times[0]:.0f} to {times[-1]:.0f} s",
            runs=RUNS[extent],
            spec=f"under {GOAL_S:.0f} s",
            of_goal=times[-1] / GOAL_S,
        )
    ]
