"""A plan that another process computes is that of the planner."""

from __future__ import annotations

import subprocess

import pytest

from controller.core.model import BrokerId, TopicPartition
from controller.errors import InvalidInputError
from controller.planning.plan_goal import PlanGoal
from controller.planning.proposer import propose
from controller.previews import drafts
from controller.previews.drafts import propose_apart
from tests.core.builders import replicas

BEFORE = {TopicPartition(f"t-{n % 7}", n): replicas(n % 4 + 1, (n + 1) % 4 + 1) for n in range(40)}
SIZES = {partition: 1000 + partition.partition for partition in BEFORE}


def a_goal(*brokers: int, replication_factor: int | None = None) -> PlanGoal:
    """Return the goal of a drain of the other brokers."""
    ids = frozenset(map(BrokerId, brokers))
    return PlanGoal(brokers=ids, racks={}, replication_factor=replication_factor)


def test_plan_is_that_of_the_planner() -> None:
    """With sizes, and in the same order."""
    goal = a_goal(1, 2, 3, 5)
    apart, direct = propose_apart(BEFORE, goal, SIZES), propose(BEFORE, goal, SIZES)
    assert apart.changed
    assert list(apart.after.items()) == list(direct.after.items())
    assert apart == direct


def test_refusal_of_the_planner_is_passed_on() -> None:
    """As an error, not as a failed process."""
    goal = a_goal(1, 2, replication_factor=3)
    with pytest.raises(InvalidInputError) as direct:
        propose(BEFORE, goal, {})
    with pytest.raises(InvalidInputError) as apart:
        propose_apart(BEFORE, goal, {})
    assert str(apart.value) == str(direct.value)


def test_planner_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has no such limit."""
    monkeypatch.setattr(drafts, "WITHIN_S", 0.001)
    with pytest.raises(InvalidInputError, match="use `reassigner generate`") as late:
        propose_apart(BEFORE, a_goal(1, 2, 3, 5), {})
    assert isinstance(late.value.__cause__, subprocess.TimeoutExpired)
