"""The delegated engine: alter entries whose answer, or whose effect, is seen late."""

from __future__ import annotations

from controller.core.effects import SetTimer
from controller.core.model import BrokerId, Instant
from controller.core.reassignments.phases import (
    BACKOFF_S,
    SEEN_S,
    UNSENT_S,
    AwaitingController,
    Pending,
)
from controller.core.reassignments.records import AlterResult, ReassignmentsAltered, SpecEndedRecord
from controller.core.wakeups import ALTER_SEEN_TIMER
from controller.kafka_errors import NONE
from tests.core.builders import replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.reassignments.test_delegated import at, submit_target
from tests.core.requests.test_cancellation import cancel


def unanswered() -> DelegatedDriver:
    """Return a partition whose controller was asked to drop a replica and does not answer."""
    driver = DelegatedDriver({tp(): (0, 1, 2)}, answers=False)
    submit_target(driver, 0, 1)
    assert driver.orders == [(replicas(0, 1), False)]
    return driver


def accept(driver: DelegatedDriver) -> None:
    """Let the controller accept the entry, and not carry it out yet."""
    result = AlterResult(tp(), replicas(0, 1), NONE, "")
    driver.observe(ReassignmentsAltered((result,), BrokerId(1)))


def ends(driver: DelegatedDriver) -> list[SpecEndedRecord]:
    """Return the ends of records that were written."""
    return [r for c in driver.changes for r in c.records if isinstance(r, SpecEndedRecord)]


def test_an_alter_entry_may_take_its_time_from_its_answer_on() -> None:
    """Without a controller no client's entry could be carried out."""
    driver = unanswered()
    driver.pass_time(3 * SEEN_S)
    accept(driver)
    driver.pass_time(SEEN_S - 1)
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, AwaitingController)
    driver.pass_time(1)
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Pending)
    assert len(driver.orders) == 1
    driver.pass_time(BACKOFF_S)
    assert len(driver.orders) == 2


def test_what_ends_without_a_step_that_was_seen_ends_only_where_it_stands() -> None:
    """The entry may be carried out at this moment, after the last read."""
    driver = unanswered()
    cancel(driver)
    accept(driver)
    driver.pass_time(SEEN_S)
    (end,) = ends(driver)
    assert end.stands
    assert at(driver) == (0, 1, 2)


def test_a_step_that_was_seen_to_end_needs_no_second_look() -> None:
    """Whatever the controller does with other partitions meanwhile does not hold it up."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 0, 1)
    driver.run(tp())
    (end,) = ends(driver)
    assert not end.stands


def test_a_request_is_examined_again_when_its_effect_should_be_seen() -> None:
    """No other event may follow; once that time is over, each second until it is decided."""
    driver = unanswered()
    driver.sent.clear()
    accept(driver)
    answered = driver.now
    assert [
        e.at for e in driver.sent if e == SetTimer(ALTER_SEEN_TIMER, Instant(answered + SEEN_S))
    ]
    driver.sent.clear()
    driver.pass_time(SEEN_S - UNSENT_S / 2)
    timers = [e.at for e in driver.sent if isinstance(e, SetTimer) and e.name == ALTER_SEEN_TIMER]
    assert timers == [driver.now + UNSENT_S]


def test_a_refused_cancellation_is_examined_again_after_its_back_off() -> None:
    """The step that it was to cancel is still in the topic znode."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 1, 2)
    driver.refuses = (39, "the controller refuses it")
    cancel(driver)
    assert driver.orders[-1] == (replicas(0, 1), True)
    assert SetTimer(ALTER_SEEN_TIMER, Instant(driver.now + BACKOFF_S)) in driver.sent
