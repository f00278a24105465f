"""
A plan while it is being made: who holds what, and what moving one more replica would cost.

Mutable, and used by ``proposals`` alone. A replica costs a copy only where the partition had none
on that broker before, so one that is copied anyway may be put elsewhere for nothing.
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
    """Where every partition's replicas are to be, so far."""

    def __init__(self, before: Assignment, goal: PlanGoal, sizes: Sizes) -> None:
        """Begin with everything where it is."""
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
        """Partitions whose replicas were changed in any way."""
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

    # --- looking -------------------------------------------------------------------------------

    @property
    def partitions(self) -> Iterator[TopicPartition]:
        """Every partition, in order."""
        return iter(self._order)

    def racks_min(self, partition: TopicPartition) -> int:
        """Return over how many racks a partition is to be spread at least."""
        return self._racks_min[partition]

    def racks_of(self, replicas: Iterable[BrokerId]) -> int:
        """Return over how many racks replicas are spread."""
        return count_racks(replicas, self.goal.racks)

    def load(self, topic: str, broker: BrokerId) -> tuple[int, int, int, BrokerId]:
        """Return by what brokers are compared: replicas, those of the topic, bytes."""
        return (
            self.count(broker),
            self._by_topic.get((topic, broker), 0),
            self._bytes[broker],
            broker,
        )

    def may_swap(self, partition: TopicPartition, out: BrokerId, into: BrokerId) -> bool:
        """Whether a replica may be on one broker instead of another."""
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
        """Let a broker hold one more replica."""
        self.replicas[partition].append(broker)
        self._account(partition, broker, 1)

    def take(self, partition: TopicPartition, broker: BrokerId) -> None:
        """Let a broker hold one replica less."""
        self.replicas[partition].remove(broker)
        self._account(partition, broker, -1)

    def _account(self, partition: TopicPartition, broker: BrokerId, by: int) -> None:
        self._touched.add(partition)
        if broker not in self.held:
            # It is to be emptied: nobody asks how much is left.
            return
        if by > 0:
            self.held[broker].add(partition)
        else:
            self.held[broker].discard(partition)
        self._bytes[broker] += by * self.sizes.get(partition, 0)
        key = (partition.topic, broker)
        self._by_topic[key] = self._by_topic.get(key, 0) + by

    def assignment(self) -> dict[TopicPartition, Replicas]:
        """Return the plan as it is."""
        return {p: tuple(self.replicas[p]) for p in self._order}

    # --- evening out, see ``evenness.Spread`` ---------------------------------------------------

    @property
    def brokers(self) -> Collection[BrokerId]:
        """Those that may hold replicas."""
        return self.held.keys()

    def count(self, broker: BrokerId) -> int:
        """Return how many replicas a broker is to hold."""
        return len(self.held[broker])

    def pushes(
        self,
        broker: BrokerId,
        targets: AbstractSet[BrokerId],
        barred: AbstractSet[TopicPartition],
    ) -> Iterable[Push]:
        """Return the cheapest replica for each broker that can take one, of equals the smallest."""
        best: dict[BrokerId, Push] = {}
        held = self.held[broker] - barred
        # Only what was moved before can go on for nothing; of the others the first one will do.
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
        """Put a replica elsewhere; it keeps its place in the order."""
        replicas = self.replicas[push.partition]
        replicas[replicas.index(push.out)] = push.into
        self._account(push.partition, push.out, -1)
        self._account(push.partition, push.into, 1)

    # --- choosing ------------------------------------------------------------------------------

    def best_for(self, partition: TopicPartition) -> BrokerId:
        """
        Return the broker that should hold one more replica: in a new rack, and with the least load.

        Raises:
            PlanInvalidError: every broker holds one.

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
                # One that holds it already in the cluster costs nothing.
                b not in self.before[partition],
                self.load(partition.topic, b),
            ),
        )

    def worst_of(self, partition: TopicPartition) -> BrokerId:
        """
        Return the broker that should give its replica up.

        One that is to be emptied, else one whose rack has another, else the fullest; of equals not
        the preferred leader.
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
