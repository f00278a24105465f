"""A follower loses its log while its leader is about to add it to the ISR."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.kafka_jars import KAFKA_2_7, KAFKA_3_9
from integration.rigs.plans import Daemons, await_tenure, configure, unconfigure
from integration.rigs.running_daemons import answered
from integration.rigs.servers import Broker, BrokerOptions
from integration.rigs.tcp_proxies import Link
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

SERVED: Final = [row for row in ROWS if row.endpoint and row.release in {KAFKA_2_7, KAFKA_3_9}]
LOST: Final = 3
"""The broker that loses its log; the topic prefers it as its leader."""
REMAINING: Final = {1, 2}
THROTTLED: Final = "follower.replication.throttled.replicas"
RATE: Final = "follower.replication.throttled.rate"
SLOW: Final = "5000"
"""Bytes per second: the empty replica does not copy what it lost in the time of a test."""


@pytest.fixture(scope="module", params=SERVED, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Give the first release whose leaders ask the controller, and the last."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give its cluster."""
    with Cluster.running(row.options) as cluster:
        yield cluster


def test_old_request_adds_no_replica_that_lost_its_log(
    row: Row, cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """
    Only the way to the daemon's endpoint is cut; when it is whole, the request arrives.

    The daemon wrote the state itself. The leader epoch rises with each registration, so the request
    is fenced; the replica is in sync when it has copied everything, and leads then.
    """
    topic = make_topic({0: (1, 2, LOST)}, {"min.insync.replicas": "2"})
    lost = cluster.brokers[LOST]
    link = Link()
    daemon = daemons.start(
        *row.arguments,
        *("--endpoint-listen", link.behind.address, "--endpoint-advertise", link.port.address),
        *("--tenure", "permanent"),
    )
    await_tenure(daemon)
    try:
        with Traffic(cluster.bootstrap_servers, {topic: 1}, payload_bytes=1000) as traffic:
            traffic.await_flow()
            kill(cluster, lost, topic)
            lost.start()
            await_all(cluster, topic)  # the leader has a connection to the endpoint now
            assert answered(daemon, "AlterPartition") > 0
            kill(cluster, lost, topic)
            link.swallow()
            lost.start()
            eventually(lambda: link.swallowed > 0, within_s=20, what="the leader asks to add it")
            time.sleep(2.0)
            assert cluster.isr(topic, 0) == REMAINING
            kill(cluster, lost, topic)
            lose_log_before(link, cluster, topic)
            for broker in (1, 2):
                cluster.brokers[broker].kill()
                eventually(lambda: cluster.leader(topic, 0) != broker, within_s=30)  # noqa: B023
                cluster.start_brokers(broker)
                await_all(cluster, topic)
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        found = traffic.audited()
        assert found.is_clean, str(found)
    finally:
        link.close()


class LeaderBehindLink(Cluster):
    """A cluster whose first broker reaches ZooKeeper by a link."""

    link: Link

    def close(self) -> None:
        """Close the link, too."""
        super().close()
        self.link.close()

    def _broker_options(self, broker_id: int) -> BrokerOptions:
        if broker_id != 1:
            return self.options.broker
        self.link = Link(self.zookeeper.port)
        connect = f"{self.link.port.address}{self.options.chroot}"
        return replace(self.options.broker, extra={"zookeeper.connect": connect})


def test_write_of_a_leader_without_zookeeper_adds_no_replica_that_lost_its_log(
    tmp_path: Path,
) -> None:
    """
    Below protocol 2.7 the leader writes the ISR itself, when it is connected again.

    By then the daemon has raised the leader epoch, and ZooKeeper rejects the write.
    """
    options = BrokerOptions(zookeeper_session_timeout_ms=40_000, controlled_shutdown=False)
    with LeaderBehindLink.running(ClusterOptions(broker=options)) as cluster:
        topic = "led-from-behind"
        cluster.create_topic(topic, {0: (1, 2, LOST)}, {"min.insync.replicas": "2"})
        lost = cluster.brokers[LOST]
        daemons = Daemons(cluster, tmp_path)
        await_tenure(daemons.start("--tenure", "permanent"))
        with Traffic(cluster.bootstrap_servers, {topic: 1}, payload_bytes=1000) as traffic:
            traffic.await_flow()
            lost.stop()
            eventually(lambda: cluster.isr(topic, 0) == REMAINING, within_s=20)
            cluster.link.swallow()
            lost.start()
            time.sleep(3.0)
            assert cluster.isr(topic, 0) == REMAINING
            lost.stop()
            lose_log_before(cluster.link, cluster, topic)
            traffic.await_flow()
            traffic.stop()
        daemons.close()
        assert traffic.failed == {}
        found = traffic.audited()
        assert found.is_clean, str(found)


def lose_log_before(link: Link, cluster: Cluster, topic: str) -> None:
    """Start the broker with an empty disk, make the link whole, and see when it is in sync."""
    lost = cluster.brokers[LOST]
    written = (cluster.state(topic, 0) or {})["leader_epoch"]
    configure(cluster, f"topics/{topic}", {THROTTLED: "*"})
    configure(cluster, f"brokers/{LOST}", {RATE: SLOW})
    for log_dir in lost.log_dirs:
        shutil.rmtree(log_dir)
        log_dir.mkdir()
    lost.start()
    time.sleep(2.0)
    link.repair()
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        assert cluster.isr(topic, 0) == REMAINING
        time.sleep(0.05)
    epoch = (cluster.state(topic, 0) or {})["leader_epoch"]
    print(f"leader epoch {written}, then {epoch}")
    assert epoch > written
    unconfigure(cluster, f"brokers/{LOST}", RATE)
    unconfigure(cluster, f"topics/{topic}", THROTTLED)
    await_all(cluster, topic)


def await_all(cluster: Cluster, topic: str) -> None:
    """Wait until every replica has copied, and is in sync."""
    everyone = {*REMAINING, LOST}
    eventually(lambda: cluster.isr(topic, 0) == everyone, within_s=90, what="all are in sync")


def kill(cluster: Cluster, broker: Broker, topic: str) -> None:
    """End a broker at once, and wait until its session is over and it left the ISR."""
    broker.kill()
    eventually(
        lambda: (
            not cluster.is_registered(broker.broker_id)
            and broker.broker_id not in cluster.isr(topic, 0)
        ),
        within_s=20,
        what=f"{broker.name} is gone",
    )
