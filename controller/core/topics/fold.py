"""Fold events and records of topics into the view."""

from __future__ import annotations

from typing import assert_never

from controller.core import wakeups
from controller.core.deletions.deletion_requests import note_topic
from controller.core.model import Instant, TopicPartition
from controller.core.pacing import isr_health
from controller.core.topics import records, topic_configs, topic_reads
from controller.core.view import ClusterView


def fold_event(view: ClusterView, event: records.TopicEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.TopicsListed():
            topic_reads.topics_listed(view, event)
        case records.TopicsRead():
            topic_reads.topics_read(view, event, now)
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
        case records.TopicIdRecord(topic=topic, topic_id=topic_id):
            view.topics.id_written(topic, topic_id)
            # First states wait for it.
            entries = view.topics.by_name[topic].partitions
            view.due.add(TopicPartition(topic, number) for number in entries)
        case (
            records.TopicCreatedRecord(ticket=ticket, result=result)
            | records.TopicGrownRecord(ticket=ticket, result=result)
        ):
            note_topic(view, ticket, result)
            view.calls.electing.update(result.new_partitions)
        case _:
            assert_never(record)
