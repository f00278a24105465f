"""
The limits in force for a request, a broker or the cluster: settings and live controls.

A live control for the request precedes the request's own option, that precedes a live control for
all, and the daemon's settings come last.
"""

from __future__ import annotations

from controller.core.model import BrokerId, ReassignmentSpec, RequestId, Route
from controller.core.pacing import controls
from controller.core.requests import submissions
from controller.core.view import ClusterView

_AS_SUBMITTED = controls.RequestLimits()
_AS_ALL = controls.BrokerLimits()


def _live_limits(view: ClusterView, request: RequestId) -> controls.RequestLimits:
    return view.pacing_process.controls.limits.requests.get(request, _AS_SUBMITTED)


def priority_of(view: ClusterView, request: RequestId) -> int:
    """Return a request's priority: higher starts first."""
    live = _live_limits(view, request).priority
    if live is not None:
        return live
    known = view.requests.by_id.get(request)
    return 0 if known is None else known.options.priority


def step_size_of(view: ClusterView, spec: ReassignmentSpec) -> int | None:
    """Return how many replicas a step of this reassignment adds at most; None is all at once."""
    if spec.route is Route.FOREIGN:
        return view.options.step_size
    known = view.requests.by_id.get(spec.request)
    for size in (
        _live_limits(view, spec.request).step_size,
        None if known is None else known.options.step_size,
        view.pacing_process.controls.limits.step_size,
    ):
        if size is not None:
            return _replicas_of(size)
    return view.options.step_size


def _replicas_of(size: submissions.StepSize) -> int | None:
    return None if size == "all" else size


def throttle_of(view: ClusterView, request: RequestId) -> int | None:
    """Return a request's throttle in bytes per second and broker; None where there is none."""
    known = view.requests.by_id.get(request)
    own = own_throttle(
        view, request, submissions.RequestOptions() if known is None else known.options
    )
    throttle = view.pacing_process.controls.throttle if own is None else own
    return None if throttle == controls.UNTHROTTLED else throttle


def move_throttle_of(view: ClusterView, request: RequestId) -> int | None:
    """Return a request's throttle of moves between log directories; None: it has none."""
    known = view.requests.by_id.get(request)
    return None if known is None else known.options.log_dirs_throttle


def own_throttle(
    view: ClusterView, request: RequestId, options: submissions.RequestOptions
) -> int | None:
    """Return a request's own throttle, set live or submitted; None: the common throttle holds."""
    live = _live_limits(view, request).throttle
    return options.throttle if live is None else live


def windows_of(view: ClusterView, request: RequestId) -> tuple[submissions.Window, ...]:
    """Return the windows that must all be open for a step of the request to begin."""
    known = view.requests.by_id.get(request)
    own = _live_limits(view, request).window or (None if known is None else known.options.window)
    return tuple(w for w in (own, view.pacing_process.controls.limits.window) if w is not None)


def in_flight_limit(view: ClusterView) -> int:
    """Return the configured limit of partitions in flight."""
    live = view.pacing_process.controls.limits.max_partitions_in_flight
    return view.options.max_partitions_in_flight if live is None else live


def in_flight_max(view: ClusterView) -> int:
    """Return how many partitions may be in flight now: the adaptive limit may allow fewer."""
    limit = in_flight_limit(view)
    return limit if view.pacing.pace is None else max(1, min(limit, view.pacing.pace))


def in_flight_max_of(view: ClusterView, request: RequestId) -> int | None:
    """Return the in-flight limit of the request; None where it has no limit of its own."""
    live = _live_limits(view, request).max_partitions_in_flight
    if live is not None:
        return live
    known = view.requests.by_id.get(request)
    return None if known is None else known.options.max_partitions_in_flight


def under_min_isr(view: ClusterView) -> controls.UnderMinIsr:
    """Return what partitions below ``min.insync.replicas`` mean for new steps."""
    return view.pacing_process.controls.limits.under_min_isr or view.options.under_min_isr


def incoming_max(view: ClusterView, broker: BrokerId) -> int:
    """Return how many replicas a broker may receive at once."""
    own = view.pacing_process.controls.limits.brokers.get(broker, _AS_ALL).max_incoming
    return incoming_limit(view) if own is None else own


def incoming_limit(view: ClusterView) -> int:
    """Return how many replicas a broker without a limit of its own may receive at once."""
    live = view.pacing_process.controls.limits.max_incoming_per_broker
    return view.options.max_incoming_per_broker if live is None else live


def outgoing_max(view: ClusterView, broker: BrokerId) -> int:
    """Return how many partitions a broker may serve copies of at once."""
    own = view.pacing_process.controls.limits.brokers.get(broker, _AS_ALL).max_outgoing
    return outgoing_limit(view) if own is None else own


def outgoing_limit(view: ClusterView) -> int:
    """Return how many partitions a broker without a limit of its own may serve at once."""
    live = view.pacing_process.controls.limits.max_outgoing_per_broker
    return view.options.max_outgoing_per_broker if live is None else live


def bytes_in_flight_max(view: ClusterView) -> int | None:
    """Return how many bytes may be in flight, as far as sizes are known; None: no limit."""
    live = view.pacing_process.controls.limits.max_bytes_in_flight
    return view.options.max_bytes_in_flight if live is None else live


def leader_moves_max(view: ClusterView) -> int:
    """Return how many leaderships one broker may lose or gain by our steps in a second."""
    live = view.pacing_process.controls.limits.max_leader_moves_per_broker_per_second
    return view.options.max_leader_moves_per_broker_per_second if live is None else live


def order_of(view: ClusterView) -> controls.QueueOrder:
    """Return the order among pending partitions of equal priority."""
    live = view.pacing_process.controls.limits.order
    return view.options.order if live is None else live


def in_flight_text(limit: int, scope: str = "") -> str:
    """Describe the wait for a limit of partitions in flight, of a request where one is named."""
    partitions = "1 partition" if limit == 1 else f"{limit} partitions"
    return f"{partitions}{scope} {'is' if limit == 1 else 'are'} in flight"
