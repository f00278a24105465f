"""The planner without Spark: the same decisions, fed from arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.clusters import MadeCluster
from controller.pipeline.moves import BulkMoves, FineTuning, RequiredMoves
from controller.pipeline.placement_ledger import (
    UNLIMITED,
    BrokerIndex,
    Candidate,
    PlacementChange,
    PlacementLedger,
)
from controller.pipeline.planner import CLASSES_PER_DOUBLING, chances_by_size

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
    made: MadeCluster, tolerance: float, keeps: Any = None, room: Any = None
) -> PlacementLedger:
    """Return the books of a made-up cluster."""
    racks = sorted(set(made.racks))
    count = len(made.racks)
    brokers = BrokerIndex(
        tuple(range(1, count + 1)),
        np.array([racks.index(rack) for rack in made.racks]),
        np.ones(count, dtype=bool) if keeps is None else np.array(keeps),
        np.full(count, UNLIMITED) if room is None else np.array(room, dtype=float),
    )
    replicas = made.replicas - 1
    factor = replicas.shape[1]
    by_topic = np.zeros((len(made.topics), count), dtype=np.int64)
    np.add.at(by_topic, (np.repeat(made.topic[:, None], factor, axis=1), replicas), 1)
    size = np.zeros(count, dtype=np.int64)
    np.add.at(size, replicas, np.repeat(made.size[:, None], factor, axis=1))
    factors = {factor: (len(made.size), int(made.size.sum()))}
    return PlacementLedger(brokers, by_topic, size, factors, tolerance)


def plan(made: MadeCluster, tolerance: float, keeps: Any = None, room: Any = None) -> Planning:
    """Plan a made-up cluster."""
    ledger = ledger_of(made, tolerance, keeps, room)
    before = ledger.size.tolist(), ledger.count.tolist(), ledger.by_topic.max(axis=1)
    replicas = [tuple(row) for row in (made.replicas - 1).tolist()]
    topics, weights = made.topic.tolist(), made.size.tolist()
    changes: list[PlacementChange] = []
    touched: set[int] = set()

    def take(change: PlacementChange | None) -> None:
        if change is not None:
            changes.append(change)
            touched.add(change.partition)

    placer = RequiredMoves(ledger, {}, None)
    for n, row in enumerate(replicas):
        take(placer.place(topics[n], n, weights[n], row))
    rng = np.random.default_rng(1)
    sample = BulkMoves(ledger)
    chances = sample.chances()
    for n in rng.permutation(len(replicas)).tolist():
        if n in touched:
            continue
        drawn = rng.random(len(replicas[n]))
        offered = [p for p, b in enumerate(replicas[n]) if drawn[p] < chances[topics[n], b]]
        if offered:
            take(sample.judge(Candidate(topics[n], n, weights[n], replicas[n], offered[0])))
    for _ in range(ROUNDS):
        if ledger.is_even:
            break
        free = [
            Candidate(topics[n], n, weights[n], replicas[n], 0)
            for n in range(len(replicas))
            if n not in touched
        ]
        surplus = np.maximum(ledger.count - np.floor(ledger.counts.high), 0)
        for change in FineTuning(ledger, _pool(rng, free, surplus)).changes():
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
