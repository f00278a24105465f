"""The host of the loop: its work between two cycles."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import cast

import pytest

from controller.clocks import MonotonicClock
from controller.core.core_settings import Options
from controller.core.cycle import take_due
from controller.core.model import Instant
from controller.core.records import TimerFired
from controller.core.requests.records import SubmissionsListed
from controller.core.view import ClusterView
from controller.reactor.host import GATHER_AFTER, GATHER_S, Host, WakingInbox
from controller.reactor.loop import Reactor


class CountingReactor:
    """Always has another event; every turn decides as many changes."""

    def __init__(self, changes: int) -> None:
        self.view = ClusterView(Options())
        self.finished = False
        self.changes = changes
        self.began: list[float] = []

    def start(self) -> None:
        """Do nothing: no read is needed."""

    def put(self, event: object) -> None:
        """Do nothing: no test reads it."""

    def wakes_at(self) -> Instant:
        """Return that something is due already."""
        return Instant(0.0)

    def run_cycle(self) -> None:
        """Note the time; the sixth cycle is the last."""
        take_due(self.view)
        self.began.append(time.monotonic())
        self.finished = len(self.began) == 6


def test_what_people_request_ends_the_gathering() -> None:
    """A submission does not wait for the events of a plan in flight."""
    inbox = WakingInbox()
    inbox.put(TimerFired("any"))
    began = time.monotonic()
    inbox.gather(0.05)
    assert time.monotonic() - began >= 0.05
    inbox.put(SubmissionsListed(frozenset()))
    inbox.put(TimerFired("any"))
    began = time.monotonic()
    inbox.gather(30.0)
    assert time.monotonic() - began < 5.0
    inbox.begin_cycle()
    began = time.monotonic()
    inbox.gather(0.05)
    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize(("changes", "gathers"), [(GATHER_AFTER, True), (GATHER_AFTER - 1, False)])
def test_events_gather_after_a_busy_turn_only(*, changes: int, gathers: bool) -> None:
    """Events that arrive meanwhile share a write; a small plan does not wait."""
    reactor = CountingReactor(changes)
    host = Host(
        reactor=cast("Reactor", reactor),
        inbox=WakingInbox(),
        clock=MonotonicClock(),
        on_error=lambda error, _verdict: pytest.fail(str(error)),
        after_cycle=lambda _view: 0.0,
        threads=lambda: [(threading.current_thread().name, True)],
        unix_s=time.time,
    )
    host.run()
    shortest = min(later - earlier for earlier, later in pairwise(reactor.began))
    assert (shortest >= GATHER_S) == gathers
