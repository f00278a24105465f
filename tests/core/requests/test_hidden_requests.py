"""Requests of which ZooKeeper does not show what they hold."""

from __future__ import annotations

from dataclasses import replace

from controller.core.model import Instant
from controller.core.records import TimerFired
from controller.core.requests.outcomes import UNKNOWN_MS, OpenHistory, Part
from controller.core.requests.records import HistoryRead
from tests.core.builders import Driver, tp
from tests.core.requests.test_submitted import outcomes, submission, submit


def test_a_begun_request_that_is_not_shown_any_more_ends() -> None:
    """The creation of its znode is unknown, which does not make it another request."""
    driver = Driver({tp(0): (1, 2)})
    begun = submission("request_0000000000", {})
    part = Part(begun.name, 2, begun.created_ms)
    driver.observe(HistoryRead({begun.request: OpenHistory({begun.name: part}, 0)}, {}))
    submit(driver, replace(begun, unreadable="ZooKeeper does not show it", created_ms=UNKNOWN_MS))
    assert driver.view.requests_session.submissions == {}
    driver.now = Instant(driver.now + 20)
    driver.observe(TimerFired("x"))
    summary = outcomes(driver)[begun.request]
    assert (summary.total, sum(r.entries for r in summary.refused), summary.done) == (2, 2, 0)
