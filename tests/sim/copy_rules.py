"""
The rule about redundancy: a daemon gives up no good copy that the partition still needs.

A good copy is a replica that is in the ISR, on a live broker. No write of a daemon that takes good
copies out of the ISR leaves fewer than the smaller of the original and the target assignment has. A
replication factor that shrinks asks for fewer. A replica that is dead or out of sync is no good
copy, so nothing is judged when it leaves.

A deletion needs no count of its own: no log of an ISR member is deleted at all
(``Rule.ISR_MEMBER_KEPT``), so a write that is judged here comes before each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicPartition,
)
from tests.sim.rules import Rule

if TYPE_CHECKING:
    from tests.sim.judges import Judge, Znodes
    from tests.sim.record_rules import RecordRules

IsLive = Callable[[BrokerId], bool]


class Waiver(StrEnum):
    """Every exception to the rule; the values say what ``docs/concepts.md`` allows."""

    UNSOUND_AT_BEGIN = "a replica that was dead or out of sync when its step began leaves with it"
    DEAD_ORIGINAL = "the way back does not wait for originals that are dead"


class CopyRules:
    """Counts the good copies that each write of a daemon leaves."""

    def __init__(self, judge: Judge, znodes: Znodes, records: RecordRules) -> None:
        self._judge = judge
        self._znodes = znodes
        self._records = records
        self._unsound: defaultdict[TopicPartition, frozenset[BrokerId]] = defaultdict(frozenset)
        """Replicas to be dropped that were no good copies when their step began."""

    def marked(
        self,
        partition: TopicPartition,
        old: PartitionAssignment,
        new: PartitionAssignment,
        is_live: IsLive,
    ) -> None:
        """Remember which replicas that a step is about to drop are no good copies."""
        state = self._znodes.states.get(partition)
        isr = () if state is None else state.isr
        known = self._unsound[partition].union(
            r
            for r in new.removing_replicas
            if r not in old.removing_replicas and not (r in isr and is_live(r))
        )
        self._unsound[partition] = known.intersection(new.removing_replicas)

    def written(
        self,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
        *,
        is_live: IsLive,
        may_be_live: IsLive,
    ) -> None:
        """
        Judge a state that a daemon wrote.

        Args:
            partition: Whose state it is.
            before: The state before the write.
            after: The state after it.
            is_live: Whether the daemon had to know that a replica is live.
            may_be_live: Whether the daemon could take a replica for live.

        """
        replicas = self._znodes.replicas(partition)
        given_up = [r for r in before.isr if r in replicas and r not in after.isr and is_live(r)]
        if not given_up:
            return
        left = tuple(r for r in after.isr if r in replicas and may_be_live(r))
        needed = self._needed(partition)
        self._judge.ensure(
            len(left) >= needed or self._waiver(partition, given_up, left, is_live) is not None,
            f"{partition}: good copies {given_up} left the ISR {before.isr}, only {left} stay of "
            f"{needed}; the assignment is {self._znodes.assignment(partition)}, the goal "
            f"{self._records.goal_of(partition)}",
            Rule.COPIES_KEPT,
        )

    def _needed(self, partition: TopicPartition) -> int:
        goal, assignment = self._records.goal_of(partition), self._znodes.assignment(partition)
        if goal is not None:
            return min(len(goal.original or goal.target), len(goal.target))
        if assignment is None:
            return 0
        return min(len(assignment.origin_replicas), len(assignment.target_replicas))

    def _waiver(
        self, partition: TopicPartition, given_up: list[BrokerId], left: Replicas, is_live: IsLive
    ) -> Waiver | None:
        """Return which exception allows a write that leaves too few good copies."""
        if self._unsound[partition].issuperset(given_up):
            return Waiver.UNSOUND_AT_BEGIN
        goal = self._records.goal_of(partition)
        if goal is not None and goal.rolls_back:
            awaited = [r for r in goal.target if r not in left and is_live(r)]
            return None if awaited else Waiver.DEAD_ORIGINAL
        return None
