"""The targets that operators expect, and the exceptions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from controller.core.model import BrokerId, Refusal, RefusalReason, RequestId, TopicPartition
from controller.znodes import paths
from tests.sim.builders import ids
from tests.sim.expected_targets import ExpectedTargets
from tests.sim.histories import reactors
from tests.sim.ledgers import Ledger
from tests.sim.operators import Actions, Operators
from tests.sim.plots import OPTIONS, RESTLESS, WANTS
from tests.sim.world import World

P = TopicPartition("t", 0)
REQUESTED_OF_DAEMONS = {
    name
    for actions in WANTS.values()
    for name in Actions.__slots__
    if getattr(actions, name) > 0 and getattr(RESTLESS, name) == 0
}
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
def expected(world: World) -> ExpectedTargets:
    """Return the expected targets after one entry was written."""
    expected = ExpectedTargets(Ledger(world))
    expected.expect({P: TARGET})
    return expected


def test_a_target_is_expected_until_it_is_reached(world: World, expected: ExpectedTargets) -> None:
    """The topic znode has to contain the requested replicas."""
    assert expected.unmet(world) == {P: TARGET}
    expected.expect({P: ids([1, 2])})
    assert expected.unmet(world) == {}


def test_a_refused_target_is_not_expected(world: World, expected: ExpectedTargets) -> None:
    """The refusal has to name this very entry."""
    reason = RefusalReason.UNKNOWN_BROKER
    expected.refused(Refusal(RequestId("r"), "t-0 -> [3,5]", reason, "not live"))
    assert expected.unmet(world) == {P: TARGET}
    expected.refused(Refusal(RequestId("r"), "t-0 -> [3,4]", reason, "not live"))
    assert expected.unmet(world) == {}


def test_the_target_of_an_entry_that_vanishes_without_a_reason_is_expected(
    world: World, expected: ExpectedTargets
) -> None:
    """A broker that was just away is a reason; so is a spec with the target."""
    expected.plan_rewritten(world, {P: TARGET}, {})
    assert expected.unmet(world) == {P: TARGET}
    world.brokers[BrokerId(4)].stop()
    expected.plan_rewritten(world, {P: TARGET}, {})
    assert expected.unmet(world) == {}


def _draw_all(world: World, names: Iterable[str]) -> set[str]:
    """Let operators carry out actions; return those that were done."""
    actions = Actions(**{name: int(name in names) for name in Actions.__slots__})
    operators = Operators(world, every_s=0.3, actions=actions)
    operators.start()
    world.run_for(200.0)
    operators.stop()
    return set(operators.done)


def test_every_action_on_kafka_can_be_done(world: World) -> None:
    """Every action is possible on a cluster that carries plans out."""
    names = {n for n in Actions.__slots__ if n not in REQUESTED_OF_DAEMONS}
    assert _draw_all(world, names) == names
    world.run_until(lambda: world.zookeeper.get(paths.LEGACY_PLAN) is None, within_s=60.0)


def test_every_action_on_a_daemon_can_be_done(world: World) -> None:
    """Every action is possible on a daemon that carries requests out."""
    world.create_topic("u", {0: [1, 2]})
    world.add_daemon(reactors(OPTIONS))
    assert _draw_all(world, REQUESTED_OF_DAEMONS) == REQUESTED_OF_DAEMONS
    assert world.zookeeper.get(paths.KILL_SWITCH) is None
    assert world.zookeeper.get(paths.PAUSES) is None
