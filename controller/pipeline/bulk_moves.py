"""
The bulk of a plan: move sampled replicas from overloaded brokers to underloaded ones.

Only brokers above the bands of bytes *and* replicas give, and only brokers below both take, so that
every copy serves both loads. Candidates are judged one after the other by the remaining
differences, so nothing overshoots. ``fine_tuning`` evens out the rest.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from controller.pipeline.placement_ledger import (
    Candidate,
    PlacementChange,
    PlacementLedger,
    placement_change,
)
from controller.planning.quotas import Band

CANDIDATES_PER_MOVE: Final = 3.0
"""Candidates for each replica to move: some have no useful target."""


class BulkMoves:
    """The amounts that brokers still give and take, and the choice of targets."""

    def __init__(self, ledger: PlacementLedger, sizes: Band, counts: Band) -> None:
        """Start with the minimum amounts to exchange."""
        self._ledger: Final = ledger
        give_size, take_size = ledger.flows(sizes, of_size=True)
        give_count, take_count = ledger.flows(counts, of_size=False)
        both = (give_size > 0) & (give_count >= 1)
        self.give_size = np.where(both, give_size, 0.0)
        self.give_count = np.where(both, np.floor(give_count), 0.0)
        both = (take_size > 0) & (take_count >= 1)
        self.take_size = np.where(both, take_size, 0.0)
        self.take_count = np.where(both, np.floor(take_count), 0.0)
        self._given = np.maximum(self.give_count, 1.0), np.maximum(self.give_size, 1.0)
        self._taken = np.maximum(self.take_count, 1.0), np.maximum(self.take_size, 1.0)
        total = ledger.by_topic.sum(axis=1)
        self.fair: Final = total / max(1, int(np.count_nonzero(ledger.brokers.keeps)))

    def is_done(self) -> bool:
        """Return whether no broker can give, or none can take."""
        return not (self.give_count >= 1).any() or not (self.take_count >= 1).any()

    def levels(self) -> Any:
        """
        Return for each broker the level above which the replicas of its topics are candidates.

        In units of a topic's fair share on a broker: of a topic at twice the level, half of the
        replicas are candidates. The level is chosen so that there are enough candidates.
        """
        wanted = self.give_count * CANDIDATES_PER_MOVE
        held = self._ledger.by_topic
        high = np.where(self.fair > 0, held.max(axis=1) / np.maximum(self.fair, 1e-9), 0).max()
        levels = np.full(held.shape[1], np.inf)
        for broker in np.flatnonzero(self.give_count >= 1).tolist():
            low, up = 0.0, float(high)
            for _ in range(30):
                level = (low + up) / 2
                offered = np.maximum(held[:, broker] - level * self.fair, 0).sum()
                low, up = (level, up) if offered > wanted[broker] else (low, level)
            levels[broker] = low
        return levels

    def judge(self, candidate: Candidate) -> PlacementChange | None:
        """Return the change that moves a candidate; None if it stays."""
        giver, size = candidate.replicas[candidate.position], candidate.size
        if self.give_count[giver] < 1 or self.give_size[giver] < size:
            return None
        if not self._keeps_pace(giver, size):
            return None
        mask = self._ledger.may_take(candidate.topic, size, candidate.replicas, candidate.position)
        mask &= (self.take_count >= 1) & (self.take_size >= size)
        takers = np.flatnonzero(mask)
        if not len(takers):
            return None
        lack = np.maximum(
            self.fair[candidate.topic] - self._ledger.by_topic[candidate.topic, takers], 0.02
        )
        left_count = self.take_count[takers] / self._taken[0][takers]
        left_size = self.take_size[takers] / self._taken[1][takers]
        score = lack * left_count * left_size * self._fit(takers, size)
        taker = int(takers[np.argmax(score)])
        self.give_count[giver] -= 1
        self.give_size[giver] -= size
        self.take_count[taker] -= 1
        self.take_size[taker] -= size
        change = placement_change(candidate, taker)
        self._ledger.shift(candidate.topic, size, change.before, change.after)
        return change

    def _keeps_pace(self, giver: int, size: int) -> bool:
        """Return whether this size keeps the remaining bytes and replicas in proportion."""
        per_replica = self.give_size[giver] / self.give_count[giver]
        first = self._given[1][giver] / self._given[0][giver]
        if per_replica > first * 1.1:
            return bool(size >= first * 0.5)
        if per_replica < first * 0.9:
            return bool(size <= first)
        return True

    def _fit(self, takers: Any, size: int) -> Any:
        """Return how well this size matches each taker's lack per replica; the best is 1."""
        ratio = self.take_size[takers] / self.take_count[takers] / max(1.0, float(size))
        first = self._taken[1][takers] / self._taken[0][takers] / max(1.0, float(size))
        behind = ratio / first
        return np.where(size_is_small(first), 1.0 / behind**4, behind**4)


def size_is_small(first: Any) -> Any:
    """Return whether a size is below the typical one."""
    return first > 1.0
