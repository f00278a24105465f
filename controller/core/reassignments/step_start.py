"""
The start of a step: its writes U and A1, the sends of A2, and what forbids them.

Every step starts here: an ordinary one, one found in a topic znode, and a retargeted one.
``native`` and ``delegated`` decide when each is due.
"""

from __future__ import annotations

from controller.core.model import Blocked, BlockedBy, BrokerId, PartitionAssignment, Replicas
from controller.core.pacing.budget import Budget
from controller.core.pacing.records import LeaderMovedRecord
from controller.core.reassignments import phases, records
from controller.core.reassignments.partition_context import PartitionContext
from controller.core.reassignments.retarget import retargeted_step
from controller.core.reassignments.steps import Step
from controller.core.records import Change, Record
from controller.core.topics.records import AssignmentRecord


class StepStart(PartitionContext):
    """A context that can start a step."""

    def bound_gate(self, current: Replicas, step: Step) -> Blocked | None:
        """
        Refuse to add where the drop has to wait and the replica set would exceed its bound.

        A rollback begins steps while original replicas lag: no good copy leaves before the live
        ones have caught up.
        """
        blocked = self.drop_blocked(step.dropping)
        if not step.adding:
            return blocked
        if not self.drops_first or not self.outgrows(len(current) + len(step.adding)):
            return None
        return blocked or self.remaining_copies_gate(step.dropping, current)

    def outgrows(self, replicas: int) -> bool:
        """Return whether this number of serving or copying replicas exceeds the bound."""
        original = self.spec.original or self.spec.target
        return replicas > max(len(original), len(self.spec.target)) + (self.step_size or 0)

    def open_step(
        self,
        assignment: PartitionAssignment,
        before: tuple[Record, ...],
        cause: str,
        budget: Budget,
    ) -> Change | Blocked:
        """
        Write the step into the topic znode with A1, dropping first where no copy is lost.

        A good copy leaves before its replacement only where the step adds a replica and the bound
        has no room for both. A step that adds nothing needs no room: a foreign one, or the last one
        of a rollback, keeps its good copies.
        """
        dropping = assignment.removing_replicas
        leader = self.leader_within(assignment.target_replicas)
        adds = any(r not in self.assignment.replicas for r in assignment.replicas)
        has_room = not adds or not self.outgrows(len(assignment.replicas))
        must_wait = not self.drops_first or (has_room and not self.keeps_copies(dropping))
        if not dropping or must_wait or self.drop_blocked(dropping) is not None:
            leader = None
        return self.start(assignment, leader, before, cause, budget)

    def start(
        self,
        assignment: PartitionAssignment,
        leader: BrokerId | None,
        before: tuple[Record, ...],
        cause: str,
        budget: Budget,
    ) -> Change | Blocked:
        """
        Return U and A1 in one change, with the sends of A2.

        Args:
            assignment: The entry of the topic znode during the step.
            leader: The leader once this write takes the dropped replicas out of the ISR; None
                leaves them in.
            before: Records that belong to the same change.
            cause: The reason for the log.
            budget: Leader moves are counted against it.

        """
        written: tuple[Record, ...] = (*before, *self.approval_used(), *self.listing())
        if assignment != self.assignment:
            written += (AssignmentRecord(self.partition, assignment),)
        for broker in assignment.adding_replicas:
            orphan = self.view.reassignments.orphans.get((broker, self.partition))
            if orphan is not None:
                written += (records.OrphanEndedRecord(orphan),)
        if leader is None:
            write = self.state_record(self.state.leader, self.state.isr)
            phase = phases.Starting(write.leader_epoch, None)
            recipients = assignment.replicas
        else:
            moved = self.moved_leader(leader, budget)
            if isinstance(moved, Blocked):
                return moved
            written += moved
            isr = tuple(r for r in self.state.isr if r not in assignment.removing_replicas)
            write = self.state_record(leader, isr)
            dropped = assignment.removing_replicas
            phase = phases.Starting(write.leader_epoch, write.leader_epoch, dropped)
            recipients = assignment.target_replicas
        new = tuple(r for r in assignment.adding_replicas if r in recipients)
        return self.change(
            *written, write, self.phase(phase, cause), effects=self.send_state(recipients, new)
        )

    def moved_leader(
        self, leader: BrokerId, budget: Budget
    ) -> tuple[LeaderMovedRecord, ...] | Blocked:
        """Return the record of a leader move, or the limit that forbids it now."""
        old = self.state.leader
        if leader == old:
            return ()
        blocked = budget.leader_gate(old, leader)
        if blocked is not None:
            return blocked
        budget.move_leader(old, leader)
        return (LeaderMovedRecord((old, leader), self.now),)

    def retarget_step(self, budget: Budget) -> Change | Blocked | None:
        """Retarget a step that does not lead to the present target, or lacks room on a disk."""
        retargeted = retargeted_step(self)
        if retargeted is None or retargeted[0] == self.assignment:
            return None
        assignment, cause = retargeted
        leader: BrokerId | None = None
        if assignment.removing_replicas:
            leader = self.leader_within(assignment.target_replicas)
            if leader is None:
                return Blocked(BlockedBy.NO_LEADER, "no live in-sync replica in the target")
        return self.start(assignment, leader, (), cause, budget)
