"""The share of a cycle that one request leaves to others."""

from __future__ import annotations

from controller.core.core_settings import Options
from controller.core.cycle import observe, take_due
from controller.core.decide import decide
from controller.core.effects import DescribeTopicConfigs
from controller.core.reassignments.records import SpecRecord
from controller.core.requests.acceptance import cycle_share
from controller.core.requests.fold import SHORT_CYCLES
from controller.core.requests.records import (
    LegacyPlanRead,
    PartRecord,
    SubmissionsListed,
    SubmissionsRead,
)
from tests.core.builders import Driver, plan, tp
from tests.core.requests.test_submitted import submission, submit

CHUNK = 1000
HUGE = "request_0000000000"
SMALL = "request_0000000001"


def accepted_in_a_turn(driver: Driver) -> int:
    """Play one turn; return how many entries it accepts."""
    decision = decide(driver.view, take_due(driver.view), driver.now)
    for change in decision.changes:
        driver.commit(change)
    records = (r for change in decision.changes for r in change.records)
    return sum(isinstance(r, SpecRecord) for r in records)


def listed(driver: Driver, *names: str) -> None:
    """Let it be read which requests there are."""
    observe(driver.view, SubmissionsListed(frozenset(names)), driver.now)


def of_many() -> Driver:
    """Return a cluster with a request for very many partitions, opened and not accepted yet."""
    many = {tp(n): (1, 2) for n in range(5 * CHUNK)}
    options = Options(acceptance_chunk=CHUNK, look_chunk=CHUNK, max_partitions_in_flight=1)
    driver = Driver(many, options=options)
    listed(driver, HUGE)
    huge = submission(HUGE, dict.fromkeys(many, (1, 3)))
    observe(driver.view, SubmissionsRead({HUGE: huge}), driver.now)
    assert accepted_in_a_turn(driver) == 0  # it is opened first
    driver.view.requests_session.short_cycles = 0
    return driver


def test_the_first_cycles_after_a_submission_are_short() -> None:
    """The request may be a small one, whatever else there is; later ones have more throughput."""
    driver = of_many()
    listed(driver, HUGE)
    assert cycle_share(driver.view, CHUNK) == CHUNK  # it is no new one
    listed(driver, HUGE, SMALL)
    listed(driver, HUGE)
    for _ in range(SHORT_CYCLES):
        assert cycle_share(driver.view, CHUNK) == CHUNK // 10
        take_due(driver.view)
    assert cycle_share(driver.view, CHUNK) == CHUNK


def test_partitions_of_a_small_request_are_examined_before_those_of_a_large_one() -> None:
    """Where a cycle cannot take all of them."""
    driver = of_many()
    accepted_in_a_turn(driver)
    small = submission(SMALL, {tp(5 * CHUNK - 1): (1, 4)})
    listed(driver, HUGE, SMALL)
    driver.view.requests_session.submissions[SMALL] = small
    while tp(5 * CHUNK - 1) not in driver.view.reassignments.by_partition:
        driver.view.due.submissions = True
        accepted_in_a_turn(driver)
    driver.view.due.partitions.clear()
    driver.view.due.add(driver.view.reassignments.by_partition)
    assert tp(5 * CHUNK - 1) in take_due(driver.view).partitions


def test_a_request_takes_short_turns_as_soon_as_another_is_there() -> None:
    """Also before anybody knows what the other one wants; alone it takes long ones."""
    driver = of_many()
    assert accepted_in_a_turn(driver) == CHUNK
    listed(driver, HUGE, SMALL)
    assert accepted_in_a_turn(driver) == CHUNK // 10


def test_of_several_requests_none_takes_a_long_turn_before_all_are_accepted() -> None:
    """Nor are very many partitions looked at in one; what was accepted long ago does not count."""
    driver = of_many()
    many = list(driver.view.requests_session.submissions[HUGE].entries)
    small = submission(SMALL, {tp(0): (1, 4)})
    listed(driver, HUGE, SMALL)
    observe(driver.view, SubmissionsRead({SMALL: small}), driver.now)
    driver.view.due.add(many)
    assert len(take_due(driver.view).partitions) == 2 * CHUNK // 10  # and as many as before
    listed(driver, HUGE)
    driver.view.requests_session.short_cycles = 0
    assert len(take_due(driver.view).partitions) == CHUNK


def test_a_plan_that_is_not_accepted_yet_shares_turns_with_a_request() -> None:
    """Where all of it is under way, the request is alone again."""
    driver = Driver({tp(): (1, 2), tp(1): (1, 2)}, options=Options(max_partitions_in_flight=0))
    submit(driver, submission(HUGE, {tp(1): (1, 3)}))
    driver.view.requests_session.submissions[HUGE] = submission(HUGE, {tp(1): (1, 3)})
    driver.view.requests_session.short_cycles = 0
    assert cycle_share(driver.view, CHUNK) == CHUNK
    driver.fold(LegacyPlanRead(plan({tp(): (1, 3)})))
    assert cycle_share(driver.view, CHUNK) == CHUNK // 10
    driver.settle()
    assert tp() in driver.view.reassignments.by_partition
    assert cycle_share(driver.view, CHUNK) == CHUNK


def test_settings_are_requested_while_a_request_is_opened() -> None:
    """They are known when its entries are judged, in the turn after that."""
    driver = Driver({tp(): (1, 2)})
    driver.view.topics.configs.clear()
    driver.view.topics.requested_configs.clear()
    listed(driver, SMALL)
    read = SubmissionsRead({SMALL: submission(SMALL, {tp(): (1, 3)})})
    observe(driver.view, read, driver.now)
    decision = decide(driver.view, take_due(driver.view), driver.now)
    assert any(isinstance(r, PartRecord) for change in decision.changes for r in change.records)
    assert DescribeTopicConfigs(("t",)) in decision.effects
