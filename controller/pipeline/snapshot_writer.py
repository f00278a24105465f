"""
Write a snapshot from the responses of a cluster, or from files in their place.

Files are a stock JSON, and CSV files of sizes and brokers. Errors name the file, the column and the
first rows; nothing is guessed or left out. Rows go into a spool beside the snapshot as they arrive,
and Spark joins them. So memory holds at most one broker's response, independently of the size of
the cluster.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import InvalidInputError, errors_about
from controller.pipeline.planner import ReportProgress
from controller.pipeline.snapshot_tables import (
    BROKERS,
    LOG_DIRS,
    ROWS_SHOWN,
    Manifest,
    Tables,
    check_tables,
    read_tables,
    write_tables,
)
from controller.planning.plan_text import PlanPart, find_plan

_SPOOLED: Final = {
    "held": "topic STRING, partition INT, broker INT, size_bytes BIGINT, log_dir STRING",
    "led": "topic STRING, partition INT, leader INT, isr ARRAY<INT>",
    "assigned": "topic STRING, partition INT, replicas ARRAY<INT>",
    "topics": "topic STRING, min_insync_replicas INT, configs MAP<STRING,STRING>",
    "rates": "topic STRING, partition INT, rate DOUBLE",
}
"""The parts of a source in the order in which they are read, and their columns."""

Assigned = tuple[str, int, tuple[int, ...]]
"""Topic, partition, replicas."""
BrokerRow = tuple[int, str | None, str | None, int | None, bool]
"""Id, rack, host, capacity, and whether the broker is alive."""
DirectoryRow = tuple[int, str, str, int | None, int | None, bool]
"""Broker, directory, volume, total and usable bytes, and whether the directory has failed."""


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """The contents of a snapshot; each iterable is read once."""

    held: Iterable[tuple[str, int, int, int, str]]
    """Topic, partition, broker, bytes, log directory."""
    led: Iterable[tuple[str, int, int, tuple[int, ...]]]
    """Topic, partition, leader, ISR."""
    assigned: Iterable[Assigned]
    topics: Iterable[tuple[str, int | None, Mapping[str, str]]]
    """Topic, min.insync.replicas, topic settings."""
    rates: Iterable[tuple[str, int | None, float]] = ()
    """Topic, partition (None: the topic's sum), bytes per second that producers write."""
    log_dirs: Iterable[DirectoryRow] = ()
    """Read last: the responses with the replicas have them."""


def write_snapshot(
    spark: Any,
    source: SnapshotSource,
    brokers: Iterable[BrokerRow],
    manifest: Manifest,
    directory: Path,
) -> Tables:
    """
    Write a snapshot. ``brokers`` is read after the replicas, whose responses show which are alive.

    Raises:
        InvalidInputError: the directory cannot be written, or the contents are inconsistent.

    """
    spool = directory / "spool"
    try:
        spool.mkdir(parents=True, exist_ok=True)
        for name, columns in _SPOOLED.items():
            keys = [column.split()[0] for column in columns.split(", ")]
            with _file(spool, name).open("w", encoding="utf-8") as file:
                for row in getattr(source, name):
                    file.write(json.dumps(dict(zip(keys, row, strict=True))) + "\n")
    except OSError as error:
        raise InvalidInputError(f"{directory}: {error.strerror or error}") from error
    tables = _join(spark, spool, list(brokers), manifest)
    log_dirs = list(source.log_dirs)
    if log_dirs:
        tables = replace(tables, log_dirs=spark.createDataFrame(log_dirs, LOG_DIRS))
    # Persisted between check and write, so that the spool is read and joined once.
    joined = [
        table for table in (tables.replicas, tables.topics, tables.rates) if table is not None
    ]
    kept = [table.persist(StorageLevel.MEMORY_AND_DISK) for table in joined]
    try:
        check_tables(tables, str(directory))
        write_tables(tables, str(directory))
    finally:
        for table in kept:
            table.unpersist()
        shutil.rmtree(spool, ignore_errors=True)
    # The tables above read the spool, which is deleted.
    return read_tables(spark, str(directory))


def _file(spool: Path, name: str) -> Path:
    return spool / f"{name}.jsonl"


def _join(spark: Any, spool: Path, brokers: list[BrokerRow], manifest: Manifest) -> Tables:
    held, led, assigned, named, rated = (
        spark.read.schema(schema).json(str(_file(spool, name))) for name, schema in _SPOOLED.items()
    )
    largest = held.groupBy("topic", "partition").agg(F.max("size_bytes").alias("largest"))
    replicas = (
        assigned.select("topic", "partition", F.posexplode("replicas").alias("position", "broker"))
        .join(held, ["topic", "partition", "broker"], "left")
        .join(largest, ["topic", "partition"], "left")
        .join(led, ["topic", "partition"], "left")
        .select(
            "topic",
            "partition",
            "broker",
            "position",
            # A broker that is down reports no size: assume that of the largest other replica.
            F.coalesce("size_bytes", "largest", F.lit(0)).cast("bigint").alias("size_bytes"),
            "log_dir",
            (F.col("leader") == F.col("broker")).alias("is_leader"),
            F.array_contains("isr", F.col("broker")).alias("in_isr"),
        )
    )
    factors = assigned.groupBy("topic").agg(F.max(F.size("replicas")).alias("replication_factor"))
    topics = named.join(factors, "topic").select(
        "topic", "replication_factor", "min_insync_replicas", "configs"
    )
    is_rated = _file(spool, "rates").stat().st_size > 0
    rates = _rates(rated, assigned) if is_rated else None
    return Tables(spark.createDataFrame(brokers, BROKERS), replicas, topics, manifest, rates)


def _rates(rated: Any, assigned: Any) -> Any:
    """Return the rate of every partition; a topic's rate is shared evenly by its partitions."""
    partitions = assigned.select("topic", "partition")
    count = Window.partitionBy("topic")
    shared = (
        partitions.withColumn("n", F.count("*").over(count))
        .join(rated.where("partition IS NULL").drop("partition"), "topic")
        .select("topic", "partition", (F.col("rate") / F.col("n")).alias("rate"))
    )
    by_partition = rated.where("partition IS NOT NULL").join(
        partitions, ["topic", "partition"], "left_semi"
    )
    return (
        by_partition.select("topic", "partition", "rate")
        .unionByName(shared)
        .groupBy("topic", "partition")
        .agg(F.sum("rate").alias("bytes_in_per_s"))
    )


# --- files ---------------------------------------------------------------------------------------


def snapshot_of_files(  # noqa: PLR0913, PLR0917 - the files
    spark: Any,
    plan: Path,
    sizes: Path | None,
    brokers: Path | None,
    taken_at: str,
    directory: Path,
    *,
    progress: ReportProgress,
    rates: Sequence[tuple[str, int | None, float]] = (),
) -> Tables:
    """
    Write a snapshot.

    Args:
        spark: The session.
        plan: The current assignment as Kafka's own tool prints it, alone or with its headings.
        sizes: ``topic,partition,size_bytes`` with a header line; None: all sizes are equal.
        brokers: ``broker,rack,capacity_bytes`` with a header line; None: those of the plan.
        taken_at: The time of the snapshot.
        directory: Its directory.
        progress: Reports which of several plans in the file is taken.
        rates: As in ``SnapshotSource``.

    Raises:
        InvalidInputError: a file is malformed, or the files contradict each other.

    """
    listed = _stock(plan, progress)
    known_sizes = {} if sizes is None else _sizes(spark, sizes)
    if sizes is not None:
        missing = [row for row in listed if row[:2] not in known_sizes]
        what = f"column size_bytes is missing for {count_text(len(missing), 'partition')} of {plan}"
        _refuse_entries(sizes, what, missing)
    ids = sorted({b for _, _, replicas in listed for b in replicas})
    rows: list[BrokerRow] = [(b, None, None, None, True) for b in ids]
    if brokers is not None:
        rows = _brokers(spark, brokers)
        known = {row[0] for row in rows}
        strange = [row for row in listed if not set(row[2]) <= known]
        what = f"replicas are on brokers that are not in column broker of {brokers}"
        _refuse_entries(plan, f"{what} in {count_text(len(strange), 'entry', 'entries')}", strange)

    def held() -> Iterator[tuple[str, int, int, int, str]]:
        for topic, partition, replicas in listed:
            for broker in replicas:
                size = known_sizes.get((topic, partition), 1)
                yield topic, partition, broker, size, ""

    topics = sorted({topic for topic, _, _ in listed})
    source = SnapshotSource(
        held(),
        ((t, p, replicas[0], replicas) for t, p, replicas in listed),
        listed,
        ((topic, None, {}) for topic in topics),
        rates,
    )
    return write_snapshot(spark, source, rows, Manifest("", taken_at, str(plan)), directory)


def _stock(path: Path, progress: ReportProgress) -> list[Assigned]:
    with errors_about(path):
        text = find_plan(path.read_bytes(), PlanPart.CURRENT)
    if text.note is not None:
        progress(f"{path}: {text.note}")
    listed = text.document.get("partitions")
    if not isinstance(listed, list):
        raise InvalidInputError(f"{path}: partitions is not a list")
    found: list[Assigned] = []
    for n, entry in enumerate(listed):
        try:
            row = str(entry["topic"]), int(entry["partition"]), tuple(map(int, entry["replicas"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{path}: entry {n} of partitions: {error!r}: {entry}"
            ) from error
        found.append(row)
    if not found:
        raise InvalidInputError(f"{path}: partitions is empty")
    often = Counter(row[:2] for row in found)
    for what, rows in (
        ("partition is listed more than once", [r for r in found if often[r[:2]] > 1]),
        ("partition is negative", [r for r in found if r[1] < 0]),
        ("replicas is empty", [r for r in found if not r[2]]),
        ("replicas names a broker twice", [r for r in found if len(set(r[2])) < len(r[2])]),
        ("replicas names a negative broker", [r for r in found if min(r[2], default=0) < 0]),
    ):
        _refuse_entries(path, f"{what} in {count_text(len(rows), 'entry', 'entries')}", rows)
    return found


def _refuse_entries(path: Path, what: str, rows: Sequence[Assigned]) -> None:
    """Refuse entries, if there are any; name the first ones."""
    if rows:
        lines = [f"  topic={t}, partition={n}, replicas={list(r)}" for t, n, r in rows[:ROWS_SHOWN]]
        raise InvalidInputError(f"{path}: {what}:\n" + "\n".join(lines))


def _csv(spark: Any, path: Path, columns: Mapping[str, str]) -> list[Any]:
    """Read a CSV file with a header; refuse missing required columns and invalid values."""
    try:
        table = spark.read.option("header", "true").csv(str(path))
        missing = [c for c in columns if c not in table.columns and not columns[c].endswith("?")]
    except AnalysisException as error:
        raise InvalidInputError(f"{path}: {str(error).splitlines()[0]}") from error
    if missing:
        raise InvalidInputError(
            f"{path}: column {missing[0]} is missing; there are {', '.join(table.columns)}"
        )
    for column, kind in columns.items():
        if column not in table.columns:
            table = table.withColumn(column, F.lit(None).cast("string"))
        typed = F.expr(f"try_cast(`{column}` AS {kind.rstrip('?')})")
        needed = not kind.endswith("?")
        bad = typed.isNull() & (F.col(column).isNotNull() | F.lit(1).eqNullSafe(int(needed)))
        what = f"column {column} is not {kind.rstrip('?')}"
        _refuse_rows(path, what, table.where(bad).limit(ROWS_SHOWN).collect())
        table = table.withColumn(column, typed)
    rows = table.select(*columns).collect()
    return list(rows)


def _refuse_rows(path: Path, what: str, rows: Sequence[Any]) -> None:
    """Refuse rows, if there are any."""
    if rows:
        shown = "\n".join(f"  {','.join(map(str, row))}" for row in rows[:ROWS_SHOWN])
        raise InvalidInputError(f"{path}: {what} in:\n{shown}")


def _sizes(spark: Any, path: Path) -> dict[tuple[str, int], int]:
    rows = _csv(spark, path, {"topic": "string", "partition": "int", "size_bytes": "bigint"})
    negative = [row for row in rows if row.size_bytes < 0]
    _refuse_rows(path, "column size_bytes is negative", negative)
    often = Counter((row.topic, row.partition) for row in rows)
    twice = [row for row in rows if often[row.topic, row.partition] > 1]
    _refuse_rows(path, "columns topic, partition are not unique", twice)
    return {(row.topic, row.partition): row.size_bytes for row in rows}


def _brokers(spark: Any, path: Path) -> list[BrokerRow]:
    kinds = {"broker": "int", "rack": "string?", "capacity_bytes": "bigint?"}
    return [
        (row.broker, row.rack, None, row.capacity_bytes, True) for row in _csv(spark, path, kinds)
    ]
