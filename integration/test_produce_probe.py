"""
The produce probe on real brokers: its topic, its readings, and brokers that hang, go and come.

The controller of the cluster is Kafka's own in some tests, in others the daemon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from controller.clocks import MonotonicClock
from controller.core.pacing.model import SignalKind
from controller.core.pacing.probe_topic import PROBE_TOPIC, SETTINGS
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.conformance import assert_conforming
from integration.rigs.daemon_process import Daemon
from integration.rigs.engine_matrix import NATIVE, Row
from integration.rigs.kafka_jars import KAFKA_3_9
from integration.rigs.locked_clusters import LockedCluster, LockedOptions
from integration.rigs.locks import DAEMON, Locks
from integration.rigs.measured_latencies import OBJECTIVE_S, measuring, quantiles
from integration.rigs.plans import await_tenure, configured
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually

ALL: Final = {1, 2, 3, 4, 5}
SOME_RECORDS: Final = 100
DELEGATED: Final = Row("delegated", KAFKA_3_9, None)


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Give the shared cluster with all brokers up, and without the topic."""
    shared_cluster.heal()
    delete_topic(shared_cluster)
    yield shared_cluster
    shared_cluster.heal()
    delete_topic(shared_cluster)


def delete_topic(cluster: Cluster) -> None:
    """Delete the topic of the probe, if it is there."""
    if cluster.topic(PROBE_TOPIC) is not None:
        cluster.await_deletions()
        cluster.delete_topics(PROBE_TOPIC)
        cluster.await_deletions()


def replicas(cluster: Cluster) -> list[list[int]]:
    """Return the replicas of the topic's partitions in order."""
    found = (cluster.topic(PROBE_TOPIC) or {"partitions": {}})["partitions"]
    return [found[n] for n in sorted(found, key=int)]


def test_every_broker_leads_one_partition_and_is_measured(cluster: Cluster) -> None:
    """Kafka's controller completes the topic; each reading names its leader and its follower."""
    with measuring(cluster, ALL) as measurement:
        measurement.await_leaders(ALL)
        begun = MonotonicClock().now()
        eventually(lambda: len(measurement.records) > SOME_RECORDS, within_s=30)
        eventually(lambda: MonotonicClock().now() > begun + 10, within_s=30)
        readings = measurement.since(begun)
    assert replicas(cluster) == [[1, 2], [2, 3], [3, 4], [4, 5], [5, 1]]
    assert configured(cluster, f"topics/{PROBE_TOPIC}") == SETTINGS
    assert {(r.broker, r.follower) for r in readings} == {(1, 2), (2, 3), (3, 4), (4, 5), (5, 1)}
    assert set(measurement.records) == {"acknowledged"}
    assert measurement.problems == {}
    assert measurement.expected == {SignalKind.PROBE}
    assert all(0 < r.value < OBJECTIVE_S * 20 and r.at > r.since for r in readings)
    print({broker: f"{m:.3f} {most:.3f}" for broker, (m, most) in quantiles(readings).items()})


@pytest.mark.parametrize("row", [*NATIVE, DELEGATED], ids=lambda row: row.name)
def test_the_topic_is_completed_while_a_daemon_works(row: Row) -> None:
    """With the native engine the daemon is the controller that elects its leaders."""
    with row.running() as cluster:
        daemon = Daemon(
            cluster.zookeeper_connect,
            cluster.directory / "daemon",
            *(*row.arguments, "--tenure", "permanent"),
        )
        try:
            daemon.start()
            if row.engine == "native":
                await_tenure(daemon)
            with measuring(cluster, ALL - {5}) as measurement:
                measurement.await_leaders(ALL - {5})
            assert 5 not in {r for partition in replicas(cluster) for r in partition}
            with measuring(cluster, ALL) as measurement:
                measurement.await_leaders(ALL)
            assert replicas(cluster)[-1] == [5, 1]
        finally:
            daemon.kill()
            daemon.port.close()
        assert_conforming(cluster, daemon.journal_directory)


def test_records_of_a_frozen_broker_count_with_their_age(cluster: Cluster) -> None:
    """Those that it leads, and those that it has to fetch; others are not held up."""
    with measuring(cluster, ALL) as measurement:
        measurement.await_leaders(ALL)
        begun = MonotonicClock().now()
        cluster.brokers[3].freeze()

        def strained() -> set[int | None]:
            return {r.broker for r in measurement.since(begun - 1) if r.value > 2 * OBJECTIVE_S}

        eventually(lambda: strained() >= {2, 3}, within_s=10, what="2 and 3 are strained")
        calm = [r for r in measurement.since(begun) if r.broker in {1, 5}]
        assert {r.broker for r in calm} == {1, 5}
        assert min(r.value for r in calm) < OBJECTIVE_S
        cluster.brokers[3].thaw()
        measurement.await_leaders(ALL)
    assert measurement.expected == {SignalKind.PROBE}


def test_partitions_count_for_the_broker_that_leads_them_now(cluster: Cluster) -> None:
    """A broker that died is not measured until it leads again."""
    with measuring(cluster, ALL) as measurement:
        measurement.await_leaders(ALL)
        cluster.brokers[2].kill()
        eventually(lambda: cluster.leader(PROBE_TOPIC, 1) == 3, within_s=60)
        eventually(lambda: cluster.isr(PROBE_TOPIC, 0) == {1}, within_s=60)
        measurement.await_leaders(ALL - {2})
        begun = MonotonicClock().now()
        eventually(lambda: MonotonicClock().now() > begun + 5, within_s=30)
        later = measurement.since(begun)
        assert {r.broker for r in later} == ALL - {2}
        assert 2 not in {r.follower for r in later}


def test_a_topic_that_is_deleted_returns_with_the_settings_of_the_probe() -> None:
    """Brokers that create topics for any client would create it with their own defaults."""
    broker = BrokerOptions(inter_broker_protocol="2.6", extra={"auto.create.topics.enable": "true"})
    ring = [[1, 2], [2, 3], [3, 1]]
    with (
        Cluster.running(ClusterOptions(brokers=3, broker=broker)) as cluster,
        measuring(cluster, {1, 2, 3}) as measurement,
    ):
        measurement.await_leaders({1, 2, 3})
        cluster.delete_topics(PROBE_TOPIC)
        eventually(lambda: replicas(cluster) == [], within_s=30)
        layouts = []

        def is_back() -> bool:
            layouts.append(replicas(cluster))
            return layouts[-1] == ring

        eventually(is_back, within_s=90, what=lambda: f"it returns: {measurement.problems}")
        assert all(layout in ([], ring) for layout in layouts)
        assert configured(cluster, f"topics/{PROBE_TOPIC}") == SETTINGS
        measurement.await_leaders({1, 2, 3})


@pytest.mark.parametrize(
    "locks", [Locks(), Locks(protocol="SSL", mechanism=None)], ids=["scram", "certificates"]
)
def test_the_probe_needs_the_permission_to_write_its_topic(locks: Locks) -> None:
    """Without it, the problem is reported, and nothing of it is expected until it is given."""
    with (
        LockedCluster.running(LockedOptions(locks=locks)) as cluster,
        measuring(cluster, {1, 2, 3}, cluster.daemon_settings) as measurement,
    ):
        eventually(
            lambda: "uthoriz" in measurement.problems.get(SignalKind.PROBE, ""),
            within_s=60,
            what=lambda: f"it is refused: {measurement.problems}",
        )
        assert measurement.expected == frozenset()
        cluster.allow(DAEMON, "--topic", PROBE_TOPIC, "--operation", "Write")
        measurement.await_leaders({1, 2, 3}, within_s=120)
        assert measurement.expected == {SignalKind.PROBE}
        assert measurement.problems == {}
