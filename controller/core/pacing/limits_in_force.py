"""
The limits in force for a request, a broker or the cluster.

A live control for the request precedes the request's own option, that precedes a live control for
all, and the daemon's settings come last.
"""

from __future__ import annotations

from typing import Final, TypeVar

from controller.core.model import (
    BrokerId,
    ReassignmentSpec,
    Replicas,
    RequestId,
    Route,
    count_text,
)
from controller.core.pacing import controls
from controller.core.requests.submissions import AUTO, RequestOptions, Throttle, Window
from controller.core.view import ClusterView

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


def throttle_of(view: ClusterView, request: RequestId) -> Throttle | None:
    """Return a request's throttle: bytes per second and broker, or ``AUTO``; None: it has none."""
    own = own_throttle(view, request, _submitted(view, request))
    throttle = _first(own, common_throttle(view))
    return None if throttle == controls.UNTHROTTLED else throttle


def common_throttle(view: ClusterView) -> Throttle | None:
    """Return the throttle of requests without one of their own, set live or in the settings."""
    return _first(view.pacing_process.controls.throttle, view.options.throttle)


def move_throttle_of(view: ClusterView, request: RequestId) -> Throttle | None:
    """
    Return a request's throttle of moves between log directories; None: it has none.

    Where none was submitted, a throttle ``AUTO`` of its copies is that of its moves, too.
    """
    own = _submitted(view, request).log_dirs_throttle
    return AUTO if own is None and throttle_of(view, request) == AUTO else own


def own_throttle(view: ClusterView, request: RequestId, options: RequestOptions) -> Throttle | None:
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
    """Return how many partitions may be in flight now: the governor may allow fewer."""
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
    is_or_are = "is" if limit == 1 else "are"
    return f"{count_text(limit, 'partition')}{scope} {is_or_are} in flight"
