"""
The tables of a report, computed from journals.

One function for each table; none uses the result of another. Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError

VERSION: Final = 1
PATTERN: Final = "journal.jsonl*"
SCHEMA: Final = (
    "v INT, at STRING, kind STRING, request STRING, topic STRING, partition INT, state STRING, "
    "entries INT, done INT, refused INT, cancelled INT, bytes_total BIGINT, bytes_moved BIGINT, "
    "bytes_remaining BIGINT, eta_low_s DOUBLE, eta_high_s DOUBLE, phase STRING, before STRING, "
    "seconds DOUBLE, leader INT, replica INT, begun STRING, bytes BIGINT, copies INT, "
    "lost ARRAY<INT>, `by` STRING, bytes_in_per_s DOUBLE, broken STRING"
)
PERCENTILES: Final = (0.5, 0.9, 0.99)
RATED: Final = "bytes_in_per_s_before"


Report = dict[str, Any]
"""The tables of a report, by name."""


def read_journals(spark: Any, directories: Sequence[Path]) -> tuple[Any, int]:
    """
    Return the lines of journals of all daemons that led, and the number of those that are not JSON.

    Raises:
        InvalidInputError: there is no journal, or one of another version.

    """
    paths: list[str] = []
    for directory in directories:
        found = sorted(str(path) for path in directory.glob(PATTERN))
        if not found:
            raise InvalidInputError(f"{directory}: there is no {PATTERN}")
        paths += found
    lines = (
        spark.read.schema(SCHEMA)
        .option("columnNameOfCorruptRecord", "broken")
        .json(paths)
        .withColumn("file", F.input_file_name())
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    other = lines.where(F.col("broken").isNull() & (F.col("v") != VERSION)).limit(3).collect()
    if other:
        row = other[0]
        raise InvalidInputError(
            f"{row.file}: column v is {row.v} in a line of {row.at}; this version reads {VERSION}"
        )
    broken = lines.where("broken IS NOT NULL").count()
    # A restarted daemon appends to the same file; no line is written twice.
    good = lines.where("broken IS NULL AND kind IS NOT NULL").drop("broken", "v")
    return good.withColumn("moment", F.to_timestamp("at")), broken


def build_report(journal: Any, changes: Any | None, loads: Any | None = None) -> Report:
    """Build the tables, with the tables ``changes`` and ``brokers`` (loads) of a plan if any."""
    planned = None if changes is None else _planned_copies(changes)
    copied = _copies(journal, planned)
    return {
        "requests": _requests(journal, copied, planned),
        "topics": _topics(copied, planned),
        "brokers": _with_rates(_brokers(journal, copied, planned), loads).orderBy("broker"),
        "pairs": _pairs(copied),
        "phases": _phases(journal),
        "isr_shrinks": _isr_shrinks(journal),
        "stalls": _stalls(journal),
        "etas": _etas(journal),
    }


def _copies(journal: Any, planned: Any | None) -> Any:
    """
    Return every copy, complete or abandoned; a copy whose end two daemons saw counts once.

    A copy can complete before a broker reported its size. Then the size is the one reported for the
    partition later, or the planned one.
    """
    copies = journal.where(F.col("kind").isin("copied", "copy_abandoned"))
    once = Window.partitionBy("request", "topic", "partition", "replica", "begun").orderBy(
        F.col("kind").desc(), "at"
    )
    rows = (
        copies.withColumn("nth", F.row_number().over(once))
        .where("nth = 1")
        .select(
            "request",
            "topic",
            "partition",
            "leader",
            "replica",
            F.to_timestamp("begun").alias("begun"),
            F.col("moment").alias("ended"),
            "seconds",
            "bytes",
            (F.col("kind") == "copied").alias("is_whole"),
        )
    )
    reported = (
        journal.where("kind = 'size'")
        .groupBy("request", "topic", "partition")
        .agg(F.max("bytes").alias("reported"))
    )
    rows = rows.join(reported, ["request", "topic", "partition"], "left")
    known = [F.col("bytes"), F.when(F.col("is_whole"), F.col("reported"))]
    if planned is not None:
        sizes = planned.select(
            "topic", "partition", "replica", F.col("size_bytes").alias("planned")
        )
        rows = rows.join(sizes, ["topic", "partition", "replica"], "left")
        known.append(F.when(F.col("is_whole"), F.col("planned")))
    return rows.withColumn("bytes", F.coalesce(*known)).drop("reported", "planned")


def _planned_copies(changes: Any) -> Any:
    """Return the planned copies: a row for each new replica."""
    return changes.select(
        "topic",
        "partition",
        "wave",
        "size_bytes",
        F.explode(F.array_except("after", "before")).alias("replica"),
    )


def _requests(journal: Any, copied: Any, planned: Any | None) -> Any:
    seen = journal.where(
        F.col("request").isNotNull()
        & F.col("kind").isin("request_begun", "progress", "request_ended")
    )
    ended = F.col("kind") == "request_ended"
    found = seen.groupBy("request").agg(
        F.min("moment").alias("begun"),
        F.max(F.when(ended, F.col("moment"))).alias("ended"),
        F.max(F.when(ended, F.col("state"))).alias("state"),
        F.max("entries").alias("entries"),
        F.max("done").alias("done"),
        F.max("refused").alias("refused"),
        F.max("cancelled").alias("cancelled"),
    )
    moved = copied.groupBy("request").agg(
        *_amounts(),
        F.count(F.when(F.col("bytes").isNull(), 1)).alias("copies_of_unknown_size"),
    )
    rows = found.join(moved, "request", "left").withColumn(
        "seconds", F.col("ended").cast("double") - F.col("begun").cast("double")
    )
    if planned is None:
        return _unplanned(rows, "planned_bytes").orderBy("begun")
    touched = (
        journal.where(F.col("topic").isNotNull() & F.col("request").isNotNull())
        .select("request", "topic", "partition")
        .distinct()
    )
    requested = (
        planned.join(touched, ["topic", "partition"])
        .groupBy("request")
        .agg(F.sum("size_bytes").alias("planned_bytes"))
    )
    return rows.join(requested, "request", "left").orderBy("begun")


def _amounts() -> Iterator[Any]:
    yield F.sum(F.when(F.col("is_whole"), F.col("bytes"))).alias("moved_bytes")
    # Bytes that were copied and deleted again.
    yield F.sum(F.when(~F.col("is_whole"), F.col("bytes"))).alias("abandoned_bytes")
    yield F.count(F.when(F.col("is_whole"), 1)).alias("copies")


def _topics(copied: Any, planned: Any | None) -> Any:
    moved = copied.groupBy("topic").agg(
        *_amounts(),
        F.percentile("seconds", F.lit(0.5)).alias("copy_seconds_p50"),
        F.max("seconds").alias("copy_seconds_max"),
    )
    if planned is None:
        return _unplanned(moved, "planned_bytes").orderBy("topic")
    requested = planned.groupBy("topic").agg(
        F.sum("size_bytes").alias("planned_bytes"), F.count("*").alias("planned_copies")
    )
    return moved.join(requested, "topic", "full").orderBy("topic")


def _brokers(journal: Any, copied: Any, planned: Any | None) -> Any:
    whole = copied.where("is_whole")
    taken = whole.groupBy(F.col("replica").alias("broker")).agg(
        F.sum("bytes").alias("in_bytes"),
        F.count("*").alias("copies_in"),
        F.sum("seconds").alias("copy_seconds"),
    )
    served = whole.groupBy(F.col("leader").alias("broker")).agg(
        F.sum("bytes").alias("served_bytes"), F.count("*").alias("copies_served")
    )
    shrunk = (
        journal.where("kind = 'isr_shrunk'")
        .select(F.explode("lost").alias("broker"))
        .groupBy("broker")
        .agg(F.count("*").alias("isr_losses"))
    )
    rows = taken.join(served, "broker", "full").join(shrunk, "broker", "full")
    if planned is None:
        return _unplanned(rows, "planned_in_bytes")
    requested = planned.groupBy(F.col("replica").alias("broker")).agg(
        F.sum("size_bytes").alias("planned_in_bytes")
    )
    return rows.join(requested, "broker", "full")


def _unplanned(rows: Any, column: str) -> Any:
    return rows.withColumn(column, F.lit(None).cast("bigint"))


def _with_rates(brokers: Any, loads: Any | None) -> Any:
    """Add the produce rates, before and as planned, if the snapshot has them."""
    if loads is None or RATED not in loads.columns or loads.where(F.col(RATED) > 0).isEmpty():
        return brokers
    rates = loads.select("broker", RATED, RATED.replace("before", "after"))
    return brokers.join(rates, "broker", "left")


def _pairs(copied: Any) -> Any:
    return (
        copied.where("is_whole")
        .groupBy(F.col("leader").alias("served_by"), F.col("replica").alias("copied_by"))
        .agg(
            F.count("*").alias("copies"),
            F.sum("bytes").alias("bytes"),
            F.sum("seconds").alias("seconds"),
            (F.sum("bytes") / F.sum(F.when(F.col("bytes").isNotNull(), F.col("seconds")))).alias(
                "bytes_per_second_of_a_copy"
            ),
        )
        .orderBy("served_by", "copied_by")
    )


def _phases(journal: Any) -> Any:
    left = journal.where("kind = 'phase' AND seconds IS NOT NULL")
    return (
        left.groupBy(F.col("before").alias("phase"))
        .agg(
            F.count("*").alias("count"),
            *(
                F.percentile("seconds", F.lit(p)).alias(f"p{round(p * 100)}_seconds")
                for p in PERCENTILES
            ),
            F.max("seconds").alias("max_seconds"),
            F.sum("seconds").alias("sum_seconds"),
        )
        .orderBy("phase")
    )


def _isr_shrinks(journal: Any) -> Any:
    return (
        journal.where("kind = 'isr_shrunk'")
        .select("moment", "request", "topic", "partition", "leader", "lost")
        .orderBy("moment", "topic", "partition")
    )


def _stalls(journal: Any) -> Any:
    """Return the stalls by reason, with the duration of those whose end is in the journal."""
    events = journal.where(F.col("kind").isin("stalled", "goes_on"))
    after = Window.partitionBy("topic", "partition").orderBy("moment")
    spans = events.withColumn("next_kind", F.lead("kind").over(after)).withColumn(
        "next_moment", F.lead("moment").over(after)
    )
    lasted = F.when(
        F.col("next_kind") == "goes_on",
        F.col("next_moment").cast("double") - F.col("moment").cast("double"),
    )
    return (
        spans.where("kind = 'stalled'")
        .withColumn("lasted", lasted)
        .groupBy("by")
        .agg(
            F.count("*").alias("stalls"),
            F.count(F.when(F.col("lasted").isNull(), 1)).alias("not_seen_to_end"),
            F.percentile("lasted", F.lit(0.5)).alias("p50_seconds"),
            F.max("lasted").alias("max_seconds"),
        )
        .orderBy("by")
    )


def _etas(journal: Any) -> Any:
    """Return each estimate of the remaining time beside the actual one."""
    ends = (
        journal.where("kind = 'request_ended'").groupBy("request").agg(F.max("moment").alias("end"))
    )
    estimates = journal.where("kind = 'progress' AND eta_low_s IS NOT NULL")
    left = F.col("end").cast("double") - F.col("moment").cast("double")
    middle = (F.col("eta_low_s") + F.col("eta_high_s")) / 2
    return (
        estimates.join(ends, "request")
        .where(left > 0)
        .select(
            "request",
            "moment",
            "eta_low_s",
            "eta_high_s",
            left.alias("remained_s"),
            (middle - left).alias("error_s"),
            left.between(F.col("eta_low_s"), F.col("eta_high_s")).alias("was_within"),
        )
        .orderBy("request", "moment")
    )
