"""Tests of ``controller.web.pictures``."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from controller.telemetry.timelines import TrendPoint
from controller.web.pictures import COLUMNS, HEIGHT, LEFT, WIDTH, charts_of, fill_of
from tests.telemetry.builders import START


@pytest.mark.parametrize("count", [2, 3, COLUMNS, COLUMNS + 1, 720])
def test_chart_is_bounded(count: int) -> None:
    """In points and in coordinates; the last point is at the right edge."""
    points = [
        TrendPoint(START + timedelta(seconds=5 * n), 1e9 * (n % 5), n % 7, n % 3)
        for n in range(count)
    ]
    charts = charts_of(points)
    assert charts is not None
    for chart in charts.values():
        for line, area in chart["curves"]:
            found = re.findall(r"([\d.]+) ([\d.]+)", line)
            assert (line.count("M"), area.count("Z")) == (1, 1)
            assert len(found) <= COLUMNS
            assert all(LEFT <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in found)
            assert float(found[-1][0]) == WIDTH
    assert charts["throughput"]["ticks"][-1][1].endswith("GB/s")


def test_chart_has_a_gap_where_nothing_is_known() -> None:
    """The rate was unknown, or no daemon wrote down what it was."""
    seconds = (0, 5, 10, 15, 20, 200, 205)
    points = [
        TrendPoint(START + timedelta(seconds=at), None if at == 10 else 1e6, 1, 1) for at in seconds
    ]
    charts = charts_of(points)
    assert charts is not None
    ((line, area),) = charts["throughput"]["curves"]
    assert (line.count("M"), area.count("Z")) == (3, 3)
    assert [line.count("M") for line, _ in charts["in_flight"]["curves"]] == [2, 2]
    unknown = charts_of([point._replace(bytes_per_s=None) for point in points])
    assert unknown is not None
    assert unknown["throughput"]["label"].endswith("throughput unknown now, at most unknown")


def test_chart_without_work_is_flat() -> None:
    """And none is drawn of a single point."""
    points = [TrendPoint(START + timedelta(seconds=5 * n), 0.0, 0, 0) for n in range(3)]
    charts = charts_of(points)
    assert charts is not None
    assert charts["throughput"]["label"] == ("the last 60 s: throughput 0 B/s now, at most 0 B/s")
    assert charts_of(points[:1]) is None


def test_fill_has_the_limit_of_copies() -> None:
    """Reserved space ends at the size of the volume; without a size nothing is drawn."""
    disks = {"min_free": "2%", "min_free_bytes": 0, "min_free_share": 0.02}
    directory = {"total_bytes": 1000, "usable_bytes": 400, "reserved_bytes": 100}
    assert fill_of(directory, disks) == {"used": 60.0, "reserved": 10.0, "limit": 98.0}
    full = fill_of({**directory, "reserved_bytes": 9000}, {**disks, "min_free": None})
    assert full == {"used": 60.0, "reserved": 40.0, "limit": None}
    assert fill_of({**directory, "total_bytes": None}, disks) is None
