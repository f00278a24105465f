"""The event queue: order, time and cancellation."""

from __future__ import annotations

from tests.sim.schedule import Schedule


def test_events_run_in_order_of_time_and_then_of_scheduling() -> None:
    """Two events of one instant run as they were scheduled."""
    schedule = Schedule(1)
    ran: list[str] = []
    schedule.call_in(2.0, lambda: ran.append("late"))
    schedule.call_in(1.0, lambda: ran.append("first"))
    schedule.call_in(1.0, lambda: ran.append("second"))
    while schedule.step():
        pass
    assert ran == ["first", "second", "late"]
    assert schedule.now() == 2.0


def test_a_cancelled_event_does_not_run() -> None:
    """Cancelling leaves the others alone."""
    schedule = Schedule(1)
    ran: list[str] = []
    schedule.call_in(1.0, lambda: ran.append("cancelled")).cancel()
    schedule.call_in(2.0, lambda: ran.append("kept"))
    while schedule.step():
        pass
    assert ran == ["kept"]


def test_what_is_scheduled_for_the_past_runs_now() -> None:
    """Time never goes back."""
    schedule = Schedule(1)
    at: list[float] = []

    def look_back() -> None:
        schedule.call_at(1.0, lambda: at.append(schedule.now()))

    schedule.call_in(5.0, look_back)
    while schedule.step():
        pass
    assert at == [5.0]
