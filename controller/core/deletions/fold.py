"""Fold events and records of topic deletions into the view."""

from __future__ import annotations

from typing import assert_never

from controller.core.deletions import deletion_facts, deletion_yields, records
from controller.core.deletions.deletion_requests import note_topic
from controller.core.model import Instant, TopicPartition
from controller.core.pacing import isr_health
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.DeletionEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.DeletionsRead():
            _deletions(view, event, now)
        case records.TopicTreesRead():
            deletion_facts.trees_read(view, event)
        case _:
            assert_never(event)


def fold_record(view: ClusterView, record: records.DeletionRecord, now: Instant) -> None:
    """Fold one record into the view."""
    match record:
        case records.DeletionRequestedRecord(ticket=ticket, result=result):
            note_topic(view, ticket, result)
            view.calls.electing.update(result.new_partitions)
        case records.DeletionBegunRecord(topic=topic):
            deletion_facts.deletion_begun(view, topic)
        case records.PartitionZnodesDeletedRecord():
            deletion_facts.znodes_deleted(view, record)
        case records.TopicDeletedRecord(topic=topic):
            deletion_facts.topic_deleted(view, topic)
            deletion_yields.note_deletions(view, view.deletions_session.markers or frozenset(), now)
        case records.DeletionMarkerEndedRecord(topic=topic):
            deletion_facts.marker_ended(view, topic)
            deletion_yields.note_deletions(view, view.deletions_session.markers or frozenset(), now)
        case records.DeletionBlockedRecord(topic=topic, wait=wait):
            if wait is None:
                view.deletions.waits.pop(topic, None)
            else:
                view.deletions.waits[topic] = wait
        case _:
            assert_never(record)


def _deletions(view: ClusterView, event: records.DeletionsRead, now: Instant) -> None:
    """Fold in the pending topic deletions, and since when each is pending."""
    topics = view.topics
    known = view.deletions_session.markers or frozenset()
    deletion_yields.note_deletions(view, event.topics, now)
    view.deletions_session.markers = event.topics
    deletion_facts.deletions_read(view, known)
    for name in (event.topics ^ known) & topics.by_name.keys():
        partitions = [TopicPartition(name, number) for number in topics.by_name[name].partitions]
        for partition in partitions:
            isr_health.judge(view, partition)
        if name in known and view.tenure.held is not None:
            # An operator revoked the deletion: a leader or a first state may be due since then.
            view.due.add(partitions)
