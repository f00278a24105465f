"""Fold events and records of topic deletions into the view, and forget topics that are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import assert_never

from controller.core import wakeups
from controller.core.deletions import records
from controller.core.deletions.model import (
    DELETION_PATIENCE_S,
    EPOCH_DURING_DELETE,
    DeletedTopic,
    TopicDeletion,
)
from controller.core.deletions.pending_deletions import (
    is_carried_out,
    is_leader_withheld,
    pending_since,
    replicas_of,
)
from controller.core.leadership.records import StatesRead
from controller.core.model import BrokerId, Instant, PartitionState, TopicAssignment, TopicPartition
from controller.core.pacing import fold as pacing
from controller.core.pacing import isr_health
from controller.core.pacing.throttle_settings import topic_entity
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import BrokerSettingsRead
from controller.core.topics.model import Topic
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.DeletionEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.DeletionsRead():
            _deletions_read(view, event, now)
        case records.TopicTreesRead():
            _trees_read(view, event)
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.DeletionRecord, now: Instant) -> None:
    """Fold one record into the view."""
    match record:
        case records.DeletionRequestedRecord(ticket=ticket, result=result):
            view.calls.note_topic(ticket, result)
            view.calls.electing.update(result.new_partitions)
        case records.DeletionBegunRecord(topic=topic):
            _deletion_begun(view, topic)
        case records.PartitionZnodesDeletedRecord(topic=topic, paths=paths):
            view.deletions.record_deleted_znodes(topic, paths)
        case records.TopicDeletedRecord(topic=topic):
            _topic_deleted(view, topic)
            _note_pending(view, now)
        case records.DeletionMarkerEndedRecord(topic=topic):
            marker_ended(view, topic)
            _note_pending(view, now)
        case records.StaleMarkerEndedRecord(topic=topic):
            marker_ended(view, topic)
            _revoke(view, topic)
            view.due.add(view.topics.partitions_of(topic))
            _note_pending(view, now)
        case records.DeletionBlockedRecord(topic=topic, wait=wait):
            if wait is None:
                view.deletions.waits.pop(topic, None)
            else:
                view.deletions.waits[topic] = wait
        case _:
            assert_never(record)


def _note_pending(view: ClusterView, now: Instant) -> None:
    """Note since when deletions are pending; one that ended, or was revoked, is forgotten."""
    times, topics = view.deletions_process, view.deletions_session.markers or frozenset()
    if not any(now < since + DELETION_PATIENCE_S for since in pending_since(view)):
        times.held_up_since = now
    times.since = {t: times.since.get(t, now) for t in topics}
    # A later deletion of a topic with the same name is owed the role again.
    times.yielded &= topics


def _deletion_begun(view: ClusterView, topic: str) -> None:
    """Note that a deletion began: every replica is to be deleted."""
    deletions = view.deletions
    waiting: dict[BrokerId, set[int]] = {}
    for partition, broker in replicas_of(view, topic):
        waiting.setdefault(broker, set()).add(partition.partition)
    live = set(view.cluster.brokers)
    unsent = {broker: set(waiting.get(broker, ())) for broker in live | waiting.keys()}
    informing = live if view.topics.by_name[topic].partitions else set()
    deletions.running[topic] = TopicDeletion(waiting, informing, unsent, set(waiting))
    deletions.being_deleted |= {topic}
    # Until the znodes are deleted, settings of the topic may be created.
    deletions.trees.pop(topic, None)


def replica_left(view: ClusterView, orphan: Orphan) -> None:
    """Have a replica deleted that is recorded as dropped while its topic is being deleted."""
    name, number = orphan.partition
    deletion, known = view.deletions.running.get(name), view.topics.by_name.get(name)
    if deletion is not None and known is not None and known.czxid == orphan.topic_czxid:
        deletion.waiting.setdefault(orphan.broker, set()).add(number)
        deletion.unsent.setdefault(orphan.broker, set()).add(number)


def replica_deleted(
    view: ClusterView, broker: BrokerId, partition: TopicPartition, error: int
) -> None:
    """Note a broker's answer to the deletion of a replica whose topic is being deleted."""
    deletion = view.deletions.running.get(partition.topic)
    if deletion is None or broker not in deletion.waiting:
        return
    if partition.partition in deletion.unsent.get(broker, ()):
        # Before it is sent again, an answer is to the request that it repeats.
        return
    if error:
        deletion.errors[broker] = error
    else:
        deletion.waiting[broker].discard(partition.partition)
        if deletion.waiting[broker]:
            return
        del deletion.waiting[broker]
        deletion.errors.pop(broker, None)
    _wake_deletions(view, partition.topic)


def request_refused(view: ClusterView, broker: BrokerId, error: int) -> None:
    """Note that a broker refused a StopReplica as a whole: it is not repeated on this channel."""
    for topic, deletion in view.deletions.running.items():
        awaited = deletion.waiting.keys() | deletion.informing
        if broker in awaited - deletion.unsent.keys():
            deletion.errors[broker] = error
            _wake_deletions(view, topic)


def broker_informed(view: ClusterView, event: StopReplicaAnswered) -> None:
    """Note that a broker forgot topics: it answered what was sent after that."""
    for partition, epoch, _delete, _error in event.results:
        deletion = view.deletions.running.get(partition.topic)
        if epoch != EPOCH_DURING_DELETE or deletion is None:
            continue
        if event.broker in deletion.informing - deletion.unsent.keys():
            deletion.informing.discard(event.broker)
            deletion.errors.pop(event.broker, None)
            _wake_deletions(view, partition.topic)


def _wake_deletions(view: ClusterView, topic: str) -> None:
    wakeups.wake(view.due, wakeups.Trigger.DELETION_CONCERNED)
    wakeups.wake_pending_requests(view)
    if is_carried_out(view, topic):
        # Its reassignments end: there is nothing left to move.
        moving = view.reassignments.by_partition
        view.due.add(p for p in view.topics.partitions_of(topic) if p in moving)


def brokers_moved(
    view: ClusterView, gone: AbstractSet[BrokerId], elsewhere: AbstractSet[BrokerId]
) -> None:
    """
    Have every deletion wait for brokers that stopped, and repeat the requests that may be lost.

    Those whose registration ended (``gone``) have to confirm every deletion again. The channels of
    those ``elsewhere`` are opened again.
    """
    if gone:
        _serve_undeletable(view)
    for topic, deletion in view.deletions.running.items():
        if topic not in view.topics.by_name:
            continue
        for broker in gone:
            deletion.waiting.pop(broker, None)
        for partition, broker in replicas_of(view, topic) if gone else ():
            if broker in gone:
                deletion.waiting.setdefault(broker, set()).add(partition.partition)
        # A broker that starts has no metadata to forget.
        deletion.informing -= gone
        deletion.unreached |= gone & deletion.waiting.keys()
        awaited = deletion.waiting.keys() | deletion.informing
        for broker in gone | elsewhere:
            deletion.unsent.pop(broker, None)
            deletion.errors.pop(broker, None)
            if broker in awaited:
                deletion.unsent[broker] = set(deletion.waiting.get(broker, ()))
        _wake_deletions(view, topic)


def _trees_read(view: ClusterView, event: records.TopicTreesRead) -> None:
    """Note the znodes of topics that are to be deleted; those of another topic are read again."""
    tenure, deletions = view.tenure, view.deletions
    for name, tree in event.trees.items():
        deletions.requested_trees.discard(name)
        if tenure.held is None or not view.is_to_be_deleted(name):
            continue
        deletions.trees[name] = tree
        known = view.topics.by_name.get(name)
        is_other = known is not None and (
            tree is None or (tree.czxid, tree.version) != (known.czxid, known.version)
        )
        if known is not None and is_other:
            restart(view, name)
            known.invalidate(tenure.claim_generation)
            view.due.overtaken_topics.add(name)


def _deletions_read(view: ClusterView, event: records.DeletionsRead, now: Instant) -> None:
    """
    Fold in the markers that were read; a deletion that was revoked is stopped.

    Brokers are sent the states of a revoked topic again. Some of its replicas may be deleted.
    """
    tenure, deletions = view.tenure, view.deletions
    topics, pending = view.topics.by_name, event.topics
    before = view.deletions_session.markers or frozenset()
    view.deletions_session.markers = pending
    _note_pending(view, now)
    for name in deletions.being_deleted - pending:
        _serve_again(view, name)
    for name in before - pending:
        deletions.waits.pop(name, None)
        deletions.trees.pop(name, None)
        _revoke(view, name)
    if tenure.held is not None:
        # Read before the claim, a topic may not be the present one.
        view.due.overtaken_topics |= {
            name
            for name in (pending - before) & topics.keys()
            if topics[name].read_in < tenure.claim_generation
        }
    for name in (pending ^ before) & topics.keys():
        for partition in view.topics.partitions_of(name):
            isr_health.judge(view, partition)
        if name in before and tenure.held is not None:
            # An operator revoked the deletion: a leader or a first state may be due since then.
            view.due.add(view.topics.partitions_of(name))


def _revoke(view: ClusterView, name: str) -> None:
    """Stop the deletion of a topic, if it began: brokers are sent its states again."""
    leadership, deletions = view.leadership, view.deletions
    if deletions.running.pop(name, None) is None:
        return
    deletions.revoked.add(name)
    for partition in view.topics.partitions_of(name):
        if partition in leadership.states:
            view.due.seeded[partition] = None
        else:
            leadership.unseeded[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.PARTITION_APPEARED)


def marker_ended(view: ClusterView, topic: str) -> None:
    """Note that the marker of a topic is deleted."""
    view.deletions_session.markers = (view.deletions_session.markers or frozenset()) - {topic}
    view.deletions.waits.pop(topic, None)
    view.deletions.trees.pop(topic, None)
    # A topic of that name is a later one.
    _serve_again(view, topic)


def restart(view: ClusterView, topic: str) -> None:
    """
    Have a deletion begin again: the topic is not as it was.

    Brokers are still sent nothing that would create a replica, so their confirmations stay valid.
    """
    if topic in view.deletions.running:
        view.deletions.running[topic].has_begun = False
    view.deletions.trees.pop(topic, None)
    wakeups.wake(view.due, wakeups.Trigger.DELETION_CONCERNED)


def topic_changed(
    view: ClusterView, topic: str, known: Topic | None, read: TopicAssignment
) -> None:
    """Have a deletion begin again if the topic znode was written since."""
    if known is not None and read.version != known.version:
        restart(view, topic)


def setting_read(view: ClusterView, event: BrokerSettingsRead) -> None:
    """Note what a broker says of its settings."""
    settings = view.cluster.broker_settings
    known = settings.get(event.broker)
    if known is not None and known.epoch == event.broker_epoch:
        settings[event.broker] = known._replace(
            deletes_topics=event.deletes_topics,
            is_known=True,
            protocol=event.protocol or known.protocol,
        )
    _serve_undeletable(view)


def _serve_undeletable(view: ClusterView) -> None:
    """Serve the topics to be deleted that get leaders again."""
    for name in view.deletions_session.markers or ():
        if view.tenure.held is not None and not is_leader_withheld(view, name):
            _serve_again(view, name)


def _serve_again(view: ClusterView, topic: str) -> None:
    """Send the metadata of a topic again and elect its leaders: no controller deletes it."""
    view.deletions.being_deleted -= {topic}
    for partition in view.topics.partitions_of(topic):
        view.due.refreshed[partition] = None
        view.due.partitions[partition] = None


def _topic_deleted(view: ClusterView, name: str) -> None:
    """Forget a topic that this tenure deleted; reads of it that are under way will be ignored."""
    topics = view.topics
    view.role.read_generation += 1
    generation = view.role.read_generation
    view.deletions.done[name] = DeletedTopic(topics.by_name[name].czxid, generation)
    forget_topic(view, name)
    topics.listed = (topics.listed or frozenset()) - {name}
    topics.missing.discard(name)
    topics.requested.discard(name)
    marker_ended(view, name)


def forget_topic(view: ClusterView, name: str) -> None:
    """Forget a topic that is gone, and everything about its partitions that is read again."""
    partitions = view.topics.partitions_of(name)
    view.topics.forget(name)
    view.deletions.running.pop(name, None)
    view.deletions.waits.pop(name, None)
    # The settings of a later topic of the name may have the version of these.
    pacing.forget_settings(view, topic_entity(name))
    leadership = view.leadership
    leadership.offline = {(b, p) for b, p in leadership.offline if p.topic != name}
    for partition in partitions:
        view.reassignments.before.pop(partition, None)
        view.reassignments_tenure.forget(partition)
        leadership.forget(partition)
        isr_health.forget_health(view, partition)
        view.pacing_session.forget(partition)
        if partition in view.reassignments.by_partition:
            view.due.add((partition,))


def without_deleted(
    view: ClusterView, read: Mapping[str, TopicAssignment | str | None]
) -> Mapping[str, TopicAssignment | str | None]:
    """Return the topics that were read, except as they were before this tenure deleted them."""
    deleted = view.deletions.done
    former = {
        name
        for name in deleted.keys() & read.keys()
        if isinstance(topic := read[name], TopicAssignment) and topic.czxid <= deleted[name].czxid
    }
    view.topics.requested -= former
    return {name: topic for name, topic in read.items() if name not in former} if former else read


def present_states(
    view: ClusterView, event: StatesRead
) -> Iterator[tuple[TopicPartition, PartitionState | str | None]]:
    """
    Yield the states that were read, except those of topics that were deleted since.

    There may be another topic of the name, whose states are read for themselves.
    """
    leadership, deletions = view.leadership, view.deletions
    for partition, read in event.states.items():
        deleted = deletions.done.get(partition.topic)
        if deleted is None or event.read_generation >= deleted.read_generation:
            yield partition, read
        else:
            leadership.seeding.discard(partition)
            leadership.refreshing.discard(partition)
