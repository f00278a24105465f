"""
The time from the submission of a plan to its first request at a broker.

From the moment before ``/admin/reassign_partitions`` is created to the journal's line of the moment
the first LeaderAndIsr is handed to its connection: one clock, as all of it runs on one machine.
And how soon a copy that has come into the ISR ends its step, by ZooKeeper's own clock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from benchmarks.figures import Extent, Figure, in_milliseconds
from controller.telemetry.journal_files import FILE_NAME
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon
from integration.rigs.transaction_log import Write, assignment_in, writes
from integration.rigs.waiting import eventually

SENT: Final = "A2-syncing"
TRIALS: Final = 30
IDLE_TRIALS: Final = 10
PARTITIONS: Final = 2000
"""The size up to which a claim from idle has to be quick."""
LINGER_S: Final = 0.2
SEEDED_S: Final = 5.0
"""Long enough after a claim for every state to be read and sent."""


@contextmanager
def _daemon(cluster: Cluster, name: str, *options: str) -> Iterator[Daemon]:
    daemon = Daemon(cluster.zookeeper_connect, cluster.directory / name, *options)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.kill()


def journal_of(daemon: Daemon) -> Path:
    """Return the file that has a line for every phase of every partition; the log has some."""
    return daemon.journal_directory / FILE_NAME


def sent_at(journal: Path, offset: int, topic: str) -> float | None:
    """Return when a topic's first LeaderAndIsr after this place was sent, seconds since 1970."""
    with journal.open("rb") as lines:
        lines.seek(offset)
        for line in lines:
            if b'"phase"' not in line or not line.endswith(b"\n"):
                continue
            entry = json.loads(line)
            if (entry["kind"], entry.get("topic"), entry.get("phase")) == ("phase", topic, SENT):
                return datetime.fromisoformat(entry["at"]).timestamp()
    return None


def isr_to_end_s(history: list[Write], topic: str, partition: int) -> Iterator[float]:
    """
    Yield for each step of a partition how long it took to end, in seconds.

    From the leader's write of the ISR that has every replica which is to stay, to the write of the
    topic znode after which nothing is being added or removed.
    """
    state_path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    wanted: frozenset[int] = frozenset()
    grown_ms: int | None = None
    for write in history:
        if write.path == state_path and wanted and grown_ms is None:
            grown_ms = write.at_ms if wanted <= set(write.content["isr"]) else None
        elif write.path == f"/brokers/topics/{topic}" and write.data is not None:
            assignment = assignment_in(write, partition)
            assert assignment is not None
            if assignment.adding:
                wanted, grown_ms = frozenset(assignment.remaining), None
            elif not assignment.removing:
                if grown_ms is not None:
                    yield (write.at_ms - grown_ms) / 1000
                wanted, grown_ms = frozenset(), None


def _trial(cluster: Cluster, daemon: Daemon, topic: str, replicas: list[int]) -> float | None:
    """
    Move partition 0 of a topic; return the seconds from submission to the first request.

    None when a Kafka controller was faster: it watches the same znode while it has the role.
    """
    journal = journal_of(daemon)
    offset = journal.stat().st_size
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
    started = time.time()
    cluster.zk.create("/admin/reassign_partitions", json.dumps(plan).encode())
    eventually(lambda: cluster.zk.exists("/admin/reassign_partitions") is None, within_s=60)
    sent = sent_at(journal, offset, topic)
    return None if sent is None else sent - started


def _ours(trials: list[float | None]) -> list[float]:
    return [t for t in trials if t is not None]


def measure(extent: Extent) -> list[Figure]:
    """Measure within a tenure and from idle; it is the same to every extent."""
    del extent
    with Cluster.running(ClusterOptions(brokers=3)) as cluster:
        cluster.create_topic("moved", {0: [1, 2]})
        cluster.create_topic("many", {n: [1 + n % 3] for n in range(PARTITIONS)})
        targets = ([2, 3], [3, 1], [1, 2])
        with _daemon(cluster, "tenure", "--tenure", "permanent") as daemon:
            eventually(lambda: cluster.controller() not in cluster.brokers, within_s=30)
            first = _trial(cluster, daemon, "moved", targets[0])
            time.sleep(SEEDED_S)
            within = [_trial(cluster, daemon, "moved", targets[(n + 1) % 3]) for n in range(TRIALS)]
            ends = list(isr_to_end_s(writes(cluster), "moved", 0))[1:]
        eventually(lambda: cluster.controller() in cluster.brokers, within_s=30)
        with _daemon(cluster, "idle", "--tenure-linger", str(LINGER_S)) as daemon:
            idle = []
            for n in range(IDLE_TRIALS):
                eventually(lambda: cluster.controller() in cluster.brokers, within_s=60)
                time.sleep(1.0)
                idle.append(_trial(cluster, daemon, "moved", targets[(n + 1) % 3]))
    return [
        in_milliseconds(
            f"submission to first LeaderAndIsr while {PARTITIONS} states are read after the claim",
            _ours([first]),
            goal_ms=500,
        ),
        in_milliseconds("the same later in the tenure", _ours(within), goal_ms=50),
        in_milliseconds(
            f"the same from idle, the claim included, {PARTITIONS} partitions",
            _ours(idle),
            goal_ms=500,
        ),
        in_milliseconds("ISR change to the step's final write in a tenure", ends, goal_ms=50),
    ]
