"""
Evening out: the cheapest chain of pushes from a broker with too much to one with too little.

What is to go may be unable to go straight from the fullest broker to the emptiest, because of racks
or because both hold the partition; then it pushes something else on. The chain that costs least is
found by a search over brokers in which an edge costs one copy, or nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from controller.core.model import BrokerId, TopicPartition
from controller.planning.lower_bounds import even_shares


class Push(NamedTuple):
    """One thing that is to go from a broker to another, and how many copies that costs."""

    partition: TopicPartition
    out: BrokerId
    into: BrokerId
    cost: int = 0


class Spread(Protocol):
    """Something brokers have so many of: replicas, or leaderships."""

    @property
    def brokers(self) -> Collection[BrokerId]:
        """Those among whom it is spread."""
        ...

    def count(self, broker: BrokerId) -> int:
        """Return how many a broker has."""
        ...

    def pushes(
        self,
        broker: BrokerId,
        targets: AbstractSet[BrokerId],
        barred: AbstractSet[TopicPartition],
    ) -> Iterable[Push]:
        """Return the cheapest push to each target that can take one, but of barred partitions."""
        ...

    def apply(self, push: Push) -> None:
        """Do it."""
        ...


def even_out(spread: Spread) -> bool:
    """Let no broker have two more than another; False where something stands against it."""
    counts = {broker: spread.count(broker) for broker in spread.brokers}
    shares = even_shares(counts, sum(counts.values()))
    low, high = min(shares.values()), max(shares.values())

    def push(givers: Iterable[BrokerId], takers: Collection[BrokerId]) -> bool:
        return any(_push_on(spread, giver, takers, spread.brokers) for giver in givers)

    while True:
        fullest = _fullest(spread, lambda n: n > high)
        emptiest = _emptiest(spread, lambda n: n < low)
        if not fullest and not emptiest:
            return True
        # First what helps at both ends, then what helps at one.
        if not (
            push(fullest, emptiest)
            or push(fullest, _emptiest(spread, lambda n: n < high))
            or push(_fullest(spread, lambda n: n > low), emptiest)
        ):
            return False


def fill(spread: Spread, receivers: Collection[BrokerId]) -> bool:
    """Fill receivers up to an even share from the fullest others; False where it is impossible."""
    low = sum(map(spread.count, spread.brokers)) // len(spread.brokers)
    while True:
        emptiest = [b for b in _emptiest(spread, lambda n: n < low) if b in receivers]
        if not emptiest:
            return True
        givers = [b for b in _fullest(spread, lambda n: n > low) if b not in receivers]
        if not any(_push_on(spread, giver, emptiest, receivers) for giver in givers):
            return False


def _fullest(spread: Spread, wanted: Callable[[int], bool]) -> list[BrokerId]:
    found = [broker for broker in spread.brokers if wanted(spread.count(broker))]
    return sorted(found, key=lambda b: (-spread.count(b), b))


def _emptiest(spread: Spread, wanted: Callable[[int], bool]) -> list[BrokerId]:
    found = [broker for broker in spread.brokers if wanted(spread.count(broker))]
    return sorted(found, key=lambda b: (spread.count(b), b))


def _push_on(
    spread: Spread, giver: BrokerId, takers: Collection[BrokerId], through: Collection[BrokerId]
) -> bool:
    """Take one from a broker and give one to the nearest taker; False where no chain leads."""
    chain = _cheapest_chain(spread, giver, set(takers) - {giver}, set(through))
    for push in chain:
        spread.apply(push)
    return bool(chain)


def _cheapest_chain(
    spread: Spread, giver: BrokerId, takers: set[BrokerId], through: set[BrokerId]
) -> list[Push]:
    """Return the pushes of a chain, its far end first, so that nothing is twice in one place."""
    cost = {giver: 0}
    came_by: dict[BrokerId, Push] = {}
    settled: set[BrokerId] = set()
    waiting = deque([giver] if takers else [])
    while waiting:
        broker = waiting.popleft()
        if broker in settled:
            continue
        chain = _unwound(broker, giver, came_by)
        if broker in takers:
            return chain
        settled.add(broker)
        # A partition that moves twice in one chain could lose a rack that each move alone keeps.
        barred = {push.partition for push in chain}
        found = list(spread.pushes(broker, through - settled, barred))
        # What is put in front last is looked at first: the emptiest broker.
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


def _unwound(broker: BrokerId, giver: BrokerId, came_by: dict[BrokerId, Push]) -> list[Push]:
    chain: list[Push] = []
    while broker != giver:
        push = came_by[broker]
        chain.append(push)
        broker = push.out
    return chain
