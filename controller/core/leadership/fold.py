"""
Fold events and records of partition states, elections, notifications and answers into the view.

An answer over a channel of an earlier registration of the broker does not concern the present one
and is dropped (kafka-facts, 3.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from controller import kafka_errors
from controller.core import model, wakeups
from controller.core.deletions import fold as deletion_fold
from controller.core.leadership import isr_changes, leader_selection, records
from controller.core.model import BrokerId, Instant, PartitionState, TopicPartition
from controller.core.pacing import isr_health
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.model import LASTING_REFUSALS
from controller.core.role.records import UpdateMetadataAnswered
from controller.core.view import ClusterView

UNTREATED_S: Final = 60.0
"""How long before a claim a restart may have been that the former controller did not treat."""


def fold_event(view: ClusterView, event: records.LeadershipEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.StatesRead():
            states_read(view, event, now)
        case records.StateChanged(partition=partition):
            view.due.changed.add(partition)
            view.leadership.watched.pop(partition, None)
        case records.IsrNotificationsRead():
            view.leadership_process.notifications["isr_notifications"] = event.names
            view.due.notified.update(dict.fromkeys(sorted(event.partitions)))
        case records.PreferredElectionRead():
            if view.is_native:
                view.leadership.preferred_version = event.version
                view.leadership.preferred.update(dict.fromkeys(sorted(event.partitions or ())))
                wakeups.wake(view.due, wakeups.Trigger.ELECTION_WANTED)
        case records.LeaderAndIsrAnswered():
            isr_health.note_answer(view, event.broker, event.took_s, now)
            leader_and_isr_answered(view, event)
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.LeadershipRecord, now: Instant) -> None:  # noqa: C901, PLR0912 - one arm per record
    """Fold one record into the view."""
    leadership, calls, history = view.leadership, view.calls, view.leadership_process
    match record:
        case records.StateRecord():
            written = PartitionState(
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                isr=record.isr,
                controller_epoch=record.controller_epoch,
                version=model.ZkVersion(record.expected_version + 1),
                leader_recovery_state=record.leader_recovery_state,
                mzxid=_newest_registration(view),
            )
            _state_written(view, record.partition, written, now)
            if record.partition in view.reassignments.by_partition:
                view.reassignments.by_partition[record.partition].rejoined = model.NO_BROKERS
        case records.IsrRecord(partition=partition, before=before):
            if not set(record.isr) <= set(before.isr):
                view.note_progress(partition, now)
            written = replace(
                before,
                isr=record.isr,
                leader_recovery_state=record.leader_recovery_state,
                version=model.ZkVersion(before.version + 1),
            )
            _state_written(view, partition, written, now)
            dead = set(record.isr) - view.cluster.brokers.keys()
            if dead:
                # A leader before Kafka 3.2 requested it. It may be back when the ISR is repaired.
                leadership.bounced.setdefault(partition, set()).update(dead)
            wakeups.orphans_concerned(view, partition)
        case records.StateReliedRecord():
            pass
        case records.ShutdownBegunRecord(broker=broker, epoch=epoch):
            leadership.shutting_down[broker] = epoch
            view.due.add(p for p in leadership.states if broker in view.serving_replicas(p))
        case records.ElectionsRequestedRecord(ticket=ticket, partitions=partitions):
            calls.pending_client_requests[ticket] = replace(
                calls.pending_client_requests[ticket],
                results=record.results,
                electing=frozenset(partitions),
            )
            calls.electing.update(partitions)
            if record.is_unclean:
                view.due.add(partitions)
            else:
                leadership.preferred.update(dict.fromkeys(partitions))
        case records.StateCreatedRecord(partition=partition):
            leadership.stateless.discard(partition)
            leadership.states[partition] = PartitionState(
                leader=record.leader,
                leader_epoch=model.LeaderEpoch(0),
                isr=record.isr,
                controller_epoch=record.controller_epoch,
                version=model.ZkVersion(0),
                mzxid=_newest_registration(view),
            )
            isr_health.judge(view, partition)
            view.due.add((partition,))
        case records.NotificationsDeletedRecord(kind=kind, names=names):
            gone = set(names)
            left = history.notifications.get(kind, ())
            history.notifications[kind] = tuple(n for n in left if n not in gone)
        case records.PreferredElectionEndedRecord():
            leadership.preferred_version = None
        case records.PreferredTriedRecord(partitions=partitions, at=at):
            for partition in partitions:
                leadership.preferred.pop(partition, None)
            history.preferred_at = at
            wakeups.wake_pending_requests(view)
        case records.LeadersBalancedRecord(partitions=partitions, at=at):
            leadership.preferred.update(dict.fromkeys(partitions))
            history.balanced_at = at
        case _:
            assert_never(record)


def _newest_registration(view: ClusterView) -> model.Zxid:
    """Return a transaction before a write of this cycle: later registrations are read after it."""
    return model.Zxid(max((b.epoch for b in view.cluster.brokers.values()), default=0))


def _state_written(
    view: ClusterView, partition: TopicPartition, state: PartitionState, now: Instant
) -> None:
    before = view.leadership.states.get(partition)
    view.leadership.states[partition] = state
    isr_changes.record_state_write(view, partition, before, state, now)
    leader_selection.note_leader(view, partition, before)
    isr_health.note_isr(view, partition, before, state, now)
    isr_health.judge(view, partition)
    view.due.add((partition,))
    wakeups.wake_pending_requests(view)


def states_read(view: ClusterView, event: records.StatesRead, now: Instant) -> None:  # noqa: C901 - one fact each
    """Fold in partition states: leader, ISR, epochs, or that there is none."""
    tenure, leadership = view.tenure, view.leadership
    if tenure.held is None or event.read_generation < tenure.claim_generation:
        # A read that was under way at a claim is requested again in the tenure.
        return
    for partition, read in deletion_fold.present_states(view, event):
        if event.read_generation < leadership.distrusted.get(partition, 0):
            # It was under way when a write of ours was rejected; another one follows.
            continue
        was_distrusted = leadership.distrusted.pop(partition, None) is not None
        _note_watch(view, partition, read, event.armed)
        _record_read(view, partition, event.read_generation)
        # An unreadable state was not sent to any broker.
        fresh = partition in leadership.seeding or partition in leadership.unreadable
        leadership.seeding.discard(partition)
        leadership.unseeded.pop(partition, None)
        if partition in leadership.refreshing:
            leadership.refreshing.discard(partition)
            view.due.refreshed[partition] = None
        if partition.topic not in view.topics.by_name:
            continue
        if fresh:
            view.due.seeded[partition] = None
        if isinstance(read, PartitionState):
            leadership.stateless.discard(partition)
            leadership.unreadable.pop(partition, None)
            known = leadership.states.get(partition)
            if known is not None and read.version < known.version:
                continue
            former = leadership.overtaken.pop(partition, None)
            state = leadership.states[partition] = _since_its_epoch(read, known or former)
            if known is None:
                _state_appeared(view, partition, state, now, is_first=not was_distrusted)
            leader_selection.note_leader(view, partition, known)
            isr_health.note_isr(view, partition, known, read, now)
            if known is not None and not set(read.isr) <= set(known.isr):
                view.note_progress(partition, now)
            isr_health.judge(view, partition)
            wakeups.orphans_concerned(view, partition)
        elif read is None:
            leadership.stateless.add(partition)
            leadership.unreadable.pop(partition, None)
            leadership.states.pop(partition, None)
            leadership.leaderless.pop(partition, None)
            isr_health.forget_health(view, partition)
        else:
            leadership.stateless.discard(partition)
            leadership.unreadable[partition] = read
        view.due.partitions[partition] = None
    wakeups.wake_pending_requests(view)


def _since_its_epoch(read: PartitionState, known: PartitionState | None) -> PartitionState:
    """Return a state as read, with the transaction in which its leader epoch began, if known."""
    if known is None or known.leader_epoch != read.leader_epoch:
        return read
    if known.mzxid == model.UNKNOWN_ZXID or read.mzxid <= known.mzxid:
        return read
    return replace(read, mzxid=known.mzxid)


def _state_appeared(
    view: ClusterView,
    partition: TopicPartition,
    read: PartitionState,
    now: Instant,
    *,
    is_first: bool,
) -> None:
    """
    Note a state that was not known; ``is_first`` in the tenure, or since a rejected write.

    After a rejected write, its ISR may have a member that the former one did not have, and that
    restarted since: by the former ISR there was nothing to treat.
    """
    if partition in view.reassignments.by_partition:
        # A cancellation that waited for this state precedes the partition's next step.
        wakeups.wake(view.due, wakeups.Trigger.STATE_APPEARED)
    if view.is_controller:
        if is_first:
            isr_changes.note_first_read(view, partition, read, now)
        note_untreated(view, partition, read)


def _record_read(view: ClusterView, partition: TopicPartition, read_generation: int) -> None:
    """Note that a read is answered that a request of a broker waits for."""
    awaited = view.leadership.awaited_reads.get(partition)
    if awaited is not None and read_generation >= awaited.read_generation:
        view.leadership.awaited_reads[partition] = awaited._replace(is_answered=True)


def note_untreated(view: ClusterView, partition: TopicPartition, state: PartitionState) -> None:
    """
    Note the members of the ISR that restarted, where no controller wrote the state since.

    The controller before the claim may not have known it yet; a broker that was dead at the claim
    may be back before its death is treated. A restart long before the claim is left: a Kafka
    controller that takes over treats none, and after a restart of the whole cluster each ISR would
    shrink to its leader.
    """
    held, cluster = view.tenure.held, view.cluster
    if held is None or not cluster.registered or state.mzxid == model.UNKNOWN_ZXID:
        return
    since = min(view.role.claimed_at, held.since - UNTREATED_S)
    members = {state.leader, *state.isr} & cluster.brokers.keys()
    untreated = {
        broker
        for broker in members & cluster.registered.keys()
        if cluster.registered[broker] >= since and cluster.brokers[broker].epoch > state.mzxid
    }
    if untreated:
        view.leadership.bounced.setdefault(partition, set()).update(untreated)


def _note_watch(
    view: ClusterView,
    partition: TopicPartition,
    read: PartitionState | str | None,
    armed: frozenset[TopicPartition] | None,
) -> None:
    """
    Note whether the watch is set: only a watched state may be taken for the present one.

    Where it fired before the rest was read, the state is requested again; a missing one has none.
    """
    if partition not in view.leadership.watched or armed is None:
        return
    if partition in armed:
        view.leadership.watched[partition] = True
    elif not isinstance(read, PartitionState):
        del view.leadership.watched[partition]


# --- answers --------------------------------------------------------------------------------------


def is_refused(view: ClusterView, error: int, broker: BrokerId) -> bool:
    """Return whether a request failed as a whole; note when the broker knows a newer controller."""
    tenure = view.tenure
    if error == kafka_errors.STALE_CONTROLLER_EPOCH and tenure.held is not None:
        tenure.fenced = f"broker {broker} knows a newer controller"
        wakeups.wake(view.due, wakeups.Trigger.ROLE_DISPUTED)
    if (
        error in LASTING_REFUSALS
        and tenure.held is not None
        and tenure.refusers.get(broker) != error
    ):
        tenure.refusers[broker] = error
        wakeups.wake(view.due, wakeups.Trigger.ROLE_DISPUTED)
    return error != kafka_errors.NONE


def is_current(
    view: ClusterView,
    event: records.LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered,
) -> bool:
    """Return whether a response is of this tenure and of the present registration of its broker."""
    broker = view.cluster.brokers.get(event.broker)
    return (
        view.tenure.held is not None and broker is not None and broker.epoch == event.broker_epoch
    )


def leader_and_isr_answered(view: ClusterView, event: records.LeaderAndIsrAnswered) -> None:
    """
    Note acknowledgements of leaders and failed log directories.

    An acknowledgement is error NONE, or "already at this leader epoch" where only a request of this
    tenure can be the cause: on a resend, or when this tenure wrote the epoch and an answer was lost
    with its channel.
    """
    leadership, reassignments = view.leadership, view.reassignments
    if not is_current(view, event) or is_refused(view, event.error, event.broker):
        return
    for partition, epoch, error in event.results:
        if error == kafka_errors.KAFKA_STORAGE_ERROR:
            _replica_offline(view, event.broker, partition)
            continue
        if error == kafka_errors.INCONSISTENT_TOPIC_ID:
            _id_refused(view, event.broker, partition)
            continue
        repeated = error == kafka_errors.STALE_CONTROLLER_EPOCH
        is_applied = error == kafka_errors.NONE or repeated
        if is_applied:
            _replica_served(view, event.broker, partition)
        state = leadership.states.get(partition)
        if state is None:
            continue
        if (
            (partition in reassignments.orphaned or partition in reassignments.by_partition)
            and state.leader == event.broker
            and is_applied
        ):
            # It has this epoch, whatever the source: it does not rely on the orphan any more.
            view.reassignments_tenure.confirmed[partition] = (event.broker, epoch)
            wakeups.orphans_concerned(view, partition)
        known = repeated and (event.resent or _is_ours(view, state))
        awaited = partition in reassignments.by_partition or partition in view.calls.electing
        if not awaited or not (error == kafka_errors.NONE or known):
            continue
        if state.leader == event.broker and state.leader_epoch == epoch:
            leadership.acked[partition] = (event.broker, epoch)
            view.due.add((partition,))
            wakeups.wake_pending_requests(view)


def _replica_offline(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    if (broker, partition) not in view.leadership.offline:
        view.leadership.offline.add((broker, partition))
        isr_health.judge(view, partition)
        view.due.add((partition,))
        wakeups.orphans_concerned(view, partition)


def _id_refused(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    """Note that a broker rejects the states of a partition: its log is of another topic."""
    if (broker, partition) not in view.leadership.id_conflicts:
        view.leadership.id_conflicts.add((broker, partition))
        view.due.add((partition,))


def _replica_served(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> None:
    view.leadership.id_conflicts.discard((broker, partition))
    if (broker, partition) in view.leadership.offline:
        view.leadership.offline.discard((broker, partition))
        isr_health.judge(view, partition)
        leader_selection.note_candidate(view, partition)


def _is_ours(view: ClusterView, state: PartitionState) -> bool:
    """Return whether this tenure wrote the leader epoch: then no other controller sent it."""
    return view.tenure.held is not None and state.controller_epoch == view.tenure.held.epoch
