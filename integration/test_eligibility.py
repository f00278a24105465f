"""Clusters on which being the controller would do harm are refused, not guessed at."""

from __future__ import annotations

from pathlib import Path

from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.plans import Daemons
from integration.rigs.servers import BrokerOptions


def test_native_refuses_a_cluster_at_the_full_inter_broker_protocol(tmp_path: Path) -> None:
    """Leaders there ask the controller for ISR changes: exit code 3, one line, no claim."""
    options = ClusterOptions(
        brokers=1,
        broker=BrokerOptions(inter_broker_protocol=None, internal_replication_factor=1),
    )
    with Cluster.running(options) as cluster:
        cluster.create_topic("t", {0: (1,)})
        epoch = cluster.zk.get("/controller_epoch")
        daemons = Daemons(cluster, tmp_path)
        daemon = daemons.make("--engine", "native", "--tenure", "permanent")
        daemon.spawn()
        assert daemon.wait(within_s=20) == 3
        daemons.close()
        assert cluster.zk.get("/controller_epoch") == epoch
        assert cluster.controller_broker() == 1
    (line,) = (line for line in daemon.log.read_text().splitlines() if line[:1] != "{")
    assert "inter-broker protocol 2.7 or later" in line
