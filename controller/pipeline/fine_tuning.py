"""
The rest of a plan: bring replicas and bytes of all brokers into their bands.

The pool of candidates grows with the number of brokers, not of partitions: from every broker some
of each size class, and more of the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from controller.pipeline.placement_ledger import (
    Candidate,
    PlacementChange,
    PlacementLedger,
    placement_change,
)
from controller.planning.quotas import Band

MARGIN: Final = 0.006
"""As a fraction of the width of the band."""
PEERS_MAX: Final = 12
"""Brokers considered as the other side of a move when evening out bytes."""
FITS_MAX: Final = 6
"""Best replicas considered between two brokers: the target may not be allowed for some."""
TRIED_MAX: Final = 100
"""Small replicas of one broker considered."""

NOTHING: Final = np.zeros(0, dtype=bool)


class FineTuning:
    """A pool of candidates and the bands to reach."""

    def __init__(
        self, ledger: PlacementLedger, sizes: Band, counts: Band, candidates: Iterable[Candidate]
    ) -> None:
        """Group the pool by broker and sort it by size."""
        self._ledger: Final = ledger
        self._size_low, self._size_high = np.array(sizes.low), np.array(sizes.high)
        self._size_target = np.array(sizes.target)
        # Bytes are brought this far inside the edge of the band, as evening out the replicas
        # afterwards moves a few bytes.
        self._margin = MARGIN * (self._size_high - self._size_low)
        self._count_low, self._count_high = np.array(counts.low), np.array(counts.high)
        self._count_target = np.array(counts.target)
        by_giver: dict[int, list[Candidate]] = {}
        for candidate in candidates:
            by_giver.setdefault(candidate.replicas[candidate.position], []).append(candidate)
        for found in by_giver.values():
            found.sort(key=lambda o: (o.size, o.topic, o.partition))
        self._candidates: Final = by_giver
        self._sizes: Final = {b: np.array([o.size for o in f]) for b, f in by_giver.items()}
        self._left: Final = {b: np.ones(len(f), dtype=bool) for b, f in by_giver.items()}
        self._stuck: set[tuple[int, bool]] = set()
        self._group: Final = np.zeros(len(ledger.brokers.ids), dtype=np.int64)
        for number, group in enumerate(ledger.groups(), start=1):
            self._group[list(group)] = number

    # --- replicas ------------------------------------------------------------------------------

    def shed_counts(self) -> Iterator[PlacementChange]:
        """Move the smallest replicas away from brokers above the band of replicas."""
        self._stuck.clear()
        while (change := self._next_count(take=False)) is not None:
            yield change

    def even_counts(self) -> Iterator[PlacementChange]:
        """Bring the number of replicas of every broker into the band with the smallest replicas."""
        self._stuck.clear()
        while (change := self._next_count(take=True)) is not None:
            yield change

    def _next_count(self, *, take: bool) -> PlacementChange | None:
        over = self._ledger.count - self._count_high
        under = self._count_low - self._ledger.count
        worst = [(float(v), int(b), True) for b, v in enumerate(over) if v > 0]
        if take:
            worst += [(float(v), int(b), False) for b, v in enumerate(under) if v > 0]
        for _, broker, gives in sorted(worst, key=lambda w: (-w[0], w[1])):
            if (broker, gives) in self._stuck:
                continue
            change = self._give_small(broker) if gives else self._take_small(broker)
            if change is not None:
                return change
            self._stuck.add((broker, gives))
        return None

    def _give_small(self, giver: int) -> PlacementChange | None:
        ledger = self._ledger
        need = (ledger.count - self._count_target) / np.maximum(self._count_target, 1)
        for n in np.flatnonzero(self._left.get(giver, NOTHING)).tolist():
            candidate = self._candidates[giver][n]
            mask = ledger.may_take(
                candidate.topic, candidate.size, candidate.replicas, candidate.position
            )
            mask &= ledger.count + 1 <= self._count_high
            mask &= (ledger.size + candidate.size <= self._size_high) | (
                ledger.size > self._size_high
            )
            if mask.any():
                return self._book(giver, n, int(np.argmin(np.where(mask, need, np.inf))))
        return None

    def _take_small(self, taker: int) -> PlacementChange | None:
        ledger = self._ledger
        spare = (ledger.count - self._count_target) / np.maximum(self._count_target, 1)
        spare[ledger.count - 1 < self._count_low] = -np.inf
        for giver in self._highest(spare, taker, len(spare)):
            for n in np.flatnonzero(self._left.get(giver, NOTHING))[:TRIED_MAX].tolist():
                candidate = self._candidates[giver][n]
                if ledger.size[giver] - candidate.size < self._size_low[giver]:
                    continue
                if ledger.may_take(
                    candidate.topic, candidate.size, candidate.replicas, candidate.position
                )[taker]:
                    return self._book(giver, n, taker)
        return None

    # --- bytes ---------------------------------------------------------------------------------

    def even_sizes(self) -> Iterator[PlacementChange]:
        """Bring the bytes of every broker into the band with a few replicas of suitable size."""
        self._stuck.clear()
        while (change := self._next_size()) is not None:
            yield change

    def _next_size(self) -> PlacementChange | None:
        over = self._ledger.size - self._size_high
        under = self._size_low - self._ledger.size
        worst = [(float(v), int(b), True) for b, v in enumerate(over) if v > 0]
        worst += [(float(v), int(b), False) for b, v in enumerate(under) if v > 0]
        for _, broker, gives in sorted(worst, key=lambda w: (-w[0], w[1])):
            if (broker, gives) in self._stuck:
                continue
            givers = [broker] if gives else self._givers(broker)
            takers = self._takers(broker) if gives else [broker]
            change = self._best_fit(givers, takers, broker)
            if change is not None:
                return change
            self._stuck.add((broker, gives))
        return None

    def _givers(self, taker: int) -> list[int]:
        over = (self._ledger.size - self._size_target) / np.maximum(self._size_target, 1)
        return self._highest(over, taker, PEERS_MAX)

    def _takers(self, giver: int) -> list[int]:
        under = (self._size_target - self._ledger.size) / np.maximum(self._size_target, 1)
        return self._highest(under, giver, PEERS_MAX)

    def _highest(self, value: Any, broker: int, how_many: int) -> list[int]:
        """Return the brokers of the same group with the highest values above minus infinity."""
        value = np.where(self._group == self._group[broker], value, -np.inf)
        value[broker] = -np.inf
        highest = np.argsort(-value, kind="stable")[:how_many]
        return [int(b) for b in highest if value[b] > -np.inf]

    def _best_fit(self, givers: list[int], takers: list[int], focus: int) -> PlacementChange | None:
        """Choose the replica with the largest gain per cost."""
        ranked: list[tuple[float, int, int, int]] = []
        for giver in givers:
            left = np.flatnonzero(self._left.get(giver, NOTHING))
            if not len(left):
                continue
            sizes = self._sizes[giver][left]
            for taker in takers:
                if taker == giver:
                    continue
                score = self._gain(giver, taker, sizes, focus)
                ranked += [
                    (-float(score[n]), giver, int(left[n]), taker)
                    for n in np.argsort(-score, kind="stable")[:FITS_MAX].tolist()
                    if score[n] > 0
                ]
        for _, giver, n, taker in sorted(ranked):
            candidate = self._candidates[giver][n]
            if self._ledger.may_take(
                candidate.topic, candidate.size, candidate.replicas, candidate.position
            )[taker]:
                return self._book(giver, n, taker)
        return None

    def _gain(self, giver: int, taker: int, sizes: Any, focus: int) -> Any:
        """Return the reduction of bytes outside the bands per byte and replica moved."""
        ledger = self._ledger
        left, got = ledger.size[giver], ledger.size[taker]
        before = self._outside(giver, left, focus) + self._outside(taker, got, focus)
        after = self._outside(giver, left - sizes, focus)
        after = after + self._outside(taker, got + sizes, focus)
        typical = float(ledger.size.sum()) / max(1, int(ledger.count.sum()))
        cost = sizes + typical
        if ledger.count[giver] - 1 < self._count_low[giver]:
            cost = cost + typical
        if ledger.count[taker] + 1 > self._count_high[taker]:
            if not self._left.get(taker, NOTHING).any():
                return np.full(len(sizes), -1.0)  # the taker has no candidate to give in exchange
            cost = cost + typical
        return (before - after) / cost

    def _outside(self, broker: int, size: Any, focus: int) -> Any:
        margin = self._margin[broker] if broker == focus else 0.0
        over = np.maximum(size - (self._size_high[broker] - margin), 0)
        return over + np.maximum(self._size_low[broker] + margin - size, 0)

    # --- booking -------------------------------------------------------------------------------

    def _book(self, giver: int, n: int, taker: int) -> PlacementChange:
        self._left[giver][n] = False
        candidate = self._candidates[giver][n]
        change = placement_change(candidate, taker)
        self._ledger.shift(candidate.topic, candidate.size, change.before, change.after)
        return change
