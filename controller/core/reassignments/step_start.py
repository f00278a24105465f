"""
The start of a step: its writes U and A1, the sends of A2, and what forbids them.

Every step starts here: an ordinary one, one found in a topic znode, and a retargeted one, whose
target changed (the drop set of KIP-236) or whose copies a disk has no room for. ``native`` and
``delegated`` decide when each is due.

A retarget adds nothing. An added replica that is not wanted any more leaves, at once where it is
not in sync, otherwise through the gate of every drop; a removed replica that is wanted again stays,
and so does a good copy that waits for replicas which only a later step adds. A copy that would fill
its disk is taken back before it is in sync. From there the ordinary steps continue.
"""

from __future__ import annotations

from typing import Final

from controller.core.disks import disk_space
from controller.core.model import Blocked, BlockedBy, BrokerId, PartitionAssignment, Replicas, Route
from controller.core.pacing.budget import Budget
from controller.core.pacing.records import LeaderMovedRecord
from controller.core.reassignments import phases, records
from controller.core.reassignments.partition_context import PartitionContext
from controller.core.reassignments.steps import Step, drop_set
from controller.core.records import Change, Record
from controller.core.topics.records import AssignmentRecord

NO_ROOM: Final = "a log directory fills"
"""The cause of a step's retarget that takes copies back."""


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
        if not self.drops_first or not self._outgrows(len(current) + len(step.adding)):
            return None
        return blocked or self.copies_gate(step.dropping, current)

    def _outgrows(self, replicas: int) -> bool:
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
        has_room = not adds or not self._outgrows(len(assignment.replicas))
        must_wait = not self.drops_first or (has_room and not self.keeps_copies(dropping))
        if not dropping or must_wait or self.drop_blocked(dropping) is not None:
            leader = None
        return self._start(assignment, leader, before, cause, budget)

    def _start(
        self,
        assignment: PartitionAssignment,
        leader: BrokerId | None,
        before: tuple[Record, ...],
        cause: str,
        budget: Budget,
    ) -> Change | Blocked:
        # U and A1 are one change, with the sends of A2. ``leader`` leads once this write takes the
        # dropped replicas out of the ISR; None leaves them in. The records ``before`` belong to the
        # same change.
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
            epoch, is_led_anew = write.leader_epoch, leader != self.state.leader
            phase = phases.Starting(epoch, epoch, dropped, is_led_anew)
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

    # --- a step is retargeted --------------------------------------------------------------------

    def retarget_step(self, budget: Budget) -> Change | Blocked | None:
        """Retarget a step that does not lead to the present target, or lacks room on a disk."""
        retargeted = self._retargeted_step()
        if retargeted is None or retargeted[0] == self.assignment:
            return None
        assignment, cause = retargeted
        leader: BrokerId | None = None
        if assignment.removing_replicas:
            leader = self.leader_within(assignment.target_replicas)
            if leader is None:
                return Blocked(BlockedBy.NO_LEADER, "no live in-sync replica in the target")
        return self._start(assignment, leader, (), cause, budget)

    def _retargeted_step(self) -> tuple[PartitionAssignment, str] | None:
        # A replica that leaves while it is being added is listed as both adding and removing until
        # its deletion is acknowledged: a Kafka controller that takes over removes it then.
        is_off = self.is_off_course()
        if not is_off and not self._is_stuck():
            copies = self.without_room()
            return (self._taken_back(copies), NO_ROOM) if copies else None
        cause = self.changed_cause if is_off else "good copies wait for a later step"
        assignment, target = self.assignment, self.spec.target
        dropping = self._retarget_drops()
        if dropping and set(dropping) == {r for r in assignment.replicas if r not in target}:
            kept = tuple(r for r in target if r in assignment.replicas)
        else:
            kept = tuple(r for r in assignment.replicas if r not in dropping)
        replicas = kept + dropping
        adding = tuple(r for r in replicas if r in assignment.adding_replicas)
        return PartitionAssignment(replicas, adding, dropping), cause

    def is_off_course(self) -> bool:
        """Return whether the step adds unwanted replicas or removes wanted ones."""
        assignment, target = self.assignment, self.spec.target
        adding, removing = assignment.adding_replicas, assignment.removing_replicas
        unwanted = any(r not in target and r not in removing for r in adding)
        # A replica in both sets was reduced to the step size, or is leaving already.
        missed = any(r in target and r not in adding for r in removing)
        return unwanted or missed

    @property
    def changed_cause(self) -> str:
        """The cause of a step's retarget to the present target."""
        return "rolled back" if self.spec.rolls_back else "the target changed"

    def without_room(self) -> Replicas:
        """Return the added replicas that would fill their disks and are not in the ISR."""
        # A foreign reassignment continues: once it is not in the topic znode, nothing records it.
        if self.spec.route is Route.FOREIGN:
            return ()
        without = (*self.state.isr, *self.assignment.removing_replicas)
        copying = (r for r in self.assignment.adding_replicas if r not in without)
        return tuple(r for r in copying if disk_space.has_no_room(self.view, r, self.partition))

    def _taken_back(self, copies: Replicas) -> PartitionAssignment:
        # All other replicas stay. So does one that the step removes, unless it is leaving as an
        # unwanted copy: it may be the one that the copy was to replace.
        assignment, isr = self.assignment, self.state.isr
        adding = assignment.adding_replicas
        leaving = tuple(r for r in assignment.removing_replicas if r in adding and r not in isr)
        dropping = copies + leaving
        staying = tuple(r for r in assignment.replicas if r not in dropping)
        original = self.spec.original or ()
        kept = original if set(original) == set(staying) else staying
        return PartitionAssignment(kept + dropping, adding, dropping)

    def _is_stuck(self) -> bool:
        # Whether the removed replicas wait for replicas that only a later step can add. A foreign
        # step removes copies that the rollback still needs. So does a step of ours that lost
        # another copy meanwhile, one whose target got larger, and one that removes a replica that
        # was dead at its begin and is a good copy now. The same holds where ``min.insync.replicas``
        # was raised since.
        assignment, removing = self.assignment, self.assignment.removing_replicas
        # A tolerated replica is one that the removed ones wait for: no other step would help.
        if not removing or self.awaited(assignment.target_replicas, tolerates=False):
            return False
        waits_for = self.drop_blocked(removing)
        is_below_min_isr = waits_for is not None and waits_for.by is BlockedBy.MIN_ISR
        if not is_below_min_isr and self.copies_gate(removing) is None:
            return False
        live = self.view.live(self.spec.target, self.partition)
        return all(r in self.state.isr for r in live if r in assignment.replicas)

    def _retarget_drops(self) -> Replicas:
        assignment, state, spec = self.assignment, self.state, self.spec
        excess = tuple(r for r in assignment.replicas if r not in spec.target)
        is_whole = all(r in assignment.replicas for r in spec.target)
        if is_whole and self._can_leave(excess):
            return excess
        chosen = drop_set(assignment.replicas, state.isr, state.leader, spec.top, spec.target)
        if is_whole:
            chosen = excess
        can_go = self._can_leave(chosen)
        if chosen and can_go and state.leader not in chosen:
            return chosen
        return tuple(r for r in chosen if r not in state.isr and r != state.leader)

    def _can_leave(self, dropping: Replicas) -> bool:
        return self.keeps_copies(dropping) and self.drop_blocked(dropping) is None
