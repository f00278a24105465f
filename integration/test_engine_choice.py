"""``engine = auto`` on real clusters: which engine, why, and where neither is safe."""

from __future__ import annotations

import json
from pathlib import Path

from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.plans import Daemons, Targets, await_end, copies_held
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually
from integration.test_engines import await_begun, ended, request_moves

MIGRATION = {
    "version": 0,
    "kraft_controller_id": 3000,
    "kraft_controller_epoch": 1,
    "kraft_metadata_offset": 100,
    "kraft_metadata_epoch": 1,
}


def test_a_rolling_upgrade_to_the_full_protocol_changes_the_engine_and_loses_nothing(
    tmp_path: Path,
) -> None:
    """Native at 2.6; the first broker at 3.9 makes it delegated, in the middle of a request."""
    options = ClusterOptions(
        brokers=3, broker=BrokerOptions(inter_broker_protocol="2.6", internal_replication_factor=1)
    )
    with Cluster.running(options) as cluster:
        topic = cluster.create_topic("t", dict.fromkeys(range(3), (1, 2)))
        targets: Targets = {(topic, n): (2, 3) for n in range(3)}
        daemons = Daemons(cluster, tmp_path)
        daemon = daemons.start("--tenure-linger", "1")
        eventually(lambda: daemon.status()["engine"] == "native", within_s=20)
        with copies_held(cluster, targets):
            name = request_moves(cluster, targets)
            await_begun(cluster, targets)
            cluster.brokers[1].stop()
            cluster.brokers[1].upgrade()
            cluster.start_brokers(1)
            eventually(lambda: daemon.status()["engine"] == "delegated", within_s=60)
            assert "registration carries features" in daemon.status()["engine_because"]
        await_end(cluster, targets, within_s=120, any_leader=True)
        assert ended(cluster, name, within_s=60)["done"] == 3
        assert daemon.is_alive
        daemons.close()


def test_neither_engine_works_while_the_cluster_is_migrated_to_kraft(tmp_path: Path) -> None:
    """Exit code 3 and the reason, whichever engine is wanted."""
    options = ClusterOptions(
        brokers=1, broker=BrokerOptions(inter_broker_protocol=None, internal_replication_factor=1)
    )
    with Cluster.running(options) as cluster:
        cluster.zk.ensure_path("/migration")
        cluster.zk.set("/migration", json.dumps(MIGRATION).encode())
        daemons = Daemons(cluster, tmp_path)
        for engine in ("auto", "delegated"):
            daemon = daemons.make("--engine", engine)
            daemon.spawn()
            assert daemon.wait(within_s=30) == 3
            (line,) = (row for row in daemon.log.read_text().splitlines() if row[:1] != "{")
            assert "/migration" in line
        daemons.close()
