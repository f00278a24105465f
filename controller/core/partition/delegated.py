"""
The delegated engine: one partition's way, told to the cluster's own controller (KIP-455).

What is durable of ours is the goal. An order (AlterPartitionReassignments) names the replicas that
one step leads to; that controller records the step in the topic znode, makes it and takes it out
again, and there its begin and its end are seen, also after hours without us. ``advance`` is
level-triggered as the native engine's is: whatever the topic znode names is followed, what has to
be told is told anew when it is not there.

A step that drops and adds is two orders, the drop first: else the controller would hold the dropped
replica until the new one is in sync. Where the drop has to wait, one order does both, and the
controller drops at the end. It accepts orders that leave nobody in sync; the gates do not.

An order that nobody answered may be made at any time. Nothing ends while that is so: the controller
works through orders one after another, so one that takes back what may be left is answered first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controller.core.effects import (
    AlterReassignment,
    Effect,
    ReadPurpose,
    ReadStates,
    ReadTopics,
    SetTimer,
)
from controller.core.foreign import foreign_gate, foreign_spec, is_explained
from controller.core.model import (
    AlterOutcome,
    Blocked,
    BlockedBy,
    Instant,
    Replicas,
    Route,
    TopicPartition,
)
from controller.core.partition.alter_backoff import SEEN_S, UNDONE_S, rest_of, resting
from controller.core.partition.gates import begin_gate, ids
from controller.core.partition.leader_selection import reassigned_leader
from controller.core.partition.native import ending
from controller.core.partition.prerequisites import leader_missing, state_unknown
from controller.core.partition.retarget import is_off_course
from controller.core.partition.step_start import StepStart
from controller.core.phases import AwaitingController, Ended, Expanding, Pending, Syncing
from controller.core.records import (
    BlockedRecord,
    Change,
    OrphanEndedRecord,
    Record,
    SpecEndedRecord,
    SpecRecord,
)
from controller.core.scheduling.budget import Budget
from controller.core.steps import Step, next_step
from controller.core.throttling.throttles import throttle_gate
from controller.core.view import ClusterView

ORDER_TIMER: Final = "controller_answer"


class DelegatedContext(StepStart):
    """A turn of the delegated engine: what each phase does next."""

    def advance(self, budget: Budget) -> Change | Blocked | None:
        """Return the next change, what is waited for, or None when there is nothing to do."""
        if self.spec.route is Route.FOREIGN:
            return self.foreign()
        step = self.advance_phase(budget)
        lost = self.lost_copies()
        if not lost:
            return step
        if isinstance(step, Change):
            return replace(step, records=(*lost, *step.records))
        noted = () if step is None else (BlockedRecord(self.partition, step, self.now),)
        return self.change(*lost, *noted)

    def advance_phase(self, budget: Budget) -> Change | Blocked | None:
        """Return what the phase wants next."""
        match self.reassignment.phase:
            case Pending() as phase:
                return self.pending(phase, budget)
            case Expanding():
                return self.follow("found in the topic znode")
            case AwaitingController() as phase:
                return self.ordered(phase, budget)
            case Syncing():
                return self.syncing(budget)
            case _:
                return None

    def pending(self, phase: Pending, budget: Budget) -> Change | Blocked | None:
        """Begin a step, or find that it is under way or made already."""
        if self.assignment.is_reassigning:
            return self.change(self.phase(Expanding(), "found in the topic znode"))
        if self.assignment.replicas == self.spec.target:
            return self.end("already at its target", budget, stands=True)
        return resting(phase, self.now) or self.begin(budget, "step begins")

    def follow(self, cause: str) -> Change:
        """Watch how the controller makes the step."""
        return self.change(self.phase(Syncing(), cause), effects=self.look())

    def look(self) -> tuple[Effect, ...]:
        """Read the state, and be told of its next change."""
        return (ReadStates((self.partition,), ReadPurpose.WATCH),)

    # --- a step begins -------------------------------------------------------------------------

    def begin(self, budget: Budget, cause: str) -> Change | Blocked:
        """Return the next order, or what forbids it."""
        step = next_step(
            self.assignment.replicas,
            self.spec.target,
            self.state.leader,
            self.step_size,
            lambda r: r in self.state.isr and self.is_live(r),
        )
        target = self.target_of(step)
        if isinstance(target, Blocked):
            return target
        adding = tuple(r for r in target if r not in self.assignment.replicas)
        blocked = foreign_gate(self.view, self.spec) or self.gate(step, adding, budget)
        if blocked is not None:
            return blocked
        leader = self.state.leader
        unread = self.unread()
        if unread is not None:
            budget.take(self.partition, self.spec.request, adding, leader)
            return unread
        ordered = self.order(target, cause, budget, cancels=False)
        if isinstance(ordered, Change):
            budget.take(self.partition, self.spec.request, adding, leader)
        return ordered

    def unread(self) -> Change | Blocked | None:
        """Have the state read where it may have changed: no compare-and-set will notice that."""
        if self.view.watched.get(self.partition) is True:
            return None
        if self.partition in self.view.unreadable_states:
            return state_unknown(self.view, self.partition)
        if self.partition in self.view.watched:
            return Blocked(BlockedBy.STATE_UNKNOWN, "its state is being read")
        return self.change(effects=self.look())

    def unanswered(self) -> Blocked | None:
        """Return that an order is out: until it is answered there is no other."""
        if not self.reassignment.is_out:
            return None
        return Blocked(BlockedBy.CONTROLLER_ANSWER, "the order is not answered yet")

    def target_of(self, step: Step) -> Replicas | Blocked:
        """Return what the next order names: the drop alone where it can go before the copy."""
        blocked = self.drop_blocked(step.dropping) if step.dropping else None
        if not step.adding:
            return step.target if blocked is None else blocked
        if not step.dropping or not self.drops_first or blocked is not None:
            return step.target
        kept = tuple(r for r in self.assignment.replicas if r not in step.dropping)
        return step.target if self.leader_within(kept) is None else kept

    def gate(self, step: Step, adding: Replicas, budget: Budget) -> Blocked | None:
        """Return what keeps the step from beginning."""
        current, leader = self.assignment.replicas, self.state.leader
        blocked = begin_gate(
            self.view, self.partition, self.spec, self.state, current, step, by_others=True
        )
        if blocked is None and adding:
            blocked = self.bound(current, step)
        if blocked is None:
            blocked = budget.gate(self.partition, self.reassignment, adding, leader)
        if blocked is None and adding:
            blocked = throttle_gate(self.view, self.partition, self.spec)
        return blocked

    def order(
        self, target: Replicas, cause: str, budget: Budget, *, cancels: bool
    ) -> Change | Blocked:
        """Tell the controller what replicas there are to be."""
        blocked = self.unanswered()
        if blocked is not None:
            return blocked
        records: tuple[Record, ...] = ()
        if self.state.leader not in target:
            # Whom the controller elects: the first of the target that is live and in sync.
            leader = reassigned_leader(target, self.state.isr, self.is_live)
            if leader is not None:
                moved = self.moved_leader(leader, budget)
                if isinstance(moved, Blocked):
                    return moved
                records += moved
        for broker in target:
            orphan = self.view.orphans.get((broker, self.partition))
            if orphan is not None and self.is_live(broker):
                # Its old copy is taken up again.
                records += (OrphanEndedRecord(orphan),)
        return self.change(
            *records,
            self.phase(AwaitingController(target, self.now), cause),
            effects=(AlterReassignment(self.partition, target, cancels=cancels),),
        )

    # --- an order is out -----------------------------------------------------------------------

    def ordered(self, phase: AwaitingController, budget: Budget) -> Change | Blocked | None:
        """Find in the topic znode what the controller made of the order."""
        assignment = self.assignment
        if assignment.is_reassigning:
            if assignment.target_replicas == phase.target:
                return self.follow("the controller began the step")
        elif assignment.replicas == phase.target:
            return self.step_ended(budget)
        return self.not_made(phase)

    def not_made(self, phase: AwaitingController) -> Change | Blocked:
        """Wait for what becomes of an order that ZooKeeper says nothing of, or decide anew."""
        if phase.fate is AlterOutcome.WITHDRAWN:
            return self.decide_anew(0.0, "what the order stood on changed")
        if phase.error is None:
            return Blocked(BlockedBy.CONTROLLER_ANSWER, "the order is not answered yet")
        if phase.error:
            # Without a step in the topic znode it rests as ``Pending`` does.
            blocked = resting(phase, self.now) if self.assignment.is_reassigning else None
            return blocked or self.decide_anew(rest_of(phase), phase.why)
        if self.now < phase.since + SEEN_S:
            waits = "the order is accepted and is not in ZooKeeper yet"
            return Blocked(BlockedBy.CONTROLLER_ANSWER, waits)
        why = "the order was accepted and is not in ZooKeeper"
        return self.decide_anew(rest_of(phase), why)

    def decide_anew(self, rest_s: float, why: str) -> Change:
        """Look at everything anew after an order that was not made, when it has rested."""
        until = Instant(self.now + rest_s) if rest_s else None
        anew = Syncing() if self.assignment.is_reassigning else Pending(until, why)
        timer = () if until is None else (SetTimer(ORDER_TIMER, until),)
        return self.change(
            self.phase(anew, f"not made: {why}"),
            effects=(*timer, ReadTopics((self.partition.topic,)), *self.look()),
        )

    # --- the controller makes the step ---------------------------------------------------------

    def syncing(self, budget: Budget) -> Change | Blocked | None:
        """Follow the step to its end; turn it round where it leads elsewhere than the goal."""
        if not self.assignment.is_reassigning:
            return self.step_ended(budget)
        if not is_explained(self.view, self.spec, self.assignment):
            return Blocked(
                BlockedBy.FOREIGN_MOVES,
                f"others move it to {ids(self.assignment.target_replicas)}",
            )
        turned = self.turned_target()
        if turned is not None:
            return self.turn(turned, budget)
        return self.unsynced(self.assignment.target_replicas) or Blocked(
            BlockedBy.CONTROLLER_ANSWER, "the controller has not ended the step yet"
        )

    def turned_target(self) -> Replicas | None:
        """
        Return what an order has to name so that the step leads to the goal; None: it does.

        What the order leaves out of what is being added the controller drops at once, and it keeps
        what it was to drop. A dead replica that nobody wants would keep the step from ending.
        """
        assignment, spec = self.assignment, self.spec
        if is_off_course(self):
            added = (r for r in assignment.adding_replicas if r in spec.target)
            kept = (*assignment.origin_replicas, *added)
        else:
            target = assignment.target_replicas
            lost = [
                r
                for r in target
                if r not in spec.target and r not in self.state.isr and not self.is_live(r)
            ]
            if not lost:
                return None
            kept = tuple(r for r in target if r not in lost)
        return spec.target if set(kept) == set(spec.target) else kept

    def turn(self, target: Replicas, budget: Budget) -> Change | Blocked:
        """Tell the controller another target, where the gate lets go what it will drop at once."""
        assignment, isr = self.assignment, self.state.isr
        going = tuple(r for r in assignment.replicas if r not in target)
        blocked = self.drop_blocked(going)
        if blocked is not None:
            # What is not in sync may always go.
            staying = tuple(r for r in going if r in isr or r == self.state.leader)
            if set(staying) == set(going):
                return blocked
            target = (*target, *staying)
        if reassigned_leader(target, isr, self.is_live) is None:
            return Blocked(BlockedBy.NO_LEADER, "no live in-sync replica in the target")
        if target == assignment.target_replicas:
            return blocked or Blocked(BlockedBy.CONTROLLER_ANSWER, "the step is turned round")
        unread = self.unread()
        if unread is not None:
            return unread
        cause = "turned back" if self.spec.rolls_back else "the target changed"
        return self.order(target, cause, budget, cancels=target == assignment.origin_replicas)

    def step_ended(self, budget: Budget) -> Change | Blocked | None:
        """End the reassignment, or begin the next step."""
        blocked = self.unanswered()
        if blocked is not None:
            return blocked
        if self.assignment.replicas == self.spec.target:
            return self.end("the target is in sync", budget)
        if self.reassignment.ordered not in (None, self.assignment.replicas):
            until = Instant(self.now + UNDONE_S)
            why = "others took the step back or made another one"
            return self.change(
                self.phase(Pending(until, why), why), effects=(SetTimer(ORDER_TIMER, until),)
            )
        budget.give_back(self.reassignment)
        begun = self.begin(budget, "next step")
        if isinstance(begun, Change) and begun.records:
            return begun
        waits = begun.detail if isinstance(begun, Blocked) else "its state is being read"
        return self.change(
            self.phase(Pending(), f"next step waits: {waits}"),
            effects=() if isinstance(begun, Blocked) else begun.effects,
        )

    def end(self, cause: str, budget: Budget, *, stands: bool = False) -> Change | Blocked:
        """
        End the record, once nothing is left that the controller may still make.

        Where no step of ours was seen to end, it ends only where the topic znode still says so.
        """
        if self.reassignment.in_doubt:
            return self.take_back(budget)
        return self.unanswered() or self.change(
            self.phase(Ended(), cause), *ending(self.spec, self.partition, stands=stands)
        )

    def take_back(self, budget: Budget) -> Change | Blocked:
        """Have the controller take back what it may still make: what is there is to stay."""
        here = self.assignment.replicas
        if reassigned_leader(here, self.state.isr, self.is_live) is None:
            return Blocked(BlockedBy.NO_LEADER, "no live in-sync replica")
        blocked = resting(self.reassignment.phase, self.now) or self.unread()
        if blocked is not None:
            return blocked
        return self.order(here, "an order may still be made", budget, cancels=True)

    def lost_copies(self) -> tuple[Record, ...]:
        """Return a record of each copy that nobody deletes: its broker was dead when it went."""
        return self.orphan_records(
            (b, "its broker was dead when the controller dropped it")
            for b in sorted(self.reassignment.lost)
            if b not in self.assignment.replicas and (b, self.partition) not in self.view.orphans
        )

    # --- what others move ----------------------------------------------------------------------

    def foreign(self) -> Change | Blocked | None:
        """Follow a move of others to its end, and tell how far it is."""
        assignment = self.assignment
        if not isinstance(self.reassignment.phase, Syncing):
            return self.follow("others move it")
        if not assignment.is_reassigning:
            reached = assignment.replicas == self.spec.target
            cause = "others ended it" if reached else "others took it back"
            gone = SpecEndedRecord(self.partition, None, self.spec.request, cause)
            return self.change(self.phase(Ended(), cause), gone)
        if assignment.target_replicas != self.spec.target:
            return self.change(SpecRecord(self.partition, foreign_spec(assignment)))
        return self.unsynced(assignment.target_replicas) or Blocked(
            BlockedBy.CONTROLLER_ANSWER, "the controller has not ended the step yet"
        )


def advance(
    view: ClusterView, partition: TopicPartition, now: Instant, budget: Budget
) -> Change | Blocked | None:
    """Decide what one reassigning partition does next; see ``native.advance``."""
    turn = DelegatedContext.of(view, partition, now)
    if not isinstance(turn, DelegatedContext):
        return turn
    if not turn.is_live(turn.state.leader) and isinstance(turn.reassignment.phase, Pending):
        return leader_missing(turn.state)
    return turn.advance(budget)
