"""
The order of replicas, and with it the preferred leaders. A change of order copies nothing.

The preferred leader stays if it is still a replica. Otherwise the broker with the fewest
leaderships among the remaining former replicas takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.planning.even_out import Push
from controller.planning.plan_goal import Assignment


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
