"""The bounds, compared with a search through everything there is."""

from __future__ import annotations

from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.planning.plan_goal import (
    PlanGoal,
    broker_loads,
    copies_min,
    copies_of_partition,
    count_racks,
    even_shares,
)

BROKERS = tuple(map(BrokerId, range(4)))


def placements(factor: int) -> list[Replicas]:
    """Return every set of so many brokers, in some order."""
    return [found for found in permutations(BROKERS, factor) if list(found) == sorted(found)]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(BROKERS), unique=True, min_size=1).map(tuple),
    st.sets(st.sampled_from(BROKERS), min_size=1),
    st.lists(st.sampled_from("ab"), min_size=4, max_size=4),
    st.data(),
)
def test_the_bound_of_one_partition_is_what_the_best_placement_costs(
    before: Replicas, allowed: set[BrokerId], letters: list[str], data: st.DataObject
) -> None:
    """No placement is cheaper, and one is as cheap."""
    racks = dict(zip(BROKERS, letters, strict=True))
    factor = data.draw(st.integers(1, len(allowed)))
    goal = PlanGoal(
        brokers=frozenset(allowed),
        racks=racks,
        replication_factor=factor,
        widest=data.draw(st.booleans()),
    )
    costs = [
        len(set(found) - set(before))
        for found in placements(factor)
        if set(found) <= allowed and count_racks(found, racks) >= goal.racks_min(before)
    ]
    assert min(costs) == copies_of_partition(before, goal)


@settings(deadline=None)
@given(st.lists(st.sampled_from(placements(2)), min_size=1, max_size=3))
def test_the_bound_of_a_balance_is_what_the_best_balance_costs(found: list[Replicas]) -> None:
    """All balanced placements of a few partitions cost at least the bound, and one as much."""
    before = {TopicPartition("t", n): replicas for n, replicas in enumerate(found)}
    costs = []
    for chosen in product(placements(2), repeat=len(found)):
        after = dict(zip(before, chosen, strict=True))
        counts = broker_loads(after, BROKERS).values()
        if max(counts) - min(counts) <= 1:
            costs.append(sum(len(set(after[p]) - set(before[p])) for p in before))
    goal = PlanGoal(brokers=frozenset(BROKERS), rebalance=True)
    assert min(costs) == copies_min(before, goal)


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 9).map(BrokerId), st.integers(0, 50), min_size=1))
def test_shares_add_up_and_differ_by_one_at_most(current: dict[BrokerId, int]) -> None:
    """The rest of the division goes to those that hold the most."""
    total = sum(current.values())
    shares = even_shares(current, total)
    assert sum(shares.values()) == total
    assert max(shares.values()) - min(shares.values()) <= 1
    more = [b for b in shares if shares[b] > min(shares.values())]
    others = [b for b in shares if b not in more]
    assert not more or min(current[b] for b in more) >= max(current[b] for b in others)
