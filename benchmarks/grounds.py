"""
The ground that controllers are measured on: a fleet of simulated brokers, topics on it, plans.

A real ZooKeeper and one real broker, which is the Java controller and holds nothing; the fleet
answers with canned bytes, so that controllers are measured and not brokers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.fleet import BEHIND, DISKS
from benchmarks.processes import processor_s
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually

FIRST: Final = 101
BROKERS: Final = 100
PROCESSES: Final = 2
PLAN: Final = "/admin/reassign_partitions"
REQUESTS: Final = "/admin/reassignment_requests"
REASSIGNMENTS: Final = "/admin/reassignments"
ENDS_WITHIN_S: Final = 3600.0
_ENTRIES_EACH: Final = 10_000
"""Of one request znode."""

BESIDE_THE_FLEET: Final = ClusterOptions(
    brokers=1, broker=BrokerOptions(heap_mb=2048), zookeeper_heap_mb=2048
)
"""ZooKeeper keeps its last 500 writes in memory; those of a large topic take room."""

Targets = Mapping[str, Mapping[int, list[int]]]
"""Replicas by topic and partition."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many partitions in how many topics."""

    partitions: int
    topics: int

    def __str__(self) -> str:
        """Say it in words."""
        of = "one topic" if self.topics == 1 else f"{self.topics} topics"
        return f"{self.partitions} partitions of {of}"


def replicas_of(topic: int, partition: int, *, there: bool) -> list[int]:
    """Return the replicas of a partition, here or there: one of three is another."""
    first = topic * 7 + partition
    last = 3 if there else 2
    return [FIRST + (first + n) % BROKERS for n in (0, 1, last)]


class Fleet:
    """The processes of the simulated brokers."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids

    def processor_s(self) -> float:
        """Return the processor seconds of one of them so far, on average."""
        return sum(map(processor_s, self._pids)) / len(self._pids)


@contextmanager
def fleet(
    cluster: Cluster, *, behind: str | None = None, describes_disks: bool = False
) -> Iterator[Fleet]:
    """
    Have the simulated brokers serve; each process of them has one thread that answers.

    Args:
        cluster: Where they register.
        behind: What the names of topics begin with whose new replicas never are in sync.
        describes_disks: Whether they answer for their log directories.

    """
    each = BROKERS // PROCESSES
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                *("-m", "benchmarks.fleet", cluster.zookeeper_connect),
                *(str(FIRST + n * each), str(each)),
                *((BEHIND, behind) if behind is not None else ()),
                *((DISKS,) if describes_disks else ()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for n in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"serving\n"
        yield Fleet([process.pid for process in processes])
    finally:
        for process in processes:
            process.communicate()


class Ground:
    """Topics on the fleet, and plans for them."""

    def __init__(self, cluster: Cluster, shape: Shape, prefix: str) -> None:
        self._cluster = cluster
        self.shape = shape
        self._topics = {t: f"{prefix}-{t:03}" for t in range(shape.topics)}
        self._there = False

    def make(self) -> None:
        """Create the topics as brokers do, and wait until the controller made every state."""
        zk, each = self._cluster.zk, self.shape.partitions // self.shape.topics
        pending = [
            zk.create_async(
                f"/brokers/topics/{name}",
                json.dumps(
                    {
                        "version": 2,
                        "partitions": {str(n): replicas_of(t, n, there=False) for n in range(each)},
                        "adding_replicas": {},
                        "removing_replicas": {},
                    }
                ).encode(),
            )
            for t, name in self._topics.items()
        ]
        for answer in pending:
            answer.get()
        eventually(self._is_made, within_s=600, every_s=1.0, what=f"{self.shape} are there")

    def _is_made(self) -> bool:
        each = self.shape.partitions // self.shape.topics
        zk = self._cluster.zk
        pending = [
            zk.exists_async(f"/brokers/topics/{name}/partitions/{each - 1}/state")
            for name in self._topics.values()
        ]
        return all(answer.get() is not None for answer in pending)

    def targets(self) -> dict[str, dict[int, list[int]]]:
        """Return where everything is to go: there, or back."""
        self._there = not self._there
        each = self.shape.partitions // self.shape.topics
        return {
            name: {n: replicas_of(t, n, there=self._there) for n in range(each)}
            for t, name in self._topics.items()
        }

    def ended(self, targets: Targets) -> int:
        """Count the partitions that are where they are to be."""
        zk = self._cluster.zk
        pending = {name: zk.get_async(f"/brokers/topics/{name}") for name in targets}
        done = 0
        for name, wanted in targets.items():
            content = json.loads(pending[name].get()[0])
            under_way = {*content.get("adding_replicas", {}), *content.get("removing_replicas", {})}
            found = content["partitions"]
            done += sum(
                found.get(str(n)) == replicas and str(n) not in under_way
                for n, replicas in wanted.items()
            )
        return done


def submit_plan(cluster: Cluster, targets: Targets) -> None:
    """Write a plan as the stock tool of old did."""
    plan = {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": n, "replicas": replicas}
            for topic, partitions in targets.items()
            for n, replicas in partitions.items()
        ],
    }
    cluster.zk.create(PLAN, json.dumps(plan, separators=(",", ":")).encode())


def submit_requests(cluster: Cluster, targets: Targets) -> None:
    """Write a plan as requests."""
    entries = [(t, n, r) for t, partitions in targets.items() for n, r in partitions.items()]
    cluster.zk.ensure_path(REQUESTS)
    for at in range(0, len(entries), _ENTRIES_EACH):
        assignments: dict[str, dict[str, list[int]]] = {}
        for topic, n, replicas in entries[at : at + _ENTRIES_EACH]:
            assignments.setdefault(topic, {})[str(n)] = replicas
        data = json.dumps({"version": 1, "assignments": assignments}).encode()
        cluster.zk.create(f"{REQUESTS}/request_", data, sequence=True)


def has_goals(cluster: Cluster) -> bool:
    """Return whether any reassignment is recorded as unfinished."""
    topics = cluster.zk.get_children(REASSIGNMENTS)
    pending = [cluster.zk.exists_async(f"{REASSIGNMENTS}/{topic}") for topic in topics]
    return any(stat is not None and stat.numChildren for stat in (p.get() for p in pending))


def moved(cluster: Cluster, ground: Ground) -> tuple[Targets, float]:
    """Have everything moved by requests; return where to, and the seconds."""
    targets = ground.targets()
    started = time.monotonic()
    submit_requests(cluster, targets)
    eventually(
        lambda: not cluster.zk.get_children(REQUESTS) and not has_goals(cluster),
        within_s=ENDS_WITHIN_S,
        every_s=0.1,
        what=f"{ground.shape} are moved",
    )
    return targets, time.monotonic() - started


def await_settled(shape: Shape) -> None:
    """Give a daemon that has just claimed the role the time to read and send every state."""
    time.sleep(10.0 + shape.partitions / 2000)


@contextmanager
def daemon_in_charge(
    cluster: Cluster, step_size: str, *, module: str = "controller.cli"
) -> Iterator[Daemon]:
    """Have a daemon without limits in charge; the fleet has no disks that it could guard."""
    daemon = Daemon(
        cluster.zookeeper_connect,
        cluster.directory / f"daemon-{time.monotonic_ns()}",
        *("--tenure", "permanent", "--step-size", step_size),
        *("--max-partitions-in-flight", "1000000"),
        *("--max-incoming-per-broker", "1000000"),
        *("--max-outgoing-per-broker", "1000000"),
        *("--max-leader-moves-per-broker-per-second", "1000000"),
        *("--zookeeper-session-timeout", "30"),
        *("--min-free", "none"),
        module=module,
    )
    try:
        daemon.start()
        eventually(lambda: daemon.status()["tenure"]["held"], within_s=120, tolerating=(OSError,))
        yield daemon
        daemon.stop()
    finally:
        daemon.kill()
        daemon.port.close()
