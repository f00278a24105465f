"""
The entries that operators are owed: one may be refused with a reason, but never lost.

A wish ends when it is refused, when its author withdraws it, or when another client asks Kafka for
something different. Whatever is left at the good end has to be what the topic znodes say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from controller.core.model import Refusal, Replicas, Route, TopicPartition
from controller.core.requests.acceptance import entry_text
from controller.znodes import paths

if TYPE_CHECKING:
    from tests.sim.ledgers import Ledger
    from tests.sim.world import World


Plan = Mapping[TopicPartition, Replicas]


class Wishes:
    """The last target of each partition in the legacy plan."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._targets: dict[TopicPartition, Replicas] = {}
        ledger.takers.append(self.take_back)
        ledger.enders.append(self.never_begins)

    def ask(self, plan: Plan) -> None:
        """Owe the targets of a plan, but for those that a request moves: these are refused."""
        self._targets.update(plan)
        for partition in plan:
            if self._ledger.spec(partition) is None:
                self._ledger.take_back(partition)

    def take_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Owe nothing for these partitions: both what is and what was asked for would be right."""
        for partition in partitions:
            self._targets.pop(partition, None)

    def never_begins(self, partition: TopicPartition, target: Replicas) -> None:
        """Owe nothing for what was cancelled before it began; a newer order stays."""
        if self._targets.get(partition) == target:
            self.take_back((partition,))

    def moved_by_others(self, partition: TopicPartition) -> None:
        """Owe nothing for a partition, by whatever route: clients of a Kafka controller move it."""
        self.take_back((partition,))
        self._ledger.take_back(partition)

    def take_back_all(self) -> None:
        """Owe nothing."""
        self._targets.clear()

    def refused(self, refusal: Refusal) -> None:
        """Owe nothing for an entry that was refused."""
        self.take_back([p for p, t in self._targets.items() if entry_text(p, t) == refusal.entry])

    def plan_rewritten(self, world: World, before: Plan, after: Plan) -> None:
        """
        Take note of entries a daemon took out of the legacy znode.

        It may die before it says why, so this is judged by what anybody could see then: an entry
        that has become no record of ours has to be one that had to be refused.
        """
        for partition, target in before.items():
            if partition in after or world.invariants.records.target_of(partition) == target:
                continue
            if _had_reason(world, self._ledger, partition, target):
                self.take_back((partition,))

    def rewritten_by_kafka(self, world: World, before: Plan, after: Plan) -> None:
        """
        Take note of entries a Kafka controller took out of the legacy znode.

        It passes over partitions that have no state yet, and clients of its API overrule entries.
        Where an older order is on record, the newer one is done first if no daemon is alive then;
        either of the two was submitted, so both are valid ends.
        """
        known = set(world.partitions())
        for partition, target in before.items():
            is_recorded = world.zookeeper.get(paths.reassignment_path(partition)) is not None
            is_so = partition in known and world.assignment(partition).target_replicas == target
            if is_recorded or (partition not in after and not is_so):
                self.take_back((partition,))
            elif partition not in after:
                # It was written while a request moved the partition, and begun when that was done.
                self._ledger.take_back(partition)

    def unmet(self, world: World) -> dict[TopicPartition, Replicas]:
        """Return what was asked for and is not so."""
        known = set(world.partitions())
        unmet = {
            partition: target
            for partition, target in self._targets.items()
            if partition in known and world.assignment(partition).replicas != target
        }
        return dict(self._ledger.unmet()) | unmet


def _had_reason(world: World, ledger: Ledger, partition: TopicPartition, target: Replicas) -> bool:
    """
    Whether an entry may be refused.

    A broker is not there, its topic is on its way out, a request moves it, work is disabled, or a
    cancellation may mean it.
    """
    if partition not in world.partitions():
        return True
    spec = ledger.spec(partition)
    if spec is not None and (spec.route is Route.REQUEST or spec.rolls_back):
        return True
    if ledger.may_be_disabled() or ledger.cancels.may_mean(partition):
        return True
    if partition.topic in (world.zookeeper.children(paths.DELETIONS) or ()):
        return True
    replicas = world.assignment(partition).replicas
    return any(world.invariants.may_seem_dead(r) for r in target if r not in replicas)
