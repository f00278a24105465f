"""
One replica of every partition of a topic moved, by Kafka's own controller and by ours.

The same brokers, topics and plans in one run, in alternating order, after a round that warms the
brokers up and is not counted. Empty logs: what is measured is the work around the copying. From the
moment before ``/admin/reassign_partitions`` is created to the moment it is gone.

The floor is what the brokers themselves need for the requests that such a plan takes, batched as
ours are, without any write in between (``floors``). There is none where leaders ask the controller
for ISR changes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Final

from benchmarks.figures import Extent, Figure
from benchmarks.floors import floor_s
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import NATIVE, Row
from integration.rigs.waiting import eventually

ROUNDS: Final[Mapping[Extent, Mapping[int, int]]] = {
    Extent.ORDINARY: {1000: 3, 3000: 1},
    Extent.FULL: {1000: 5, 3000: 3},
}
"""By how many partitions the topic has; Kafka's controller takes minutes for each."""
WRITING, REQUESTING = NATIVE
"""Leaders write their ISR at protocol 2.6; at 3.9 they ask the daemon, or Kafka's controller."""
BROKERS: Final = 5
GOAL: Final = 12.0
"""Times as fast as Kafka's controller."""
REQUESTED_GOAL: Final[Mapping[int, float]] = {1000: 2.9, 3000: 7.2}
"""The same where leaders ask, by partitions: what the same machine had where they write."""
FLOOR_GOAL: Final = 1.3
"""Times the floor, at most."""
PLAN: Final = "/admin/reassign_partitions"
ENDS_WITHIN_S: Final = 1800.0
KAFKA: Final = "Kafka's controller"
CONTENDERS: Final[Mapping[str, str]] = {
    KAFKA: "",
    "ours, --step-size all": "all",
    "ours, --step-size 1": "1",
}
WARMING: Final = 200
"""Partitions of the topic whose moves are not counted."""
UNLIMITED: Final = "1000000"


class Course:
    """A topic that every contender moves to and fro between two assignments."""

    def __init__(self, cluster: Cluster, row: Row, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._row = row
        self._topic = topic
        self._there = False
        self._here = {n: _pair(n, 1) for n in range(partitions)}
        self._away = {n: _pair(n, 2) for n in range(partitions)}
        cluster.create_topic(topic, self._here)

    def run(self, step_size: str) -> float:
        """Let a contender move every partition; return the seconds it took."""
        targets = self._here if self._there else self._away
        with in_charge(self._cluster, *_daemon_options(self._row, step_size)):
            plan = {
                "version": 1,
                "partitions": [
                    {"topic": self._topic, "partition": n, "replicas": replicas}
                    for n, replicas in targets.items()
                ],
            }
            data = json.dumps(plan, separators=(",", ":")).encode()
            started = time.monotonic()
            self._cluster.zk.create(PLAN, data)
            eventually(
                lambda: self._cluster.zk.exists(PLAN) is None,
                within_s=ENDS_WITHIN_S,
                every_s=0.02,
                what=f"the plan for {self._topic} is carried out",
            )
            took = time.monotonic() - started
        self._judge(targets)
        self._there = not self._there
        return took

    def _judge(self, targets: Mapping[int, Sequence[int]]) -> None:
        """See that the plan was carried out: a figure for work not done would be worth nothing."""
        content = self._cluster.topic(self._topic) or {"partitions": {}}
        found = {int(n): list(replicas) for n, replicas in content["partitions"].items()}
        assert found == {n: list(replicas) for n, replicas in targets.items()}, self._topic
        assert not content.get("adding_replicas"), self._topic
        assert not content.get("removing_replicas"), self._topic


def _pair(partition: int, distance: int) -> list[int]:
    first = partition % BROKERS
    return [1 + first, 1 + (first + distance) % BROKERS]


@contextmanager
def in_charge(cluster: Cluster, *options: str, is_native: bool = True) -> Iterator[None]:
    """Have a daemon with these options in charge, or without any Kafka's own controller."""
    if not options:
        eventually(lambda: cluster.controller() in cluster.brokers, within_s=60)
        time.sleep(2.0)  # a new controller reads the cluster first
        yield
        return
    daemon = Daemon(
        cluster.zookeeper_connect,
        cluster.directory / f"daemon-{time.monotonic_ns()}",
        *(*options, "--tenure", "permanent"),
        *("--max-leader-moves-per-broker-per-second", UNLIMITED),
    )
    try:
        daemon.start()
        if is_native:
            eventually(lambda: cluster.controller() not in (*cluster.brokers, None), within_s=60)
        time.sleep(5.0)  # every state is read and sent, as after some time as the controller
        yield
        daemon.stop()
    finally:
        daemon.kill()
        daemon.port.close()


def _daemon_options(row: Row, step_size: str) -> Sequence[str]:
    """Return the options of a contender; none for Kafka's own controller."""
    if not step_size:
        return ()
    return (
        *(*row.arguments, "--step-size", step_size),
        *("--max-partitions-in-flight", UNLIMITED),
        *("--max-incoming-per-broker", UNLIMITED),
        *("--max-outgoing-per-broker", UNLIMITED),
    )


def measure(extent: Extent, row: Row = WRITING) -> list[Figure]:
    """Measure both sizes on one cluster."""
    with Cluster.running(replace(row.options, brokers=BROKERS)) as cluster:
        warming = Course(cluster, row, "warming", WARMING)
        for step_size in CONTENDERS.values():
            warming.run(step_size)
        figures = []
        for size, rounds in ROUNDS[extent].items():
            figures += _compare(cluster, row, size, rounds)
    return figures


def measure_requested(extent: Extent) -> list[Figure]:
    """Measure the same where leaders ask the controller for ISR changes."""
    return measure(extent, REQUESTING)


def _compare(cluster: Cluster, row: Row, size: int, rounds: int) -> list[Figure]:
    course = Course(cluster, row, f"of-{size}", size)
    took: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    floors: list[float] = []
    for number in range(rounds):
        names = sorted(CONTENDERS, reverse=number % 2 == 1)
        for name in names:
            took[name].append(course.run(CONTENDERS[name]))
        if row is WRITING:
            floors.append(floor_s(cluster, f"floor-{size}-{number}", size))
    kafka = median(took[KAFKA])
    figures = [_figure(f"{KAFKA}, {size} partitions", took[KAFKA], size)]
    if floors:
        figures.append(_figure(f"the brokers' floor, {size} partitions", floors, size))
    for name in CONTENDERS:
        if name == KAFKA:
            continue
        ours = median(took[name])
        goal = GOAL if floors else REQUESTED_GOAL[size]
        ratio, spec = f"{kafka / ours:.1f} times Kafka's", f"{goal:g} times Kafka's"
        of_goal = goal * ours / kafka
        if floors:
            floor = ours / median(floors)
            ratio += f", {floor:.2f} times the floor"
            spec += f", {FLOOR_GOAL:g} times the floor"
            of_goal = max(of_goal, floor / FLOOR_GOAL)
        figures.append(
            _figure(
                f"{name}, {size} partitions",
                took[name],
                size,
                ratio=ratio,
                spec=spec,
                of_goal=of_goal,
            )
        )
    return figures


def _figure(  # noqa: PLR0913 - a line of the table
    what: str,
    seconds: Sequence[float],
    size: int,
    *,
    ratio: str = "",
    spec: str = "",
    of_goal: float | None = None,
) -> Figure:
    return Figure(
        what=what,
        median=f"{median(seconds):.1f} s ({size / median(seconds):.0f}/s)",
        spread=f"{min(seconds):.1f} to {max(seconds):.1f} s" if len(seconds) > 1 else "",
        runs=len(seconds),
        ratio=ratio,
        spec=spec,
        of_goal=of_goal,
    )
