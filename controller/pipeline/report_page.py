"""
Write a report: its tables, and one HTML page of tables and charts.

The page has no scripts and no external resources.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.errors import InvalidInputError, errors_about
from controller.pipeline.planner import ReportProgress
from controller.pipeline.report import Report, build_report, read_journals
from controller.pipeline.report_loads import report_goals, report_loads
from controller.pipeline.snapshot_tables import read_tables
from controller.planning.load_goals import BYTES_IN, BYTES_OUT

GIB: Final = float(1 << 30)
MB: Final = 1e6
BROKERS_NAMED: Final = 40
"""Maximum number of brokers labelled on an axis."""

# Text stays text: it can be searched, and the file is small. Element ids are reproducible.
mpl.rcParams["svg.fonttype"] = "none"
mpl.rcParams["svg.hashsalt"] = "reassigner"

ROWS_MAX: Final = 200
"""Rows of a table on the page; the Parquet tables have all."""

BrokerFill = Mapping[str, Mapping[int, int]]
"""Bytes by broker, as far as known: before, planned, and after."""


def make_report(  # noqa: PLR0913, PLR0917 - the directories
    spark: Any,
    journals: Sequence[Path],
    plan: Path | None,
    after: Path | None,
    directory: Path,
    progress: ReportProgress,
) -> Path:
    """
    Write the tables and the page of a report; return the path of the page.

    ``plan`` is the directory of the executed plan, ``after`` a snapshot taken afterwards.

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
    if plan is not None and (plan / "loads").exists():
        later = None if after is None else read_tables(spark, str(after))
        report["loads"] = report_loads(spark.read.parquet(str(plan / "loads")), later).persist()
        moved = report["requests"].agg(F.sum("moved_bytes")).first()[0]
        report["goals"] = report_goals(spark, plan, report["loads"], moved)
    for name, table in report.items():
        progress(f"writing {name}")
        table.coalesce(1).write.mode("overwrite").parquet(str(directory / name))
    progress("drawing")
    disks = _disks(spark, loads, after)
    about = "From " + ", ".join(map(str, journals)) + (f" and the plan in {plan}" if plan else "")
    path = directory / "report.html"
    requests = [row.request for row in report["requests"].select("request").collect()]
    with errors_about(path):
        path.write_text(_page(report, disks, broken=broken, about=about), encoding="utf-8")
        # The status page of a daemon finds reports by this file.
        (directory / "report.json").write_text(
            json.dumps({"v": 1, "requests": requests}) + "\n", encoding="utf-8"
        )
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
    planned = [] if loads is None else loads.collect()
    found = []
    if after is not None:
        held = read_tables(spark, str(after)).replicas.groupBy("broker")
        found = held.agg(F.sum("size_bytes").alias("n")).collect()
    return {
        "before": {row.broker: row.bytes_before for row in planned},
        "planned": {row.broker: row.bytes_after for row in planned},
        "after": {row.broker: row.n for row in found},
    }


# --- the page ------------------------------------------------------------------------------------


def _page(report: Report, disks: BrokerFill, *, broken: int, about: str) -> str:
    environment = Environment(loader=PackageLoader("controller.pipeline"), autoescape=True)
    environment.filters["cell"] = _text
    sections = (
        ("Requests", _timeline(report), "requests"),
        ("Load per broker", _loads(disks), "brokers"),
        ("Goals", _rates(report), "goals"),
        ("Copies by pair of brokers", _matrix(report), "pairs"),
        ("Duration of phases", _phases(report), "phases"),
        ("Topics", "", "topics"),
        ("Stalls", "", "stalls"),
        ("ISR shrinks", "", "isr_shrinks"),
        ("Estimated and actual remaining time", _eta_line(report), "etas"),
    )
    parts = [
        (title, picture, report[name].columns, report[name].limit(ROWS_MAX + 1).collect())
        for title, picture, name in sections
        if name in report
    ]
    template = environment.get_template("report.html")
    page = template.render(parts=parts, broken=broken, about=about, rows_max=ROWS_MAX)
    return f"{page}\n"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _eta_line(report: Report) -> str:
    estimates = (
        report["etas"]
        .agg(
            F.count("*").alias("n"),
            F.avg(F.col("was_within").cast("int")).alias("within"),
            F.percentile(F.abs("error_s"), F.lit(0.5)).alias("typical"),
        )
        .first()
    )
    if not estimates.n:
        return ""
    return (
        f"<p>{estimates.n} estimates; {estimates.within:.0%} of the ranges contained the actual "
        f"time; the median error of the middle of the range was {estimates.typical:.0f} s.</p>"
    )


# --- charts ---------------------------------------------------------------------------------------


def _timeline(report: Report) -> str:
    """Draw the begin and end of requests."""
    rows = report["requests"].where("begun IS NOT NULL").limit(ROWS_MAX).collect()
    if not rows:
        return ""
    first = min(row.begun.timestamp() for row in rows)
    figure = Figure(figsize=(10, max(1.6, 0.35 * len(rows) + 1)))
    axes = figure.subplots()
    for n, row in enumerate(rows):
        begun, ended = (at.timestamp() - first for at in (row.begun, row.ended or row.begun))
        axes.barh(n, max(ended - begun, 0.1), left=begun, height=0.6)
    axes.set_yticks(range(len(rows)), [row.request for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the first began")
    figure.tight_layout()
    return _svg(figure)


def _loads(disks: BrokerFill) -> str:
    """Draw the bytes of each broker."""
    held = {name: {b: n / GIB for b, n in found.items()} for name, found in disks.items()}
    return _bars(held, "GiB")


def _rates(report: Report) -> str:
    """Draw bytes in and bytes out of each broker, if they are known."""
    if "loads" not in report:
        return ""
    pictures = []
    for goal, title in ((BYTES_IN, "MB/s in"), (BYTES_OUT, "MB/s out")):
        rows = report["loads"].where((F.col("goal") == goal) & F.col("broker").isNotNull())
        found = rows.collect()
        held = {
            name: {row.broker: row[name] / MB for row in found if row[name] is not None}
            for name in ("before", "planned", "after")
        }
        pictures.append(_bars(held, title))
    return "".join(pictures)


def _bars(held: Mapping[str, Mapping[int, float]], unit: str) -> str:
    """Draw a load of each broker, as far as it is known."""
    brokers = sorted(set().union(*held.values()))
    known = {name: found for name, found in held.items() if found}
    if not known:
        return ""
    figure = Figure(figsize=(10, 3.6))
    axes = figure.subplots()
    width = 0.8 / len(known)
    for n, (name, found) in enumerate(known.items()):
        at = [x + n * width for x in range(len(brokers))]
        axes.bar(at, [found.get(broker, 0) for broker in brokers], width=width, label=name)
    _name_brokers(axes.set_xticks, brokers)
    axes.set_xlabel("broker")
    axes.set_ylabel(unit)
    axes.legend(loc="upper right")
    return _svg(figure)


def _matrix(report: Report) -> str:
    """Draw the bytes copied from each broker (row) to each other one (column)."""
    rows = report["pairs"].collect()
    if not rows:
        return ""
    brokers = sorted({broker for row in rows for broker in (row.served_by, row.copied_by)})
    index = {broker: n for n, broker in enumerate(brokers)}
    grid = [[0.0] * len(brokers) for _ in brokers]
    for row in rows:
        grid[index[row.served_by]][index[row.copied_by]] = float(row.bytes or 0) / GIB
    figure = Figure(figsize=(6, 5))
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="Blues", aspect="auto")
    figure.colorbar(image, label="GiB")
    _name_brokers(axes.set_xticks, brokers)
    _name_brokers(axes.set_yticks, brokers)
    axes.set_xlabel("copied by")
    axes.set_ylabel("served by")
    return _svg(figure)


def _phases(report: Report) -> str:
    """Draw the median, 90th and 99th percentile of the duration of each phase."""
    rows = report["phases"].collect()
    if not rows:
        return ""
    figure = Figure(figsize=(10, 3.2))
    axes = figure.subplots()
    columns = {"median": "p50_seconds", "90 %": "p90_seconds", "99 %": "p99_seconds"}
    for n, (label, column) in enumerate(columns.items()):
        at = [x + 0.25 * n for x in range(len(rows))]
        axes.bar(at, [row[column] for row in rows], width=0.25, label=label)
    axes.set_xticks([x + 0.25 for x in range(len(rows))], [row.phase for row in rows])
    axes.set_ylabel("seconds")
    axes.legend(loc="upper right")
    return _svg(figure)


def _name_brokers(set_ticks: Any, brokers: Sequence[int]) -> None:
    step = -(-len(brokers) // BROKERS_NAMED)
    at = range(0, len(brokers), max(1, step))
    set_ticks(list(at), [str(brokers[n]) for n in at])


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    # An inline SVG has no XML declaration and no document type.
    return re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.DOTALL)
