"""
Brokers authenticate to the daemon as to their controller: TLS, PLAIN, SCRAM and certificates.

Brokers have a listener for the controller alone. While they cannot authenticate, they try again,
and none stops: the endpoint closes their connections without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from confluent_kafka import Producer

from integration.rigs.cluster import QUIET
from integration.rigs.locked_clusters import LockedCluster, LockedOptions
from integration.rigs.locks import BROKER, SCRAM, Locks
from integration.rigs.plans import await_tenure
from integration.rigs.servers import BrokerOptions
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually
from integration.test_locked_clusters import allow_as_documented

ROWS: Final[Mapping[str, Locks]] = {
    "plain": Locks(mechanism="PLAIN", zookeeper_sasl=None, control_plane=True),
    "scram": Locks(mechanism=SCRAM, zookeeper_sasl=None, control_plane=True),
    "certificates": Locks(protocol="SSL", mechanism=None, zookeeper_sasl=None, control_plane=True),
}
BROKERS: Final = BrokerOptions(
    inter_broker_protocol=None, replica_lag_time_max_ms=3_000, zookeeper_session_timeout_ms=40_000
)
CERTIFICATE: Final = "User:CN=kafka-node"


@pytest.mark.parametrize("row", ROWS)
def test_brokers_authenticate_and_survive_a_wrong_password(row: str) -> None:
    """Wrong at first; then the file is repaired and the certificate renewed, without a restart."""
    with LockedCluster.running(LockedOptions(locks=ROWS[row], broker=BROKERS)) as cluster:
        allow_as_documented(cluster)
        topic = cluster.create_topic("still", {0: (1, 2, 3)})
        own = cluster.keys.authority.issue("endpoint")
        users = cluster.directory / "users"
        users.touch(mode=0o600)
        users.write_text(f"{BROKER}:wrong\n")
        by_certificate = ROWS[row].by_certificate
        who = (
            ("--endpoint-cafile", str(cluster.keys.authority.file))
            if by_certificate
            else ("--endpoint-users", str(users))
        )
        daemon = cluster.make_daemon(
            "daemon",
            *("--engine", "native", "--tenure", "permanent"),
            *("--controller-endpoint", "private", "--endpoint-listen", "127.0.0.1:0"),
            *("--endpoint-certfile", str(own.certificate), "--endpoint-keyfile", str(own.key)),
            *who,
            *(("--endpoint-principals", CERTIFICATE) if by_certificate else ()),
        )
        last = cluster.controller_broker()
        hanging = next(b for b in (2, 3) if b != last)
        others = {1, 2, 3} - {hanging}
        security = cluster.client_security
        with Traffic(cluster.bootstrap_servers, {topic: 1}, security=security) as traffic:
            traffic.await_flow()  # has its producer id before brokers cannot get any
            daemon.start()
            await_tenure(daemon)
            if not by_certificate:
                cluster.brokers[hanging].freeze()
                eventually(
                    lambda: '"reason": "unauthenticated"' in daemon.log.read_text(),
                    within_s=30,
                    what="a broker cannot authenticate",
                )
                producers = [Producer(_idempotent(cluster)) for _ in range(20)]
                for producer in producers:
                    producer.produce(topic, b"x", key=b"-1", partition=0)
                users.write_text(f"{BROKER}:{cluster.keys.passwords[BROKER]}\n")
            for _ in range(2):
                cluster.brokers[hanging].freeze()
                eventually(lambda: cluster.isr(topic, 0) == others, within_s=40, what="shrinks")
                cluster.brokers[hanging].thaw()
                eventually(lambda: cluster.isr(topic, 0) == {1, 2, 3}, within_s=40, what="expands")
                cluster.keys.authority.issue("endpoint")
            if not by_certificate:
                assert all(producer.flush(60) == 0 for producer in producers)
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        for broker in cluster.brokers.values():
            assert broker.is_alive
            assert not broker.has_written("FATAL")
        assert daemon.stop() == 0, daemon.log_tail()
        log = daemon.log.read_text()
        assert "Traceback" not in log
        assert not [secret for secret in cluster.keys.secrets if secret in log]


def _idempotent(cluster: LockedCluster) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        **QUIET,
        **cluster.client_security,
    }
