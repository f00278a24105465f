"""Reassignments of the order alone that end with the election of their first replica."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.effects import AlterReassignment, ElectPreferred
from controller.core.leadership.records import StateRecord
from controller.core.model import BlockedBy, BrokerId
from controller.core.reassignments.records import SpecEndedRecord
from controller.core.requests.submissions import Submission
from controller.core.role.records import BrokersRead
from controller.core.topics.records import AssignmentRecord
from tests.core.builders import Driver, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_submitted import submission, submit


def wanted(*order: int, name: str = "request_0000000000") -> Submission:
    """Return a request for this order, which ends when its first replica leads."""
    return submission(name, {tp(): order}, elect_leaders=True)


def is_open(driver: Driver) -> bool:
    """Whether the record of the partition stands."""
    return tp() in driver.view.reassignments.by_partition


def blocked_by(driver: Driver) -> BlockedBy | None:
    """Return the reason for which the partition waits."""
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    return None if blocked is None else blocked.by


def leader(driver: Driver) -> int:
    """Return the leader of the partition."""
    return driver.view.leadership.states[tp()].leader


def live(driver: Driver, *brokers: int) -> None:
    """Let only these brokers be registered."""
    driver.observe(BrokersRead({b: driver.registration(b) for b in replicas(*brokers)}))


@pytest.mark.parametrize("prefers", [True, False])
def test_order_leader_and_end_are_one_transaction(*, prefers: bool) -> None:
    """Whoever dies leaves both or neither; the setting about preferred leaders does not matter."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(preferred_election=prefers))
    submit(driver, wanted(2, 3, 1))
    (change,) = [c for c in driver.changes if any(isinstance(r, StateRecord) for r in c.records)]
    kinds = {type(r) for r in change.records}
    assert {AssignmentRecord, StateRecord, SpecEndedRecord} <= kinds
    assert leader(driver) == 2
    assert driver.view.topics.by_name["t"].partitions[0].replicas == (2, 3, 1)
    assert not is_open(driver)


def test_a_partition_in_this_order_is_elected_for_too() -> None:
    """The order may be right while another replica leads."""
    driver = Driver({tp(): (2, 1, 3)}, leaders={tp(): 1})
    submit(driver, wanted(2, 1, 3))
    assert leader(driver) == 2
    assert not is_open(driver)


def test_a_replica_that_lags_does_not_matter_unless_it_is_to_lead() -> None:
    """No copy is given up by another order."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.change_isr(tp(), replicas(1, 2))
    submit(driver, wanted(2, 3, 1))
    assert leader(driver) == 2
    submit(driver, wanted(3, 2, 1, name="request_0000000001"))
    assert blocked_by(driver) is BlockedBy.REPLICA_NOT_IN_ISR
    assert driver.view.topics.by_name["t"].partitions[0].replicas == (2, 3, 1)
    driver.catch_up(tp())
    assert leader(driver) == 3
    assert not is_open(driver)


def test_a_replica_that_is_dead_is_waited_for() -> None:
    """It is named."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    live(driver, 1, 3)
    submit(driver, wanted(2, 3, 1))
    assert blocked_by(driver) is BlockedBy.BROKER_DEAD
    assert leader(driver) == 1
    assert is_open(driver)


def test_leaderships_move_in_batches() -> None:
    """As many of one broker in a second as the limit permits."""
    partitions = [tp(n) for n in range(5)]
    driver = Driver(
        dict.fromkeys(partitions, (1, 2, 3)),
        options=Options(max_leader_moves_per_broker_per_second=2),
    )
    entries = dict.fromkeys(partitions, (2, 3, 1))
    submit(driver, submission("request_0000000000", entries, elect_leaders=True))
    moved = [p for p in partitions if driver.view.leadership.states[p].leader == 2]
    assert len(moved) == 2
    assert set(partitions) - set(moved) == driver.view.reassignments.by_partition.keys()


def test_other_requests_end_without_the_leader() -> None:
    """There the election follows the end, as far as it is possible."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.change_isr(tp(), replicas(1, 3))
    submit(driver, submission("request_0000000000", {tp(): (2, 3, 1)}))
    assert not is_open(driver)
    assert leader(driver) == 1


def test_a_move_with_copies_ends_as_ever() -> None:
    """Its leader is elected after its end."""
    driver = Driver({tp(): (1, 2, 3)})
    submit(driver, wanted(4, 2, 3))
    driver.run(tp())
    assert not is_open(driver)


# --- the delegated engine ------------------------------------------------------------------------


def elections(driver: Driver) -> int:
    """Return how often the controller was asked to elect."""
    return sum(isinstance(e, ElectPreferred) for e in driver.sent)


def elect(driver: DelegatedDriver, elected: int) -> None:
    """Let the controller elect a leader."""
    state = driver.view.leadership.states[tp()]
    after = replace(state, leader=BrokerId(elected))
    driver.view.leadership.states[tp()] = after
    driver.change_isr(tp(), after.isr)


def test_the_controller_elects_after_the_order() -> None:
    """The record stays until the leader leads; the election is requested again."""
    driver = DelegatedDriver({tp(): (1, 2, 3)})
    submit(driver, wanted(2, 3, 1))
    assert driver.orders == [((2, 3, 1), False)]
    assert driver.assignment(tp()).replicas == (2, 3, 1)
    assert elections(driver) == 1
    assert blocked_by(driver) is BlockedBy.CONTROLLER_ANSWER
    driver.pass_time(1.0)
    assert elections(driver) == 1
    driver.pass_time(5.0)
    assert elections(driver) == 2
    elect(driver, 2)
    assert not is_open(driver)
    assert not driver.wrote_for_kafka()


def test_the_controller_is_asked_for_no_order_whose_first_replica_cannot_lead() -> None:
    """It would elect it in its own time, or never."""
    driver = DelegatedDriver({tp(): (1, 2, 3)})
    driver.change_isr(tp(), replicas(1, 3))
    submit(driver, wanted(2, 3, 1))
    assert not any(isinstance(e, AlterReassignment) for e in driver.sent)
    assert blocked_by(driver) is BlockedBy.REPLICA_NOT_IN_ISR
    driver.change_isr(tp(), replicas(1, 3, 2))
    assert driver.assignment(tp()).replicas == (2, 3, 1)


def test_a_later_request_supersedes_one_whose_leader_is_awaited() -> None:
    """The way back is open at any time."""
    driver = DelegatedDriver({tp(): (1, 2, 3)})
    submit(driver, wanted(2, 3, 1))
    submit(driver, wanted(1, 2, 3, name="request_0000000001"))
    driver.pass_time(6.0)
    assert driver.assignment(tp()).replicas == (1, 2, 3)
    assert not is_open(driver)
