"""
A quiesce: the work of the daemon ends, until an operator resumes it.

Nothing new is accepted (``ClusterView.disabled_because``), and the queue is refused. Here the
accepted reassignments end: what has not begun is cancelled at once, what has begun is rolled back
at the deadline, and before that it ends by its ordinary steps. Throttles, orphans and the role
follow from that, as without a quiesce. Foreign reassignments are left to who requested them, and a
partition that another client moved before its reassignment began stays where it is now.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from controller.core.model import Instant, Route, TopicPartition
from controller.core.pacing.controls import AT_ONCE, Quiesce
from controller.core.reassignments.model import Reassignment
from controller.core.records import Change
from controller.core.requests.cancellation import CHUNK, end_unbegun, reverse
from controller.core.view import ClusterView


def deadline_of(view: ClusterView, now: Instant) -> Instant | None:
    """Return the deadline that lies ahead; None: there is none, it has passed, or is not known."""
    left_s = None if view.quiesce is None else _seconds_left(view, view.quiesce, now)
    return Instant(now + left_s) if left_s is not None and left_s > 0 else None


def _seconds_left(view: ClusterView, quiesce: Quiesce, now: Instant) -> float | None:
    if quiesce.deadline_ms == AT_ONCE:
        # Also before the wall clock is known, and whatever it says.
        return 0.0
    unix_s = view.pacing_process.unix_s(now)
    if quiesce.deadline_ms is None or unix_s is None:
        return None
    return quiesce.deadline_ms / 1000 - unix_s


def has_work_to_end(view: ClusterView, now: Instant) -> bool:
    """Return whether reassignments are to be cancelled or rolled back now."""
    quiesce = view.quiesce
    if quiesce is None:
        return False
    is_due = _is_due(view, quiesce, now)
    # One that has begun from unknown replicas cannot be rolled back.
    return any(
        not r.has_moved or (is_due and r.spec.original is not None)
        for r in view.reassignments.by_partition.values()
        if not _is_left_alone(r)
    )


def end_work(view: ClusterView, now: Instant) -> tuple[Change, ...]:
    """Cancel what has not begun; at the deadline, roll back what has."""
    quiesce = view.quiesce
    if quiesce is None or not view.requests_leadership.history_read:
        return ()
    return tuple(islice(_ended(view, quiesce, is_due=_is_due(view, quiesce, now)), CHUNK))


def _ended(view: ClusterView, quiesce: Quiesce, *, is_due: bool) -> Iterator[Change]:
    by = quiesce.request
    for partition, reassignment in view.reassignments.by_partition.items():
        if _is_left_alone(reassignment):
            continue
        if _stands(view, partition, reassignment):
            yield end_unbegun(view, by, partition, reassignment)
        elif is_due or not reassignment.has_moved:
            reversed_ = reverse(view, by, partition, reassignment)
            if isinstance(reversed_, Change):
                yield reversed_


def _is_due(view: ClusterView, quiesce: Quiesce, now: Instant) -> bool:
    left_s = _seconds_left(view, quiesce, now)
    return left_s is not None and left_s <= 0


def _is_left_alone(reassignment: Reassignment) -> bool:
    return reassignment.spec.rolls_back or reassignment.spec.route is Route.FOREIGN


def _stands(view: ClusterView, partition: TopicPartition, reassignment: Reassignment) -> bool:
    """Return whether a reassignment has not begun, nor anything else changes its partition."""
    assignment, legacy = view.topics.assignment(partition), view.requests.legacy
    return (
        # What the cluster's controller may still carry out is withdrawn: it leads back.
        not (reassignment.has_moved or reassignment.may_be_made)
        and assignment is not None
        and not (assignment.is_reassigning or reassignment.may_have_placed(assignment))
        and (legacy is None or not legacy.stale)
    )
