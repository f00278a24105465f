"""Fold events and records of reassignments and orphans, and awaited responses, into the view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

from controller.core import model, wakeups
from controller.core.deletions import fold as deletion_fold
from controller.core.deletions.model import EPOCH_DURING_DELETE
from controller.core.disks import disk_space
from controller.core.disks import fold as disk_fold
from controller.core.disks.disk_space import log_dropped
from controller.core.leadership.fold import is_current, is_refused
from controller.core.model import AlterOutcome, BlockedBy, BrokerId, Instant, Route, TopicPartition
from controller.core.pacing import isr_health
from controller.core.reassignments import in_flight, phases, records, start_pending
from controller.core.reassignments.in_flight import first_phase
from controller.core.reassignments.model import Reassignment, RemovedReplica
from controller.core.requests.model import Request
from controller.core.view import ClusterView
from controller.kafka_errors import KAFKA_STORAGE_ERROR, NONE


def fold_event(view: ClusterView, event: records.ReassignmentEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.SpecsRead():
            _specs(view, event, now)
        case records.OrphansRead():
            # In a fixed order, so that a history sends the same requests each time it is played.
            orphans = sorted(event.orphans, key=lambda o: (o.broker, o.partition))
            view.reassignments.orphans = {(o.broker, o.partition): o for o in orphans}
            view.reassignments.orphaned = Counter(o.partition for o in event.orphans)
            view.reassignments_leadership.orphans_read = True
        case records.StopReplicaAnswered():
            isr_health.note_answer(view, event.broker, event.took_s, now)
            _stop_replica_answered(view, event, now)
        case records.ReassignmentsAltered():
            _reassignments_altered(view, event, now)
        case records.AlterationsWithdrawn():
            _alterations_withdrawn(view, event)
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.ReassignmentRecord, now: Instant) -> None:  # noqa: C901, PLR0912 - one arm per record
    """Fold one record into the view."""
    pacing, reassignments = view.pacing, view.reassignments
    match record:
        case records.SpecRecord():
            view.reassignments_leadership.unconfirmed_specs.discard(record.partition)
            _spec(view, record, now)
        case records.SpecEndedRecord():
            view.reassignments_leadership.unconfirmed_specs.discard(record.partition)
            _spec_ended(view, record, now)
        case records.OrphanRecord(orphan=orphan):
            if (orphan.broker, orphan.partition) not in reassignments.orphans:
                reassignments.orphaned[orphan.partition] += 1
            reassignments.orphans[orphan.broker, orphan.partition] = orphan
            removed = RemovedReplica(orphan.broker, orphan.partition, orphan.topic_czxid)
            reassignments.departed.pop(removed, None)
            view.reassignments_tenure.orphans_tried.discard(orphan)
            deletion_fold.replica_left(view, orphan)
        case records.OrphanEndedRecord(orphan=orphan):
            if reassignments.orphans.pop((orphan.broker, orphan.partition), None) is not None:
                reassignments.orphaned[orphan.partition] -= 1
                if not reassignments.orphaned[orphan.partition]:
                    del reassignments.orphaned[orphan.partition]
            if orphan.partition in reassignments.by_partition:
                reassignments.by_partition[orphan.partition].lost -= {orphan.broker}
                view.due.add((orphan.partition,))
        case records.PhaseRecord():
            _phase(view, record)
        case records.BlockedRecord(partition=partition, blocked=blocked):
            reassignment = reassignments.by_partition.get(partition)
            if reassignment is not None:
                reassignment.wait(blocked, record.at)
                if blocked is not None and blocked.by is model.BlockedBy.LOG_DIR:
                    disk_fold.reflect_blocked(view, partition)
        case records.ForeignAdoptedRecord():
            view.reassignments_tenure.may_have_foreign = False
        case records.StartSkippedRecord(partitions=partitions, scans_left=scans_left):
            view.pacing_process.scans_left = scans_left
            for partition in partitions:
                pacing.waiting.pass_over(partition)
                if partition in pacing.resumed:
                    del pacing.resumed[partition]
                    pacing.resumed[partition] = None
        case records.PendingSortedRecord():
            start_pending.sort_pending(view)
        case _:
            assert_never(record)


def _specs(view: ClusterView, event: records.SpecsRead, now: Instant) -> None:
    in_tenure, ledger = view.tenure.held is not None, view.reassignments_leadership
    ledger.specs_read = True
    view.reassignments.unreadable_specs = dict(event.unreadable)
    for partition, spec in event.specs.items():
        if in_tenure and partition not in ledger.unconfirmed_specs:
            # In a tenure only this daemon writes these, and may have done so since this read.
            continue
        known = view.reassignments.by_partition.get(partition)
        if known is not None:
            in_flight.change_spec(view, partition, known, spec, now)
        else:
            view.requests.request_of(spec.request, now, is_inherited=True)
            begun = Reassignment(spec=spec, since=now, phase_since=now)
            in_flight.begin(view, partition, begun, now)
    unconfirmed = ledger.unconfirmed_specs if in_tenure else set(view.reassignments.by_partition)
    for partition in [p for p in unconfirmed if p not in event.specs]:
        in_flight.drop(view, partition, now)
    ledger.unconfirmed_specs.clear()
    view.reassignments_tenure.may_have_foreign = True
    view.due.add(event.specs)


def note_waiting(view: ClusterView) -> None:
    """Have every partition examined that may wait for a time."""
    view.due.add(p for p, r in view.reassignments.by_partition.items() if waits_for_time(r))
    # Without a leader: the topic's settings may now allow an unclean election.
    view.due.add(view.leadership.leaderless)


def waits_for_time(reassignment: Reassignment) -> bool:
    """Return whether it may continue when a time has come, without another event."""
    is_awaiting = isinstance(reassignment.phase, phases.Stopping | phases.AwaitingController)
    return is_awaiting or is_blocked(reassignment, wakeups.REASONS_OF_TIMERS.values())


def is_blocked(reassignment: Reassignment, by: Collection[BlockedBy]) -> bool:
    """Return whether one of these conditions blocks it."""
    return reassignment.blocked is not None and reassignment.blocked.by in by


def _spec(view: ClusterView, record: records.SpecRecord, now: Instant) -> None:
    spec = record.spec
    version = model.ZkVersion(0) if spec.version is None else model.ZkVersion(spec.version + 1)
    spec = replace(spec, version=None if spec.route is Route.FOREIGN else version)
    known = view.reassignments.by_partition.get(record.partition)
    if known is None:
        phase = first_phase(view, record.partition)
        known = Reassignment(spec=spec, since=now, phase=phase, phase_since=now)
        in_flight.begin(view, record.partition, known, now)
    else:
        in_flight.change_spec(view, record.partition, known, spec, now)
    wakeups.wake_pending_requests(view)
    view.due.partitions[record.partition] = None
    wakeups.orphans_concerned(view, record.partition)


def _spec_ended(view: ClusterView, record: records.SpecEndedRecord, now: Instant) -> None:
    reassignment = view.reassignments.by_partition.get(record.partition)
    request = view.requests.request_of(record.request, now)
    request.settled.add(record.partition)
    request.done_here += record.outcome == records.DONE
    # Without a record it was at its target when it was accepted; another request may have replaced
    # it.
    is_ours = record.version is not None
    if reassignment is not None and (is_ours or reassignment.spec.request == record.request):
        is_of_former = view.is_of_former_topic(record.partition)
        if is_of_former or reassignment.spec.expected is not None:
            # The partition may be reassigned by others, which the record concealed.
            view.reassignments_tenure.may_have_foreign = True
        _count_bytes(view, record.partition, reassignment, request)
        in_flight.drop(view, record.partition, now)
        if not is_of_former:
            _want_preferred(view, record.partition, reassignment)
    wakeups.wake_pending_requests(view)
    view.leadership.acked.pop(record.partition, None)
    if record.partition not in view.reassignments.orphaned:
        view.reassignments_tenure.confirmed.pop(record.partition, None)
    wakeups.submissions_concerned(view)


def _count_bytes(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment, request: Request
) -> None:
    size, original = view.disks_process.sizes.get(partition), reassignment.spec.original
    if original is None or not reassignment.has_moved:
        return
    copies = sum(r not in original for r in reassignment.spec.target)
    if size is not None:
        request.moved_bytes = (request.moved_bytes or 0) + size * copies
    elif copies:
        request.uncounted += 1


def _want_preferred(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> None:
    state = view.leadership.states.get(partition)
    target = reassignment.spec.target
    if (
        view.options.preferred_election
        and state is not None
        and state.leader != target[0]
        and reassignment.spec.route is not Route.FOREIGN
        and not _keeps_leader(view, reassignment.spec)
    ):
        view.leadership.preferred[partition] = None
        wakeups.wake(view.due, wakeups.Trigger.ELECTION_WANTED)


def _keeps_leader(view: ClusterView, spec: model.ReassignmentSpec) -> bool:
    # Where only the order of replicas changed, in a way of Kafka's, its controller elects no
    # leader: who uses these ways holds an election afterwards.
    if spec.rolls_back or not spec.is_order_alone:
        return False
    request = view.requests.by_id.get(spec.request)
    return spec.route is Route.LEGACY or (request is not None and request.options.keep_leaders)


def _phase(view: ClusterView, record: records.PhaseRecord) -> None:
    reassignment = view.reassignments.by_partition.get(record.partition)
    if reassignment is None:
        return
    before, after = reassignment.phase, record.phase
    was_in_flight = reassignment.in_flight
    reassignment.enter(after, record.at, record.partition)
    if reassignment.in_flight and not was_in_flight:
        in_flight.count_in_flight(view, reassignment, 1)
        view.pacing.waiting.discard(record.partition)
        view.pacing.resumed.pop(record.partition, None)
    elif was_in_flight and not reassignment.in_flight:
        in_flight.count_in_flight(view, reassignment, -1)
        wakeups.wake(view.due, wakeups.Trigger.STEP_ENDED)
        in_flight.unload(view, reassignment)
        is_put_off = isinstance(before, phases.Placing) and reassignment.is_put_off
        if is_put_off and not reassignment.spec.rolls_back:
            # What makes room for its moves may be waiting: it goes behind.
            view.pacing.waiting.add(record.partition, reassignment.spec.request)
        elif isinstance(after, phases.Pending):
            # A reassignment with completed steps starts first when capacity is free again.
            view.pacing.resumed[record.partition] = None
    in_flight.reload(view, record.partition, reassignment, before)
    if isinstance(after, phases.Starting | phases.AwaitingController):
        reassignment.step += 1
        if reassignment.load is not None:
            # The brokers create the logs now: what they noted in memory is used up.
            view.disks.placements.forget(record.partition, reassignment.load.incoming)
    disk_fold.reflect_phase(view, record.partition, record.at)
    disk_space.reserve(view, record.partition, record.at)
    # StopReplica has until its deadline: until then the step is not without progress.
    at = after.deadline if isinstance(after, phases.Stopping) else record.at
    view.note_progress(record.partition, at)
    if isinstance(after, phases.AwaitingController):
        reassignment.requested = after.target
        reassignment.is_requested = True
    view.due.partitions[record.partition] = None


def _stop_replica_answered(
    view: ClusterView, event: records.StopReplicaAnswered, now: Instant
) -> None:
    """Note which dropped replicas are deleted, and which cannot be as their disk failed."""
    if not is_current(view, event):
        return
    if is_refused(view, event.error, event.broker):
        deletion_fold.request_refused(view, event.broker, event.error)
        return
    deletion_fold.broker_informed(view, event)
    for partition, epoch, delete, error in event.results:
        if not delete:
            _stop_confirmed(view, event.broker, partition, error, deletes=False)
            continue
        if error == NONE:
            log_dropped(view, event.broker, partition, now)
        if epoch == EPOCH_DURING_DELETE:
            # One in a failed log directory stays, whatever the answer.
            is_kept = (event.broker, partition) in view.leadership.offline
            noted = KAFKA_STORAGE_ERROR if is_kept else error
            deletion_fold.replica_deleted(view, event.broker, partition, noted)
        _orphan_answered(view, event.broker, partition, error)
        _stop_confirmed(view, event.broker, partition, error, deletes=True)


def _stop_confirmed(
    view: ClusterView, broker: BrokerId, partition: TopicPartition, error: int, *, deletes: bool
) -> None:
    """Note that a dropped replica fetches no more or is deleted, or that its disk failed."""
    reassignment = view.reassignments.by_partition.get(partition)
    if reassignment is None or not isinstance(reassignment.phase, phases.Stopping):
        return
    phase = reassignment.phase
    is_awaited = broker in phase.waiting and phase.deletes == deletes
    if not is_awaited or error not in (NONE, KAFKA_STORAGE_ERROR):
        return
    given_up = phase.given_up
    if error == KAFKA_STORAGE_ERROR:
        view.leadership.offline.add((broker, partition))
        given_up |= {broker}
    elif deletes:
        reassignment.deleted |= {broker}
    waiting = phase.waiting - {broker}
    reassignment.update(replace(phase, waiting=waiting, given_up=given_up), partition)
    view.due.add((partition,))


def _orphan_answered(
    view: ClusterView, broker: BrokerId, partition: TopicPartition, error: int
) -> None:
    orphan = view.reassignments.orphans.get((broker, partition))
    if orphan is None or orphan not in view.reassignments_tenure.orphans_tried:
        return
    if error != NONE:
        view.reassignments.orphans_failed.add(orphan)
        wakeups.wake(view.due, wakeups.Trigger.ORPHAN_FAILED)
    elif not view.is_undeletable(orphan):
        view.due.buried.add(orphan)
        if partition in view.reassignments.by_partition:
            view.due.add((partition,))


def _reassignments_altered(
    view: ClusterView, event: records.ReassignmentsAltered, now: Instant
) -> None:
    """Note the outcome of each alter entry: the controller's answer, or that there was none."""
    if view.tenure.held is None:
        return
    for result in event.results:
        reassignment = view.reassignments.by_partition.get(result.partition)
        if reassignment is None:
            continue
        if result.fate is AlterOutcome.UNKNOWN:
            reassignment.in_doubt = True
        if reassignment.is_requested and reassignment.requested == result.target:
            reassignment.is_requested = False
            if result.fate is AlterOutcome.ANSWERED:
                _all_made(view, result.partition, reassignment)
        phase = reassignment.phase
        if isinstance(phase, phases.AwaitingController) and phase.target == result.target:
            answered = replace(
                phase, since=now, error=result.error, why=result.why, fate=result.fate
            )
            reassignment.update(answered, result.partition)
        view.due.add((result.partition,))
        wakeups.wake(view.due, wakeups.Trigger.ALTER_ANSWERED)


def _all_made(view: ClusterView, partition: TopicPartition, reassignment: Reassignment) -> None:
    """Note that no request is left to be carried out; a late effect has to be read first."""
    topic = view.topics.by_name.get(partition.topic)
    if reassignment.in_doubt and topic is not None:
        view.role.read_generation += 1
        topic.invalidate(view.role.read_generation)
        view.due.overtaken_topics.add(partition.topic)
    reassignment.in_doubt = False


def _alterations_withdrawn(view: ClusterView, event: records.AlterationsWithdrawn) -> None:
    """Note which alter entries were not sent; they are decided again."""
    for partition in event.partitions:
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is None:
            continue
        reassignment.is_requested = False
        if isinstance(reassignment.phase, phases.AwaitingController):
            withdrawn = replace(reassignment.phase, fate=AlterOutcome.WITHDRAWN)
            reassignment.update(withdrawn, partition)
        view.due.add((partition,))
