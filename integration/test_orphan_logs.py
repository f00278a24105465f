"""
The log of a replica that was dropped while its broker was dead, once the broker is back.

The native engine has it deleted. Where a broker stays the controller, no request of Kafka deletes
it: status and ``doctor`` name the directory, and the record ends with the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.plans import Daemons, fill, orphans
from integration.rigs.requests import await_outcome, reassigner, submit_request
from integration.rigs.waiting import eventually
from integration.shown_moves import configured

ROWS: Final = (Row("delegated", KAFKA_3_9, None), Row("native", KAFKA_3_9, "2.6"))
DROPPED: Final = 5
FINDINGS: Final = 2


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


def findings(cluster: Cluster, check: str) -> list[str]:
    """Return the lines of doctor about a check."""
    lines = reassigner(cluster, "doctor").stdout.splitlines()
    return [line for line in lines if f": {check}: " in line]


def test_log_of_a_dead_broker_is_known_until_it_is_gone(
    row_cluster: tuple[Row, Cluster], make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """And then no finding is left."""
    row, cluster = row_cluster
    topic = make_topic({0: (1, DROPPED)})
    fill(cluster, [(topic, 0)])
    name = f"{topic}-0"
    daemon = daemons.start(*configured(tmp_path, size_refresh=3), "--tenure-linger", "1")
    cluster.brokers[DROPPED].kill()
    eventually(lambda: cluster.zk.exists(f"/brokers/ids/{DROPPED}") is None, within_s=30)
    eventually(lambda: cluster.controller() not in (None, DROPPED), within_s=30)
    await_outcome(cluster, submit_request(cluster, {(topic, 0): (1, 2)}), within_s=60)
    assert orphans(cluster) == {f"{DROPPED}/{name}"}
    (line,) = findings(cluster, "orphan")
    held = f"broker {DROPPED} may still hold an old copy of {name}"
    assert held in reassigner(cluster, "status").stdout
    if row.engine == "native":
        assert line == f"info: orphan: {held.replace(' may', ': may')}"
    else:
        assert line.endswith("that broker is not live")
    cluster.start_brokers(DROPPED)
    if row.engine == "native":
        eventually(lambda: orphans(cluster) == set(), within_s=60, what="it is deleted")
        eventually(lambda: DROPPED not in holders_of(cluster, name), within_s=90)
    else:
        log = cluster.brokers[DROPPED].log_dirs[0] / name
        eventually(lambda: named(daemon.status()) == [str(log)], within_s=30)
        (orphan,) = daemon.status()["orphans"]
        assert f"run `rm -r {log}`" in orphan["what_to_do"]
        assert f"rm -r {log}" in reassigner(cluster, "status").stdout
        (line,) = findings(cluster, "orphan")
        assert line.endswith(f"that broker is live and still has the directory {log}")
        assert reassigner(cluster, "doctor").code == FINDINGS
        assert orphans(cluster) == {f"{DROPPED}/{name}"}
        # As the advice says:
        cluster.brokers[DROPPED].stop()
        shutil.rmtree(log)
        cluster.start_brokers(DROPPED)
        eventually(lambda: orphans(cluster) == set(), within_s=60, what="the record ends")
        eventually(lambda: daemon.status()["orphans"] == [], within_s=30)
    assert findings(cluster, "orphan") == findings(cluster, "stray_log") == []


def named(status: dict[str, Any]) -> list[str | None]:
    """Return the directories of orphans that a status has."""
    return [orphan["directory"] for orphan in status["orphans"]]


def holders_of(cluster: Cluster, name: str) -> set[int]:
    """Return the brokers with a directory of this name."""
    return {
        broker
        for broker, server in cluster.brokers.items()
        if any((log_dir / name).exists() for log_dir in server.log_dirs)
    }
