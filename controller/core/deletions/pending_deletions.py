"""
Queries of decisions about pending topic deletions.

``topic_deletions`` carries them out; ``deletion_yields`` and the gates of steps use them, too.
``fold`` folds in what becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from controller.core.model import BrokerId, TopicPartition, Zxid
from controller.core.options import EngineName, TenurePolicy
from controller.core.view import ClusterView


def is_enabled(view: ClusterView) -> bool | None:
    """
    Return whether every live broker deletes topics as the controller; None: one is being queried.

    False as well where a broker does not answer. None where none is live: those that return may
    delete no topics.
    """
    undecided = not view.cluster.brokers
    for broker in view.cluster.brokers.values():
        known = view.cluster.broker_settings.get(broker.id)
        if known is None or known.epoch != broker.epoch or not known.is_known:
            undecided = True
        elif not known.deletes_topics:
            return False
    return None if undecided else True


def is_underway(view: ClusterView) -> bool:
    """Return whether a deletion proceeds in this tenure: it keeps the role."""
    if view.tenure.held is None:
        return False
    pending = view.deletions_session.markers or frozenset()
    return not pending <= view.deletions.waits.keys() | left_to_a_broker(view, pending)


def left_to_a_broker(view: ClusterView, topics: AbstractSet[str]) -> AbstractSet[str]:
    """
    Return the topics whose deletion only a Kafka controller may carry out, or refuse.

    While brokers are being queried, nothing is left to them in a tenure, and everything outside.
    """
    enabled = is_enabled(view) if topics else None
    if enabled is None:
        return frozenset() if view.tenure.held is not None else topics
    if not enabled:
        return topics
    return topics & (view.topics.unreadable.keys() | view.deletions.revoked)


def is_leader_withheld(view: ClusterView, topic: str) -> bool:
    """
    Return whether the partitions of a topic get no new leader, as it is to be deleted.

    They get one in a permanent tenure where no broker deletes topics: none would remove the marker.
    """
    if not view.is_to_be_deleted(topic):
        return False
    is_permanent = view.options.tenure is TenurePolicy.PERMANENT
    return not (is_permanent and _is_disabled(view))


def _is_disabled(view: ClusterView) -> bool:
    """Return whether every live broker says that it deletes no topics."""
    settings = view.cluster.broker_settings
    return bool(view.cluster.brokers) and all(
        (known := settings.get(broker.id)) is not None
        and known.epoch == broker.epoch
        and known.deletes_topics is False
        for broker in view.cluster.brokers.values()
    )


def progress_of(view: ClusterView, topic: str) -> str:
    """Return in words what becomes of a pending deletion."""
    tenure, deletions = view.tenure, view.deletions
    is_delegated = view.role.engine is EngineName.DELEGATED
    if tenure.held is None or is_delegated or left_to_a_broker(view, {topic}):
        return "a broker that is the controller decides"
    if topic in deletions.waits:
        return deletions.waits[topic]
    deletion = deletions.running.get(topic)
    if deletion is None:
        return "about to begin"
    left = sum(len(n) for b, n in deletion.waiting.items() if b in view.cluster.brokers)
    if left:
        return f"{left} replicas are being deleted"
    return "brokers forget the topic" if deletion.informing else "znodes are being deleted"


def is_dropped(view: ClusterView, topic: str, czxid: Zxid) -> bool:
    """
    Return whether no live broker knows the topic of this creation any more.

    Brokers that are not live may still have replicas, and its znodes may exist.
    """
    known = view.topics.by_name.get(topic)
    if known is None:
        return view.topics.listed is not None and topic not in view.topics.listed
    if known.czxid > czxid:
        return True
    deletion = view.deletions.running.get(topic)
    return deletion is not None and deletion.has_begun and not deletion.informing


def is_stopped(view: ClusterView, topic: str, broker: BrokerId) -> bool:
    """Return whether a LeaderAndIsr would create the broker's replicas of a topic again."""
    deletion = view.deletions.running.get(topic)
    return deletion is not None and broker not in deletion.unreached


def is_carried_out(view: ClusterView, topic: str) -> bool:
    """Return whether every live broker deleted its replicas of a topic, or cannot now."""
    deletion = view.deletions.running.get(topic)
    if deletion is None or not deletion.has_begun:
        return False
    left = (deletion.waiting.keys() | deletion.informing) & view.cluster.brokers.keys()
    return not left - (deletion.errors.keys() - deletion.unsent.keys())


def replicas_of(view: ClusterView, topic: str) -> Iterator[tuple[TopicPartition, BrokerId]]:
    """
    Yield every replica of a topic that may have a log, also those that were dropped from it.

    A broker may still have one that is recorded as an orphan, or that another controller dropped
    from a reassignment of ours without waiting for the answer. The latter is not needed where its
    broker is not live.
    """
    known = view.topics.by_name[topic]
    for number, assignment in known.partitions.items():
        partition = TopicPartition(topic, number)
        for broker in assignment.replicas:
            if broker != view.options.controller_id:
                yield partition, broker
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is not None and reassignment.inherited:
            spec = reassignment.spec
            for broker in sorted({*(spec.original or ()), *spec.abandoned}):
                if broker in view.cluster.brokers and broker not in assignment.replicas:
                    yield partition, broker
    if any(TopicPartition(topic, n) in view.reassignments.orphaned for n in known.partitions):
        for orphan in view.reassignments.orphans.values():
            if orphan.partition.topic == topic and orphan.topic_czxid == known.czxid:
                yield orphan.partition, orphan.broker
