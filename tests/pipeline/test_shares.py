"""The share of each broker, and the lower bounds of every plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.planning.quotas import RackRoom, band, flows, share

WIDE = 1e12


def racks_of(*sizes: int, most: float = WIDE, least: float = 0.0) -> list[RackRoom]:
    """Return racks of so many brokers."""
    rooms, first = [], 0
    for size in sizes:
        rooms.append(RackRoom(brokers=tuple(range(first, first + size)), least=least, most=most))
        first += size
    return rooms


def test_without_limits_every_broker_gets_the_same() -> None:
    """Racks of any size share evenly where they hold what they like."""
    assert share(60.0, racks_of(1, 2, 3), [WIDE] * 6) == pytest.approx([10.0] * 6)


def test_a_rack_that_may_hold_one_replica_of_each_partition_takes_no_more() -> None:
    """A broker alone in its rack holds what the rack may hold, the others share the rest."""
    shares = share(30.0, racks_of(4, 1, 1, most=10.0), [WIDE] * 6)
    assert shares == pytest.approx([2.5, 2.5, 2.5, 2.5, 10.0, 10.0])


def test_what_does_not_fit_on_a_small_broker_goes_to_the_others() -> None:
    """A broker's room is respected as long as others have any."""
    assert share(30.0, racks_of(3), [4.0, WIDE, WIDE]) == pytest.approx([4.0, 13.0, 13.0])


def test_more_than_everything_can_hold_is_shared_all_the_same() -> None:
    """Nothing is lost: the shares sum up even where no room is left."""
    assert sum(share(30.0, racks_of(2), [5.0, 5.0])) == pytest.approx(30.0)


def test_a_broker_that_may_hold_nothing_has_everything_as_excess() -> None:
    """What stands on a drained broker is part of the bound."""
    within = band(share(30.0, racks_of(2), [WIDE] * 3), [WIDE] * 3, 0.05)
    assert within.excess([10.0, 10.0, 10.0]) == pytest.approx(10.0)


def test_where_one_rack_has_too_much_and_another_too_little_both_have_to_copy() -> None:
    """Replicas stay in their rack: what one rack's brokers have too much of fills no other's."""
    within = band([10.0] * 8, [WIDE] * 8, 0.1)
    load = [13.0, 9.0, 9.0, 9.0, 7.0, 11.0, 11.0, 11.0]
    assert within.bound(load) == pytest.approx(2.0)
    assert within.bound(load, [(0, 1, 2, 3), (4, 5, 6, 7)]) == pytest.approx(4.0)


def test_the_gain_of_a_rack_adds_to_the_excess_of_its_brokers() -> None:
    """A broker's excess stays in its rack, and what the rack lacks altogether comes besides."""
    within = band([10.0] * 6, [WIDE] * 6, 0.1)
    load = [13.0, 9.0, 7.0, 11.0, 11.0, 9.0]
    assert within.bound(load) == pytest.approx(2.0)
    assert within.bound(load, [(0, 1, 2), (3, 4, 5)]) == pytest.approx(3.0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), max_size=12))
def test_no_plan_copies_less_than_the_bound(copies: list[tuple[int, int, int]]) -> None:
    """Whatever copies led to an even end, within racks or across them: the bound is no larger."""
    within = band([100.0] * 6, [WIDE] * 6, 0.02)
    load = [100.0] * 6
    for giver, taker, amount in copies:
        load[giver] += amount
        load[taker] -= amount
    copied = sum(amount for giver, taker, amount in copies if giver != taker)
    assert within.bound(load, [(0, 1, 2), (3, 4, 5)]) <= copied + 1e-6


loads = st.lists(st.integers(0, 1_000), min_size=2, max_size=12)


@given(loads)
def test_flows_bring_every_broker_into_the_band_and_cost_the_bound(load: list[int]) -> None:
    """What is given equals what is taken, and both equal the proven least."""
    held = [float(n) for n in load]
    within = band(
        share(sum(held), racks_of(len(held)), [WIDE] * len(held)), [WIDE] * len(held), 0.05
    )
    gives, takes = flows(held, within, range(len(held)))
    assert sum(gives) == pytest.approx(sum(takes), abs=1e-3)
    assert sum(gives) == pytest.approx(within.bound(held), abs=1e-3)
    after = [h - g + t for h, g, t in zip(held, gives, takes, strict=True)]
    for one, low, high in zip(after, within.low, within.high, strict=True):
        assert low - 1e-3 <= one <= high + 1e-3


@given(loads)
def test_no_broker_both_gives_and_takes(load: list[int]) -> None:
    """A broker has too much or too little, never both."""
    held = [float(n) for n in load]
    within = band([sum(held) / len(held)] * len(held), [WIDE] * len(held), 0.02)
    gives, takes = flows(held, within, range(len(held)))
    assert all(not (g > 1e-6 and t > 1e-6) for g, t in zip(gives, takes, strict=True))
