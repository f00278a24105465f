"""Reports are listed, and no other file is served."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import pytest

from controller.telemetry.metrics import Metrics
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.http_messages import HttpRequest
from controller.web.report_index import LISTED_MAX, IndexedReport, ReportIndex
from controller.web.routes import Health, Routes
from tests.telemetry.builders import FixedClock, a_view


def put(reports: Path, name: str, *, at: float = 0.0, contents: str | None = None) -> None:
    """Put a report there."""
    (reports / name).mkdir()
    (reports / name / "report.html").write_text(f"<p>{name}</p>")
    os.utime(reports / name / "report.html", (at, at))
    if contents is not None:
        (reports / name / "report.json").write_text(contents)


def pages_of(reports: ReportIndex | None) -> Routes:
    """Return the pages of a daemon that has nothing to do."""
    clock = FixedClock()
    publisher = StatusPublisher(
        clock=clock, wall=clock.wall, engine="native", stalled_after_s=300.0
    )
    publisher.tend(a_view(1).view)
    return Routes(
        metrics=Metrics(),
        publisher=publisher,
        health=Health(clock=clock),
        wall=clock.wall,
        reports=reports,
    )


def test_newest_reports_come_first_with_their_requests(tmp_path: Path) -> None:
    """A limited number is listed; a report without contents is one of them."""
    put(tmp_path, "drain-4", at=20, contents=json.dumps({"v": 1, "requests": ["r-1", "r-2"]}))
    for n in range(LISTED_MAX):
        put(tmp_path, f"old-{n:02}", at=10 - n, contents="nonsense")
    found = ReportIndex(tmp_path).newest()
    assert found[0] == IndexedReport("drain-4", datetime.fromtimestamp(20, UTC), ("r-1", "r-2"))
    assert [r.name for r in found[1:]] == [f"old-{n:02}" for n in range(LISTED_MAX - 1)]
    assert {r.requests for r in found[1:]} == {()}


def test_missing_directory_has_no_reports(tmp_path: Path) -> None:
    """The first report creates it."""
    reports = ReportIndex(tmp_path / "later")
    assert reports.newest() == []
    assert reports.read("drain-4") is None


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "../secret", "%2e%2e/secret", "a/b", "/etc", "linked", "..\\secret", "x" * 101],
)
def test_only_reports_are_served(tmp_path: Path, name: str) -> None:
    """No path, no link out of the directory, no encoding of either."""
    reports = tmp_path / "reports"
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "report.html").write_text("secret")
    (reports / "a" / "b").mkdir(parents=True)
    (reports / "a" / "b" / "report.html").write_text("deep")
    (reports / "linked").symlink_to(tmp_path / "secret")
    (reports / "report.html").write_text("loose")
    assert ReportIndex(reports).read(name) is None
    assert ReportIndex(reports).newest() == []
    assert (
        pages_of(ReportIndex(reports)).answer(HttpRequest(f"/reports/{name}")).status
        is HTTPStatus.NOT_FOUND
    )


def test_reports_are_linked_and_served(tmp_path: Path) -> None:
    """From the overview, and from the page of each request that they are about."""
    put(tmp_path, "drain-4", contents=json.dumps({"v": 1, "requests": ["r-1"]}))
    pages = pages_of(ReportIndex(tmp_path))
    link = b'<a href="/reports/drain-4">'
    assert link in pages.answer(HttpRequest("/")).body
    assert link in pages.answer(HttpRequest("/history?request=r-1")).body
    assert link not in pages.answer(HttpRequest("/history?request=r-2")).body
    answer = pages.answer(HttpRequest("/reports/drain-4"))
    assert (answer.status, answer.body) == (HTTPStatus.OK, b"<p>drain-4</p>")


def test_without_the_setting_there_are_no_reports() -> None:
    """Neither a heading nor a path."""
    pages = pages_of(None)
    assert b"Reports" not in pages.answer(HttpRequest("/")).body
    assert pages.answer(HttpRequest("/reports/x")).status is HTTPStatus.NOT_FOUND
