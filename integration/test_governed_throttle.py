"""
A throttle auto on real brokers, with both engines: rates rise, outlive the daemon, leave nothing.

The rates are read from Kafka's settings. The least rate is so low that the copies are in progress
for as long as a test needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from controller.core.pacing.probe_topic import PROBE_TOPIC
from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import NATIVE, Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.operator_actions import (
    FOLLOWER_RATE,
    await_leases_gone,
    await_moving,
    lines,
    rates,
    said,
)
from integration.rigs.plans import Daemons, await_end, configured, fill, unconfigure
from integration.rigs.requests import submit_request
from integration.rigs.waiting import eventually

pytestmark = pytest.mark.timeout(400)

RATES: Final = ("leader.replication.throttled.rate", FOLLOWER_RATE)
LEAST: Final = 2_000
MOST: Final = 120_000
BOUNDS: Final = ("--throttle-min", str(LEAST), "--throttle-max", str(MOST))


@pytest.fixture(
    scope="module",
    params=[NATIVE[0], Row("delegated", KAFKA_3_9, None)],
    ids=lambda row: row.name,
)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture
def cluster(row_cluster: Cluster) -> Iterator[Cluster]:
    """Give it with everything up, and without rates."""
    row_cluster.heal()
    for broker in row_cluster.brokers:
        unconfigure(row_cluster, f"brokers/{broker}", *RATES)
    yield row_cluster
    row_cluster.heal()


def governed(cluster: Cluster) -> list[int]:
    """Return the rates of brokers 1 to 3 as they stand; 0 where there is none."""
    found = rates(cluster)
    return [int(found[broker][1] or 0) for broker in (1, 2, 3)]


def of_journal(daemon: Daemon, kind: str) -> list[dict[str, Any]]:
    """Return the journal's lines of a kind."""
    found = []
    for path in sorted(daemon.journal_directory.glob("*")):
        for line in path.read_text().splitlines():
            read = json.loads(line)
            if read["kind"] == kind:
                found.append(read)
    return found


def test_rates_rise_outlive_the_daemon_and_leave_nothing(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """From the least rate; after kill -9 from the rates that stand; cancelled, nothing is left."""
    topic, _ = make_topic({0: (1, 2)}), make_topic({0: (2, 3)})
    fill(cluster, [(topic, 0)], records=60)
    daemon = daemons.start(*row.arguments, *BOUNDS, "--tenure-linger", "1")
    request = submit_request(cluster, {(topic, 0): (1, 3)}, throttle="auto")
    await_moving(cluster, [(topic, 0)])
    eventually(lambda: min(governed(cluster)) >= LEAST, within_s=20)
    assert min(governed(cluster)) < 10 * LEAST
    eventually(
        lambda: min(governed(cluster)) >= 8 * LEAST,
        within_s=120,
        what=lambda: f"rates rise: {governed(cluster)} {daemon.status()['governor']}",
    )
    assert cluster.topic(PROBE_TOPIC) is not None
    status = daemon.status()["governor"]
    assert status["brokers"]["3"]["evidence"]
    assert any(b["p99_s"] is not None for b in status["brokers"].values())
    told = said(cluster, "limits")
    assert "throttle auto: 3 brokers, objective 500 ms" in told
    assert "broker 3:" in told
    assert "governed" in said(cluster, "explain", f"{topic}-0")
    changes = of_journal(daemon, "rate")
    assert {c["broker"] for c in changes} >= {1, 2, 3}
    assert "probe" in {c["signal"] for c in changes}
    daemon.kill()
    stood = governed(cluster)
    assert min(stood) >= 8 * LEAST
    assert max(stood) <= MOST
    later = daemons.start(*row.arguments, *BOUNDS, "--tenure-linger", "1")
    eventually(
        lambda: later.status().get("governor"), within_s=60, what="the new daemon governs them"
    )
    first = {c["broker"]: c for c in reversed(of_journal(later, "rate"))}
    assert all(first[b]["before"] is None for b in (1, 2, 3))
    assert [first[b]["bytes_per_s"] for b in (1, 2, 3)] == stood
    said(cluster, "cancel", request)
    await_end(cluster, {(topic, 0): (1, 2)}, within_s=90)
    await_leases_gone(cluster)
    assert set(rates(cluster).values()) == {(None, None)}
    assert "leader.replication.throttled.replicas" not in configured(cluster, f"topics/{topic}")
    assert lines(later, "throttle_lifted")


def test_the_throttle_changes_live_both_ways(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """From a fixed rate to auto, which begins with it, and to none."""
    topic, _ = make_topic({0: (1, 2)}), make_topic({0: (2, 3)})
    fill(cluster, [(topic, 0)], records=60)
    daemon = daemons.start(*row.arguments, *BOUNDS, "--tenure-linger", "1")
    said(cluster, "throttle", "30000")
    submit_request(cluster, {(topic, 0): (1, 3)})
    await_moving(cluster, [(topic, 0)])
    eventually(lambda: governed(cluster) == [30_000] * 3, within_s=20)
    assert "auto" in said(cluster, "throttle", "auto")
    eventually(lambda: daemon.status().get("governor"), within_s=20)
    eventually(
        lambda: min(governed(cluster)) > 30_000,
        within_s=90,
        what=lambda: f"rates rise: {governed(cluster)} {daemon.status()['governor']}",
    )
    said(cluster, "throttle", "none")
    eventually(lambda: set(rates(cluster).values()) == {(None, None)}, within_s=30)
    await_end(cluster, {(topic, 0): (1, 3)}, within_s=90)
    await_leases_gone(cluster)


def test_a_silent_probe_brings_the_least_rate(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A broker that hangs is not flooded when it goes on; the copy ends then."""
    topic, _ = make_topic({0: (1, 2)}), make_topic({0: (2, 3)})
    fill(cluster, [(topic, 0)], records=40)
    daemon = daemons.start(*row.arguments, *BOUNDS, "--tenure-linger", "1")
    request = submit_request(cluster, {(topic, 0): (1, 3)}, throttle="auto")
    await_moving(cluster, [(topic, 0)])
    eventually(lambda: governed(cluster)[1] >= 4 * LEAST, within_s=90)
    cluster.brokers[2].freeze()
    eventually(
        lambda: governed(cluster)[1] == LEAST,
        within_s=60,
        what=lambda: f"the rate of broker 2 falls: {daemon.status()['governor']}",
    )
    cluster.brokers[2].thaw()
    said(cluster, "throttle", "none", "--request", request)
    await_end(cluster, {(topic, 0): (1, 3)}, within_s=90)
    await_leases_gone(cluster)
