"""
Even out a load with the cheapest chains of pushes from fuller to emptier brokers.

Racks, or a partition that both brokers hold, can prevent a direct push from the fullest broker to
the emptiest. Then a chain leads over other brokers. A 0-1 breadth-first search over the brokers
finds the cheapest chain: an edge costs one copy or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from controller.core.model import BrokerId, TopicPartition


class Push(NamedTuple):
    """One replica or leadership that goes to another broker, and the copies that this costs."""

    partition: TopicPartition
    out: BrokerId
    into: BrokerId
    cost: int = 0


class Spread(ABC):
    """A countable load of brokers: replicas, or leaderships."""

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        self.held: Final[dict[BrokerId, set[TopicPartition]]] = {b: set() for b in sorted(brokers)}
        """The partitions of each broker that shares the load."""

    def count(self, broker: BrokerId) -> int:
        """Return the load of a broker."""
        return len(self.held[broker])

    @abstractmethod
    def pushes(
        self, broker: BrokerId, targets: AbstractSet[BrokerId], barred: AbstractSet[TopicPartition]
    ) -> Iterable[Push]:
        """Return the cheapest push to each possible target, without the barred partitions."""

    @abstractmethod
    def apply(self, push: Push) -> None:
        """Carry out a push."""


def even_out(spread: Spread) -> bool:
    """Reduce the differences between brokers to at most one; return whether that succeeded."""
    low, rest = divmod(sum(map(spread.count, spread.held)), len(spread.held))
    high = low + bool(rest)

    def push(givers: Iterable[BrokerId], takers: Collection[BrokerId]) -> bool:
        return any(_push_on(spread, giver, takers, spread.held) for giver in givers)

    while True:
        fullest = _fullest(spread, lambda n: n > high)
        emptiest = _emptiest(spread, lambda n: n < low)
        if not fullest and not emptiest:
            return True
        # Prefer a push that improves both ends to one that improves a single end.
        if not (
            push(fullest, emptiest)
            or push(fullest, _emptiest(spread, lambda n: n < high))
            or push(_fullest(spread, lambda n: n > low), emptiest)
        ):
            return False


def fill(spread: Spread, receivers: Collection[BrokerId]) -> bool:
    """Fill receivers up to an even share from the other brokers; return whether that succeeded."""
    low = sum(map(spread.count, spread.held)) // len(spread.held)
    while True:
        emptiest = [b for b in _emptiest(spread, lambda n: n < low) if b in receivers]
        if not emptiest:
            return True
        givers = [b for b in _fullest(spread, lambda n: n > low) if b not in receivers]
        if not any(_push_on(spread, giver, emptiest, receivers) for giver in givers):
            return False


def _fullest(spread: Spread, wanted: Callable[[int], bool]) -> list[BrokerId]:
    found = [broker for broker in spread.held if wanted(spread.count(broker))]
    return sorted(found, key=lambda b: (-spread.count(b), b))


def _emptiest(spread: Spread, wanted: Callable[[int], bool]) -> list[BrokerId]:
    found = [broker for broker in spread.held if wanted(spread.count(broker))]
    return sorted(found, key=lambda b: (spread.count(b), b))


def _push_on(
    spread: Spread, giver: BrokerId, takers: Collection[BrokerId], through: Collection[BrokerId]
) -> bool:
    """Apply the cheapest chain from a giver to any of the takers; return whether there is one."""
    chain = _cheapest_chain(spread, giver, set(takers) - {giver}, set(through))
    for push in chain:
        spread.apply(push)
    return bool(chain)


def _cheapest_chain(
    spread: Spread, giver: BrokerId, takers: set[BrokerId], through: set[BrokerId]
) -> list[Push]:
    """Return the pushes of a chain, its far end first, so that no broker has a replica twice."""
    cost = {giver: 0}
    came_by: dict[BrokerId, Push] = {}
    settled: set[BrokerId] = set()
    waiting = deque([giver] if takers else [])
    while waiting:
        broker = waiting.popleft()
        if broker in settled:
            continue
        chain: list[Push] = []
        place = broker
        while place != giver:
            chain.append(came_by[place])
            place = chain[-1].out
        if broker in takers:
            return chain
        settled.add(broker)
        # Two moves of a partition in one chain could lose a rack, though each of them keeps it.
        barred = {push.partition for push in chain}
        found = list(spread.pushes(broker, through - settled, barred))
        # The last one put in front, the emptiest broker, is examined first.
        for push in sorted(found, key=lambda p: (spread.count(p.into), p.into), reverse=True):
            total = cost[broker] + push.cost
            if total < cost.get(push.into, total + 1):
                cost[push.into] = total
                came_by[push.into] = push
                if not push.cost:
                    waiting.appendleft(push.into)
        paid = [p.into for p in found if p.cost and came_by.get(p.into) == p]
        waiting.extend(sorted(paid, key=lambda b: (spread.count(b), b)))
    return []
