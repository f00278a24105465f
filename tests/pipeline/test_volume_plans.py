"""Small plans from snapshots: the decisions are those of ``generate``, and the files are whole."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.clusters import SHAPES, MadeCluster, make_cluster
from benchmarks.snapshots import write_cluster
from controller.core.model import BrokerId, TopicPartition
from controller.errors import InvalidInputError
from controller.pipeline import commands
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.snapshot_tables import read_tables, write_tables
from controller.pipeline.waves import WaveLimits
from controller.planning.byte_budget import BudgetPlan, amounts_to_give, spend
from controller.planning.relief import Relief, ReliefGoal, relieve, volumes_to_relieve
from controller.planning.volume_room import DiskCluster, DiskVolume, MovableReplica

pytestmark = pytest.mark.spark

SMALL: Final = replace(SHAPES["J"], brokers=9, partitions=600, topics=15, empty=2, directories=2)
FILL: Final = 0.96


def quiet(what: str) -> None:
    """Do nothing."""
    del what


@pytest.fixture(scope="module")
def made() -> MadeCluster:
    """Return a cluster with two disks on each broker."""
    return make_cluster(SMALL, 1)


@pytest.fixture(scope="module")
def snapshot(spark: Any, made: MadeCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the directory of its snapshot."""
    directory = str(tmp_path_factory.mktemp("snapshot"))
    write_cluster(spark, made, directory)
    return directory


def in_memory(made: MadeCluster) -> tuple[DiskCluster, list[MovableReplica]]:
    """Return what ``generate`` would plan from."""
    brokers, directories = made.volume.shape
    volumes = [
        DiskVolume(
            BrokerId(b + 1), (f"/data{d}",), total := int(made.volume[b, d]), 0, total * FILL
        )
        for b in range(brokers)
        for d in range(directories)
    ]
    held = []
    topics: Counter[tuple[str, BrokerId]] = Counter()
    for n, row in enumerate(made.replicas.tolist()):
        name, size = made.topics[made.topic[n]], int(made.size[n])
        partition = TopicPartition(name, int(made.partition[n]))
        for broker, directory in zip(row, made.directory[n].tolist(), strict=True):
            volume = (broker - 1) * directories + directory
            volumes[volume].used += size
            topics[name, BrokerId(broker)] += 1
            held.append(MovableReplica(size, partition, size, volume, tuple(map(BrokerId, row))))
    cluster = DiskCluster(
        volumes=volumes,
        takers={v.broker for v in volumes},
        racks={BrokerId(n): rack for n, rack in enumerate(made.racks, start=1)},
        of_topics=topics,
    )
    return cluster, held


def fullest(made: MadeCluster) -> ReliefGoal:
    """Return the goal to bring the fullest broker below nine tenths of its fill."""
    cluster, _ = in_memory(made)
    fills: Counter[int] = Counter()
    for volume in cluster.volumes:
        fills[volume.broker] += volume.used
    broker, used = fills.most_common(1)[0]
    total = sum(v.total for v in cluster.volumes if v.broker == broker)
    return ReliefGoal(BrokerId(broker), None, round(0.9 * used / total, 2))


def entries(path: Path) -> dict[TopicPartition, dict[str, Any]]:
    """Return the entries of a plan."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {TopicPartition(e["topic"], e["partition"]): e for e in document["partitions"]}


@pytest.mark.parametrize("of_directory", [False, True])
def test_a_relief_is_that_of_generate(
    spark: Any, made: MadeCluster, snapshot: str, tmp_path: Path, *, of_directory: bool
) -> None:
    """The same moves and directories as from memory; the waves contain each of them once."""
    goal = fullest(made)
    if of_directory:
        goal = replace(goal, path="/data1")
    cluster, held = in_memory(made)
    volumes = volumes_to_relieve(cluster, goal)
    expected = relieve(cluster, [r for r in held if r.volume in volumes], goal)
    options, limits = PlanOptions(fill=FILL), WaveLimits(partitions=5)
    found, files = commands.make_small_plan(
        spark, snapshot, options, goal, limits, str(tmp_path / "plan"), quiet
    )
    assert isinstance(found.plan, Relief)
    assert found.plan.moves == expected.moves
    assert found.plan.document() == expected.document()
    planned, back = (entries(tmp_path / "plan" / name) for name in ("plan.json", "rollback.json"))
    assert {p: tuple(e["replicas"]) for p, e in planned.items()} == expected.changed
    assert {p: tuple(e["replicas"]) for p, e in back.items()} == expected.before
    for partition, entry in planned.items():
        named = dict(expected.log_dirs[partition])
        assert entry["log_dirs"] == [named.get(b, "any") for b in entry["replicas"]]
    cut = [entries(path) for path in files]
    assert sum(map(len, cut)) == len(planned) == found.plan.document()["moves"]
    assert {p for part in cut for p in part} == planned.keys()
    assert all(len(part) <= 5 for part in cut)
    summary = json.loads((tmp_path / "plan" / "summary.json").read_text())
    assert summary["plan"]["bytes_above"] == expected.bytes_above
    loads = {r.broker: r for r in spark.read.parquet(str(tmp_path / "plan" / "brokers")).collect()}
    for broker, row in loads.items():
        went = [m for m in expected.moves if m.source == broker != m.target]
        came = [m for m in expected.moves if m.target == broker != m.source]
        assert row.replicas_after - row.replicas_before == len(came) - len(went)
        change = sum(m.replica.size for m in came) - sum(m.replica.size for m in went)
        assert row.bytes_after - row.bytes_before == change
    assert sum(r.leaders_before for r in loads.values()) == SMALL.partitions
    assert sum(r.leaders_after for r in loads.values()) == SMALL.partitions
    for wave in found.waves:
        assert all(wave.peak <= [max(v.used, v.limit) for v in cluster.volumes])


def test_a_budget_is_spent_as_by_generate(
    spark: Any, made: MadeCluster, snapshot: str, tmp_path: Path
) -> None:
    """The candidates are a part of all replicas; what is reached is the same."""
    cluster, held = in_memory(made)
    everything = spend(cluster, amounts(cluster, held, 2**60), {3}, 2**60)
    budget = everything.bytes_wanted // 3
    expected = spend(cluster, amounts(cluster, held, budget), {3}, budget)
    found, files = commands.make_small_plan(
        spark, snapshot, PlanOptions(fill=FILL), budget, WaveLimits(), str(tmp_path / "p"), quiet
    )
    assert isinstance(found.plan, BudgetPlan)
    assert 0.97 * budget <= found.plan.bytes_copied <= budget
    assert found.plan.fullest_after == pytest.approx(expected.fullest_after, abs=0.01)
    # As many racks as replicas: each rack gets its part of the budget, the fullest broker not all.
    assert found.plan.fullest_bound <= found.plan.fullest_after < found.plan.fullest_before - 0.3
    assert len(entries(tmp_path / "p" / "plan.json")) == sum(len(entries(f)) for f in files)


def amounts(
    cluster: DiskCluster, held: list[MovableReplica], budget: int
) -> dict[BrokerId, list[MovableReplica]]:
    """Return the replicas of the brokers that give."""
    givers = amounts_to_give(cluster, {3}, budget)
    return {b: [r for r in held if cluster.volumes[r.volume].broker == b] for b in givers}


def test_the_plan_does_not_depend_on_how_rows_are_partitioned(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """Byte for byte."""
    tables = read_tables(spark, snapshot)
    other = str(tmp_path / "other")
    write_tables(replace(tables, replicas=tables.replicas.repartition(7, "size_bytes")), other)
    texts = []
    for name, source, shuffles in (("first", snapshot, 2), ("second", other, 5)):
        spark.conf.set("spark.sql.shuffle.partitions", str(shuffles))
        out = tmp_path / name
        commands.make_small_plan(
            spark, source, PlanOptions(fill=FILL), 10**11, WaveLimits(), str(out), quiet
        )
        texts.append((out / "plan.json").read_bytes())
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert texts[0] == texts[1]
    assert len(texts[0]) > 100


def test_without_log_directories_a_broker_is_one_volume(
    spark: Any, made: MadeCluster, snapshot: str, tmp_path: Path
) -> None:
    """Of ``capacity_bytes``, with the bytes of its replicas; without it, it is refused."""
    tables = replace(read_tables(spark, snapshot), log_dirs=None)
    whole = str(tmp_path / "whole")
    write_tables(tables, whole)
    goal = fullest(made)
    found, _ = commands.make_small_plan(
        spark, whole, PlanOptions(fill=FILL), goal, WaveLimits(), str(tmp_path / "plan"), quiet
    )
    assert isinstance(found.plan, Relief)
    assert found.plan.fill_after < goal.mark
    assert found.plan.log_dirs == {}
    nothing = str(tmp_path / "nothing")
    brokers = tables.brokers.withColumn("capacity_bytes", tables.brokers.broker.cast("long") * None)
    write_tables(replace(tables, brokers=brokers), nothing)
    with pytest.raises(InvalidInputError, match="no size of a disk"):
        commands.make_small_plan(
            spark, nothing, PlanOptions(), goal, WaveLimits(), str(tmp_path / "x"), quiet
        )


@pytest.mark.parametrize(
    ("goal", "problem"),
    [
        (ReliefGoal(BrokerId(99), None, 0.8), "broker 99 is not in the snapshot"),
        (ReliefGoal(BrokerId(1), "/x", 0.8), "no log directory /x; it has /data0, /data1"),
        (ReliefGoal(BrokerId(1), None, 0.01), "The lowest mark that can be reached is"),
    ],
)
def test_a_goal_that_cannot_be_reached_is_refused(
    spark: Any, snapshot: str, tmp_path: Path, goal: ReliefGoal, problem: str
) -> None:
    """Nothing is written."""
    out = tmp_path / "plan"
    with pytest.raises(InvalidInputError, match=problem):
        commands.make_small_plan(
            spark, snapshot, PlanOptions(), goal, WaveLimits(), str(out), quiet
        )
    assert not out.exists()
