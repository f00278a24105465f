"""Fold into the view what concerns the leadership and the controller role; and the brokers."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import assert_never

from controller.core import wakeups
from controller.core.deletions import fold as deletion_fold
from controller.core.disks import disk_space
from controller.core.disks import fold as disk_fold
from controller.core.leadership.fold import is_current, is_refused, note_untreated
from controller.core.leadership.leader_selection import note_candidate
from controller.core.model import NO_LEADER, START, BrokerId, Instant, TopicPartition
from controller.core.pacing import drained_replicas, isr_health
from controller.core.pacing.throttle_settings import broker_entity
from controller.core.reassignments import phases
from controller.core.reassignments.fold import note_waiting
from controller.core.role import records, tenure_reset
from controller.core.role.eligibility import is_refused_by_most
from controller.core.topics import fold as topic_fold
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.RoleEvent, now: Instant) -> None:  # noqa: C901 - one arm per event
    """Fold one event into the view."""
    match event:
        case records.BrokersRead():
            _brokers(view, event, now)
        case records.BrokerSettingsRead():
            deletion_fold.setting_read(view, event)
            topic_fold.follow_protocol(view)
        case records.ClaimGuardsRead():
            view.role_session.guards = event
        case records.LeadershipGained():
            tenure_reset.begin_leadership(view, now)
        case records.LeadershipLost():
            view.role.leading = False
            tenure_reset.end_session(view, now)
        case records.ControllerClaimed():
            tenure_reset.begin_tenure(view, event, now)
            topic_fold.follow_protocol(view)
        case records.ClaimFailed():
            view.role.claiming = False
            view.role.retry_claim_at = Instant(now + view.options.claim_retry_s)
        case records.Deposed():
            tenure_reset.end_tenure(view, now)
        case records.ShutdownRequested():
            view.role.stopping = True
        case records.UpdateMetadataAnswered():
            isr_health.note_answer(view, event.broker, event.took_s, now)
            _update_metadata_answered(view, event)
        case records.ReassignmentsProbed():
            view.tenure.probing = False
            view.role.delegable = event.problem is None
            view.role.undelegable = event.problem if event.is_final else None
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.RoleRecord, now: Instant) -> None:
    """Fold one record into the view."""
    del now
    match record:
        case records.EngineRecord(engine=engine, why=why):
            view.role.engine, view.role.engine_why = engine, why
            if not view.is_native:
                # A broker that is the controller starts every entry at once: the topic znodes show
                # their progress.
                view.requests.legacy = None
        case records.StatesPolledRecord():
            view.role.round_at, view.role.round_from = record.again, record.next_from
        case records.IdleRecord(since=since):
            view.tenure.idle_since = since
        case records.YieldedRecord() | records.RoleCededRecord():
            pass  # Their time begins when the tenure has ended.
        case records.UpdateRefusedRecord(why=why):
            view.role.rejected_by_brokers = why
        case records.EndpointUnreachedRecord(why=why):
            view.role.unreached = why
        case _:
            assert_never(record)


def _brokers(view: ClusterView, event: records.BrokersRead, now: Instant) -> None:
    tenure, leadership, reassignments = view.tenure, view.leadership, view.reassignments
    before, after = view.cluster.brokers, dict(event.brokers)
    left = before.keys() - after.keys()
    bounced = {b for b in before.keys() & after.keys() if after[b].epoch != before[b].epoch}
    joined = (after.keys() - before.keys()) | bounced
    changed = {b for b in before.keys() & after.keys() if after[b] != before[b]} - bounced
    view.cluster.brokers = after
    if not (left or joined or changed):
        return
    wakeups.wake(view.due, wakeups.Trigger.BROKERS_CHANGED)
    if left and reassignments.orphaned:
        wakeups.wake(view.due, wakeups.Trigger.ORPHAN_CONCERNED)
    view.due.left |= left
    # The channel to its former endpoints is useless, and requests lost with it are sent again.
    elsewhere = {b for b in changed if after[b].endpoints != before[b].endpoints}
    view.due.elsewhere |= elsewhere
    # A broker that left and came back before a cycle examined it is both.
    view.due.bounced |= bounced | (view.due.left & joined)
    view.due.joined = (view.due.joined | joined | elsewhere) - left
    for broker in joined:
        # Its throttle was not set while it was dead.
        view.pacing_process.participants.note(broker_entity(broker))
        if before:  # When those of the first read registered is not known.
            view.cluster.registered[broker] = now
    wakeups.wake_pending_requests(view)
    gone = left | bounced
    _requests_lost(view, gone, elsewhere)
    if gone:
        leadership.shutting_down = {
            b: e for b, e in leadership.shutting_down.items() if b not in gone
        }
        tenure.refusers = {b: e for b, e in tenure.refusers.items() if b not in gone}
        reassignments.orphans_failed = {
            o for o in reassignments.orphans_failed if o.broker not in gone
        }
        leadership.offline = {(b, p) for b, p in leadership.offline if b not in gone}
        leadership.id_conflicts = {(b, p) for b, p in leadership.id_conflicts if b not in gone}
        for partition, reassignment in reassignments.by_partition.items():
            phase = reassignment.phase
            if isinstance(phase, phases.Stopping) and phase.waiting & left:
                given_up = phase.given_up | (phase.waiting & left)
                waiting = phase.waiting - left
                reassignment.update(replace(phase, waiting=waiting, given_up=given_up), partition)
                view.due.add((partition,))
    isr_health.judge_again(view)
    drained_replicas.judge_noted(view)
    if tenure.held is not None:
        _touch(view, left | joined)
        _note_untreated(view, joined)
        _note_rejoined(view, joined)
    if joined:
        # Its directories may be others now.
        disk_space.invalidate_disks(view)
    disk_fold.brokers_left(view, left)
    _retry_orphans(view, left | joined | changed)
    topic_fold.follow_protocol(view)


def _retry_orphans(view: ClusterView, brokers: set[BrokerId]) -> None:
    """
    End the back-off if an orphan may be deletable since these brokers came or went.

    They have the orphan, or a replica of its partition, which was awaited or which may lead now.
    """
    reassignments = view.reassignments
    for broker, partition in reassignments.orphans:
        assignment = view.topics.known_assignment(partition)
        if broker in brokers or assignment is None or not brokers.isdisjoint(assignment.replicas):
            reassignments.orphans_after = START
            reassignments.orphans_left.clear()
            return


def _touch(view: ClusterView, brokers: set[BrokerId]) -> None:
    """Have every partition with a replica on these brokers examined, with new settings."""
    for name, topic in view.topics.by_name.items():
        for number, assignment in topic.partitions.items():
            if not brokers.isdisjoint(assignment.replicas):
                partition = TopicPartition(name, number)
                view.due.partitions[partition] = None
                note_candidate(view, partition)


def _note_untreated(view: ClusterView, brokers: set[BrokerId]) -> None:
    """
    Note where these brokers still are in the ISR: no write followed from their death.

    They were dead at the claim, and their registration is read in the same cycle as the state. A
    partition without a leader is left: that was written when all of its ISR had died.
    """
    if not brokers or not view.is_native:
        return
    for partition, state in view.leadership.states.items():
        if state.leader != NO_LEADER and not brokers.isdisjoint(state.isr):
            note_untreated(view, partition, state)


def _note_rejoined(view: ClusterView, brokers: set[BrokerId]) -> None:
    """Note these brokers in the steps in flight that add a replica to them."""
    for partition, reassignment in view.reassignments.by_partition.items() if brokers else ():
        assignment = view.topics.known_assignment(partition)
        if assignment is not None:
            reassignment.rejoined |= brokers.intersection(assignment.adding_replicas)


def _update_metadata_answered(view: ClusterView, event: records.UpdateMetadataAnswered) -> None:
    """
    Note whether a broker accepts the requests of this tenure.

    A broker that refused requests before gets all of them again: refused ones are not resent.
    Nothing was decided before the first one accepts.
    """
    tenure = view.tenure
    if not is_current(view, event) or is_refused(view, event.error, event.broker):
        return
    was_accepted, tenure.accepted_by_broker = tenure.accepted_by_broker, True
    if tenure.refusers.pop(event.broker, None) is not None and was_accepted:
        _requests_lost(view, set(), {event.broker})
        view.due.joined.add(event.broker)
        view.due.elsewhere.add(event.broker)
    if not is_refused_by_most(view):
        view.role.rejected_by_brokers = None
    if not was_accepted:
        wakeups.wake(view.due, wakeups.Trigger.TIME_CAME)
        wakeups.wake(view.due, wakeups.Trigger.FIRST_ACCEPTED)
        note_waiting(view)
        view.due.add(view.reassignments.by_partition)
        view.due.add(view.leadership.states)
        view.due.add(view.leadership.stateless)


def _requests_lost(
    view: ClusterView, gone: AbstractSet[BrokerId], elsewhere: AbstractSet[BrokerId]
) -> None:
    """
    Note that what was queued or under way for brokers is lost with their channels.

    The registrations of ``gone`` ended; the channels of ``elsewhere`` are opened again.
    """
    deletion_fold.brokers_moved(view, gone, elsewhere)
    reassignments_tenure, lost = view.reassignments_tenure, gone | elsewhere
    reassignments_tenure.orphans_tried = {
        o for o in reassignments_tenure.orphans_tried if o.broker not in lost
    }
