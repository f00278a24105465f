"""
``apply``: fold durable records into the view; the only way our own writes become known.

The same records in the same order give the same view; recovery reads them from ZooKeeper as events
(``observe``) and arrives at the same durable part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from controller.core import effects, model
from controller.core.calls import fold as calls
from controller.core.calls.records import CallRecord
from controller.core.deletions import fold as deletions
from controller.core.deletions.model import EPOCH_DURING_DELETE
from controller.core.deletions.records import DeletionRecord
from controller.core.disks import log_dir_queries, log_directories
from controller.core.leadership import fold as leadership
from controller.core.leadership.model import AwaitedRead
from controller.core.leadership.records import LeadershipRecord
from controller.core.model import Instant
from controller.core.pacing import fold as pacing
from controller.core.pacing.records import PacingRecord
from controller.core.reassignments import fold as reassignments
from controller.core.reassignments.records import ReassignmentRecord
from controller.core.records import Record
from controller.core.requests import fold as requests
from controller.core.requests.records import RequestRecord
from controller.core.role import fold as role
from controller.core.role.records import RoleRecord
from controller.core.role.state_polling import missing_again
from controller.core.topics import fold as topics
from controller.core.topics.model import ConfigRequest
from controller.core.topics.records import TopicRecord
from controller.core.view import ClusterView


def apply(view: ClusterView, record: Record, now: Instant) -> None:
    """
    Fold one durable record into the view: its subject does.

    Raises:
        InvariantError: an illegal change of phase.

    """
    view.due.wake(record.wakes)
    if isinstance(record, ReassignmentRecord):
        reassignments.fold_record(view, record, now)
    elif isinstance(record, LeadershipRecord):
        leadership.fold_record(view, record, now)
    elif isinstance(record, TopicRecord):
        topics.fold_record(view, record, now)
    elif isinstance(record, RequestRecord):
        requests.fold_record(view, record, now)
    elif isinstance(record, PacingRecord):
        pacing.fold_record(view, record, now)
    elif isinstance(record, DeletionRecord):
        deletions.fold_record(view, record, now)
    elif isinstance(record, CallRecord):
        calls.fold_record(view, record, now)
    elif isinstance(record, RoleRecord):
        role.fold_record(view, record, now)
    else:
        assert_never(record)


def record_effect(view: ClusterView, effect: effects.Effect, now: Instant) -> None:  # noqa: C901, PLR0912, PLR0915 - one arm per effect
    """Note that an effect was carried out, where the next decision depends on it."""
    tenure = view.tenure
    match effect:
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.WATCH):
            view.leadership.watched.update(dict.fromkeys(partitions, False))
        case effects.ReadStates(
            partitions=partitions, purpose=effects.ReadPurpose.SEED | effects.ReadPurpose.CONFLICT
        ):
            # The effects of the rejected write were not sent: all brokers are informed again.
            view.leadership.seeding.update(partitions)
            if view.calls.pending_broker_requests:
                # Reads that begin from now on show what is newer than the requests.
                view.role.read_generation += 1
                read = AwaitedRead(now, view.role.read_generation)
                view.leadership.awaited_reads.update(dict.fromkeys(partitions, read))
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.REFRESH):
            view.leadership.refreshing.update(partitions)
        case effects.ReadStates(partitions=partitions, purpose=effects.ReadPurpose.MISSING):
            view.role.missing_at = missing_again(partitions, now)
        case effects.DescribeTopicConfigs(topics=topics):
            config_request = ConfigRequest(view.topics_process.config_request.number + 1, now)
            view.topics_process.config_request = config_request
            view.topics.requested_configs.update(dict.fromkeys(topics, config_request))
        case effects.ReadTopics(topics=topics):
            view.topics.requested.update(topics)
            view.topics_tenure.reading.update(topics)
        case effects.ReadSubmissions(names=names):
            view.requests_session.requested_submissions.update(names)
        case effects.ReadAccepted(request=request):
            view.requests_session.requested_accepted.add(request)
        case effects.ReadEntityConfigs(entities=entities):
            view.pacing_leadership.requested_entities.update(dict.fromkeys(entities, now))
        case effects.DescribeLogDirs():
            log_dir_queries.record_query(view, effect, now)
        case effects.PlaceReplica():
            log_directories.record_placement_request(view, effect, now)
        case effects.ClaimController() | effects.BeginTenure():
            view.role.claiming, view.role.is_void = True, False
            view.role.claimed_at = now
        case effects.ProbeReassignments():
            tenure.probing = True
        case effects.SubmitReassignments(ticket=ticket, results=results):
            pending = view.calls.pending_client_requests.get(ticket)
            if pending is not None:
                view.calls.pending_client_requests[ticket] = replace(pending, results=results)
        case effects.ResignController():
            tenure.resigning = True
        case effects.DescribeBrokerSettings(brokers=brokers):
            view.cluster.record_settings_request(brokers, now)
        case effects.ReadTopicTrees(topics=topics):
            view.deletions.requested_trees.update(topics)
        case effects.SendStopReplica(partition=partition, broker=broker):
            if effect.leader_epoch == EPOCH_DURING_DELETE:
                view.deletions.record_stop(partition, broker, delete=effect.delete)
            orphan = view.reassignments.orphans.get((broker, partition))
            if orphan is not None:
                view.reassignments_tenure.orphans_tried.add(orphan)
        case _:
            pass


def versions_moved(
    view: ClusterView, topics: Iterable[str], *, legacy: bool, queue: bool = False, shards: int = 0
) -> None:
    """
    Count one write of each of these znodes.

    Args:
        view: Everything known.
        topics: The topics whose znodes were written.
        legacy: Whether the legacy znode was written.
        queue: Whether the znode of the queue was written.
        shards: The number of shards of outcomes of this tenure so far.

    """
    for name in topics:
        topic = view.topics.by_name[name]
        topic.version = model.ZkVersion(topic.version + 1)
        if topic.lacks_id and topic.topic_id is not None:
            view.topics.id_written(name, topic.topic_id)
    if legacy and view.requests.legacy is not None:
        view.requests.legacy.version = model.ZkVersion(view.requests.legacy.version + 1)
    if queue and view.requests.queue is not None:
        view.requests.queue.version = model.ZkVersion(view.requests.queue.version + 1)
    view.requests_tenure.shards = max(view.requests_tenure.shards, shards)
