"""
The same product on every row: engine, Kafka release and inter-broker protocol.

Everything is asked for by requests, the route that both engines have; what came of it is read from
ZooKeeper and from the disks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.conftest import MakeTopic
from integration.plans import Daemons, Targets, await_end, outcome
from integration.rows import ROWS, Row
from integration.traffic import Traffic, audit, read_everything
from integration.transactions import assignments, writes
from integration.waiting import eventually

DURABLE = {"min.insync.replicas": "2"}
REQUESTS = "/admin/reassignment_requests"


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def row_cluster(row: Row) -> Iterator[Cluster]:
    """Give the cluster of a row; its tests follow each other on it."""
    with Cluster.running(row.options) as cluster:
        yield cluster


@pytest.fixture
def cluster(row_cluster: Cluster) -> Iterator[Cluster]:
    """Give it with everything up: other fixtures build on it."""
    row_cluster.heal()
    yield row_cluster
    row_cluster.heal()


def request_moves(cluster: Cluster, targets: Targets, **options: object) -> str:
    """Submit a request and return its name."""
    content: dict[str, Any] = {"version": 1, "assignments": {}, **options}
    for (topic, partition), replicas in targets.items():
        content["assignments"].setdefault(topic, {})[str(partition)] = list(replicas)
    cluster.zk.ensure_path(REQUESTS)
    made = cluster.zk.create(f"{REQUESTS}/request_", json.dumps(content).encode(), sequence=True)
    return str(made.rpartition("/")[2])


def ended(cluster: Cluster, request: str, *, within_s: float = 30) -> Mapping[str, Any]:
    """Wait for the outcome of a request."""
    eventually(
        lambda: outcome(cluster, request) is not None,
        within_s=within_s,
        what=f"the outcome of {request}",
    )
    found = outcome(cluster, request)
    assert found is not None
    return found


def passed(cluster: Cluster, topic: str, partition: int = 0) -> list[tuple[int, ...]]:
    """Return what remained of the replicas after each step, without repeats."""
    rows = (a.remaining for a in assignments(writes(cluster), topic, partition))
    return [found for found, _ in groupby(rows)]


def test_a_request_under_load_is_carried_out_and_no_acknowledged_record_is_lost(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """The engine is the one of the row, and says why; every step keeps the bound."""
    del tmp_path
    topics = [make_topic(dict.fromkeys(range(4), (1, 2, 3)), DURABLE) for _ in range(2)]
    partitions = dict.fromkeys(topics, 4)
    targets = {
        (topic, n): [(3, 4, 5), (5, 1, 4), (2, 4, 3)][(n + shift) % 3]
        for shift, topic in enumerate(topics)
        for n in range(4)
    }
    daemon = daemons.start("--engine", row.wanted, "--tenure-linger", "1")
    with Traffic(cluster.bootstrap_servers, partitions) as traffic:
        eventually(lambda: len(traffic.acknowledged) > 200, within_s=60)
        name = request_moves(cluster, targets)
        await_end(cluster, targets, within_s=120)
        before = len(traffic.acknowledged)
        eventually(lambda: len(traffic.acknowledged) > before + 200, within_s=60)
        traffic.stop()
    status = daemon.status()
    assert status["engine"] == row.engine
    assert status["engine_because"]
    assert traffic.failed == {}
    found = audit(traffic.acknowledged, read_everything(cluster.bootstrap_servers, partitions))
    assert found.is_clean, found.missing[:3] + found.duplicates[:3]
    assert ended(cluster, name)["done"] == len(targets)
    for topic, number in targets:
        rows = assignments(writes(cluster), topic, number)
        assert max(len(a.replicas) for a in rows) <= 4 + (row.engine == "native"), rows
