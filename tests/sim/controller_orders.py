"""
The daemon's way to the cluster's own controller: orders that get lost, come late or come twice.

Whoever is the active controller when an order arrives makes it; what it would refuse is refused.
Between its answer and its next write it may die.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from controller.core.events import AlterResult, ReassignmentsAltered, ReassignmentsProbed
from controller.core.model import BrokerId, TopicPartition
from controller.reactor.ports import Inbox, Order
from controller.znodes import paths

if TYPE_CHECKING:
    from tests.sim.kafka_duties import KafkaDuties
    from tests.sim.world import World

NONE: Final = 0
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
REQUEST_TIMED_OUT: Final = 7
INVALID_REPLICA_ASSIGNMENT: Final = 39
NO_REASSIGNMENT_IN_PROGRESS: Final = 85

DELAY_S: Final = (0.002, 0.05)
AGAIN_S: Final = 0.3
GIVE_UP_S: Final = 20.0
PASSED_S: Final = (0.05, 0.4)
"""How long the controller takes to write what it was told, and to answer."""


class SimControllerOrders:
    """Implements ``reactor.ports.Reassignments`` for one daemon."""

    def __init__(self, world: World, inbox: Inbox, *, loss: float) -> None:
        """
        Prepare.

        Args:
            world: Where the controller is.
            inbox: Of the daemon.
            loss: How likely a call, or its answer, gets lost.

        """
        self._world = world
        self._inbox = inbox
        self._loss = loss
        self._calls = 0
        """Grows when everything is forgotten: what was asked before is not asked any more."""

    def alter(self, orders: Sequence[Order]) -> None:
        """Tell the controller, until it answers or too much time has passed."""
        until, call = self._world.now + GIVE_UP_S, self._calls
        self._later(DELAY_S, lambda: self._arrive(tuple(orders), until, call))

    def elect(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: elections that are lost are not repeated either."""

    def probe(self) -> None:
        """Find out whether there is a controller."""
        call = self._calls
        self._later(DELAY_S, lambda: self._probed(call))

    def vouch(self) -> None:
        """Do nothing: a daemon that stands still is judged when its call arrives."""

    def forget(self) -> None:
        """Send nothing more of what was asked for."""
        self._calls += 1

    def _later(self, within_s: tuple[float, float], act: object) -> None:
        self._world.schedule.call_between(*within_s, act)  # type: ignore[arg-type] # a callable

    def _probed(self, call: int) -> None:
        if call == self._calls:
            problem = None if self._duties() is not None else "nobody is the controller"
            self._inbox.put(ReassignmentsProbed(problem))

    def _duties(self) -> KafkaDuties | None:
        active = self._world.active_kafka_controller()
        return None if active is None else active.duties

    def _is_lost(self) -> bool:
        return self._world.schedule.random.random() < self._loss

    def _arrive(self, orders: tuple[Order, ...], until: float, call: int) -> None:
        if call != self._calls:
            return
        duties = self._duties()
        if duties is None or self._is_lost():
            self._again(orders, until, call)
            return
        results = tuple(self._judged(duties, order) for order in orders)
        if self._is_lost():
            self._again(orders, until, call)
        else:
            self._later(PASSED_S, lambda: self._answer(results, call))

    def _again(self, orders: tuple[Order, ...], until: float, call: int) -> None:
        if self._world.now < until:
            self._later((AGAIN_S, AGAIN_S), lambda: self._arrive(orders, until, call))
            return
        lost = tuple(
            AlterResult(o.partition, o.target, REQUEST_TIMED_OUT, "no answer in time")
            for o in orders
        )
        self._answer(lost, call)

    def _answer(self, results: tuple[AlterResult, ...], call: int) -> None:
        if call == self._calls:
            self._inbox.put(ReassignmentsAltered(results, None))

    def _judged(self, duties: KafkaDuties, order: Order) -> AlterResult:
        """Make an order, or refuse it as Kafka does (KIP-455)."""
        partition, target, cancels = order
        error = self._error(partition, target, cancels=cancels)
        if error == NONE:
            duties.alter(partition, None if cancels else target)
        return AlterResult(partition, target, error, "" if error == NONE else f"error {error}")

    def _error(
        self, partition: TopicPartition, target: tuple[BrokerId, ...], *, cancels: bool
    ) -> int:
        world = self._world
        doomed = world.zookeeper.children(paths.DELETIONS) or ()
        if partition not in world.partitions() or partition.topic in doomed:
            return UNKNOWN_TOPIC_OR_PARTITION
        stored = world.assignment(partition)
        if cancels:
            return NONE if stored.is_reassigning else NO_REASSIGNMENT_IN_PROGRESS
        live = set(world.zookeeper.children(paths.BROKER_IDS) or ())
        if all(r in stored.replicas or str(r) in live for r in target):
            return NONE
        return INVALID_REPLICA_ASSIGNMENT
