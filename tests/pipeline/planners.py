"""The planner without Spark: the same decisions, fed from arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.clusters import MadeCluster
from controller.pipeline.goal_tuning import MoveTuning
from controller.pipeline.moves import BulkMoves, FineTuning, RequiredMoves
from controller.pipeline.placement_ledger import (
    IN,
    LEADER_IN,
    OUT,
    UNLIMITED,
    BrokerIndex,
    Candidate,
    PlacementChange,
    PlacementLedger,
)
from controller.pipeline.planner import (
    CLASSES_PER_DOUBLING,
    RATE_CLASSES,
    chances_by_rate,
    chances_by_size,
)
from controller.planning.load_goals import BYTES_IN, FULLEST, GOALS, LEADERS, LoadGoals

ROUNDS = 4


@dataclass
class Planning:
    """A made-up cluster and what was planned for it."""

    made: MadeCluster
    ledger: PlacementLedger
    before: tuple[list[int], list[int], Any]
    """Bytes, replicas, and the largest concentration of each topic."""
    changes: list[PlacementChange]
    problems: dict[str, int]

    def placed(self) -> dict[int, tuple[int, ...]]:
        """Return the replicas of every partition after the plan, as indices."""
        rows = {n: tuple(row) for n, row in enumerate((self.made.replicas - 1).tolist())}
        return rows | {change.partition: change.after for change in self.changes}


def ledger_of(
    made: MadeCluster,
    tolerance: float,
    keeps: Any = None,
    room: Any = None,
    *,
    by_capacity: bool = False,
    bytes_in_limit: Any = None,
    leaders_limit: Any = None,
    goals: LoadGoals | None = None,
) -> PlacementLedger:
    """Return the books of a made-up cluster; the limits are hard bounds by broker."""
    racks = sorted(set(made.racks))
    count = len(made.racks)
    capacities = dict.fromkeys(GOALS, made.capacity) if by_capacity else {}
    measured = set[str]()
    for name, limit, hard in ((BYTES_IN, bytes_in_limit, FULLEST), (LEADERS, leaders_limit, 1.0)):
        if limit is not None:
            capacities[name] = limit / hard
            measured.add(name)
    brokers = BrokerIndex(
        tuple(range(1, count + 1)),
        np.array([racks.index(rack) for rack in made.racks]),
        np.ones(count, dtype=bool) if keeps is None else np.array(keeps),
        np.full(count, UNLIMITED) if room is None else np.array(room, dtype=float),
        capacities,
        frozenset(measured),
    )
    replicas = made.replicas - 1
    factor = replicas.shape[1]
    by_topic = np.zeros((len(made.topics), count), dtype=np.int64)
    np.add.at(by_topic, (np.repeat(made.topic[:, None], factor, axis=1), replicas), 1)
    size = np.zeros(count, dtype=np.int64)
    np.add.at(size, replicas, np.repeat(made.size[:, None], factor, axis=1))
    factors = {factor: (len(made.size), int(made.size.sum()))}
    led = np.bincount(replicas[:, 0], minlength=count)
    ledger = PlacementLedger(brokers, by_topic, size, led, factors, tolerance, goals)
    if made.bytes_in is not None:
        load = np.zeros((3, count), dtype=np.int64)
        np.add.at(load[IN], replicas, np.repeat(made.bytes_in[:, None], factor, axis=1))
        np.add.at(load[OUT], replicas[:, 0], made.bytes_out + (factor - 1) * made.bytes_in)
        np.add.at(load[LEADER_IN], replicas[:, 0], made.bytes_in)
        ledger.set_traffic(load, {factor: int(made.bytes_in.sum())}, int(made.bytes_out.sum()))
    return ledger


def plan(  # noqa: C901 - one stage after the other
    made: MadeCluster, tolerance: float, keeps: Any = None, room: Any = None, **others: Any
) -> Planning:
    """Plan a made-up cluster; ``others`` as ``ledger_of``."""
    ledger = ledger_of(made, tolerance, keeps, room, **others)
    before = ledger.size.tolist(), ledger.count.tolist(), ledger.by_topic.max(axis=1)
    replicas = [tuple(row) for row in (made.replicas - 1).tolist()]
    topics, weights = made.topic.tolist(), made.size.tolist()
    nothing = np.zeros_like(made.size)
    rates = [
        (nothing if rate is None else rate).tolist() for rate in (made.bytes_in, made.bytes_out)
    ]

    def candidate(n: int, position: int) -> Candidate:
        return Candidate(topics[n], n, weights[n], replicas[n], position, rates[0][n], rates[1][n])

    changes: list[PlacementChange] = []
    touched: set[int] = set()

    def take(change: PlacementChange | None) -> None:
        if change is not None:
            changes.append(change)
            touched.add(change.partition)

    placer = RequiredMoves(ledger, {}, None)
    for n in range(len(replicas)):
        take(placer.place(candidate(n, 0)))
    rng = np.random.default_rng(1)
    sample = BulkMoves(ledger)
    chances = sample.chances()
    for n in rng.permutation(len(replicas)).tolist():
        if n in touched:
            continue
        drawn = rng.random(len(replicas[n]))
        offered = [p for p, b in enumerate(replicas[n]) if drawn[p] < chances[topics[n], b]]
        if offered:
            take(sample.judge(candidate(n, offered[0])))
    for _ in range(ROUNDS):
        if ledger.is_even:
            break
        free = [candidate(n, 0) for n in range(len(replicas)) if n not in touched]
        surplus = np.maximum(ledger.count - np.floor(ledger.counts.high), 0)
        for change in FineTuning(ledger, _pool(rng, free, surplus)).changes():
            take(change)
    for _ in range(ROUNDS):
        if ledger.is_even_in:
            break
        free = [candidate(n, 0) for n in range(len(replicas)) if n not in touched]
        for change in MoveTuning(ledger, _rated_pool(rng, ledger, free)).changes():
            take(change)
    return Planning(made, ledger, before, changes, dict(placer.problems))


def _pool(rng: Any, free: list[Candidate], surplus: Any) -> Iterator[Candidate]:
    """Offer what ``candidates_by_size`` would."""
    sizes = [int(np.floor(np.log2(offer.size + 1.0) * CLASSES_PER_DOUBLING)) for offer in free]
    counted = Counter(
        (broker, size) for offer, size in zip(free, sizes, strict=True) for broker in offer.replicas
    )
    chances = chances_by_size(counted, surplus)
    for offer, size in zip(free, sizes, strict=True):
        ranks = [rng.random() / chances[size][broker] for broker in offer.replicas]
        if min(ranks) < 1.0:
            yield offer._replace(position=int(np.argmin(ranks)))


def _rated_pool(rng: Any, ledger: PlacementLedger, free: list[Candidate]) -> Iterator[Candidate]:
    """Offer what the planner does to even out rates."""
    cells = [
        int(np.floor(np.log2(o.size + 1.0))) * RATE_CLASSES
        + int(np.floor(np.log2(o.bytes_in + 1.0)))
        for o in free
    ]
    counted = Counter(
        (broker, cell) for offer, cell in zip(free, cells, strict=True) for broker in offer.replicas
    )
    chances = chances_by_rate(counted, float(ledger.size.sum()) / int(ledger.count.sum()))
    for offer, cell in zip(free, cells, strict=True):
        ranks = [rng.random() / chances[cell][broker] for broker in offer.replicas]
        if min(ranks) < 1.0:
            yield offer._replace(position=int(np.argmin(ranks)))
