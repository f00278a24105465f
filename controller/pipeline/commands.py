"""
Make the plans of ``pipeline plan``: read the snapshot, plan, cut into waves, write.

A plan is written as Parquet tables, Kafka's JSON for the stock tool, and requests. Only here the
driver collects rows by wave, as text for ``reassigner execute``. Every entry names the replicas it
was planned from, so that ``execute`` detects a cluster that changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import errors_about
from controller.pipeline.cluster_frame import Cluster, in_order, load
from controller.pipeline.directory_plan import (
    DirectoryBalance,
    DirectorySummary,
    entries_of,
    place_directories,
)
from controller.pipeline.goal_summary import TABLE, load_rows
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.plan_summary import PlanSummary, summarize
from controller.pipeline.planner import Planner, ReportProgress
from controller.pipeline.snapshot_tables import Manifest, Tables, check_tables, read_tables
from controller.pipeline.volume_plans import SmallPlan, SmallPlanner
from controller.pipeline.volume_table import ANY, VolumeTable, load_volumes
from controller.pipeline.waves import Cutter, Wave, WaveLimits
from controller.planning.relief import ReliefGoal

_LOADS: Final = (
    "broker INT, rack STRING, bytes_before BIGINT, bytes_after BIGINT, replicas_before BIGINT, "
    "replicas_after BIGINT, leaders_before BIGINT, leaders_after BIGINT, "
    "bytes_in_per_s_before DOUBLE, bytes_in_per_s_after DOUBLE, "
    "bytes_out_per_s_before DOUBLE, bytes_out_per_s_after DOUBLE, "
    "leader_bytes_in_per_s_before DOUBLE, leader_bytes_in_per_s_after DOUBLE"
)
_DISKS: Final = "bytes_in BIGINT, bytes_out BIGINT, peak_bytes BIGINT"
_TAIL: Final = "]}\n"

Written = dict[str, tuple[list[tuple[Any, ...]], str]]
"""The rows and columns of tables, by name."""


def make_plan(  # noqa: PLR0913, PLR0917 - the options of the command
    spark: Any,
    snapshot: str,
    options: PlanOptions,
    limits: WaveLimits,
    directory: str,
    progress: ReportProgress,
) -> tuple[PlanSummary, list[Wave], list[Path]]:
    """
    Make a plan, cut it into waves and write it; return also the files of the requests.

    Raises:
        InvalidInputError: the snapshot or an option is invalid, the disks have no room, or the
            directory cannot be written.

    """
    tables, cluster = _load(spark, snapshot, options, progress)
    planned = Planner(spark, cluster, options, progress).plan()
    progress("summarizing the plan")
    summary, loads = summarize(planned)
    placed = None
    if options.place_dirs:
        table = load_volumes(tables, cluster.brokers.ids, options.fill)
        placed = place_directories(spark, tables, planned, table, progress)
    assigned, waves = Cutter(spark, planned, limits, progress, placed).cut()
    ids = cluster.brokers.ids
    rows = planned.rows.join(assigned, ["topic", "partition"])
    of_brokers = zip(ids, cluster.racks, loads.by_broker(), strict=True)
    written: Written = {
        "brokers": ([(broker, rack, *held) for broker, rack, held in of_brokers], _LOADS),
        "loads": (list(load_rows(planned, loads.loads)), TABLE),
        "waves": (
            _by_wave([(broker,) for broker in ids], waves),
            f"wave INT, broker INT, {_DISKS}",
        ),
    }
    if placed is None:
        nothing = F.lit(None).cast("map<int,string>")
        rows = rows.withColumn("log_dirs", nothing).withColumn("old_dirs", nothing)
    else:
        peak = np.max([wave.peak[len(ids) :] for wave in waves], axis=0, initial=0)
        notes = (*summary.notes, *placed.notes)
        summary = replace(summary, log_dirs=placed.table.fills(peak), notes=notes)
        rows = rows.join(placed.rows, ["topic", "partition"], "left")
        written |= _volumes_by_wave(placed.table, waves, len(ids))
    progress("writing")
    changes = _write_tables(rows, cluster, written, directory)
    waves = [wave.first(len(ids)) for wave in waves]
    about = [_wave_document(n, wave, "peak_broker", ids) for n, wave in enumerate(waves, start=1)]
    files = _write_files(changes, summary.document(), about, tables.manifest, Path(directory))
    return summary, waves, files


def balance_directories(  # noqa: PLR0913, PLR0917 - the options of the command
    spark: Any,
    snapshot: str,
    options: PlanOptions,
    limits: WaveLimits,
    directory: str,
    progress: ReportProgress,
) -> tuple[DirectorySummary, list[Wave], list[Path]]:
    """
    Plan to even out the log directories of brokers, and write the plan; return as ``make_plan``.

    Raises:
        InvalidInputError: the snapshot or an option is invalid, or the directory cannot be written.

    """
    tables, cluster = _load(spark, snapshot, options, progress)
    table = load_volumes(tables, cluster.brokers.ids, options.fill)
    balance = DirectoryBalance(spark, tables, cluster, table, options, limits)
    moved, waves, summary = balance.plan(progress)
    progress("writing")
    written = _volumes_by_wave(table, waves, 0)
    changes = _write_tables(entries_of(moved, cluster), cluster, written, directory)
    names = [table.name(n) for n in range(len(table.volumes))]
    about = [_wave_document(n, wave, "peak_disk", names) for n, wave in enumerate(waves, start=1)]
    files = _write_files(changes, summary.document(), about, tables.manifest, Path(directory))
    return summary, waves, files


def make_small_plan(  # noqa: PLR0913, PLR0917 - the options of the command
    spark: Any,
    snapshot: str,
    options: PlanOptions,
    goal: ReliefGoal | int,
    limits: WaveLimits,
    directory: str,
    progress: ReportProgress,
) -> tuple[SmallPlan, list[Path]]:
    """
    Relieve a broker or a directory, or spend a budget of bytes, and write the plan.

    Raises:
        InvalidInputError: the snapshot or an option is invalid, the goal cannot be reached, or the
            directory cannot be written.

    """
    tables, cluster = _load(spark, snapshot, options, progress)
    progress("choosing replicas")
    found = SmallPlanner(spark, tables, cluster, options).plan(goal, limits)
    progress("writing")
    # The rates of a small plan are not summed up.
    rates = [None] * (_LOADS.count(",") + 1 - len(found.loads[0]))
    written: Written = {"brokers": ([(*row, *rates) for row in found.loads], _LOADS)}
    if found.table is not None:
        written |= _volumes_by_wave(found.table, found.waves, 0)
    changes = _write_tables(found.rows, cluster, written, directory)
    about = [
        _wave_document(n, wave, "peak_disk", found.names)
        for n, wave in enumerate(found.waves, start=1)
    ]
    document = {"partitions": found.partitions, **found.plan.document()}
    files = _write_files(changes, document, about, tables.manifest, Path(directory))
    return found, files


def _load(
    spark: Any, snapshot: str, options: PlanOptions, progress: ReportProgress
) -> tuple[Tables, Cluster]:
    options.check()
    progress("reading the snapshot")
    tables = read_tables(spark, snapshot)
    check_tables(tables, snapshot)
    return tables, load(spark, tables, options)


# --- tables --------------------------------------------------------------------------------------


def _volumes_by_wave(table: VolumeTable, waves: Sequence[Wave], first: int) -> Written:
    volumes = [(table.ids[b], list(ps)) for b, ps in zip(table.broker, table.paths, strict=True)]
    columns = f"wave INT, broker INT, log_dirs ARRAY<STRING>, {_DISKS}"
    return {"log_dirs": (_by_wave(volumes, waves, first), columns)}


def _by_wave(
    disks: Sequence[tuple[Any, ...]], waves: Sequence[Wave], first: int = 0
) -> list[tuple[Any, ...]]:
    """Return the bytes of some disks, by wave; the first one is at an index."""
    return [
        (n, *disk, int(wave.size_in[at]), int(wave.size_out[at]), int(wave.peak[at]))
        for n, wave in enumerate(waves, start=1)
        for at, disk in enumerate(disks, start=first)
    ]


def _write_tables(rows: Any, cluster: Cluster, written: Written, directory: str) -> Any:
    """Write all tables; return the changes, with null ``log_dirs`` in a plan without any."""
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
    for name in ("brokers", "loads", "waves", "log_dirs"):
        path = f"{directory}/{name}"
        if name in written:
            table = rows.sparkSession.createDataFrame(*written[name])
            table.coalesce(1).write.mode("overwrite").parquet(path)
        else:
            # An earlier plan may have left it.
            shutil.rmtree(path, ignore_errors=True)
    return changes


# --- files ---------------------------------------------------------------------------------------


def _write_files(
    changes: Any,
    summary: Mapping[str, Any],
    waves: Sequence[Mapping[str, Any]],
    manifest: Manifest,
    directory: Path,
) -> list[Path]:
    """Write plan, rollback, summary and requests; return the files of the requests."""
    paths = [directory / f"requests/wave-{n:04d}.json" for n in range(1, len(waves) + 1)]
    document = {
        "v": 1,
        "snapshot": {"cluster_id": manifest.cluster_id, "taken_at": manifest.taken_at},
        "plan": summary,
        "waves": waves,
    }
    with errors_about(directory):
        (directory / "requests").mkdir(parents=True, exist_ok=True)
        for old in directory.glob("requests/wave-*.json"):
            old.unlink()
        by_wave = _write_whole(changes, len(waves), directory)
        head = _head(manifest.cluster_id)
        for path, entries in zip(paths, by_wave, strict=True):
            path.write_text(head + ",".join(entries) + _TAIL, encoding="utf-8")
        (directory / "summary.json").write_text(_text(document) + "\n", encoding="utf-8")
    return paths


def _write_whole(changes: Any, waves: int, directory: Path) -> list[list[str]]:
    """Write the plan and its rollback as a whole; return the entries of each wave."""
    by_wave: list[list[str]] = [[] for _ in range(waves)]
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
    return by_wave


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
