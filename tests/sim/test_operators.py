"""What operators are owed, and when it is no fault of the daemon's that they did not get it."""

from __future__ import annotations

import pytest

from controller.core.model import BrokerId, Refusal, RefusalReason, RequestId, TopicPartition
from controller.znodes import paths
from tests.sim.builders import ids
from tests.sim.operators import Actions, Operators
from tests.sim.wishes import Wishes
from tests.sim.world import World

P = TopicPartition("t", 0)
TARGET = ids([3, 4])


@pytest.fixture
def world() -> World:
    """Return a cluster whose brokers have been there for a while."""
    world = World(3)
    world.create_topic("t", {0: [1, 2]})
    world.settle()
    world.run_for(30.0)
    return world


@pytest.fixture
def wishes() -> Wishes:
    """Return what is owed after one entry was written."""
    wishes = Wishes()
    wishes.ask({P: TARGET})
    return wishes


def test_an_order_is_owed_until_it_is_so(world: World, wishes: Wishes) -> None:
    """The topic znode has to say what was asked for."""
    assert wishes.unmet(world) == {P: TARGET}
    wishes.ask({P: ids([1, 2])})
    assert wishes.unmet(world) == {}


def test_an_order_that_was_refused_is_not_owed(world: World, wishes: Wishes) -> None:
    """The refusal has to name this very entry."""
    reason = RefusalReason.UNKNOWN_BROKER
    wishes.refused(Refusal(RequestId("r"), "t-0 -> [3,5]", reason, "not live"))
    assert wishes.unmet(world) == {P: TARGET}
    wishes.refused(Refusal(RequestId("r"), "t-0 -> [3,4]", reason, "not live"))
    assert wishes.unmet(world) == {}


def test_an_entry_that_vanishes_without_a_reason_is_owed(world: World, wishes: Wishes) -> None:
    """A broker that was away just now is a reason; so is a record of the order."""
    wishes.plan_rewritten(world, {P: TARGET}, {})
    assert wishes.unmet(world) == {P: TARGET}
    world.brokers[BrokerId(4)].stop()
    wishes.plan_rewritten(world, {P: TARGET}, {})
    assert wishes.unmet(world) == {}


def test_every_action_can_be_done(world: World) -> None:
    """Each of them, sooner or later, with a cluster that carries out what is asked."""
    names = Actions.__slots__
    weights = Actions(**dict.fromkeys(names, 1))
    operators = Operators(world, every_s=0.3, actions=weights)
    operators.start()
    world.run_for(200.0)
    assert set(operators.done) == set(names)
    operators.stop()
    world.run_until(lambda: world.zookeeper.get(paths.LEGACY_PLAN) is None, within_s=60.0)
