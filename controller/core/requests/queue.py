"""
The life of ``/admin/reassign_partitions_queue`` (KIP-236): drained as slots become free.

An entry leaves the znode in the multi that accepts it. Where its partition is in flight, the step
is retargeted, whatever the route of its reassignment. While reassignments are disabled or paused
the queue stands still.
"""

from __future__ import annotations

from itertools import islice

from controller.core.cached_znodes import PlanNode
from controller.core.effects import Effect
from controller.core.foreign import refusal_for_foreign, waits_for_foreign
from controller.core.model import (
    Instant,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
    Zxid,
)
from controller.core.records import (
    Change,
    Decision,
    LegacyEntryRecord,
    QueueEndedRecord,
    QueueEntryEndedRecord,
    RefusalRecord,
    RequestOutcomeRecord,
)
from controller.core.requests.acceptance import (
    accept_entry,
    entry_text,
    is_unread,
    malformed,
    refusal_of,
    summary_of_unreadable,
)
from controller.core.requests.cancellation import is_choosing
from controller.core.scheduling.limits import in_flight_max
from controller.core.topic_configs import ask
from controller.core.view import ClusterView

QUEUE_CONFIG_TIMER = "queue_topic_configs"


def queue_request_id(czxid: Zxid) -> RequestId:
    """Return the id of the request that a queue's znode stands for: its czxid is unique."""
    return RequestId(f"queue-{czxid:016x}")


def is_standing_still(view: ClusterView) -> bool:
    """Return whether nothing may leave the queue."""
    if view.session.kill_switch or view.intake.controls.pauses.everything is not None:
        return True
    queue = view.intake.queue
    return queue is None or queue_request_id(queue.czxid) in view.intake.controls.pauses.requests


def drain_queue(view: ClusterView, now: Instant) -> Decision:
    """Take as many entries as there are slots, in their order."""
    queue = view.intake.queue
    if queue is None or queue.stale or is_choosing(view) or not view.own_records.history_read:
        return Decision()
    request = queue_request_id(queue.czxid)
    if queue.unreadable is not None:
        return Decision((_unreadable(request, queue, queue.unreadable),))
    changes = malformed(view, request, queue.refused)
    if not queue.entries and not changes:
        return Decision((Change((QueueEndedRecord(queue.version),)),))
    if is_standing_still(view):
        return Decision(tuple(changes))
    free = (
        in_flight_max(view)
        - view.tenure.in_flight
        - len(view.tenure.waiting)
        - len(view.tenure.resumed)
    )
    unknown: set[str] = set()
    for partition, target in islice(queue.entries.items(), max(free, 0)):
        change = _entry(view, request, partition, target, unknown)
        if change is not None:
            changes.append(change)
    effects: list[Effect] = ask(view, unknown, now, QUEUE_CONFIG_TIMER) if unknown else []
    return Decision(tuple(changes), tuple(effects))


def _entry(
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    unknown: set[str],
) -> Change | None:
    if is_unread(view, partition.topic):
        return None
    left = QueueEntryEndedRecord(partition)
    refusal = refusal_of(view, request, partition, target) or refusal_for_foreign(
        view, request, partition, entry_text(partition, target)
    )
    if refusal is not None:
        return Change((left, RefusalRecord((refusal,))), partition=partition)
    if waits_for_foreign(view, partition):
        return None
    if partition.topic not in view.session.configs:
        unknown.add(partition.topic)
        return None
    running, legacy = view.work.reassignments.get(partition), view.intake.legacy
    if running is not None and running.spec.route is Route.LEGACY and legacy and legacy.stale:
        # Its entry is removed with it: that would be rejected until the znode is read again.
        return None
    taken = accept_entry(view, request, partition, target)
    records = (*taken.records, left)
    if (
        running is not None
        and running.spec.route is Route.LEGACY
        and legacy is not None
        and partition in legacy.entries
    ):
        records += (LegacyEntryRecord(partition, None),)
    return Change(records, partition=partition)


def _unreadable(request: RequestId, queue: PlanNode, why: str) -> Change:
    refusal = Refusal(request, "the whole node", RefusalReason.UNREADABLE, why)
    return Change(
        (
            QueueEndedRecord(queue.version),
            RefusalRecord((refusal,)),
            RequestOutcomeRecord(summary_of_unreadable(refusal, queue.raw)),
        )
    )
