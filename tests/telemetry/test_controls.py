"""Tests of ``controller.telemetry.control_status``."""

from __future__ import annotations

from dataclasses import fields

from controller.core.controls import Controls, Limits, Pause, Pauses, QueueOrder
from controller.core.model import BrokerId
from controller.core.options import Options
from controller.telemetry.control_status import controls_of, limits_of
from tests.telemetry.builders import REQUEST, a_view

PAUSE = Pause("disk swap", "ann@desk", 1_750_000_000_000)
TOLD = {"reason": "disk swap", "by": "ann@desk", "since_ms": 1_750_000_000_000}


def test_every_pause_is_told_with_who_and_why() -> None:
    """And whether new work is refused, and how fast all may copy."""
    view = a_view(1).view
    view.kill_switch = True
    view.controls = Controls(
        Pauses(PAUSE, {REQUEST: PAUSE}, {BrokerId(5): PAUSE}), throttle=50_000_000
    )
    assert controls_of(view) == {
        "paused": {"everything": TOLD, "requests": {REQUEST: TOLD}, "brokers": {"5": TOLD}},
        "disabled": True,
        "throttle": 50_000_000,
    }


def test_limits_are_those_turned_live_or_else_those_of_the_settings() -> None:
    """Each limit of all, by the name it is turned by."""
    view = a_view(1, options=Options(step_size=None, max_incoming_per_broker=7)).view
    view.controls = Controls(
        limits=Limits(max_partitions_in_flight=3, order=QueueOrder.SMALL_FIRST)
    )
    found = limits_of(view)
    assert set(found) == {f.name for f in fields(Limits)} - {"brokers", "requests"}
    assert found["max_partitions_in_flight"] == 3
    assert found["max_incoming_per_broker"] == 7
    assert found["step_size"] == "all"
    assert found["order"] == "small_first"
    assert found["max_bytes_in_flight"] is None
