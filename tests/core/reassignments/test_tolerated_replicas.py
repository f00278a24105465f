"""Replicas that stay and are not in sync, of which a request tolerates that they lag."""

from __future__ import annotations

import pytest

from controller.core.model import BlockedBy, RequestId
from controller.core.pacing.controls import Controls, Limits, RequestLimits
from controller.core.pacing.records import ControlsRead
from controller.core.requests.submissions import Submission
from controller.core.role.records import BrokersRead
from tests.core.builders import Driver, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_submitted import submission, submit

NAME = "request_0000000000"


def wanted(*target: int, tolerated: tuple[int, ...] = ()) -> Submission:
    """Return a request for these replicas."""
    return submission(NAME, {tp(): target}, tolerate_lagging=replicas(*tolerated))


def tolerate(driver: Driver, *brokers: int) -> None:
    """Change the request while it is in progress."""
    limits = Limits(requests={RequestId(NAME): RequestLimits(tolerate_lagging=replicas(*brokers))})
    driver.observe(ControlsRead(Controls(limits=limits)))


def blocked(driver: Driver) -> tuple[BlockedBy, str]:
    """Return what the partition waits for."""
    found = driver.view.reassignments.by_partition[tp()].blocked
    assert found is not None
    return found.by, found.detail


def isr(driver: Driver) -> tuple[int, ...]:
    """Return the ISR of the partition."""
    return driver.view.leadership.states[tp()].isr


def is_open(driver: Driver) -> bool:
    """Whether the reassignment is in progress."""
    return tp() in driver.view.reassignments.by_partition


def lagging(*in_sync: int, min_isr: int = 1) -> Driver:
    """Return a partition on brokers 1, 2 and 3, of which only these are in sync."""
    driver = Driver({tp(): (1, 2, 3)}, min_isr=min_isr)
    driver.change_isr(tp(), replicas(*in_sync))
    return driver


def test_a_step_waits_for_a_replica_that_stays_and_names_it() -> None:
    """At once, before it begins."""
    driver = lagging(1, 2)
    submit(driver, wanted(2, 3, 4))
    assert blocked(driver) == (
        BlockedBy.REPLICA_NOT_IN_ISR,
        "replica 3, which stays, is not in ISR",
    )


def test_an_added_replica_takes_the_place_of_the_dropped_one() -> None:
    """As many copies are in sync afterwards as before."""
    driver = lagging(1, 2, min_isr=2)
    submit(driver, wanted(2, 3, 4, tolerated=(3,)))
    assert isr(driver) == (1, 2)
    driver.catch_up(tp(), 4)
    assert isr(driver) == (2, 4)
    assert not is_open(driver)


def test_it_can_be_tolerated_later() -> None:
    """By the limits of the request; a step in flight continues at once."""
    driver = Driver({tp(): (1, 2, 3)})
    submit(driver, wanted(2, 3, 4))
    driver.change_isr(tp(), replicas(1, 2, 4))
    assert blocked(driver)[1] == "replica 3, which stays, is not in ISR"
    tolerate(driver, 3)
    assert not is_open(driver)
    assert isr(driver) == (2, 4)


def test_a_dead_replica_is_tolerated_as_well() -> None:
    """It may never return."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    submit(driver, wanted(2, 3, 4))
    driver.observe(BrokersRead({b: driver.registration(b) for b in replicas(1, 2, 4)}))
    driver.catch_up(tp(), 1, 2, 4)
    assert blocked(driver) == (BlockedBy.BROKER_DEAD, "broker 3, whose replica stays, is not live")
    tolerate(driver, 3)
    assert not is_open(driver)
    assert isr(driver) == (2, 4)


def test_no_copy_in_sync_is_given_up_for_one_that_lags() -> None:
    """A smaller replication factor waits until what stays is in sync."""
    driver = lagging(1, 3)
    submit(driver, wanted(1, 2, tolerated=(2,)))
    by, detail = blocked(driver)
    assert by is BlockedBy.REPLICA_NOT_IN_ISR
    assert detail == (
        "replica 2, which stays, is not in ISR, and without 3 a copy would be given up"
    )
    driver.catch_up(tp(), 2)
    assert not is_open(driver)


def test_a_dead_replica_for_which_another_would_be_given_up_is_waited_for() -> None:
    """The step is begun once, not again and again."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    driver.observe(BrokersRead({b: driver.registration(b) for b in replicas(1, 3)}))
    submit(driver, wanted(1, 2, tolerated=(2,)))
    by, detail = blocked(driver)
    assert by is BlockedBy.BROKER_DEAD
    assert "without 3 a copy would be given up" in detail
    assert set(isr(driver)) == {1, 3}


def test_min_insync_replicas_holds() -> None:
    """Producers would be refused."""
    driver = Driver({tp(): (1, 2)}, min_isr=2)
    driver.change_isr(tp(), replicas(1))
    submit(driver, wanted(3, 2, tolerated=(2,)))
    driver.catch_up(tp(), 3)
    by, _ = blocked(driver)
    assert by is BlockedBy.MIN_ISR
    assert isr(driver) == (1, 3)


@pytest.mark.parametrize("tolerated", [(4,), (1,), (9,)])
def test_only_a_replica_that_stays_is_tolerated(tolerated: tuple[int, ...]) -> None:
    """One that is added replaces a copy; one that leaves is none of the target."""
    driver = Driver({tp(): (1, 2, 3)})
    submit(driver, wanted(2, 3, 4, tolerated=tolerated))
    assert isr(driver) == (1, 2, 3)
    assert is_open(driver)
    driver.catch_up(tp(), 4)
    assert not is_open(driver)


def test_a_replica_that_is_added_again_is_not_tolerated() -> None:
    """It left for another one, which is in sync, and is to take that one's place."""
    driver = Driver({tp(): (1, 2, 3)})
    submit(driver, submission(NAME, {tp(): (1, 4, 5)}, step_size=1))
    driver.catch_up(tp(), 4)
    before = driver.view.topics.by_name["t"].partitions[0].target_replicas
    (gone,) = {2, 3} - {*before}
    again = submission(
        "request_0000000001", {tp(): (1, gone, 4)}, step_size=1, tolerate_lagging=replicas(gone)
    )
    submit(driver, again)
    assert len(isr(driver)) == 3
    assert is_open(driver)
    driver.catch_up(tp(), gone)
    driver.run(tp())
    assert set(isr(driver)) == {1, gone, 4}


def test_in_steps_of_one_the_bound_and_the_copies_are_kept() -> None:
    """Two copies are in sync throughout."""
    driver = lagging(2, 3)
    submit(driver, submission(NAME, {tp(): (1, 4, 5)}, step_size=1, tolerate_lagging=replicas(1)))
    driver.catch_up(tp(), 4)
    assert isr(driver) in {(2, 4), (3, 4)}
    driver.catch_up(tp(), 5)
    assert isr(driver) == (4, 5)
    assert not is_open(driver)


def test_the_delegated_engine_says_that_it_tolerates_none() -> None:
    """The cluster's controller waits for every replica of a target."""
    driver = DelegatedDriver({tp(): (1, 2, 3)})
    driver.change_isr(tp(), replicas(1, 2))
    submit(driver, wanted(2, 3, 4, tolerated=(3,)))
    by, detail = blocked(driver)
    assert by is BlockedBy.REPLICA_NOT_IN_ISR
    assert "only the native engine tolerates lagging ones" in detail
    assert not driver.orders
