"""Laws that hold for every plan, whatever the replica sets, step size and order of events."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.core_settings import Options
from controller.core.cycle import take_due
from controller.core.decide import decide
from controller.core.effects import SendStopReplica
from controller.core.model import BrokerId, Replicas
from controller.core.reassignments.phases import Stopping
from controller.core.reassignments.steps import next_step
from tests.core.builders import Driver, tp

BROKERS = range(8)
replica_lists = st.lists(st.sampled_from(list(BROKERS)), min_size=1, max_size=5, unique=True)
step_sizes = st.sampled_from([1, 2, 3, None])


def dumb_step(
    current: Replicas, final: Replicas, leader: BrokerId, size: int
) -> tuple[set[BrokerId], set[BrokerId], set[BrokerId]]:
    """The ticket's text, word by word, as sets: dropped, new, target."""
    n = max(0, len(current) - len(final))
    excess = [r for r in current if r not in final]
    if leader in excess:
        excess.remove(leader)
        excess.append(leader)
    dropped = set(excess[:n])
    new = {r for r in final if r not in current}
    new = set([r for r in final if r in new][:size])
    target = (set(current) | new) - dropped
    if not [r for r in final if r not in current]:
        return set(current) - set(final), set(), set(final)
    return dropped, new, target


@given(current=replica_lists, final=replica_lists, size=st.integers(1, 4), data=st.data())
def test_steps_equal_a_dumb_reading_of_the_ticket(
    current: list[int], final: list[int], size: int, data: st.DataObject
) -> None:
    """With every replica sound, the step is what the ticket's text says."""
    leader = BrokerId(data.draw(st.sampled_from(current)))
    cr = tuple(BrokerId(r) for r in current)
    fr = tuple(BrokerId(r) for r in final)
    step = next_step(cr, fr, leader, size, lambda _: True)
    assert (set(step.dropping), set(step.adding), set(step.target)) == dumb_step(
        cr, fr, leader, size
    )


@settings(max_examples=150, deadline=None)
@given(
    original=replica_lists,
    final=replica_lists,
    size=step_sizes,
    min_isr=st.integers(1, 3),
    data=st.data(),
)
def test_every_accepted_plan_ends_at_its_target_within_its_bound(
    original: list[int], final: list[int], size: int | None, min_isr: int, data: st.DataObject
) -> None:
    """The target is reached in its order; replica set, ISR floor and leader hold at every write."""
    leader = data.draw(st.sampled_from(original))
    driver = Driver(
        {tp(): original},
        brokers=BROKERS,
        options=Options(step_size=size),
        min_isr=min_isr,
        leaders={tp(): leader},
    )
    driver.submit({tp(): final})
    refused = any(t.refused for t in driver.view.requests.by_id.values())
    if refused:
        assert len(final) < min(min_isr, len(original))
        return
    driver.run(tp())
    assignment = driver.view.topics.assignment(tp())
    assert assignment is not None
    assert [int(r) for r in assignment.replicas] == final
    assert not assignment.is_reassigning
    floor = max(1, min(min_isr, len(final), len(original)))
    for state in driver.states[tp()]:
        assert len(state.isr) >= floor
        assert state.leader in state.isr
    if size is not None:
        bound = max(len(original), len(final)) + size
        for held in driver.history[tp()]:
            assert len(held.target_replicas) <= bound
            assert len(held.replicas) <= bound + len(held.removing_replicas)
    stopped = {e.broker for e in driver.sent if isinstance(e, SendStopReplica) and e.delete}
    assert stopped.isdisjoint(assignment.replicas)
    assert stopped >= set(map(BrokerId, original)) - set(assignment.replicas)


@settings(max_examples=40, deadline=None)
@given(original=replica_lists, final=replica_lists, size=step_sizes)
def test_a_restart_at_any_rest_changes_nothing_about_the_end(
    original: list[int], final: list[int], size: int | None
) -> None:
    """A daemon that loses its memory whenever it waits still ends at the target."""
    driver = Driver({tp(): original}, brokers=BROKERS, options=Options(step_size=size))
    driver.submit({tp(): final})
    for _ in range(60):
        if tp() not in driver.view.reassignments.by_partition:
            break
        driver.restart()
        driver.catch_up(tp())
    assignment = driver.view.topics.assignment(tp())
    assert assignment is not None
    assert [int(r) for r in assignment.replicas] == final


@settings(max_examples=40, deadline=None)
@given(original=replica_lists, final=replica_lists)
def test_decide_changes_nothing(original: list[int], final: list[int]) -> None:
    """The same view gives the same decision twice, and stays what it was."""
    driver = Driver({tp(): original}, brokers=BROKERS)
    driver.acknowledges = False
    driver.submit({tp(): final})
    driver.view.due.add(driver.view.topics.partitions())
    driver.view.due.plan = driver.view.due.capacity = driver.view.due.tenure = True
    due = take_due(driver.view)
    before = copy.deepcopy(driver.view)
    first = decide(driver.view, due, driver.now)
    assert driver.view == before
    assert decide(driver.view, due, driver.now) == first


def test_a_stop_that_is_never_confirmed_becomes_an_orphan() -> None:
    """When the deadline passes the step ends, and a record says which replica is left behind."""
    driver = Driver({tp(): (0, 1, 2, 3)}, brokers=BROKERS, min_isr=2)
    driver.acknowledges = False
    driver.submit({tp(): (0, 1, 2)})
    driver.acknowledge(tp(), (BrokerId(0),))
    driver.settle()
    phase = driver.view.reassignments.by_partition[tp()].phase
    assert isinstance(phase, Stopping)
    driver.now = phase.deadline
    driver.view.due.add([tp()])
    driver.settle()
    assert tp() not in driver.view.reassignments.by_partition
    assert (BrokerId(3), tp()) in driver.view.reassignments.orphans
