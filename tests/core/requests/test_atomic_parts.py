"""Atomic requests of several parts: what was taken of one goes back when another cannot be had."""

from __future__ import annotations

from typing import Final

from controller.core.core_settings import Options
from controller.core.cycle import take_due
from controller.core.decide import decide
from controller.core.model import (
    BrokerId,
    OutcomeKind,
    ReassignmentSpec,
    RefusalReason,
    RequestId,
    Route,
    ZkVersion,
)
from controller.core.requests.outcomes import OpenHistory, Part
from controller.core.requests.records import (
    HistoryRead,
    KillSwitchRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import RequestOptions
from controller.core.role.records import BrokersRead
from tests.core.builders import Driver, broker, replicas, tp
from tests.core.requests.test_submitted import outcomes, submission, submit

NAME: Final = RequestId("all-or-nothing")
FIRST: Final = "request_0000000000"
SECOND: Final = "request_0000000001"


def test_a_part_that_turns_out_bad_takes_back_what_a_daemon_before_accepted() -> None:
    """The znode of the other part is gone; its record is not, and a step began."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, brokers=(1, 2, 3))
    spec = ReassignmentSpec(replicas(1, 3), replicas(1, 2), NAME, Route.REQUEST, ZkVersion(0))
    driver.adopt({tp(0): spec})
    options = RequestOptions(atomic=True, parts=2, part_of=NAME)
    driver.observe(HistoryRead({NAME: OpenHistory({FIRST: Part(FIRST, 1, 0, options)}, 0)}, {}))
    submit(driver, submission(SECOND, {tp(1): (1, 4)}, atomic=True, parts=2, part_of=NAME))
    assert driver.view.reassignments.by_partition == {}
    summary = outcomes(driver)[NAME]
    assert (summary.total, summary.done) == (2, 0)
    assert [r.reason for r in summary.refused] == [RefusalReason.UNKNOWN_BROKER]
    assert summary.fates == {OutcomeKind.ROLLED_BACK: 1}


def half_accepted() -> Driver:
    """Return a request of which one part was accepted and is gone, and the other is on its way."""
    many = {tp(n): (1, 2) for n in range(200)}
    driver = Driver(many, brokers=(1, 2, 3, 4), options=Options(acceptance_chunk=50))
    one = submission(FIRST, {tp(0): (1, 3)}, atomic=True, parts=2, part_of=NAME)
    rest = {tp(n): (1, 4) for n in range(1, 200)}
    two = submission(SECOND, rest, atomic=True, parts=2, part_of=NAME)
    driver.fold(SubmissionsListed(frozenset({one.name, two.name})))
    driver.fold(SubmissionsRead({one.name: one, two.name: two}))
    while one.name in driver.view.requests_session.submissions:
        for change in decide(driver.view, take_due(driver.view), driver.now).changes:
            driver.commit(change)
    assert two.name in driver.view.requests_session.submissions
    assert driver.view.reassignments.by_partition[tp(0)].spec.target == replicas(1, 3)
    return driver


def test_a_part_that_turns_out_bad_takes_back_the_part_before_it() -> None:
    """A broker dies while the second part, larger than a chunk, is being accepted."""
    driver = half_accepted()
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (1, 2, 3)}))
    assert driver.view.reassignments.by_partition == {}
    assert not any(history for history in driver.history.values())
    summary = outcomes(driver)[NAME]
    assert (summary.total, summary.done) == (200, 0)


def test_a_part_that_is_disabled_takes_back_the_part_before_it() -> None:
    """Else that would begin once work is enabled again, without the rest."""
    driver = half_accepted()
    driver.observe(KillSwitchRead(is_on=True))
    assert driver.view.reassignments.by_partition == {}
    summary = outcomes(driver)[NAME]
    assert (summary.total, summary.done) == (200, 0)
