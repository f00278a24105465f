"""The bounds of goals, as an operator writes them, and the fewest bytes that any plan copies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.errors import InvalidInputError
from controller.planning.load_goals import (
    BYTES_IN,
    BYTES_OUT,
    DISK,
    RATED,
    LoadGoal,
    LoadGoals,
    copy_bound,
    least_bytes,
)


def test_a_goal_is_set_by_name_with_soft_and_hard_bound_and_weight() -> None:
    """Whatever is left out stays as it was."""
    goals = LoadGoals().with_settings(["bytes_out=10%,70%,2", "bytes_in=,0.9", "leaders=off"])
    assert goals[BYTES_OUT] == LoadGoal(name=BYTES_OUT, soft=0.1, hard=0.7, weight=2.0)
    assert goals[BYTES_IN] == LoadGoal(name=BYTES_IN, hard=0.9)
    assert not goals["leaders"].is_on
    assert LoadGoals().with_settings(["leaders=off", "leaders=5%"])["leaders"].is_on
    assert not any(LoadGoals().without(RATED)[name].is_on for name in RATED)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("network=5%", "with one of disk, bytes_in, bytes_out"),
        ("disk", "--goal takes NAME=SOFT"),
        ("disk=1,2,3,4", "--goal takes NAME=SOFT"),
        ("disk=off", "disk cannot be off"),
        ("disk=5%,90%", "the hard bound of disk is --fill"),
        ("bytes_in=0", "0 is not a fraction above 0"),
        ("bytes_in=120%", "120% is not a fraction"),
        ("bytes_in=5%,much", "much is not a fraction"),
        ("bytes_in=5%,80%,0", "the weight must be a positive number"),
    ],
)
def test_a_wrong_goal_is_refused_in_words(text: str, words: str) -> None:
    """The message names what is wrong."""
    with pytest.raises(InvalidInputError, match=r".") as raised:
        LoadGoals().with_settings([text])
    assert words in str(raised.value)


def test_the_cheapest_replicas_come_first_and_the_last_one_counts_in_part() -> None:
    """Ten units for a byte each, then those that cost more."""
    offers = [(10.0, 100.0), (10.0, 10.0), (5.0, 20.0)]
    assert least_bytes(10.0, offers) == 10.0
    assert least_bytes(12.0, offers) == 10.0 + 2 * 4.0
    assert least_bytes(99.0, offers) == 130.0
    assert least_bytes(0.0, offers) == 0.0


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=8),
    st.integers(1, 60),
)
def test_no_choice_of_whole_replicas_is_cheaper(
    replicas: list[tuple[int, int]], amount: int
) -> None:
    """Of all subsets that hold the amount, the cheapest costs at least as much."""
    offers = [(float(load), float(size)) for load, size in replicas]
    costs = [
        sum(size for n, (_, size) in enumerate(replicas) if chosen >> n & 1)
        for chosen in range(1 << len(replicas))
        if sum(load for n, (load, _) in enumerate(replicas) if chosen >> n & 1) >= amount
    ]
    if costs:
        assert least_bytes(float(amount), offers) <= min(costs) + 1e-6


def test_the_bound_is_by_broker() -> None:
    """One broker sheds its cheapest replicas, another takes the cheapest of the cluster."""
    gives, takes = copy_bound(
        [4.0, 0.0], [0.0, 2.0], [[(4.0, 8.0), (4.0, 2.0)], [(1.0, 1.0)]], [(4.0, 2.0), (1.0, 1.0)]
    )
    assert (gives, takes) == ([2.0, 0.0], [0.0, 1.0])
    assert LoadGoals()[DISK].hard is None
