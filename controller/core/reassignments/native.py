"""
The native engine: one partition's phases, carried out as the cluster's controller.

``advance`` examines one partition and returns the next change, or what it waits for. It is
level-triggered: it does not depend on the event that caused the call, so a restarted daemon, or one
that missed an event, continues by the same path. The order of writes and sends is Kafka's
(``KafkaController.onPartitionReassignment``), with three deliberate differences:

* the exclusion of dropped replicas and the leader move are one compare-and-set (B1 to B4), so a
  partition cannot be left leaderless between them;
* StopReplica waits until the current leader acknowledged the exclusion in this tenure; where
  leaders write the ISR, the deletion waits until the replica fetches no more, and deletion and last
  write of the topic znode rely on the state that excludes it;
* the topic znode loses a dropped replica only when StopReplica(delete) was acknowledged, or when
  an orphan record says why not.

At most max(|ORS|, |FTR|) + step_size replicas serve or copy: KAFKA-6794's bound, on TR. RS lists DR
beside them until its deletion is acknowledged or recorded, and a broker keeps a deleted log on its
disk for ``file.delete.delay.ms``.
"""

from __future__ import annotations

from dataclasses import replace

from controller.core import effects, model
from controller.core.cluster.protocols import leaders_write_isr
from controller.core.leadership.records import StateRecord, StateReliedRecord
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    Replicas,
    Route,
    TopicPartition,
    ids,
)
from controller.core.pacing.budget import Budget
from controller.core.pacing.throttles import throttle_gate
from controller.core.reassignments import gates, phases, records
from controller.core.reassignments.gates import (
    begin_gate,
    id_conflict,
    leader_missing,
    leader_unassigned,
)
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.orphans import left_behind
from controller.core.reassignments.placing import ReplicaPlacement
from controller.core.reassignments.steps import Step, next_step
from controller.core.records import Change, Record
from controller.core.requests.records import LegacyEntryRecord, PartitionOutcomeRecord
from controller.core.topics.records import AssignmentRecord
from controller.core.view import ClusterView
from controller.errors import ensure

STOP_TIMER = "stop_replica_deadline"


class NativeContext(ReplicaPlacement):
    """A partition's context in the native engine: the next action of each phase."""

    def advance(  # noqa: C901, PLR0911 - one arm per phase
        self, budget: Budget
    ) -> Change | Blocked | None:
        """Return the next change, what is waited for, or None when there is nothing to do."""
        before_stop = phases.Expanding | phases.Starting | phases.Syncing | phases.Shrinking
        if isinstance(self.reassignment.phase, before_stop):
            retargeted = self.retarget_step(budget)
            if retargeted is not None:
                return retargeted
        match self.reassignment.phase:
            case phases.Pending():
                return self.pending(budget)
            case phases.Expanding():
                return self.expanding(budget)
            case phases.Starting() as phase:
                return self.starting(phase)
            case phases.Syncing():
                return self.syncing(budget)
            case phases.Shrinking() as phase:
                return self.excluding(phase.excluded_at, phase)
            case phases.Stopping() as phase:
                return self.stopping(phase, budget)
            case phases.Placing() as phase:
                placing = self.placing(phase, budget)
                return placing or self.end((), "its replicas are in their directories")
            case phases.Ended() | phases.AwaitingController():
                return None

    def pending(self, budget: Budget) -> Change | Blocked | None:
        """Begin the first step, or find that another controller ended it."""
        if self.assignment.is_reassigning:
            return self.change(self.phase(phases.Expanding(), "found in the topic znode"))
        if self.assignment.replicas == self.spec.target:
            if self.spec.has_directories:
                return self.begin_placing(budget)
            return self.end_elected((), "already at its target", budget)
        begun = self.begin(self.assignment.replicas, (), budget, "step begins")
        return self.placements(begun) if isinstance(begun, Blocked) else begun[0]

    def begin(
        self, current: Replicas, before: tuple[Record, ...], budget: Budget, cause: str
    ) -> tuple[Change, Step] | Blocked:
        """Return the next step's first writes (U, A1) and sends (A2), or what forbids it."""
        state = self.state
        step = next_step(
            current,
            self.spec.target,
            state.leader,
            self.step_size,
            lambda r: r in state.isr and self.is_live(r),
        )
        blocked = begin_gate(
            self.view, self.partition, self.spec, state, current, step, tolerated=self.tolerated
        )
        if blocked is None:
            blocked = _given_up_now(before, step)
        if blocked is None:
            blocked = self.bound_gate(current, step)
        if blocked is None:
            blocked = budget.gate(self.partition, self.reassignment, step.adding, state.leader)
        if blocked is None and step.adding:
            blocked = throttle_gate(self.view, self.partition, self.spec)
        if blocked is None:
            blocked = self.placement_gate(step.adding)
            if blocked is not None and self.is_answered_soon:
                budget.take(self.partition, self.spec.request, step.adding, state.leader)
        if blocked is not None:
            return blocked
        if step.changes_replicas:
            opened = self.open_step(step.assignment, before, cause, budget)
        else:
            # Only the order changes: nothing to copy, nothing to stop, no epoch to bump.
            opened = self.end_elected(before, "only the order changed", budget)
        if isinstance(opened, Blocked):
            return opened
        budget.take(self.partition, self.spec.request, step.adding, state.leader)
        return opened, step

    def expanding(self, budget: Budget) -> Change | Blocked | None:
        """Repeat A1 for a step found in the topic znode: earlier sends are unknown."""
        missing = self.in_sync_gate(self.assignment.target_replicas)
        if missing is None and not self.assignment.removing_replicas:
            return self.change(
                self.phase(phases.Syncing(), "found in the topic znode"),
                effects=(effects.ReadStates((self.partition,), effects.ReadPurpose.WATCH),),
            )
        reduced = self.reduced_assignment()
        if reduced is not None:
            return self.open_step(reduced, (), "reduced to the step size", budget)
        if missing is None:
            return self.shrink("found in sync", budget)
        return self.open_step(self.assignment, (), "found in the topic znode", budget)

    def starting(self, phase: phases.Starting) -> Change | Blocked | None:
        """Watch the copies, or wait for the leader's acknowledgement of the exclusion first."""
        if phase.excluded_at is not None:
            return self.excluding(phase.excluded_at, phase)
        # No deletion depends on this acknowledgement, so the copies are watched at once; the ISR
        # cannot contain a new replica before the leader has it.
        return self.change(
            self.phase(phases.Syncing(), "LeaderAndIsr sent"),
            effects=(effects.ReadStates((self.partition,), effects.ReadPurpose.WATCH),),
        )

    def excluding(
        self, epoch: model.LeaderEpoch, phase: phases.Starting | phases.Shrinking
    ) -> Change | Blocked | None:
        """Wait for the leader's acknowledgement of A1 (or B3), then stop the excluded replicas."""
        if (blocked := self.unacknowledged(epoch)) is not None:
            return blocked
        dropping = self.assignment.removing_replicas
        self.ensure_excluded(phase.excluded)
        live = frozenset(self.view.live(dropping, self.partition))
        may_join = leaders_write_isr(self.view) and not phase.is_led_anew
        cause = "the leader acknowledged the exclusion"
        change = self.stop_dropped(live, cause, (False,) if may_join else (False, True))
        return change if may_join else self.relying(change)

    def stop_dropped(self, live: frozenset[BrokerId], cause: str, sent: tuple[bool, ...]) -> Change:
        """Return StopReplica to these dropped replicas, without or with deletion, or both."""
        dropping = self.assignment.removing_replicas
        phase = phases.Stopping(
            waiting=live,
            given_up=frozenset(dropping) - live,
            deadline=Instant(self.now + self.view.options.stop_replica_timeout_s),
            deletes=True in sent,
        )
        # The state is relied on when they are deleted, and a copy may join the ISR meanwhile.
        watched = self.watch() if leaders_write_isr(self.view) else ()
        stops = self.stop(tuple(r for r in dropping if r in live), sent)
        return self.change(
            self.phase(phase, cause),
            effects=(*stops, effects.SetTimer(STOP_TIMER, phase.deadline), *watched),
        )

    def unacknowledged(self, epoch: model.LeaderEpoch) -> Blocked | None:
        """Return the block while the leader has not acknowledged this epoch, or a later one."""
        leader, present = self.state.leader, self.state.leader_epoch
        if self.view.leadership.is_acknowledged(self.partition) and present >= epoch:
            return None
        detail = f"leader {leader} has not acknowledged leader epoch {present}"
        conflict = id_conflict(self.view, self.partition, (leader,))
        return Blocked(BlockedBy.LEADER_ACK, conflict or detail)

    def ensure_excluded(self, excluded: Replicas) -> None:
        """
        Ensure that what is dropped is what was excluded, and serves no more.

        Raises:
            InvariantError: it is not.

        """
        dropping = self.assignment.removing_replicas
        serving = {self.state.leader, *self.state.isr}
        ensure(
            set(dropping) == set(excluded) and serving.isdisjoint(dropping),
            f"{self.partition}: {ids(dropping)} would be deleted, {ids(excluded)} was excluded",
        )

    def deleting(self, stopped: frozenset[BrokerId]) -> Change | Blocked:
        """
        Delete replicas that fetch no more, while the ISR is as known.

        A leader that writes the ISR itself may be handling a last fetch when it acknowledges the
        exclusion, and add the replica once more (``leader_selection.without_strangers``). The check
        of the state finds that, but for a write that comes even later: no answer of Kafka's proves
        that the leader is done with the fetch (``docs/reference/verification.md``).
        """
        if (blocked := self.unacknowledged(self.state.leader_epoch)) is not None:
            return blocked
        self.ensure_excluded(self.assignment.removing_replicas)
        return self.relying(self.stop_dropped(stopped, "the replicas fetch no more", (True,)))

    def relying(self, change: Change) -> Change:
        """Return a change that is valid only while the ISR is as known, if leaders write it."""
        writes = any(isinstance(record, StateRecord) for record in change.records)
        if writes or not leaders_write_isr(self.view):
            return change
        relied = StateReliedRecord(self.partition, self.state.version)
        return replace(change, records=(relied, *change.records))

    def watch(self) -> tuple[effects.Effect, ...]:
        """Return the read of the state with a watch, unless it is watched."""
        if self.partition in self.view.leadership.watched:
            return ()
        return (effects.ReadStates((self.partition,), effects.ReadPurpose.WATCH),)

    def stopping(self, phase: phases.Stopping, budget: Budget) -> Change | Blocked | None:
        """Wait until every dropped replica is deleted or given up, then end the drop."""
        if phase.waiting and self.now < phase.deadline:
            what = "the deletion" if phase.deletes else "that it fetches no more"
            detail = f"broker {ids(sorted(phase.waiting))} has not confirmed {what}"
            return Blocked(BlockedBy.STOP_REPLICA_ACK, detail)
        given_up = phase.given_up | phase.waiting
        if not phase.deletes:
            dropping = self.assignment.removing_replicas
            live = self.view.live(dropping, self.partition)
            stopped = frozenset(live) - given_up
            given_up = frozenset(dropping) - stopped
            if stopped:
                return self.deleting(stopped)
        target = self.assignment.target_replicas
        orphans = self.orphans(given_up)
        if self.in_sync_gate(target) is None:
            completed = self.complete_step(target, orphans, budget)
            return self.relying(completed) if isinstance(completed, Change) else completed
        adding = tuple(r for r in self.assignment.adding_replicas if r in target)
        if set(adding) == set(target):
            # Kafka's cancellation keeps only what is not being added. What is in sync is added.
            adding = tuple(r for r in adding if r not in self.state.isr)
        dropped = self.change(
            AssignmentRecord(self.partition, model.PartitionAssignment(target, adding)),
            *orphans,
            self.phase(phases.Syncing(), "the dropped replicas are deleted"),
            effects=self.watch(),
        )
        return self.relying(dropped)

    def syncing(self, budget: Budget) -> Change | Blocked | None:
        """Wait for TR within the ISR; then drop the replicas that had to stay, or continue."""
        target = self.assignment.target_replicas
        blocked = self.in_sync_gate(target)
        if blocked is not None:
            return blocked
        if self.assignment.removing_replicas:
            return self.shrink("the target is in sync", budget)
        return self.complete_step(target, (), budget)

    def shrink(self, cause: str, budget: Budget) -> Change | Blocked:
        """Write B1 to B4 as one compare-and-set on the state that shows the target in sync."""
        assignment = self.assignment
        target = assignment.target_replicas
        dropping = assignment.removing_replicas
        blocked = self.drop_blocked(dropping) or self.copies_gate(dropping)
        if blocked is not None:
            return blocked
        leader = self.leader_within(target)
        if leader is None:
            return Blocked(BlockedBy.NO_LEADER, "no live in-sync replica in the target")
        moved = self.moved_leader(leader, budget)
        if isinstance(moved, Blocked):
            return moved
        isr = tuple(r for r in self.state.isr if r in target)
        write = self.state_record(leader, isr)
        return self.change(
            *moved,
            write,
            self.phase(phases.Shrinking(write.leader_epoch, dropping, bool(moved)), cause),
            effects=self.send_state(target, ()),
        )

    def complete_step(
        self, target: Replicas, before: tuple[Record, ...], budget: Budget
    ) -> Change | Blocked | None:
        """End the step: the reassignment is done, or the next step joins the same write."""
        plain = model.PartitionAssignment(target)
        if target == self.spec.target:
            written = () if self.assignment == plain else (AssignmentRecord(self.partition, plain),)
            return self.end((*before, *written), "the target is in sync")
        budget.give_back(self.reassignment)
        begun = self.begin(target, before, budget, "next step")
        if not isinstance(begun, Blocked):
            return begun[0]
        written = () if self.assignment == plain else (AssignmentRecord(self.partition, plain),)
        return self.change(
            *before, *written, self.phase(phases.Pending(), f"next step waits: {begun.detail}")
        )

    def end_elected(
        self, before: tuple[Record, ...], cause: str, budget: Budget
    ) -> Change | Blocked:
        """
        End the reassignment together with the election of its leader, where one is awaited.

        In one multi: a daemon that dies leaves both or neither, and the next one decides again.
        """
        leader = self.awaited_leader
        if leader is None:
            return self.end(before, cause)
        blocked = gates.election_gate(self.view, self.partition, self.state.isr, leader)
        moved = blocked or self.moved_leader(leader, budget)
        if isinstance(moved, Blocked):
            return moved
        elected = self.state_record(leader, self.state.isr)
        return self.end((*before, *moved, elected), cause)

    def end(self, before: tuple[Record, ...], cause: str) -> Change:
        """
        Write B6 to B8: the final assignment, the end of record and entry, metadata.

        Where replicas are to be in certain directories, the record and the entry stay until they
        are: it is called again then.

        Where the partition is at its target, the topic znode is neither written nor checked. It was
        read or checked in this tenure, in which no other controller writes it; in the delegated
        engine, the cluster's controller does.
        """
        written: tuple[Record, ...] = ()
        assigned = any(isinstance(r, AssignmentRecord) for r in before)
        final = model.PartitionAssignment(self.spec.target)
        if not assigned and self.assignment != final:
            written = (AssignmentRecord(self.partition, final),)
        is_last = not self.spec.has_directories or isinstance(
            self.reassignment.phase, phases.Placing
        )
        legacy = self.view.requests.legacy
        if is_last and legacy is not None and self.partition in legacy.entries:
            written += (LegacyEntryRecord(self.partition, None),)
        following: tuple[effects.Effect, ...] = (effects.SendUpdateMetadata((self.partition,)),)
        phase = self.reassignment.phase
        if any(isinstance(r, StateRecord) for r in before):
            following = self.send_state(self.spec.target, ())
        elif isinstance(phase, phases.Syncing) or (
            self.assignment.adding_replicas and not isinstance(phase, phases.Stopping)
        ):
            # The leader's last LeaderAndIsr listed adding replicas. As Kafka's B3 does, send one
            # without them, or it reports the partition as reassigning for ever.
            written += (self.state_record(self.state.leader, self.state.isr),)
            following = self.send_state(self.spec.target, ())
        if not is_last:
            placing = self.phase(phases.Placing(), cause)
            return self.change(*before, *written, *self.approval_used(), placing, effects=following)
        recorded = {r.orphan.broker for r in before if isinstance(r, records.OrphanRecord)}
        known = recorded.union(self.spec.target)
        return self.change(
            *before,
            *written,
            *left_behind(self.view, self.partition, self.reassignment, known),
            self.phase(phases.Ended(), cause),
            *ending(self.spec, self.partition),
            effects=following,
        )


def ending(
    spec: model.ReassignmentSpec, partition: TopicPartition, *, stands: bool = False
) -> tuple[Record, ...]:
    """Return the end of a reassignment that is at its target."""
    back = model.OutcomeKind.ROLLED_BACK
    kind = back if spec.rolls_back else records.DONE
    ended = records.SpecEndedRecord(partition, spec.version, spec.request, kind, stands)
    if not spec.rolls_back:
        return (ended,)
    outcome = model.PartitionOutcome(spec.request, partition, back, by=spec.cancelled_by)
    return ended, PartitionOutcomeRecord(outcome)


def _given_up_now(before: tuple[Record, ...], step: Step) -> Blocked | None:
    """Return what keeps a step from adding a replica whose deletion is given up in this change."""
    given_up = {r.orphan.broker for r in before if isinstance(r, records.OrphanRecord)}
    again = tuple(r for r in step.adding if r in given_up)
    detail = f"broker {ids(again)} is still deleting its old copy"
    return Blocked(BlockedBy.STOP_REPLICA_ACK, detail) if again else None


def _edit_gate(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> Blocked | None:
    # An entry with another target is a newer request: it is judged first, or our next write to the
    # znode would restore the old one. The end of a reassignment removes its entry, which would be
    # rejected repeatedly until the znode is read.
    legacy, spec = view.requests.legacy, reassignment.spec
    if legacy is None:
        return None
    if legacy.stale and (spec.route is Route.LEGACY or partition in legacy.entries):
        return Blocked(BlockedBy.STATE_UNKNOWN, "the legacy znode was edited and is being read")
    if spec.route is Route.REQUEST:
        return None
    if legacy.entries.get(partition, spec.target) != spec.target:
        return Blocked(BlockedBy.STATE_UNKNOWN, "its entry in the legacy znode is being judged")
    return None


def advance(
    view: ClusterView, partition: TopicPartition, now: Instant, budget: Budget
) -> Change | Blocked | None:
    """Return the next change of a reassigning partition, what it waits for, or None."""
    context = NativeContext.of(view, partition, now)
    if not isinstance(context, NativeContext):
        return context
    if context.has_drifted:
        return context.refused_as_drifted()
    edited = _edit_gate(view, partition, context.reassignment)
    if edited is not None:
        return edited
    if not context.is_live(context.state.leader):
        return leader_missing(context.state)
    if context.state.leader not in context.assignment.replicas:
        return leader_unassigned(context.state)
    return context.advance(budget)
