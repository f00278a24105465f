"""
The delegated engine: reassignments carried out by the cluster's own controller (KIP-455).

The spec is our only durable record. An alter entry (AlterPartitionReassignments) contains the
replicas after one step; the controller records the step in the topic znode, carries it out and
removes it: there its begin and end are seen, also after hours without a daemon. ``advance`` is
level-triggered like the native engine's: it follows whatever the topic znode contains.

A step that drops and adds is two alter entries, the drop first: otherwise the controller would
keep the dropped replica until the new one is in sync. Where the drop has to wait, one request does
both, and the controller drops at the end. The controller accepts requests that leave no replica in
sync; the gates do not.

An unanswered alter entry may be carried out at any time. No reassignment ends while that is
possible: the controller processes requests in order, so a request that cancels what may be left is
answered first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controller.core import effects, model, wakeups
from controller.core.leadership import leader_selection
from controller.core.model import Blocked, BlockedBy, Instant, Replicas, Route, TopicPartition
from controller.core.pacing.budget import Budget
from controller.core.pacing.throttles import throttle_gate
from controller.core.reassignments import foreign_policy, gates, native, orphans, phases, records
from controller.core.reassignments.placing import ReplicaPlacement
from controller.core.reassignments.step_start import NO_ROOM
from controller.core.reassignments.steps import Step, next_step
from controller.core.records import Change, Decision, Record
from controller.core.requests.submissions import Standing, standing_of
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

UNANSWERED: Final = Blocked(
    BlockedBy.CONTROLLER_ANSWER, "the controller has not answered the request yet"
)
UNENDED: Final = Blocked(BlockedBy.CONTROLLER_ANSWER, "the controller has not ended the step yet")


class DelegatedContext(ReplicaPlacement):
    """A partition's context in the delegated engine: the next action of each phase."""

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
        noted = () if step is None else (records.BlockedRecord(self.partition, step, self.now),)
        return self.change(*lost, *noted)

    def advance_phase(self, budget: Budget) -> Change | Blocked | None:
        """Return the next action of the phase."""
        match self.reassignment.phase:
            case phases.Pending() as phase:
                return self.pending(phase, budget)
            case phases.Expanding():
                return self.follow("found in the topic znode")
            case phases.AwaitingController() as phase:
                return self.awaiting(phase, budget)
            case phases.Syncing():
                return self.syncing(budget)
            case phases.Placing() as phase:
                placing = self.placing(phase, budget)
                return placing or self.end(
                    "its replicas are in their directories", budget, stands=True
                )
            case _:
                return None

    def pending(self, phase: phases.Pending, budget: Budget) -> Change | Blocked | None:
        """Begin a step, or find that it is in flight or done already."""
        if self.assignment.is_reassigning:
            return self.change(self.phase(phases.Expanding(), "found in the topic znode"))
        if self.assignment.replicas == self.spec.target:
            if self.spec.has_directories:
                return self.begin_placing(budget)
            return self.electing(budget) or self.end("already at its target", budget, stands=True)
        if self.has_drifted:
            return self.refuse_drift(budget)
        return phases.backing_off(phase, self.now) or self.begin(budget, "step begins")

    def follow(self, cause: str) -> Change:
        """Watch the controller carry out the step."""
        standing = standing_of(self.spec, self.assignment)
        used = self.approval_used() if standing is Standing.BEGUN else ()
        return self.change(*used, self.phase(phases.Syncing(), cause), effects=self.look())

    def look(self) -> tuple[effects.Effect, ...]:
        """Return the read of the state that also watches it."""
        return (effects.ReadStates((self.partition,), effects.ReadPurpose.WATCH),)

    # --- a step begins ---------------------------------------------------------------------------

    def begin(  # noqa: PLR0911 - one return per gate
        self, budget: Budget, cause: str
    ) -> Change | Blocked:
        """Return the next alter entry, or what forbids it."""
        if self.has_drifted:
            return self.refuse_drift(budget)
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
        blocked = foreign_policy.foreign_gate(self.view, self.spec) or self.gate(
            step, adding, budget
        )
        if blocked is not None:
            return blocked
        leader = self.state.leader
        waits = self.placement_gate(adding)
        if waits is not None:
            if self.is_answered_soon:
                budget.take(self.partition, self.spec.request, adding, leader)
            return self.placements(waits)
        unread = self.unread()
        if unread is not None:
            budget.take(self.partition, self.spec.request, adding, leader)
            return unread
        requested = self.alter(target, cause, budget, cancels=False)
        if not isinstance(requested, Change):
            return requested
        budget.take(self.partition, self.spec.request, adding, leader)
        return replace(requested, records=(*self.request_records(target), *requested.records))

    def request_records(self, target: Replicas) -> tuple[Record, ...]:
        """
        Return the record of the alter entry with which an approved entry begins.

        The controller may carry the entry out while no daemon runs. The record shows the next
        daemon that these replicas are not another client's.
        """
        if self.spec.expected is None:
            return ()
        if standing_of(self.spec, self.assignment) is Standing.BEGUN:
            return self.approval_used()
        if self.spec.asked == target:
            return ()
        return (records.SpecRecord(self.partition, replace(self.spec, asked=target)),)

    def refuse_drift(self, budget: Budget) -> Change | Blocked:
        """Refuse a drifted entry; a request that may be carried out is taken back first."""
        if not self.reassignment.may_be_made:
            return self.refused_as_drifted()
        if self.assignment.is_reassigning:
            return self.foreign_block()
        if self.reassignment.in_doubt:
            return self.take_back(budget)
        return self.answer_gate() or self.refused_as_drifted()

    def foreign_block(self) -> Blocked:
        """Return the block of a step in the topic znode that is another client's."""
        detail = f"a foreign reassignment leads to {model.ids(self.assignment.target_replicas)}"
        return Blocked(BlockedBy.FOREIGN_MOVES, detail)

    def unread(self) -> Change | Blocked | None:
        """Have a state read that may have changed: no compare-and-set would notice that."""
        if self.view.leadership.watched.get(self.partition) is True:
            return None
        if self.partition in self.view.leadership.unreadable:
            return gates.state_unknown(self.view, self.partition)
        if self.partition in self.view.leadership.watched:
            return Blocked(BlockedBy.STATE_UNKNOWN, "its state znode is being read")
        return self.change(effects=self.look())

    def answer_gate(self) -> Blocked | None:
        """Block while an alter entry is not answered: until then no other is sent."""
        return UNANSWERED if self.reassignment.is_requested else None

    def target_of(self, step: Step) -> Replicas | Blocked:
        """Return the target of the next request: only the drop where that can precede the copy."""
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
        blocked = gates.begin_gate(
            self.view, self.partition, self.spec, self.state, current, step, by_others=True
        )
        blocked = self.said_intolerant(blocked)
        if blocked is None and adding:
            blocked = self.bound_gate(current, step)
        if blocked is None and self.awaited_leader is not None:
            isr = self.state.isr
            blocked = gates.election_gate(self.view, self.partition, isr, self.awaited_leader)
        if blocked is None:
            blocked = budget.gate(self.partition, self.reassignment, adding, leader)
        if blocked is None and adding:
            blocked = throttle_gate(self.view, self.partition, self.spec)
        return blocked

    def alter(
        self, target: Replicas, cause: str, budget: Budget, *, cancels: bool
    ) -> Change | Blocked:
        """Ask the controller for the target replicas."""
        blocked = self.answer_gate()
        if blocked is not None:
            return blocked
        written: tuple[Record, ...] = ()
        if self.state.leader not in target:
            # The controller elects the first of the target that is live and in sync.
            leader = leader_selection.reassigned_leader(target, self.state.isr, self.is_live)
            if leader is not None:
                moved = self.moved_leader(leader, budget)
                if isinstance(moved, Blocked):
                    return moved
                written += moved
        return self.change(
            *written,
            self.phase(phases.AwaitingController(target, self.now), cause),
            effects=(effects.AlterReassignment(self.partition, target, cancels=cancels),),
        )

    # --- a request is sent -----------------------------------------------------------------------

    def awaiting(self, phase: phases.AwaitingController, budget: Budget) -> Change | Blocked | None:
        """Find in the topic znode what the controller did with the request."""
        assignment = self.assignment
        if assignment.is_reassigning:
            if assignment.target_replicas == phase.target:
                return self.follow("the controller began the step")
        elif assignment.replicas == phase.target:
            return self.step_ended(budget)
        return self.not_carried_out(phase)

    def not_carried_out(self, phase: phases.AwaitingController) -> Change | Blocked:
        """Wait for the outcome of a request that has no effect in ZooKeeper, or decide again."""
        if phase.fate is model.AlterOutcome.WITHDRAWN:
            return self.decide_anew(0.0, "the preconditions of the request changed")
        if phase.error is None:
            return UNANSWERED
        if phase.error:
            # Without a step in the topic znode it backs off in ``Pending``.
            is_there = self.assignment.is_reassigning
            blocked = phases.backing_off(phase, self.now) if is_there else None
            return blocked or self.decide_anew(phases.backoff_of(phase), phase.why)
        if self.now < phase.since + phases.SEEN_S:
            waits = "the controller accepted the request, and ZooKeeper does not show it yet"
            return Blocked(BlockedBy.CONTROLLER_ANSWER, waits)
        why = "the controller accepted the request, and ZooKeeper does not show it"
        return self.decide_anew(phases.backoff_of(phase), why)

    def decide_anew(self, rest_s: float, why: str) -> Change:
        """Decide again after the back-off of a request that was not carried out."""
        until = Instant(self.now + rest_s) if rest_s else None
        anew = phases.Syncing() if self.assignment.is_reassigning else phases.Pending(until, why)
        timer = () if until is None else (effects.SetTimer(wakeups.ALTER_ANSWER_TIMER, until),)
        return self.change(
            self.phase(anew, f"not carried out: {why}"),
            effects=(*timer, effects.ReadTopics((self.partition.topic,)), *self.look()),
        )

    # --- the controller makes the step -----------------------------------------------------------

    def syncing(self, budget: Budget) -> Change | Blocked | None:
        """Follow the step to its end; retarget it where it does not lead to the spec's target."""
        if not self.assignment.is_reassigning:
            return self.step_ended(budget)
        if self.has_drifted:
            return self.refuse_drift(budget)
        if not foreign_policy.is_ours(self.view, self.spec, self.assignment):
            return self.foreign_block()
        corrected = self.corrected_target()
        if corrected is not None:
            return self.correct(*corrected, budget)
        return self.in_sync_gate(self.assignment.target_replicas) or UNENDED

    def corrected_target(self) -> tuple[Replicas, str] | None:
        """
        Return the request's target that corrects the step, with the cause; None: the step is right.

        The controller drops at once whatever the request omits of what is being added, and it keeps
        what it was to drop. A dead replica that is not wanted would keep the step from ending.
        """
        assignment, spec = self.assignment, self.spec
        cause = self.changed_cause
        is_off, copies = self.is_off_course(), self.without_room()
        if is_off or copies:
            added = (r for r in assignment.adding_replicas if r in spec.target and r not in copies)
            kept = (*assignment.origin_replicas, *added)
            cause = cause if is_off else NO_ROOM
        else:
            target = assignment.target_replicas
            wanted = {*spec.target, *self.state.isr}
            lost = [r for r in target if r not in wanted and not self.is_live(r)]
            if not lost:
                return None
            kept = tuple(r for r in target if r not in lost)
        return (spec.target if set(kept) == set(spec.target) else kept), cause

    def correct(self, target: Replicas, cause: str, budget: Budget) -> Change | Blocked:
        """Ask the controller for another target, as far as the gate permits the immediate drops."""
        assignment, isr = self.assignment, self.state.isr
        going = tuple(r for r in assignment.replicas if r not in target)
        blocked = self.drop_blocked(going)
        if blocked is not None:
            # A replica that is not in sync may always leave.
            staying = tuple(r for r in going if r in isr or r == self.state.leader)
            if set(staying) == set(going):
                return blocked
            target = (*target, *staying)
        if leader_selection.reassigned_leader(target, isr, self.is_live) is None:
            return Blocked(BlockedBy.NO_LEADER, "no live in-sync replica in the target")
        if target == assignment.target_replicas:
            return blocked or Blocked(BlockedBy.CONTROLLER_ANSWER, "the step is being retargeted")
        unread = self.unread()
        if unread is not None:
            return unread
        return self.alter(target, cause, budget, cancels=target == assignment.origin_replicas)

    def step_ended(self, budget: Budget) -> Change | Blocked | None:
        """End the reassignment, or begin the next step."""
        blocked = self.answer_gate()
        if blocked is not None:
            return blocked
        if self.assignment.replicas == self.spec.target:
            if self.spec.has_directories:
                return self.change(self.phase(phases.Placing(), "the target is in sync"))
            return self.electing(budget) or self.end("the target is in sync", budget)
        if self.reassignment.requested not in (None, self.assignment.replicas):
            until = Instant(self.now + phases.UNDONE_S)
            why = "another client cancelled the step or made another one"
            return self.change(
                self.phase(phases.Pending(until, why), why),
                effects=(effects.SetTimer(wakeups.ALTER_ANSWER_TIMER, until),),
            )
        budget.give_back(self.reassignment)
        begun = self.begin(budget, "next step")
        noted = begun.records if isinstance(begun, Change) else ()
        if isinstance(begun, Change) and any(isinstance(r, records.PhaseRecord) for r in noted):
            return begun
        waits = begun.detail if isinstance(begun, Blocked) else "brokers are asked first"
        return self.change(
            self.phase(phases.Pending(), f"next step waits: {waits}"),
            *noted,
            effects=() if isinstance(begun, Blocked) else begun.effects,
        )

    def electing(self, budget: Budget) -> Change | Blocked | None:
        """
        Have the controller elect the leader that ends the reassignment; None: none is awaited.

        The record stays meanwhile: a daemon that finds it requests the election again.
        """
        leader = self.awaited_leader
        if leader is None:
            return None
        phase, since = self.reassignment.phase, self.reassignment.phase_since
        if isinstance(phase, phases.Syncing):
            if self.now < since + phases.ELECTION_S:
                detail = f"the controller has not made broker {leader} the leader yet"
                return Blocked(BlockedBy.CONTROLLER_ANSWER, detail)
            return self.change(self.phase(phases.Pending(), f"broker {leader} was not elected"))
        blocked = gates.election_gate(self.view, self.partition, self.state.isr, leader)
        moved = blocked or self.moved_leader(leader, budget)
        if isinstance(moved, Blocked):
            return moved
        again = Instant(self.now + phases.ELECTION_S)
        return self.change(
            *moved,
            self.phase(phases.Syncing(), f"broker {leader} is to be elected"),
            effects=(
                effects.ElectPreferred((self.partition,)),
                effects.SetTimer(wakeups.ALTER_ANSWER_TIMER, again),
                *self.look(),
            ),
        )

    def end(self, cause: str, budget: Budget, *, stands: bool = False) -> Change | Blocked:
        """
        End the record, once no request is left that the controller may still carry out.

        Where no step of ours was seen to end, it ends only while the topic znode is unchanged.
        """
        if self.reassignment.in_doubt:
            return self.take_back(budget)
        return self.answer_gate() or self.change(
            self.phase(phases.Ended(), cause),
            *native.ending(self.spec, self.partition, stands=stands),
        )

    def take_back(self, budget: Budget) -> Change | Blocked:
        """Have the controller cancel any unanswered request: the present replicas stay."""
        here = self.assignment.replicas
        if leader_selection.reassigned_leader(here, self.state.isr, self.is_live) is None:
            return Blocked(BlockedBy.NO_LEADER, "no live in-sync replica")
        blocked = phases.backing_off(self.reassignment.phase, self.now) or self.unread()
        if blocked is not None:
            return blocked
        return self.alter(here, "an earlier request may still be carried out", budget, cancels=True)

    def lost_copies(self) -> tuple[Record, ...]:
        """Return a record of each copy whose broker was dead when it was dropped."""
        left = (
            (b, "its broker was dead when the controller dropped the replica")
            for b in sorted(self.reassignment.lost)
            if b not in self.assignment.replicas
            and (b, self.partition) not in self.view.reassignments.orphans
        )
        return orphans.orphan_records(self.view, self.partition, left)

    # --- foreign reassignments -------------------------------------------------------------------

    def foreign(self) -> Change | Blocked | None:
        """Follow a foreign reassignment to its end and report its progress."""
        assignment = self.assignment
        if not isinstance(self.reassignment.phase, phases.Syncing):
            return self.follow("foreign reassignment")
        if not assignment.is_reassigning:
            reached = assignment.replicas == self.spec.target
            cause = "ended by its client" if reached else "cancelled by its client"
            gone = records.SpecEndedRecord(self.partition, None, self.spec.request, cause)
            return self.change(self.phase(phases.Ended(), cause), gone)
        if assignment.target_replicas != self.spec.target:
            czxid = self.view.topics.by_name[self.partition.topic].czxid
            spec = foreign_policy.foreign_spec(assignment, czxid)
            return self.change(records.SpecRecord(self.partition, spec))
        return self.in_sync_gate(assignment.target_replicas) or UNENDED


def advance(
    view: ClusterView, partition: TopicPartition, now: Instant, budget: Budget
) -> Change | Blocked | None:
    """Decide what one reassigning partition does next; see ``native.advance``."""
    context = DelegatedContext.of(view, partition, now)
    if not isinstance(context, DelegatedContext):
        return context
    is_pending = isinstance(context.reassignment.phase, phases.Pending)
    if is_pending and not context.is_live(context.state.leader):
        return gates.leader_missing(context.state)
    return context.advance(budget)


def follow_answers(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Set the timer of the next look at alter entries."""
    reassignments = view.reassignments.by_partition.values() if due.timer or due.answered else ()
    times = [
        phase.since + (phases.backoff_of(phase) if phase.error else phases.SEEN_S)
        for phase in (r.phase for r in reassignments)
        if isinstance(phase, phases.AwaitingController) and phase.error is not None
    ]
    if not times:
        return Decision()
    at = Instant(max(min(times), now + phases.UNSENT_S))
    return Decision(effects=(effects.SetTimer(wakeups.ALTER_SEEN_TIMER, at),))
