"""The small planner, by what holds for every plan it makes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.errors import InvalidInputError
from controller.planning.plan_goal import PlanGoal, broker_loads, count_racks, leader_counts
from controller.planning.proposer import propose
from tests.planning.strategies import Problem, placement_problems, problems


def brokers(*ids: int) -> Replicas:
    """Return broker ids."""
    return tuple(map(BrokerId, ids))


def plan(**replicas: Replicas) -> dict[TopicPartition, Replicas]:
    """Return an assignment: ``t0`` is partition 0 of topic t."""
    return {TopicPartition(name[:-1], int(name[-1])): found for name, found in replicas.items()}


@settings(deadline=None)
@given(problems(racks_max=4))
def test_every_partition_of_a_plan_is_validly_placed(problem: Problem) -> None:
    """No duplicates, only permitted brokers, the wanted number, no fewer racks."""
    after = propose(problem.before, problem.goal, problem.sizes).after
    assert after.keys() == problem.before.keys()
    goal = problem.goal
    for partition, replicas in after.items():
        before = problem.before[partition]
        factor = goal.factor_of(before)
        assert len(replicas) == factor
        found = placement_problems(
            replicas, brokers=goal.brokers, racks=goal.racks, racks_min=goal.racks_min(before)
        )
        assert list(found) == []


@settings(deadline=None)
@given(problems(racks_max=4))
def test_a_plan_never_copies_fewer_replicas_than_the_bound(problem: Problem) -> None:
    """The bound is a bound, also where brokers cannot be evened out."""
    proposal = propose(problem.before, problem.goal, problem.sizes)
    assert proposal.copies >= proposal.copies_min


@settings(deadline=None)
@given(problems(racks_max=3, drains=False), st.integers(0, 2**32))
def test_what_is_fixed_counts_and_stays(problem: Problem, seed: int) -> None:
    """As loads of its brokers, of which others get less."""
    fixed = frozenset(p for p in problem.before if Random(f"{seed} {p}").random() < 0.4)
    proposal = propose(problem.before, replace(problem.goal, fixed=fixed), problem.sizes)
    assert not fixed & proposal.changed.keys()
    assert proposal.copies >= proposal.copies_min
    if problem.goal.rebalance and not proposal.notes:
        loads = broker_loads(proposal.after, problem.goal.brokers)
        held = [loads[b] for b in problem.goal.brokers]
        assert max(held) - min(held) <= 1


@settings(deadline=None)
@given(problems(racks_max=4, rebalance=False))
def test_what_is_forced_costs_no_copy_more_than_it_must(problem: Problem) -> None:
    """Emptying brokers, another replication factor and racks are done with the fewest copies."""
    goal = PlanGoal(
        brokers=problem.goal.brokers,
        racks=problem.goal.racks,
        replication_factor=problem.goal.replication_factor,
        widest=problem.goal.widest,
    )
    proposal = propose(problem.before, goal, problem.sizes)
    assert proposal.copies == proposal.copies_min


@settings(deadline=None)
@given(problems(rebalance=True))
def test_without_racks_brokers_come_out_even(problem: Problem) -> None:
    """No broker has two replicas more than another."""
    proposal = propose(problem.before, problem.goal, problem.sizes)
    counts = broker_loads(proposal.after, problem.goal.brokers)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert not any("replicas cannot be evened out" in note for note in proposal.notes)


@settings(deadline=None)
@given(problems(rebalance=True, drains=False))
def test_evening_out_alone_copies_exactly_the_bound(problem: Problem) -> None:
    """Where only counts matter, no plan can do with fewer copies, and ours does with those."""
    goal = PlanGoal(brokers=problem.goal.brokers, rebalance=True)
    proposal = propose(problem.before, goal, problem.sizes)
    assert proposal.copies == proposal.copies_min


@settings(deadline=None)
@given(problems(rebalance=False, drains=False))
def test_new_brokers_are_filled_with_the_fewest_copies(problem: Problem) -> None:
    """Each receiver gets its even share, and nothing is copied to anybody else."""
    goal = PlanGoal(brokers=problem.goal.brokers, receivers=problem.goal.receivers)
    proposal = propose(problem.before, goal, problem.sizes)
    counts = broker_loads(proposal.after, goal.brokers)
    share = sum(counts.values()) // len(counts)
    assert all(counts[broker] >= share for broker in goal.receivers)
    assert proposal.copies == proposal.copies_min
    for partition, replicas in proposal.after.items():
        assert set(replicas) <= set(problem.before[partition]) | goal.receivers


@settings(deadline=None)
@given(problems(racks_max=3))
def test_a_plan_is_the_same_whatever_the_order_of_its_requests(problem: Problem) -> None:
    """Neither the order of partitions nor that of brokers decides anything."""
    goal = problem.goal
    turned = PlanGoal(
        brokers=frozenset(sorted(goal.brokers, reverse=True)),
        racks={broker: goal.racks[broker] for broker in sorted(goal.racks, reverse=True)},
        replication_factor=goal.replication_factor,
        rebalance=goal.rebalance,
        receivers=goal.receivers,
        widest=goal.widest,
    )
    before = dict(reversed(problem.before.items()))
    assert propose(before, turned, problem.sizes) == propose(problem.before, goal, problem.sizes)


@settings(deadline=None)
@given(problems(racks_max=3))
def test_a_plan_that_was_carried_out_leaves_nothing_to_copy(problem: Problem) -> None:
    """Planned again from its end, a plan copies nothing."""
    once = propose(problem.before, problem.goal, problem.sizes)
    again = propose(once.after, problem.goal, problem.sizes)
    if not once.notes:
        assert again.copies == 0


def test_the_leader_stays_where_it_is_if_its_broker_does() -> None:
    """Emptying a follower's broker changes no leader."""
    before = plan(t0=brokers(1, 2, 3), t1=brokers(2, 3, 1))
    after = propose(before, PlanGoal(brokers=frozenset(brokers(1, 2, 4)))).after
    assert after == plan(t0=brokers(1, 2, 4), t1=brokers(2, 1, 4))


def test_a_lost_leader_is_followed_by_a_replica_that_has_the_data() -> None:
    """The new replica does not lead, and the leaderships are shared."""
    before = plan(t0=brokers(1, 2, 3), t1=brokers(1, 2, 3))
    after = propose(before, PlanGoal(brokers=frozenset(brokers(2, 3, 4)))).after
    assert leader_counts(after) == {2: 1, 3: 1}


def test_a_smaller_factor_keeps_the_racks_and_the_leader() -> None:
    """The replica that shares its rack goes."""
    racks = {BrokerId(1): "a", BrokerId(2): "a", BrokerId(3): "b"}
    goal = PlanGoal(brokers=frozenset(brokers(1, 2, 3)), racks=racks, replication_factor=2)
    assert propose(plan(t0=brokers(1, 2, 3)), goal).after == plan(t0=brokers(1, 3))


def test_a_replica_goes_to_a_rack_that_has_none() -> None:
    """The emptier broker in a used rack is no choice while another rack has none."""
    racks = {BrokerId(b): rack for b, rack in zip(range(1, 6), "abcbc", strict=True)}
    before = plan(t0=brokers(1, 2, 3), u0=brokers(1, 2, 5))
    goal = PlanGoal(brokers=frozenset(brokers(1, 2, 4, 5)), racks=racks)
    after = propose(before, goal).after
    assert after[TopicPartition("t", 0)] == brokers(1, 2, 5)
    assert all(count_racks(replicas, racks) == 3 for replicas in after.values())


def test_racks_of_unequal_size_are_reported_instead_of_tried_for_ever() -> None:
    """Three replicas on three racks: the broker alone in its rack has to hold one of each."""
    racks = {BrokerId(1): "a", BrokerId(2): "b", BrokerId(3): "c", BrokerId(4): "c"}
    before = plan(t0=brokers(1, 2, 3), t1=brokers(1, 2, 4), t2=brokers(1, 2, 3))
    goal = PlanGoal(brokers=frozenset(brokers(1, 2, 3, 4)), racks=racks, rebalance=True)
    proposal = propose(before, goal)
    assert proposal.copies == 0
    assert "racks" in proposal.notes[0]


def test_the_smallest_replicas_move_where_any_would_do() -> None:
    """Sizes decide between equals."""
    before = plan(t0=brokers(1), t1=brokers(1), t2=brokers(1), t3=brokers(1))
    sizes = {partition: 100 - partition.partition for partition in before}
    goal = PlanGoal(brokers=frozenset(brokers(1, 2)), rebalance=True)
    proposal = propose(before, goal, sizes)
    assert [p.partition for p in proposal.changed] == [2, 3]
    assert proposal.copied_bytes(sizes) == 98 + 97


@pytest.mark.parametrize(
    ("goal", "problem"),
    [
        (PlanGoal(brokers=frozenset()), "no broker may hold"),
        (
            PlanGoal(brokers=frozenset(brokers(1)), replication_factor=2),
            "t-0 needs 2 replicas, but only 1 brokers may hold one",
        ),
        (PlanGoal(brokers=frozenset(brokers(1)), replication_factor=0), "must be positive"),
        (
            PlanGoal(brokers=frozenset(brokers(1)), receivers=frozenset(brokers(2))),
            "broker 2 cannot be both filled and emptied",
        ),
    ],
)
def test_an_impossible_goal_is_refused(goal: PlanGoal, problem: str) -> None:
    """The reason says what to change."""
    with pytest.raises(InvalidInputError, match=problem):
        propose(plan(t0=brokers(1)), goal)
