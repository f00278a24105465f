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
from typing import Any, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import InvalidInputError, errors_about
from controller.pipeline.cluster_frame import RATE_COLUMNS
from controller.pipeline.planner import ReportProgress
from controller.pipeline.report import read_journals
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
    "held_again": "topic STRING, partition INT, broker INT, size_bytes BIGINT, seconds DOUBLE",
    "rates": "source INT, topic STRING, partition INT, bytes_in DOUBLE, bytes_out DOUBLE",
}
"""The parts of a source in the order in which they are read, and their columns."""

Assigned = tuple[str, int, tuple[int, ...]]
"""Topic, partition, replicas."""
BrokerRow = tuple[int, str | None, str | None, int | None, bool]
"""Id, rack, host, capacity, and whether the broker is alive."""
DirectoryRow = tuple[int, str, str, int | None, int | None, bool]
"""Broker, directory, volume, total and usable bytes, and whether the directory has failed."""


class RateRow(NamedTuple):
    """Rates of a partition, or of all partitions of a topic together."""

    source: int
    """Where several sources know a rate, that of the lowest number counts."""
    topic: str
    partition: int | None
    """None: the rates are sums, which the partitions of the topic share evenly."""
    bytes_in: float | None
    """Bytes per second that producers write; None: unknown."""
    bytes_out: float | None = None
    """Bytes per second that consumers fetch; None: unknown."""


FILE, PROMETHEUS, MEASURED, JOURNAL = range(4)
"""The sources of rates; a lower one counts first."""


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
    held_again: Iterable[tuple[str, int, int, int, float]] = ()
    """A later reading of the log directories: topic, partition, broker, bytes, seconds since."""
    rates: Iterable[RateRow] = ()
    is_idle: bool = False
    """Whether the rates of partitions that no source knows are zero."""
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
    tables = _join(spark, spool, list(brokers), manifest, is_idle=source.is_idle)
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


def _join(
    spark: Any, spool: Path, brokers: list[BrokerRow], manifest: Manifest, *, is_idle: bool
) -> Tables:
    held, led, assigned, named, again, rated = (
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
    sources = []
    if _file(spool, "rates").stat().st_size:
        sources.append(_shared_rates(rated, assigned))
    if _file(spool, "held_again").stat().st_size:
        sources.append(_measured_rates(held, again, led))
    rates = _first_known(sources, assigned, is_idle=is_idle) if sources else None
    return Tables(spark.createDataFrame(brokers, BROKERS), replicas, topics, manifest, rates)


def _shared_rates(rated: Any, assigned: Any) -> Any:
    """Return the rates of partitions; those of a topic are shared evenly by its partitions."""
    partitions = assigned.select("topic", "partition")
    count = Window.partitionBy("topic")
    shared = (
        partitions.withColumn("n", F.count("*").over(count))
        .join(rated.where("partition IS NULL").drop("partition"), "topic")
        .select(
            "source",
            "topic",
            "partition",
            *((F.col(name) / F.col("n")).alias(name) for name in RATE_COLUMNS),
        )
    )
    by_partition = rated.where("partition IS NOT NULL").join(
        partitions, ["topic", "partition"], "left_semi"
    )
    return (
        by_partition.select("source", "topic", "partition", *RATE_COLUMNS)
        .unionByName(shared)
        .groupBy("source", "topic", "partition")
        .agg(*(F.sum(name).alias(name) for name in RATE_COLUMNS))
    )


def _measured_rates(held: Any, again: Any, led: Any) -> Any:
    """Return what the leader's log grew by; a log that shrank meanwhile has an unknown rate."""
    grown = F.col("later") - F.col("size_bytes")
    return (
        again.withColumnRenamed("size_bytes", "later")
        .join(held, ["topic", "partition", "broker"])
        .join(led.withColumnRenamed("leader", "broker"), ["topic", "partition", "broker"])
        .select(
            F.lit(MEASURED).alias("source"),
            "topic",
            "partition",
            F.when(grown >= 0, grown / F.col("seconds")).alias("bytes_in"),
            F.lit(None).cast("double").alias("bytes_out"),
        )
    )


def _first_known(sources: Sequence[Any], assigned: Any, *, is_idle: bool) -> Any:
    """Return each rate from the first source that knows it."""
    table = sources[0]
    for other in sources[1:]:
        table = table.unionByName(other)
    first = [
        F.min(F.when(F.col(name).isNotNull(), F.struct("source", name)))[name].alias(name)
        for name in RATE_COLUMNS
    ]
    found = table.groupBy("topic", "partition").agg(*first)
    if is_idle:
        # A rate that no source has for any partition stays unknown.
        known = table.agg(*(F.count(name) for name in RATE_COLUMNS)).first()
        idle = {name: 0.0 for name, count in zip(RATE_COLUMNS, known, strict=True) if count}
        partitions = assigned.select("topic", "partition")
        found = partitions.join(found, ["topic", "partition"], "left").fillna(idle)
    return found.where(F.coalesce(*RATE_COLUMNS).isNotNull()).select(
        "topic", "partition", *(F.col(name).alias(f"{name}_per_s") for name in RATE_COLUMNS)
    )


def rate_notes(tables: Tables) -> Iterator[str]:
    """Yield how many partitions have rates, and which topics have none."""
    partitions = tables.replicas.select("topic", "partition").distinct()
    if tables.rates is None:
        yield "rates are unknown: no source was named, or it knows no partition of the cluster"
        return
    joined = partitions.join(tables.rates, ["topic", "partition"], "left").persist()
    for column, what in (
        ("bytes_in_per_s", "bytes in"),
        ("bytes_out_per_s", "bytes out to consumers"),
    ):
        total, known = joined.agg(F.count("*"), F.count(column)).first()
        if known == total:
            continue
        lacking = joined.where(F.col(column).isNull()).select("topic").distinct()
        names = [row.topic for row in lacking.orderBy("topic").limit(ROWS_SHOWN + 1).collect()]
        more = " ..." if len(names) > ROWS_SHOWN else ""
        yield (
            f"{what}: unknown for {total - known} of {count_text(total, 'partition')}, of the "
            f"topics {', '.join(names[:ROWS_SHOWN])}{more}"
        )
    joined.unpersist()


def read_rate_file(spark: Any, path: Path) -> Iterator[RateRow]:
    """
    Yield the rates of a file: CSV with a header line, or Parquet.

    Its columns are ``topic``, ``partition`` (empty: the sum of the topic), ``bytes_in_per_s`` and
    ``bytes_out_per_s``; a column or cell that is missing is unknown.

    Raises:
        InvalidInputError: the file cannot be read, or a row is wrong.

    """
    try:
        if path.suffix == ".csv":
            table = spark.read.option("header", "true").csv(str(path))
        else:
            table = spark.read.parquet(str(path))
    except AnalysisException as error:
        raise InvalidInputError(f"{path}: {str(error).splitlines()[0]}") from error
    columns = {
        "topic": "string",
        "partition": "int?",
        "bytes_in_per_s": "double?",
        "bytes_out_per_s": "double?",
    }
    table = _typed(path, table, columns)
    rates = [column for column in columns if column.endswith("_per_s")]
    for column in rates:
        bad = (F.col(column) < 0) | F.isnan(column)
        rows = table.where(bad).limit(ROWS_SHOWN).collect()
        _refuse_rows(path, f"column {column} is negative or not a number", rows)
    twice = table.groupBy("topic", "partition").count().where("count > 1").limit(ROWS_SHOWN)
    _refuse_rows(path, "columns topic, partition are not unique", twice.collect())
    if not table.where(F.coalesce(*rates).isNotNull()).limit(1).collect():
        raise InvalidInputError(f"{path}: there is no rate in the columns {', '.join(rates)}")
    for row in table.toLocalIterator():
        yield RateRow(FILE, *row)


def read_journal_rates(spark: Any, directories: Sequence[Path]) -> Iterator[RateRow]:
    """Yield the last rate of each partition in the journals of daemons; they know bytes in."""
    journal, _ = read_journals(spark, directories)
    known = journal.where("kind IN ('copied', 'copy_abandoned') AND bytes_in_per_s IS NOT NULL")
    last = known.groupBy("topic", "partition").agg(
        F.max(F.struct("moment", "bytes_in_per_s"))["bytes_in_per_s"].alias("rate")
    )
    for topic, partition, rate in last.toLocalIterator():
        yield RateRow(JOURNAL, topic, partition, rate)


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
    rates: Iterable[RateRow] = (),
    is_idle: bool = False,
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
        is_idle: As there.

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
        rates=rates,
        is_idle=is_idle,
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
    except AnalysisException as error:
        raise InvalidInputError(f"{path}: {str(error).splitlines()[0]}") from error
    return list(_typed(path, table, columns).collect())


def _typed(path: Path, table: Any, columns: Mapping[str, str]) -> Any:
    """Return the columns with their types; a question mark follows the type of optional ones."""
    missing = [c for c in columns if c not in table.columns and not columns[c].endswith("?")]
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
    return table.select(*columns)


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
