"""
Bring several loads of all brokers into their bands at once, with a pool of candidates.

Used where rates are known, after the moves that serve bytes and replicas. A change is chosen by the
deviation outside all bands, summed with the goals' weights: what it removes there, for each byte
that it copies. So a move for bytes in may take bytes a little past their band, if its weight says
so, and a later one brings them back. The deviation never grows, so the tuning ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from controller.pipeline.placement_ledger import (
    IN,
    Candidate,
    PlacementChange,
    PlacementLedger,
)
from controller.planning.load_goals import BYTES_IN, DISK, LED, REPLICAS, LoadGoals
from controller.planning.quotas import Band

PEERS_MAX: Final = 16
"""Brokers considered as the other side of a change."""
FITS_MAX: Final = 8
"""Best replicas considered between two brokers."""
EXCHANGED_MAX: Final = 40
"""Partitions of a leader considered for an exchange with another leader."""
STEPS_PER_CANDIDATE: Final = 4
"""Swaps in all; a partition may change its leader more than once until the last one stays."""
RETURNED_MAX: Final = 5
"""Partitions considered in return for each of them."""
MARGIN: Final = 0.02
"""A broker outside a band is brought this far inside, as a fraction of the band's width."""
LEAST: Final = 1e-9
"""The smallest gain that counts, as a fraction of a broker's share."""


class Deviation:
    """Loads by goal and broker, and how far each of them is outside its band."""

    def __init__(
        self, load: Any, bands: Sequence[Band], names: Sequence[str], goals: LoadGoals
    ) -> None:
        """Weigh the bands of some goals; a goal that is off weighs nothing."""
        self.load: Final = np.array(load, dtype=float)
        self.low: Final = np.array([within.low for within in bands])
        self.high: Final = np.array([within.high for within in bands])
        self.target: Final = np.array([within.target for within in bands])
        weight = [goals[name].weight if goals[name].is_on else 0.0 for name in names]
        self.scale: Final = np.array(weight)[:, None] / np.maximum(self.target, 1.0)

    def outside(self) -> Any:
        """Return the weighted deviation of each goal and broker."""
        return self.at(self.load, slice(None))

    def at(self, load: Any, brokers: Any) -> Any:
        """Return the weighted deviation of other loads of some brokers."""
        low, high, scale = (x[:, brokers] for x in (self.low, self.high, self.scale))
        return (np.maximum(load - high, 0) + np.maximum(low - load, 0)) * scale

    def margin(self, goal: int, broker: int) -> float:
        """Return how far inside its band a load is to be brought."""
        return float(MARGIN * (self.high[goal, broker] - self.low[goal, broker]))

    def worst(self) -> Iterator[tuple[int, int, bool]]:
        """Yield goal, broker and whether it has too much, the furthest outside first."""
        outside = self.outside()
        goals, brokers = np.nonzero(outside > LEAST)
        order = np.lexsort((brokers, goals, -outside[goals, brokers]))
        for goal, broker in zip(goals[order].tolist(), brokers[order].tolist(), strict=True):
            yield goal, broker, bool(self.load[goal, broker] > self.high[goal, broker])


class MoveTuning:
    """Choose the moves that bring bytes in into their band, and keep bytes and replicas there."""

    def __init__(self, ledger: PlacementLedger, candidates: Iterable[Candidate]) -> None:
        """Group the pool by broker."""
        assert ledger.traffic is not None  # noqa: S101 - a type checker cannot know
        self._ledger: Final = ledger
        traffic = ledger.traffic
        self._traffic: Final = traffic
        bands = ledger.sizes, ledger.counts, traffic.bands[IN]
        names = DISK, REPLICAS, BYTES_IN
        self._deviation: Final = Deviation(self._now(), bands, names, ledger.goals)
        by_giver: dict[int, list[Candidate]] = {}
        for candidate in candidates:
            by_giver.setdefault(candidate.replicas[candidate.position], []).append(candidate)
        for found in by_giver.values():
            found.sort(key=lambda o: (o.size, o.topic, o.partition))
        self._candidates: Final = by_giver
        self._amounts: Final = {
            b: np.array([[o.size for o in f], [1.0] * len(f), [o.bytes_in for o in f]], dtype=float)
            for b, f in by_giver.items()
        }
        self._left: Final = {b: np.ones(len(f), dtype=bool) for b, f in by_giver.items()}
        self._group: Final = np.zeros(len(ledger.brokers.ids), dtype=np.int64)
        for number, group in enumerate(ledger.groups(), start=1):
            self._group[list(group)] = number
        self._typical: Final = float(ledger.size.sum()) / max(1, int(ledger.count.sum()))

    def changes(self) -> Iterator[PlacementChange]:
        """Yield changes until none brings a broker nearer to its bands."""
        stuck: set[tuple[int, int, bool]] = set()
        while True:
            for found in self._deviation.worst():
                if found in stuck:
                    continue
                move = self._best(*found)
                if move is None:
                    stuck.add(found)
                    continue
                giver, n, taker = move
                self._left[giver][n] = False
                change = self._ledger.move(self._candidates[giver][n], taker)
                self._deviation.load[:] = self._now()
                stuck = {one for one in stuck if one[1] not in {giver, taker}}
                yield change
                break
            else:
                return

    def _now(self) -> Any:
        ledger = self._ledger
        return np.array([ledger.size, ledger.count, self._traffic.load[IN]], dtype=float)

    def _best(self, goal: int, focus: int, gives: bool) -> tuple[int, int, int] | None:  # noqa: FBT001
        peers = self._peers(goal, focus, gives=gives)
        if not len(peers):
            return None
        ranked: list[tuple[float, int, int, int]] = []
        pairs = [(focus, peers)] if gives else [(int(peer), np.array([focus])) for peer in peers]
        for giver, takers in pairs:
            left = np.flatnonzero(self._left.get(giver, np.zeros(0, dtype=bool)))
            if len(left):
                score = self._score(giver, takers, self._amounts[giver][:, left], goal, focus)
                best = np.argsort(-score, axis=None, kind="stable")[: FITS_MAX * len(takers)]
                for place in best.tolist():
                    n, t = divmod(place, len(takers))
                    if score[n, t] <= 0:
                        break
                    ranked.append((-float(score[n, t]), giver, int(left[n]), int(takers[t])))
        for _, giver, n, taker in sorted(ranked):
            if self._ledger.may_take(self._candidates[giver][n])[taker]:
                return giver, n, taker
        return None

    def _score(self, giver: int, takers: Any, amounts: Any, goal: int, focus: int) -> Any:
        """Return the deviation that each replica (row) removes on each taker, per byte."""
        now = self._deviation
        edge = np.zeros(len(now.load))
        edge[goal] = now.margin(goal, focus) * (1.0 if giver == focus else -1.0)
        left, got = now.load[:, [giver]], now.load[:, takers]
        # A load that is seen beyond its edge by the margin is brought that far inside.
        shift = edge[:, None]
        at_giver = shift if giver == focus else 0.0
        at_taker = 0.0 if giver == focus else shift
        before_giver = now.at(left + at_giver, [giver]).sum()
        before_takers = now.at(got + at_taker, takers).sum(axis=0)
        after_giver = now.at(left + at_giver - amounts, [giver]).sum(axis=0)
        moved = (got + at_taker)[:, None, :] + amounts[:, :, None]
        low, high, scale = (x[:, None, takers] for x in (now.low, now.high, now.scale))
        after_takers = ((np.maximum(moved - high, 0) + np.maximum(low - moved, 0)) * scale).sum(0)
        gain = before_giver - after_giver[:, None] + before_takers[None, :] - after_takers
        cost = amounts[0] + self._typical
        return np.where(gain > LEAST, gain / cost[:, None], 0.0)

    def _peers(self, goal: int, focus: int, *, gives: bool) -> Any:
        """Return the brokers of the same group with the least, or the most, of a load."""
        now = self._deviation
        ratio = now.load[goal] / np.maximum(now.target[goal], 1.0)
        fits = (self._group == self._group[focus]) & self._ledger.brokers.keeps
        fits[focus] = False
        order = np.argsort(ratio if gives else -ratio, kind="stable")
        return order[fits[order]][:PEERS_MAX]


class LeaderCandidate(NamedTuple):
    """A partition whose leadership may go to a follower."""

    topic: int
    partition: int
    replicas: tuple[int, ...]
    """The leader first."""
    bytes_in: int
    bytes_out: int
    """Of consumers."""

    @property
    def amounts(self) -> tuple[int, int, int]:
        """What its leader has of each load, in the order of ``LED``."""
        sent = self.bytes_out + (len(self.replicas) - 1) * self.bytes_in
        return 1, sent, self.bytes_in


class LeaderTuning:
    """Choose the partitions whose leadership goes to a follower, so that nothing is copied."""

    def __init__(
        self,
        load: Any,
        bands: Sequence[Band],
        limits: Any,
        goals: LoadGoals,
        candidates: Iterable[LeaderCandidate],
    ) -> None:
        """
        Start from current loads.

        Args:
            load: By goal, in the order of ``LED``, and broker.
            bands: Of each goal.
            limits: The hard bounds, by goal and broker.
            goals: The weights.
            candidates: The pool.

        """
        self._deviation: Final = Deviation(load, bands, LED, goals)
        self._limits: Final = limits
        found = sorted(candidates)
        self._candidates: Final = found
        most = max((len(one.replicas) for one in found), default=1)
        self._replicas: Final = np.array(
            [(*one.replicas, *[-1] * (most - len(one.replicas))) for one in found], dtype=np.int64
        ).reshape(len(found), most)
        self._amounts: Final = np.array([one.amounts for one in found], dtype=float).reshape(-1, 3)
        self._leader: Final = self._replicas[:, 0].copy()
        brokers = range(self._deviation.load.shape[1])
        self._held: Final = {b: np.flatnonzero((self._replicas == b).any(axis=1)) for b in brokers}

    @property
    def load(self) -> Any:
        """The loads after all swaps so far."""
        return self._deviation.load

    def swaps(self) -> Iterator[tuple[int, int, int]]:
        """Yield topic, partition, and the position of the replica that becomes the leader."""
        stuck: set[tuple[int, int, bool]] = set()
        for _ in range(STEPS_PER_CANDIDATE * len(self._candidates)):
            step = self._step(stuck)
            if not step:
                break
            for row, position in step:
                old, new = int(self._leader[row]), int(self._replicas[row, position])
                self._deviation.load[:, old] -= self._amounts[row]
                self._deviation.load[:, new] += self._amounts[row]
                self._leader[row] = new
                stuck = {one for one in stuck if one[1] not in {old, new}}
        for row in np.flatnonzero(self._leader != self._replicas[:, 0]).tolist():
            one = self._candidates[row]
            yield one.topic, one.partition, one.replicas.index(int(self._leader[row]))

    def _step(self, stuck: set[tuple[int, int, bool]]) -> list[tuple[int, int]]:
        """Return the next swaps, as rows and positions; mark what has none as stuck."""
        for found in self._deviation.worst():
            if found not in stuck:
                best = self._best(*found)
                chosen = self._exchange(*found) if best is None else [best]
                if chosen:
                    return chosen
                stuck.add(found)
        return []

    def _best(self, goal: int, focus: int, gives: bool) -> tuple[int, int] | None:  # noqa: FBT001
        rows = self._rows(focus, leads=gives)
        if not len(rows):
            return None
        now, placed = self._deviation, self._replicas[rows]
        amounts = self._amounts[rows].T
        leaders = self._leader[rows]
        shift = np.zeros((len(now.load), 1))
        shift[goal] = now.margin(goal, focus) * (1.0 if gives else -1.0)
        at_leader, at_other = (shift, 0.0) if gives else (0.0, shift[:, :, None])
        left = now.load[:, leaders]
        got = now.load[:, placed]
        low, high, scale = (x[:, placed] for x in (now.low, now.high, now.scale))

        def outside(load: Any) -> Any:
            return ((np.maximum(load - high, 0) + np.maximum(low - load, 0)) * scale).sum(axis=0)

        gain = now.at(left + at_leader, leaders).sum(axis=0)
        gain -= now.at(left + at_leader - amounts, leaders).sum(axis=0)
        after = got + amounts[:, :, None]
        gain = gain[:, None] + outside(got + at_other) - outside(after + at_other)
        fits = (placed >= 0) & (placed != leaders[:, None])
        fits &= (after <= self._limits[:, placed]).all(axis=0)
        if not gives:
            fits &= placed == focus
        gain = np.where(fits, gain, 0.0)
        best = int(np.argmax(gain))
        row, position = divmod(best, gain.shape[1])
        if gain[row, position] <= LEAST:
            return None
        return int(rows[row]), position

    def _exchange(self, goal: int, focus: int, gives: bool) -> list[tuple[int, int]]:  # noqa: FBT001
        """
        Return two swaps between a broker and a follower of its partitions; none if they do no good.

        Where one swap serves a load and harms the number of leaders, one in return may keep it.
        """
        now, sign = self._deviation, -1.0 if gives else 1.0
        best, found = LEAST, list[tuple[int, int]]()
        led = self._sorted(self._rows(focus, leads=True), goal, sign)
        for row in led[:EXCHANGED_MAX].tolist():
            for position, other in enumerate(self._candidates[row].replicas):
                if other == focus:
                    continue
                shared = self._rows(focus, leads=False)
                shared = shared[self._leader[shared] == other]
                back = self._sorted(shared, goal, -sign)[:RETURNED_MAX]
                if not len(back):
                    continue
                change = self._amounts[row][:, None] - self._amounts[back].T
                ours, theirs = now.load[:, [focus]], now.load[:, [other]]
                gain = now.at(ours, [focus]).sum() + now.at(theirs, [other]).sum()
                gain = gain - now.at(ours - change, [focus]).sum(axis=0)
                gain -= now.at(theirs + change, [other]).sum(axis=0)
                limits = self._limits[:, [focus]], self._limits[:, [other]]
                fits = (ours - change <= limits[0]) | (change >= 0)
                fits &= (theirs + change <= limits[1]) | (change <= 0)
                gain = np.where(fits.all(axis=0), gain, 0.0)
                n = int(np.argmax(gain))
                if gain[n] > best:
                    returned = self._candidates[int(back[n])].replicas.index(focus)
                    best, found = float(gain[n]), [(row, position), (int(back[n]), returned)]
        return found

    def _rows(self, broker: int, *, leads: bool) -> Any:
        """Return the partitions that a broker leads, or follows."""
        rows = self._held[broker]
        return rows[(self._leader[rows] == broker) == leads]

    def _sorted(self, rows: Any, goal: int, sign: float) -> Any:
        """Return the rows by a load times a sign."""
        return rows[np.argsort(sign * self._amounts[rows, goal], kind="stable")]
