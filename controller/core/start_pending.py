"""
Who is given the slots that are free, of those that wait.

Those that wait stand in ranks: what was begun and is between two steps, then what was not, by
priority. Where more wait than a turn can look at, every rank has its share of a scan, and who was
passed over stands behind the others of its rank: those that cannot go on, however many and however
high, keep nobody from being looked at. Of those that can, the higher rank is served first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain, islice
from math import ceil
from typing import Final

from controller.core.controllership.engines import engine_of
from controller.core.effects import SetTimer
from controller.core.model import Blocked, BlockedBy, Instant, RequestId, TopicPartition
from controller.core.pending_queue import SCAN_TIMER
from controller.core.records import BlockedRecord, Change, Decision, StartSkippedRecord
from controller.core.scheduling.budget import Budget
from controller.core.scheduling.holds import request_hold
from controller.core.scheduling.limits import priority_of
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

SCAN_MAX: Final = 2000
"""Waiting reassignments looked at per turn when a slot becomes free."""
SCAN_EVERY_S: Final = 0.2
SHARED: Final = frozenset({BlockedBy.LIMIT, BlockedBy.CLUSTER_HEALTH})
"""
Reasons that, once given in a scan, hold to its end, and for all who were told the same before.

A scan only takes slots. What else a step depends on has its partition looked at when it changes,
but for the step size: one that was turned counts from the broker's next slot on.
"""


def start_pending(
    view: ClusterView,
    due: Worklist,
    now: Instant,
    budget: Budget,
    turned: Collection[TopicPartition],
) -> Decision:
    """
    Give free slots to what waits; where very much does, a part of it at a time.

    Once everybody was looked at it is over: nobody can begin until something changes.
    """
    changes: list[Change] = []
    passed: list[TopicPartition] = []
    refused: set[str] = set()
    ranks = _ranks(view, now)
    engine = engine_of(view)
    share = max(SCAN_MAX // max(len(ranks), 1), 1)
    for partition in chain.from_iterable(islice(line, share) for _, line in ranks):
        if not budget.has_slot:
            return Decision(tuple(changes))
        passed.append(partition)
        noted = view.reassignments[partition].blocked
        if noted is not None and (noted.by is BlockedBy.WRITE_REFUSED or noted.detail in refused):
            # What ZooKeeper refuses is tried again in its own time, and takes nobody's slot else.
            continue
        if partition in due.partitions or partition in turned:
            continue
        step = engine.advance(view, partition, now, budget)
        if isinstance(step, Blocked) and step.by in SHARED:
            refused.add(step.detail)
        changes += outcome(view, partition, step, now)
    scans = max((ceil(length / share) for length, _ in ranks), default=1)
    if scans == 1:
        return Decision(tuple(changes))
    is_first = due.capacity or due.claimed
    left = max((scans if is_first else view.scans_left) - 1, 0)
    changes.append(Change((StartSkippedRecord(tuple(passed), left),)))
    again = (SetTimer(SCAN_TIMER, Instant(now + SCAN_EVERY_S)),) if left else ()
    return Decision(tuple(changes), again)


def outcome(
    view: ClusterView, partition: TopicPartition, step: Change | Blocked | None, now: Instant
) -> tuple[Change, ...]:
    """Return the step itself, or the note of what is waited for, where that is news."""
    if isinstance(step, Change):
        return (step,)
    reassignment = view.reassignments.get(partition)
    if reassignment is None or reassignment.blocked == step:
        return ()
    return (Change((BlockedRecord(partition, step, now),)),)


def _ranks(view: ClusterView, now: Instant) -> list[tuple[int, Iterator[TopicPartition]]]:
    """Return those that wait, rank by rank, and how many each has."""
    ranks = [(len(view.resumed), iter(view.resumed))]
    by_priority: dict[int, list[RequestId]] = {}
    for request in view.waiting.requests():
        if request_hold(view, request, now) is None:
            by_priority.setdefault(priority_of(view, request), []).append(request)
    for priority in sorted(by_priority, reverse=True):
        # Who has least in flight comes first: slots are shared, however long a line is.
        fair = sorted(by_priority[priority], key=lambda r: view.requests[r].in_flight)
        length = sum(view.waiting.length(r) for r in fair)
        ranks.append((length, view.waiting.in_turn(fair)))
    return [(length, line) for length, line in ranks if length]
