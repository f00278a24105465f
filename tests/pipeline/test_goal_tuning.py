"""Plans by rates and capacities, without Spark: all loads at once, and hard bounds that hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.clusters import RATED, MadeCluster, Shape, make_cluster
from controller.pipeline.goal_tuning import LeaderCandidate, LeaderTuning
from controller.pipeline.placement_ledger import IN, LEADER_IN, OUT, UNLIMITED
from controller.planning.load_goals import LEADERS, LED, LoadGoals
from tests.pipeline.planners import Planning, plan

SMALL = replace(RATED["S"], brokers=18, partitions=4_000, topics=80, empty=2)
WIDE = replace(SMALL, brokers=20, racks=5)


def share(planning: Planning, load: Any) -> float:
    """Return the highest share of capacity, relative to the mean."""
    capacity = planning.made.capacity
    return float((load / capacity).max() / (load.sum() / capacity.sum()))


def loads_of(made: MadeCluster, placed: Mapping[int, tuple[int, ...]]) -> Any:
    """Return bytes in, bytes out and leader bytes in of every broker, from the partitions."""
    found = np.zeros((3, len(made.racks)), dtype=np.int64)
    for n, replicas in placed.items():
        rate, fetched = int(made.bytes_in[n]), int(made.bytes_out[n])
        found[IN, list(replicas)] += rate
        found[OUT, replicas[0]] += fetched + (len(replicas) - 1) * rate
        found[LEADER_IN, replicas[0]] += rate
    return found


@pytest.mark.parametrize("shape", [SMALL, WIDE], ids=["three racks", "five racks"])
@pytest.mark.parametrize("seed", [11, 12])
def test_disk_replicas_and_bytes_in_are_even_by_capacity(shape: Shape, seed: int) -> None:
    """A machine of twice the size carries twice as much of each; few bytes more are copied."""
    planning = plan(make_cluster(shape, seed), 0.05, by_capacity=True)
    ledger = planning.ledger
    assert ledger.traffic is not None
    assert (loads_of(planning.made, planning.placed()) == ledger.traffic.load).all()
    for load in (ledger.size, ledger.count, ledger.traffic.load[IN]):
        assert share(planning, load) <= 1.05 + 1e-9
    copied = sum(c.size * len(set(c.after) - set(c.before)) for c in planning.changes)
    assert copied <= 1.06 * ledger.sizes.bound(planning.before[0], ledger.settled())
    for topic, most in enumerate(ledger.by_topic.max(axis=1).tolist()):
        assert most <= planning.before[2][topic]


def test_leaders_bring_bytes_out_into_the_band_and_copy_nothing() -> None:
    """Leaders, bytes out and leader bytes in, all by capacity."""
    planning = plan(make_cluster(WIDE, 13), 0.05, by_capacity=True)
    made, ledger, traffic = planning.made, planning.ledger, planning.ledger.traffic
    assert traffic is not None
    placed = planning.placed()
    led = np.bincount([r[0] for r in placed.values()], minlength=len(made.racks))
    bands = ledger.leader_band(LEADERS, len(placed)), traffic.bands[OUT], traffic.bands[LEADER_IN]
    limits = np.full((3, len(led)), UNLIMITED)
    pool = [
        LeaderCandidate(int(made.topic[n]), n, r, int(made.bytes_in[n]), int(made.bytes_out[n]))
        for n, r in placed.items()
    ]
    load = np.array([led, traffic.load[OUT], traffic.load[LEADER_IN]])
    tuning = LeaderTuning(load, bands, limits, LoadGoals(), pool)
    swaps = list(tuning.swaps())
    assert 0 < len(swaps) < len(placed) / 4
    assert len({partition for _, partition, _ in swaps}) == len(swaps)
    for _, partition, position in swaps:
        replicas = list(placed[partition])
        replicas[0], replicas[position] = replicas[position], replicas[0]
        placed[partition] = tuple(replicas)
    found = loads_of(made, placed)
    assert found[OUT].tolist() == tuning.load[LED.index("bytes_out")].tolist()
    for row in tuning.load:
        assert share(planning, row) <= 1.05 + 1e-9


def test_no_broker_comes_above_a_hard_bound_that_held() -> None:
    """Brokers with a narrow network stay below their bound, whatever the disks would like."""
    made = make_cluster(WIDE, 14)
    mean = float(made.bytes_in.sum()) * 3 / WIDE.brokers
    limit = np.full(WIDE.brokers, 4 * mean)
    # The new brokers have room for their share of the disks, and little of the network.
    limit[-2:] = mean / 8
    planning = plan(made, 0.05, bytes_in_limit=limit)
    received = loads_of(made, planning.placed())[IN]
    assert (received[-2:] <= limit[-2:]).all()
    assert (planning.ledger.size[-2:] > 0).all()


def test_no_replica_move_brings_a_broker_above_its_number_of_leaders() -> None:
    """A broker that may lead little gets followers; leaders are counted move by move."""
    made = make_cluster(WIDE, 16)
    limit = np.full(WIDE.brokers, float(len(made.size)))
    limit[-2:] = 3.0
    planning = plan(made, 0.05, leaders_limit=limit)
    led = np.bincount([r[0] for r in planning.placed().values()], minlength=WIDE.brokers)
    assert planning.ledger.led.tolist() == led.tolist()
    assert (led[-2:] <= limit[-2:]).all()
    assert (planning.ledger.count[-2:] > limit[-2:]).all()
    assert not planning.ledger.sizes.outside(planning.ledger.size.tolist())


def test_a_goal_that_is_off_moves_nothing_for_it() -> None:
    """Without the goals of rates the plan is that of disk and replicas."""
    made = make_cluster(SMALL, 15)
    off = LoadGoals().without(["bytes_in", "bytes_out", "leader_bytes_in"])
    assert plan(made, 0.05, goals=off).changes == plan(replace(made, bytes_in=None), 0.05).changes
