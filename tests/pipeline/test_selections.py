"""The probability of each replica as a candidate."""

from __future__ import annotations

from controller.pipeline.planner import PER_CLASS, SMALLEST, chances_by_size

MANY = 100_000


def test_without_a_surplus_the_smallest_of_a_broker_are_offered_and_a_few_of_each_class() -> None:
    """Small classes are offered whole, until there are enough; of the others only some."""
    chances = chances_by_size({(0, 1): 100, (0, 2): 100, (0, 3): MANY}, [0])
    assert chances[1][0] == 1.0
    assert chances[2][0] == (SMALLEST - 100) / 100
    assert chances[3][0] == PER_CLASS / MANY


def test_a_broker_with_a_surplus_offers_more_small_ones_than_it_has_to_lose() -> None:
    """Enough for its surplus though other brokers offer some of the same partitions."""
    chances = chances_by_size({(b, 1): MANY for b in (0, 1, 2, 3)}, [90, 0, 0, 0])
    assert chances[1][0] * MANY >= SMALLEST + 2 * 90
    assert chances[1][1] * MANY <= SMALLEST


def test_however_large_the_surplus_the_pool_grows_with_the_brokers_alone() -> None:
    """What is offered on top is shared in proportion: none of it is more than twice the pool."""
    chances = chances_by_size({(b, 1): MANY for b in (0, 1, 2)}, [MANY, MANY / 2, 0])
    offered = [chances[1][broker] * MANY for broker in (0, 1, 2)]
    assert sum(offered) <= 2 * 3 * SMALLEST
    assert offered[0] - SMALLEST >= 1.9 * (offered[1] - SMALLEST)


def test_a_class_that_is_smaller_than_what_is_wanted_is_offered_whole() -> None:
    """No chance is above one."""
    chances = chances_by_size({(0, 1): 3, (1, 1): 2}, [0, 500])
    assert chances[1] == {0: 1.0, 1: 1.0}
