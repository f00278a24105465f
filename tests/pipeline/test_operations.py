"""Each operation of a plan through Spark, on a small cluster of topics with unlike factors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from benchmarks.clusters import SHAPES, Shape, make_cluster
from benchmarks.snapshots import write_cluster
from controller.errors import InvalidInputError
from controller.pipeline.cluster_frame import load
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.plan_summary import Loads, PlanSummary, summarize
from controller.pipeline.planner import Planner
from controller.pipeline.snapshot_tables import RATES, Tables, check_tables, read_tables

pytestmark = pytest.mark.spark

SMALL: Shape = replace(SHAPES["S"], brokers=9, partitions=600, topics=15, empty=1, violations=0.0)
NEW, OLD = 9, 6
"""In the same rack."""
FACTORS = (3, 2, 1)
"""Of topic 0, 1, 2, and so on in turn."""

Placed = dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]
"""Replicas before and after."""


@pytest.fixture(scope="module")
def mixed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Return a snapshot whose topics have three replicas, two or one."""
    directory = str(tmp_path_factory.mktemp("mixed"))
    write_cluster(spark, make_cluster(SMALL, 2), directory)
    tables = read_tables(spark, directory)
    number = F.substring("topic", -5, 5).cast("int") % len(FACTORS)
    factor = F.get(F.array(*map(F.lit, FACTORS)), number)
    cut = replace(
        tables,
        replicas=tables.replicas.where(F.col("position") < factor).persist(),
        topics=tables.topics.withColumn("replication_factor", factor).persist(),
    )
    check_tables(cut, directory)
    return cut


def planned(spark: Any, tables: Tables, options: PlanOptions) -> tuple[Placed, PlanSummary, Loads]:
    """Plan, and return where everything was and is to be, by names and ids."""
    options.check()
    cluster = load(spark, tables, options)
    found = Planner(spark, cluster, options, lambda _: None).plan()
    summary, loads = summarize(found)
    ids = cluster.brokers.ids
    placed = {
        (cluster.topics[row.topic], row.partition): (
            tuple(ids[b] for b in row.replicas),
            tuple(ids[b] for b in row.after),
        )
        for row in found.rows.collect()
    }
    return placed, summary, loads


def test_mixed_factors_are_balanced_and_kept(spark: Any, mixed: Tables) -> None:
    """All three loads are even; partitions have as many replicas as before, in as many racks."""
    placed, summary, _ = planned(spark, mixed, PlanOptions(tolerance=0.1))
    assert summary.sizes.outside == summary.counts.outside == summary.leaders.outside == ()
    assert summary.racks_lost == summary.rack_violations_after == summary.concentration_rises == 0
    assert all(len(after) == len(before) for before, after in placed.values())
    assert Counter(len(after) for _, after in placed.values()).keys() == set(FACTORS)
    held = Counter(b for _, after in placed.values() for b in after)
    assert held[NEW] > 0


def test_a_replacement_takes_over_exactly_what_the_other_had(spark: Any, mixed: Tables) -> None:
    """Each replica in its position; no other replica moves, no other leader changes."""
    options = PlanOptions(replace={OLD: NEW}, only_needed=True)
    placed, summary, _ = planned(spark, mixed, options)
    for before, after in placed.values():
        assert after == tuple(NEW if b == OLD else b for b in before)
    assert summary.moves == sum(OLD in before for before, _ in placed.values())
    assert summary.bytes_ratio == summary.moves_ratio == 1.0


def test_leaders_alone_change_the_order_and_copy_nothing(spark: Any, mixed: Tables) -> None:
    """Every partition keeps its replicas; who leads comes nearer to even."""
    options = PlanOptions(only_leaders=True, tolerance=0.1)
    placed, summary, _ = planned(spark, mixed, options)
    assert all(sorted(before) == sorted(after) for before, after in placed.values())
    assert (summary.moves, summary.bytes_moved) == (0, 0)
    assert summary.leader_changes > 0
    before, after = (Counter(moment[n][0] for moment in placed.values()) for n in (0, 1))
    assert max(after.values()) < max(before.values())
    # The new broker holds nothing that it could lead, which the plan says.
    assert summary.leaders.outside
    assert any("stay outside the band of leaders" in note for note in summary.notes)


def test_draining_with_balance_leaves_the_others_even(spark: Any, mixed: Tables) -> None:
    """A drained broker holds nothing; the others are within the band."""
    options = PlanOptions(drain=frozenset({2}), tolerance=0.1)
    placed, summary, _ = planned(spark, mixed, options)
    assert all(2 not in after for _, after in placed.values())
    assert summary.sizes.outside == summary.counts.outside == summary.leaders.outside == ()
    assert summary.racks_lost == 0


def test_only_what_is_chosen_moves(spark: Any, mixed: Tables) -> None:
    """Included, not excluded, not pinned: by the whole name of the topic."""
    options = PlanOptions(
        include="topic-0000[0-5]",
        exclude=".*3",
        pinned=frozenset({"topic-00004"}),
        drain=frozenset({2}),
        only_needed=True,
    )
    placed, _, _ = planned(spark, mixed, options)
    chosen = {f"topic-0000{n}" for n in (0, 1, 2, 5)}
    for (topic, _), (before, after) in placed.items():
        assert (2 not in after) if topic in chosen else (after == before)


def test_more_replicas_come_in_racks_that_have_none(spark: Any, mixed: Tables) -> None:
    """Every partition gets three; those it had stay, and each is in a rack of its own."""
    options = PlanOptions(replication_factor=3, only_needed=True)
    placed, summary, _ = planned(spark, mixed, options)
    for before, after in placed.values():
        assert after[: len(before)] == before
        assert len({(b - 1) % SMALL.racks for b in after}) == len(after) == 3
    assert summary.moves_ratio == 1.0


def test_rates_follow_the_replicas(spark: Any, mixed: Tables) -> None:
    """Each replica takes in what is written: the sum stays, and goes where the replicas go."""
    rows = [
        (r.topic, r.partition, 2.0, None) for r in mixed.replicas.where("position = 0").collect()
    ]
    rated = replace(mixed, rates=spark.createDataFrame(rows, RATES))
    options = PlanOptions(replace={OLD: NEW}, only_needed=True)
    placed, summary, loads = planned(spark, rated, options)
    assert loads.rates is not None
    for n, rates in enumerate(loads.rates):
        held = Counter(b for moment in placed.values() for b in moment[n])
        assert {b + 1: rate for b, rate in enumerate(rates.tolist()) if rate} == {
            b: 2.0 * count for b, count in held.items()
        }
    assert summary.bytes_in_per_s is not None
    assert summary.document()["bytes_in_per_s"][0][0] == 0


def test_wrong_rates_are_named_by_table_column_and_content(spark: Any, mixed: Tables) -> None:
    """A rate cannot be negative; a topic has to exist."""
    rates = spark.createDataFrame([("topic-00000", 0, -1.0, None), ("x", 0, 1.0, None)], RATES)
    with pytest.raises(InvalidInputError) as raised:
        check_tables(replace(mixed, rates=rates), "snapshot")
    assert str(raised.value).splitlines() == [
        "snapshot/rates: column topic is not in the table topics in 1 row:",
        "  topic=x, partition=0, bytes_in_per_s=1.0",
        "snapshot/rates: column bytes_in_per_s is negative in 1 row:",
        "  topic=topic-00000, partition=0, bytes_in_per_s=-1.0",
    ]
