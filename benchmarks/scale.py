"""
Many partitions on a hundred simulated brokers: Kafka's controller, then ours.

A real ZooKeeper and one real broker, which is the Java controller and holds nothing; the fleet
answers with canned bytes, so that controllers are measured and not brokers. Of Kafka's controller
the first five minutes are enough: how many partitions it ended in them; a daemon ends the rest.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Figure
from integration.cluster import Cluster, ClusterOptions
from integration.daemon import Daemon
from integration.servers import BrokerOptions
from integration.waiting import eventually

FIRST: Final = 101
BROKERS: Final = 100
PROCESSES: Final = 2
WINDOW_S: Final = 300.0
"""How long Kafka's controller is watched."""
ENDS_WITHIN_S: Final = 3600.0
KAFKA_GOAL: Final = 30.0
FLAT_GOAL: Final = 1.2
PLAN: Final = "/admin/reassign_partitions"
REQUESTS: Final = "/admin/reassignment_requests"
GOALS: Final = "/admin/reassignments"
_AT_ONCE: Final = 100
_ENTRIES_EACH: Final = 10_000
"""Of one request znode."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many partitions in how many topics."""

    partitions: int
    topics: int

    def __str__(self) -> str:
        """Say it in words."""
        of = "one topic" if self.topics == 1 else f"{self.topics} topics"
        return f"{self.partitions} partitions of {of}"


BOTH: Final = (Shape(1_000, 500), Shape(10_000, 500), Shape(10_000, 1))
OURS_ALONE: Final = (Shape(50_000, 500), Shape(100_000, 500))


def replicas_of(topic: int, partition: int, *, there: bool) -> list[int]:
    """Return the replicas of a partition, here or there: one of three is another."""
    first = topic * 7 + partition
    last = 3 if there else 2
    return [FIRST + (first + n) % BROKERS for n in (0, 1, last)]


@contextmanager
def fleet(cluster: Cluster) -> Iterator[None]:
    """Have the simulated brokers serve."""
    each = BROKERS // PROCESSES
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                *("-m", "benchmarks.fleet", cluster.zookeeper_connect),
                *(str(FIRST + n * each), str(each)),
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
        yield
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

    def ended(self, targets: Mapping[str, Mapping[int, list[int]]]) -> int:
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


def kafka_rate(cluster: Cluster, ground: Ground) -> tuple[float, int, float]:
    """Let Kafka's controller work for the window; return partitions a second, ended, seconds."""
    eventually(lambda: cluster.controller() in cluster.brokers, within_s=60)
    targets = ground.targets()
    started = time.monotonic()
    _submit_legacy(cluster, targets)
    while True:
        time.sleep(1.0)
        took = time.monotonic() - started
        if cluster.zk.exists(PLAN) is None or took >= WINDOW_S:
            break
    ended = ground.ended(targets)
    if cluster.zk.exists(PLAN) is not None:
        with _daemon(cluster, "all"):  # it would take Kafka's controller hours
            eventually(
                lambda: cluster.zk.exists(PLAN) is None and not _goals(cluster),
                within_s=ENDS_WITHIN_S,
                every_s=1.0,
                what="a daemon ends what Kafka's controller left",
            )
        eventually(lambda: cluster.controller() in cluster.brokers, within_s=120)
    return ended / took, ended, took


def _submit_legacy(cluster: Cluster, targets: Mapping[str, Mapping[int, list[int]]]) -> None:
    plan = {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": n, "replicas": replicas}
            for topic, partitions in targets.items()
            for n, replicas in partitions.items()
        ],
    }
    cluster.zk.create(PLAN, json.dumps(plan, separators=(",", ":")).encode())


@contextmanager
def _daemon(cluster: Cluster, step_size: str) -> Iterator[Daemon]:
    """Have a daemon without limits in charge."""
    daemon = Daemon(
        cluster.zookeeper_connect,
        cluster.directory / f"daemon-{time.monotonic_ns()}",
        *("--tenure", "permanent", "--step-size", step_size),
        *("--max-partitions-in-flight", "1000000"),
        *("--max-incoming-per-broker", "1000000"),
        *("--max-outgoing-per-broker", "1000000"),
        *("--max-leader-moves-per-broker-per-second", "1000000"),
        *("--zookeeper-session-timeout", "30"),
    )
    try:
        daemon.start()
        eventually(lambda: daemon.status()["tenure"]["held"], within_s=120, tolerating=(OSError,))
        yield daemon
        daemon.stop()
    finally:
        daemon.kill()
        daemon.port.close()


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
    with _daemon(cluster, step_size):
        time.sleep(10.0 + ground.shape.partitions / 2000)  # every state read and told
        targets = ground.targets()
        started = time.monotonic()
        _submit_requests(cluster, targets)
        eventually(
            lambda: not cluster.zk.get_children(REQUESTS) and not _goals(cluster),
            within_s=ENDS_WITHIN_S,
            every_s=0.1,
            what=f"{ground.shape} are moved",
        )
        took = time.monotonic() - started
        assert ground.ended(targets) == ground.shape.partitions
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(took, cpu, after.ru_maxrss / 1024)


def _goals(cluster: Cluster) -> bool:
    topics = cluster.zk.get_children(GOALS)
    pending = [cluster.zk.exists_async(f"{GOALS}/{topic}") for topic in topics]
    return any(stat is not None and stat.numChildren for stat in (p.get() for p in pending))


def _submit_requests(cluster: Cluster, targets: Mapping[str, Mapping[int, list[int]]]) -> None:
    entries = [(t, n, r) for t, partitions in targets.items() for n, r in partitions.items()]
    cluster.zk.ensure_path(REQUESTS)
    for at in range(0, len(entries), _ENTRIES_EACH):
        assignments: dict[str, dict[str, list[int]]] = {}
        for topic, n, replicas in entries[at : at + _ENTRIES_EACH]:
            assignments.setdefault(topic, {})[str(n)] = replicas
        data = json.dumps({"version": 1, "assignments": assignments}).encode()
        cluster.zk.create(f"{REQUESTS}/request_", data, sequence=True)


def measure() -> list[Figure]:
    """Measure Kafka's controller and ours, then ours alone."""
    options = ClusterOptions(brokers=1, broker=BrokerOptions(heap_mb=2048))
    figures: list[Figure] = []
    with Cluster.running(options) as cluster, fleet(cluster):
        first: float | None = None
        for number, shape in enumerate((*BOTH, *OURS_ALONE)):
            ground = Ground(cluster, shape, f"g{number}")
            ground.make()
            kafka = None
            if shape in BOTH:
                kafka, ended, took = kafka_rate(cluster, ground)
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
    words = [f"ours, {shape}"]
    if kafka is not None:
        words.append(f"{rate / kafka:.0f} times Kafka's")
    words += [
        f"{flat:.2f} times the cost of a partition in the first",
        f"{1000 * cost.cpu_s / shape.partitions:.1f} ms of processor each",
        f"{cost.peak_mb:.0f} MB",
    ]
    is_fast = kafka is None or rate / kafka >= KAFKA_GOAL
    return _figure(
        ", ".join(words),
        rate,
        goal=f"{KAFKA_GOAL:g} times Kafka's, cost flat within 20 %",
        is_met=is_fast and flat <= FLAT_GOAL,
    )


def _figure(what: str, rate: float, *, goal: str = "", is_met: bool = True) -> Figure:
    return Figure(
        what=f"fleet of {BROKERS}: {what}",
        median=f"{rate:.1f}/s",
        p99="",
        runs=1,
        goal=goal,
        is_met=is_met,
    )
