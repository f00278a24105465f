"""
Queries about pending topic deletions, the role that is owed to them, and requests of clients.

``topic_deletions`` carries them out. Only a broker's controller decides those in a cluster where a
broker says no to ``delete.topic.enable``, or says nothing, and those of a topic whose znode is
unreadable. A broker gets the role once for each of them: when no step of ours is in flight, at the
latest after a timeout. A deletion that cannot end must not delay everything else for ever; nor must
consecutive deletions. A claim that does not wait for the last of those leaves the role to them
again soon.

A client's request becomes the topic's znode in ``/admin/delete_topics`` (``ZkAdminManager``). It is
durable: whichever controller comes next carries it out. So it is answered when it is written. Then
the endpoint waits until brokers have dropped that topic, which the ``czxid`` in the result names
(``DelayedDeleteTopics``). Logs and znodes may go much later: a broker with a replica may not be
live.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from controller import kafka_errors
from controller.core.calls.client_requests import (
    AwaitDeletions,
    DeleteTopicsAnswer,
    PendingClientRequest,
    TopicToDelete,
)
from controller.core.core_settings import EngineName, TenurePolicy
from controller.core.deletions.model import DELETION_PATIENCE_S
from controller.core.deletions.records import DeletionRequestedRecord
from controller.core.model import START, BrokerId, Instant, TopicPartition, Zxid, count_text
from controller.core.records import Change
from controller.core.topics.model import TopicResult
from controller.core.view import ClusterView

DELETIONS_PATIENCE_S: Final = 120.0
"""How long consecutive deletions delay a claim in total, in seconds."""


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
    if view.options.tenure is not TenurePolicy.PERMANENT or not view.cluster.brokers:
        return True
    settings = view.cluster.broker_settings
    return not all(
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
        return f"{count_text(left, 'replica')} {'is' if left == 1 else 'are'} being deleted"
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


# --- the role that is owed ----------------------------------------------------------------------


def owes_a_yield(view: ClusterView) -> bool:
    """Return whether the role is still owed to a broker that deletes topics."""
    if view.options.tenure is not TenurePolicy.ON_DEMAND or not view.deletions_session.markers:
        return False
    return bool(
        left_to_a_broker(view, view.deletions_session.markers - view.deletions_process.yielded)
    )


def is_hurried(view: ClusterView) -> bool:
    """
    Return whether the role was claimed before a pending deletion had its time.

    Such a tenure lasts until the deletion is due, and steps begin in it: otherwise it would end
    before anything was done.
    """
    claimed = START if view.tenure.held is None else view.tenure.held.since
    return any(since < claimed for since in pending_since(view))


def yield_due(view: ClusterView) -> Instant:
    """
    Return when a tenure that owes the role resigns, whatever is in flight then.

    A copy may take days, or never end where its broker is dead; the next controller carries out
    what is in flight. Later deletions do not extend that time.
    """
    claimed = START if view.tenure.held is None else view.tenure.held.since
    return Instant(max(claimed, min(pending_since(view), default=START)) + DELETION_PATIENCE_S)


def claim_due(view: ClusterView) -> Instant:
    """Return the earliest time of a claim while a broker is to delete topics; START: any time."""
    owed = pending_since(view)
    if not owed or not owes_a_yield(view):
        return START
    last = max(owed) + DELETION_PATIENCE_S
    return Instant(min(last, view.deletions_process.held_up_since + DELETIONS_PATIENCE_S))


def pending_since(view: ClusterView) -> list[Instant]:
    """Return since when each deletion is pending that did not have its time before a claim."""
    since = view.deletions_process.since
    return [since[t] for t in left_to_a_broker(view, since.keys() - view.deletions_process.yielded)]


# --- requests of clients ------------------------------------------------------------------------


def request_deletion(
    view: ClusterView, ticket: int, request: TopicToDelete
) -> TopicResult | Change | None:
    """
    Return the write of the request, or the result without one; None: the topic is read.

    That the topic exists is checked in the transaction that writes the request. One that is named
    by its id has to be read in this tenure, too: from the claim on no other controller can have
    replaced it by one of the same name.
    """
    name, topics = request.name, view.topics
    topic = topics.by_name.get(name)
    is_by_name = request.topic_id is None
    unknown = TopicResult(
        name,
        kafka_errors.UNKNOWN_TOPIC_OR_PARTITION if is_by_name else kafka_errors.UNKNOWN_TOPIC_ID,
    )
    if name in topics.unreadable:
        return TopicResult(name, kafka_errors.UNKNOWN_SERVER_ERROR, "Its znode is unreadable.")
    is_listed = name in (topics.listed or ())
    # As with Kafka, a topic is unknown from the time on at which brokers do not know it any more.
    if is_dropped(view, name, topic.czxid) if topic is not None else not is_listed:
        return unknown
    if topic is None or topic.stale:
        return None
    if request.topic_id not in {None, topic.topic_id}:
        return unknown
    result = TopicResult(name, kafka_errors.NONE, czxid=topic.czxid)
    if name in (view.deletions_session.markers or ()):
        return result
    first = TopicPartition(name, min(topic.partitions, default=0))
    return Change((DeletionRequestedRecord(ticket, result),), partition=first)


def answer_waiting(
    view: ClusterView, pending: PendingClientRequest, request: AwaitDeletions, now: Instant
) -> DeleteTopicsAnswer | None:
    """Return which topics brokers do not know any more; None: some are still known."""
    left = {name for name, czxid in request.topics.items() if not is_dropped(view, name, czxid)}
    if left and now < pending.since + request.timeout_s:
        return None
    late, done = kafka_errors.REQUEST_TIMED_OUT, kafka_errors.NONE
    results = (TopicResult(name, late if name in left else done) for name in request.topics)
    return DeleteTopicsAnswer(kafka_errors.NONE, tuple(results))
