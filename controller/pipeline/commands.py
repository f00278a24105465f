"""
The work of the pipeline commands: snapshot, plan, report.

Each function reads the tables that it needs, reports its progress and returns what the command
prints. Nothing here prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError
from controller.pipeline.cluster_frame import Cluster, load
from controller.pipeline.directory_plan import (
    DirectoryBalance,
    DirectorySummary,
    place_directories,
)
from controller.pipeline.plan_options import PlanOptions
from controller.pipeline.plan_summary import PlanSummary, summarize
from controller.pipeline.plan_writer import Cutter, write_directories, write_plan
from controller.pipeline.planner import Planner, Progress
from controller.pipeline.report import build_report, read_journals
from controller.pipeline.report_page import BrokerFill, page
from controller.pipeline.snapshot_writer import BrokerRow, SnapshotSource, write_snapshot
from controller.pipeline.stock_snapshot import source_of_files
from controller.pipeline.tables import Manifest, Tables, check_tables, read_tables
from controller.pipeline.volume_table import load_volumes
from controller.pipeline.waves import Wave, WaveLimits


def snapshot_of_cluster(
    spark: Any,
    source: SnapshotSource,
    brokers: Iterable[BrokerRow],
    manifest: Manifest,
    directory: Path,
) -> Mapping[str, Any]:
    """Write the snapshot of a cluster; return its counts."""
    return _counts(write_snapshot(spark, source, brokers, manifest, directory))


def snapshot_of_files(  # noqa: PLR0913, PLR0917 - the files
    spark: Any,
    plan: Path,
    sizes: Path | None,
    brokers: Path | None,
    taken_at: str,
    directory: Path,
    *,
    progress: Progress,
    rates: Sequence[tuple[str, int | None, float]] = (),
) -> Mapping[str, Any]:
    """Write a snapshot of a stock JSON; return its counts."""
    source, rows = source_of_files(spark, plan, sizes, brokers, progress)
    source = replace(source, rates=rates)
    manifest = Manifest("", taken_at, str(plan))
    return _counts(write_snapshot(spark, source, rows, manifest, directory))


def _counts(tables: Tables) -> Mapping[str, Any]:
    total = tables.replicas.agg(
        F.count("*").alias("replicas"),
        F.count_distinct("topic", "partition").alias("partitions"),
        F.sum("size_bytes").alias("bytes"),
    ).first()
    found: dict[str, Any] = total.asDict()
    return found | {
        "brokers": tables.brokers.count(),
        "topics": tables.topics.count(),
        "cluster_id": tables.manifest.cluster_id,
    }


def make_plan(  # noqa: PLR0913, PLR0917 - the options of the command
    spark: Any,
    snapshot: str,
    options: PlanOptions,
    limits: WaveLimits,
    directory: str,
    progress: Progress,
) -> tuple[PlanSummary, list[Wave], list[Path]]:
    """
    Make a plan, cut it into waves and write it.

    Raises:
        InvalidInputError: the snapshot or an option is invalid, or the disks have no room.

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
    brokers = len(cluster.brokers.ids)
    if placed is not None:
        peak = np.max([wave.peak[brokers:] for wave in waves], axis=0, initial=0)
        fills = placed.table.fills(placed.table.used, peak)
        summary = replace(summary, log_dirs=fills, notes=(*summary.notes, *placed.notes))
    progress("writing")
    files = write_plan(
        planned, summary, loads, (assigned, waves), tables.manifest, directory, placed
    )
    return summary, [wave.first(brokers) for wave in waves], files


def balance_directories(  # noqa: PLR0913, PLR0917 - the options of the command
    spark: Any,
    snapshot: str,
    options: PlanOptions,
    limits: WaveLimits,
    directory: str,
    progress: Progress,
) -> tuple[DirectorySummary, list[Wave], list[Path]]:
    """
    Plan to even out the log directories of brokers, and write the plan.

    Raises:
        InvalidInputError: the snapshot or an option is invalid.

    """
    tables, cluster = _load(spark, snapshot, options, progress)
    table = load_volumes(tables, cluster.brokers.ids, options.fill)
    moved, waves, summary = DirectoryBalance(spark, tables, cluster, table, options, limits).plan(
        progress
    )
    progress("writing")
    files = write_directories(moved, waves, summary, cluster, table, tables.manifest, directory)
    return summary, waves, files


def _load(
    spark: Any, snapshot: str, options: PlanOptions, progress: Progress
) -> tuple[Tables, Cluster]:
    options.check()
    progress("reading the snapshot")
    tables = read_tables(spark, snapshot)
    check_tables(tables, snapshot)
    drained = options.drain | set(options.replace)
    with_dead = options.balance_dirs
    return tables, load(spark, tables, drained=drained, fill=options.fill, with_dead=with_dead)


def make_report(  # noqa: PLR0913, PLR0917 - the directories
    spark: Any,
    journals: Sequence[Path],
    plan: Path | None,
    after: Path | None,
    directory: Path,
    progress: Progress,
) -> Path:
    """
    Write the tables and the page of a report; return the path of the page.

    Args:
        spark: The session.
        journals: The directories of the daemons' journals.
        plan: The directory of the executed plan.
        after: A snapshot taken afterwards.
        directory: The directory of the report.
        progress: Receives the progress.

    Raises:
        InvalidInputError: an input cannot be read.

    """
    if plan is not None and after is not None:
        _refuse_other_cluster(spark, plan, after)
    progress("reading journals")
    journal, broken = read_journals(spark, journals)
    changes = loads = None
    if plan is not None:
        changes, loads = _plan_tables(spark, plan)
    report = build_report(journal, changes, loads)
    for name, table in report.tables().items():
        progress(f"writing {name}")
        table.coalesce(1).write.mode("overwrite").parquet(str(directory / name))
    progress("drawing")
    disks = _disks(spark, loads, after)
    about = "From " + ", ".join(map(str, journals)) + (f" and the plan in {plan}" if plan else "")
    path = directory / "report.html"
    requests = [row.request for row in report.requests.select("request").collect()]
    try:
        path.write_text(page(report, disks, broken=broken, about=about), encoding="utf-8")
        # The status page of a daemon finds reports by this file.
        (directory / "report.json").write_text(
            json.dumps({"v": 1, "requests": requests}) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or error}") from error
    return path


def _refuse_other_cluster(spark: Any, plan: Path, after: Path) -> None:
    """Refuse a snapshot of another cluster than the plan's."""
    summary = plan / "summary.json"
    try:
        planned = json.loads(summary.read_text(encoding="utf-8"))["snapshot"]["cluster_id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{summary}: not the summary of a plan: {error}") from error
    found = read_tables(spark, str(after)).manifest.cluster_id
    if planned and found and planned != found:
        raise InvalidInputError(
            f"{after}/manifest: column cluster_id is {found}, but {summary} is about the cluster "
            f"{planned}"
        )


def _plan_tables(spark: Any, plan: Path) -> tuple[Any, Any]:
    if not (plan / "summary.json").exists():
        raise InvalidInputError(f"{plan}: not the directory of a plan: there is no summary.json")
    if not (plan / "brokers").exists():
        raise InvalidInputError(
            f"{plan}: a plan of log directories has no loads of brokers: leave out --plan"
        )
    return spark.read.parquet(str(plan / "changes")), spark.read.parquet(str(plan / "brokers"))


def _disks(spark: Any, loads: Any | None, after: Path | None) -> BrokerFill:
    before: dict[int, int] = {}
    planned: dict[int, int] = {}
    found: dict[int, int] = {}
    if loads is not None:
        for row in loads.collect():
            before[row.broker], planned[row.broker] = row.bytes_before, row.bytes_after
    if after is not None:
        tables = read_tables(spark, str(after))
        for row in tables.replicas.groupBy("broker").agg(F.sum("size_bytes").alias("n")).collect():
            found[row.broker] = row.n
    return BrokerFill(before, planned, found)
