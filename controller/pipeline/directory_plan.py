"""
Plan log directories: those of new replicas, and moves that even out the volumes of brokers.

The driver decides from its arrays by volume; to even out a broker, it takes the replicas of that
broker alone. Replicas that stay on their broker are copied by the broker itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError, ensure
from controller.pipeline.cluster_frame import Cluster, CollectedRows, dice, in_order, movable_topics
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.planner import Planned, ReportProgress
from controller.pipeline.snapshot_tables import Tables
from controller.pipeline.volume_table import (
    DirectoryFill,
    DirectoryPlacement,
    PlacedDirectories,
    VolumeTable,
    listed_brokers,
)
from controller.pipeline.waves import Wave, WaveLimits, Waves
from controller.planning.volumes import Balance, HeldLog, balance

PLACED: Final = "topic INT, partition INT, b INT, v INT, path STRING, size BIGINT"
MOVED: Final = (
    "topic INT, partition INT, b INT, old_path STRING, path STRING, size BIGINT, wave INT"
)
ENTRY_BYTES: Final = 60


def held_logs(spark: Any, tables: Tables, cluster: Cluster, table: VolumeTable) -> Any:
    """Return topic, partition, b, v, path and size of each replica on a known volume."""
    brokers = spark.createDataFrame(
        [(broker, n) for n, broker in enumerate(table.ids)], "broker INT, b INT"
    )
    rows = [(table.broker[n], path, n) for n, paths in enumerate(table.paths) for path in paths]
    volumes = spark.createDataFrame(rows, "b INT, log_dir STRING, v INT")
    return (
        tables.replicas.withColumnRenamed("topic", "name")
        .join(F.broadcast(cluster.names), "name")
        .join(F.broadcast(brokers), "broker")
        .join(F.broadcast(volumes), ["b", "log_dir"])
        .select(
            "topic",
            F.col("partition").cast("int").alias("partition"),
            "b",
            "v",
            F.col("log_dir").alias("path"),
            F.col("size_bytes").cast("bigint").alias("size"),
        )
    )


def place_directories(
    spark: Any, tables: Tables, planned: Planned, table: VolumeTable, progress: ReportProgress
) -> PlacedDirectories:
    """
    Choose a directory for every new replica of a plan.

    Raises:
        InvalidInputError: no directory has room for a replica.

    """
    progress("choosing log directories")
    changed = planned.rows.where(F.col("after") != F.col("replicas"))
    dropped = changed.select(
        "topic", "partition", F.explode(F.array_except("replicas", "after")).alias("b")
    )
    leaving = dropped.join(
        held_logs(spark, tables, planned.cluster, table), ["topic", "partition", "b"]
    ).persist()
    for volume, size in leaving.groupBy("v").agg(F.sum("size")).collect():
        table.used[volume] -= size
    new = changed.select(
        "topic",
        "partition",
        "size",
        F.explode(F.array_except("after", "replicas")).alias("b"),
        dice(planned.options.seed + 4, F.col("topic"), F.col("partition")).alias("drawn"),
    )
    placement = DirectoryPlacement(table)
    placed = CollectedRows(spark, PLACED)
    unknown: set[int] = set()
    for row in in_order(new, F.col("size").desc(), "drawn", "topic", "partition", "b"):
        what = f"{planned.cluster.topics[row.topic]}-{row.partition}"
        found = placement.place(what, row.size, row.b)
        if found is not None:
            placed.add(row.topic, row.partition, row.b, *found, row.size)
        elif row.b in table.unknown:
            unknown.add(row.b)
    placement.check()
    brokers = len(table.ids)
    rows = _by_partition(placed.table(), "arriving", "log_dirs", brokers).join(
        _by_partition(leaving, "leaving", "old_dirs", brokers), ["topic", "partition"], "full"
    )
    return PlacedDirectories(table, rows.persist(), _unknown_notes(table, unknown))


def _by_partition(rows: Any, amounts: str, dirs: str, brokers: int) -> Any:
    """Return the disks of volumes, with bytes, and the directories by broker, of each partition."""
    disk = F.struct((F.col("v") + brokers).alias("disk"), "size")
    return rows.groupBy("topic", "partition").agg(
        F.collect_list(disk).alias(amounts),
        F.map_from_entries(F.collect_list(F.struct("b", "path"))).alias(dirs),
    )


def _unknown_notes(table: VolumeTable, brokers: set[int]) -> tuple[str, ...]:
    if not brokers:
        return ()
    ids = sorted(table.ids[b] for b in brokers)
    why = "the size of log directories is unknown (see disk_capacities)"
    return (f"{why}: nothing is planned for those of brokers {listed_brokers(ids)}",)


# --- even out the volumes of brokers -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySummary:
    """The figures of a plan that evens out log directories."""

    brokers: int
    """Brokers with moves."""
    moves: int
    bytes_moved: int
    bytes_bound: int
    """No plan that reaches the band copies less."""
    tolerance: float
    log_dirs: tuple[DirectoryFill, ...]
    """Of the brokers that were to be evened out."""
    notes: tuple[str, ...]

    @property
    def bytes_ratio(self) -> float:
        """Return the bytes moved divided by their bound."""
        return self.bytes_moved / self.bytes_bound if self.bytes_bound else 1.0

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return asdict(self) | {"bytes_ratio": self.bytes_ratio}


class DirectoryBalance:
    """Even out the volumes of brokers, one broker after the other."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it plans from
        self,
        spark: Any,
        tables: Tables,
        cluster: Cluster,
        table: VolumeTable,
        options: PlanOptions,
        limits: WaveLimits,
    ) -> None:
        self._spark: Final = spark
        self._tables: Final = tables
        self._cluster: Final = cluster
        self._table: Final = table
        self._options: Final = options
        self._waves: Final = Waves(table.used_before, table.limits, limits)
        self._moved: Final = CollectedRows(spark, MOVED)
        self._text: Final = [
            len(name) + ENTRY_BYTES + max((len(p) for ps in table.paths for p in ps), default=0)
            for name in cluster.topics
        ]
        self._bytes = self._moves = 0
        self._bound = 0.0
        self._changed: set[int] = set()
        self._notes: list[str] = []

    def plan(self, progress: ReportProgress) -> tuple[Any, list[Wave], DirectorySummary]:
        """
        Return the moves, the waves and the summary.

        Raises:
            InvalidInputError: a broker does not exist, or the size of its directories is unknown.

        """
        wanted = self._wanted_volumes()
        progress("evening out log directories")
        uneven = {
            b: volumes for b, volumes in wanted.items() if self._balance(volumes, ()).distance()
        }
        for broker, held in self._movable_replicas(uneven):
            volumes = uneven.pop(broker)
            self._even_out(broker, volumes, held)
        for broker, volumes in sorted(uneven.items()):  # those without any replica that may move
            self._even_out(broker, volumes, [])
        waves = self._waves.result()
        peak = np.max([wave.peak for wave in waves], axis=0) if waves else self._table.used
        fills = zip(self._table.fills(peak), self._table.broker, strict=True)
        summary = DirectorySummary(
            brokers=len(self._changed),
            moves=self._moves,
            bytes_moved=self._bytes,
            bytes_bound=int(np.ceil(self._bound)),
            tolerance=self._options.tolerance,
            log_dirs=tuple(fill for fill, broker in fills if broker in wanted),
            notes=tuple(self._notes),
        )
        return self._moved.table(), waves, summary

    def _wanted_volumes(self) -> dict[int, list[int]]:
        """Return the volumes of the brokers to even out, of those with several."""
        table, named = self._table, self._options.dir_brokers
        index = {broker: n for n, broker in enumerate(table.ids)}
        for broker in sorted(named):
            if broker not in index:
                raise InvalidInputError(f"broker {broker} is not in the snapshot")
            if index[broker] in table.unknown:
                raise InvalidInputError(
                    f"the size of a log directory of broker {broker} is unknown: the broker does "
                    f"not report it, and disk_capacities does not name it"
                )
        brokers = {index[b] for b in named} or set(range(len(table.ids)))
        self._notes += _unknown_notes(table, set(table.unknown) & brokers)
        volumes: dict[int, list[int]] = {}
        for n, broker in enumerate(table.broker):
            if broker in brokers:
                volumes.setdefault(broker, []).append(n)
        several = {broker: found for broker, found in volumes.items() if len(found) > 1}
        if not several:
            self._notes.append("no broker has log directories on several volumes of known size")
        return several

    def _movable_replicas(self, brokers: dict[int, list[int]]) -> Iterator[tuple[int, list[Any]]]:
        """Yield the replicas of each broker that may move."""
        if not brokers:
            return
        movable = movable_topics(self._spark, self._cluster, self._options)
        held = (
            held_logs(self._spark, self._tables, self._cluster, self._table)
            .join(F.broadcast(movable), "topic", "left_semi")
            .where(F.col("b").isin(sorted(brokers)))
        )
        # One range of brokers after the other reaches the driver: these can be all replicas.
        ordered = held.repartitionByRange("b").sortWithinPartitions("b", "topic", "partition")
        for broker, found in groupby(ordered.toLocalIterator(), key=lambda row: int(row.b)):
            yield broker, list(found)

    def _balance(self, volumes: list[int], logs: Iterable[tuple[int, HeldLog]]) -> Balance:
        options, held = self._options, [self._table.volumes[n] for n in volumes]
        return balance(held, logs, tolerance=options.tolerance, fill=options.fill)

    def _even_out(self, broker: int, volumes: list[int], held: list[Any]) -> None:
        topics, table = self._cluster.topics, self._table
        place = {volume: n for n, volume in enumerate(volumes)}
        rows = {(topics[row.topic], row.partition): row for row in held}
        logs = [(place[r.v], HeldLog(r.size, *key)) for key, r in rows.items() if r.size]
        plan = self._balance(volumes, logs)
        self._bound += plan.within.bound(plan.before)
        for step in plan.steps:
            note = self._options.cap_note(self._bytes, self._moves)
            if note is not None:
                if note not in self._notes:
                    self._notes.append(note)
                return
            for log, source, target in step:
                row = rows[log.topic, log.partition]
                self._take(row, volumes[source], volumes[target])
                self._changed.add(broker)
        if plan.distance() > 0:
            outside = ", ".join(table.paths[volumes[n]][0] for n in plan.within.outside(plan.after))
            self._notes.append(
                f"broker {table.ids[broker]}: {outside} stay outside the band: "
                + self._reason(volumes)
            )

    def _reason(self, volumes: list[int]) -> str:
        table, options = self._table, self._options
        used = sum(table.volumes[n].used for n in volumes)
        if used > sum(float(table.limits[n]) for n in volumes):
            return f"all of them are filled above {options.fill:.0%}"
        if not all(options.chooses(self._cluster.topics)):
            return "topics that may not change are on them"
        return "no move of a replica that fits is worth its bytes"

    def _take(self, row: Any, source: int, target: int) -> None:
        table, size = self._table, int(row.size)
        wave = self._waves.add([(target, size)], [(source, size)], self._text[row.topic])
        # The steps of a broker are in an order in which each has room after the former ones.
        ensure(wave is not None, "a move between directories fits into no wave")
        table.used[source] -= size
        table.used[target] += size
        self._bytes += size
        self._moves += 1
        path = table.take(target, size)
        self._moved.add(row.topic, row.partition, row.b, row.path, path, size, wave)


def entries_of(moved: Any, cluster: Cluster) -> Any:
    """Return the moves as changes: topic, partition, replicas, wave, and directories by broker."""

    def dirs(path: str) -> Any:
        return F.map_from_entries(F.collect_list(F.struct("b", path)))

    return (
        moved.groupBy("topic", "partition", "wave")
        .agg(
            F.sum("size").alias("size"),
            dirs("path").alias("log_dirs"),
            dirs("old_path").alias("old_dirs"),
        )
        .join(cluster.parts.select("topic", "partition", "replicas"), ["topic", "partition"])
        .withColumn("after", F.col("replicas"))
    )
