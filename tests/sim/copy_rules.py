"""
The rule about redundancy: a daemon gives up no good copy that the partition still needs.

A good copy is a replica that is in the ISR, on a live broker. No write of a daemon that takes good
copies out of the ISR leaves fewer than the smaller of the original and the target assignment has. A
replication factor that shrinks asks for fewer. A replica that is dead or out of sync is no good
copy, so nothing is judged when it leaves. One that stays and that the request tolerates was no good
copy before: the original assignment counts without it.

A deletion needs no count of its own: no log of an ISR member is deleted at all
(``Rule.ISR_MEMBER_KEPT``), so a write that is judged here comes before each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import TYPE_CHECKING

from controller.core.model import (
    BrokerId,
    PartitionState,
    ReassignmentSpec,
    Replicas,
    RequestId,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.znodes.operator_controls import decode_limits
from controller.znodes.plans import decode_submission
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from tests.sim.judges import Judge, Znodes
    from tests.sim.record_rules import RecordRules
    from tests.sim.zookeeper import SimZooKeeper, Transaction

IsLive = Callable[[BrokerId], bool]


class Waiver(StrEnum):
    """Every exception to the rule; ``docs/guide/concepts.md`` documents the values."""

    BOUNCED = "a replica whose broker restarted leaves the ISR, as with Kafka's controller"
    DEAD_ORIGINAL = "a rollback does not wait for original replicas that are dead"


class Tolerance:
    """The brokers of which each request ever tolerated that they lag."""

    def __init__(self, zookeeper: SimZooKeeper) -> None:
        self._named: dict[RequestId, set[BrokerId]] = {}
        zookeeper.listeners.append(self._transacted)

    def of(self, spec: ReassignmentSpec) -> Collection[BrokerId]:
        """Return those of the request of a spec."""
        return self._named.get(spec.request, ())

    def _transacted(self, transaction: Transaction) -> None:
        for written in transaction.written:
            data = None if written.after is None else written.after.data
            match written.path.split("/")[1:]:
                case ["reassigner", "control", "limits"] if data is not None:
                    limits = decode_limits(data)
                    for request, own in () if isinstance(limits, str) else limits.requests.items():
                        self._name(request, own.tolerate_lagging or ())
                case ["admin", "reassignment_requests", name] if data is not None:
                    read = decode_submission(name, data, ZkVersion(0), Zxid(0), created_ms=0)
                    self._name(read.request, read.options.tolerate_lagging)
                case _:
                    pass

    def _name(self, request: RequestId, brokers: Replicas) -> None:
        self._named.setdefault(request, set()).update(brokers)


class CopyRules:
    """Counts the good copies that each write of a daemon leaves."""

    def __init__(
        self,
        judge: Judge,
        znodes: Znodes,
        records: RecordRules,
        joined_late: Collection[tuple[TopicPartition, BrokerId]],
    ) -> None:
        self._joined_late = joined_late
        self._judge = judge
        self._znodes = znodes
        self._records = records

    def written(
        self,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
        *,
        is_live: IsLive,
        may_be_live: IsLive,
        has_bounced: IsLive,
    ) -> None:
        """
        Judge a state that a daemon wrote.

        Args:
            partition: The partition of the state.
            before: The state before the write.
            after: The state after it.
            is_live: Returns whether the daemon had to know that a replica is live.
            may_be_live: Returns whether the daemon could take a replica for live.
            has_bounced: Returns whether a replica's broker restarted and no controller handled it.

        """
        replicas = self._znodes.replicas(partition)
        given_up = [
            r
            for r in before.isr
            if r in replicas
            and r not in after.isr
            and is_live(r)
            and (partition, r) not in self._joined_late
        ]
        if not given_up:
            return
        left = tuple(r for r in after.isr if r in replicas and may_be_live(r))
        waiver: Waiver | None = None
        if all(has_bounced(r) for r in given_up):
            waiver = Waiver.BOUNCED
        elif self._waits_for_the_dead_only(partition, left, is_live):
            waiver = Waiver.DEAD_ORIGINAL
        needed = self._needed(partition, lambda r: r in before.isr and is_live(r))
        self._judge.ensure(
            len(left) >= needed or waiver is not None,
            f"{partition}: good copies {given_up} left the ISR {before.isr}, only {left} stay of "
            f"{needed}; the assignment is {self._znodes.assignment(partition)}, the spec "
            f"{self._records.spec_of(partition)}",
            Rule.COPIES_KEPT,
        )

    def _needed(self, partition: TopicPartition, is_good: IsLive) -> int:
        spec, assignment = self._records.spec_of(partition), self._znodes.assignment(partition)
        if spec is not None:
            original, added = spec.original or (), assignment and assignment.adding_replicas
            staying = {*original} & {*spec.target} - {*(added or ())}
            tolerated = () if spec.rolls_back else staying & {*self._records.tolerated_of(spec)}
            lacking = sum(not is_good(r) for r in tolerated)
            return min(len(original or spec.target) - lacking, len(spec.target))
        if assignment is None:
            return 0
        return min(len(assignment.origin_replicas), len(assignment.target_replicas))

    def _waits_for_the_dead_only(
        self, partition: TopicPartition, left: Replicas, is_live: IsLive
    ) -> bool:
        """
        Return whether all originals that a rollback lacks are dead.

        Within the bound, which is one more replica at least, a dead original may leave no room for
        a good copy beside a live original that is added: that one does not count as lacking then.
        """
        spec, assignment = self._records.spec_of(partition), self._znodes.assignment(partition)
        if spec is None or assignment is None or not spec.rolls_back:
            return False
        has_room = len(assignment.replicas) <= 1 + max(
            len(spec.original or spec.target), len(spec.target)
        )
        added = () if has_room else assignment.adding_replicas
        lacking = [r for r in spec.target if r not in left]
        dead = [r for r in lacking if not is_live(r)]
        return bool(dead) and all(r in dead or r in added for r in lacking)
