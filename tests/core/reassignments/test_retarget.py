"""The way back from a step that removes good copies before the originals have come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.phases import Starting
from controller.core.reassignments.records import PhaseRecord
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicsRead
from tests.core.builders import Driver, broker, replicas, tp

CANCEL = RequestId("cancel-0000000000000064")
BACK = replace(
    ReassignmentSpec(
        replicas(1, 2, 3), replicas(1, 2, 3), RequestId("request_0000000000"), Route.REQUEST
    ),
    cancelled_by=CANCEL,
)
OTHERS_STEP = PartitionAssignment(replicas(4, 1, 5), replicas(1), replicas(5))
"""What a Kafka controller makes of an entry [4, 1] where the partition is on 4 and 5."""


def found(
    step: PartitionAssignment, *isr: int, step_size: int | None, spec: ReassignmentSpec = BACK
) -> Driver:
    """Return a tenure that finds a step in the topic znode, led by the first of the ISR."""
    driver = Driver(
        {tp(): step.replicas}, options=Options(step_size=step_size), leaders={tp(): isr[0]}
    )
    driver.change_isr(tp(), replicas(*isr))
    driver.states[tp()].clear()
    driver.fold(TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(1), Zxid(9))}))
    driver.adopt({tp(): spec})
    return driver


def is_back(driver: Driver) -> bool:
    """Whether the partition is where it was, and nothing drives it."""
    plain = PartitionAssignment(replicas(1, 2, 3))
    return (
        driver.view.topics.assignment(tp()) == plain and not driver.view.reassignments.by_partition
    )


@pytest.mark.parametrize("step_size", [1, 2, None])
@pytest.mark.parametrize("isr", [(5, 1, 4), (5, 1)])
def test_a_good_copy_does_not_go_before_the_step_that_adds_its_original(
    isr: tuple[int, ...], step_size: int | None
) -> None:
    """The step that removes it continues without it, or it would wait for ever."""
    driver = found(OTHERS_STEP, *isr, step_size=step_size)
    assert driver.history[tp()][0] == PartitionAssignment(replicas(4, 1, 5), replicas(1))
    driver.run(tp())
    assert is_back(driver)
    assert all(len(s.isr) >= len(isr) for s in driver.states[tp()])


def test_a_copy_that_is_lost_goes_in_place_of_the_good_one_that_the_step_removes() -> None:
    """Without the good one two would be in sync, not three, and two originals are not added yet."""
    step = PartitionAssignment(replicas(5, 6, 1, 4), replicas(1), replicas(4))
    driver = found(step, 5, 6, 4, step_size=1)
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(6)}))
    driver.change_isr(tp(), replicas(5, 4, 1))
    turned = driver.view.topics.assignment(tp())
    assert turned is not None
    assert 4 in turned.replicas
    assert 6 not in turned.target_replicas
    driver.run(tp())
    assert is_back(driver)
    assert all(len(a.target_replicas) <= 4 for a in driver.history[tp()])


def test_a_lagging_original_that_is_there_already_is_waited_for() -> None:
    """It catches up, and the good copy goes as the step says."""
    step = PartitionAssignment(replicas(4, 1, 2, 5), replicas(1), replicas(5))
    driver = found(step, 4, 1, 5, step_size=1)
    assert driver.view.topics.assignment(tp()) == step
    driver.catch_up(tp(), 2)
    assert driver.view.leadership.states[tp()].isr == replicas(4, 1, 2)
    driver.run(tp())
    assert is_back(driver)


def test_an_original_that_the_step_adds_is_waited_for() -> None:
    """Until it is in sync the replicas to keep are unknown, and the step stays as it is."""
    driver = found(OTHERS_STEP, 5, 4, step_size=1)
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(7) if b != 1}))
    assert driver.view.topics.assignment(tp()) == OTHERS_STEP


@pytest.mark.parametrize("step_size", [1, 2, None])
def test_good_copies_stay_until_live_originals_caught_up(step_size: int | None) -> None:
    """A Kafka controller began the plan whole; the replica set has outgrown the bound already."""
    step = PartitionAssignment(replicas(4, 5, 6, 1, 2, 3), replicas(4, 5, 6), replicas(1, 2, 3))
    driver = found(step, 1, 4, 5, step_size=step_size)
    assert driver.view.leadership.states[tp()].isr == replicas(1, 4, 5)
    driver.catch_up(tp(), 2)
    assert driver.view.leadership.states[tp()].isr == replicas(1, 4, 5, 2)
    driver.run(tp())
    assert is_back(driver)


@pytest.mark.parametrize("is_dead", [True, False])
def test_good_copies_make_no_room_before_a_live_original_caught_up(*, is_dead: bool) -> None:
    """Original 1 is there again and lags; 2 is added where 4 goes, or the bound is exceeded."""
    driver = found(PartitionAssignment(replicas(3, 4, 5, 1)), 3, 4, 5, step_size=1)
    if is_dead:
        driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(7) if b != 1}))
    state = driver.view.leadership.states[tp()]
    assert len(state.isr) == (2 if is_dead else 3)
    driver.catch_up(tp(), *(() if is_dead else (1,)))
    assert all(len(s.isr) >= 3 for s in driver.states[tp()]) is not is_dead
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(7)}))
    driver.run(tp())
    assert is_back(driver)
    assert all(len(a.target_replicas) <= 4 for a in driver.history[tp()])


def test_good_copies_wait_for_no_original_that_is_dead() -> None:
    """It may never return; the live ones are in sync."""
    step = PartitionAssignment(replicas(4, 5, 6, 1, 2, 3), replicas(4, 5, 6), replicas(1, 2, 3))
    driver = found(step, 1, 4, 5, step_size=1)
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 1, 2, 4, 5, 6)}))
    driver.catch_up(tp(), 2)
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2)
    driver.run(tp())
    assert is_back(driver)


def test_a_leader_that_goes_back_gives_up_its_role_in_the_write_that_turns_the_step() -> None:
    """All originals are in sync: nothing that was added has to stay for another step."""
    step = PartitionAssignment(replicas(4, 5, 6, 1, 2, 3), replicas(4, 5, 6), replicas(1, 2, 3))
    driver = found(step, 4, 1, 2, 3, step_size=None)
    first = driver.states[tp()][0]
    assert (first.leader, first.isr) == (BrokerId(1), replicas(1, 2, 3))
    driver.run(tp())
    assert is_back(driver)


WHOLE = PartitionAssignment(replicas(4, 5, 6, 1, 2, 3), replicas(4, 5, 6), replicas(1, 2, 3))
"""A plan that a Kafka controller began whole."""


@pytest.mark.parametrize(
    ("step", "isr", "spec", "cause"),
    [
        (WHOLE, (1, 4, 5), BACK, "rolled back"),
        (WHOLE, (1, 4, 5), replace(BACK, cancelled_by=None), "the target changed"),
        (OTHERS_STEP, (5, 1, 4), BACK, "good copies wait for a later step"),
    ],
)
def test_a_step_that_is_replaced_reports_why(
    step: PartitionAssignment, isr: tuple[int, ...], spec: ReassignmentSpec, cause: str
) -> None:
    """The log and the journal show it."""
    driver = found(step, *isr, step_size=None, spec=spec)
    phases = [r for c in driver.changes for r in c.records if isinstance(r, PhaseRecord)]
    assert next(r.cause for r in phases if isinstance(r.phase, Starting)) == cause
