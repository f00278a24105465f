"""
The limits in force for a request, a broker or the cluster, and the adaptive limit.

A live control for the request precedes the request's own option, that precedes a live control for
all, and the daemon's settings come last.

The adaptive limit is as many partitions in flight as the cluster sustains, between 1 and the
configured limit. Each interval without evidence of strain allows a few more (additive increase); an
ISR loss of a partition without a reassignment, or a slow broker, halves the limit (multiplicative
decrease). Every change has its evidence.
"""

from __future__ import annotations

from math import ceil
from typing import Final, TypeVar

from controller.core.effects import SetTimer
from controller.core.model import (
    BrokerId,
    Instant,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
)
from controller.core.pacing import controls
from controller.core.pacing.records import PaceRecord
from controller.core.records import Change, Decision
from controller.core.requests.submissions import RequestOptions, Window
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

PACE_TIMER: Final = "pace"
PACE_EVERY_S: Final = 30.0
FIRST_SHARE: Final = 0.25
"""The share of the limit at the begin of a tenure, when nothing is known of the load."""
GROWTH_SHARE: Final = 0.1
"""The share of the limit that each good interval adds."""

_AS_SUBMITTED: Final = RequestOptions()
_AS_ALL: Final = controls.BrokerLimits()
_AS_SET: Final = controls.RequestLimits()
_Limit = TypeVar("_Limit")


def _common(view: ClusterView) -> controls.Limits:
    return view.pacing_process.controls.limits


def _live(view: ClusterView, request: RequestId) -> controls.RequestLimits:
    return _common(view).requests.get(request, _AS_SET)


def _submitted(view: ClusterView, request: RequestId) -> RequestOptions:
    known = view.requests.by_id.get(request)
    return _AS_SUBMITTED if known is None else known.options


def _first(live: _Limit | None, otherwise: _Limit) -> _Limit:
    return otherwise if live is None else live


def priority_of(view: ClusterView, request: RequestId) -> int:
    """Return a request's priority: higher starts first."""
    return _first(_live(view, request).priority, _submitted(view, request).priority)


def step_size_of(view: ClusterView, spec: ReassignmentSpec) -> int | None:
    """Return how many replicas a step of this reassignment adds at most; None is all at once."""
    if spec.route is Route.FOREIGN:
        return view.options.step_size
    for size in (
        _live(view, spec.request).step_size,
        _submitted(view, spec.request).step_size,
        _common(view).step_size,
    ):
        if size is not None:
            return None if size == "all" else size
    return view.options.step_size


def tolerated_brokers(view: ClusterView, request: RequestId) -> Replicas:
    """Return the brokers whose lagging replicas a request does not wait for."""
    submitted = _submitted(view, request).tolerate_lagging
    return _first(_live(view, request).tolerate_lagging, submitted)


def throttle_of(view: ClusterView, request: RequestId) -> int | None:
    """Return a request's throttle in bytes per second and broker; None where there is none."""
    own = own_throttle(view, request, _submitted(view, request))
    throttle = _first(own, view.pacing_process.controls.throttle)
    return None if throttle == controls.UNTHROTTLED else throttle


def move_throttle_of(view: ClusterView, request: RequestId) -> int | None:
    """Return a request's throttle of moves between log directories; None: it has none."""
    return _submitted(view, request).log_dirs_throttle


def own_throttle(view: ClusterView, request: RequestId, options: RequestOptions) -> int | None:
    """Return a request's own throttle, set live or submitted; None: the common throttle holds."""
    return _first(_live(view, request).throttle, options.throttle)


def windows_of(view: ClusterView, request: RequestId) -> tuple[Window, ...]:
    """Return the windows that must all be open for a step of the request to begin."""
    own = _live(view, request).window or _submitted(view, request).window
    return tuple(w for w in (own, _common(view).window) if w is not None)


def in_flight_limit(view: ClusterView) -> int:
    """Return the configured limit of partitions in flight."""
    return _first(_common(view).max_partitions_in_flight, view.options.max_partitions_in_flight)


def in_flight_max(view: ClusterView) -> int:
    """Return how many partitions may be in flight now: the adaptive limit may allow fewer."""
    limit = in_flight_limit(view)
    return limit if view.pacing.pace is None else max(1, min(limit, view.pacing.pace))


def in_flight_max_of(view: ClusterView, request: RequestId) -> int | None:
    """Return the in-flight limit of the request; None where it has no limit of its own."""
    live = _live(view, request).max_partitions_in_flight
    return _first(live, _submitted(view, request).max_partitions_in_flight)


def under_min_isr(view: ClusterView) -> controls.UnderMinIsr:
    """Return what partitions below ``min.insync.replicas`` mean for new steps."""
    return _common(view).under_min_isr or view.options.under_min_isr


def incoming_max(view: ClusterView, broker: BrokerId) -> int:
    """Return how many replicas a broker may receive at once."""
    own = _common(view).brokers.get(broker, _AS_ALL).max_incoming
    return _first(own, incoming_limit(view))


def incoming_limit(view: ClusterView) -> int:
    """Return how many replicas a broker without a limit of its own may receive at once."""
    return _first(_common(view).max_incoming_per_broker, view.options.max_incoming_per_broker)


def outgoing_max(view: ClusterView, broker: BrokerId) -> int:
    """Return how many partitions a broker may serve copies of at once."""
    own = _common(view).brokers.get(broker, _AS_ALL).max_outgoing
    return _first(own, outgoing_limit(view))


def outgoing_limit(view: ClusterView) -> int:
    """Return how many partitions a broker without a limit of its own may serve at once."""
    return _first(_common(view).max_outgoing_per_broker, view.options.max_outgoing_per_broker)


def bytes_in_flight_max(view: ClusterView) -> int | None:
    """Return how many bytes may be in flight, as far as sizes are known; None: no limit."""
    return _first(_common(view).max_bytes_in_flight, view.options.max_bytes_in_flight)


def leader_moves_max(view: ClusterView) -> int:
    """Return how many leaderships one broker may lose or gain by our steps in a second."""
    live = _common(view).max_leader_moves_per_broker_per_second
    return _first(live, view.options.max_leader_moves_per_broker_per_second)


def order_of(view: ClusterView) -> controls.QueueOrder:
    """Return the order among pending partitions of equal priority."""
    return _first(_common(view).order, view.options.order)


def in_flight_text(limit: int, scope: str = "") -> str:
    """Describe the wait for a limit of partitions in flight, of a request where one is named."""
    partitions = "1 partition" if limit == 1 else f"{limit} partitions"
    return f"{partitions}{scope} {'is' if limit == 1 else 'are'} in flight"


# --- the adaptive limit --------------------------------------------------------------------------


def adapt_limit(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Begin with a share of the limit, then adjust it interval by interval."""
    tenure, pacing = view.tenure, view.pacing
    if not view.options.adaptive or tenure.held is None:
        return Decision()
    timer = SetTimer(PACE_TIMER, Instant(now + PACE_EVERY_S))
    limit = in_flight_limit(view)
    if pacing.pace is None:
        first = max(1, ceil(limit * FIRST_SHARE))
        record = PaceRecord(None, first, f"start at a quarter of the limit of {limit}", now)
        return Decision((Change((record,)),), (timer,))
    if not due.timer:
        return Decision()
    over_at = Instant(pacing.pace_since + PACE_EVERY_S)
    if now < over_at:
        return Decision(effects=(SetTimer(PACE_TIMER, over_at),))
    against = _evidence_against(view)
    before = min(pacing.pace, limit)
    if against:
        after = max(1, before // 2)
    else:
        after = min(limit, before + max(1, int(limit * GROWTH_SHARE)))
    why = against or "no ISR shrank outside the plan, and brokers answer quickly"
    return Decision((Change((PaceRecord(before, after, why, now),)),), (timer,))


def _evidence_against(view: ClusterView) -> str:
    """Return the evidence against the present limit since the interval began; empty if none."""
    pacing = view.pacing
    since = pacing.pace_since
    lost = [loss for loss in pacing.isr_losses if loss.at > since]
    slow = [answer for answer in pacing.slow_answers if answer.at > since]
    said = []
    if lost:
        said.append(
            f"{len(lost)} times the ISR of a partition outside the plan shrank, "
            f"the last was {lost[-1].partition}"
        )
    if slow:
        worst = max(slow, key=lambda answer: answer.took_s)
        said.append(f"broker {worst.broker} took {worst.took_s:.1f} s to answer")
    return "; ".join(said)
