"""
The functions of a cycle that change the view: ``observe``, ``take_due`` and ``apply``.

``observe`` folds in facts that were read or answered; one older than the view (a read that a write
of ours overtook) is dropped. ``take_due`` takes the worklist, from which ``decide`` decides.
``apply`` folds in records that are durable, the only way our own writes become known: the same
records in the same order give the same view.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final, assert_never

from controller.core import effects, model, wakeups
from controller.core.calls import fold as calls
from controller.core.calls.records import CallEvent, CallRecord
from controller.core.deletions import fold as deletions
from controller.core.deletions.model import EPOCH_DURING_DELETE
from controller.core.deletions.pending_deletions import is_leader_withheld
from controller.core.deletions.records import DeletionEvent, DeletionRecord
from controller.core.disks import fold as disks
from controller.core.disks import log_dir_queries
from controller.core.disks.records import DiskEvent
from controller.core.leadership import fold as leadership
from controller.core.leadership import isr_changes
from controller.core.leadership.cluster_loading import missing_again
from controller.core.leadership.duties import leader_bounced
from controller.core.leadership.model import AwaitedRead
from controller.core.leadership.records import LeadershipEvent, LeadershipRecord
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.pacing import fold as pacing
from controller.core.pacing.records import PacingEvent, PacingRecord
from controller.core.reassignments import fold as reassignments
from controller.core.reassignments.records import ReassignmentEvent, ReassignmentRecord
from controller.core.records import Event, Record, TimerFired
from controller.core.requests import fold as requests
from controller.core.requests.acceptance import cycle_share
from controller.core.requests.model import AcceptedEntries
from controller.core.requests.records import RequestEvent, RequestRecord
from controller.core.role import fold as role
from controller.core.role.invalidation import LEFT_TIMER
from controller.core.role.records import RoleEvent, RoleRecord
from controller.core.topics import fold as topics
from controller.core.topics.model import ConfigRequest
from controller.core.topics.records import TopicEvent, TopicRecord
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

SMALL_REQUEST: Final = 100
"""Reassignments of a request that do not wait behind those of larger ones in a cycle."""


def observe(view: ClusterView, event: Event, now: Instant) -> None:  # noqa: C901 - one branch per subject
    """Fold one event into the view: its subject does."""
    view.due.wake(event.wakes)
    if isinstance(event, TimerFired):
        _timer(view, event.name, now)
    elif isinstance(event, LeadershipEvent):
        leadership.fold_event(view, event, now)
    elif isinstance(event, TopicEvent):
        topics.fold_event(view, event, now)
    elif isinstance(event, ReassignmentEvent):
        reassignments.fold_event(view, event, now)
    elif isinstance(event, RequestEvent):
        requests.fold_event(view, event, now)
    elif isinstance(event, PacingEvent):
        pacing.fold_event(view, event, now)
    elif isinstance(event, DiskEvent):
        disks.fold_event(view, event, now)
    elif isinstance(event, DeletionEvent):
        deletions.fold_event(view, event, now)
    elif isinstance(event, CallEvent):
        calls.fold_event(view, event, now)
    elif isinstance(event, RoleEvent):
        role.fold_event(view, event, now)
    else:
        assert_never(event)


def _timer(view: ClusterView, name: str, now: Instant) -> None:
    """Wake the row of a timer, and note the partitions that wait for it; others wake everything."""
    view.due.wake(wakeups.TIMERS.get(name, wakeups.Trigger.TIME_CAME))
    running = view.reassignments.by_partition.items()
    if name == wakeups.LOG_DIRS_TIMER:
        disks.examine_waiting(view)
    elif name == wakeups.PENDING_REQUESTS_TIMER:
        isr_changes.time_passed(view, now)
    elif name in {wakeups.ALTER_ANSWER_TIMER, wakeups.ALTER_SEEN_TIMER}:
        view.due.add(p for p, r in running if reassignments.waits_for_time(r))
    elif name in wakeups.REASONS_OF_TIMERS:
        by = (wakeups.REASONS_OF_TIMERS[name],)
        view.due.add(p for p, r in running if reassignments.is_blocked(r, by))
    elif name not in wakeups.TIMERS:
        if name == LEFT_TIMER:
            view.requests_session.left_submissions.clear()
        reassignments.note_waiting(view)


# --- the worklist --------------------------------------------------------------------------------


def take_due(view: ClusterView) -> Worklist:
    """
    Return the worklist of this cycle and start a new one with the surplus.

    Of a surplus, the partitions of small requests come first. A bounce is passed on once the
    partition can be judged, and kept until then. So is an entry that was taken out of the legacy
    znode.
    """
    due = view.due
    _keep_removed(view, due)
    _keep_bounces(view, due)
    most = cycle_share(view, view.options.look_chunk)
    view.requests_session.short_cycles = max(view.requests_session.short_cycles - 1, 0)
    if len(due.partitions) > most:
        due.put_first([p for p in due.partitions if _is_of_small_request(view, p)])
    view.due = due.leave(most)
    for partition in tuple(due.bounced_from):
        if not _is_judgeable(view, due, partition):
            _keep_bounce(view, partition, due.bounced_from.pop(partition))
    for partition in due.partitions if view.leadership.bounced else ():
        # A state that is being read again may be an older ISR of a leader that lost the newer one.
        is_read = _is_judgeable(view, due, partition) and partition not in view.leadership.seeding
        if is_read and partition in view.leadership.bounced:
            bounced = view.leadership.bounced.pop(partition)
            due.bounced_from.setdefault(partition, set()).update(bounced)
    return due


def _is_of_small_request(view: ClusterView, partition: TopicPartition) -> bool:
    reassignment = view.reassignments.by_partition.get(partition)
    if reassignment is None:
        return False
    request = view.requests.by_id.get(reassignment.spec.request)
    return request is not None and request.open <= SMALL_REQUEST


def _keep_removed(view: ClusterView, due: Worklist) -> None:
    removed = view.requests_tenure.removed_entries | due.dropped
    view.requests_tenure.removed_entries = {
        p for p in removed & view.reassignments.by_partition.keys() if not view.topics.assignment(p)
    }
    due.dropped = removed - view.requests_tenure.removed_entries


def _keep_bounces(view: ClusterView, due: Worklist) -> None:
    # A broker that left counts as well: it may be back when the state is read, which would then
    # show a live leader. So does one that joined: the state may be from before it left.
    came = due.bounced | due.left | (due.joined - due.elsewhere)
    for partition in due.partitions if came and view.tenure.held is not None else ():
        if not _is_judgeable(view, due, partition):
            _keep_bounce(view, partition, came)


def _keep_bounce(
    view: ClusterView, partition: TopicPartition, brokers: Collection[BrokerId]
) -> None:
    assignment = view.topics.known_assignment(partition)
    replicas = () if assignment is None else assignment.replicas
    concerned = [r for r in replicas if r in brokers]
    if concerned:
        view.leadership.bounced.setdefault(partition, set()).update(concerned)


def _is_judgeable(view: ClusterView, due: Worklist, partition: TopicPartition) -> bool:
    # That there is no state is known as well. A topic that is to be deleted gets no new leader
    # unless it is reassigned: its bounces wait while it needs one, as an operator may withdraw the
    # deletion.
    if partition.topic in view.deletions.running:
        return False  # no state of it is written, unless the deletion is revoked
    state = view.leadership.states.get(partition)
    is_withheld = is_leader_withheld(view, partition.topic)
    if is_withheld and partition not in view.reassignments.by_partition:
        if state is None or not view.is_live(state.leader, partition):
            return False
        if leader_bounced(view, due, partition):
            return False
    is_read = state is not None or partition in view.leadership.stateless
    return is_read and view.topics.assignment(partition) is not None


# --- what was written and carried out ------------------------------------------------------------


def apply(view: ClusterView, record: Record, now: Instant) -> None:
    """
    Fold one durable record into the view: its subject does.

    Raises:
        InvariantError: an illegal change of phase.

    """
    view.due.wake(record.wakes)
    if isinstance(record, ReassignmentRecord):
        reassignments.fold_record(view, record, now)
    elif isinstance(record, LeadershipRecord):
        leadership.fold_record(view, record, now)
    elif isinstance(record, TopicRecord):
        topics.fold_record(view, record, now)
    elif isinstance(record, RequestRecord):
        requests.fold_record(view, record, now)
    elif isinstance(record, PacingRecord):
        pacing.fold_record(view, record, now)
    elif isinstance(record, DeletionRecord):
        deletions.fold_record(view, record, now)
    elif isinstance(record, CallRecord):
        calls.fold_record(view, record, now)
    elif isinstance(record, RoleRecord):
        role.fold_record(view, record, now)
    else:
        assert_never(record)


def record_effect(view: ClusterView, effect: effects.Effect, now: Instant) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per effect
    """Note that an effect was carried out, where the next decision depends on it."""
    tenure = view.tenure
    match effect:
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.WATCH):
            view.leadership.watched.update(dict.fromkeys(partitions, False))
        case effects.ReadStates(
            partitions=partitions, purpose=effects.ReadPurpose.SEED | effects.ReadPurpose.CONFLICT
        ):
            # The effects of the rejected write were not sent: all brokers are informed again.
            view.leadership.seeding.update(partitions)
            if view.calls.pending_broker_requests:
                # Reads that begin from now on show what is newer than the requests.
                view.role.read_generation += 1
                read = AwaitedRead(now, view.role.read_generation)
                view.leadership.awaited_reads.update(dict.fromkeys(partitions, read))
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.REFRESH):
            view.leadership.refreshing.update(partitions)
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.MISSING):
            view.role.missing_at = missing_again(partitions, now)
        case effects.DescribeTopicConfigs(topics=topics):
            config_request = ConfigRequest(view.topics_process.config_request.number + 1, now)
            view.topics_process.config_request = config_request
            view.topics.requested_configs.update(dict.fromkeys(topics, config_request))
        case effects.ReadTopics(topics=topics):
            view.topics.requested.update(topics)
            view.topics_tenure.reading.update(topics)
        case effects.ReadSubmissions(names=names):
            view.requests_session.requested_submissions.update(names)
        case effects.ReadAccepted(request=request):
            view.requests_leadership.accepted[request] = AcceptedEntries()
        case effects.ReadEntityConfigs(entities=entities):
            view.pacing_leadership.requested_entities.update(dict.fromkeys(entities, now))
        case effects.MeasureLatency(until=until, hosts=hosts):
            view.pacing_leadership.measured_until = until
            view.pacing_leadership.probed = hosts
        case effects.DescribeLogDirs():
            log_dir_queries.record_query(view, effect, now)
        case effects.PlaceReplica():
            disks.record_placement_request(view, effect, now)
        case effects.ClaimController() | effects.BeginTenure():
            view.role.claiming, view.role.is_void = True, False
            view.role.claimed_at = now
        case effects.ProbeReassignments():
            tenure.probing = True
        case effects.SubmitReassignments(ticket=ticket, results=results):
            pending = view.calls.pending_client_requests.get(ticket)
            if pending is not None:
                view.calls.pending_client_requests[ticket] = replace(pending, results=results)
        case effects.ResignController():
            tenure.resigning = True
        case effects.DescribeBrokerSettings(brokers=brokers):
            view.cluster.record_settings_request(brokers, now)
        case effects.ReadTopicTrees(topics=topics):
            view.deletions.requested_trees.update(topics)
        case effects.SendStopReplica(partition=partition, broker=broker):
            if effect.leader_epoch == EPOCH_DURING_DELETE:
                view.deletions.record_stop(partition, broker, delete=effect.delete)
            orphan = view.reassignments.orphans.get((broker, partition))
            if orphan is not None:
                view.reassignments_tenure.orphans_tried.add(orphan)
        case _:
            pass


def versions_moved(
    view: ClusterView, topics: Iterable[str], *, legacy: bool, queue: bool = False, shards: int = 0
) -> None:
    """Count one write of each of these znodes; ``shards`` of outcomes are this tenure's so far."""
    for name in topics:
        topic = view.topics.by_name[name]
        topic.version = model.ZkVersion(topic.version + 1)
        if topic.lacks_id and topic.topic_id is not None:
            view.topics.id_written(name, topic.topic_id)
    if legacy and view.requests.legacy is not None:
        view.requests.legacy.version = model.ZkVersion(view.requests.legacy.version + 1)
    if queue and view.requests.queue is not None:
        view.requests.queue.version = model.ZkVersion(view.requests.queue.version + 1)
    view.requests_tenure.shards = max(view.requests_tenure.shards, shards)
