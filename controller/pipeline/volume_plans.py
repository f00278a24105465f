"""
Small plans from a snapshot: relieve a broker or a directory, or spend a budget of bytes.

The decisions are those of ``planning.relief`` and ``planning.byte_budget``, which ``generate``
makes, too. The driver holds the volumes, and of the brokers that give replicas those that may be
chosen: of a relieved broker all, of others as many as there are bytes to give, and some of each
size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import BrokerId, TopicPartition
from controller.errors import InvalidInputError
from controller.pipeline.cluster_frame import Cluster, movable_topics
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.planner import CLASSES_PER_DOUBLING, PER_CLASS
from controller.pipeline.snapshot_tables import Tables
from controller.pipeline.volume_table import VolumeTable, load_volumes
from controller.pipeline.waves import Wave, WaveLimits, Waves
from controller.planning.byte_budget import BudgetPlan, amounts_to_give, spend
from controller.planning.relief import Relief, ReliefGoal, relieve, volumes_to_relieve
from controller.planning.volume_room import DiskCluster, DiskVolume, MovableReplica, ReplicaMove

OFFERED: Final = 3.0
"""Bytes of candidates for each byte that a broker is to give: some have no place."""
ENTRY_BYTES: Final = 120
ROWS: Final = (
    "topic INT, partition INT, size BIGINT, replicas ARRAY<INT>, after ARRAY<INT>, wave INT, "
    "log_dirs MAP<INT, STRING>, old_dirs MAP<INT, STRING>"
)


@dataclass(frozen=True, slots=True)
class SmallPlan:
    """A small plan, cut into waves."""

    plan: Relief | BudgetPlan
    partitions: int
    """Those that may change."""
    rows: Any
    """A row for each change, as ``commands`` writes it."""
    waves: list[Wave]
    """With a disk for each volume."""
    names: tuple[str, ...]
    """Of the volumes."""
    table: VolumeTable | None
    """The same volumes; None: the snapshot has no log directories."""
    loads: list[tuple[Any, ...]]
    """Broker, rack, and its bytes, replicas and leaders, each before and after."""


class SmallPlanner:
    """Make a small plan."""

    def __init__(self, spark: Any, tables: Tables, cluster: Cluster, options: PlanOptions) -> None:
        """
        Load the volumes of a snapshot; without log directories, each broker counts as one volume.

        Raises:
            InvalidInputError: no size is known.

        """
        self._spark: Final = spark
        self._tables: Final = tables
        self._cluster: Final = cluster
        self._options: Final = options
        self._index: Final = cluster.brokers.index()
        self._topics: Final = {name: n for n, name in enumerate(cluster.topics)}
        self._table: Final = (
            None
            if tables.log_dirs is None
            else load_volumes(tables, cluster.brokers.ids, options.fill)
        )
        volumes = _whole_brokers(tables, options) if self._table is None else _volumes(self._table)
        if not volumes:
            raise InvalidInputError(
                "the snapshot has no size of a disk: neither log_dirs nor capacity_bytes"
            )
        self._volumes: Final = volumes

    def plan(self, goal: ReliefGoal | int, limits: WaveLimits) -> SmallPlan:
        """
        Return the plan for a goal; a number is a budget.

        Raises:
            InvalidInputError: the goal cannot be reached.

        """
        movable = F.broadcast(movable_topics(self._spark, self._cluster, self._options))
        parts = self._cluster.parts.join(movable, "topic", "left_semi")
        plan: Relief | BudgetPlan
        if isinstance(goal, ReliefGoal):
            if goal.broker not in self._index:
                raise InvalidInputError(f"broker {goal.broker} is not in the snapshot")
            chosen = volumes_to_relieve(self._disks({}), goal)
            held = [r for r in self._held(parts, [goal.broker]) if r.volume in chosen]
            plan = relieve(self._disks(self._of_topics(held)), held, goal)
        else:
            plan = self._spend(parts, goal)
        waves, assigned = self._cut(plan.moves, limits)
        rows = [self._row(plan, move, wave) for move, wave in assigned]
        table = self._table
        if table is not None:
            for move in plan.moves:
                table.used[move.replica.volume] -= move.replica.frees
                table.used[move.volume] += move.replica.size
        return SmallPlan(
            plan,
            parts.count(),
            self._spark.createDataFrame(rows, ROWS),
            waves,
            tuple(volume.name for volume in self._volumes),
            table,
            self._loads(plan.moves),
        )

    def _loads(self, moves: Iterable[ReplicaMove]) -> list[tuple[Any, ...]]:
        """Return the loads of each broker, before and after."""
        single = self._cluster.parts.select("size", F.posexplode("replicas").alias("n", "b"))
        leads = F.count(F.when(F.col("n") == 0, 1))
        summed = single.groupBy("b").agg(F.sum("size"), F.count("*"), leads).collect()
        before = np.zeros((len(self._cluster.brokers.ids), 3), dtype=np.int64)
        for b, *held in summed:
            before[b] = held
        after = before.copy()
        for move in moves:
            replica = move.replica
            held = np.array([replica.size, 1, replica.replicas[0] == move.source])
            after[self._index[move.source]] -= held
            after[self._index[move.target]] += held
        rows = zip(self._cluster.brokers.ids, self._cluster.racks, before, after, strict=True)
        return [
            (broker, rack, *np.column_stack((old, new)).ravel().tolist())
            for broker, rack, old, new in rows
        ]

    # --- what is planned from ------------------------------------------------------------------

    def _disks(self, of_topics: Mapping[tuple[str, BrokerId], int]) -> DiskCluster:
        brokers = self._cluster.brokers
        keeps = [b for b, keep in zip(brokers.ids, brokers.keeps.tolist(), strict=True) if keep]
        racks = zip(brokers.ids, brokers.rack.tolist(), strict=True)
        return DiskCluster(
            volumes=self._volumes,
            takers=frozenset(map(BrokerId, keeps)),
            racks={BrokerId(broker): f"rack {rack}" for broker, rack in racks},
            of_topics=of_topics,
        )

    def _spend(self, parts: Any, budget: int) -> BudgetPlan:
        factors = {row[0] for row in parts.select(F.size("replicas")).distinct().collect()}
        tolerance = self._options.tolerance
        gives = amounts_to_give(self._disks({}), factors, budget, tolerance)
        held: dict[BrokerId, list[MovableReplica]] = {broker: [] for broker in gives}
        found = self._held(parts, gives, gives)
        for replica in found:
            held[self._volumes[replica.volume].broker].append(replica)
        return spend(self._disks(self._of_topics(found)), held, factors, budget, tolerance)

    def _held(
        self, parts: Any, brokers: Iterable[BrokerId], gives: Mapping[BrokerId, float] | None = None
    ) -> list[MovableReplica]:
        """Return the replicas on brokers; with ``gives``, as many as they may be to give."""
        rows = [(int(b), self._index[b], float((gives or {}).get(b, 0.0))) for b in brokers]
        if not rows:
            return []
        givers = self._spark.createDataFrame(rows, "broker INT, b INT, give DOUBLE")
        held = (
            self._tables.replicas.withColumnRenamed("topic", "name")
            .join(F.broadcast(givers), "broker")
            .join(F.broadcast(self._cluster.names), "name")
            .withColumn("partition", F.col("partition").cast("int"))
            .select(
                "topic", "partition", "b", "give", F.col("size_bytes").alias("frees"), "log_dir"
            )
            .join(parts, ["topic", "partition"])
        )
        if gives is not None:
            held = _offered(held)
        index = {
            (self._index[volume.broker], path): n
            for n, volume in enumerate(self._volumes)
            for path in volume.paths or (None,)
        }
        topics, ids = self._cluster.topics, self._cluster.brokers.ids
        found = []
        for row in held.toLocalIterator():
            volume = index.get((row.b, None if self._table is None else row.log_dir))
            if volume is not None:
                replicas = tuple(BrokerId(ids[b]) for b in row.replicas)
                partition = TopicPartition(topics[row.topic], row.partition)
                found.append(MovableReplica(row.size, partition, row.frees, volume, replicas))
        return sorted(found)

    def _of_topics(self, held: Iterable[MovableReplica]) -> dict[tuple[str, BrokerId], int]:
        """Return the replicas of each topic of some replicas on each broker."""
        topics = sorted({self._topics[r.partition.topic] for r in held})
        if not topics:
            return {}
        chosen = self._spark.createDataFrame([(n,) for n in topics], "topic INT")
        single = self._cluster.parts.join(F.broadcast(chosen), "topic", "left_semi")
        by_topic = (
            single.select("topic", F.explode("replicas").alias("b"))
            .groupBy("topic", "b")
            .agg(F.count("*").cast("int").alias("n"))
            .groupBy("topic")
            .agg(F.collect_list(F.struct("b", "n")).alias("all"))
            .select("topic", "all.b", "all.n")
        )
        names, ids = self._cluster.topics, [BrokerId(b) for b in self._cluster.brokers.ids]
        return {
            (names[topic], ids[b]): count
            for topic, brokers, counts in by_topic.toLocalIterator()
            for b, count in zip(brokers, counts, strict=True)
        }

    # --- waves ---------------------------------------------------------------------------------

    def _cut(
        self, moves: Sequence[ReplicaMove], limits: WaveLimits
    ) -> tuple[list[Wave], list[tuple[ReplicaMove, int]]]:
        """
        Return the waves, and each move with its own; no volume overflows in any.

        Raises:
            InvalidInputError: no tried order of the moves fits on the disks.

        """
        used = np.array([volume.used for volume in self._volumes], dtype=np.int64)
        waves = Waves(used, np.array([volume.limit for volume in self._volumes]), limits)
        assigned: list[tuple[ReplicaMove, int]] = []
        left = list(moves)
        while left:
            deferred = []
            for move in left:
                replica = move.replica
                text = len(replica.partition.topic) + ENTRY_BYTES + 14 * len(replica.replicas)
                adding, removing = (move.volume, replica.size), (replica.volume, replica.frees)
                wave = waves.add([adding], [removing], text)
                if wave is None:
                    deferred.append(move)
                else:
                    assigned.append((move, wave))
            if len(deferred) == len(left):
                raise InvalidInputError(
                    f"the disks have no room for this plan in any order: {len(left)} moves fit "
                    "into no wave. Allow a higher fill, or move less"
                )
            left = deferred
        return waves.result(), assigned

    def _row(self, plan: Relief | BudgetPlan, move: ReplicaMove, wave: int) -> tuple[Any, ...]:
        replica, index = move.replica, self._index
        topic = self._topics[replica.partition.topic]
        before, after = ([index[b] for b in rs] for rs in (replica.replicas, move.after))
        named = {index[b]: path for b, path in plan.log_dirs.get(replica.partition, ())}
        home = self._volumes[replica.volume]
        # Where a directory of the target is named, the way back names the present one.
        old = {index[home.broker]: home.paths[0]} if named and len(home.paths) == 1 else {}
        number = replica.partition.partition
        return topic, number, replica.size, before, after, wave, named or None, old or None


def _volumes(table: VolumeTable) -> list[DiskVolume]:
    return [
        DiskVolume(BrokerId(table.ids[b]), paths, volume.total, volume.used, limit)
        for volume, b, paths, limit in zip(
            table.volumes, table.broker, table.paths, table.limits.tolist(), strict=True
        )
    ]


def _whole_brokers(tables: Tables, options: PlanOptions) -> list[DiskVolume]:
    """Return a volume for each broker of known capacity, with the bytes of its replicas."""
    held = {row[0]: row[1] for row in tables.replicas.groupBy("broker").sum("size_bytes").collect()}
    rows = tables.brokers.where("capacity_bytes IS NOT NULL").orderBy("broker").collect()
    return [
        DiskVolume(
            BrokerId(row.broker),
            (),
            row.capacity_bytes,
            held.get(row.broker, 0),
            row.capacity_bytes * options.fill,
        )
        for row in rows
    ]


def _offered(held: Any) -> Any:
    """Return the largest replicas of each broker that it can give, and some of each size."""
    size_class = F.floor(F.log2(F.col("size") + 1.0) * CLASSES_PER_DOUBLING)
    of_broker = [F.col("size").desc(), "topic", "partition"]
    fits = F.when(F.col("size") <= F.col("give"), F.col("size")).otherwise(0)
    running = F.sum(fits).over(Window.partitionBy("b").orderBy(*of_broker)) - fits
    of_class = F.row_number().over(
        Window.partitionBy("b", size_class).orderBy("topic", "partition")
    )
    ranked = held.withColumn("running", running).withColumn("nth", of_class)
    is_large = (fits > 0) & (F.col("running") < OFFERED * F.col("give"))
    return ranked.where(is_large | (F.col("nth") <= PER_CLASS))
