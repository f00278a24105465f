"""Leaders are evened out by swaps that partitions offer, and by no more of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.pipeline.leader_balance import leader_flows
from controller.planning.quotas import band


def test_leadership_goes_by_way_of_a_third_broker_where_two_share_nothing() -> None:
    """Broker 0 leads everything and shares partitions with 1 only, 1 shares with 2."""
    leaders = np.array([30, 10, 0])
    offered = np.array([[0, 20, 0], [0, 0, 20], [0, 0, 0]])
    within = band([40 / 3] * 3, [100.0] * 3, 0.05)
    flow = leader_flows(leaders, offered, within, [0, 1, 2])
    after = leaders - flow.sum(axis=1) + flow.sum(axis=0)
    assert after.tolist() == [14, 13, 13] or max(abs(after - 40 / 3)) <= 1
    assert (flow <= offered).all()


@given(
    st.lists(st.integers(0, 50), min_size=3, max_size=6),
    st.integers(0, 2**32 - 1),
)
def test_no_more_is_swapped_than_is_offered_and_nothing_gets_worse(
    leaders: list[int], seed: int
) -> None:
    """Flows respect what is offered, and the total outside of the band does not grow."""
    size = len(leaders)
    rng = np.random.default_rng(seed)
    led = np.array(leaders, dtype=np.int64)
    offered = rng.integers(0, 20, (size, size))
    np.fill_diagonal(offered, 0)
    within = band([float(led.sum()) / size] * size, [1e9] * size, 0.05)
    flow = leader_flows(led, offered, within, list(range(size)))
    assert (flow >= 0).all()
    assert (flow <= offered).all()
    after = led - flow.sum(axis=1) + flow.sum(axis=0)
    assert after.sum() == led.sum()
    # Whole leaders cannot hit a band between two whole numbers: one each is allowed.
    assert within.bound(after.tolist()) <= within.bound(led.tolist()) + size
