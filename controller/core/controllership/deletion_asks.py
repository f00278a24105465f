"""
Request the deletion of topics for clients, as Kafka's controller does (``ZkAdminManager``).

The request is the topic's znode in ``/admin/delete_topics``. It is durable: whichever controller
comes next carries it out, also one that takes over at once. So the client is answered when it is
written, and the endpoint waits for that topic to disappear, by the ``czxid`` in the result.

That the topic exists is checked in the transaction that writes the request. A topic that is named
by its id has to be read in this tenure, too: from the claim on no other controller can have
replaced it by one of the same name.
"""

from __future__ import annotations

from controller.core import topic_requests
from controller.core.model import TopicPartition
from controller.core.records import Change, DeletionRequestedRecord
from controller.core.topic_requests import DeletedTopic, TopicResult
from controller.core.view import ClusterView


def request_deletion(
    view: ClusterView, ticket: int, asked: DeletedTopic
) -> TopicResult | Change | None:
    """Return the write of the request, or the result without one; None: the topic is read."""
    name, session = asked.name, view.session
    topic = session.topics.get(name)
    if name in session.unreadable_topics:
        unreadable = "Its znode is unreadable."
        return TopicResult(name, topic_requests.UNKNOWN_SERVER_ERROR, unreadable)
    if topic is None and name not in (session.listed or ()):
        return TopicResult(name, _unknown(asked))
    is_early = topic is not None and topic.read_in < view.tenure.claim_generation
    if topic is None or topic.stale or (is_early and asked.topic_id is not None):
        return None
    if asked.topic_id not in {None, topic.topic_id}:
        return TopicResult(name, _unknown(asked))
    result = TopicResult(name, topic_requests.NONE, czxid=topic.czxid)
    if name in (session.deletions or ()):
        return result
    first = TopicPartition(name, min(topic.partitions, default=0))
    return Change((DeletionRequestedRecord(ticket, result),), partition=first)


def _unknown(asked: DeletedTopic) -> int:
    if asked.topic_id is None:
        return topic_requests.UNKNOWN_TOPIC_OR_PARTITION
    return topic_requests.UNKNOWN_TOPIC_ID
