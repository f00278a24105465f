"""
Clients and brokers that authenticate, where they see the daemon as the controller.

Each connection is relayed to a broker, which knows the passwords and the rights; the daemon knows
neither. Brokers ask for changes of the ISR in the same way.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AdminClient,
    NewTopic,
)

from integration.rigs.kafka_tools import REASSIGN_PARTITIONS, TOPICS
from integration.rigs.locked_clusters import ACLS, LockedCluster, LockedOptions
from integration.rigs.locks import DAEMON, SCRAM, Locks
from integration.rigs.plans import await_end, await_tenure, configured, fill, plan_of, specs
from integration.rigs.running_daemons import controller_epoch
from integration.rigs.servers import BrokerOptions
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually
from integration.test_endpoint_clients import DAEMON_ID, PUBLIC, sees_daemon
from integration.test_locked_clusters import allow_as_documented

BROKERS = BrokerOptions(inter_broker_protocol=None)
"""At their highest protocol: their leaders ask for changes of the ISR."""


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SASL_SSL", SCRAM), ("SASL_PLAINTEXT", SCRAM), ("SASL_PLAINTEXT", "PLAIN")],
)
def test_brokers_authenticate_and_authorise_who_asks_the_daemon(
    protocol: str, mechanism: str, tmp_path: Path
) -> None:
    """Who may not alter the cluster is refused, by a broker's own words; brokers may ask."""
    locks = Locks(protocol=protocol, mechanism=mechanism, zookeeper_sasl=None)
    with LockedCluster.running(LockedOptions(locks=locks, broker=BROKERS)) as cluster:
        allow_as_documented(cluster)
        cluster.allow(DAEMON, "--topic", "*", "--operation", "Describe")
        altering = ("--cluster", "--operation", "Alter", "--force")
        revoked = ("--remove", "--allow-principal", f"User:{DAEMON}", *altering)
        assert cluster.run_admin_tool(ACLS, *revoked).code == 0
        topic = cluster.create_topic("moved", dict.fromkeys(range(4), (1, 2)))
        targets = {(topic, n): (3, 1) if n % 2 else (2, 3) for n in range(4)}
        other = cluster.create_topic("other", {0: (1, 2)})
        fill(cluster, targets)
        plan, later = tmp_path / "plan.json", tmp_path / "later.json"
        plan.write_text(json.dumps(plan_of(targets)))
        later.write_text(json.dumps(plan_of({(other, 0): (2, 3)})))
        with Traffic(
            cluster.bootstrap_servers, {topic: 4}, security=cluster.client_security
        ) as traffic:
            traffic.await_flow()
            daemon = cluster.make_daemon("first", *PUBLIC, *cluster.serve_clients())
            daemon.start()
            for command in (("throttle", "10KB"), ("execute", str(plan))):
                said = cluster.reassigner(*command)
                assert said.code == 0, said.stdout
            await_tenure(daemon)
            eventually(lambda: configured(cluster, "brokers/3"), within_s=20, what="it is limited")
            eventually(lambda: sees_daemon(cluster), within_s=20)

            listed = cluster.run_tool_as(DAEMON, REASSIGN_PARTITIONS, "--list").stdout
            assert f"{topic}-0: replicas: 2,3,1. adding: 3. removing: 1." in listed
            execute = ("--reassignment-json-file", str(later), "--execute", "--additional")
            refused = cluster.run_tool_as(DAEMON, REASSIGN_PARTITIONS, *execute).stdout
            assert f"{other}-0: Request" in refused
            assert "is not authorized." in refused
            assert f"{other}-0" not in specs(cluster)
            cluster.allow(DAEMON, "--cluster", "--operation", "Alter")
            started = cluster.run_tool_as(DAEMON, REASSIGN_PARTITIONS, *execute).stdout
            assert "Successfully started partition reassignment for other-0" in started

            said = cluster.reassigner("throttle", "100MB")
            assert said.code == 0, said.stdout
            await_end(cluster, {**targets, (other, 0): (2, 3)}, within_s=60)
            traffic.await_flow()
            traffic.stop()
        assert traffic.failed == {}
        found = traffic.audited()
        assert found.is_clean, str(found)
        assert daemon.stop() == 0, daemon.log_tail()


def test_who_may_not_create_topics_moves_no_role(tmp_path: Path) -> None:
    """
    A client without rights waits as if the daemon were not there; one with rights is served.

    By the daemon, as far as it may ask brokers what it needs; else by Kafka's controller.
    """
    locks = Locks(protocol="SASL_PLAINTEXT", mechanism="PLAIN", zookeeper_sasl=None)
    with LockedCluster.running(LockedOptions(locks=locks, broker=BROKERS)) as cluster:
        allow_as_documented(cluster)
        cluster.withdraw(DAEMON, "--cluster", "--operation", "DescribeConfigs")
        topic = cluster.create_topic("moved", {0: (1, 2)})
        fill(cluster, [(topic, 0)])
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(plan_of({(topic, 0): (2, 3)})))
        # The copy may end before all is asked.
        permanent = ("--tenure", "permanent")
        daemon = cluster.make_daemon("first", *PUBLIC, *permanent, *cluster.serve_clients())
        daemon.start()
        for command in (("throttle", "1KB"), ("execute", str(plan))):
            said = cluster.reassigner(*command)
            assert said.code == 0, said.stdout
        await_tenure(daemon)
        eventually(lambda: sees_daemon(cluster), within_s=20)
        epoch = controller_epoch(cluster)
        stranger = AdminClient(
            {"bootstrap.servers": cluster.bootstrap_servers, **cluster.keys.client_security(DAEMON)}
        )
        with pytest.raises(KafkaException, match="NOT_CONTROLLER"):
            stranger.create_topics([NewTopic("theirs", 1, 1)])["theirs"].result(timeout=60)
        assert cluster.controller() == DAEMON_ID
        assert controller_epoch(cluster) == epoch
        cluster.allow(DAEMON, "--cluster", "--operation", "Create")
        made = cluster.run_tool_as(
            DAEMON, TOPICS, "--create", "--topic", "ours", "--partitions", "1"
        )
        assert made.code == 0, made.stdout
        assert cluster.topic("ours") is not None
        assert cluster.topic("theirs") is None
        assert controller_epoch(cluster) > epoch
        # The daemon may not see the brokers' defaults for new topics before.
        cluster.allow(DAEMON, "--cluster", "--operation", "DescribeConfigs")
        eventually(lambda: sees_daemon(cluster), within_s=60, what="the daemon has the role again")
        epoch = controller_epoch(cluster)
        more = ("--create", "--topic", "more", "--partitions", "1")
        made = cluster.run_tool_as(DAEMON, TOPICS, *more, "--config", "retention.ms=5")
        assert made.code == 0, made.stdout
        assert controller_epoch(cluster) > epoch
        cluster.allow(DAEMON, "--topic", "*", "--operation", "AlterConfigs")
        eventually(lambda: sees_daemon(cluster), within_s=60, what="the daemon has the role again")
        epoch = controller_epoch(cluster)
        last = ("--create", "--topic", "last", "--partitions", "1")
        made = cluster.run_tool_as(DAEMON, TOPICS, *last, "--config", "retention.ms=5")
        assert made.code == 0, made.stdout
        assert cluster.read("/config/topics/last") == {
            "version": 1,
            "config": {"retention.ms": "5"},
        }
        assert controller_epoch(cluster) == epoch
