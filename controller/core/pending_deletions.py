"""
Answer what decisions ask about pending topic deletions.

``controllership.topic_deletions`` carries them out; ``controllership.deletion_yields`` and the
gates of steps ask, too. ``deletion_facts`` folds in what becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from controller.core import events
from controller.core.model import (
    BrokerId,
    TopicPartition,
)
from controller.core.options import EngineName, TenurePolicy
from controller.core.view import ClusterView


def is_enabled(view: ClusterView) -> bool | None:
    """
    Return whether every live broker deletes topics as the controller; None: one is being asked.

    False as well where a broker does not answer.
    """
    undecided = False
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
    pending = view.session.deletions or frozenset()
    return not pending <= view.tenure.deletion_waits.keys() | left_to_a_broker(view, pending)


def left_to_a_broker(view: ClusterView, topics: AbstractSet[str]) -> AbstractSet[str]:
    """
    Return the topics whose deletion only a Kafka controller may carry out, or refuse.

    While brokers are being asked, nothing is left to them in a tenure, and everything outside.
    """
    enabled = is_enabled(view) if topics else None
    if enabled is None:
        return frozenset() if view.tenure.held is not None else topics
    if not enabled:
        return topics
    return topics & (view.session.unreadable_topics.keys() | view.tenure.deletions_revoked)


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
    tenure = view.tenure
    is_delegated = view.role.engine is EngineName.DELEGATED
    if tenure.held is None or is_delegated or left_to_a_broker(view, {topic}):
        return "a broker that is the controller decides"
    if topic in tenure.deletion_waits:
        return tenure.deletion_waits[topic].why
    deletion = tenure.deleting.get(topic)
    if deletion is None:
        return "about to begin"
    left = sum(map(len, deletion.waiting.values()))
    if left:
        return f"{left} replicas are being deleted"
    return "brokers forget the topic" if deletion.informing else "znodes are being deleted"


def keeps_from_steps(view: ClusterView, topic: str) -> bool:
    """
    Return whether no step of the topic begins, as it is deleted now or soon.

    One that waits for a broker may wait for ever, and a step may drop the replica there.
    """
    if topic in view.tenure.deleting:
        return True
    wait = view.tenure.deletion_waits.get(topic)
    return wait is None or not wait.for_broker


def replicas_of(view: ClusterView, topic: str) -> Iterator[tuple[TopicPartition, BrokerId]]:
    """
    Yield every replica of a topic that may have a log, also those that were dropped from it.

    A broker may still have one that is recorded as an orphan, or that another controller dropped
    from a reassignment of ours without waiting for the answer. Where such a broker is not live, the
    deletion does not need it: no controller waits for a replica that is not assigned.
    """
    known = view.session.topics[topic]
    for number, assignment in known.partitions.items():
        partition = TopicPartition(topic, number)
        for broker in assignment.replicas:
            if broker != view.options.controller_id:
                yield partition, broker
        reassignment = view.work.reassignments.get(partition)
        if reassignment is not None and reassignment.inherited:
            spec = reassignment.spec
            for broker in sorted({*(spec.original or ()), *spec.abandoned}):
                if broker in view.cluster.brokers and broker not in assignment.replicas:
                    yield partition, broker
    for orphan in orphans_of(view, topic):
        if orphan.broker in view.cluster.brokers:
            yield orphan.partition, orphan.broker


def orphans_of(view: ClusterView, topic: str) -> Iterator[events.Orphan]:
    """Yield the orphans of a known topic."""
    known, orphaned = view.session.topics[topic], view.work.orphaned
    if any(TopicPartition(topic, number) in orphaned for number in known.partitions):
        for orphan in view.work.orphans.values():
            if orphan.partition.topic == topic and orphan.topic_czxid == known.czxid:
                yield orphan
