"""
The loads of a report: before the plan, as planned, and after, beside what any plan had to copy.

The plan has the first two, a later snapshot the third. A load that the later snapshot does not have
is empty: it is not the planned one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline.snapshot_tables import Tables
from controller.planning.load_goals import (
    BYTES_IN,
    BYTES_OUT,
    DISK,
    LEADER_BYTES_IN,
    LEADERS,
    REPLICAS,
)

ALL: Final = "all"
"""The row of the whole plan."""
GOALS: Final = (
    "goal STRING, soft DOUBLE, hard DOUBLE, weight DOUBLE, highest_before DOUBLE, "
    "highest_planned DOUBLE, highest_after DOUBLE, outside_planned BIGINT, outside_after BIGINT, "
    "bound_bytes BIGINT, planned_bytes BIGINT, moved_bytes BIGINT, planned_by_bound DOUBLE, "
    "moved_by_bound DOUBLE"
)


def report_loads(planned: Any, after: Tables | None) -> Any:
    """Return the table ``loads`` of a plan with the loads of a later snapshot."""
    rows = planned.withColumnRenamed("after", "planned")
    if after is None:
        return rows.withColumn("after", F.lit(None).cast("double"))
    found = _loads_of(after).persist()
    brokers = rows.where("broker IS NOT NULL").join(found, ["goal", "broker"], "left")
    # A broker that holds nothing has no row; a load that is unknown has none on any broker.
    known = F.broadcast(found.select("goal").distinct().withColumn("is_known", F.lit(1)))
    brokers = brokers.join(known, "goal", "left").withColumn(
        "after", F.coalesce("after", F.when(F.col("is_known") == 1, 0.0))
    )
    racks = brokers.groupBy("goal", "rack").agg(F.sum("after").alias("after"))
    of_racks = rows.where("broker IS NULL").join(racks, ["goal", "rack"], "left")
    columns = [*rows.columns, "after"]
    return brokers.select(columns).unionByName(of_racks.select(columns))


def _loads_of(tables: Tables) -> Any:
    """Return goal, broker and load of a snapshot."""
    leads = F.col("position") == 0
    replicas = tables.replicas.select("topic", "partition", "broker", "position", "size_bytes")
    loads = {
        DISK: F.sum("size_bytes"),
        REPLICAS: F.count("*"),
        LEADERS: F.count(F.when(leads, 1)),
    }
    if tables.rates is not None:
        factor = replicas.groupBy("topic", "partition").agg(F.count("*").alias("factor"))
        replicas = replicas.join(factor, ["topic", "partition"]).join(
            tables.rates, ["topic", "partition"], "left"
        )
        rate, fetched = F.col("bytes_in_per_s"), F.col("bytes_out_per_s")
        sent = fetched + (F.col("factor") - 1) * rate
        loads |= {
            BYTES_IN: F.sum(rate),
            LEADER_BYTES_IN: F.sum(F.when(leads, rate)),
            BYTES_OUT: F.sum(F.when(leads, sent)),
        }
        # A sum without some partitions would look like a lower load.
        if not replicas.where(rate.isNull()).isEmpty():
            loads = {name: loads[name] for name in (DISK, REPLICAS, LEADERS)}
        elif not replicas.where(fetched.isNull()).isEmpty():
            del loads[BYTES_OUT]
    sums = replicas.groupBy("broker").agg(*(load.alias(name) for name, load in loads.items()))
    pairs = [
        F.struct(F.lit(n).alias("goal"), F.col(n).cast("double").alias("after")) for n in loads
    ]
    return sums.select("broker", F.explode(F.array(*pairs)).alias("one")).select(
        "one.goal", "broker", "one.after"
    )


def report_goals(spark: Any, plan: Path, loads: Any, moved: int | None) -> Any:
    """Return a row for each goal of a plan, and one for the whole plan."""
    path = plan / "summary.json"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))["plan"]
        goals, size, bound = summary["goals"], summary["bytes_moved"], summary["bytes_bound"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path}: not the summary of a plan: {error}") from error
    after = {row.goal: row for row in _shares_after(loads).collect()}
    rows = []
    for goal in goals:
        found = after.get(goal["goal"])
        highest = None if found is None else found.highest
        outside = None if found is None else found.outside
        rows.append(
            (
                *(goal[key] for key in ("goal", "soft", "hard", "weight")),
                float(goal["before"][1]),
                float(goal["after"][1]),
                highest,
                len(goal["outside"]),
                outside,
                *_distances(goal["bytes_bound"], size, moved),
            )
        )
    rows.append((ALL, *[None] * 8, *_distances(bound, size, moved)))
    return spark.createDataFrame(rows, GOALS)


def _distances(bound: int, size: int, moved: int | None) -> tuple[Any, ...]:
    by_bound = [None if not bound or n is None else n / bound for n in (size, moved)]
    return bound, size, moved, *by_bound


def _shares_after(loads: Any) -> Any:
    """Return by goal the highest share of a broker, by the mean, and how many are outside."""
    rows = loads.where("broker IS NOT NULL AND after IS NOT NULL AND target > 0")
    capacity = F.coalesce("capacity", F.lit(1.0))
    # Rounding may put a load a little beyond the edge that it stands on.
    low, high = F.col("low") - 0.5, F.col("high") + 0.5
    return rows.groupBy("goal").agg(
        (F.max(F.col("after") / capacity) / (F.sum("after") / F.sum(capacity))).alias("highest"),
        F.count(F.when(~F.col("after").between(low, high), 1)).alias("outside"),
    )
