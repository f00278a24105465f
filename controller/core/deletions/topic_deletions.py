"""
Delete topics during a tenure, as Kafka's controller does (``TopicDeletionManager``).

The marker ``/admin/delete_topics/T`` is the durable intent; nothing else is recorded. A controller
that takes over finds it and begins again, whatever was deleted by then.

Before a deletion begins, the topic's znodes are listed with its marker. A marker that is older than
the topic meant a former one of that name, whose controller died before it deleted the marker: it is
deleted, and the topic stays. Kafka's controller would delete that topic.

A deletion begins with a multi that writes nothing: it checks, under the claim, that the marker
exists and that the topic znode is as it was read. Then all live brokers drop the topic from their
metadata and delete its replicas; the others do so when they are back. Only when all have confirmed
that in this tenure the znodes are deleted: without the marker, no later controller would repeat it.
The topic znode, its settings and the marker go last and together, so that no topic is left without
them and none of the same name is taken for it.

From the begin on, no leader is elected, and no broker that was sent the deletion is sent a
LeaderAndIsr of the topic, which would create its replica again. One that is back is sent both, in
that order: it may have started without a failed disk, which only its answer to the former shows.
Brokers are queried for ``delete.topic.enable``: unless all live ones say yes, the role is yielded
(``pending_deletions``) and Kafka's controller decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from controller.core import effects, wakeups
from controller.core.cluster.model import LiveBroker
from controller.core.deletions import pending_deletions, records
from controller.core.deletions.model import EPOCH_DURING_DELETE, TopicDeletion, TopicTree
from controller.core.model import START, BrokerId, Instant, TopicPartition
from controller.core.records import Change, Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

PARTITIONS_AT_ONCE: Final = 2000
"""Partitions of the topics whose deletion proceeds; others begin when some of them are deleted."""
AWAY_S: Final = 600.0
"""
How long the znodes wait for a broker that is not live and has only orphans, in seconds.

It may only restart. Later its log stays on the disk, as it does with Kafka's controller.
"""
QUERY_AGAIN_S: Final = 30.0
"""When a broker that did not answer is queried for its settings again, in seconds."""
QUERY_NEW_AGAIN_S: Final = 2.0
"""The same for one that registered within that time: it may not listen yet."""


def query_brokers(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Ask the brokers whose settings are needed and not known."""
    if not (due.deletions and view.role.leading):
        return Decision()
    wanted: list[LiveBroker] = []
    again: list[Instant] = []
    for broker in view.cluster.brokers.values():
        if not (broker.has_features or view.deletions_session.markers):
            continue
        known = view.cluster.broker_settings.get(broker.id)
        if known is None or known.epoch != broker.epoch:
            wanted.append(broker)
        elif known.deletes_topics is None:
            since = view.cluster.registered.get(broker.id)
            is_new = since is not None and now < since + QUERY_AGAIN_S
            due_at = known.requested_at + (QUERY_NEW_AGAIN_S if is_new else QUERY_AGAIN_S)
            if now >= due_at:
                wanted.append(broker)
            again.append(Instant(max(due_at, now + 1.0)))
    timer = (effects.SetTimer(wakeups.SETTING_TIMER, min(again)),) if again else ()
    queries = (effects.DescribeBrokerSettings(tuple(wanted)),) if wanted else ()
    return Decision(effects=(*queries, *timer))


# --- deciding ------------------------------------------------------------------------------------


def delete_topics(  # noqa: C901 - one arm per state of a deletion
    view: ClusterView, due: Worklist, now: Instant
) -> Decision:
    """Return the next changes and requests of every pending deletion that this tenure decides."""
    if (
        not due.deletions
        or not view.deletions_session.markers
        or not pending_deletions.is_enabled(view)
    ):
        return Decision()
    changes: list[Change] = []
    following: list[effects.Effect] = []
    unlisted: list[str] = []
    room = PARTITIONS_AT_ONCE - _at_work(view)
    pending = view.deletions_session.markers
    for topic in sorted(pending - pending_deletions.left_to_a_broker(view, pending)):
        wait = None
        deletion = view.deletions.running.get(topic)
        if topic in view.deletions.trees and view.deletions.trees[topic] is None:
            # Whatever topic there is now was created after the marker.
            changes.append(Change((records.DeletionMarkerEndedRecord(topic),)))
        elif deletion is not None and deletion.has_begun:
            following += _requests(view, topic, deletion)
            awaited = _awaited_brokers(view, topic, deletion, now)
            wait = _wait_of(view, topic, deletion, awaited)
            if not awaited and not deletion.informing:
                changes += _znodes(view, topic, unlisted)
        elif topic in view.topics.by_name:
            wait = _obstacle(view, topic)
            change, size = _first_change(view, topic, wait, room, unlisted)
            room -= size
            changes += change
        elif (
            topic not in (view.topics.listed or ())
            and topic not in view.deletions.trees
            and topic not in view.deletions.requested_trees
        ):
            unlisted.append(topic)
        if wait != view.deletions.waits.get(topic):
            changes.append(Change((records.DeletionBlockedRecord(topic, wait),)))
    again = [at for t in view.deletions.waits if now < (at := _away_until(view, t))]
    if again:
        following.append(effects.SetTimer(wakeups.AWAY_TIMER, min(again)))
    if unlisted:
        following.append(effects.ReadTopicTrees(tuple(unlisted)))
    return Decision(tuple(changes), tuple(following))


def _first_change(
    view: ClusterView, topic: str, wait: str | None, room: int, unlisted: list[str]
) -> tuple[list[Change], int]:
    """
    Return the change that begins a deletion, or ends a marker that is older than the topic.

    The second result is the number of partitions that are at work from now on.
    """
    known, partition = view.topics.by_name[topic], TopicPartition(topic, 0)
    if room <= 0 or not _is_fresh(view, topic):
        return [], 0
    tree = _listed(view, topic, unlisted)
    if tree is not None and tree.marker is not None and tree.is_newer:
        ended = records.StaleMarkerEndedRecord(topic, known.version, tree.marker.version)
        return [Change((ended,), partition=partition)], 0
    if wait is not None:
        return [], 0
    if tree is None:
        return [], len(known.partitions)
    begun = records.DeletionBegunRecord(topic, known.version)
    return [Change((begun,), partition=partition)], len(known.partitions)


def _listed(view: ClusterView, topic: str, unlisted: list[str]) -> TopicTree | None:
    """Return the znodes of a topic as it is; None: they are being listed, or are to be."""
    known, tree = view.topics.by_name.get(topic), view.deletions.trees.get(topic)
    if (
        tree is None
        or known is None
        or known.stale
        or (tree.czxid, tree.version) != (known.czxid, known.version)
    ):
        if topic not in view.deletions.requested_trees:
            unlisted.append(topic)
        return None
    return tree


def _at_work(view: ClusterView) -> int:
    proceeding = view.deletions.running.keys() - view.deletions.waits.keys()
    known = (view.topics.by_name.get(topic) for topic in proceeding)
    return sum(len(topic.partitions) for topic in known if topic is not None)


def _is_fresh(view: ClusterView, topic: str) -> bool:
    """
    Return whether the topic was read in this tenure, and nothing is known to be newer.

    So were the states of its partitions, which brokers are sent then: their answers show replicas
    in failed log directories.
    """
    known, tenure, leadership = view.topics.by_name[topic], view.tenure, view.leadership
    if known.stale or known.read_in < tenure.claim_generation:
        return False
    partitions = view.topics.partitions_of(topic)
    return not any(p in leadership.unseeded or p in leadership.seeding for p in partitions)


def _obstacle(view: ClusterView, topic: str) -> str | None:
    """Return why a deletion cannot begin: a reassignment in flight."""
    reassignments = view.reassignments.by_partition
    partitions = reassignments.keys() & set(view.topics.partitions_of(topic))
    in_flight = {p.partition for p in partitions if reassignments[p].in_flight}
    moving = sorted(
        number
        for number, assignment in view.topics.by_name[topic].partitions.items()
        if assignment.is_reassigning or number in in_flight
    )
    if not moving:
        return None
    why = f"partition {moving[0]} is being reassigned"
    return why if len(moving) == 1 else f"{why}, and {len(moving) - 1} more"


def _away_until(view: ClusterView, topic: str) -> Instant:
    """Return until when a deletion waits for brokers with orphans: some only restart."""
    return Instant(view.deletions_process.since.get(topic, START) + AWAY_S)


def _awaited_brokers(
    view: ClusterView, topic: str, deletion: TopicDeletion, now: Instant
) -> AbstractSet[BrokerId]:
    """Return the brokers that have to delete replicas before the znodes go."""
    if now < _away_until(view, topic):
        return deletion.waiting.keys()
    partitions = view.topics.by_name[topic].partitions
    return {
        broker
        for broker, numbers in deletion.waiting.items()
        if broker in view.cluster.brokers
        or any(n in partitions and broker in partitions[n].replicas for n in numbers)
    }


def _wait_of(
    view: ClusterView, topic: str, deletion: TopicDeletion, awaited: AbstractSet[BrokerId]
) -> str | None:
    """Return what a deletion waits for when no live broker is left that carries it out."""
    if not pending_deletions.is_carried_out(view, topic):
        return None
    dead = sorted(awaited - view.cluster.brokers.keys())
    if dead:
        ids = ", ".join(map(str, dead))
        return f"waits for broker {ids}, which is not live and has a replica"
    if deletion.errors:
        broker, error = min(deletion.errors.items())
        return f"broker {broker} cannot delete a replica (error {error}) before it restarts"
    return None


def _requests(
    view: ClusterView, topic: str, deletion: TopicDeletion
) -> Iterator[effects.SendLeaderAndIsr | effects.SendUpdateMetadata | effects.SendStopReplica]:
    """
    Yield the requests that are to be sent, first or again: brokers forget the topic, then stop it.

    UpdateMetadata is not answered for each topic. A broker without a replica is sent a StopReplica
    that stops nothing: its answer shows that it has the former.

    The state of a partition whose leader restarted is not sent when it is read, as a newer one
    follows. During a deletion none follows, so it is sent here. A broker that started without a
    failed disk refuses it; it would confirm the deletion of a replica that it does not see.
    """
    brokers = tuple(sorted(deletion.unsent.keys() & view.cluster.brokers.keys()))
    if not brokers:
        return
    partitions = view.topics.partitions_of(topic)
    for partition in partitions:
        state = view.leadership.states.get(partition)
        if state is not None and state.leader in view.leadership.bounced.get(partition, ()):
            receivers = tuple(b for b in brokers if partition.partition in deletion.unsent[b])
            if receivers:
                yield effects.SendLeaderAndIsr(partition, receivers)
    if partitions:
        yield effects.SendUpdateMetadata(partitions, brokers)
    for broker in brokers:
        if broker not in deletion.waiting:
            yield effects.SendStopReplica(partitions[0], broker, EPOCH_DURING_DELETE, delete=False)
        for number in sorted(deletion.unsent[broker]):
            for delete in (False, True):
                yield effects.SendStopReplica(
                    TopicPartition(topic, number), broker, EPOCH_DURING_DELETE, delete
                )


def _znodes(view: ClusterView, topic: str, unlisted: list[str]) -> Iterator[Change]:
    """Yield the changes that delete the listed znodes of a topic without replicas."""
    tree = _listed(view, topic, unlisted)
    if tree is None:
        return
    partition = TopicPartition(topic, 0)
    most = view.options.multi_operations
    if len(tree.below) <= most:
        yield Change((records.TopicDeletedRecord(topic),), partition=partition)
        return
    for start in range(0, len(tree.below) - most, most):
        some = tree.below[start : start + most]
        yield Change((records.PartitionZnodesDeletedRecord(topic, some),), partition=partition)
