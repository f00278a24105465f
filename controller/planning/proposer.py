"""
The planner of ``generate``: reaches the goal for a few topics with as few copies as possible.

First it applies to every partition what the goal forces: no replica on emptied brokers, the
replication factor, the racks. Then, if the goal asks for it, it evens out the brokers. A replica
costs a copy only if the partition had none on that broker before: one that is copied in any case
moves at no cost, any other costs one copy. The order of all steps is fixed, so the same cluster has
the same plan.

Racks, or a partition that both brokers hold, can prevent a direct push from the fullest broker to
the emptiest. Then a chain leads over other brokers. A 0-1 breadth-first search over the brokers
finds the cheapest chain: an edge costs one copy or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from controller.core.model import BrokerId, TopicPartition
from controller.core.topics.replica_choice import PlannedLoads, best_broker, rack_of
from controller.errors import InvalidInputError
from controller.planning.plan_goal import (
    Assignment,
    PlanGoal,
    Proposal,
    copies_min,
    count_racks,
)

Sizes = Mapping[TopicPartition, int]


def propose(before: Assignment, goal: PlanGoal, sizes: Sizes | None = None) -> Proposal:
    """
    Plan the replicas of some partitions; without other differences, the smaller ones move.

    Raises:
        InvalidInputError: the goal cannot be reached.

    """
    for problem in _problems(before, goal):
        raise InvalidInputError(problem)
    draft = Draft(before, goal, sizes or {})
    for partition in draft.order:
        if partition not in goal.fixed:
            draft.satisfy(partition)
    notes: list[str] = []
    is_even = True
    if goal.rebalance:
        is_even = even_out(draft)
        notes += [] if is_even else ["replicas cannot be evened out because of racks"]
    elif goal.receivers:
        is_even = fill(draft, goal.receivers)
        notes += (
            [] if is_even else ["not every broker can be filled to an even share because of racks"]
        )
    leaders = Leaderships(before, draft.replicas, goal)
    if (goal.rebalance or goal.receivers) and not even_out(leaders):
        notes.append("leaders cannot be evened out with these replicas")
    return Proposal(
        before={p: tuple(before[p]) for p in sorted(before)},
        after={partition: tuple(order) for partition, order in leaders.order.items()},
        copies_min=copies_min(before, goal, is_even=is_even),
        notes=tuple(notes),
    )


def _problems(before: Assignment, goal: PlanGoal) -> Iterator[str]:
    if not goal.brokers:
        yield "no broker may hold a replica"
    if goal.replication_factor is not None and goal.replication_factor < 1:
        yield f"the replication factor must be positive, not {goal.replication_factor}"
    strangers = goal.receivers - goal.brokers
    if strangers:
        yield f"broker {','.join(map(str, sorted(strangers)))} cannot be both filled and emptied"
    for partition, replicas in before.items():
        if partition in goal.fixed:
            continue
        if not replicas:
            yield f"{partition} has no replica"
        if goal.factor_of(replicas) > len(goal.brokers):
            yield (
                f"{partition} needs {goal.factor_of(replicas)} replicas, but only "
                f"{len(goal.brokers)} brokers may hold one"
            )


# --- evening out ---------------------------------------------------------------------------------


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
        fullest = _above(spread, high)
        emptiest = _below(spread, low)
        if not fullest and not emptiest:
            return True
        # Prefer a push that improves both ends to one that improves a single end.
        if not (
            push(fullest, emptiest)
            or push(fullest, _below(spread, high))
            or push(_above(spread, low), emptiest)
        ):
            return False


def fill(spread: Spread, receivers: Collection[BrokerId]) -> bool:
    """Fill receivers up to an even share from the other brokers; return whether that succeeded."""
    low = sum(map(spread.count, spread.held)) // len(spread.held)
    while True:
        emptiest = [b for b in _below(spread, low) if b in receivers]
        if not emptiest:
            return True
        givers = [b for b in _above(spread, low) if b not in receivers]
        if not any(_push_on(spread, giver, emptiest, receivers) for giver in givers):
            return False


def _above(spread: Spread, least: int) -> list[BrokerId]:
    """Return the brokers with more than so much, the fullest first."""
    found = [broker for broker in spread.held if spread.count(broker) > least]
    return sorted(found, key=lambda b: (-spread.count(b), b))


def _below(spread: Spread, most: int) -> list[BrokerId]:
    """Return the brokers with less than so much, the emptiest first."""
    found = [broker for broker in spread.held if spread.count(broker) < most]
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


# --- replicas and leaderships --------------------------------------------------------------------


class Draft(Spread):
    """The planned replicas of every partition, so far."""

    def __init__(self, before: Assignment, goal: PlanGoal, sizes: Sizes) -> None:
        super().__init__(goal.brokers)
        self._before: Final = before
        self._goal: Final = goal
        self._sizes: Final = sizes
        self.order: Final = sorted(before)
        self.replicas: Final[dict[TopicPartition, list[BrokerId]]] = {p: [] for p in self.order}
        self._loads = PlannedLoads()
        smallest_first = sorted(before, key=lambda p: (sizes.get(p, 0), p))
        self._rank = {p: place for place, p in enumerate(smallest_first)}
        self._racks_min = {p: goal.racks_min(replicas) for p, replicas in before.items()}
        self._touched: set[TopicPartition] = set()
        """Partitions with changed replicas."""
        for partition in self.order:
            for broker in before[partition]:
                self._put(partition, broker)
        self._touched.clear()

    # --- what the goal forces ------------------------------------------------------------------

    def satisfy(self, partition: TopicPartition) -> None:
        """
        Give a partition the planned number of replicas, on allowed brokers and in enough racks.

        Raises:
            InvalidInputError: there are fewer brokers than replicas.

        """
        factor = self._goal.factor_of(self._before[partition])
        replicas = self.replicas[partition]
        for broker in [b for b in replicas if b not in self.held]:
            self._take(partition, broker)
        while len(replicas) > factor:
            self._take(partition, self._worst_of(replicas))
        while len(replicas) < factor:
            self._put(partition, self._best_for(partition))
        while count_racks(replicas, self._goal.racks) < self._racks_min[partition]:
            self._take(partition, self._worst_of(replicas))
            self._put(partition, self._best_for(partition))

    def _best_for(self, partition: TopicPartition) -> BrokerId:
        """Choose the broker of an additional replica: in an unused rack, with the least load."""
        replicas, racks = self.replicas[partition], self._goal.racks
        free = [broker for broker in self.held if broker not in replicas]
        if not free:
            raise InvalidInputError(f"{partition}: there are fewer brokers than replicas")
        before = self._before[partition]
        return best_broker(free, partition.topic, replicas, before, racks, self._loads)

    def _worst_of(self, replicas: list[BrokerId]) -> BrokerId:
        """
        Choose the broker that gives up its replica: one whose rack has another, else the fullest.

        On a tie not the preferred leader.
        """
        racks = [rack_of(broker, self._goal.racks) for broker in replicas]

        def rank(place: int) -> tuple[bool, bool, int, int]:
            is_twin = racks.count(racks[place]) > 1
            return is_twin, place > 0, self.count(replicas[place]), place

        return replicas[max(range(len(replicas)), key=rank)]

    def _put(self, partition: TopicPartition, broker: BrokerId) -> None:
        self.replicas[partition].append(broker)
        self._account(partition, broker, 1)

    def _take(self, partition: TopicPartition, broker: BrokerId) -> None:
        self.replicas[partition].remove(broker)
        self._account(partition, broker, -1)

    def _account(self, partition: TopicPartition, broker: BrokerId, by: int) -> None:
        self._touched.add(partition)
        if broker not in self.held:
            # The load of a broker that is emptied is not compared.
            return
        if by > 0:
            self.held[broker].add(partition)
        else:
            self.held[broker].discard(partition)
        self._loads.count_one(partition, broker, self._sizes.get(partition, 0), by)

    # --- evening out ---------------------------------------------------------------------------

    def pushes(
        self, broker: BrokerId, targets: AbstractSet[BrokerId], barred: AbstractSet[TopicPartition]
    ) -> Iterable[Push]:
        """Return the cheapest replica for each target that can take one; ties: the smallest."""
        best: dict[BrokerId, Push] = {}
        held = self.held[broker] - barred - self._goal.fixed
        # Only a replica that was moved before can move again at no cost; all others cost the same.
        for partition in sorted(held & self._touched, key=self._rank.__getitem__):
            before = self._before[partition]
            for target in targets:
                cost = int(target not in before and broker in before)
                known = best.get(target)
                is_better = known is None or cost < known.cost
                if is_better and self._may_swap(partition, broker, target):
                    best[target] = Push(partition, broker, target, cost)
        left = {target for target in targets if target not in best or best[target].cost}
        for partition in sorted(held - self._touched, key=self._rank.__getitem__):
            for target in [t for t in left if self._may_swap(partition, broker, t)]:
                best.setdefault(target, Push(partition, broker, target, 1))
                left.discard(target)
            if not left:
                break
        return best.values()

    def _may_swap(self, partition: TopicPartition, out: BrokerId, into: BrokerId) -> bool:
        """Return whether a replica may be on ``into`` instead of ``out``."""
        replicas, racks = self.replicas[partition], self._goal.racks
        if into in replicas:
            return False
        if rack_of(into, racks) == rack_of(out, racks):
            return True
        after = [into if broker == out else broker for broker in replicas]
        least = min(count_racks(replicas, racks), self._racks_min[partition])
        return count_racks(after, racks) >= least

    def apply(self, push: Push) -> None:
        """Put a replica on another broker, at the same position."""
        replicas = self.replicas[push.partition]
        replicas[replicas.index(push.out)] = push.into
        self._account(push.partition, push.out, -1)
        self._account(push.partition, push.into, 1)


class Leaderships(Spread):
    """The order of every partition's replicas, and the preferred leaderships of each broker."""

    def __init__(
        self,
        before: Assignment,
        replicas: Mapping[TopicPartition, Iterable[BrokerId]],
        goal: PlanGoal,
    ) -> None:
        """Order the planned replicas as close to the former order as possible."""
        super().__init__(goal.brokers)
        self._fixed: Final = goal.fixed
        self.order: Final[dict[TopicPartition, list[BrokerId]]] = {}
        orphaned: list[TopicPartition] = []
        for partition, found in replicas.items():
            places = {broker: place for place, broker in enumerate(before[partition])}
            order = sorted(found, key=lambda b: places.get(b, len(places)))
            self.order[partition] = order
            if order[:1] == list(before[partition][:1]):
                if order and order[0] in self.held:
                    self.held[order[0]].add(partition)
            else:
                orphaned.append(partition)
        for partition in orphaned:
            order = self.order[partition]
            stay = [broker for broker in order if broker in before[partition]]
            leader = min(stay or order, key=lambda b: (self.count(b), order.index(b)))
            order.remove(leader)
            order.insert(0, leader)
            self.held[leader].add(partition)

    def pushes(
        self, broker: BrokerId, targets: AbstractSet[BrokerId], barred: AbstractSet[TopicPartition]
    ) -> Iterable[Push]:
        """Return for each target a partition that it could lead instead of the broker."""
        found: dict[BrokerId, Push] = {}
        for partition in sorted(self.held[broker] - barred - self._fixed):
            for follower in self.order[partition][1:]:
                if follower in targets:
                    found.setdefault(follower, Push(partition, broker, follower))
        return found.values()

    def apply(self, push: Push) -> None:
        """Swap the preferred leader with another replica."""
        order = self.order[push.partition]
        place = order.index(push.into)
        order[0], order[place] = order[place], order[0]
        self.held[push.out].discard(push.partition)
        self.held[push.into].add(push.partition)
