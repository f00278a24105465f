"""
Holds of operators: what keeps requests and steps from beginning.

A hold is a pause, a closed window, the kill switch, a quiesce, or an incomplete atomic request. A
step that began continues. A rollback obeys pauses only: an operator who cancels does not want to
wait for the night.
"""

from __future__ import annotations

from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, RequestId, request_text
from controller.core.pacing.controls import Pause
from controller.core.pacing.limits_in_force import windows_of
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView


def request_hold(view: ClusterView, request: RequestId, now: Instant) -> Blocked | None:
    """Return what keeps every partition of a request from beginning a step."""
    pauses = view.pacing_process.controls.pauses
    if pauses.everything is not None:
        return _pause_hold("everything is paused", pauses.everything)
    own = pauses.requests.get(request)
    if own is not None:
        return _pause_hold(f"{request_text(request)} is paused", own)
    if is_incomplete(view, request):
        return Blocked(BlockedBy.INCOMPLETE, "parts of the atomic request are not accepted yet")
    unix_s = view.pacing_process.unix_s(now)
    for window in windows_of(view, request):
        if unix_s is None or not window.is_open(unix_s):
            closed = f"outside of the window {window}"
            return Blocked(
                BlockedBy.WINDOW, closed if unix_s is None else window.closed_text(unix_s)
            )
    return None


def is_incomplete(view: ClusterView, request: RequestId) -> bool:
    """Return whether an atomic request has parts that were not accepted yet."""
    known, session = view.requests.by_id.get(request), view.requests_session
    if known is None or not known.options.atomic:
        return False
    if len(known.parts) < known.options.parts or session.submissions_listed is None:
        return True
    # An unread part belongs to it and may lead to a refusal of the whole.
    return bool(session.unread & known.parts.keys() or session.parts_of(request))


def _pause_hold(what: str, pause: Pause) -> Blocked:
    by = f" by {pause.by}" if pause.by else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return Blocked(BlockedBy.PAUSED, f"{what}{by}{reason}")


def step_hold(
    view: ClusterView, reassignment: Reassignment, brokers: tuple[BrokerId, ...], now: Instant
) -> Blocked | None:
    """
    Return what keeps this reassignment's next step from beginning.

    ``brokers`` would copy or serve copies: none for a step that copies nothing.
    """
    spec, pauses = reassignment.spec, view.pacing_process.controls.pauses
    if spec.rolls_back:
        if brokers and pauses.everything is not None:
            return _pause_hold("everything is paused", pauses.everything)
    else:
        disabled = view.disabled_because
        if disabled is not None and not reassignment.has_moved:
            return Blocked(BlockedBy.KILL_SWITCH, disabled)
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
        if (seconds := window.opens_in_s(unix_s)) > 0
    ]
    return Instant(now + min(waits)) if waits else None
