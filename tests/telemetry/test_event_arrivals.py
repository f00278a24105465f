"""Tests of ``controller.telemetry.event_arrivals``."""

from __future__ import annotations

from controller.core.events import Event, LeadershipGained, TimerFired
from controller.telemetry.event_arrivals import TimedInbox
from tests.telemetry.builders import FixedClock


class Kept:
    """An inbox that keeps what it gets."""

    def __init__(self) -> None:
        """Start empty."""
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)


def test_events_pass_in_order_and_their_time_is_known_once() -> None:
    """The loop gets the very events, and each arrival is handed out once."""
    clock, kept = FixedClock(), Kept()
    inbox = TimedInbox(kept, clock)
    first, second = TimerFired("a"), LeadershipGained()
    inbox.put(first)
    clock.go(2)
    inbox.put(second)
    assert kept.events == [first, second]
    assert inbox.taken(first) == 1000.0
    assert inbox.taken(second) == 1002.0
    assert inbox.taken(first) is None


def test_events_of_the_loop_itself_have_no_arrival() -> None:
    """A timer that fired inside the loop never waited."""
    assert TimedInbox(Kept(), FixedClock()).taken(TimerFired("a")) is None
