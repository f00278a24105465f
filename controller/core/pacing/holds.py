"""
Holds: why a request or a partition may not begin a step although nothing is wrong with it.

A pause, a closed window, the kill switch, an incomplete atomic request. A step that began
continues. A rollback obeys pauses only: an operator who cancels does not want to wait for the
night.

Windows are pure: the wall clock's reading is an argument. Days of 23 or 25 hours follow the local
clock: a time that does not exist is the moment of the change.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, RequestId
from controller.core.pacing import controls
from controller.core.pacing.limits_in_force import windows_of
from controller.core.reassignments.model import Reassignment
from controller.core.requests import submissions
from controller.core.view import ClusterView


def request_hold(view: ClusterView, request: RequestId, now: Instant) -> Blocked | None:
    """Return what keeps every partition of a request from beginning a step."""
    pauses = view.pacing_process.controls.pauses
    if pauses.everything is not None:
        return _pause_hold("everything is paused", pauses.everything)
    own = pauses.requests.get(request)
    if own is not None:
        return _pause_hold(f"request {request} is paused", own)
    if is_incomplete(view, request):
        return Blocked(BlockedBy.INCOMPLETE, "parts of the atomic request are not accepted yet")
    unix_s = view.pacing_process.unix_s(now)
    for window in windows_of(view, request):
        if unix_s is None or not is_open(window, unix_s):
            return Blocked(BlockedBy.WINDOW, f"outside of the window {window}")
    return None


def is_incomplete(view: ClusterView, request: RequestId) -> bool:
    """Return whether an atomic request has parts that were not accepted yet."""
    known = view.requests.by_id.get(request)
    if known is None or not known.options.atomic:
        return False
    if len(known.parts) < known.options.parts:
        return True
    listed = view.requests_session.submissions_listed
    if listed is None or not (listed - view.requests_session.submissions.keys()).isdisjoint(
        known.parts
    ):
        # An unread part belongs to it and may lead to a refusal of the whole.
        return True
    return any(s.request == request for s in view.requests_session.submissions.values())


def _pause_hold(what: str, pause: controls.Pause) -> Blocked:
    words = what
    if pause.by:
        words += f" by {pause.by}"
    if pause.reason:
        words += f": {pause.reason}"
    return Blocked(BlockedBy.PAUSED, words)


def step_hold(
    view: ClusterView, reassignment: Reassignment, brokers: tuple[BrokerId, ...], now: Instant
) -> Blocked | None:
    """
    Return what keeps this reassignment's next step from beginning.

    Args:
        view: Everything known.
        reassignment: The reassignment whose step is to begin.
        brokers: The brokers that would copy or serve copies; empty for a step that copies nothing.
        now: The present instant.

    """
    spec, pauses = reassignment.spec, view.pacing_process.controls.pauses
    if spec.rolls_back:
        if brokers and pauses.everything is not None:
            return _pause_hold("everything is paused", pauses.everything)
    else:
        if view.requests_session.kill_switch and not reassignment.has_moved:
            return Blocked(BlockedBy.KILL_SWITCH, "/admin/reassign_cancel exists")
        held = request_hold(view, spec.request, now)
        if held is not None:
            return held
    for broker in brokers:
        if broker in pauses.brokers:
            return _pause_hold(f"broker {broker} is paused", pauses.brokers[broker])
    return None


def next_opening(view: ClusterView, now: Instant) -> Instant | None:
    """Return when the next closed window of a request with work opens; None where none does."""
    unix_s = view.pacing_process.unix_s(now)
    if unix_s is None:
        return None
    waits = [
        seconds
        for name, request in view.requests.by_id.items()
        if request.open
        for window in windows_of(view, name)
        if (seconds := opens_in_s(window, unix_s)) > 0
    ]
    return Instant(now + min(waits)) if waits else None


# --- windows -------------------------------------------------------------------------------------


_DAYS: Final = 2
"""The next opening is at most tomorrow's."""


def is_open(window: submissions.Window, unix_s: float) -> bool:
    """Return whether steps may begin."""
    local = datetime.fromtimestamp(unix_s, ZoneInfo(window.zone))
    minute = local.hour * 60 + local.minute
    if window.opens < window.closes:
        return window.opens <= minute < window.closes
    return minute >= window.opens or minute < window.closes


def opens_in_s(window: submissions.Window, unix_s: float) -> float:
    """Return the seconds until it opens; 0 when it is open."""
    if is_open(window, unix_s):
        return 0.0
    zone = ZoneInfo(window.zone)
    now = datetime.fromtimestamp(unix_s, UTC)
    today = now.astimezone(zone).date()
    at = time(window.opens // 60, window.opens % 60)
    for days in range(_DAYS):
        opening = datetime.combine(today + timedelta(days=days), at, zone).astimezone(UTC)
        if opening > now:
            return (opening - now).total_seconds()
    return timedelta(days=1).total_seconds()
