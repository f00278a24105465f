"""
Who is to lead: the order of replicas that are settled otherwise. Nothing is copied for it.

The first replica is the preferred leader. One that stays goes on to lead; else the follower with
the fewest leaderships that has the data already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.planning.even_out import Push
from controller.planning.plan_goal import Assignment


class Leaderships:
    """The order of every partition's replicas, and so how many partitions each broker leads."""

    def __init__(
        self,
        before: Assignment,
        replicas: Mapping[TopicPartition, Iterable[BrokerId]],
        brokers: Collection[BrokerId],
    ) -> None:
        """Order replicas anew, as near to the order before as possible."""
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
        """Return the replicas in order."""
        return {partition: tuple(order) for partition, order in self._order.items()}

    def _lead(self, partition: TopicPartition, leader: BrokerId) -> None:
        order = self._order[partition]
        order.remove(leader)
        order.insert(0, leader)
        self._led[leader].add(partition)

    # --- evening out, see ``evenness.Spread`` ---------------------------------------------------

    @property
    def brokers(self) -> Collection[BrokerId]:
        """Those that may lead."""
        return self._led.keys()

    def count(self, broker: BrokerId) -> int:
        """Return how many partitions a broker is to lead."""
        return len(self._led[broker])

    def pushes(
        self,
        broker: BrokerId,
        targets: AbstractSet[BrokerId],
        barred: AbstractSet[TopicPartition],
    ) -> Iterable[Push]:
        """Return a partition for each broker that could lead it instead."""
        found: dict[BrokerId, Push] = {}
        for partition in sorted(self._led[broker] - barred):
            for follower in self._order[partition][1:]:
                if follower in targets:
                    found.setdefault(follower, Push(partition, broker, follower))
        return found.values()

    def apply(self, push: Push) -> None:
        """Let another replica come first; the two change places."""
        order = self._order[push.partition]
        place = order.index(push.into)
        order[0], order[place] = order[place], order[0]
        self._led[push.out].discard(push.partition)
        self._led[push.into].add(push.partition)
