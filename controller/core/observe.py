"""
``observe``: fold facts into the view and note what has to be examined.

Nothing is decided or requested here. An observation older than the view (a read that a write of
ours overtook) is dropped.
"""

from __future__ import annotations

from typing import assert_never

from controller.core import wakeups
from controller.core.calls import fold as calls
from controller.core.calls.records import CallEvent
from controller.core.cluster.records import ClusterEvent
from controller.core.deletions import fold as deletions
from controller.core.deletions.records import DeletionEvent
from controller.core.disks import fold as disks
from controller.core.disks import log_directories
from controller.core.disks.records import DiskEvent
from controller.core.leadership import fold as leadership
from controller.core.leadership import lost_requests
from controller.core.leadership.records import LeadershipEvent
from controller.core.model import BlockedBy, Instant
from controller.core.pacing import fold as pacing
from controller.core.pacing.records import PacingEvent
from controller.core.reassignments import fold as reassignments
from controller.core.reassignments.records import ReassignmentEvent
from controller.core.records import Event, TimerFired
from controller.core.requests import fold as requests
from controller.core.requests.records import RequestEvent
from controller.core.role import fold as role
from controller.core.role.invalidation import LEFT_TIMER
from controller.core.role.records import RoleEvent
from controller.core.topics import fold as topics
from controller.core.topics.records import TopicEvent
from controller.core.view import ClusterView


def observe(view: ClusterView, event: Event, now: Instant) -> None:  # noqa: C901 - one branch per subject
    """Fold one event into the view: its subject does."""
    view.due.wake(event.wakes)
    if isinstance(event, TimerFired):
        _timer(view, event.name, now)
    elif isinstance(event, LeadershipEvent):
        leadership.fold_event(view, event, now)
    elif isinstance(event, TopicEvent):
        topics.fold_event(view, event, now)
    elif isinstance(event, ReassignmentEvent):
        reassignments.fold_event(view, event, now)
    elif isinstance(event, RequestEvent):
        requests.fold_event(view, event, now)
    elif isinstance(event, PacingEvent):
        pacing.fold_event(view, event, now)
    elif isinstance(event, DiskEvent):
        disks.fold_event(view, event, now)
    elif isinstance(event, DeletionEvent):
        deletions.fold_event(view, event, now)
    elif isinstance(event, CallEvent):
        calls.fold_event(view, event, now)
    elif isinstance(event, RoleEvent | ClusterEvent):
        role.fold_event(view, event, now)
    else:
        assert_never(event)


def _timer(view: ClusterView, name: str, now: Instant) -> None:
    """Wake the row of a timer, and note the partitions that wait for it; others wake everything."""
    wakeups.wake(view.due, name if name in wakeups.WAKEUPS else wakeups.Trigger.TIME_CAME)
    if name == wakeups.LEADER_MOVES_TIMER:
        by = (BlockedBy.LEADER_MOVES,)
        view.due.add(
            p for p, r in view.reassignments.by_partition.items() if reassignments.is_blocked(r, by)
        )
    elif name == wakeups.LOG_DIRS_TIMER:
        log_directories.examine_waiting(view)
    elif name == wakeups.PENDING_REQUESTS_TIMER:
        lost_requests.time_passed(view, now)
    elif name in {wakeups.ALTER_ANSWER_TIMER, wakeups.ALTER_SEEN_TIMER}:
        view.due.add(
            p for p, r in view.reassignments.by_partition.items() if reassignments.waits_for_time(r)
        )
    elif name not in wakeups.WAKEUPS:
        if name == LEFT_TIMER:
            view.requests_session.left_submissions.clear()
        reassignments.note_waiting(view)
