"""Reports on the shelf: what is listed, and that nothing else can be had there."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import pytest

from controller.telemetry.metrics import Metrics
from controller.telemetry.status_publisher import StatusPublisher
from controller.web.probes import Health
from controller.web.report_index import LISTED_MAX, IndexedReport, ReportIndex
from controller.web.routes import Routes
from tests.telemetry.builders import FixedClock, a_view


def put(shelf: Path, name: str, *, at: float = 0.0, contents: str | None = None) -> None:
    """Put a report there."""
    (shelf / name).mkdir()
    (shelf / name / "report.html").write_text(f"<p>{name}</p>")
    os.utime(shelf / name / "report.html", (at, at))
    if contents is not None:
        (shelf / name / "report.json").write_text(contents)


def pages_of(shelf: ReportIndex | None) -> Routes:
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
        reports=shelf,
    )


def test_newest_reports_come_first_with_their_requests(tmp_path: Path) -> None:
    """Only so many are listed; a report that does not say what it is about is one all the same."""
    put(tmp_path, "drain-4", at=20, contents=json.dumps({"v": 1, "requests": ["r-1", "r-2"]}))
    for n in range(LISTED_MAX):
        put(tmp_path, f"old-{n:02}", at=10 - n, contents="nonsense")
    found = ReportIndex(tmp_path).newest()
    assert found[0] == IndexedReport("drain-4", datetime.fromtimestamp(20, UTC), ("r-1", "r-2"))
    assert [r.name for r in found[1:]] == [f"old-{n:02}" for n in range(LISTED_MAX - 1)]
    assert {r.requests for r in found[1:]} == {()}


def test_a_shelf_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    """The first report makes it."""
    shelf = ReportIndex(tmp_path / "later")
    assert shelf.newest() == []
    assert shelf.read("drain-4") is None


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "../secret", "%2e%2e/secret", "a/b", "/etc", "linked", "..\\secret", "x" * 101],
)
def test_nothing_but_reports_on_the_shelf_can_be_had(tmp_path: Path, name: str) -> None:
    """Not by a path, not by a link that leads out, not by an encoding of either."""
    shelf = tmp_path / "shelf"
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "report.html").write_text("secret")
    (shelf / "a" / "b").mkdir(parents=True)
    (shelf / "a" / "b" / "report.html").write_text("deep")
    (shelf / "linked").symlink_to(tmp_path / "secret")
    (shelf / "report.html").write_text("loose")
    assert ReportIndex(shelf).read(name) is None
    assert ReportIndex(shelf).newest() == []
    assert pages_of(ReportIndex(shelf)).answer(f"/reports/{name}").status is HTTPStatus.NOT_FOUND


def test_reports_are_linked_and_served(tmp_path: Path) -> None:
    """From the overview, and from the page of each request that they are about."""
    put(tmp_path, "drain-4", contents=json.dumps({"v": 1, "requests": ["r-1"]}))
    pages = pages_of(ReportIndex(tmp_path))
    link = b'<a href="/reports/drain-4">'
    assert link in pages.answer("/").body
    assert link in pages.answer("/history?request=r-1").body
    assert link not in pages.answer("/history?request=r-2").body
    answer = pages.answer("/reports/drain-4")
    assert (answer.status, answer.body) == (HTTPStatus.OK, b"<p>drain-4</p>")


def test_without_a_shelf_there_is_nothing_of_it() -> None:
    """Neither a heading nor a path."""
    pages = pages_of(None)
    assert b"Reports" not in pages.answer("/").body
    assert pages.answer("/reports/x").status is HTTPStatus.NOT_FOUND
