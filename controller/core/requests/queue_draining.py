"""
The life of ``/admin/reassign_partitions_queue`` (KIP-236): drained as slots become free.

An entry leaves the znode in the multi that accepts it. Where its partition is in flight, the step
is retargeted, whatever the route of its reassignment. While reassignments are disabled or paused
no entry leaves the queue.
"""

from __future__ import annotations

from itertools import islice

from controller.core import effects, model
from controller.core.disks import log_dir_queries
from controller.core.model import (
    BrokerId,
    Instant,
    LogDirs,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.pacing.limits_in_force import in_flight_max
from controller.core.reassignments.gates import refusal_for_foreign, waits_for_foreign
from controller.core.records import Change, Decision
from controller.core.requests import acceptance, cancellation, records
from controller.core.requests.model import PlanNode
from controller.core.topics import topic_configs
from controller.core.view import ClusterView

QUEUE_CONFIG_TIMER = "queue_topic_configs"


def queue_request_id(czxid: model.Zxid) -> RequestId:
    """Return the id of the request that a queue's znode stands for: its czxid is unique."""
    return RequestId(f"queue-{czxid:016x}")


def is_standing_still(view: ClusterView) -> bool:
    """Return whether nothing may leave the queue."""
    if (
        view.requests_session.kill_switch
        or view.pacing_process.controls.pauses.everything is not None
    ):
        return True
    queue = view.requests.queue
    return (
        queue is None
        or queue_request_id(queue.czxid) in view.pacing_process.controls.pauses.requests
    )


def drain_queue(view: ClusterView, now: Instant) -> Decision:
    """Take as many entries as there are slots, in their order."""
    queue = view.requests.queue
    if (
        queue is None
        or queue.stale
        or cancellation.is_choosing(view)
        or not view.requests_leadership.history_read
    ):
        return Decision()
    request = queue_request_id(queue.czxid)
    if queue.unreadable is not None:
        return Decision((_unreadable(request, queue, queue.unreadable),))
    changes = acceptance.refuse_malformed(view, request, queue.refused)
    if not queue.entries and not changes:
        return Decision((Change((records.QueueEndedRecord(queue.version),)),))
    if is_standing_still(view):
        return Decision(tuple(changes))
    free = (
        in_flight_max(view)
        - view.pacing.in_flight
        - len(view.pacing.waiting)
        - len(view.pacing.resumed)
    )
    unknown: set[str] = set()
    brokers: set[BrokerId] = set()
    for partition, target in islice(queue.entries.items(), max(free, 0)):
        log_dirs = queue.log_dirs.get(partition, ())
        change = _entry(view, request, partition, target, log_dirs, unknown)
        if change is not None:
            changes.append(change)
        elif log_dirs:
            brokers |= log_dir_queries.unknown_brokers(view, log_dirs)
    following: list[effects.Effect] = (
        topic_configs.request_configs(view, unknown, now, QUEUE_CONFIG_TIMER) if unknown else []
    )
    if brokers:
        following += log_dir_queries.query_named(view, brokers, now)
    return Decision(tuple(changes), tuple(following))


def _entry(  # noqa: PLR0911, PLR0913, PLR0917 - the parts of an entry, one return per reason
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    log_dirs: LogDirs,
    unknown: set[str],
) -> Change | None:
    if acceptance.is_undecidable(view, partition):
        return None
    left = records.QueueEntryEndedRecord(partition)
    entry = acceptance.entry_text(partition, target)
    refusal = (
        acceptance.refusal_of(view, request, partition, target)
        or acceptance.refused_for_directories(view, request, partition, target, log_dirs)
        or acceptance.refused_without_approval(view, request, entry, partition)
        or refusal_for_foreign(view, request, partition, entry)
    )
    if refusal is not None:
        return Change((left, records.RefusalRecord((refusal,))), partition=partition)
    if waits_for_foreign(view, partition):
        return None
    if partition.topic not in view.topics.configs:
        unknown.add(partition.topic)
        return None
    if log_dir_queries.unknown_brokers(view, log_dirs):
        return None
    running, legacy = view.reassignments.by_partition.get(partition), view.requests.legacy
    if running is not None and running.spec.route is Route.LEGACY and legacy and legacy.stale:
        # Its entry is removed with it: that would be rejected until the znode is read again.
        return None
    taken = acceptance.accept_entry(view, request, partition, target, log_dirs=log_dirs)
    written = (*taken.records, left)
    if (
        running is not None
        and running.spec.route is Route.LEGACY
        and legacy is not None
        and partition in legacy.entries
    ):
        written += (records.LegacyEntryRecord(partition, None),)
    return Change(written, partition=partition)


def _unreadable(request: RequestId, queue: PlanNode, why: str) -> Change:
    refusal = model.Refusal(request, "the whole node", model.RefusalReason.UNREADABLE, why)
    return Change(
        (
            records.QueueEndedRecord(queue.version),
            records.RefusalRecord((refusal,)),
            records.RequestOutcomeRecord(acceptance.summary_of_unreadable(refusal, queue.raw)),
        )
    )
