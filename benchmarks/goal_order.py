"""
Plans by the order of Cruise Control's goals: a re-implementation for comparison, in memory.

One goal follows the other, and each goes once through the brokers by id: the capacities of disk,
bytes in and bytes out; then even numbers of replicas, disk, bytes in, bytes out; then even numbers
of leaders and leader bytes in. Numbers are even whatever the capacities are. Brokers above a goal's
limit give replicas or leaderships, brokers below it take some, and what is still outside swaps
replicas. A goal never undoes an earlier one.

Simplified: no processor load, potential bytes out, topics' spread and minimum of leaders, which the
made-up clusters say nothing about or already keep; a swap is tried so many times for a broker
(``SWAPS_TRIED``), not for so long; it is the first one allowed, not only the largest one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.clusters import MadeCluster

DISK, IN, OUT, LEADER_IN, REPLICAS, LEADERS = range(6)
"""The loads, as rows."""
FULLEST: Final = 0.8
"""Of a capacity, as in Cruise Control's defaults."""
CAPACITIES: Final = 2.0
"""Of a broker, as a multiple of an even cluster's loads (``write_capacities``)."""
MARGIN: Final = 0.9
"""Of a threshold, which Cruise Control stays within."""
SWAPS_TRIED: Final = 1_000
"""Replicas of a broker tried against all replicas of another one, for a goal."""
CAPACITY, NUMBER, USAGE, HIGHEST = "capacity", "number", "usage", "highest"


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: a load, its limits by broker, and how it judges moves for later goals."""

    kind: str
    load: int
    low: Any
    high: Any


class GoalOrder:
    """Plan one cluster; the result is in ``replicas``, the leaders first."""

    def __init__(self, made: MadeCluster, tolerance: float) -> None:
        """Start from the present replicas; a replica is its partition times the factor plus n."""
        self._factor: Final = made.replicas.shape[1]
        self._rack: Final = np.unique(made.racks, return_inverse=True)[1]
        self._capacity: Final = made.capacity
        self._placed: Final = made.replicas - 1
        self._leader: Final = np.zeros(len(made.size), dtype=np.int64)
        nothing = np.zeros(len(made.size))
        rate = nothing if made.bytes_in is None else made.bytes_in
        fetched = nothing if made.bytes_out is None else made.bytes_out
        one = np.ones(len(made.size))
        follows = made.size, rate, nothing, nothing, one, nothing
        leads = nothing, nothing, fetched + (self._factor - 1) * rate, rate, nothing, one
        self._follows: Final = np.array(follows, dtype=float)
        self._leads: Final = np.array(leads, dtype=float)
        brokers = range(len(self._rack))
        self._held: Final[list[set[int]]] = [
            set(np.flatnonzero(self._placed.ravel() == b).tolist()) for b in brokers
        ]
        self._load: Final = np.array(
            [
                np.bincount(self._placed.ravel(), np.repeat(amount, self._factor), len(self._rack))
                + np.bincount(self._placed[:, 0], led, len(self._rack))
                for amount, led in zip(self._follows, self._leads, strict=True)
            ]
        )
        self._done: Final[list[Goal]] = []
        self._tolerance: Final = tolerance

    @property
    def replicas(self) -> Any:
        """Broker ids by partition, the leader first."""
        rows = np.arange(len(self._placed))
        after = self._placed.copy()
        after[rows, self._leader] = self._placed[:, 0]
        after[:, 0] = self._placed[rows, self._leader]
        return after + 1

    def plan(self, *, is_even: bool) -> None:
        """Reach one goal after the other; with ``is_even``, those of replicas and leaders, too."""
        self._spread()
        by_capacity = self._capacity / self._capacity.sum()
        even = np.full(len(self._rack), 1 / len(self._rack))
        slack = self._tolerance * MARGIN
        for kind, load in (
            *((CAPACITY, load) for load in (DISK, IN, OUT)),
            (NUMBER, REPLICAS),
            *((USAGE, load) for load in (DISK, IN, OUT)),
            (NUMBER, LEADERS),
            (HIGHEST, LEADER_IN),
        ):
            total = float(self._load[load].sum())
            if not total or (kind == NUMBER and not is_even):
                continue
            share = (by_capacity if kind in {CAPACITY, USAGE} else even) * total
            if kind == CAPACITY:
                goal = Goal(kind, load, np.zeros_like(share), share * CAPACITIES * FULLEST)
            elif kind == HIGHEST:
                goal = Goal(kind, load, np.zeros_like(share), share * (1 + self._tolerance))
            else:
                goal = Goal(kind, load, share * (1 - slack), share * (1 + slack))
            for broker in range(len(self._rack)):
                self._balance(goal, broker)
            self._done.append(goal)

    def _spread(self) -> None:
        """Move replicas that share a rack to the first broker of an unused one."""
        racks = np.sort(self._rack[self._placed], axis=1)
        for partition in np.flatnonzero((racks[:, 1:] == racks[:, :-1]).any(axis=1)).tolist():
            for n in range(self._factor):
                replica = partition * self._factor + n
                others = np.delete(self._placed[partition], n)
                if self._rack[self._placed[partition, n]] in self._rack[others]:
                    unused = np.flatnonzero(~np.isin(self._rack, self._rack[others]))
                    if len(unused):
                        self._move(replica, int(unused[0]))

    # --- one broker ----------------------------------------------------------------------------

    def _balance(self, goal: Goal, broker: int) -> None:
        leads = goal.load in {OUT, LEADER_IN, LEADERS}
        only_leaders = goal.kind == HIGHEST
        swaps = goal.kind in {USAGE, CAPACITY}
        if self._is_over(goal, broker):
            if leads:
                self._lead_less(goal, broker)
            if self._is_over(goal, broker) and not only_leaders:
                self._give(goal, broker)
            if self._is_over(goal, broker) and swaps:
                self._swap(goal, broker, gives=True)
        if self._is_under(goal, broker):
            if leads:
                self._take(goal, broker, moves=False)
            if self._is_under(goal, broker):
                self._take(goal, broker, moves=True)
            if self._is_under(goal, broker) and swaps:
                self._swap(goal, broker, gives=False)

    def _lead_less(self, goal: Goal, broker: int) -> None:
        for replica in self._sorted(goal, broker, leaders=True):
            partition = replica // self._factor
            others = np.delete(self._placed[partition], replica % self._factor)
            others = others[np.argsort(self._usage(goal)[others], kind="stable")]
            moved = self._leads[:, partition][:, None]
            allowed = self._allows(goal, moved, np.array([broker]), others)
            if allowed.any():
                self._lead(partition, int(others[np.argmax(allowed)]))
                if not self._is_over(goal, broker):
                    return

    def _give(self, goal: Goal, broker: int) -> None:
        leaders = goal.load in {OUT, LEADERS}
        for replica in self._sorted(goal, broker, leaders=leaders):
            usage = self._usage(goal)
            takers = np.flatnonzero(self._load[goal.load] < goal.high)
            takers = takers[self._fits(replica, takers)]
            takers = takers[np.argsort(usage[takers], kind="stable")]
            moved = self._amounts(np.array([replica]))
            allowed = self._allows(goal, moved, np.array([broker]), takers)
            if allowed.any():
                self._move(replica, int(takers[np.argmax(allowed)]))
                if not self._is_over(goal, broker):
                    return

    def _take(self, goal: Goal, broker: int, *, moves: bool) -> None:
        """Take replicas, or leaderships of replicas that it has, from the brokers with the most."""
        usage = self._usage(goal)
        mean = float(self._load[goal.load].sum() / self._width(goal).sum())
        queue = [(-usage[b], b) for b in np.flatnonzero(usage > mean).tolist() if b != broker]
        heapq.heapify(queue)
        while queue:
            _, giver = heapq.heappop(queue)
            leaders = not moves or goal.load in {OUT, LEADERS}
            left = np.array(self._sorted(goal, giver, leaders=leaders), dtype=np.int64)
            while len(left):
                partitions = left // self._factor
                holds = (self._placed[partitions] == broker).any(axis=1)
                fits = self._fit(left, broker) if moves else holds
                moved = self._amounts(left) if moves else self._leads[:, partitions]
                fits &= self._allows(goal, moved, np.array([giver]), np.array([broker]))
                if not fits.any():
                    break
                first = int(np.argmax(fits))
                if moves:
                    self._move(int(left[first]), broker)
                else:
                    self._lead(int(partitions[first]), broker)
                left = left[first + 1 :]
                if not self._is_under(goal, broker):
                    return
                now = self._usage(goal)[giver]
                if queue and now < -queue[0][0]:
                    heapq.heappush(queue, (-now, giver))
                    break

    def _swap(self, goal: Goal, broker: int, *, gives: bool) -> None:
        """Swap replicas of the broker with those of others that have less, or more, of the load."""
        sign, tried = (1 if gives else -1), 0
        usage = sign * self._usage(goal)
        queue = [
            (usage[b], b) for b in range(len(usage)) if b != broker and usage[b] < usage[broker]
        ]
        heapq.heapify(queue)
        leaders = goal.load == OUT
        is_outside = self._is_over if gives else self._is_under
        while queue and tried < SWAPS_TRIED:
            _, other = heapq.heappop(queue)
            own = self._sorted(goal, broker, leaders=leaders and gives)
            own = own if gives else own[::-1]
            theirs = np.array(self._sorted(goal, other, leaders=leaders and not gives))
            theirs = theirs[::-1] if gives else theirs
            for replica in own:
                tried += 1
                if tried > SWAPS_TRIED or not len(theirs):
                    break
                if not self._fits(replica, np.array([other]))[0]:
                    continue
                moved = self._amounts(np.array([replica])) - self._amounts(theirs)
                fits = (sign * moved[goal.load] > 0) & self._fit(theirs, broker)
                fits &= self._allows(goal, moved, np.array([broker]), np.array([other]))
                if fits.any():
                    back = int(theirs[np.argmax(fits)])
                    self._move(replica, other)
                    self._move(back, broker)
                    if not is_outside(goal, broker):
                        return
                    heapq.heappush(queue, (sign * self._usage(goal)[other], other))
                    break

    # --- what is allowed -----------------------------------------------------------------------

    def _allows(self, goal: Goal, moved: Any, source: Any, target: Any) -> Any:
        """Return which moves of some loads serve the goal and are accepted by the earlier ones."""
        change = moved[goal.load]
        after = self._load[goal.load, source] - change, self._load[goal.load, target] + change
        fits = np.where(
            change > 0,
            (after[1] <= goal.high[target]) & (after[0] >= goal.low[source]),
            (after[0] <= goal.high[source]) & (after[1] >= goal.low[target]),
        ) & (change != 0)
        for earlier in self._done:
            if not fits.any():
                break
            fits &= self._accepts(earlier, moved[earlier.load], source, target)
        return fits

    def _accepts(self, goal: Goal, change: Any, source: Any, target: Any) -> Any:
        load, low, high = self._load[goal.load], goal.low, goal.high
        given, got = load[source] - change, load[target] + change
        if goal.kind in {CAPACITY, HIGHEST}:
            within = np.where(change > 0, got <= high[target], given <= high[source])
            return within | (change == 0)
        down = (got <= high[target]) & (given >= low[source])
        up = (given <= high[source]) & (got >= low[target])
        within = np.where(change > 0, down, up)
        if goal.kind == USAGE:
            width = self._width(goal)
            before = np.abs(load[source] / width[source] - load[target] / width[target])
            after = np.abs(given / width[source] - got / width[target])
            kept = np.where(
                change > 0,
                (load[target] <= high[target]) & (load[source] >= low[source]),
                (load[source] <= high[source]) & (load[target] >= low[target]),
            )
            within = np.where(kept, within, after < before)
        return within | (change == 0)

    def _fits(self, replica: int, brokers: Any) -> Any:
        """Return which brokers may hold a replica: no other one of its partition, in no rack."""
        racks = self._rack[brokers]
        fits = np.ones(len(brokers), dtype=bool)
        for n, broker in enumerate(self._placed[replica // self._factor].tolist()):
            if n == replica % self._factor:
                fits &= brokers != broker
            else:
                fits &= racks != self._rack[broker]
        return fits

    def _fit(self, replicas: Any, broker: int) -> Any:
        """Return which replicas a broker may hold."""
        placed = self._placed[replicas // self._factor]
        same = self._rack[placed] == self._rack[broker]
        same[np.arange(len(replicas)), replicas % self._factor] = False
        return ~same.any(axis=1) & ~(placed == broker).any(axis=1)

    def _is_over(self, goal: Goal, broker: int) -> bool:
        return bool(self._load[goal.load, broker] > goal.high[broker])

    def _is_under(self, goal: Goal, broker: int) -> bool:
        return bool(self._load[goal.load, broker] < goal.low[broker])

    def _width(self, goal: Goal) -> Any:
        return self._capacity if goal.kind in {CAPACITY, USAGE} else np.ones(len(self._capacity))

    def _usage(self, goal: Goal) -> Any:
        return self._load[goal.load] / self._width(goal)

    # --- replicas ------------------------------------------------------------------------------

    def _amounts(self, replicas: Any) -> Any:
        partitions = replicas // self._factor
        leads = self._leader[partitions] == replicas % self._factor
        return self._follows[:, partitions] + self._leads[:, partitions] * leads

    def _sorted(self, goal: Goal, broker: int, *, leaders: bool) -> list[int]:
        """Return replicas with the largest load first; for numbers, those with the fewest bytes."""
        held = np.array(sorted(self._held[broker]), dtype=np.int64)
        if leaders:
            held = held[self._leader[held // self._factor] == held % self._factor]
        load = self._amounts(held)
        key = load[DISK] if goal.kind == NUMBER else -load[goal.load]
        found: list[int] = held[np.argsort(key, kind="stable")].tolist()
        return found

    def _move(self, replica: int, broker: int) -> None:
        place = divmod(replica, self._factor)
        amounts = self._amounts(np.array([replica]))[:, 0]
        source = int(self._placed[place])
        self._load[:, source] -= amounts
        self._load[:, broker] += amounts
        self._held[source].remove(replica)
        self._held[broker].add(replica)
        self._placed[place] = broker

    def _lead(self, partition: int, broker: int) -> None:
        now = int(np.flatnonzero(self._placed[partition] == broker)[0])
        source = int(self._placed[partition, self._leader[partition]])
        self._load[:, source] -= self._leads[:, partition]
        self._load[:, broker] += self._leads[:, partition]
        self._leader[partition] = now
