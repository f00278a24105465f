"""
Write a plan as files: Parquet tables, Kafka's JSON for the stock tool, and requests.

Only here the driver collects rows by wave, as text for ``reassigner execute``. Every entry names
the replicas it was planned from, so that ``execute`` detects a cluster that changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline.cluster_frame import Cluster, CollectedRows, dice, in_order
from controller.pipeline.directory_plan import DirectorySummary, PlacedDirectories, entries_of
from controller.pipeline.plan_summary import Loads, PlanSummary
from controller.pipeline.planner import Planned, Progress
from controller.pipeline.tables import Manifest
from controller.pipeline.volume_table import ANY, VolumeTable
from controller.pipeline.waves import Wave, WaveLimits, Waves, wanting

ASSIGNED: Final = "topic INT, partition INT, wave INT"
PASSES_MAX: Final = 50
_TAIL: Final = "]}\n"


class Cutter:
    """Cut a plan into waves; the disks are the brokers and, if directories are placed, volumes."""

    def __init__(
        self,
        spark: Any,
        planned: Planned,
        limits: WaveLimits,
        progress: Progress,
        placed: PlacedDirectories | None = None,
    ) -> None:
        """Start without waves."""
        self._planned: Final = planned
        self._progress: Final = progress
        self._placed: Final = placed
        brokers = planned.cluster.brokers
        self._first, self._room = planned.sizes_before, brokers.room
        self._names = [f"broker {broker}" for broker in brokers.ids]
        if placed is not None:
            table = placed.table
            used = np.array([volume.used for volume in table.volumes], dtype=np.int64)
            self._first = np.concatenate((self._first, used))
            self._room = np.concatenate((self._room, table.limits))
            self._names += [table.name(n) for n in range(len(table.volumes))]
        self._waves: Final = Waves(self._first, self._room, limits)
        self._assigned: Final = CollectedRows(spark, ASSIGNED)
        self._lengths: Final = [len(name) + 60 for name in planned.cluster.topics]
        paths = () if placed is None else (p for ps in placed.table.paths for p in ps)
        self._replica_text: Final = 14 + max((len(path) + 3 for path in paths), default=0)

    def cut(self) -> tuple[Any, list[Wave]]:
        """
        Return topic, partition and wave of every change, and the waves.

        Raises:
            InvalidInputError: no tried order of the changes fits on the disks.

        """
        changed = self._planned.rows.where(F.col("after") != F.col("replicas")).select(
            "topic",
            "partition",
            "size",
            F.size("after").alias("replicas"),
            _amounts("after", "replicas").alias("adding"),
            _amounts("replicas", "after").alias("removing"),
        )
        if self._placed is not None:
            none = F.array().cast("array<struct<disk:int,size:bigint>>")
            changed = changed.join(self._placed.rows, ["topic", "partition"], "left").select(
                "topic",
                "partition",
                "size",
                "replicas",
                F.concat("adding", F.coalesce("arriving", none)).alias("adding"),
                F.concat("removing", F.coalesce("leaving", none)).alias("removing"),
            )
        # Changes that drop replicas from the fullest disks come first: they make room. Changes of
        # leaders alone come last.
        held = [float(f) for f in self._first / np.maximum(self._room, 1.0)]
        fullness = F.array(*(F.lit(round(f, 2)) for f in held))
        relief = F.coalesce(
            F.array_max(F.transform("removing", lambda x: F.get(fullness, x["disk"]))),
            F.lit(-1.0),
        )
        changed = (
            changed.withColumn("relief", relief)
            .withColumn(
                "drawn", dice(self._planned.options.seed + 3, F.col("topic"), F.col("partition"))
            )
            .persist()
        )
        left = changed
        for attempt in range(1, PASSES_MAX + 1):
            self._progress("cutting waves" if attempt == 1 else f"cutting waves, pass {attempt}")
            placed, deferred = self._pass(left)
            if not deferred:
                break
            if not placed:
                self._refuse(left)
            left = changed.join(self._assigned.table(), ["topic", "partition"], "left_anti")
        else:
            self._refuse(left)
        return self._assigned.table(), self._waves.result()

    def _pass(self, left: Any) -> tuple[int, int]:
        placed = deferred = 0
        for row in in_order(left, F.col("relief").desc(), "drawn", "topic", "partition"):
            text = self._lengths[row.topic] + self._replica_text * row.replicas
            wave = self._waves.add(row.adding, row.removing, text)
            if wave is None:
                deferred += 1
                continue
            placed += 1
            self._assigned.add(row.topic, row.partition, wave)
        return placed, deferred

    def _refuse(self, left: Any) -> None:
        waves = self._waves.result()
        missing = wanting(
            waves, self._first, self._room, (row.adding for row in left.toLocalIterator())
        )
        needs = ", ".join(
            f"{self._names[n]}: {size} bytes" for n, size in sorted(missing.items())[:10]
        )
        raise InvalidInputError(
            f"the disks have no room for this plan in any order: {left.count()} partitions fit "
            f"into no wave. Free or add space ({needs}), allow a higher fill, or move less"
        )


def _amounts(these: str, without: str) -> Any:
    """Return the brokers of one column that are not in another, with the bytes of the replica."""
    return F.transform(
        F.array_except(these, without), lambda b: F.struct(b.alias("disk"), F.col("size"))
    )


def write_plan(  # noqa: PLR0913, PLR0917 - the parts of a plan
    planned: Planned,
    summary: PlanSummary,
    loads: Loads,
    waves: tuple[Any, Sequence[Wave]],
    manifest: Manifest,
    directory: str,
    placed: PlacedDirectories | None = None,
) -> list[Path]:
    """
    Write a plan into a directory; return the files of the requests.

    Raises:
        InvalidInputError: the directory cannot be written.

    """
    assigned, found = waves
    ids = planned.cluster.brokers.ids
    rows = planned.rows.join(assigned, ["topic", "partition"])
    if placed is None:
        nothing = F.lit(None).cast("map<int,string>")
        rows = rows.withColumn("log_dirs", nothing).withColumn("old_dirs", nothing)
        _remove(directory, "log_dirs")
    else:
        rows = rows.join(placed.rows, ["topic", "partition"], "left")
        _write_directories(placed.table, found, len(ids), rows.sparkSession, directory)
    changes = _write_changes(rows, planned.cluster, directory)
    spark = changes.sparkSession
    _write_loads(spark, planned, loads, directory)
    found = [wave.first(len(ids)) for wave in found]
    _write_waves(spark, ids, found, directory)
    about = [_wave_document(n, wave, "peak_broker", ids) for n, wave in enumerate(found, start=1)]
    return _write_files(changes, summary.document(), about, manifest, Path(directory))


def write_directories(  # noqa: PLR0913, PLR0917 - the parts of a plan
    moved: Any,
    waves: Sequence[Wave],
    summary: DirectorySummary,
    cluster: Cluster,
    table: VolumeTable,
    manifest: Manifest,
    directory: str,
) -> list[Path]:
    """
    Write the moves between log directories of brokers; return the files of the requests.

    Raises:
        InvalidInputError: the directory cannot be written.

    """
    _remove(directory, "brokers", "waves")
    changes = _write_changes(entries_of(moved, cluster), cluster, directory)
    _write_directories(table, waves, 0, changes.sparkSession, directory)
    names = [table.name(n) for n in range(len(table.volumes))]
    about = [_wave_document(n, wave, "peak_disk", names) for n, wave in enumerate(waves, start=1)]
    return _write_files(changes, summary.document(), about, manifest, Path(directory))


def _write_changes(rows: Any, cluster: Cluster, directory: str) -> Any:
    """Write and return the changes with names; ``log_dirs`` is null for a plan without any."""
    brokers = F.array(*(F.lit(broker) for broker in cluster.brokers.ids))

    def named(column: str) -> Any:
        return F.transform(column, lambda b: F.get(brokers, b))

    def dirs(column: str, replicas: str) -> Any:
        found = F.transform(replicas, lambda b: F.coalesce(F.try_element_at(column, b), F.lit(ANY)))
        return F.when(F.col(column).isNotNull(), found)

    changes = (
        rows.join(F.broadcast(cluster.names), "topic")
        .select(
            F.col("name").alias("topic"),
            "partition",
            F.col("size").alias("size_bytes"),
            named("replicas").alias("before"),
            named("after").alias("after"),
            (F.col("wave") + 1).alias("wave"),
            dirs("old_dirs", "replicas").alias("log_dirs_before"),
            dirs("log_dirs", "after").alias("log_dirs"),
        )
        .persist()
    )
    changes.coalesce(4).write.mode("overwrite").parquet(f"{directory}/changes")
    return changes


def _remove(directory: str, *tables: str) -> None:
    """Remove tables of an earlier plan that this one does not have."""
    for name in tables:
        shutil.rmtree(Path(directory) / name, ignore_errors=True)


def _write_directories(
    table: VolumeTable, waves: Sequence[Wave], first: int, spark: Any, directory: str
) -> None:
    """Write the bytes of each volume, by wave; ``first`` is the disk of the first volume."""
    rows = [
        (
            n,
            table.ids[table.broker[volume]],
            list(table.paths[volume]),
            int(wave.size_in[first + volume]),
            int(wave.size_out[first + volume]),
            int(wave.peak[first + volume]),
        )
        for n, wave in enumerate(waves, start=1)
        for volume in range(len(table.volumes))
    ]
    kind = (
        "wave INT, broker INT, log_dirs ARRAY<STRING>, bytes_in BIGINT, bytes_out BIGINT, "
        "peak_bytes BIGINT"
    )
    _write_table(spark, rows, kind, f"{directory}/log_dirs")


def _write_loads(spark: Any, planned: Planned, loads: Loads, directory: str) -> None:
    rows = [
        (
            broker,
            planned.cluster.racks[n],
            *(
                int(load[which][n])
                for load in (loads.sizes, loads.counts, loads.leaders)
                for which in (0, 1)
            ),
            *(None if loads.rates is None else float(loads.rates[which][n]) for which in (0, 1)),
        )
        for n, broker in enumerate(planned.cluster.brokers.ids)
    ]
    kind = (
        "broker INT, rack STRING, bytes_before BIGINT, bytes_after BIGINT, replicas_before BIGINT, "
        "replicas_after BIGINT, leaders_before BIGINT, leaders_after BIGINT, "
        "bytes_in_per_s_before DOUBLE, bytes_in_per_s_after DOUBLE"
    )
    _write_table(spark, rows, kind, f"{directory}/brokers")


def _write_waves(spark: Any, ids: Sequence[int], waves: Sequence[Wave], directory: str) -> None:
    rows = [
        (n, ids[b], int(wave.size_in[b]), int(wave.size_out[b]), int(wave.peak[b]))
        for n, wave in enumerate(waves, start=1)
        for b in range(len(ids))
    ]
    kind = "wave INT, broker INT, bytes_in BIGINT, bytes_out BIGINT, peak_bytes BIGINT"
    _write_table(spark, rows, kind, f"{directory}/waves")


def _write_table(spark: Any, rows: Sequence[tuple[Any, ...]], kind: str, path: str) -> None:
    spark.createDataFrame(rows, kind).coalesce(1).write.mode("overwrite").parquet(path)


def _write_files(
    changes: Any,
    summary: Mapping[str, Any],
    waves: Sequence[Mapping[str, Any]],
    manifest: Manifest,
    directory: Path,
) -> list[Path]:
    try:
        return _write_requests(changes, summary, waves, manifest, directory)
    except OSError as error:
        raise InvalidInputError(f"{directory}: {error.strerror or error}") from error


def _write_requests(
    changes: Any,
    summary: Mapping[str, Any],
    waves: Sequence[Mapping[str, Any]],
    manifest: Manifest,
    directory: Path,
) -> list[Path]:
    requests = directory / "requests"
    requests.mkdir(parents=True, exist_ok=True)
    for old in requests.glob("wave-*.json"):
        old.unlink()
    paths = [requests / f"wave-{n:04d}.json" for n in range(1, len(waves) + 1)]
    by_wave: list[list[str]] = [[] for _ in waves]
    with (
        (directory / "plan.json").open("w", encoding="utf-8") as there,
        (directory / "rollback.json").open("w", encoding="utf-8") as back,
    ):
        between = _head()
        ordered = in_order(changes, "topic", "partition", "wave")
        # Replicas of one partition may change their directories in several waves.
        for _, found in groupby(ordered, key=lambda row: (row.topic, row.partition)):
            rows = list(found)
            there.write(between + _text(_entry(rows[0], rows[0].after, [r.log_dirs for r in rows])))
            before = [r.log_dirs_before for r in rows]
            back.write(between + _text(_entry(rows[0], rows[0].before, before)))
            for row in rows:
                known = _entry(row, row.after, [row.log_dirs])
                known["original_replicas"] = list(row.before)
                by_wave[row.wave - 1].append(_text(known))
            between = ","
        end = _TAIL if between == "," else _head() + _TAIL
        there.write(end)
        back.write(end)
    head = _head(manifest.cluster_id)
    for path, entries in zip(paths, by_wave, strict=True):
        path.write_text(head + ",".join(entries) + _TAIL, encoding="utf-8")
    _write_json(
        directory / "summary.json",
        {
            "v": 1,
            "snapshot": {"cluster_id": manifest.cluster_id, "taken_at": manifest.taken_at},
            "plan": summary,
            "waves": waves,
        },
    )
    return paths


def _head(cluster_id: str = "") -> str:
    """Return the head of a file; only requests name their cluster, unlike Kafka's own format."""
    cluster = f'"cluster_id":{_text(cluster_id)},' if cluster_id else ""
    return f'{{"version":1,{cluster}"partitions":['


def _entry(
    row: Any, replicas: Sequence[int], named: Iterable[Sequence[str] | None]
) -> dict[str, Any]:
    """Return the entry of a partition; without ``log_dirs`` if it names no directory."""
    entry = {"topic": row.topic, "partition": row.partition, "replicas": list(replicas)}
    dirs = [ANY] * len(replicas)
    for names in named:
        dirs = [one if name == ANY else name for one, name in zip(dirs, names or dirs, strict=True)]
    return entry | ({"log_dirs": dirs} if set(dirs) != {ANY} else {})


def _wave_document(
    number: int, wave: Wave, what: str, names: Sequence[int | str]
) -> Mapping[str, Any]:
    fullest = int(np.argmax(wave.peak))
    return {
        "wave": number,
        "partitions": wave.partitions,
        "bytes": int(wave.size_in.sum()),
        "most_in": int(wave.size_in.max(initial=0)),
        "most_out": int(wave.size_out.max(initial=0)),
        what: names[fullest],
        "peak_bytes": int(wave.peak[fullest]),
    }


def _text(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def _write_json(path: Path, document: object) -> None:
    path.write_text(_text(document) + "\n", encoding="utf-8")
