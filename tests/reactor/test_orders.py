"""What the cluster's controller is told: one call at a time, the newest order of a partition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.core.effects import AlterReassignment, ElectPreferred, ProbeReassignments
from controller.core.model import TopicPartition
from controller.errors import InvariantError
from controller.reactor.orders import Orders
from controller.reactor.ports import Order
from tests.core.builders import replicas, tp


class Kept:
    """A controller that only keeps what it is told."""

    def __init__(self) -> None:
        """Start empty."""
        self.calls: list[tuple[Order, ...]] = []
        self.elected: list[TopicPartition] = []
        self.probes = 0
        self.forgotten = 0
        self.vouched = 0

    def alter(self, orders: Sequence[Order]) -> None:
        """Keep a call."""
        self.calls.append(tuple(orders))

    def elect(self, partitions: Sequence[TopicPartition]) -> None:
        """Keep an election."""
        self.elected += partitions

    def probe(self) -> None:
        """Count."""
        self.probes += 1

    def vouch(self) -> None:
        """Count."""
        self.vouched += 1

    def forget(self) -> None:
        """Count."""
        self.forgotten += 1


def test_while_a_call_is_out_the_rest_merges() -> None:
    """The newest order of a partition is the one that counts."""
    kept = Kept()
    orders = Orders(kept)
    orders.add(AlterReassignment(tp(0), replicas(1, 2)))
    orders.send()
    orders.add(AlterReassignment(tp(1), replicas(1, 3)))
    orders.add(AlterReassignment(tp(0), replicas(0, 1), cancels=True))
    orders.add(AlterReassignment(tp(1), replicas(1, 4)))
    orders.send()
    assert len(kept.calls) == 1
    orders.answered()
    orders.send()
    assert kept.calls[1] == (
        Order(tp(0), replicas(0, 1), cancels=True),
        Order(tp(1), replicas(1, 4)),
    )


def test_while_a_call_is_out_every_turn_vouches_for_it() -> None:
    """A process that was stopped does not; its adapter sends nothing more then."""
    kept = Kept()
    orders = Orders(kept)
    orders.send()
    assert kept.vouched == 0
    orders.add(AlterReassignment(tp(0), replicas(1, 2)))
    orders.send()
    orders.send()
    assert kept.vouched == 1
    orders.answered()
    orders.send()
    assert kept.vouched == 1


def test_elections_and_probes_do_not_wait_for_an_answer() -> None:
    """Each is told once."""
    kept = Kept()
    orders = Orders(kept)
    orders.add(ElectPreferred((tp(0), tp(1))))
    orders.add(ProbeReassignments())
    orders.send()
    orders.send()
    assert (kept.elected, kept.probes) == ([tp(0), tp(1)], 1)


def test_who_does_not_lead_any_more_tells_nothing() -> None:
    """Neither what waits nor what the adapter still holds."""
    kept = Kept()
    orders = Orders(kept)
    orders.add(AlterReassignment(tp(0), replicas(1, 2)))
    orders.clear()
    orders.send()
    assert (kept.calls, kept.forgotten) == ([], 1)


def test_without_anybody_to_tell_an_order_is_a_bug() -> None:
    """It would be lost in silence."""
    orders = Orders(None)
    orders.send()
    orders.add(AlterReassignment(tp(0), replicas(1, 2)))
    with pytest.raises(InvariantError):
        orders.send()
