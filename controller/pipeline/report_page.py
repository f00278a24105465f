"""A report as one HTML page of tables and charts, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from controller.pipeline.report import Report
from controller.pipeline.report_charts import (
    load_picture,
    matrix_picture,
    phases_picture,
    timeline_picture,
)

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
class Disks:
    """Bytes by broker: before, planned, and after."""

    before: Mapping[int, int]
    planned: Mapping[int, int]
    after: Mapping[int, int]


def page(report: Report, disks: Disks, *, broken: int, about: str) -> str:
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


def _timeline(report: Report) -> str:
    rows = report.requests.where("begun IS NOT NULL").limit(ROWS_MAX).collect()
    if not rows:
        return ""
    first = min(row.begun.timestamp() for row in rows)
    spans = [
        (row.request, row.begun.timestamp() - first, (row.ended or row.begun).timestamp() - first)
        for row in rows
    ]
    return timeline_picture(spans)


def _loads(disks: Disks) -> str:
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


def _matrix(report: Report) -> str:
    rows = report.pairs.collect()
    if not rows:
        return ""
    pairs = {(row.served_by, row.copied_by): float(row.bytes or 0) for row in rows}
    return matrix_picture(sorted({broker for pair in pairs for broker in pair}), pairs)


def _phases(report: Report) -> str:
    rows = report.phases.collect()
    if not rows:
        return ""
    return phases_picture(
        {row.phase: (row.p50_seconds, row.p90_seconds, row.p99_seconds) for row in rows}
    )


def _eta_line(report: Report) -> str:
    told = report.etas.agg(
        F.count("*").alias("n"),
        F.avg(F.col("was_within").cast("int")).alias("within"),
        F.percentile(F.abs("error_s"), F.lit(0.5)).alias("typical"),
    ).first()
    if not told.n:
        return ""
    return (
        f"<p>{told.n} estimates; {told.within:.0%} of the ranges contained the actual time; the "
        f"median error of the middle of the range was {told.typical:.0f} s.</p>"
    )
