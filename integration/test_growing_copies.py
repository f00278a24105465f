"""
A throttled copy grows in the status, the metrics and the journal, whichever engine makes its step.

Its stalls are reported after less time than the copy takes: none may be.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.cli.status_text import status_lines
from controller.telemetry.advice import OPEN_STATES
from controller.units import show_rate
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.plans import Daemons, await_end
from integration.rigs.requests import submit_request
from integration.rigs.waiting import eventually
from integration.shown_moves import (
    await_request,
    configured,
    journal,
    metric,
    status_of_request,
    write,
)

ROWS: Final = (Row("delegated", KAFKA_3_9, None), Row("native", KAFKA_3_9, "2.6"))
THROTTLE: Final = 1_500_000
"""Bytes per second and broker; the copy takes more than twice ``STALLED_AFTER_S``."""
RECORDS: Final = 600
REFRESH_S: Final = 2
STALLED_AFTER_S: Final = 15
"""Several reports, so that one that comes late makes no stall."""
SLOW_S: Final = 8.0
"""What the first fetch, and a busy machine, add to ``REFRESH_S``; the copy takes much longer."""


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def row_cluster(request: pytest.FixtureRequest) -> Iterator[tuple[Row, Cluster]]:
    """Give one row after the other, with its cluster."""
    row: Row = request.param
    with row.running() as cluster:
        yield row, cluster


@pytest.fixture
def cluster(row_cluster: tuple[Row, Cluster]) -> Cluster:
    """Give the cluster of the row: other fixtures build on it."""
    return row_cluster[1]


def test_bytes_of_a_throttled_copy_grow_until_it_is_whole(
    row_cluster: tuple[Row, Cluster], make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """The first are known within one refresh; nothing stalls; the totals are those on disk."""
    row, cluster = row_cluster
    topic = make_topic({0: (1, 2)})
    written = write(cluster, topic, 1, records=RECORDS)
    settings = configured(tmp_path, copy_refresh=REFRESH_S, stalled_after=STALLED_AFTER_S)
    daemon = daemons.start(*settings)
    assert daemon.status()["engine"] in {row.engine, "auto"}
    request = submit_request(cluster, {(topic, 0): (1, 3)}, throttle=THROTTLE)
    eventually(
        lambda: 3 in (cluster.topic(topic) or {}).get("adding_replicas", {}).get("0", ()),
        within_s=60,
        every_s=0.1,
        what="the step is in the topic znode",
    )
    begun = time.monotonic()
    await_request(daemon, request, lambda r: bool(r["bytes"] and r["bytes"]["moved"]), within_s=60)
    assert time.monotonic() - begun < REFRESH_S + SLOW_S
    seen: list[int] = []
    shown: list[Mapping[str, Any]] = []
    while (found := status_of_request(daemon, request))["state"] != "done":
        status = daemon.status()
        assert status["engine"] == row.engine
        assert status["stalled"] == {}
        seen.append(found["bytes"]["moved"])
        shown.extend(p for p in status["in_flight"] if p["copies"])
        assert time.monotonic() - begun < 180
        time.sleep(1)
    assert seen == sorted(seen)
    assert len({moved for moved in seen if 0 < moved < written}) >= 4
    assert any(p["copies"][0]["eta_s"] for p in shown)
    assert {p["copies"][0]["broker"] for p in shown} == {3}
    await_end(cluster, {(topic, 0): (1, 3)}, within_s=20)
    done = status_of_request(daemon, request)["bytes"]
    assert done["moved"] == done["total"] == pytest.approx(written, rel=0.03)
    assert metric(daemon, "reassigner_copied_bytes_total") == pytest.approx(written, rel=0.03)
    assert metric(daemon, "reassigner_broker_served_bytes_total", broker="1") == pytest.approx(
        written, rel=0.03
    )
    daemon.stop(within_s=20)
    lines = journal(daemon)
    (copied,) = (line for line in lines if line["kind"] == "copied")
    assert copied["bytes"] == pytest.approx(written, rel=0.03)
    assert copied["seconds"] > written / THROTTLE / 2
    assert [line for line in lines if line["kind"] == "stalled"] == []


def test_all_screens_show_one_rate_and_bars_do_not_run_backwards(
    row_cluster: tuple[Row, Cluster], make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """Page, ``/status``, ``status``, ``explain`` and metrics at one instant, many times."""
    _, cluster = row_cluster
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    write(cluster, topic, 2, records=RECORDS // 4)
    daemon = daemons.start(*configured(tmp_path, copy_refresh=1))
    targets = {(topic, n): (3, 4 + n) for n in range(2)}
    request = submit_request(cluster, targets, throttle=THROTTLE)
    shares: dict[str, float] = {}
    compared = 0
    eventually(lambda: bool(status_of_request(daemon, request)["state"] != "unknown"), within_s=30)
    while status_of_request(daemon, request)["state"] in OPEN_STATES:
        screens = _screens(daemon, f"{topic}-0")
        if screens is not None:
            _follow_bars(screens["status"], shares)
            compared += _agree(request, **screens)
    await_end(cluster, targets, within_s=60)
    assert compared >= 3
    assert status_of_request(daemon, request)["share"] == 1
    assert shares[f"{topic}-0"] > 0


def _screens(daemon: Daemon, partition: str) -> dict[str, Any] | None:
    """Return what is served of one instant; None if it passed meanwhile."""
    status = daemon.status()
    paths = ("/?still=1", "/metrics", f"/explain?partition={partition}")
    with ThreadPoolExecutor(len(paths)) as pool:
        page, metrics, explained = (body for _, body in pool.map(daemon.get, paths))
    if daemon.status()["at"] != status["at"]:
        return None
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
    explanation = json.loads(explained)
    return {"status": status, "page": words, "metrics": metrics, "explained": explanation}


def _follow_bars(status: Mapping[str, Any], shares: dict[str, float]) -> None:
    """Check that no bar went back, and that no known share became unknown."""
    bars = {r["id"]: r["share"] for r in status["requests"]}
    bars |= {f"{p['topic']}-{p['partition']}": p["share"] for p in status["in_flight"]}
    for name, share in bars.items():
        if name in shares or share is not None:
            assert share >= shares.get(name, 0.0), (name, share, shares)
            shares[name] = share


def _agree(
    request: str,
    *,
    status: Mapping[str, Any],
    page: str,
    metrics: str,
    explained: Mapping[str, Any],
) -> bool:
    """Compare the rates; return whether there was one."""
    rate = status["total"]["bytes_per_s"]
    (shown,) = [r for r in status["requests"] if r["id"] == request]
    if not rate or shown["bytes_per_s"] is None:
        return False
    assert shown["bytes_per_s"] == rate
    text = "\n".join(status_lines(status))
    samples = {
        (sample.name.removeprefix("reassigner_"), *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
    }
    slot = str(shown["slot"])
    assert samples["bytes_per_second",] == rate
    assert samples["request_info", slot, request] == 1
    assert samples["request_bytes_per_second", slot] == rate
    assert f"Throughput {show_rate(rate)}" in page
    assert f"{show_rate(rate)}" in text
    received = 0
    for load in status["broker_loads"]:
        speed = load["in_bytes_per_s"]
        figure = samples.get(("broker_in_bytes_per_second", str(load["broker"])))
        assert figure == speed, load
        received += speed or 0
    assert abs(received - rate) <= len(status["broker_loads"])
    moved = explained["reassignment"]
    listed = [p for p in status["in_flight"] if p["partition"] == 0]
    # An explanation is of the moment of the question, with the latest figures.
    if moved is not None and listed and moved["phase_since"] == listed[0]["phase_since"]:
        same = ("bytes_per_s", "eta_s", "share")
        assert {k: moved[k] for k in same} == {k: listed[0][k] for k in same}
    return True
