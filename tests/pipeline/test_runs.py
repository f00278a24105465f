"""The pipeline through Spark: small clusters, from a snapshot to files and pages."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import SHAPES, Shape, make_cluster
from benchmarks.snapshots import write_cluster
from controller.errors import InvalidInputError
from controller.pipeline import commands
from controller.pipeline.cluster_frame import load
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.planner import Planner
from controller.pipeline.snapshot_files import snapshot_of_files
from controller.pipeline.snapshot_tables import (
    BROKERS,
    Tables,
    check_tables,
    read_tables,
    write_tables,
)
from controller.pipeline.waves import WaveLimits

pytestmark = pytest.mark.spark

SMALL: Shape = replace(SHAPES["S"], brokers=9, partitions=600, topics=15, empty=1)
Entries = dict[tuple[str, int], list[int]]


def quiet(what: str) -> None:
    """Do nothing."""
    del what


@pytest.fixture(scope="module")
def snapshot(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the directory of a snapshot."""
    directory = str(tmp_path_factory.mktemp("snapshot"))
    write_cluster(spark, make_cluster(SMALL, 1), directory)
    return directory


def entries(path: Path) -> Entries:
    """Return the entries of a stock JSON."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {(e["topic"], e["partition"]): e["replicas"] for e in document["partitions"]}


def test_a_plan_is_even_and_its_files_agree_with_each_other(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """All three loads are in the band; requests, plan and rollback name the same partitions."""
    options = PlanOptions(tolerance=0.1)
    limits = WaveLimits(partitions=50)
    out = tmp_path / "plan"
    summary, waves, files = commands.make_plan(spark, snapshot, options, limits, str(out), quiet)
    assert summary.sizes.outside == summary.counts.outside == summary.leaders.outside == ()
    assert summary.rack_violations_after == summary.concentration_rises == summary.racks_lost == 0
    assert summary.bytes_moved >= summary.bytes_bound
    assert summary.notes == ()
    planned, back = entries(out / "plan.json"), entries(out / "rollback.json")
    assert planned.keys() == back.keys()
    assert len(planned) == summary.changed
    assert len(files) == len(waves)
    cut: Entries = {}
    for path, wave in zip(files, waves, strict=True):
        part = entries(path)
        assert len(part) == wave.partitions <= 50
        cut |= part
    assert cut == planned
    # Requests say for which cluster they are; what Kafka's own tool takes has only its keys.
    assert all(json.loads(path.read_text())["cluster_id"] == "made-9" for path in files)
    for name in ("plan.json", "rollback.json"):
        assert json.loads((out / name).read_text()).keys() == {"version", "partitions"}
    added = sum(len(set(planned[key]) - set(back[key])) for key in planned)
    assert added == summary.moves


def test_the_plan_does_not_depend_on_how_rows_are_partitioned(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """The same rows in other files, in another order, make the same plan byte for byte."""
    tables = read_tables(spark, snapshot)
    other = str(tmp_path / "other")
    write_tables(
        replace(
            tables,
            replicas=tables.replicas.orderBy("size_bytes").repartition(5, "size_bytes"),
            brokers=tables.brokers.orderBy(tables.brokers.broker.desc()),
        ),
        other,
    )
    options, limits = PlanOptions(tolerance=0.05, seed=3), WaveLimits(partitions=50)
    texts = []
    for name, source, shuffles in (("first", snapshot, 2), ("second", other, 7)):
        spark.conf.set("spark.sql.shuffle.partitions", str(shuffles))
        out = tmp_path / name
        commands.make_plan(spark, source, options, limits, str(out), quiet)
        texts.append(
            [
                path.read_bytes()
                for path in (out / "plan.json", *sorted((out / "requests").iterdir()))
            ]
        )
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert texts[0] == texts[1]


def test_a_drained_broker_is_left_with_nothing_and_nothing_else_moves(
    spark: Any, snapshot: str, tmp_path: Path
) -> None:
    """Only partitions with a replica on the broker change, and those whose racks are repaired."""
    options = PlanOptions(drain=frozenset({2}), only_needed=True)
    out = tmp_path / "plan"
    summary, _, _ = commands.make_plan(spark, snapshot, options, WaveLimits(), str(out), quiet)
    planned, before = entries(out / "plan.json"), entries(out / "rollback.json")
    assert all(2 not in replicas for replicas in planned.values())
    for key, replicas in before.items():
        moved = set(planned[key]) != set(replicas)
        assert 2 in replicas or summary.rack_violations_before or not moved
    loads = {r.broker: r for r in spark.read.parquet(str(out / "brokers")).collect()}
    assert loads[2].bytes_after == loads[2].replicas_after == loads[2].leaders_after == 0
    assert summary.bytes_ratio < 1.1


def test_another_replication_factor_is_reached_by_every_partition(
    spark: Any, snapshot: str
) -> None:
    """One replica less each: nothing is copied for it, and racks stay in use."""
    tables = read_tables(spark, snapshot)
    options = PlanOptions(replication_factor=2, only_needed=True)
    cluster = load(spark, tables, options)
    rows = Planner(spark, cluster, options, quiet).plan().rows
    sizes = Counter(len(row.after) for row in rows.select("after").collect())
    assert sizes == {2: SMALL.partitions}
    copied = rows.selectExpr("sum(size(array_except(after, replicas))) AS n").first().n
    assert copied <= SMALL.partitions * SMALL.violations * 3


def test_a_cap_ends_the_plan_and_is_reported(spark: Any, snapshot: str, tmp_path: Path) -> None:
    """No more replicas move than are allowed; the plan says that it is not all."""
    options = PlanOptions(moves_max=20)
    out = str(tmp_path / "plan")
    summary, _, _ = commands.make_plan(spark, snapshot, options, WaveLimits(), out, quiet)
    assert summary.moves == 20
    assert any("cap of 20 moves" in note for note in summary.notes)


def test_disks_without_room_are_reported(spark: Any, snapshot: str, tmp_path: Path) -> None:
    """Every disk is full: a drained broker keeps what has no room elsewhere; the plan says so."""
    tables = read_tables(spark, snapshot)
    held = tables.replicas.groupBy("broker").sum("size_bytes").collect()
    full = {row[0]: row[1] for row in held}
    rows = [(r.broker, r.rack, None, full.get(r.broker, 0), True) for r in tables.brokers.collect()]
    small = str(tmp_path / "small")
    write_tables(replace(tables, brokers=spark.createDataFrame(rows, BROKERS)), small)
    options = PlanOptions(drain=frozenset({1}), only_needed=True)
    out = tmp_path / "plan"
    summary, _, _ = commands.make_plan(spark, small, options, WaveLimits(), str(out), quiet)
    assert any("no broker has room" in note for note in summary.notes)
    peaks = spark.read.parquet(str(out / "waves")).collect()
    assert all(row.peak_bytes <= full[row.broker] for row in peaks if row.broker in full)


def broken(tables: Tables, **columns: str) -> Tables:
    """Return tables with some replicas' columns replaced by SQL expressions."""
    return replace(
        tables,
        replicas=tables.replicas.selectExpr(
            *(f"{columns[c]} AS {c}" if c in columns else c for c in tables.replicas.columns)
        ),
    )


@pytest.mark.parametrize(
    ("column", "instead", "words"),
    [
        ("size_bytes", "IF(partition = 3, -1L, size_bytes)", "column size_bytes is negative in"),
        ("broker", "IF(partition = 3, 99, broker)", "column broker is not in the table brokers in"),
        ("topic", "IF(partition = 3, 'x', topic)", "column topic is not in the table topics in"),
    ],
)
def test_bad_rows_are_named_by_table_column_and_content(
    spark: Any, snapshot: str, column: str, instead: str, words: str
) -> None:
    """The message names the file, the column and the first rows."""
    tables = broken(read_tables(spark, snapshot), **{column: instead})
    with pytest.raises(InvalidInputError) as raised:
        check_tables(tables, snapshot)
    lines = str(raised.value).splitlines()
    assert lines[0].startswith(f"{snapshot}/replicas: {words}")
    assert "partition=3" in lines[1]


def test_a_missing_column_is_named(spark: Any, snapshot: str, tmp_path: Path) -> None:
    """A table without a column it needs is refused, with the columns there are."""
    tables = read_tables(spark, snapshot)
    other = str(tmp_path / "other")
    write_tables(replace(tables, replicas=tables.replicas.drop("size_bytes")), other)
    with pytest.raises(InvalidInputError, match=r"/replicas: column size_bytes is missing"):
        read_tables(spark, other)


def test_a_directory_that_is_no_snapshot_is_named(spark: Any, tmp_path: Path) -> None:
    """There is no manifest to read."""
    with pytest.raises(InvalidInputError, match=r"manifest: cannot be read as a table"):
        read_tables(spark, str(tmp_path))


def test_a_stock_json_with_sizes_becomes_a_snapshot(spark: Any, tmp_path: Path) -> None:
    """What the files say is what the tables hold."""
    current = tmp_path / "current.json"
    current.write_text(
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
        '{"topic":"t","partition":1,"replicas":[2,1]}]}'
    )
    sizes, brokers = tmp_path / "sizes.csv", tmp_path / "brokers.csv"
    sizes.write_text("topic,partition,size_bytes\nt,0,10\nt,1,30\n")
    brokers.write_text("broker,rack,capacity_bytes\n1,a,100\n2,b,\n3,a,100\n")
    out = tmp_path / "snapshot"
    counted = snapshot_of_files(
        spark, current, sizes, brokers, "2026-01-01", out, progress=print
    ).counts()
    assert (counted["brokers"], counted["partitions"], counted["bytes"]) == (3, 2, 80)
    tables = read_tables(spark, str(out))
    check_tables(tables, str(out))
    leaders = {r.partition: r.broker for r in tables.replicas.where("is_leader").collect()}
    assert leaders == {0: 1, 1: 2}
    assert not (out / "spool").exists()


def test_a_wrong_size_in_a_csv_is_named(spark: Any, tmp_path: Path) -> None:
    """A text where a number belongs is reported with its row."""
    current, sizes = tmp_path / "current.json", tmp_path / "sizes.csv"
    current.write_text('{"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}')
    sizes.write_text("topic,partition,size_bytes\nt,0,many\n")
    with pytest.raises(InvalidInputError, match=r"sizes.csv: column size_bytes .*\n  t,0,many"):
        snapshot_of_files(spark, current, sizes, None, "now", tmp_path / "snapshot", progress=print)
