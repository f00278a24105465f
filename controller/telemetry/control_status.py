"""
What operators hold up or have turned, and the limits that hold, as the status tells them.

Pure; what is in the documents is what ``reassigner limits`` and the page show.
"""

from __future__ import annotations

from typing import Any

from controller.core.controls import Pause
from controller.core.scheduling.limits import (
    bytes_in_flight_max,
    in_flight_limit,
    incoming_limit,
    leader_moves_max,
    order_of,
    outgoing_limit,
)
from controller.core.view import ClusterView


def controls_of(view: ClusterView) -> dict[str, Any]:
    """Return the pauses, the kill switch and the throttle of all."""
    pauses = view.controls.pauses
    everything = pauses.everything
    return {
        "paused": {
            "everything": None if everything is None else _pause(everything),
            "requests": {name: _pause(pause) for name, pause in pauses.requests.items()},
            "brokers": {str(broker): _pause(p) for broker, p in pauses.brokers.items()},
        },
        "disabled": bool(view.kill_switch),
        "throttle": view.controls.throttle,
    }


def limits_of(view: ClusterView) -> dict[str, Any]:
    """Return the limits of all that hold, turned live or as in the settings; None: no limit."""
    turned, options = view.controls.limits, view.options
    return {
        "max_partitions_in_flight": in_flight_limit(view),
        "max_incoming_per_broker": incoming_limit(view),
        "max_outgoing_per_broker": outgoing_limit(view),
        "max_bytes_in_flight": bytes_in_flight_max(view),
        "max_leader_moves_per_broker_per_second": leader_moves_max(view),
        "step_size": turned.step_size or options.step_size or "all",
        "order": str(order_of(view)),
        "window": None if turned.window is None else str(turned.window),
    }


def _pause(pause: Pause) -> dict[str, Any]:
    return {"reason": pause.reason, "by": pause.by, "since_ms": pause.since_ms}
