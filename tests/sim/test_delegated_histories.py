"""The delegated engine's real loop and core through seeded histories of faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.events import AlterResult, ReassignmentsAltered, ReassignmentsProbed
from controller.core.model import BrokerId, TopicPartition
from controller.reactor.ports import Order
from controller.znodes import paths
from tests.sim.controller_orders import (
    INVALID_REPLICA_ASSIGNMENT,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
    SimControllerOrders,
)
from tests.sim.delegated_histories import play, plot_of
from tests.sim.order_rules import OrderRules
from tests.sim.world import World

PARTITION = TopicPartition("t", 0)


class Kept:
    """An inbox that keeps what comes."""

    def __init__(self) -> None:
        """Start empty."""
        self.events: list[object] = []

    def put(self, event: object) -> None:
        """Keep it."""
        self.events.append(event)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_asked_for_comes_to_its_end(seed: int) -> None:
    """Each seed with its own plot; no rule is broken on the way."""
    play(seed)


@pytest.mark.parametrize("seed", range(3))
def test_every_last_word_is_kept_when_one_author_asks(seed: int) -> None:
    """Daemons that crash between any two writes or calls, and calls that get lost."""
    plot = replace(plot_of(4), cancels=False, rivals=False, loss=0.2)
    assert plot.is_strict
    world = play(seed, plot)
    assert world.zookeeper.get(paths.LEGACY_PLAN) is None


def a_world() -> tuple[World, Kept, SimControllerOrders]:
    """Return a healthy cluster, and a way to its controller."""
    world, inbox = World(1), Kept()
    world.create_topic("t", {0: [1, 2]})
    world.settle()
    return world, inbox, SimControllerOrders(world, inbox, OrderRules(world), loss=0.0)


def answered(world: World, inbox: Kept) -> list[AlterResult]:
    """Return the next answers."""
    world.run_for(30.0)
    return [r for e in inbox.events if isinstance(e, ReassignmentsAltered) for r in e.results]


@pytest.mark.parametrize(
    ("order", "error"),
    [
        (Order(PARTITION, (BrokerId(2), BrokerId(3))), NONE),
        (Order(PARTITION, (BrokerId(2), BrokerId(9))), INVALID_REPLICA_ASSIGNMENT),
        (Order(PARTITION, (BrokerId(1), BrokerId(2)), True), NO_REASSIGNMENT_IN_PROGRESS),  # noqa: FBT003
        (Order(TopicPartition("u", 0), (BrokerId(1),)), UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_the_simulated_controller_answers_as_kafkas(order: Order, error: int) -> None:
    """KIP-455: what is valid is made, the rest is refused with Kafka's codes."""
    world, inbox, orders = a_world()
    orders.alter([order])
    (result,) = answered(world, inbox)
    assert result.error == error
    moved = error == NONE
    assert world.assignment(PARTITION).replicas == ((2, 3) if moved else (1, 2))


def test_without_a_controller_an_order_is_answered_in_the_end() -> None:
    """With a time-out, as by the real adapter."""
    world, inbox, _ = a_world()
    silent = SimControllerOrders(world, inbox, OrderRules(world), loss=1.0)
    silent.alter([Order(PARTITION, (BrokerId(2),))])
    (result,) = answered(world, inbox)
    assert result.error == REQUEST_TIMED_OUT


def test_what_is_forgotten_is_not_told() -> None:
    """Nor is anything answered."""
    world, inbox, orders = a_world()
    orders.alter([Order(PARTITION, (BrokerId(2), BrokerId(3)))])
    orders.forget()
    assert answered(world, inbox) == []
    assert world.assignment(PARTITION).replicas == (1, 2)
    orders.probe()
    world.run_for(1.0)
    assert inbox.events == [ReassignmentsProbed(None)]
