"""The decisions of the planner, on constructed clusters, without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.clusters import SHAPES, Shape, make_cluster
from controller.pipeline.placement_ledger import UNLIMITED, Candidate
from tests.pipeline.planners import Planning, ledger_of, plan

SMALL = replace(SHAPES["S"], brokers=15, partitions=3_000, topics=60, empty=2)
WIDE = replace(SMALL, brokers=20, racks=5)


def racks_used(planning: Planning, replicas: tuple[int, ...]) -> int:
    """Return over how many racks replicas are spread."""
    return len({planning.made.racks[b] for b in replicas})


def check(planning: Planning) -> None:
    """Check what holds for every plan."""
    placed = planning.placed()
    held: Counter[int] = Counter()
    count: Counter[int] = Counter()
    topics: Counter[tuple[int, int]] = Counter()
    for n, replicas in placed.items():
        assert len(set(replicas)) == len(replicas)
        before = tuple((planning.made.replicas[n] - 1).tolist())
        assert racks_used(planning, replicas) >= racks_used(planning, before)
        for broker in replicas:
            held[broker] += int(planning.made.size[n])
            count[broker] += 1
            topics[int(planning.made.topic[n]), broker] += 1
    brokers = range(len(planning.made.racks))
    # The books agree with the rows.
    assert [held[b] for b in brokers] == planning.ledger.size.tolist()
    assert [count[b] for b in brokers] == planning.ledger.count.tolist()
    for (topic, _), number in topics.items():
        assert number <= planning.before[2][topic]


@pytest.mark.parametrize("tolerance", [0.05, 0.02])
@pytest.mark.parametrize("shape", [SMALL, WIDE], ids=["three racks", "five racks"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_skewed_cluster_becomes_even_for_little_more_than_the_bound(
    shape: Shape, seed: int, tolerance: float
) -> None:
    """Bytes and replicas are in the band, racks are repaired, with few additional copies."""
    planning = plan(make_cluster(shape, seed), tolerance)
    check(planning)
    assert planning.ledger.sizes.outside(planning.ledger.size.tolist()) == []
    assert planning.ledger.counts.outside(planning.ledger.count.tolist()) == []
    assert all(racks_used(planning, r) == 3 for r in planning.placed().values())
    settled = planning.ledger.settled()
    assert len(settled) == (shape.racks if shape is SMALL else 0)
    moves = [len(set(change.after) - set(change.before)) for change in planning.changes]
    copied = sum(change.size * n for change, n in zip(planning.changes, moves, strict=True))
    least = planning.ledger.sizes.bound(planning.before[0], settled)
    assert least <= copied <= 1.03 * least
    least = planning.ledger.counts.bound(planning.before[1], settled)
    assert least <= sum(moves) <= 1.08 * least


@pytest.mark.parametrize("seed", [3, 4])
def test_a_large_surplus_of_replicas_leaves_a_hot_broker_with_the_smallest(seed: int) -> None:
    """Hundreds of replicas that are too many cost next to no bytes: small ones are offered."""
    hot = replace(WIDE, partitions=20_000, topics=300, hot=4.0)
    planning = plan(make_cluster(hot, seed), 0.02)
    check(planning)
    assert planning.ledger.counts.outside(planning.ledger.count.tolist()) == []
    copied = sum(c.size * len(set(c.after) - set(c.before)) for c in planning.changes)
    assert copied <= 1.02 * planning.ledger.sizes.bound(planning.before[0])


def test_an_even_cluster_stays_as_it_is() -> None:
    """Nothing moves where everything is within the band already."""
    made = make_cluster(SMALL, 1)
    first = plan(made, 0.05)
    placed = first.placed()
    rows = np.array([placed[n] for n in range(len(placed))]) + 1
    again = plan(replace(made, replicas=rows), 0.05)
    assert again.changes == []


def test_a_drained_broker_ends_empty_and_the_others_even() -> None:
    """What may hold nothing holds nothing afterwards."""
    made = make_cluster(WIDE, 3)
    keeps = [n != 4 for n in range(WIDE.brokers)]
    planning = plan(made, 0.05, keeps=keeps)
    assert planning.ledger.count[4] == 0
    assert planning.ledger.size[4] == 0
    assert planning.ledger.counts.outside(planning.ledger.count.tolist()) == []


def test_a_small_broker_gets_what_it_has_room_for() -> None:
    """No broker holds more than its capacity, and the others share the rest."""
    made = make_cluster(WIDE, 4)
    total = int(made.size.sum()) * 3
    room = [UNLIMITED] * WIDE.brokers
    small = WIDE.brokers - 1
    room[small] = total / WIDE.brokers / 2
    planning = plan(made, 0.05, room=room)
    check(planning)
    assert planning.ledger.size[small] <= room[small]
    assert planning.ledger.sizes.outside(planning.ledger.size.tolist()) == []


def test_racks_of_unequal_size_are_even_within_themselves() -> None:
    """With as many racks as replicas each rack holds one of each partition, whatever its size."""
    made = make_cluster(replace(SMALL, brokers=14, violations=0.0), 5)
    planning = plan(made, 0.05)
    check(planning)
    assert planning.ledger.counts.outside(planning.ledger.count.tolist()) == []
    by_rack: Counter[str] = Counter()
    for broker, count in enumerate(planning.ledger.count.tolist()):
        by_rack[made.racks[broker]] += count
    assert set(by_rack.values()) == {len(made.size)}


def test_more_replicas_than_racks_keep_every_rack_in_use() -> None:
    """Two racks and three replicas: no partition ends in one rack alone."""
    made = make_cluster(replace(SMALL, racks=2, violations=0.0), 6)
    planning = plan(made, 0.05)
    check(planning)
    assert all(racks_used(planning, r) == 2 for r in planning.placed().values())


def test_the_planner_ends_with_few_large_replicas() -> None:
    """Where no replica is small enough to hit the band, the planner ends as near as it gets."""
    made = make_cluster(replace(SMALL, partitions=60, topics=6, empty=1), 7)
    planning = plan(made, 0.02)
    check(planning)
    spread = planning.ledger.size.max() - planning.ledger.size.min()
    assert spread < max(planning.before[0]) - min(planning.before[0])


def test_a_rack_in_use_is_no_place_for_a_replica_that_has_its_own() -> None:
    """May-take leaves out brokers that have the partition and racks that would be used twice."""
    made = make_cluster(WIDE, 1)
    ledger = ledger_of(made, 0.05)
    replicas = tuple(int(b) - 1 for b in made.replicas[0])
    mask = ledger.may_take(Candidate(int(made.topic[0]), 0, 0, replicas, 0))
    others = {made.racks[b] for b in replicas[1:]}
    assert not any(mask[b] for b in replicas)
    assert not any(mask[b] for b in range(WIDE.brokers) if made.racks[b] in others)
