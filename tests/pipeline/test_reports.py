"""The report, from a journal that was written by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.errors import InvalidInputError
from controller.pipeline.report_page import make_report
from controller.pipeline.snapshot_files import snapshot_of_files
from controller.pipeline.snapshot_tables import Manifest, read_tables, write_tables

pytestmark = pytest.mark.spark

GIB = 1 << 30


def at(second: int) -> str:
    """Return a moment."""
    return f"2026-01-02T03:04:{second:02}.000Z"


def line(second: int, kind: str, **fields: object) -> str:
    """Return a line of a journal."""
    return json.dumps({"v": 1, "at": at(second), "kind": kind, **fields})


def copied(
    second: int, partition: int, replica: int, size: int | None, kind: str = "copied"
) -> str:
    """Return the line about a copy that took four seconds."""
    return line(
        second,
        kind,
        topic="t",
        partition=partition,
        request="r",
        leader=1,
        replica=replica,
        begun=at(second - 4),
        seconds=4.0,
        bytes=size,
    )


LINES = [
    line(1, "request_begun", request="r", request_kind="request", entries=2),
    line(1, "request_begun", request="kept", request_kind="request", entries=1),
    line(3, "request_ended", request="kept", state="done", seconds=2.0, entries=1, done=1),
    line(1, "request_begun", request="gone", request_kind="request", entries=1),
    line(4, "request_ended", request="gone", state="cancelled", seconds=3.0, entries=1, done=0),
    line(2, "progress", request="r", entries=2, done=0, eta_low_s=5.0, eta_high_s=20.0),
    line(
        3,
        "phase",
        topic="t",
        partition=0,
        phase="A2-syncing",
        before="A2",
        seconds=2.0,
        request="r",
    ),
    line(4, "stalled", topic="t", partition=0, by="isr"),
    line(7, "goes_on", topic="t", partition=0, by="isr"),
    line(8, "isr_shrunk", topic="t", partition=0, request="r", lost=[2], isr=[1], leader=1),
    copied(9, 0, 3, GIB),
    line(9, "size", topic="t", partition=1, request="r", bytes=2 * GIB, copies=1),
    copied(10, 1, 3, None),
    copied(10, 1, 4, GIB // 2, kind="copy_abandoned"),
    line(12, "request_ended", request="r", state="done", seconds=11.0, entries=2, done=2),
    '{"v":1,"at":"2026-01-0',
]


@pytest.fixture(scope="module")
def report(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a report on two journals that saw the same copy."""
    base = tmp_path_factory.mktemp("report")
    for name, lines in (("first", LINES), ("second", [copied(9, 0, 3, GIB)])):
        (base / name).mkdir()
        (base / name / "journal.jsonl").write_text("\n".join(lines) + "\n")
    out = base / "out"
    make_report(spark, [base / "first", base / "second"], None, None, out, lambda _: None)
    return out


def rows(spark: Any, report: Path, table: str) -> list[dict[str, Any]]:
    """Return a table of the report."""
    return [row.asDict() for row in spark.read.parquet(str(report / table)).collect()]


def test_a_request_is_reported_with_copied_and_abandoned_bytes(spark: Any, report: Path) -> None:
    """Whole copies count as moved, abandoned ones as the price; sizes may come in other lines."""
    request = next(r for r in rows(spark, report, "requests") if r["request"] == "r")
    assert (request["state"], request["seconds"], request["done"]) == ("done", 11.0, 2)
    assert (request["moved_bytes"], request["abandoned_bytes"]) == (3 * GIB, GIB // 2)
    assert request["copies"] == 2


def test_rates_are_reported_by_pair_of_brokers(spark: Any, report: Path) -> None:
    """Three GiB in eight seconds of copying."""
    (pair,) = rows(spark, report, "pairs")
    assert (pair["served_by"], pair["copied_by"], pair["bytes"]) == (1, 3, 3 * GIB)
    assert pair["bytes_per_second_of_a_copy"] == pytest.approx(3 * GIB / 8)


def test_phases_stalls_and_estimates_are_reported(spark: Any, report: Path) -> None:
    """Durations are those of the phase that ended; a stall lasts until there is progress."""
    (phase,) = rows(spark, report, "phases")
    assert (phase["phase"], phase["p50_seconds"]) == ("A2", 2.0)
    (stall,) = rows(spark, report, "stalls")
    assert (stall["by"], stall["stalls"], stall["max_seconds"]) == ("isr", 1, 3.0)
    (eta,) = rows(spark, report, "etas")
    assert (eta["remained_s"], eta["error_s"], eta["was_within"]) == (10.0, 2.5, True)
    (shrink,) = rows(spark, report, "isr_shrinks")
    assert shrink["lost"] == [2]


def test_the_page_needs_nothing_from_outside(report: Path) -> None:
    """One file, with its pictures inside, that says how many lines were cut off."""
    text = (report / "report.html").read_text(encoding="utf-8")
    assert text.count("<svg") >= 3
    assert "1 lines of the journals could not be read" in text
    assert not re.search(r"(src|href)=[\"']?https?:", text)
    assert "<script" not in text


def test_a_journal_of_another_version_is_refused(spark: Any, tmp_path: Path) -> None:
    """The message names the file and the column."""
    (tmp_path / "journal.jsonl").write_text('{"v":2,"at":"x","kind":"phase"}\n')
    with pytest.raises(InvalidInputError, match=r"journal.jsonl: column v is 2"):
        make_report(spark, [tmp_path], None, None, tmp_path / "out", lambda _: None)


def test_a_plan_is_not_set_beside_a_snapshot_of_another_cluster(spark: Any, tmp_path: Path) -> None:
    """The message names both files, the column and both ids."""
    current, plan, after = tmp_path / "current.json", tmp_path / "plan", tmp_path / "after"
    current.write_text('{"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}')
    snapshot_of_files(spark, current, None, None, "now", tmp_path / "first", progress=print)
    tables = read_tables(spark, str(tmp_path / "first"))
    write_tables(replace(tables, manifest=Manifest("here", "now", "test")), str(after))
    plan.mkdir()
    (plan / "summary.json").write_text('{"v":1,"snapshot":{"cluster_id":"elsewhere"}}')
    with pytest.raises(InvalidInputError) as raised:
        make_report(spark, [tmp_path], plan, after, tmp_path / "out", lambda _: None)
    assert str(raised.value) == (
        f"{after}/manifest: column cluster_id is here, but {plan}/summary.json is about the "
        f"cluster elsewhere"
    )


def test_the_page_says_to_a_status_page_what_it_is_about(report: Path) -> None:
    """The file beside it names the requests."""
    assert json.loads((report / "report.json").read_text()) == {
        "v": 1,
        "requests": ["r", "gone", "kept"],
    }
