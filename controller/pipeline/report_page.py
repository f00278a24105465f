"""A report as one HTML page of tables and charts, without scripts or external resources."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.pipeline.report import PipelineReport

GIB: Final = float(1 << 30)
BROKERS_NAMED: Final = 40
"""Maximum number of brokers labelled on an axis."""

# Text stays text: it can be searched, and the file is small. Element ids are reproducible.
mpl.rcParams["svg.fonttype"] = "none"
mpl.rcParams["svg.hashsalt"] = "reassigner"

ROWS_MAX: Final = 200
"""Rows of a table on the page; the Parquet tables have all."""

_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}
table{border-collapse:collapse;font-size:13px;margin:.5em 0}
td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}
td:first-child,th:first-child{text-align:left}
h2{margin-top:2em}.note{color:#555}svg{max-width:100%;height:auto}
"""


@dataclass(frozen=True, slots=True)
class BrokerFill:
    """Bytes by broker: before, planned, and after."""

    before: Mapping[int, int]
    planned: Mapping[int, int]
    after: Mapping[int, int]


def page(report: PipelineReport, disks: BrokerFill, *, broken: int, about: str) -> str:
    """
    Return the page.

    Args:
        report: The tables.
        disks: Bytes by broker, as far as known.
        broken: Number of unreadable lines of the journals.
        about: The sources of the report, in one line.

    """
    parts = [f"<h1>After-action report</h1><p class=note>{escape(about)}</p>"]
    if broken:
        parts.append(f"<p class=note>{broken} lines of the journals could not be read.</p>")
    parts += _section("Requests", _timeline(report), report.requests)
    parts += _section("Load per broker", _loads(disks), report.brokers)
    parts += _section("Copies by pair of brokers", _matrix(report), report.pairs)
    parts += _section("Duration of phases", _phases(report), report.phases)
    parts += _section("Topics", "", report.topics)
    parts += _section("Stalls", "", report.stalls)
    parts += _section("ISR shrinks", "", report.isr_shrinks)
    parts += _section("Estimated and actual remaining time", _eta_line(report), report.etas)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>After-action report</title>"
        f"<style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _section(title: str, picture: str, table: Any) -> list[str]:
    rows = table.limit(ROWS_MAX + 1).collect()
    return [f"<h2>{escape(title)}</h2>", picture, _table(table.columns, rows)]


def _table(columns: Sequence[str], rows: Sequence[Iterable[Any]]) -> str:
    if not rows:
        return "<p class=note>None.</p>"
    head = "".join(f"<th>{escape(column.replace('_', ' '))}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row) + "</tr>"
        for row in rows[:ROWS_MAX]
    )
    more = "<p class=note>More in the Parquet tables.</p>" if len(rows) > ROWS_MAX else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


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


def _timeline(report: PipelineReport) -> str:
    rows = report.requests.where("begun IS NOT NULL").limit(ROWS_MAX).collect()
    if not rows:
        return ""
    first = min(row.begun.timestamp() for row in rows)
    spans = [
        (row.request, row.begun.timestamp() - first, (row.ended or row.begun).timestamp() - first)
        for row in rows
    ]
    return timeline_picture(spans)


def _loads(disks: BrokerFill) -> str:
    brokers = sorted({*disks.before, *disks.planned, *disks.after})
    loads = {
        name: [float(held.get(broker, 0)) for broker in brokers]
        for name, held in (
            ("before", disks.before),
            ("planned", disks.planned),
            ("after", disks.after),
        )
        if held
    }
    return load_picture(brokers, loads) if loads else ""


def _matrix(report: PipelineReport) -> str:
    rows = report.pairs.collect()
    if not rows:
        return ""
    pairs = {(row.served_by, row.copied_by): float(row.bytes or 0) for row in rows}
    return matrix_picture(sorted({broker for pair in pairs for broker in pair}), pairs)


def _phases(report: PipelineReport) -> str:
    rows = report.phases.collect()
    if not rows:
        return ""
    return phases_picture(
        {row.phase: (row.p50_seconds, row.p90_seconds, row.p99_seconds) for row in rows}
    )


def _eta_line(report: PipelineReport) -> str:
    estimates = report.etas.agg(
        F.count("*").alias("n"),
        F.avg(F.col("was_within").cast("int")).alias("within"),
        F.percentile(F.abs("error_s"), F.lit(0.5)).alias("typical"),
    ).first()
    if not estimates.n:
        return ""
    return (
        f"<p>{estimates.n} estimates; {estimates.within:.0%} of the ranges contained the actual "
        f"time; the median error of the middle of the range was {estimates.typical:.0f} s.</p>"
    )


# --- charts ---------------------------------------------------------------------------------------


def load_picture(brokers: Sequence[int], loads: Mapping[str, Sequence[float]]) -> str:
    """
    Draw the bytes of each broker.

    Args:
        brokers: Ids.
        loads: Bytes by broker, for each of before, planned and after.

    """
    figure = Figure(figsize=(10, 3.6))
    axes = figure.subplots()
    width = 0.8 / max(1, len(loads))
    for n, (name, held) in enumerate(loads.items()):
        at = [x + n * width for x in range(len(brokers))]
        axes.bar(at, [value / GIB for value in held], width=width, label=name)
    _name_brokers(axes.set_xticks, brokers)
    axes.set_xlabel("broker")
    axes.set_ylabel("GiB")
    axes.legend(loc="upper right")
    return _svg(figure)


def matrix_picture(brokers: Sequence[int], pairs: Mapping[tuple[int, int], float]) -> str:
    """Draw the bytes copied from each broker (row) to each other one (column)."""
    index = {broker: n for n, broker in enumerate(brokers)}
    grid = [[0.0] * len(brokers) for _ in brokers]
    for (served_by, copied_by), size in pairs.items():
        if served_by in index and copied_by in index:
            grid[index[served_by]][index[copied_by]] = size / GIB
    figure = Figure(figsize=(6, 5))
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="Blues", aspect="auto")
    figure.colorbar(image, label="GiB")
    _name_brokers(axes.set_xticks, brokers)
    _name_brokers(axes.set_yticks, brokers)
    axes.set_xlabel("copied by")
    axes.set_ylabel("served by")
    return _svg(figure)


def timeline_picture(spans: Sequence[tuple[str, float, float]]) -> str:
    """Draw the begin and end of requests: name, first and last second."""
    figure = Figure(figsize=(10, max(1.6, 0.35 * len(spans) + 1)))
    axes = figure.subplots()
    for n, (_, begun, ended) in enumerate(spans):
        axes.barh(n, max(ended - begun, 0.1), left=begun, height=0.6)
    axes.set_yticks(range(len(spans)), [name for name, _, _ in spans])
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the first began")
    figure.tight_layout()
    return _svg(figure)


def phases_picture(phases: Mapping[str, tuple[float, float, float]]) -> str:
    """Draw the median, 90th and 99th percentile of the duration of each phase."""
    figure = Figure(figsize=(10, 3.2))
    axes = figure.subplots()
    for n, label in enumerate(("median", "90 %", "99 %")):
        at = [x + 0.25 * n for x in range(len(phases))]
        axes.bar(at, [times[n] for times in phases.values()], width=0.25, label=label)
    axes.set_xticks([x + 0.25 for x in range(len(phases))], list(phases))
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
