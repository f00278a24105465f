"""The rule of the simulation about the number of replicas in an alter entry."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from controller.core.model import (
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
)
from controller.reactor.ports import AlterEntry
from controller.znodes import paths
from controller.znodes.reassignments import encode_spec
from tests.sim.bound_rules import BoundRules
from tests.sim.builders import ids
from tests.sim.judges import InvariantViolationError
from tests.sim.world import World

PARTITION = TopicPartition("t", 0)


def _world() -> World:
    """Return a cluster with a spec: from [1, 2] to [3, 4], at most 3 at a time."""
    world = World(1)
    world.create_topic("t", {0: [1, 2]})
    world.settle()
    spec = ReassignmentSpec(ids([3, 4]), ids([1, 2]), RequestId("request"), Route.REQUEST)
    world.zookeeper.ensure(paths.reassignment_path(PARTITION), encode_spec(spec))
    return world


def _assigned(world: World, replicas: list[int], adding: list[int]) -> None:
    world.assign("t", {0: PartitionAssignment(ids(replicas), ids(adding))})


def _judge(rules: BoundRules, world: World, target: list[int], *, cancels: bool = False) -> None:
    entry = AlterEntry(PARTITION, tuple(BrokerId(r) for r in target), cancels=cancels)
    rules.judge(entry, world.now - 1.0, world.now)


@pytest.mark.parametrize(
    ("target", "cancels", "is_right"),
    [
        ([1, 2, 3], False, True),
        ([1, 2, 3, 4], False, False),
        ([3, 4], False, False),
        ([3, 4], True, True),
    ],
)
def test_an_entry_beyond_the_bound_is_judged(
    target: list[int], *, cancels: bool, is_right: bool
) -> None:
    """Replicas that the entry drops in the end count; a cancelling entry adds none."""
    world = _world()
    rules = BoundRules(world, 1)
    _assigned(world, [1, 2], [])
    expectation = (
        nullcontext() if is_right else pytest.raises(InvariantViolationError, match="an entry")
    )
    with expectation:
        _judge(rules, world, target, cancels=cancels)


def test_what_was_made_after_an_entry_was_sent_is_not_held_against_it() -> None:
    """An entry that waited adds to those that were carried out in between."""
    world = _world()
    rules = BoundRules(world, 1)
    _assigned(world, [1, 2], [])
    world.run_for(5.0)
    sent_at = world.now
    world.run_for(5.0)
    _assigned(world, [1, 2, 5], [])
    entry = AlterEntry(PARTITION, ids([1, 2, 3]), cancels=False)
    rules.judge(entry, sent_at - 1.0, sent_at)
    with pytest.raises(InvariantViolationError):
        _judge(BoundRules(world, 1), world, [1, 2, 3, 5])
    world.run_for(5.0)
    with pytest.raises(InvariantViolationError):
        _judge(rules, world, [1, 2, 3, 5])


@pytest.mark.parametrize("step_size", [None, 2])
def test_without_a_step_size_or_with_room_nothing_is_said(step_size: int | None) -> None:
    """The single jump has no bound."""
    world = _world()
    rules = BoundRules(world, step_size)
    _assigned(world, [1, 2], [])
    _judge(rules, world, [3, 4])
