"""
What a read of topics, partition states and topic settings changes in the view.

A read that a write of ours overtook is dropped; one that says what is known already confirms what
was in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.events import (
    DeletionsRead,
    StatesRead,
    TopicConfigsRead,
    TopicsListed,
    TopicsRead,
)
from controller.core.model import (
    Instant,
    PartitionAssignment,
    PartitionState,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.core.pace.health import forget_health, judge, judge_topic, note_isr
from controller.core.view import ClusterView, Topic


def is_no_news(read: ZkVersion, known: ZkVersion, *, stale: bool) -> bool:
    """Whether a read was overtaken; what is in doubt is confirmed by no older one."""
    return read < known or (read == known and not stale)


def topics_listed(view: ClusterView, event: TopicsListed) -> None:
    """Fold in which topics there are; what is gone is forgotten."""
    view.listed = event.topics
    view.due.listed_topics = view.due.tenure = True
    for name in [t for t in view.topics if t not in event.topics]:
        _forget_topic(view, name)
    view.asked_topics &= event.topics
    for name in [t for t in view.unreadable_topics if t not in event.topics]:
        del view.unreadable_topics[name]


def deletions_read(view: ClusterView, event: DeletionsRead, now: Instant) -> None:
    """Fold in which topics are asked to be deleted, and since when one of them stands."""
    if not event.topics:
        view.deletions_since = None
    elif view.deletions_since is None or not event.topics <= (view.deletions or frozenset()):
        view.deletions_since = now
    view.deletions = event.topics
    # A topic of the same name that is deleted later has to be yielded to again.
    view.yielded &= event.topics
    view.due.tenure = view.due.plan = view.due.capacity = True


def _forget_topic(view: ClusterView, name: str) -> None:
    topic = view.topics.pop(name, None)
    view.configs.pop(name, None)
    for number in topic.partitions if topic else ():
        partition = TopicPartition(name, number)
        view.states.pop(partition, None)
        view.distrusted.pop(partition, None)
        view.stateless.discard(partition)
        view.unseeded.pop(partition, None)
        view.acked.pop(partition, None)
        view.preferred.pop(partition, None)
        forget_health(view, partition)
        if partition in view.reassignments:
            view.due.add((partition,))


def topics_read(view: ClusterView, event: TopicsRead) -> None:
    """Fold in topic znodes: assignments, what cannot be read, and what is gone."""
    for name, read in event.topics.items():
        if isinstance(read, TopicAssignment):
            _topic(view, name, read)
        elif read is None:
            _forget_topic(view, name)
            view.asked_topics.discard(name)
            if view.listed is not None:
                view.listed -= {name}
        else:
            view.unreadable_topics[name] = read
    view.due.tenure = view.due.plan = True


def _topic(view: ClusterView, name: str, read: TopicAssignment) -> None:
    view.unreadable_topics.pop(name, None)
    known = view.topics.get(name)
    if known is not None and known.czxid != read.czxid:
        _forget_topic(view, name)
        known = None
    view.due.submissions = view.due.queue = True
    if known is not None and is_no_news(read.version, known.version, stale=known.stale):
        return
    before = known.partitions if known is not None else {}
    moved = {TopicPartition(name, n) for n, a in read.partitions.items() if before.get(n) != a}
    for number, assignment in read.partitions.items():
        partition = TopicPartition(name, number)
        old = before.get(number)
        if assignment.is_reassigning and old is not None and not old.is_reassigning:
            view.before[partition] = old.replicas
        elif not assignment.is_reassigning:
            view.before.pop(partition, None)
        if view.tenure is not None:
            if old is None:
                view.unseeded[partition] = None
                view.due.listed_topics = True
            if assignment.is_reassigning and partition not in view.reassignments:
                view.may_have_foreign = view.due.plan = True
    view.topics[name] = Topic(dict(read.partitions), read.version, read.czxid, read.topic_id)
    partitions = [TopicPartition(name, n) for n in read.partitions]
    view.due.add(p for p in partitions if p in view.states or p in view.stateless)
    _reconsider(view, partitions, moved)
    _note_lost(view, name, moved, before)
    if known is not None and known.stale:
        # While it was in doubt nothing could be decided or was told rightly.
        view.due.seeded.update(dict.fromkeys(p for p in partitions if p in view.states))


def _reconsider(
    view: ClusterView, partitions: list[TopicPartition], moved: set[TopicPartition]
) -> None:
    """Judge by the replicas as read; what others moved copies other replicas than it would have."""
    for partition in partitions:
        reassignment = view.reassignments.get(partition) if partition in moved else None
        if reassignment is not None:
            view.stakes.put(partition, reassignment.goal, view.assignment(partition))
        if partition in view.states:
            judge(view, partition)


def _note_lost(
    view: ClusterView,
    name: str,
    moved: set[TopicPartition],
    before: Mapping[int, PartitionAssignment],
) -> None:
    """Note the replicas that another controller dropped while their broker was dead."""
    for partition in moved & view.reassignments.keys():
        old = before.get(partition.partition)
        now = view.topics[name].partitions[partition.partition].replicas
        gone = [r for r in old.replicas if r not in now] if old is not None else []
        lost = view.reassignments[partition].lost
        lost.difference_update(now)
        lost.update(r for r in gone if r not in view.brokers)


def states_read(view: ClusterView, event: StatesRead, now: Instant) -> None:  # noqa: C901 - one fact each
    """Fold in partition states as read: leader, ISR, epochs, or that there is none."""
    if view.tenure is None:
        return
    for partition, read in event.states.items():
        if _is_outdated(view, partition, read):
            continue
        if partition in view.watched:
            view.watched[partition] = True
        fresh = partition in view.seeding
        view.seeding.discard(partition)
        view.unseeded.pop(partition, None)
        if partition in view.refreshing:
            view.refreshing.discard(partition)
            view.due.refreshed[partition] = None
        if partition.topic not in view.topics:
            continue
        if fresh:
            view.due.seeded[partition] = None
        if isinstance(read, PartitionState):
            view.stateless.discard(partition)
            known = view.states.get(partition)
            if known is not None and read.version < known.version:
                continue
            view.states[partition] = read
            note_isr(view, partition, known, read, now)
            judge(view, partition)
        elif read is None:
            view.stateless.add(partition)
            view.states.pop(partition, None)
            forget_health(view, partition)
        else:
            continue
        view.due.partitions[partition] = None


def _is_outdated(
    view: ClusterView, partition: TopicPartition, read: PartitionState | str | None
) -> bool:
    """Whether a read was under way when a write of ours was refused; another one follows."""
    oldest = view.distrusted.get(partition)
    if oldest is not None and isinstance(read, PartitionState) and read.version < oldest:
        return True
    view.distrusted.pop(partition, None)
    return False


def topic_configs_read(view: ClusterView, event: TopicConfigsRead, now: Instant) -> None:
    """Fold in settings of topics, or why they could not be had."""
    for topic, read in event.configs.items():
        view.asked_configs[topic] = now
        if isinstance(read, str):
            if view.config_errors.get(topic) != read:
                # What waits for these settings has to say why they are not known.
                view.config_errors[topic] = read
                view.due.capacity = True
                view.due.add(p for p in view.reassignments if p.topic == topic)
            judge_topic(view, topic)
            continue
        view.config_errors.pop(topic, None)
        if view.configs.get(topic) != read:
            view.configs[topic] = read
            judge_topic(view, topic)
            view.due.plan = view.due.capacity = True
            view.due.submissions = view.due.queue = True
            if topic in view.topics and view.tenure is not None:
                view.due.add(TopicPartition(topic, n) for n in view.topics[topic].partitions)
