"""Fold events and records of topics into the view; a read that a write overtook is dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, assert_never

from controller.core import core_settings, model, wakeups
from controller.core.cluster import protocols
from controller.core.deletions import fold as deletion_fold
from controller.core.leadership import leader_selection
from controller.core.model import Instant, TopicPartition
from controller.core.pacing import drained_replicas, isr_health
from controller.core.reassignments import in_flight
from controller.core.reassignments.model import RemovedReplica
from controller.core.topics import records, topic_configs
from controller.core.topics.model import Topic, is_no_news, unmarked_since
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.TopicEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.TopicsListed():
            topics_listed(view, event)
        case records.TopicsRead():
            topics_read(view, event, now)
        case records.TopicConfigsRead():
            topic_configs.topic_configs_read(view, event, now)
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.TopicRecord, now: Instant) -> None:
    """Fold one record into the view."""
    del now
    match record:
        case records.AssignmentRecord(partition=partition, assignment=assignment):
            entries = view.topics.by_name[partition.topic].partitions
            if partition.partition not in entries:
                # It is new: a state that exists nevertheless is found when ours is rejected.
                view.leadership.stateless.add(partition)
                view.due.partitions[partition] = None
            entries[partition.partition] = assignment
            wakeups.orphans_concerned(view, partition)
            isr_health.judge(view, partition)
            drained_replicas.judge(view, partition)
        case records.TopicIdRecord(topic=topic, topic_id=topic_id):
            view.topics.id_written(topic, topic_id)
            # First states wait for it.
            view.due.add(view.topics.partitions_of(topic))
        case (
            records.TopicCreatedRecord(ticket=ticket, result=result)
            | records.TopicGrownRecord(ticket=ticket, result=result)
        ):
            view.calls.note_topic(ticket, result)
            view.calls.electing.update(result.new_partitions)
        case _:
            assert_never(record)


DEPARTURES_KEPT: Final = 2_000
"""The most remembered replicas that others dropped: more than a controller drops in a minute."""


def topics_listed(view: ClusterView, event: records.TopicsListed) -> None:
    """
    Fold in the list of topics; one that it lacks is gone only if a read shows no topic either.

    Topics are listed and read concurrently. One that was created again may be known, and have a
    reassignment in flight, before a list arrives that was read while there was none of that name.
    """
    topics = view.topics
    known = chain(topics.missing, topics.by_name, topics.unreadable)
    topics.missing = {name for name in known if name not in event.topics}
    topics.listed = event.topics | topics.missing
    topics.requested &= event.topics
    view.due.overtaken_topics |= topics.missing


def _is_led_by_a_broker(view: ClusterView) -> bool:
    """Return whether a Kafka controller, no other daemon, writes the topic znodes."""
    if view.tenure.held is not None or view.role.engine is core_settings.EngineName.DELEGATED:
        return False
    return (
        view.role.claiming  # Until the claim succeeds, though ``/controller`` names us.
        or view.role_session.guards is None
        or view.role_session.guards.controller_broker in view.cluster.brokers
    )


def _note_departures(
    view: ClusterView, name: str, known: Topic, read: model.TopicAssignment, now: Instant
) -> None:
    """Remember replicas that another controller drops: our claim may interrupt its StopReplica."""
    for number, assignment in read.partitions.items():
        old = known.partitions.get(number)
        for broker in old.replicas if old is not None and old != assignment else ():
            if broker not in assignment.replicas:
                partition = TopicPartition(name, number)
                view.reassignments.departed[RemovedReplica(broker, partition, read.czxid)] = now
    _forget_old_departures(view)


def _forget_old_departures(view: ClusterView) -> None:
    departed = view.reassignments.departed
    while len(departed) > DEPARTURES_KEPT:
        del departed[next(iter(departed))]


def topics_read(view: ClusterView, event: records.TopicsRead, now: Instant) -> None:
    """Fold in topic znodes: assignments, unreadable ones, and missing ones."""
    if view.tenure.held is not None and event.read_generation < view.tenure.claim_generation:
        _reread_overtaken(view, event)
        return
    view.topics_tenure.reading.difference_update(event.topics)
    topics = deletion_fold.without_deleted(view, event.topics)
    uncertain = {name for name, read in topics.items() if _may_lose(view, name, read)}
    for name, read in topics.items():
        if isinstance(read, model.TopicAssignment):
            _topic(view, name, read, event.read_generation, now)
        elif read is not None:
            view.topics.unreadable[name] = read
    _missing(view, {name for name, read in topics.items() if read is None})
    if uncertain:
        moved = (p for p in view.reassignments.by_partition if p.topic in uncertain)
        view.due.add(p for p in moved if view.topics.known_assignment(p) is None)
    wakeups.wake(view.due, wakeups.Trigger.TOPICS_TAKEN)
    wakeups.wake_pending_requests(view)


def _missing(view: ClusterView, names: AbstractSet[str]) -> None:
    """
    Forget topics whose znode was missing; a listed one is gone only if something else shows that.

    The present list may be newer than the read and contain a topic of that name that was created
    again, which no further list would show.
    """
    topics = view.topics
    for name in names:
        deletion_fold.forget_topic(view, name)
        topics.unreadable.pop(name, None)
    topics.requested -= names
    listed = names & (topics.listed or frozenset())
    gone = listed & topics.missing
    topics.missing = (topics.missing | listed) - gone
    view.due.overtaken_topics |= listed - gone
    if topics.listed is not None and gone:
        topics.listed -= gone
        wakeups.wake(view.due, wakeups.Trigger.TOPIC_GONE)


def _reread_overtaken(view: ClusterView, event: records.TopicsRead) -> None:
    """Read topics again whose read began before the claim, where it differs: it may be outdated."""
    topics = view.topics
    for name, read in event.topics.items():
        known = topics.by_name.get(name)
        if known is None:
            topics.requested.discard(name)
        elif (
            isinstance(read, model.TopicAssignment)
            and read.czxid == known.czxid
            and read.version <= known.version
        ):
            continue
        else:
            known.invalidate(view.tenure.claim_generation)
        view.due.overtaken_topics.add(name)


def _may_lose(view: ClusterView, name: str, read: model.TopicAssignment | str | None) -> bool:
    """Return whether a read may be the first to show that a partition is gone."""
    known = view.topics.by_name.get(name)
    if not isinstance(read, model.TopicAssignment) or known is None or known.stale:
        return True
    return len(read.partitions) < len(known.partitions)


def read_invalid(view: ClusterView, topics: Iterable[str]) -> None:
    """Have those of some topics read now that are invalid, as something waits for them."""
    for name in topics if view.tenure.held is not None else ():
        known = view.topics.by_name.get(name)
        if known is not None and known.stale and name not in view.topics_tenure.reading:
            view.due.overtaken_topics.add(name)


def read_requested(view: ClusterView, topics: AbstractSet[str]) -> None:
    """
    Have topics read that a request names, before it is judged.

    With the delegated engine a topic may be deleted and created again at any time, and a request
    for the later one be read first. It would be accepted for the former, and end with that.
    """
    known = view.topics.by_name.keys() & topics
    if view.tenure.held is None or view.is_controller:
        read_invalid(view, known)
    elif known:
        view.role.read_generation += 1
        for name in known:
            view.topics.by_name[name].invalidate(view.role.read_generation)
        view.due.overtaken_topics |= known


def follow_protocol(view: ClusterView) -> None:
    """
    Have the requests of the tenure follow the protocol of the brokers that are live now.

    Where brokers are sent topic ids from now on, they are sent everything again: they keep their
    leader epochs, and take the ids that their logs lack. Topics without an id get one, once they
    are read in this tenure.
    """
    if not view.is_controller:
        return
    had_ids = protocols.sends_ids(view)
    view.tenure.protocol = protocols.protocol_of(view)
    if protocols.sends_ids(view) and not had_ids:
        known = view.leadership.states.keys() - view.leadership.seeding
        view.due.seeded.update(dict.fromkeys(sorted(known)))
    if protocols.assigns_ids(view):
        read_invalid(view, sorted(view.topics.without_id))


def _topic(
    view: ClusterView, name: str, read: model.TopicAssignment, read_generation: int, now: Instant
) -> None:
    leadership = view.leadership
    view.topics.unreadable.pop(name, None)
    known = view.topics.by_name.get(name)
    if known is not None and known.czxid != read.czxid:
        deletion_fold.forget_topic(view, name)
        known = None
    if known is not None:
        known.read_in = max(known.read_in, read_generation)
    was_stale = known is not None and known.stale
    invalidated_in = (
        0 if known is None or read_generation >= known.invalidated_in else known.invalidated_in
    )
    if known is not None and is_no_news(
        read.version, known.version, stale=was_stale and not invalidated_in
    ):
        return
    deletion_fold.topic_changed(view, name, known, read)
    before = known.partitions if known is not None else {}
    if known is not None and (was_stale or _is_led_by_a_broker(view)):
        _note_departures(view, name, known, read, now)
    moved = {TopicPartition(name, n) for n, a in read.partitions.items() if before.get(n) != a}
    for number, assignment in read.partitions.items():
        partition = TopicPartition(name, number)
        old = before.get(number)
        _note_before(view, partition, old, assignment, is_marked=read.is_marked)
        if view.tenure.held is not None:
            if old is None:
                _await_state(view, partition, assignment)
            if assignment.is_reassigning and partition not in view.reassignments.by_partition:
                view.reassignments_tenure.may_have_foreign = True
    topic = Topic.of(read, None if known is None else known.topic_id)
    topic.stale, topic.invalidated_in = was_stale and invalidated_in > 0, invalidated_in
    topic.read_in = read_generation if known is None else known.read_in
    topic.unmarked = unmarked_since(known, read)
    topic.requests_before = (
        view.topics_process.config_request.number if known is None else known.requests_before
    )
    view.topics.put(name, topic)
    partitions = [TopicPartition(name, n) for n in read.partitions]
    view.due.add(p for p in partitions if p in leadership.states or p in leadership.stateless)
    _reconsider(view, partitions, moved, now)
    _note_lost(view, name, moved, before, now)
    if was_stale and not topic.stale:
        _resume_topic(view, partitions)


def _await_state(
    view: ClusterView, partition: TopicPartition, assignment: model.PartitionAssignment
) -> None:
    """Have the state of a new partition read, and earlier bounces handled."""
    view.leadership.unseeded[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.PARTITION_APPEARED)
    bounced = view.cluster.registered_since(view.role.claimed_at).intersection(assignment.replicas)
    if bounced:
        view.leadership.bounced[partition] = bounced


def _resume_topic(view: ClusterView, partitions: list[TopicPartition]) -> None:
    """
    Have everything sent and repaired that was suspended while the topic was stale.

    A state that is being read again waits for that: the known one may be an older ISR, and its
    leader may have lost the newer one.
    """
    leadership = view.leadership
    known = [p for p in partitions if p in leadership.states and p not in leadership.seeding]
    view.due.seeded.update(dict.fromkeys(known))
    view.due.add(p for p in known if p in leadership.bounced)


def _note_before(
    view: ClusterView,
    partition: TopicPartition,
    old: model.PartitionAssignment | None,
    new: model.PartitionAssignment,
    *,
    is_marked: bool,
) -> None:
    """Remember the replicas of a partition before another client began to change them."""
    was_plain = old is not None and not old.is_reassigning
    # Kafka 2.3 writes the former and the new replicas together, without a distinction.
    is_union = old is not None and not is_marked and set(old.replicas) < set(new.replicas)
    if old is not None and was_plain and (new.is_reassigning or is_union):
        view.reassignments.before[partition] = old.replicas
    elif not new.is_reassigning and old != new:
        view.reassignments.before.pop(partition, None)


def _reconsider(
    view: ClusterView, partitions: list[TopicPartition], moved: set[TopicPartition], now: Instant
) -> None:
    """
    Examine partitions by their replicas as read; a phase does not outlive a change of them.

    A phase was decided on the former replicas. Where we are the controller, keeping it could delete
    replicas that no write of ours excluded.
    """
    for partition in partitions:
        if partition in moved:
            reassignment = view.reassignments.by_partition.get(partition)
            if reassignment is not None:
                # Stale or not: the read after an invalidation may show no change.
                in_flight.reflect_participants(view, partition)
                if reassignment.in_flight and view.is_controller:
                    in_flight.restart_step(view, partition, reassignment, now)
            leader_selection.note_candidate(view, partition)
            drained_replicas.judge(view, partition)
        if partition in view.leadership.states:
            isr_health.judge(view, partition)
        wakeups.orphans_concerned(view, partition)


def _note_lost(
    view: ClusterView,
    name: str,
    moved: set[TopicPartition],
    before: Mapping[int, model.PartitionAssignment],
    now: Instant,
) -> None:
    """
    Note the replicas that another controller dropped while their broker was dead.

    Those of a broker whose death is read later are found by ``orphans.record_lost``.
    """
    reassignments = view.reassignments
    for partition in moved & reassignments.by_partition.keys():
        old = before.get(partition.partition)
        topic = view.topics.by_name[name]
        left = topic.partitions[partition.partition].replicas
        gone = [r for r in old.replicas if r not in left] if old is not None else []
        lost = {r for r in gone if r not in view.cluster.brokers}
        reassignment = reassignments.by_partition[partition]
        reassignment.lost = (reassignment.lost - set(left)) | lost or model.NO_BROKERS
        if view.role.engine is core_settings.EngineName.DELEGATED:
            departures = (RemovedReplica(r, partition, topic.czxid) for r in gone if r not in lost)
            reassignments.departed.update(dict.fromkeys(departures, now))
            _forget_old_departures(view)
