"""The share of the worklist that a cycle examines, and what it leaves."""

from __future__ import annotations

from controller.core.model import NO_BROKERS, BrokerId, TopicPartition
from controller.core.worklist import Worklist
from tests.core.builders import tp


def many(first: int, last: int) -> list[TopicPartition]:
    """Return some partitions of one topic."""
    return [tp(n) for n in range(first, last)]


def test_a_turn_looks_at_the_first_of_very_many_and_leaves_the_others() -> None:
    """In their order, and none is looked at twice for one note."""
    due = Worklist()
    due.add(many(0, 5))
    left = due.leave(2)
    assert list(due.partitions) == many(0, 4)  # two new ones, and two of those then left over
    assert not due.held
    assert list(left.held) == many(4, 5)
    assert left
    assert not left.leave(2)
    assert list(left.partitions) == many(4, 5)


def test_new_partitions_neither_wait_for_others_nor_delay_them() -> None:
    """A huge plan does not stand before a small one, nor do small ones end its progress."""
    due = Worklist()
    due.add(many(0, 100))
    due = due.leave(3)
    for turn in range(32):
        assert due.held
        due.add([tp(1000 + turn)])
        left = due.leave(3)
        assert tp(1000 + turn) in due.partitions
        due = left
    assert not due


def test_a_bounce_is_remembered_for_those_that_are_left() -> None:
    """And for these alone: who is new since is not treated as failed."""
    due = Worklist()
    due.add(many(0, 3))
    due.bounced.add(BrokerId(7))
    due.bounced_from[tp(2)] = {BrokerId(8)}
    left = due.leave(1)
    assert list(due.partitions) == many(0, 2)
    left.add([tp(9)])
    assert not left.leave(1)
    assert set(left.partitions) == {tp(2), tp(9)}
    assert left.bounced_from == {tp(2): {BrokerId(7), BrokerId(8)}}
    assert not left.bounced


def test_a_held_partition_that_is_due_again_keeps_its_bounces() -> None:
    """It is examined in this turn, and with the broker that restarted then."""
    due = Worklist(held={tp(0): frozenset({BrokerId(2)}), tp(1): NO_BROKERS})
    due.add([tp(0)])
    left = due.leave(1)
    assert due.bounced_from == {tp(0): {2}}
    assert list(due.partitions) == [tp(0), tp(1)]
    assert not left.held
