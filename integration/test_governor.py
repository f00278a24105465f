"""
A throttle ``auto`` on real brokers, with both engines, through faults of what it follows.

The rates are read from Kafka's settings, and from ZooKeeper's log of every write of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from controller.core.pacing.probe_topic import PROBE_TOPIC
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.operator_actions import (
    FOLLOWER_RATE,
    LEADER_RATE,
    await_leases_gone,
    rates,
    said,
)
from integration.rigs.plans import Daemons, Targets, await_end, fill, is_reassigning
from integration.rigs.prometheus import PROGRAM, Prometheus
from integration.rigs.requests import reassigner, submit_request
from integration.rigs.transaction_log import writes
from integration.rigs.waiting import eventually

ROWS: Final = (Row("native", KAFKA_3_9, "2.6"), Row("delegated", KAFKA_3_9, None))
LEAST, MOST = 100_000, 1_600_000
BOUNDS: Final = ("--throttle-min", str(LEAST), "--throttle-max", str(MOST), "--tenure-linger", "1")
LASTING: Final = ("--throttle-min", "20000", "--throttle-max", "40000", "--tenure-linger", "1")
INTERVAL_MS: Final = 5_000
TOLERANCE_MS: Final = 500
"""By which a write may come earlier: the time of the one before it is that of ZooKeeper."""
FREE: Final = (None, None)
PARTITIONS: Final = 4

pytestmark = [pytest.mark.usefixtures("nothing_turned"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Give the cluster of an engine."""
    row: Row = request.param
    with row.running() as cluster:
        yield cluster


@pytest.fixture
def moved(cluster: Cluster, make_topic: MakeTopic) -> Iterator[Targets]:
    """Give where the partitions of a topic with data are to go; the probe's topic is deleted."""
    topic = make_topic(dict.fromkeys(range(PARTITIONS), (1, 2)), {"retention.ms": "86400000"})
    fill(cluster, [(topic, n) for n in range(PARTITIONS)], 100, 100_000)
    yield {(topic, n): (1, 3) if n % 2 else (4, 2) for n in range(PARTITIONS)}
    if cluster.topic(PROBE_TOPIC) is not None:
        cluster.heal()
        cluster.await_deletions()
        cluster.delete_topics(PROBE_TOPIC)


def governor(daemon: Daemon) -> dict[str, Any]:
    """Return what the daemon shows of its rates."""
    found: dict[str, Any] | None = daemon.status().get("governor")
    return found or {"brokers": {}, "unmeasured": {}}


def await_measured(daemon: Daemon, *brokers: int) -> None:
    """Wait until the acknowledgements of brokers are measured."""

    def measured() -> set[int]:
        shown = governor(daemon)["brokers"].items()
        return {int(broker) for broker, rate in shown if rate["p99_s"] is not None}

    eventually(
        lambda: measured() >= set(brokers),
        within_s=60,
        what=lambda: f"{brokers} are measured; it shows {governor(daemon)}",
    )


def follower_rates(cluster: Cluster) -> dict[int, int]:
    """Return the rates that stand."""
    return {b: int(rate) for b, (_, rate) in rates(cluster).items() if rate is not None}


def check_writes(cluster: Cluster, targets: Targets, least: int, most: int) -> int:
    """See that every rate of a plan was within bounds, and none written too soon; count them."""
    history = writes(cluster)
    topic = f"/brokers/topics/{next(iter(targets))[0]}"
    created = next(w.zxid for w in history if w.path == topic)
    times: dict[str, list[int]] = {}
    for write in history:
        found = write.content.get("config", {})
        is_rate = write.path.startswith("/config/brokers/") and FOLLOWER_RATE in found
        if write.zxid < created or not is_rate:
            continue
        assert found[LEADER_RATE] == found[FOLLOWER_RATE]
        assert least <= int(found[FOLLOWER_RATE]) <= most, write
        times.setdefault(write.path, []).append(write.at_ms)
    for at in times.values():
        assert all(b - a >= INTERVAL_MS - TOLERANCE_MS for a, b in pairwise(at)), times
    return sum(map(len, times.values()))


def test_it_begins_with_the_least_rate_and_rises_while_producers_see_nothing(
    cluster: Cluster, moved: Targets, daemons: Daemons
) -> None:
    """Each rate is within its bounds, at most one in five seconds; nothing is left at the end."""
    daemon = daemons.start(*BOUNDS, "--latency-objective", "5")
    submit_request(cluster, moved, throttle="auto")
    eventually(lambda: set(follower_rates(cluster)) == {1, 2, 3, 4}, within_s=30)
    assert set(follower_rates(cluster).values()) == {LEAST}
    await_measured(daemon, 1, 2, 3, 4)
    eventually(lambda: max(follower_rates(cluster).values(), default=0) >= 4 * LEAST, within_s=60)
    await_end(cluster, moved, within_s=90)
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {FREE}
    assert check_writes(cluster, moved, LEAST, MOST) >= 8
    eventually(
        lambda: governor(daemon)["brokers"] == {},
        within_s=20,
        what=lambda: f"no rate is shown: {governor(daemon)}",
    )


def test_a_missed_objective_keeps_the_least_rate_and_the_plan_ends(
    cluster: Cluster, moved: Targets, daemons: Daemons
) -> None:
    """No acknowledgement takes less than a millisecond."""
    daemons.start(*BOUNDS, "--throttle-min", "800000", "--latency-objective", "0.001")
    submit_request(cluster, moved, throttle="auto")
    await_end(cluster, moved, within_s=120)
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {FREE}
    check_writes(cluster, moved, 800_000, 800_000)


def test_a_daemon_that_is_killed_leaves_rates_within_the_bounds_to_the_next(
    cluster: Cluster, moved: Targets, daemons: Daemons
) -> None:
    """They stand while none is there; the next one continues from them, and restores."""
    killed = daemons.start(*BOUNDS, "--latency-objective", "5")
    submit_request(cluster, moved, throttle="auto")
    eventually(lambda: max(follower_rates(cluster).values(), default=0) >= 2 * LEAST, within_s=60)
    killed.kill()
    stand = follower_rates(cluster)
    time.sleep(5)
    assert follower_rates(cluster) == stand
    daemon = daemons.start(*BOUNDS, "--latency-objective", "5")
    await_measured(daemon, 1, 2)
    await_end(cluster, moved, within_s=120)
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {FREE}
    check_writes(cluster, moved, LEAST, MOST)


def test_a_broker_that_hangs_neither_stops_nor_floods_the_others(
    cluster: Cluster, moved: Targets, daemons: Daemons
) -> None:
    """A broker of the probe that takes no part in the plan; its partitions lose their replica."""
    daemon = daemons.start(*BOUNDS)
    submit_request(cluster, moved, throttle="auto")
    await_measured(daemon, 1, 2, 3, 4)
    cluster.brokers[5].freeze()
    await_end(cluster, moved, within_s=150)
    cluster.brokers[5].thaw()
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {FREE}
    check_writes(cluster, moved, LEAST, MOST)


def test_a_drain_takes_the_topic_of_the_probe_off_its_broker(
    cluster: Cluster, moved: Targets, daemons: Daemons, make_topic: MakeTopic
) -> None:
    """It ends, and the topic does not return as long as the broker is drained."""
    kept = make_topic({0: (5, 1)})
    daemon = daemons.start(*LASTING)
    request = submit_request(cluster, moved, throttle="auto")
    await_measured(daemon, 1, 2, 3, 4)
    assert 5 in on_probe(cluster)
    assert reassigner(cluster, "drain", "5", "--throttle", "100MB").code in {0, 2}
    eventually(lambda: 5 not in on_probe(cluster), within_s=90, what="it is off broker 5")
    eventually(lambda: 5 not in cluster.replicas(kept, 0), within_s=60)
    for _ in range(15):
        time.sleep(1)
        assert 5 not in on_probe(cluster)
    assert is_reassigning(cluster, next(iter(moved))[0])
    said(cluster, "throttle", "100MB", "--request", request)
    await_end(cluster, moved, within_s=90)


def on_probe(cluster: Cluster) -> set[int]:
    """Return the brokers with a replica of the probe's topic."""
    found = (cluster.topic(PROBE_TOPIC) or {"partitions": {}})["partitions"].values()
    return {broker for replicas in found for broker in replicas}


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed")
def test_without_prometheus_the_rate_falls_to_the_least(
    cluster: Cluster, moved: Targets, daemons: Daemons, tmp_path: Path
) -> None:
    """Its last result counts for a while; a result above the objective keeps the rate low."""
    prometheus = Prometheus(tmp_path / "prometheus", [])
    prometheus.start()
    cluster.daemon_settings = {"REASSIGNER_GOVERNOR_QUERY_URL": f"http://{prometheus.port.address}"}
    try:
        daemon = daemons.start(
            *("--throttle-min", "10000", "--throttle-max", "40000", "--tenure-linger", "1"),
            *(
                "--no-governor-probe",
                "--governor-query",
                'label_replace(vector(0.1), "x", "", "", "")',
            ),
            *("--governor-query-objective", "0.5"),
        )
        request = submit_request(cluster, moved, throttle="auto")
        eventually(lambda: max(follower_rates(cluster).values(), default=0) > 13_000, within_s=90)
        assert cluster.topic(PROBE_TOPIC) is None
        prometheus.kill()
        eventually(lambda: "query" in governor(daemon)["unmeasured"], within_s=30)
        eventually(
            lambda: set(follower_rates(cluster).values()) == {10_000},
            within_s=180,
            what=lambda: f"the rates fall: {rates(cluster)}",
        )
        prometheus.start()
        eventually(lambda: max(follower_rates(cluster).values(), default=0) > 13_000, within_s=120)
        said(cluster, "throttle", "100MB", "--request", request)
        await_end(cluster, moved, within_s=90)
        await_leases_gone(cluster)
        assert set(rates(cluster).values()) == {FREE}
    finally:
        cluster.daemon_settings = {}
        prometheus.kill()
        prometheus.port.close()
