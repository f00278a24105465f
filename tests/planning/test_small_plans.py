"""Small plans: what relieves a full broker or volume, and what a budget of bytes is spent on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import Final

import pytest

from controller.core.model import BrokerId, TopicPartition
from controller.core.topics.replica_choice import Racks
from controller.errors import InvalidInputError
from controller.planning.byte_budget import BudgetPlan, amounts_to_give, spend
from controller.planning.plan_goal import count_racks
from controller.planning.relief import Relief, ReliefGoal, relieve, volumes_to_relieve
from controller.planning.volume_room import DiskCluster, DiskVolume, MovableReplica

GB: Final = 10**9
Placed = Mapping[TopicPartition, tuple[int, Sequence[int]]]
"""The size and the volumes of the replicas of each partition."""
Clusters = tuple[list[DiskVolume], Placed, Racks]


def volume(
    broker: int, total: int, used: int, *paths: str, limit: float | None = None
) -> DiskVolume:
    """Return a volume; without a limit, all of it may be used."""
    most = float(total) if limit is None else limit
    return DiskVolume(BrokerId(broker), paths or ("/d",), total, used, most)


def cluster_of(volumes: Sequence[DiskVolume], placed: Placed, racks: Racks) -> DiskCluster:
    """Return a cluster of which all brokers may take replicas."""
    topics = Counter(
        (partition.topic, volumes[n].broker) for partition, (_, ns) in placed.items() for n in ns
    )
    return DiskCluster(
        volumes=volumes, takers={v.broker for v in volumes}, racks=racks, of_topics=topics
    )


def held_on(volumes: Sequence[DiskVolume], placed: Placed, *chosen: int) -> list[MovableReplica]:
    """Return the replicas on some volumes."""
    return [
        MovableReplica(size, partition, size, n, tuple(volumes[m].broker for m in ns))
        for partition, (size, ns) in placed.items()
        for n in ns
        if n in chosen
    ]


def relief_of(
    volumes: Sequence[DiskVolume], placed: Placed, goal: ReliefGoal, racks: Racks | None = None
) -> Relief:
    """Plan to reach a goal, with all replicas that are on its volumes."""
    cluster = cluster_of(volumes, placed, racks or {})
    return relieve(cluster, held_on(volumes, placed, *volumes_to_relieve(cluster, goal)), goal)


def partitions(*sizes: int) -> list[TopicPartition]:
    """Return a partition for each size, of topics of their own."""
    return [TopicPartition(f"t{n}", 0) for n in range(len(sizes))]


def on_first(*sizes: int) -> Placed:
    """Return partitions of these sizes, whose only replica is on the first volume."""
    return {p: (size, (0,)) for p, size in zip(partitions(*sizes), sizes, strict=True)}


def goal(mark: float, path: str | None = None) -> ReliefGoal:
    """Return a goal for broker 1."""
    return ReliefGoal(BrokerId(1), path, mark)


def test_the_replica_of_just_the_size_that_is_needed_leaves() -> None:
    """Eleven bytes are above: 12 is less than 20, and than 7 and 6 together."""
    placed = on_first(20, 12, 7, 6, 45)
    found = relief_of([volume(1, 100, 90), volume(2, 100, 0)], placed, goal(0.8))
    assert (found.bytes_above, found.bytes_copied, found.is_least) == (11, 12, True)
    assert found.changed == {TopicPartition("t1", 0): (2,)}
    assert (found.fill_before, found.fill_after) == (0.9, 0.78)


def test_nothing_leaves_what_is_below_the_mark() -> None:
    """A plan without a move."""
    found = relief_of([volume(1, 100, 79), volume(2, 100, 0)], on_first(79), goal(0.8))
    assert found.moves == ()
    assert found.is_least


def test_no_target_ends_above_the_mark_or_its_own_limit() -> None:
    """Of three brokers one is too full already, one has to keep more free."""
    volumes = [volume(1, 100, 90), volume(2, 100, 75), volume(3, 100, 30, limit=35.0)]
    with pytest.raises(InvalidInputError, match=r"cannot come below 80%: no broker below that"):
        relief_of(volumes, on_first(20, 20, 50), goal(0.8))
    volumes[1].used = 60
    assert relief_of(volumes, on_first(20, 20, 50), goal(0.8)).changed.popitem()[1] == (2,)


def test_a_mark_out_of_reach_names_the_one_that_is_not() -> None:
    """And that one can be planned."""
    volumes = [volume(1, 100, 95), volume(2, 100, 70)]
    placed = on_first(8, 8, 8, 71)
    with pytest.raises(InvalidInputError, match=r"reached is 86%: --below 86%") as raised:
        relief_of(volumes, placed, goal(0.8))
    assert "broker 1 is 95.0% full" in str(raised.value)
    found = relief_of(volumes, placed, goal(0.86))
    assert found.fill_after < 0.86
    with pytest.raises(InvalidInputError):
        relief_of(volumes, placed, goal(0.85))


def test_files_that_are_no_replicas_are_named_as_the_reason() -> None:
    """All replicas together have less than is above the mark."""
    with pytest.raises(InvalidInputError, match=r"11 bytes are above that, and its .* have 5\."):
        relief_of([volume(1, 100, 90), volume(2, 100, 0)], on_first(5), goal(0.8))


def test_a_partition_keeps_its_racks_and_its_brokers() -> None:
    """The second replica is in rack b: the first one may go to a or c, not to b or its broker."""
    volumes = [volume(1, 100, 90), *(volume(n, 100, used) for n, used in ((2, 0), (3, 0), (4, 50)))]
    placed = {TopicPartition("t", 0): (20, (0, 1))}
    racks: Racks = {BrokerId(n): rack for n, rack in ((1, "a"), (2, "b"), (3, "b"), (4, "c"))}
    found = relief_of(volumes, placed, goal(0.8), racks)
    assert found.changed == {TopicPartition("t", 0): (4, 2)}


def test_a_directory_is_relieved_within_its_broker_first() -> None:
    """Nothing is copied over the network as long as another volume has room."""
    volumes = [volume(1, 100, 90, "/a"), volume(1, 100, 70, "/b"), volume(2, 100, 0, "/a", "/c")]
    placed = on_first(6, 6, 6)
    found = relief_of(volumes, placed, goal(0.8, "/a"))
    assert (found.copies, found.bytes_copied, found.bytes_moved) == (1, 6, 12)
    dirs = [found.log_dirs[move.replica.partition] for move in found.moves]
    assert dirs == [((1, "/b"),), ((2, "/a"),)]
    with pytest.raises(InvalidInputError, match=r"no log directory /x; it has /a, /b"):
        relief_of(volumes, placed, goal(0.8, "/x"))


def test_a_broker_is_relieved_as_the_sum_of_its_volumes() -> None:
    """Moves between its own volumes would not help."""
    volumes = [volume(1, 100, 90, "/a"), volume(1, 100, 80, "/b"), volume(2, 100, 0)]
    found = relief_of(volumes, on_first(6, 6, 6), goal(0.8))
    assert found.bytes_above == 11
    assert all(move.target == 2 for move in found.moves)
    assert found.log_dirs == {}


def least_bytes(
    cluster: DiskCluster, held: Sequence[MovableReplica], above: int, mark: float
) -> int:
    """Return the fewest bytes by trying every place of every replica; -1 if none reaches it."""
    best = -1
    for places in product(range(-1, len(cluster.volumes)), repeat=len(held)):
        room = cluster.room(mark)
        moves = [(r, n) for r, n in zip(held, places, strict=True) if n >= 0]
        if sum(r.frees for r, _ in moves) < above:
            continue
        for replica, target in moves:
            move = next((m for m in room.places(replica) if m.volume == target), None)
            if move is None:
                break
            room.apply(move)
        else:
            cost = sum(r.size for r, _ in moves)
            best = cost if best < 0 else min(best, cost)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_with_few_replicas_no_plan_copies_less(seed: int) -> None:
    """Compared with every possible plan, with racks and tight targets."""
    rng = Random(seed)
    brokers = rng.randint(2, 4)
    racks: Racks = {BrokerId(n): rng.choice("ab") for n in range(1, brokers + 1)}
    placed: dict[TopicPartition, tuple[int, Sequence[int]]] = {}
    for partition in partitions(*range(rng.randint(1, 6))):
        others = rng.sample(range(1, brokers), rng.randint(0, brokers - 1))
        placed[partition] = rng.randint(1, 30), (0, *others)
    volumes = [volume(n, 100, rng.randint(40, 80)) for n in range(1, brokers + 1)]
    volumes[0].used = 90
    cluster = cluster_of(volumes, placed, racks)
    held = held_on(volumes, placed, 0)
    least = least_bytes(cluster, held, 11, 0.8)
    if least < 0:
        with pytest.raises(InvalidInputError):
            relieve(cluster, held, goal(0.8))
        return
    found = relieve(cluster, held, goal(0.8))
    assert found.bytes_copied == least
    assert found.is_least
    for move in found.moves:
        before = move.replica.replicas
        assert count_racks(move.after, racks) >= count_racks(before, racks)
        assert len(set(move.after)) == len(before)


def big_cluster(seed: int, replicas: int) -> Clusters:
    """Return ten brokers in five racks, with replicas of very different sizes on uneven disks."""
    rng = Random(seed)
    racks: Racks = {BrokerId(n): "abcde"[n % 5] for n in range(1, 11)}
    placed: dict[TopicPartition, tuple[int, Sequence[int]]] = {}
    used: Counter[int] = Counter()
    weights = [1, 1, 1, 1, 1, 2, 2, 2, 3, 3]
    for n in range(replicas // 3):
        chosen: list[int] = []
        while len(chosen) < 3:
            at = rng.choices(range(10), weights)[0]
            if at % 5 not in {c % 5 for c in chosen}:
                chosen.append(at)
        size = max(1, int(rng.lognormvariate(18, 2)))
        placed[TopicPartition(f"t{n % 20}", n)] = size, chosen
        used.update(dict.fromkeys(chosen, size))
    total = int(max(used.values()) / 0.92)
    return [volume(n + 1, total, used[n]) for n in range(10)], placed, racks


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_many_replicas_hardly_more_leaves_than_is_above_the_mark(seed: int) -> None:
    """Less than a thousandth more."""
    volumes, placed, racks = big_cluster(seed, 6_000)
    fullest = max(volumes, key=lambda v: v.used).broker
    wanted = ReliefGoal(fullest, None, 0.8)
    found = relief_of(volumes, placed, wanted, racks)
    assert found.bytes_above <= found.bytes_copied <= 1.001 * found.bytes_above
    assert all(v.bytes_after < 0.8 * v.total_bytes for v in found.volumes)


# --- budgets -------------------------------------------------------------------------------------


def spent(volumes: list[DiskVolume], placed: Placed, racks: Racks, budget: int) -> BudgetPlan:
    """Spend a budget, with all replicas."""
    cluster = cluster_of(volumes, placed, racks)
    held = held_on(volumes, placed, *range(len(volumes)))

    factors = {len(ns) for _, ns in placed.values()}
    givers = amounts_to_give(cluster, factors, budget)
    candidates = {b: [r for r in held if volumes[r.volume].broker == b] for b in givers}
    return spend(cluster, candidates, factors, budget)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_budget_goes_to_the_fullest_brokers(share: float) -> None:
    """They come down to a level that no plan with as many bytes undercuts by much."""
    volumes, placed, racks = big_cluster(4, 6_000)
    everything = spent(volumes, placed, racks, 2**60)
    assert everything.fullest_after <= 1.06
    assert everything.bytes_copied <= 1.05 * everything.bytes_wanted
    budget = int(share * everything.bytes_wanted)
    found = spent(volumes, placed, racks, budget)
    assert 0.98 * budget <= found.bytes_copied <= budget
    assert found.fullest_bound <= found.fullest_after <= found.fullest_bound + 0.02
    assert len(found.changed) == len(found.moves)
    for move in found.moves:
        assert count_racks(move.after, racks) >= count_racks(move.replica.replicas, racks)


def test_racks_that_hold_one_replica_of_each_partition_have_their_own_levels() -> None:
    """Between two racks and two replicas nothing can move: each evens out within itself."""
    volumes = [volume(n, 100, used) for n, used in ((1, 90), (2, 80), (3, 30), (4, 10))]
    racks: Racks = {BrokerId(n): rack for n, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"))}
    placed = {TopicPartition(f"t{n}", 0): (2, (0, 2)) for n in range(15)}
    found = spent(volumes, placed, racks, 12)
    pairs = Counter((int(move.source), int(move.target)) for move in found.moves)
    assert pairs.keys() == {(1, 2), (3, 4)}
    # The same distance is left between the brokers of either rack, as nearly as the sizes allow.
    assert pairs[3, 4] > pairs[1, 2]
    assert found.bytes_wanted == 10
    assert found.bytes_copied <= 12


def test_a_replica_larger_than_what_a_broker_lacks_to_its_level_moves_last() -> None:
    """Three empty brokers share 22 bytes, in replicas of four: five of them move, not three."""
    volumes = [volume(1, 76, 64), *(volume(n, 76, 0) for n in (2, 3, 4))]
    placed = {TopicPartition("t", n): (4, (0,)) for n in range(16)}
    found = spent(volumes, placed, {}, 22)
    assert found.bytes_copied == 20
    assert {v.bytes_after for v in found.volumes} == {44, 8, 4}


def test_a_budget_too_small_for_any_replica_moves_nothing() -> None:
    """The plan is empty."""
    found = spent([volume(1, 100, 90), volume(2, 100, 0)], on_first(20, 70), {}, 5)
    assert found.moves == ()
    assert found.fullest_before == found.fullest_after == 2.0
