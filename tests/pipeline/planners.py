"""The planner without Spark: the same decisions, fed from arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.clusters import MadeCluster
from controller.pipeline.ledgers import UNLIMITED, Brokers, Factors, Ledger
from controller.pipeline.offers import Change, Offer
from controller.pipeline.placings import Duty, Placer
from controller.pipeline.residues import Residue
from controller.pipeline.samples import Sample
from controller.planning.shares import Band

ROUNDS = 4


@dataclass
class Planning:
    """A made-up cluster and what was planned for it."""

    made: MadeCluster
    ledger: Ledger
    sizes: Band
    counts: Band
    before: tuple[list[int], list[int], Any]
    """Bytes, replicas, and the largest concentration of each topic."""
    changes: list[Change]
    problems: dict[str, int]

    def placed(self) -> dict[int, tuple[int, ...]]:
        """Return the replicas of every partition after the plan, as indices."""
        rows = {n: tuple(row) for n, row in enumerate((self.made.replicas - 1).tolist())}
        return rows | {change.partition: change.after for change in self.changes}


def ledger_of(made: MadeCluster, keeps: Any = None, room: Any = None) -> Ledger:
    """Return the books of a made-up cluster."""
    racks = sorted(set(made.racks))
    count = len(made.racks)
    brokers = Brokers(
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
    total = int(made.size.sum())
    return Ledger(brokers, by_topic, size, [Factors(factor, len(made.size), total)])


def plan(made: MadeCluster, tolerance: float, keeps: Any = None, room: Any = None) -> Planning:
    """Plan a made-up cluster."""
    ledger = ledger_of(made, keeps, room)
    sizes, counts = ledger.bands(tolerance)
    before = ledger.size.tolist(), ledger.count.tolist(), ledger.by_topic.max(axis=1)
    replicas = [tuple(row) for row in (made.replicas - 1).tolist()]
    topics, weights = made.topic.tolist(), made.size.tolist()
    changes: list[Change] = []
    touched: set[int] = set()

    def take(change: Change | None) -> None:
        if change is not None:
            changes.append(change)
            touched.add(change.partition)

    placer = Placer(ledger, sizes, counts, Duty())
    for n, row in enumerate(replicas):
        take(placer.place(topics[n], n, weights[n], row))
    rng = np.random.default_rng(1)
    sample = Sample(ledger, sizes, counts)
    chances = 1 - sample.levels()[None, :] * sample.fair[:, None] / np.maximum(ledger.by_topic, 1)
    for n in rng.permutation(len(replicas)).tolist():
        if n in touched:
            continue
        drawn = rng.random(len(replicas[n]))
        offered = [p for p, b in enumerate(replicas[n]) if drawn[p] < chances[topics[n], b]]
        if offered:
            take(sample.judge(Offer(topics[n], n, weights[n], replicas[n], offered[0])))
    for _ in range(ROUNDS):
        if not sizes.outside(ledger.size.tolist()) and not counts.outside(ledger.count.tolist()):
            break
        free = [n for n in range(len(replicas)) if n not in touched]
        pool = _pool(rng, free, topics, weights, replicas)
        for change in _rest(Residue(ledger, sizes, counts, pool)):
            take(change)
    return Planning(made, ledger, sizes, counts, before, changes, dict(placer.problems))


def _rest(residue: Residue) -> Iterator[Change]:
    yield from residue.shed_counts()
    yield from residue.even_sizes()
    yield from residue.even_counts()


def _pool(
    rng: Any,
    free: list[int],
    topics: list[int],
    weights: list[int],
    replicas: list[tuple[int, ...]],
) -> Iterator[Offer]:
    for n in free:
        position = int(rng.integers(len(replicas[n])))
        yield Offer(topics[n], n, weights[n], replicas[n], position)
