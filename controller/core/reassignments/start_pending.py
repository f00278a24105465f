"""
Choose which pending reassignments start when in-flight slots free up.

Pending reassignments have ranks: first those with completed steps, then the others by priority.
Where there are more than a cycle can consider, every rank has a share of the scan, and a skipped
partition goes behind the others of its rank: blocked partitions, however many and whatever their
rank, do not prevent others from being considered. Of those that can start, the higher rank starts
first. Within a request the order of submission holds, or one by size: sorting tens of thousands
takes a moment, so it is done when sizes arrive or the order changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from itertools import chain, islice
from math import ceil, inf
from typing import Any, Final

from controller.core import effects, wakeups
from controller.core.disks.disk_space import fill_of_brokers
from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, RequestId, TopicPartition
from controller.core.pacing import controls, limits_in_force
from controller.core.pacing.budget import Budget
from controller.core.pacing.operator_holds import request_hold
from controller.core.reassignments import delegated, native, records
from controller.core.records import Change, Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

SCAN_MAX: Final = 2000
"""Pending reassignments considered per cycle when a slot becomes free."""
SCAN_EVERY_S: Final = 0.2
ALIKE: Final = 0.01
"""Brokers whose fill differs from that of the fullest by less than this are equally full."""
SHARED: Final = frozenset({BlockedBy.LIMIT, BlockedBy.CLUSTER_HEALTH})
"""
Reasons that hold until the end of a scan for every partition with the same obstacle.

A scan only takes slots. Any other precondition of a step has its partition examined when it
changes, except a live step size: that counts from the broker's next slot on.
"""


def start_pending(
    view: ClusterView,
    due: Worklist,
    now: Instant,
    budget: Budget,
    respecified: Collection[TopicPartition],
) -> Decision:
    """
    Give free slots to pending reassignments, a part of them at a time if there are very many.

    The scan ends when all were considered: none can begin until something changes.
    """
    changes: list[Change] = []
    passed: list[TopicPartition] = []
    refused: set[tuple[BlockedBy, tuple[Hashable, ...]]] = set()
    ranks = _ranks(view, now)
    share = max(SCAN_MAX // max(len(ranks), 1), 1)
    for partition in chain.from_iterable(islice(line, share) for _, line in ranks):
        if not budget.has_slot:
            return Decision(tuple(changes))
        passed.append(partition)
        noted = view.reassignments.by_partition[partition].blocked
        if noted is not None and (
            noted.by is BlockedBy.WRITE_REFUSED or (noted.by, noted.obstacle) in refused
        ):
            # What ZooKeeper rejects is retried in its own time and takes no slot from others.
            continue
        if partition in due.partitions or partition in respecified:
            continue
        if view.awaits_repair(partition):
            continue
        step = advance(view, partition, now, budget)
        if isinstance(step, Blocked) and step.by in SHARED:
            refused.add((step.by, step.obstacle))
        changes += step_or_wait(view, partition, step, now)
    scans = max((ceil(length / share) for length, _ in ranks), default=1)
    if scans == 1:
        return Decision(tuple(changes))
    is_first = due.capacity or due.claimed
    left = max((scans if is_first else view.pacing_process.scans_left) - 1, 0)
    changes.append(Change((records.StartSkippedRecord(tuple(passed), left),)))
    again = (effects.SetTimer(wakeups.SCAN_TIMER, Instant(now + SCAN_EVERY_S)),) if left else ()
    return Decision(tuple(changes), again)


def advance(
    view: ClusterView, partition: TopicPartition, now: Instant, budget: Budget
) -> Change | Blocked | None:
    """Return the next change of a reassigning partition, or what it waits for."""
    engine_advance = native.advance if view.is_native else delegated.advance
    return engine_advance(view, partition, now, budget)


def step_or_wait(
    view: ClusterView, partition: TopicPartition, step: Change | Blocked | None, now: Instant
) -> tuple[Change, ...]:
    """Return the step itself, or the record of what it waits for, where that is news."""
    if isinstance(step, Change):
        return (step,)
    reassignment = view.reassignments.by_partition.get(partition)
    if reassignment is None or reassignment.blocked == step:
        return ()
    return (Change((records.BlockedRecord(partition, step, now),)),)


def _ranks(view: ClusterView, now: Instant) -> list[tuple[int, Iterator[TopicPartition]]]:
    """Return the pending partitions rank by rank, with the size of each rank."""
    pacing = view.pacing
    ranks = [(len(pacing.resumed), iter(pacing.resumed))]
    by_priority: dict[int, list[RequestId]] = {}
    for request in pacing.waiting.requests():
        if request_hold(view, request, now) is None:
            by_priority.setdefault(limits_in_force.priority_of(view, request), []).append(request)
    for priority in sorted(by_priority, reverse=True):
        # The request with the least in flight comes first: slots are shared, however long a line.
        fair = sorted(by_priority[priority], key=lambda r: view.requests.by_id[r].in_flight)
        length = sum(pacing.waiting.length(r) for r in fair)
        ranks.append((length, pacing.waiting.in_turn(fair)))
    return [(length, line) for length, line in ranks if length]


# --- the order of pending partitions -------------------------------------------------------------


def order_pending(view: ClusterView) -> Decision:
    """Return the record that sorts every line, where the order is not that of submission."""
    is_submitted = limits_in_force.order_of(view) is controls.QueueOrder.SUBMITTED
    if is_submitted or not view.pacing.waiting or not view.disks_process.sizes:
        return Decision()
    return Decision((Change((records.PendingSortedRecord(),)),))


def sort_pending(view: ClusterView) -> None:
    """Sort every request's line by the order in force; what was put off stays behind."""
    pacing, reassignments = view.pacing, view.reassignments.by_partition
    key = _key_of(view, limits_in_force.order_of(view))
    for request in pacing.waiting.requests():
        pacing.waiting.sort(request, lambda p: (reassignments[p].is_put_off, key(p)))


def _key_of(view: ClusterView, order: controls.QueueOrder) -> Callable[[TopicPartition], Any]:
    sizes = view.disks_process.sizes
    if order is controls.QueueOrder.SMALL_FIRST:
        # Unknown sizes come last.
        return lambda p: (p not in sizes, sizes.get(p, 0))
    if order is controls.QueueOrder.LARGE_FIRST:
        return lambda p: -sizes.get(p, -1)
    fullness = _fullness(view)
    return lambda p: (_fullest_left(view, fullness, p), -sizes.get(p, 0))


def _fullness(view: ClusterView) -> dict[BrokerId, tuple[float, int]]:
    # The fullest come first. Reports of free space are not of one moment, and brokers may share a
    # volume. So brokers that are about as full as the fullest are compared by the bytes that wait
    # to move on them.
    sizes, filled = view.disks_process.sizes, fill_of_brokers(view) or {}
    waiting: Counter[BrokerId] = Counter()
    for partition in view.reassignments.by_partition:
        assignment = view.topics.assignment(partition)
        for broker in () if assignment is None else assignment.replicas:
            waiting[broker] += sizes.get(partition, 0)
    fullest = max(filled.values(), default=0.0)
    brokers = {*filled, *waiting}
    return {b: ((fullest - filled.get(b, 0.0)) // ALIKE, -waiting[b]) for b in brokers}


def _fullest_left(
    view: ClusterView, fullness: Mapping[BrokerId, tuple[float, int]], partition: TopicPartition
) -> tuple[float, int]:
    """Return the value of the fullest broker that the partition leaves; without any, the last."""
    target = view.reassignments.by_partition[partition].spec.target
    assignment = view.topics.assignment(partition)
    left = [r for r in assignment.replicas if r not in target] if assignment is not None else []
    return min((fullness[r] for r in left), default=(inf, 0))
