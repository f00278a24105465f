"""Which limits hold now: what operators set live, else what was asked for, else the settings."""

from __future__ import annotations

from controller.core.model import RequestId
from controller.core.view import ClusterView


def throttle_of(view: ClusterView, request: RequestId) -> int | None:
    """Return the bytes per second and broker a request's copies may take; None: no throttle."""
    changed = view.controls.limits.requests.get(request)
    if changed is not None and changed.throttle is not None:
        return changed.throttle
    known = view.requests.get(request)
    if known is not None and known.options.throttle is not None:
        return known.options.throttle
    return view.controls.throttle


def in_flight_limit(view: ClusterView) -> int:
    """Return how many partitions may be in flight at most."""
    limit = view.controls.limits.max_partitions_in_flight
    return view.options.max_partitions_in_flight if limit is None else limit


def in_flight_max(view: ClusterView) -> int:
    """Return how many partitions may be in flight now: the adaptive pace may allow fewer."""
    limit = in_flight_limit(view)
    return limit if view.pace is None else max(1, min(limit, view.pace))
