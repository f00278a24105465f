"""
A daemon that is gone for good leaves a way out: ``doctor --fix --no-daemon``, with either engine.

The daemon is killed in a throttled plan. The settings before it are restored, its records deleted,
and the step in flight is ended by Kafka's controller, which the topic znode tells what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from controller.znodes import paths
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.operator_actions import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    await_moving,
    said,
)
from integration.rigs.plans import Daemons, await_end, configure, configured, unconfigure
from integration.rigs.requests import reassigner, submit_request
from integration.rigs.waiting import eventually
from integration.shown_moves import write

ROWS: Final = (Row("delegated", KAFKA_3_9, None), Row("native", KAFKA_3_9, "2.6"))
FINDINGS: Final = 2
REFUSED: Final = 3
OURS: Final = (
    paths.ROOT,
    paths.REASSIGNMENTS,
    paths.REQUESTS,
    paths.QUEUE,
    paths.CANCEL,
    paths.KILL_SWITCH,
)
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)


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


def settings(cluster: Cluster, topic: str) -> dict[str, dict[str, str]]:
    """Return the dynamic settings of the topic and of all brokers."""
    entities = (f"topics/{topic}", *(f"brokers/{broker}" for broker in cluster.brokers))
    return {entity: configured(cluster, entity) for entity in entities}


def test_killed_daemon_is_retired(
    row_cluster: tuple[Row, Cluster], make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Refused while it lives; afterwards nothing of it is left, and the step ends unthrottled."""
    row, cluster = row_cluster
    topic = make_topic({0: (1, 2), 1: (1, 2)}, {"retention.ms": "86400000"})
    write(cluster, topic, 2, records=100)
    configure(cluster, "brokers/3", {LEADER_RATE: "123456789"})
    before = settings(cluster, topic)
    daemon = daemons.start("--max-partitions-in-flight", "1")
    targets = {(topic, 0): (1, 2, 3), (topic, 1): (1, 4)}
    submit_request(cluster, targets, throttle=1_000)
    eventually(lambda: LEADER_REPLICAS in configured(cluster, f"topics/{topic}"), within_s=30)
    await_moving(cluster, {(topic, 0)})
    assert daemon.status()["engine"] == row.engine
    said(cluster, "pause")
    assert "a daemon leads" in said(cluster, "doctor", "--fix", "--no-daemon", code=REFUSED)
    daemon.kill()
    eventually(lambda: not cluster.zk.get_children(paths.LEADER), within_s=20)
    submit_request(cluster, {(topic, 1): (2, 3)})

    found = reassigner(cluster, "doctor").stdout
    for check in ("throttle_left", "record_left", "submission_left", "control_left"):
        assert f": {check}: " in found, found
    listed = said(cluster, "doctor", "--fix", "--no-daemon", "--dry-run", code=FINDINGS)
    assert f"would delete {paths.REASSIGNMENTS}/{topic}/0" in listed
    assert settings(cluster, topic) != before

    output = reassigner(cluster, "doctor", "--fix", "--no-daemon").stdout
    assert f"removed the throttle of topics/{topic}" in output
    assert f"{topic}-0: the cluster's controller ends the step to " in output
    assert settings(cluster, topic) == before
    assert [path for path in OURS if cluster.zk.exists(path) is not None] == []
    await_end(cluster, {(topic, 0): (1, 2, 3), (topic, 1): (1, 2)}, within_s=60, any_leader=True)

    again = reassigner(cluster, "doctor", "--fix", "--no-daemon").stdout
    assert "Nothing was fixed" in again
    assert [path for path in OURS if cluster.zk.exists(path) is not None] == []
    # Whoever installs it again begins anew.
    daemons.start()
    submit_request(cluster, {(topic, 1): (1, 5)})
    await_end(cluster, {(topic, 0): (1, 2, 3), (topic, 1): (1, 5)}, within_s=60, any_leader=True)
    unconfigure(cluster, "brokers/3", *RATES)
