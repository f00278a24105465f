"""
A snapshot, taken from what a cluster said or from a stock JSON with sizes.

Answers go line by line into a spool beside the snapshot as they come; Spark joins them. So nothing
here holds more than one broker's answer, whatever the size of the cluster.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from controller.errors import PlanInvalidError
from controller.pipeline.tables import (
    BROKERS,
    Manifest,
    Tables,
    check_tables,
    read_tables,
    write_tables,
)

_HELD: Final = "topic STRING, partition INT, broker INT, size_bytes BIGINT, log_dir STRING"
_LED: Final = "topic STRING, partition INT, leader INT, isr ARRAY<INT>"
_ASSIGNED: Final = "topic STRING, partition INT, replicas ARRAY<INT>"
_TOPICS: Final = "topic STRING, min_insync_replicas INT, configs MAP<STRING, STRING>"

BrokerRow = tuple[int, str | None, str | None, int | None, bool]
"""Id, rack, host, capacity, whether it is alive."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a cluster said, as it comes: each is read once."""

    held: Iterable[tuple[str, int, int, int, str]]
    """Topic, partition, broker, bytes, log directory."""
    led: Iterable[tuple[str, int, int, tuple[int, ...]]]
    """Topic, partition, leader, ISR."""
    assigned: Iterable[tuple[str, int, tuple[int, ...]]]
    """Topic, partition, replicas."""
    topics: Iterable[tuple[str, int | None, Mapping[str, str]]]
    """Topic, min.insync.replicas, settings of its own."""


def capture(
    spark: Any,
    told: Told,
    brokers: Iterable[BrokerRow],
    manifest: Manifest,
    directory: Path,
) -> Tables:
    """
    Write a snapshot of what a cluster said. ``brokers`` is asked for last: the sizes come before.

    Raises:
        PlanInvalidError: the directory cannot be written, or what was said contradicts itself.

    """
    spool = directory / "spool"
    try:
        spool.mkdir(parents=True, exist_ok=True)
        _spool(spool / "held", ("topic", "partition", "broker", "size_bytes", "log_dir"), told.held)
        _spool(spool / "led", ("topic", "partition", "leader", "isr"), told.led)
        _spool(spool / "assigned", ("topic", "partition", "replicas"), told.assigned)
        _spool(spool / "topics", ("topic", "min_insync_replicas", "configs"), told.topics)
    except OSError as error:
        raise PlanInvalidError(f"{directory}: {error.strerror or error}") from error
    tables = _joined(spark, spool, list(brokers), manifest)
    try:
        check_tables(tables, str(directory))
        write_tables(tables, str(directory))
    finally:
        shutil.rmtree(spool, ignore_errors=True)
    # Those above would read the spool.
    return read_tables(spark, str(directory))


def _spool(path: Path, keys: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with path.with_suffix(".jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(zip(keys, row, strict=True))) + "\n")


def _joined(spark: Any, spool: Path, brokers: list[BrokerRow], manifest: Manifest) -> Tables:
    def read(name: str, schema: str) -> Any:
        return spark.read.schema(schema).json(str(spool / f"{name}.jsonl"))

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
            # A broker that is down tells nothing: its replica is as large as the others.
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
    return Tables(spark.createDataFrame(brokers, BROKERS), replicas, topics, manifest)


# --- without a cluster -------------------------------------------------------------------------


def told_by_files(
    spark: Any,
    plan: Path,
    sizes: Path | None,
    brokers: Path | None,
) -> tuple[Told, list[BrokerRow]]:
    """
    Return what a stock JSON says, with sizes and brokers from CSV files where there are any.

    Args:
        spark: The session.
        plan: The current assignment as Kafka's own tool prints it.
        sizes: ``topic,partition,size_bytes`` with a header line; else all count the same.
        brokers: ``broker,rack,capacity_bytes`` with a header line; else those in the plan.

    Raises:
        PlanInvalidError: a file cannot be understood.

    """
    listed = _stock(plan)
    told_sizes = {} if sizes is None else _sizes(spark, sizes)
    known = None if brokers is None else _brokers(spark, brokers)
    ids = sorted({b for _, _, replicas in listed for b in replicas})
    rows: list[BrokerRow] = [(b, None, None, None, True) for b in ids] if known is None else known

    def held() -> Iterator[tuple[str, int, int, int, str]]:
        for topic, partition, replicas in listed:
            for broker in replicas:
                size = told_sizes.get((topic, partition), 0 if sizes is not None else 1)
                yield topic, partition, broker, size, ""

    topics = sorted({topic for topic, _, _ in listed})
    told = Told(
        held(),
        ((t, p, replicas[0], replicas) for t, p, replicas in listed),
        listed,
        ((topic, None, {}) for topic in topics),
    )
    return told, rows


def _stock(path: Path) -> list[tuple[str, int, tuple[int, ...]]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        listed = document["partitions"]
    except OSError as error:
        raise PlanInvalidError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PlanInvalidError(f"{path}: not a stock JSON: {error!r}") from error
    found: list[tuple[str, int, tuple[int, ...]]] = []
    for n, entry in enumerate(listed):
        try:
            row = str(entry["topic"]), int(entry["partition"]), tuple(map(int, entry["replicas"]))
        except (KeyError, TypeError, ValueError) as error:
            raise PlanInvalidError(
                f"{path}: entry {n} of partitions: {error!r}: {entry}"
            ) from error
        found.append(row)
    if not found:
        raise PlanInvalidError(f"{path}: partitions is empty")
    return found


def _csv(spark: Any, path: Path, columns: Mapping[str, str]) -> list[Any]:
    """Read a CSV file with a header; every needed column has to be there, and every row right."""
    try:
        table = spark.read.option("header", "true").csv(str(path))
        missing = [c for c in columns if c not in table.columns and not columns[c].endswith("?")]
    except AnalysisException as error:
        raise PlanInvalidError(f"{path}: {str(error).splitlines()[0]}") from error
    if missing:
        raise PlanInvalidError(
            f"{path}: column {missing[0]} is missing; there are {', '.join(table.columns)}"
        )
    for column, kind in columns.items():
        if column not in table.columns:
            table = table.withColumn(column, F.lit(None).cast("string"))
        typed = F.expr(f"try_cast(`{column}` AS {kind.rstrip('?')})")
        needed = not kind.endswith("?")
        bad = typed.isNull() & (F.col(column).isNotNull() | F.lit(1).eqNullSafe(int(needed)))
        rows = table.where(bad).limit(5).collect()
        if rows:
            shown = "\n".join(f"  {','.join(str(v) for v in row)}" for row in rows)
            raise PlanInvalidError(
                f"{path}: column {column} is not {kind.rstrip('?')} in:\n{shown}"
            )
        table = table.withColumn(column, typed)
    rows = table.select(*columns).collect()
    return list(rows)


def _sizes(spark: Any, path: Path) -> dict[tuple[str, int], int]:
    rows = _csv(spark, path, {"topic": "string", "partition": "int", "size_bytes": "bigint"})
    negative = [row for row in rows if row.size_bytes < 0]
    if negative:
        shown = "\n".join(f"  {','.join(map(str, row))}" for row in negative[:5])
        raise PlanInvalidError(f"{path}: column size_bytes is negative in:\n{shown}")
    return {(row.topic, row.partition): row.size_bytes for row in rows}


def _brokers(spark: Any, path: Path) -> list[BrokerRow]:
    kinds = {"broker": "int", "rack": "string?", "capacity_bytes": "bigint?"}
    return [
        (row.broker, row.rack, None, row.capacity_bytes, True) for row in _csv(spark, path, kinds)
    ]
