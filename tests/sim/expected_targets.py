"""
The targets of legacy plans: an entry may be refused with a reason, but is never lost.

A target is expected until it is refused, its author withdraws it, or another client requests a
different one from Kafka. In the end the topic znodes have to contain the targets that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from controller.core.model import Refusal, Replicas, Route, TopicPartition, entry_text
from controller.znodes import paths

if TYPE_CHECKING:
    from tests.sim.ledgers import Ledger
    from tests.sim.world import World


Plan = Mapping[TopicPartition, Replicas]


class ExpectedTargets:
    """The last expected target of each partition in the legacy plan."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._targets: dict[TopicPartition, Replicas] = {}
        ledger.takers.append(self.take_back)
        ledger.enders.append(self.never_begins)
        ledger.refusers.append(self.refused)

    def expect(self, plan: Plan) -> None:
        """Expect the targets of a plan; entries of partitions that a request moves are refused."""
        self._targets.update(plan)
        for partition in plan:
            if self._ledger.spec(partition) is None:
                self._ledger.take_back(partition)

    def take_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Expect no target of these partitions: both the present and the requested are valid."""
        for partition in partitions:
            self._targets.pop(partition, None)

    def never_begins(self, partition: TopicPartition, target: Replicas) -> None:
        """Expect no target that was cancelled before it began; a newer target stays."""
        if self._targets.get(partition) == target:
            self.take_back((partition,))

    def moved_by_others(self, partition: TopicPartition) -> None:
        """Expect no target of a partition, by any route: clients of a Kafka controller move it."""
        self.take_back((partition,))
        self._ledger.take_back(partition)

    def take_back_all(self) -> None:
        """Expect no target."""
        self._targets.clear()

    def refused(self, refusal: Refusal) -> None:
        """Expect no target of an entry that was refused."""
        self.take_back([p for p, t in self._targets.items() if entry_text(p, t) == refusal.entry])

    def plan_rewritten(self, world: World, before: Plan, after: Plan) -> None:
        """
        Note the entries that a daemon removed from the legacy plan.

        It may die before it writes the reason, so this is judged by the cluster at that time: an
        entry that has become no spec has to be one that is refused.
        """
        for partition, target in before.items():
            spec = self._ledger.spec(partition)
            is_of_request = spec is not None and spec.route is Route.REQUEST
            is_taken = world.invariants.records.target_of(partition) == target
            # A request may move the partition to the same replicas: then the entry is refused.
            if partition in after or (is_taken and not is_of_request):
                continue
            if _had_reason(world, self._ledger, partition, target):
                self.take_back((partition,))

    def rewritten_by_kafka(self, world: World, before: Plan, after: Plan) -> None:
        """
        Note the entries that a Kafka controller removed from the legacy plan.

        It skips partitions that have no state yet, and clients of its API overrule entries. Where a
        spec has an older target, the newer one is reached first if no daemon is alive then; both
        were submitted, so both are valid ends.
        """
        known = set(world.partitions())
        for partition, target in before.items():
            is_recorded = world.zookeeper.get(paths.reassignment_path(partition)) is not None
            is_so = partition in known and world.assignment(partition).target_replicas == target
            if is_recorded or (partition not in after and not is_so):
                self.take_back((partition,))
            elif partition not in after:
                # The entry was written while a request moved the partition, and began after that.
                self._ledger.take_back(partition)

    def unmet(self, world: World) -> dict[TopicPartition, Replicas]:
        """Return the expected targets that are not reached."""
        known = set(world.partitions())
        unmet = {
            partition: target
            for partition, target in self._targets.items()
            if partition in known and world.assignment(partition).replicas != target
        }
        return dict(self._ledger.unmet()) | unmet


def _had_reason(world: World, ledger: Ledger, partition: TopicPartition, target: Replicas) -> bool:
    """
    Return whether an entry may be refused.

    Its topic is gone or being deleted, a broker is not live or drained, a request moves the
    partition, the kill switch is set, or a cancellation may select it.
    """
    if partition not in world.partitions():
        return True
    spec = ledger.spec(partition)
    if spec is not None and (spec.route is Route.REQUEST or spec.rolls_back):
        return True
    if ledger.drains.may_be_drained(target):
        return True
    if ledger.may_be_disabled() or ledger.cancels.may_mean(partition):
        return True
    if partition.topic in (world.zookeeper.children(paths.DELETIONS) or ()):
        return True
    replicas = world.assignment(partition).replicas
    return any(world.invariants.may_seem_dead(r) for r in target if r not in replicas)
