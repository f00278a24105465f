"""
Write a snapshot from the responses of a cluster, or from files in their place.

Rows go into a spool beside the snapshot as they arrive, and Spark joins them. So memory holds at
most one broker's response, independently of the size of the cluster.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline.tables import (
    BROKERS,
    LOG_DIRS,
    Manifest,
    Tables,
    check_tables,
    read_tables,
    write_tables,
)

_HELD: Final = "topic STRING, partition INT, broker INT, size_bytes BIGINT, log_dir STRING"
_LED: Final = "topic STRING, partition INT, leader INT, isr ARRAY<INT>"
_ASSIGNED: Final = "topic STRING, partition INT, replicas ARRAY<INT>"
_RATED: Final = "topic STRING, partition INT, rate DOUBLE"
_TOPICS: Final = "topic STRING, min_insync_replicas INT, configs MAP<STRING, STRING>"

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
        _spool(
            spool / "held", ("topic", "partition", "broker", "size_bytes", "log_dir"), source.held
        )
        _spool(spool / "led", ("topic", "partition", "leader", "isr"), source.led)
        _spool(spool / "assigned", ("topic", "partition", "replicas"), source.assigned)
        _spool(spool / "topics", ("topic", "min_insync_replicas", "configs"), source.topics)
        _spool(spool / "rates", ("topic", "partition", "rate"), source.rates)
    except OSError as error:
        raise InvalidInputError(f"{directory}: {error.strerror or error}") from error
    tables = _join(spark, spool, list(brokers), manifest)
    log_dirs = list(source.log_dirs)
    if log_dirs:
        tables = replace(tables, log_dirs=spark.createDataFrame(log_dirs, LOG_DIRS))
    # Persisted between check and write, so that the spool is read and joined once.
    kept = [table.persist(StorageLevel.MEMORY_AND_DISK) for table in _joins_of(tables)]
    try:
        check_tables(tables, str(directory))
        write_tables(tables, str(directory))
    finally:
        for table in kept:
            table.unpersist()
        shutil.rmtree(spool, ignore_errors=True)
    # The tables above read the spool, which is deleted.
    return read_tables(spark, str(directory))


def _spool(path: Path, keys: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with _file(path).open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(zip(keys, row, strict=True))) + "\n")


def _file(path: Path) -> Path:
    return path.with_suffix(".jsonl")


def _joins_of(tables: Tables) -> list[Any]:
    """Return the tables that are joined from the spool: all but the brokers."""
    joined = [tables.replicas, tables.topics, tables.rates]
    return [table for table in joined if table is not None]


def _join(spark: Any, spool: Path, brokers: list[BrokerRow], manifest: Manifest) -> Tables:
    def read(name: str, schema: str) -> Any:
        return spark.read.schema(schema).json(str(_file(spool / name)))

    held, led, assigned = read("held", _HELD), read("led", _LED), read("assigned", _ASSIGNED)
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
    topics = (
        read("topics", _TOPICS)
        .join(factors, "topic")
        .select("topic", "replication_factor", "min_insync_replicas", "configs")
    )
    is_rated = _file(spool / "rates").stat().st_size > 0
    rates = _rates(read("rates", _RATED), assigned) if is_rated else None
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
