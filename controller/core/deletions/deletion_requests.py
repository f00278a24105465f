"""
Request the deletion of topics for clients, as Kafka's controller does (``ZkAdminManager``).

The request is the topic's znode in ``/admin/delete_topics``. It is durable: whichever controller
comes next carries it out, also one that takes over at once. So it is answered when it is written.
Then the endpoint waits until brokers have dropped that topic, which the ``czxid`` in the result
names, as Kafka does (``DelayedDeleteTopics``). Logs and znodes may go much later: a broker with a
replica may not be live.

That the topic exists is checked in the transaction that writes the request. A topic that is named
by its id has to be read in this tenure, too: from the claim on no other controller can have
replaced it by one of the same name.
"""

from __future__ import annotations

from dataclasses import replace

from controller import kafka_errors
from controller.core.calls.client_requests import (
    AwaitDeletions,
    DeleteTopicsAnswer,
    PendingClientRequest,
    TopicResult,
    TopicToDelete,
)
from controller.core.deletions.pending_deletions import is_dropped
from controller.core.deletions.records import DeletionRequestedRecord
from controller.core.model import Instant, TopicPartition
from controller.core.records import Change
from controller.core.view import ClusterView


def request_deletion(
    view: ClusterView, ticket: int, request: TopicToDelete
) -> TopicResult | Change | None:
    """Return the write of the request, or the result without one; None: the topic is read."""
    name, topics = request.name, view.topics
    topic = topics.by_name.get(name)
    if name in topics.unreadable:
        unreadable = "Its znode is unreadable."
        return TopicResult(name, kafka_errors.UNKNOWN_SERVER_ERROR, unreadable)
    is_listed = name in (topics.listed or ())
    # As with Kafka, a topic is unknown from the time on at which brokers do not know it any more.
    if is_dropped(view, name, topic.czxid) if topic is not None else not is_listed:
        return TopicResult(name, _unknown(request))
    if topic is None or topic.stale:
        return None
    if request.topic_id not in {None, topic.topic_id}:
        return TopicResult(name, _unknown(request))
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


def _unknown(request: TopicToDelete) -> int:
    if request.topic_id is None:
        return kafka_errors.UNKNOWN_TOPIC_OR_PARTITION
    return kafka_errors.UNKNOWN_TOPIC_ID


def note_topic(view: ClusterView, ticket: int, result: TopicResult) -> None:
    """Note that a topic is written for a client that waits, or that ZooKeeper rejects it."""
    pending = view.calls.pending_client_requests.get(ticket)
    if pending is not None:
        noted = {**pending.topics, result.name: result}
        view.calls.pending_client_requests[ticket] = replace(pending, topics=noted)
