"""
A snapshot in the form of the planner: one row per partition, and sums by broker and topic.

Brokers and topics become indices in the order of ids and names, so that nothing depends on the
order in which rows were read. A partition's size is that of its leader, which a new replica copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline.placement_ledger import UNLIMITED, BrokerIndex, PlacementLedger
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.snapshot_tables import Tables

HASH_BITS: Final = 53
CHUNK: Final = 50_000
"""Rows that the driver collects before it passes them to Spark."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A loaded snapshot."""

    parts: Any
    """topic (index), partition, size, replicas (indices, the preferred leader first)."""
    names: Any
    """topic (index), name."""
    topics: tuple[str, ...]
    brokers: BrokerIndex
    racks: tuple[str, ...]
    """The displayed rack of each broker."""
    rates: Any | None = None
    """topic (index), partition, bytes per second that producers write; None: unknown."""


def load(spark: Any, tables: Tables, options: PlanOptions) -> Cluster:
    """
    Load a checked snapshot.

    Raises:
        InvalidInputError: a broker to drain does not exist, or no broker is left.

    """
    brokers, racks = _brokers(tables, options)
    topics = tuple(sorted(row.topic for row in tables.topics.select("topic").collect()))
    names = spark.createDataFrame(list(enumerate(topics)), "topic INT, name STRING").persist()
    index = spark.createDataFrame(
        [(broker, n) for n, broker in enumerate(brokers.ids)], "broker INT, b INT"
    )
    replicas = tables.replicas.withColumnRenamed("topic", "name")
    parts = (
        replicas.join(F.broadcast(names), "name")
        .join(F.broadcast(index), "broker")
        .groupBy("topic", "partition")
        .agg(
            F.sort_array(F.collect_list(F.struct("position", "b"))).alias("placed"),
            F.max(F.when(F.col("is_leader"), F.col("size_bytes"))).alias("of_leader"),
            F.max("size_bytes").alias("largest"),
        )
        .select(
            "topic",
            F.col("partition").cast("int").alias("partition"),
            F.coalesce("of_leader", "largest").cast("bigint").alias("size"),
            F.transform("placed", lambda x: x["b"]).alias("replicas"),
        )
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    _check_parts(parts.join(F.broadcast(names), "topic"))
    rates = tables.rates
    if rates is not None:
        rates = (
            rates.withColumnRenamed("topic", "name")
            .join(F.broadcast(names), "name")
            .select("topic", F.col("partition").cast("int").alias("partition"), "bytes_in_per_s")
        )
    return Cluster(parts, names, topics, brokers, racks, rates)


def _brokers(tables: Tables, options: PlanOptions) -> tuple[BrokerIndex, tuple[str, ...]]:
    drained = options.drain | set(options.replace)
    rows = tables.brokers.orderBy("broker").collect()
    ids = tuple(int(row.broker) for row in rows)
    strangers = sorted(drained - set(ids))
    if strangers:
        raise InvalidInputError(
            f"broker {strangers[0]} cannot be drained: it is not in the snapshot"
        )
    dead = [row.broker for row in rows if row.is_alive is False and row.broker not in drained]
    # A plan of log directories moves no replica to another broker.
    if dead and not options.balance_dirs:
        raise InvalidInputError(
            f"broker {', '.join(map(str, dead))} was not alive when the snapshot was taken: drain "
            f"it, or start it and take another snapshot"
        )
    keeps = np.array([broker not in drained for broker in ids], dtype=bool)
    if not keeps.any():
        raise InvalidInputError("no broker is left that may hold replicas")
    # A broker without a rack is a rack of its own.
    texts = tuple(row.rack if row.rack is not None else f"broker {row.broker}" for row in rows)
    keys = [(row.rack is None, t) for row, t in zip(rows, texts, strict=True)]
    order = {key: n for n, key in enumerate(sorted(set(keys)))}
    room = [
        UNLIMITED if r.capacity_bytes is None else r.capacity_bytes * options.fill for r in rows
    ]
    rack = np.array([order[key] for key in keys], dtype=np.int64)
    return BrokerIndex(ids, rack, keeps, np.array(room)), texts


def _check_parts(parts: Any) -> None:
    twice = F.size("replicas") != F.size(F.array_distinct("replicas"))
    found = parts.where(twice).orderBy("name", "partition").limit(5).collect()
    if found:
        listed = ", ".join(f"{row.name}-{row.partition}" for row in found)
        raise InvalidInputError(
            f"replicas: columns topic, partition, broker name the same replica twice: {listed}"
        )


def movable_topics(spark: Any, cluster: Cluster, options: PlanOptions) -> Any:
    """Return the topics that may change."""
    chosen = options.chooses(cluster.topics)
    rows = [(n,) for n, is_chosen in enumerate(chosen) if is_chosen]
    return spark.createDataFrame(rows, "topic INT")


def racks_used(brokers: BrokerIndex, replicas: str) -> Any:
    """Return the number of racks of a column of replicas."""
    racks = F.array(*(F.lit(int(rack)) for rack in brokers.rack))
    return F.size(F.array_distinct(F.transform(replicas, lambda b: F.get(racks, b))))


def ledger_of(
    cluster: Cluster, factors: Mapping[int, tuple[int, int]], tolerance: float
) -> PlacementLedger:
    """Return the ledger of a cluster, with the planned replication factors."""
    held = np.zeros((len(cluster.topics), len(cluster.brokers.ids)), dtype=np.int64)
    size = np.zeros(len(cluster.brokers.ids), dtype=np.int64)
    single = cluster.parts.select("topic", "size", F.explode("replicas").alias("b"))
    by_topic = (
        single.groupBy("topic", "b")
        .agg(F.count("*").cast("int").alias("n"), F.sum("size").alias("held"))
        .groupBy("topic")
        .agg(F.collect_list(F.struct("b", "n", "held")).alias("all"))
        .select("topic", "all.b", "all.n", "all.held")
    )
    for row in by_topic.collect():
        held[row[0], row[1]] = row[2]
        size[row[1]] += row[3]
    return PlacementLedger(cluster.brokers, held, size, factors, tolerance)


class CollectedRows:
    """Rows that the driver produces one by one and passes to Spark in chunks."""

    def __init__(self, spark: Any, schema: str) -> None:
        self._spark: Final = spark
        self._schema: Final = schema
        self._chunks: list[Any] = []
        self._buffer: list[tuple[Any, ...]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is no row."""
        return not self._chunks and not self._buffer

    def add(self, *row: Any) -> None:
        """Add a row."""
        self._buffer.append(row)
        if len(self._buffer) >= CHUNK:
            self._flush()

    def table(self) -> Any:
        """Return all rows so far."""
        self._flush()
        table = self._spark.createDataFrame([], self._schema)
        for chunk in self._chunks:
            table = table.union(chunk)
        return table

    def _flush(self) -> None:
        if self._buffer:
            chunk = self._spark.createDataFrame(self._buffer, self._schema).coalesce(1).persist()
            chunk.count()
            self._chunks.append(chunk)
            self._buffer = []


def dice(seed: int, *columns: Any) -> Any:
    """Return a pseudo-random number from 0 to 1 that depends only on the seed and the columns."""
    bits = F.xxhash64(F.lit(seed), *columns)
    return F.shiftrightunsigned(bits, 64 - HASH_BITS).cast("double") * F.lit(2.0**-HASH_BITS)


def in_order(table: Any, *keys: Any) -> Iterator[Any]:
    """
    Yield rows in the order of keys.

    Spark selects and prepares the rows in parallel and sorts them in one partition: their number
    grows with the changes of the plan, and they all pass through the driver.
    """
    return iter(table.repartition(1).sortWithinPartitions(*keys).toLocalIterator())
