"""
The end of a request: its outcome once nothing of it is open, and the deletion of old ones.

The outcome of each partition is durable already, in shards; the summary only adds up.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from controller.core import effects
from controller.core.model import Instant, Refusal, RefusalReason, RequestId, Route, count_text
from controller.core.pacing import drained_replicas
from controller.core.records import Change, Decision
from controller.core.requests import outcomes, records
from controller.core.requests.model import Request
from controller.core.requests.submission_parts import shares_name
from controller.core.requests.submissions import legacy_request_id, queue_request_id
from controller.core.view import ClusterView

PARTS_PATIENCE_S = 600.0
"""How long a request waits for parts that its client may never have written, in seconds."""
FORGOTTEN_AT_ONCE = 20
WITHDRAWN_PATIENCE_S: Final = 10.0
"""How long a new request's znode may be missing in an earlier listing, in seconds."""
WITHDRAWN_TIMER: Final = "withdrawn_requests"


def summary_of(view: ClusterView, name: RequestId, now: Instant) -> outcomes.Summary:
    """Add up the outcome of a request."""
    request = view.requests.by_id.get(name) or Request(Route.LEGACY, now, kind="legacy")
    created = [p.created_ms for p in request.parts.values()]
    return outcomes.Summary(
        request=name,
        kind=request.kind,
        total=request.total,
        done=request.done,
        refused=tuple(request.refused),
        fates=dict(request.fates),
        reason=request.options.reason,
        requested_by=request.options.requested_by,
        approved=request.options.approved,
        approved_by=request.options.approved_by,
        submitted_ms=min(created, default=0),
        ended_ms=unix_ms(view, now),
        moved_bytes=None if request.done_elsewhere else request.moved_bytes,
    )


def unix_ms(view: ClusterView, now: Instant) -> int:
    """Return the milliseconds since 1970; 0 where the wall clock was not read."""
    unix_s = view.pacing_process.unix_s(now)
    return 0 if unix_s is None else int(unix_s * 1000)


def conclude(view: ClusterView, now: Instant) -> Decision:
    """Write the outcome of every request that has ended, and delete the oldest outcomes."""
    requests = view.requests
    changes = [
        _refuse_withdrawn(name, request)
        or Change((records.RequestOutcomeRecord(summary_of(view, name, now)),))
        for name, request in requests.by_id.items()
        if _is_over(view, name, request, now)
    ]
    following = [
        effects.SetTimer(WITHDRAWN_TIMER, Instant(request.since + WITHDRAWN_PATIENCE_S))
        for request in requests.by_id.values()
        if _may_turn_up(request, now)
    ]
    surplus = len(requests.ended) - view.options.outcomes_kept
    changes += [
        Change((records.RequestOutcomeForgottenRecord(name, ended.first, ended.is_one_multi),))
        for name, ended in islice(requests.ended.items(), min(max(surplus, 0), FORGOTTEN_AT_ONCE))
    ]
    return Decision(tuple(changes), tuple(following))


def _may_turn_up(request: Request, now: Instant) -> bool:
    """Return whether the znode of unaccepted entries may exist without being listed yet."""
    is_waited_for = request.kind == "request" and not (request.open or request.has_ended)
    return is_waited_for and request.unsettled > 0 and now < request.since + WITHDRAWN_PATIENCE_S


def _refuse_withdrawn(name: RequestId, request: Request) -> Change | None:
    left = request.unsettled
    if request.kind != "request" or not left:
        return None
    refusal = Refusal(
        name,
        count_text(left, "entry", "entries"),
        RefusalReason.DROPPED_BY_OPERATOR,
        "the request was withdrawn or changed before they were accepted, or named them twice",
        None,
        left,
    )
    return Change((records.RefusalRecord((refusal,)),))


def _is_over(  # noqa: PLR0911 - one return per rule
    view: ClusterView, name: RequestId, request: Request, now: Instant
) -> bool:
    requests, session = view.requests, view.requests_session
    if request.open or request.has_ended or not (request.total or request.parts):
        return False
    if requests.cancellation is not None:
        # The cancellation still counts its effect on each request.
        return False
    match request.kind:
        case "request":
            if session.submissions_listed is None or session.unread:
                # An unread znode may be a part of it that was accepted in part.
                return False
            if not all(shares_name(view, s) for s in session.parts_of(name)):
                return False
            if _may_turn_up(request, now):
                return False
            is_whole = len(request.parts) >= request.options.parts
            return is_whole or now >= request.since + PARTS_PATIENCE_S
        case "legacy":
            plan = requests.legacy
            is_there = plan is not None and legacy_request_id(plan.czxid) == name
            return session.legacy_read and not is_there
        case "queue":
            queue = requests.queue
            is_there = queue is not None and queue_request_id(queue.czxid) == name
            return session.queue_read and not is_there
        case "cancel":
            # Usually it ends with its znode; an operator may have deleted that.
            return session.cancellation_read and name not in view.reassignments.rolling_back
        case kind:
            return kind == "drain" and not drained_replicas.may_stand(view, name)
