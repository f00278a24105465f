"""The rules and the worked example of KAFKA-6794, one test each."""

from __future__ import annotations

import pytest

from controller.core.core_settings import Options
from controller.core.leadership.records import StateRecord
from controller.core.model import BrokerId
from controller.core.reassignments.steps import next_step, steps_to
from controller.core.topics.records import AssignmentRecord
from tests.core.builders import Driver, replicas, tp


def test_the_worked_example_goes_through_its_five_assignments() -> None:
    """(0,1,2) to (3,4,5) passes through the assignments the ticket lists."""
    driver = Driver({tp(): (0, 1, 2)}, min_isr=2)
    driver.submit({tp(): (3, 4, 5)})
    driver.run(tp())
    assert driver.passed(tp()) == [
        replicas(0, 1, 2, 3),
        replicas(0, 2, 3, 4),
        replicas(0, 3, 4, 5),
        replicas(3, 4, 5),
    ]
    assert driver.view.leadership.states[tp()].leader == BrokerId(3)


def test_the_third_step_is_calculated_as_in_the_ticket() -> None:
    """CR (0,1,2,3), FTR (3,4,5): n = 1, ER ordered (1,2,0), DR (1), NR 4, TR (0,2,3,4)."""
    step = next_step(replicas(0, 1, 2, 3), replicas(3, 4, 5), BrokerId(0), 1, lambda _: True)
    assert step.dropping == replicas(1)
    assert step.adding == replicas(4)
    assert step.target == replicas(0, 2, 3, 4)


def test_the_leader_is_dropped_last() -> None:
    """The excess set is ordered with the leader at its end."""
    step = next_step(replicas(0, 1, 2, 3), replicas(3, 4, 5), BrokerId(1), 1, lambda _: True)
    assert step.dropping == replicas(0)


def test_the_last_step_takes_the_order_of_the_final_target() -> None:
    """When nothing is missing the step's target is the final one, in its order."""
    step = next_step(replicas(0, 3, 4, 5), replicas(5, 4, 3), BrokerId(0), 1, lambda _: True)
    assert step.is_last
    assert step.target == replicas(5, 4, 3)


def test_a_dead_excess_replica_is_dropped_even_where_the_count_drops_none() -> None:
    """Otherwise a dead broker could never be replaced."""
    step = next_step(
        replicas(0, 1, 2), replicas(0, 1, 3), BrokerId(0), 1, lambda r: r != BrokerId(2)
    )
    assert step.dropping == replicas(2)
    assert step.adding == replicas(3)
    assert step.target == replicas(0, 1, 3)


@pytest.mark.parametrize(("size", "listed"), [(1, 5), (2, 6), (3, 6)])
def test_no_more_replicas_than_the_bound_serve_or_copy(size: int, listed: int) -> None:
    """max(|ORS|, |FTR|) + step_size do; what is dropped is listed beside them, out of the ISR."""
    driver = Driver({tp(): (0, 1, 2)}, options=Options(step_size=size), min_isr=2)
    driver.submit({tp(): (3, 4, 5)})
    driver.run(tp())
    history = driver.history[tp()]
    assert max(len(a.target_replicas) for a in history) == 3 + size
    assert max(len(a.replicas) for a in history) == listed
    for change in driver.changes:
        beyond = [
            r.assignment
            for r in change.records
            if isinstance(r, AssignmentRecord) and len(r.assignment.replicas) > 3 + size
        ]
        states = [r for r in change.records if isinstance(r, StateRecord)]
        for assignment in beyond:
            assert set(assignment.removing_replicas).isdisjoint(states[0].isr)


def test_a_larger_replication_factor_adds_without_dropping() -> None:
    """Raising the replication factor drops nothing and ends in the target's order."""
    driver = Driver({tp(): (1, 2)}, min_isr=2)
    driver.submit({tp(): (3, 1, 2)})
    driver.run(tp())
    assert driver.passed(tp())[-1] == replicas(3, 1, 2)
    assert all(not a.removing_replicas for a in driver.history[tp()])


def test_a_smaller_replication_factor_drops_at_once() -> None:
    """Lowering the replication factor is one step."""
    driver = Driver({tp(): (1, 2, 3)}, min_isr=2)
    driver.submit({tp(): (1, 2)})
    driver.run(tp())
    assert driver.passed(tp()) == [replicas(1, 2)]


def test_the_steps_to_come_are_those_of_the_worked_example() -> None:
    """What an operator is shown ahead is what the steps will be."""
    steps = steps_to(replicas(0, 1, 2), replicas(3, 4, 5), BrokerId(0), 1)
    assert [s.target for s in steps] == [
        replicas(0, 1, 2, 3),
        replicas(0, 2, 3, 4),
        replicas(0, 3, 4, 5),
        replicas(3, 4, 5),
    ]
    assert [s.target for s in steps_to(replicas(0, 1), replicas(1, 2), BrokerId(0), None)] == [
        replicas(1, 2)
    ]
