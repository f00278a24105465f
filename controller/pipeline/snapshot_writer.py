"""
Write a snapshot from the responses of a cluster, or from rows of files in their place.

Nothing is guessed or left out. Rows go into a spool beside the snapshot as they arrive, and Spark
joins them. So memory holds at most one broker's response, independently of the size of the cluster.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import InvalidInputError
from controller.pipeline.cluster_frame import RATE_COLUMNS
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


def read_journal_rates(spark: Any, directories: Sequence[Path]) -> Iterator[RateRow]:
    """Yield the last rate of each partition in the journals of daemons; they know bytes in."""
    journal, _ = read_journals(spark, directories)
    known = journal.where("kind IN ('copied', 'copy_abandoned') AND bytes_in_per_s IS NOT NULL")
    last = known.groupBy("topic", "partition").agg(
        F.max(F.struct("moment", "bytes_in_per_s"))["bytes_in_per_s"].alias("rate")
    )
    for topic, partition, rate in last.toLocalIterator():
        yield RateRow(JOURNAL, topic, partition, rate)
