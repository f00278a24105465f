"""
A plan under construction: the replicas of each broker, and the cost of moving one more.

A replica costs a copy only if the partition had no replica on that broker before. So a replica that
is copied in any case can be placed elsewhere at no cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.errors import InvalidInputError
from controller.planning.even_out import Push
from controller.planning.placement import count_racks, rack_of, wanted_racks
from controller.planning.plan_goal import Assignment, PlanGoal

Sizes = Mapping[TopicPartition, int]


class Draft:
    """The planned replicas of every partition, so far."""

    def __init__(self, before: Assignment, goal: PlanGoal, sizes: Sizes) -> None:
        """Start from the current assignment."""
        self.before: Final = before
        self.goal: Final = goal
        self.sizes: Final = sizes
        self.replicas: dict[TopicPartition, list[BrokerId]] = {}
        self.held: dict[BrokerId, set[TopicPartition]] = {b: set() for b in sorted(goal.brokers)}
        self._bytes: dict[BrokerId, int] = dict.fromkeys(self.held, 0)
        self._by_topic: dict[tuple[str, BrokerId], int] = {}
        self._order = {p: place for place, p in enumerate(sorted(before))}
        smallest_first = sorted(before, key=lambda p: (sizes.get(p, 0), p))
        self._rank = {p: place for place, p in enumerate(smallest_first)}
        self._touched: set[TopicPartition] = set()
        """Partitions with changed replicas."""
        self._racks_min = {
            p: wanted_racks(
                replicas,
                goal.factor_of(replicas),
                goal.brokers,
                goal.racks,
                widest=goal.widest,
            )
            for p, replicas in before.items()
        }
        for partition in self._order:
            self.replicas[partition] = []
            for broker in before[partition]:
                self.put(partition, broker)
        self._touched.clear()

    # --- reading -------------------------------------------------------------------------------

    @property
    def partitions(self) -> Iterator[TopicPartition]:
        """All partitions, sorted."""
        return iter(self._order)

    def racks_min(self, partition: TopicPartition) -> int:
        """Return the minimum number of racks of a partition."""
        return self._racks_min[partition]

    def racks_of(self, replicas: Iterable[BrokerId]) -> int:
        """Return the number of racks of some replicas."""
        return count_racks(replicas, self.goal.racks)

    def load(self, topic: str, broker: BrokerId) -> tuple[int, int, int, BrokerId]:
        """Return the sort key of a broker: its replicas, its replicas of the topic, its bytes."""
        return (
            self.count(broker),
            self._by_topic.get((topic, broker), 0),
            self._bytes[broker],
            broker,
        )

    def may_swap(self, partition: TopicPartition, out: BrokerId, into: BrokerId) -> bool:
        """Return whether a replica may be on ``into`` instead of ``out``."""
        replicas = self.replicas[partition]
        if into in replicas:
            return False
        racks = self.goal.racks
        if rack_of(into, racks) == rack_of(out, racks):
            return True
        after = [into if broker == out else broker for broker in replicas]
        return self.racks_of(after) >= min(self.racks_of(replicas), self.racks_min(partition))

    # --- changing ------------------------------------------------------------------------------

    def put(self, partition: TopicPartition, broker: BrokerId) -> None:
        """Add a replica to a broker."""
        self.replicas[partition].append(broker)
        self._account(partition, broker, 1)

    def take(self, partition: TopicPartition, broker: BrokerId) -> None:
        """Remove a replica from a broker."""
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
        self._bytes[broker] += by * self.sizes.get(partition, 0)
        key = (partition.topic, broker)
        self._by_topic[key] = self._by_topic.get(key, 0) + by

    def assignment(self) -> dict[TopicPartition, Replicas]:
        """Return the planned replicas of every partition."""
        return {p: tuple(self.replicas[p]) for p in self._order}

    # --- evening out, see ``even_out.Spread`` ---------------------------------------------------

    @property
    def brokers(self) -> Collection[BrokerId]:
        """The brokers that may hold replicas."""
        return self.held.keys()

    def count(self, broker: BrokerId) -> int:
        """Return the number of planned replicas of a broker."""
        return len(self.held[broker])

    def pushes(
        self,
        broker: BrokerId,
        targets: AbstractSet[BrokerId],
        barred: AbstractSet[TopicPartition],
    ) -> Iterable[Push]:
        """Return the cheapest replica for each target that can take one; ties: the smallest."""
        best: dict[BrokerId, Push] = {}
        held = self.held[broker] - barred
        # Only a replica that was moved before can move again at no cost; all others cost the same.
        for partition in sorted(held & self._touched, key=self._rank.__getitem__):
            before = self.before[partition]
            for target in targets:
                cost = int(target not in before and broker in before)
                known = best.get(target)
                is_better = known is None or cost < known.cost
                if is_better and self.may_swap(partition, broker, target):
                    best[target] = Push(partition, broker, target, cost)
        left = {target for target in targets if target not in best or best[target].cost}
        for partition in sorted(held - self._touched, key=self._rank.__getitem__):
            for target in [t for t in left if self.may_swap(partition, broker, t)]:
                best.setdefault(target, Push(partition, broker, target, 1))
                left.discard(target)
            if not left:
                break
        return best.values()

    def apply(self, push: Push) -> None:
        """Put a replica on another broker, at the same position."""
        replicas = self.replicas[push.partition]
        replicas[replicas.index(push.out)] = push.into
        self._account(push.partition, push.out, -1)
        self._account(push.partition, push.into, 1)

    # --- choosing ------------------------------------------------------------------------------

    def best_for(self, partition: TopicPartition) -> BrokerId:
        """
        Choose the broker of an additional replica: in an unused rack, with the least load.

        Raises:
            InvalidInputError: every broker has a replica.

        """
        replicas = self.replicas[partition]
        free = [broker for broker in self.held if broker not in replicas]
        if not free:
            raise InvalidInputError(f"{partition}: there are fewer brokers than replicas")
        used = {rack_of(broker, self.goal.racks) for broker in replicas}
        return min(
            free,
            key=lambda b: (
                rack_of(b, self.goal.racks) in used,
                # A broker that has the replica now needs no copy.
                b not in self.before[partition],
                self.load(partition.topic, b),
            ),
        )

    def worst_of(self, partition: TopicPartition) -> BrokerId:
        """
        Choose the broker that gives up its replica.

        A broker that is emptied, else one whose rack has another replica, else the fullest; on a
        tie not the preferred leader.
        """
        replicas = self.replicas[partition]
        places = {broker: place for place, broker in enumerate(replicas)}
        racks = [rack_of(broker, self.goal.racks) for broker in replicas]

        def rank(broker: BrokerId) -> tuple[bool, bool, bool, int, int]:
            is_twin = racks.count(rack_of(broker, self.goal.racks)) > 1
            is_follower = places[broker] > 0
            if broker not in self.held:
                return True, is_twin, is_follower, 0, places[broker]
            return False, is_twin, is_follower, self.count(broker), places[broker]

        return max(replicas, key=rank)


class Leaderships:
    """The order of every partition's replicas, and the preferred leaderships of each broker."""

    def __init__(
        self,
        before: Assignment,
        replicas: Mapping[TopicPartition, Iterable[BrokerId]],
        brokers: Collection[BrokerId],
    ) -> None:
        """Order the planned replicas as close to the former order as possible."""
        self._order: dict[TopicPartition, list[BrokerId]] = {}
        self._led: dict[BrokerId, set[TopicPartition]] = {b: set() for b in sorted(brokers)}
        orphaned: list[TopicPartition] = []
        for partition, found in replicas.items():
            places = {broker: place for place, broker in enumerate(before[partition])}
            order = sorted(found, key=lambda b: places.get(b, len(places)))
            self._order[partition] = order
            if order[0] == before[partition][0]:
                self._led[order[0]].add(partition)
            else:
                orphaned.append(partition)
        for partition in orphaned:
            order = self._order[partition]
            stay = [broker for broker in order if broker in before[partition]]
            self._lead(partition, min(stay or order, key=lambda b: (self.count(b), order.index(b))))

    def assignment(self) -> dict[TopicPartition, Replicas]:
        """Return the ordered replicas of every partition."""
        return {partition: tuple(order) for partition, order in self._order.items()}

    def _lead(self, partition: TopicPartition, leader: BrokerId) -> None:
        order = self._order[partition]
        order.remove(leader)
        order.insert(0, leader)
        self._led[leader].add(partition)

    # --- evening out, see ``even_out.Spread`` ---------------------------------------------------

    @property
    def brokers(self) -> Collection[BrokerId]:
        """The brokers that may lead."""
        return self._led.keys()

    def count(self, broker: BrokerId) -> int:
        """Return of how many partitions a broker is the planned preferred leader."""
        return len(self._led[broker])

    def pushes(
        self,
        broker: BrokerId,
        targets: AbstractSet[BrokerId],
        barred: AbstractSet[TopicPartition],
    ) -> Iterable[Push]:
        """Return for each target a partition that it could lead instead of the broker."""
        found: dict[BrokerId, Push] = {}
        for partition in sorted(self._led[broker] - barred):
            for follower in self._order[partition][1:]:
                if follower in targets:
                    found.setdefault(follower, Push(partition, broker, follower))
        return found.values()

    def apply(self, push: Push) -> None:
        """Swap the preferred leader with another replica."""
        order = self._order[push.partition]
        place = order.index(push.into)
        order[0], order[place] = order[place], order[0]
        self._led[push.out].discard(push.partition)
        self._led[push.into].add(push.partition)
