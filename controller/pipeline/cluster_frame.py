"""
A snapshot in the form of the planner: one row per partition, and sums by broker and topic.

Brokers and topics become indices in the order of ids and names, so that nothing depends on the
order in which rows were read. A partition's size is that of its leader, which a new replica copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import InvalidInputError
from controller.pipeline.placement_ledger import (
    IN,
    LEADER_IN,
    OUT,
    UNLIMITED,
    BrokerIndex,
    PlacementLedger,
)
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.snapshot_tables import Tables
from controller.planning.broker_capacities import BrokerTraits, shared_by
from controller.planning.load_goals import BYTES_IN, BYTES_OUT, DISK, RATED, LoadGoals

HASH_BITS: Final = 53
RATE_COLUMNS: Final = ("bytes_in", "bytes_out")
CHUNK: Final = 50_000
"""Rows that the driver collects before it passes them to Spark."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A loaded snapshot."""

    parts: Any
    """topic (index), partition, size, replicas (indices, the preferred leader first), and the bytes
    per second that producers write and consumers fetch: bytes_in, bytes_out (null: unknown)."""
    names: Any
    """topic (index), name."""
    topics: tuple[str, ...]
    brokers: BrokerIndex
    racks: tuple[str, ...]
    """The displayed rack of each broker."""
    goals: LoadGoals = field(default_factory=LoadGoals)
    """Those of rates are off where the rates are unknown."""
    notes: tuple[str, ...] = ()
    """The rates that are missing."""

    is_rated: bool = False
    """Whether bytes in are known."""

    def is_known(self) -> Any:
        """Return the condition of partitions whose rates are known as far as a goal needs them."""
        if not any(self.goals[name].is_on for name in RATED):
            return F.expr("true")
        known = F.col("bytes_in").isNotNull()
        return known & F.col("bytes_out").isNotNull() if self.goals[BYTES_OUT].is_on else known


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
    placed = (
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
    )
    parts = _with_rates(placed, tables.rates, names).persist(StorageLevel.MEMORY_AND_DISK)
    _check_parts(parts.join(F.broadcast(names), "topic"))
    counted = None if tables.rates is None else _count_rates(parts)
    goals, notes = _known_goals(counted, options.goals)
    is_rated = counted is not None and counted[1] > 0
    return Cluster(parts, names, topics, brokers, racks, goals, tuple(notes), is_rated)


def _with_rates(parts: Any, rates: Any | None, names: Any) -> Any:
    """Add the rates of partitions, in whole bytes per second."""
    if rates is None:
        nothing = F.lit(None).cast("bigint")
        return parts.withColumns(dict.fromkeys(RATE_COLUMNS, nothing))
    known = (
        rates.withColumnRenamed("topic", "name")
        .join(F.broadcast(names), "name")
        .select(
            "topic",
            F.col("partition").cast("int").alias("partition"),
            *(F.round(f"{name}_per_s").cast("bigint").alias(name) for name in RATE_COLUMNS),
        )
    )
    return parts.join(known, ["topic", "partition"], "left")


def _count_rates(parts: Any) -> tuple[int, int, int]:
    """Return the numbers of partitions, of those with bytes in, and of those with bytes out."""
    total, with_in, with_out = parts.agg(F.count("*"), *map(F.count, RATE_COLUMNS)).first()
    return total, with_in, with_out


def _known_goals(
    counted: tuple[int, int, int] | None, goals: LoadGoals
) -> tuple[LoadGoals, list[str]]:
    """Turn off the goals whose rates are unknown; return notes of what is missing."""
    if counted is None:
        return goals.without(RATED), []
    total, with_in, with_out = counted
    notes = []
    if not with_in:
        return goals.without(RATED), ["no partition has bytes in: rates are not planned for"]
    if not with_out and goals[BYTES_OUT].is_on:
        goals = goals.without([BYTES_OUT])
        notes.append(
            "what consumers fetch is unknown for all partitions: bytes out are not planned for"
        )
    if not any(goals[name].is_on for name in RATED):
        return goals, notes
    for name, known, what in (
        (BYTES_IN, with_in, "bytes in"),
        (BYTES_OUT, with_out, "bytes out of consumers"),
    ):
        if known < total and (name == BYTES_IN or goals[name].is_on):
            notes.append(
                f"{what} are unknown for {total - known} of {count_text(total, 'partition')}: they "
                f"stay where they are unless they have to move, and the shares of rates are those "
                f"of the others"
            )
    return goals, notes


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
    own: dict[str, list[float]] = {}
    if options.capacities is not None:
        own = options.capacities.of([BrokerTraits(r.broker, r.rack, r.host) for r in rows])
        disks = own.get(DISK, [UNLIMITED] * len(ids))
        room = [min(most, disk * options.fill) for most, disk in zip(room, disks, strict=True)]
    shared = {name: np.array(found) for name, found in shared_by(own).items()}
    return BrokerIndex(ids, rack, keeps, np.array(room), shared, frozenset(own)), texts


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
    cluster: Cluster, factors: Mapping[int, PlannedSums], tolerance: float
) -> PlacementLedger:
    """Return the ledger of a cluster, with the sums of the planned replication factors."""
    held = np.zeros((len(cluster.topics), len(cluster.brokers.ids)), dtype=np.int64)
    size, led = (np.zeros(len(cluster.brokers.ids), dtype=np.int64) for _ in range(2))
    traffic = np.zeros((3, len(size)), dtype=np.int64)
    columns = traffic_columns() if cluster.is_rated else {}
    single = cluster.parts.select(
        "topic", "size", F.size("replicas").alias("factor"), *RATE_COLUMNS, exploded("replicas")
    )
    leads = F.when(F.col("position") == 0, 1).otherwise(0)
    sums = {"held": F.col("size"), "led": leads, **columns}
    by_topic = (
        single.groupBy("topic", "b")
        .agg(F.count("*").cast("int").alias("n"), *(F.sum(x).alias(n) for n, x in sums.items()))
        .groupBy("topic")
        .agg(F.collect_list(F.struct("b", "n", *sums)).alias("all"))
        .select("topic", "all.b", "all.n", *(f"all.{name}" for name in sums))
    )
    for row in by_topic.collect():
        held[row[0], row[1]] = row[2]
        size[row[1]] += row[3]
        led[row[1]] += row[4]
        for load, amounts in zip(traffic, row[5:], strict=False):
            load[row[1]] += [amount or 0 for amount in amounts]
    numbers = {factor: (found.partitions, found.size) for factor, found in factors.items()}
    ledger = PlacementLedger(cluster.brokers, held, size, led, numbers, tolerance, cluster.goals)
    if cluster.is_rated:
        rates = {factor: found.bytes_in for factor, found in factors.items()}
        ledger.set_traffic(traffic, rates, sum(found.bytes_out for found in factors.values()))
    return ledger


class PlannedSums(NamedTuple):
    """The partitions of one planned replication factor."""

    partitions: int
    size: int
    bytes_in: int
    bytes_out: int


def exploded(replicas: str) -> Any:
    """Return a row for each replica: its position and its broker, ``b``."""
    return F.posexplode(replicas).alias("position", "b")


def traffic_columns() -> dict[str, Any]:
    """
    Return the network loads of a replica, in the order of ``Traffic.load``.

    The row is that of a replica (``exploded``), with the rates of its partition and its ``factor``.
    """
    leads, rate = F.col("position") == 0, F.coalesce("bytes_in", F.lit(0))
    sent = F.coalesce("bytes_out", F.lit(0)) + (F.col("factor") - 1) * rate
    columns = {IN: rate, OUT: F.when(leads, sent), LEADER_IN: F.when(leads, rate)}
    return {f"traffic_{n}": columns[n] for n in sorted(columns)}


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
