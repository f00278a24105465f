"""Plans by rates and capacities through Spark: from a file of rates to the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import RATED, MadeCluster, Shape, make_cluster
from benchmarks.snapshots import write_capacities, write_cluster
from controller.errors import InvalidInputError
from controller.pipeline import commands
from controller.pipeline.capacity_file import read_capacities
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.report_page import make_report
from controller.pipeline.snapshot_files import read_rate_file
from controller.pipeline.snapshot_tables import Manifest, read_tables, write_tables
from controller.pipeline.snapshot_writer import (
    FILE,
    JOURNAL,
    MEASURED,
    BrokerRow,
    RateRow,
    SnapshotSource,
    rate_notes,
    read_journal_rates,
    write_snapshot,
)
from controller.pipeline.waves import WaveLimits
from controller.planning.load_goals import GOALS

pytestmark = pytest.mark.spark

SMALL: Shape = replace(RATED["S"], brokers=12, partitions=1_200, topics=24, empty=1)
TOLERANCE = 0.1


def quiet(what: str) -> None:
    """Do nothing."""
    del what


@pytest.fixture(scope="module")
def made() -> MadeCluster:
    """Return a cluster with rates and machines of two sizes."""
    return make_cluster(SMALL, 21)


@pytest.fixture(scope="module")
def snapshot(spark: Any, made: MadeCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of its snapshot."""
    directory = tmp_path_factory.mktemp("rated") / "snapshot"
    write_cluster(spark, made, str(directory))
    return directory


def planned(spark: Any, made: MadeCluster, snapshot: Path, out: Path) -> Any:
    """Plan by capacity; return the summary."""
    capacities = read_capacities(write_capacities(made, out.with_suffix(".csv")))
    options = PlanOptions(tolerance=TOLERANCE, capacities=capacities)
    limits = WaveLimits()
    summary, _, _ = commands.make_plan(spark, str(snapshot), options, limits, str(out), quiet)
    return summary


def test_all_loads_are_shared_by_capacity_for_little_more_than_the_bound(
    spark: Any, made: MadeCluster, snapshot: Path, tmp_path: Path
) -> None:
    """Six goals at once; the tables, the summary and the report agree."""
    out = tmp_path / "plan"
    summary = planned(spark, made, snapshot, out)
    assert {goal.goal for goal in summary.goals} == set(GOALS)
    for goal in summary.goals:
        assert goal.after[1] <= 1 + TOLERANCE + 0.001, goal
        assert not goal.outside
        assert not goal.broken
    assert summary.notes == ()
    assert summary.concentration_rises == summary.racks_lost == summary.rack_violations_after == 0
    assert summary.bytes_bound <= summary.bytes_moved <= 1.10 * summary.bytes_bound
    assert max(goal.bytes_bound for goal in summary.goals) <= summary.bytes_bound

    rows = spark.read.parquet(str(out / "loads")).collect()
    assert len(rows) == len(GOALS) * (SMALL.brokers + SMALL.racks)
    brokers = [row for row in rows if row.goal == "bytes_in" and row.broker is not None]
    total = 3 * int(made.bytes_in.sum())
    assert sum(row.before for row in brokers) == sum(row.after for row in brokers) == total
    small, large = (
        [row.after for row in brokers if made.capacity[row.broker - 1] == size] for size in (1, 2)
    )
    assert 1.7 < (sum(large) / len(large)) / (sum(small) / len(small)) < 2.3
    racks = [row for row in rows if row.goal == "bytes_in" and row.broker is None]
    assert sum(row.after for row in racks) == total

    # The cluster has not changed: after the work, its loads are those from before.
    journal = tmp_path / "journal"
    journal.mkdir()
    line = {"v": 1, "at": "2026-01-01T00:00:00.000Z", "kind": "request_begun", "request": "r"}
    (journal / "journal.jsonl").write_text(json.dumps(line) + "\n")
    make_report(spark, [journal], out, snapshot, tmp_path / "report", quiet)
    goals = {r.goal: r for r in spark.read.parquet(str(tmp_path / "report" / "goals")).collect()}
    assert set(goals) == {*GOALS, "all"}
    for name in GOALS:
        row = goals[name]
        assert row.highest_after == pytest.approx(row.highest_before, rel=1e-4), name
        assert row.highest_planned <= 1 + TOLERANCE + 0.001
        assert (row.outside_planned, row.outside_after > 0) == (0, True)
    assert goals["all"].planned_by_bound == pytest.approx(summary.bytes_ratio)
    page = (tmp_path / "report" / "report.html").read_text()
    assert "MB/s out" in page


def test_partitions_without_a_rate_stay_and_are_counted(
    spark: Any, made: MadeCluster, snapshot: Path, tmp_path: Path
) -> None:
    """An unknown rate is not zero: nobody knows what a move would do."""
    tables = read_tables(spark, str(snapshot))
    assert tables.rates is not None
    other = tmp_path / "other"
    write_tables(replace(tables, rates=tables.rates.where("topic <> 'topic-00000'")), str(other))
    summary = planned(spark, made, other, tmp_path / "plan")
    count = int((made.topic == 0).sum())
    assert any(f"bytes in are unknown for {count} of 1200 part" in note for note in summary.notes)
    changes = spark.read.parquet(str(tmp_path / "plan" / "changes")).where("topic = 'topic-00000'")
    spread = {f"rack-{n}" for n in range(SMALL.racks)}
    for row in changes.collect():
        # Only those move whose replicas were in too few racks.
        assert {made.racks[b - 1] for b in row.before} != spread


def test_rates_are_read_from_a_file_and_the_first_source_counts(spark: Any, tmp_path: Path) -> None:
    """CSV and Parquet; what a source does not know comes from the next one, or stays unknown."""
    path = tmp_path / "rates.csv"
    path.write_text("topic,partition,bytes_in_per_s,bytes_out_per_s\nt,0,5,\nt,1,,8\nu,,6,4\n")
    read = list(read_rate_file(spark, path))
    assert read == [
        RateRow(FILE, "t", 0, 5.0, None),
        RateRow(FILE, "t", 1, None, 8.0),
        RateRow(FILE, "u", None, 6.0, 4.0),
    ]
    spark.read.option("header", "true").csv(str(path)).write.parquet(str(tmp_path / "rates"))
    assert list(read_rate_file(spark, tmp_path / "rates")) == read
    listed = [("t", 0, (1,)), ("t", 1, (1,)), ("t", 2, (1,)), ("u", 0, (1,)), ("u", 1, (1,))]
    source = SnapshotSource(
        [(t, n, 1, 100, "/a") for t, n, _ in listed],
        [(t, n, 1, (1,)) for t, n, _ in listed],
        listed,
        [("t", 1, {}), ("u", 1, {})],
        # The log of t-1 grew, that of t-2 shrank, that of u-0 is not used.
        held_again=[("t", 1, 1, 130, 10.0), ("t", 2, 1, 90, 10.0), ("u", 0, 1, 900, 10.0)],
        rates=[*read, RateRow(JOURNAL, "t", 1, 99.0)],
    )
    brokers: list[BrokerRow] = [(1, None, None, None, True)]
    about = Manifest("c", "now", "test")
    tables = write_snapshot(spark, source, brokers, about, tmp_path / "snapshot")
    assert tables.rates is not None
    found = {
        (r.topic, r.partition): (r.bytes_in_per_s, r.bytes_out_per_s)
        for r in tables.rates.collect()
    }
    assert found == {
        ("t", 0): (5.0, None),
        ("t", 1): (3.0, 8.0),
        ("u", 0): (3.0, 2.0),
        ("u", 1): (3.0, 2.0),
    }
    assert list(rate_notes(tables)) == [
        "bytes in: unknown for 1 of 5 partitions, of the topics t",
        "bytes out to consumers: unknown for 2 of 5 partitions, of the topics t",
    ]
    idle = replace(source, held_again=[], rates=read, is_idle=True)
    tables = write_snapshot(spark, idle, brokers, about, tmp_path / "idle")
    assert tables.rates is not None
    assert tables.rates.where("topic = 't' AND partition = 2").first()[2:] == (0.0, 0.0)
    assert list(rate_notes(tables)) == []
    assert MEASURED > FILE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topic,bytes_in_per_s\nt,-1\n", "column bytes_in_per_s is negative or not a number in:"),
        ("topic,bytes_in_per_s\nt,much\n", "column bytes_in_per_s is not double in:"),
        ("topic,partition,bytes_in_per_s\nt,0,1\nt,0,2\n", "topic, partition are not unique in:"),
        ("topic,partition\nt,0\n", "there is no rate in the columns bytes_in_per_s"),
        ("partition,bytes_in_per_s\n0,1\n", "column topic is missing; there are partition"),
    ],
)
def test_a_wrong_file_of_rates_is_refused(
    spark: Any, tmp_path: Path, text: str, words: str
) -> None:
    """By file, column and the first rows."""
    path = tmp_path / "rates.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=r".") as raised:
        list(read_rate_file(spark, path))
    assert str(raised.value).startswith(str(path))
    assert words in str(raised.value)


def test_a_journal_has_the_last_rate_of_each_copied_partition(spark: Any, tmp_path: Path) -> None:
    """Lines without a rate, of older daemons too, say nothing."""
    lines: list[dict[str, object]] = [
        {"partition": 0, "bytes_in_per_s": 5.0, "at": "2026-01-01T00:00:01.000Z"},
        {"partition": 0, "bytes_in_per_s": 7.5, "at": "2026-01-01T00:00:02.000Z"},
        {"partition": 1, "bytes_in_per_s": None, "at": "2026-01-01T00:00:03.000Z"},
        {"partition": 2, "at": "2026-01-01T00:00:03.000Z"},
    ]
    text = "".join(json.dumps({"v": 1, "kind": "copied", "topic": "t", **x}) + "\n" for x in lines)
    (tmp_path / "journal.jsonl").write_text(text)
    assert list(read_journal_rates(spark, [tmp_path])) == [RateRow(JOURNAL, "t", 0, 7.5)]
