"""
A throttled copy grows in the status, the metrics and the journal, whichever engine makes its step.

Its stalls are reported after less time than the copy takes: none may be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
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
