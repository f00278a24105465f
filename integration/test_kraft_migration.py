"""
A real migration to KRaft after a quiesce: nothing of the reassigner is left in the new cluster.

The quiesce comes in the middle of a throttled request, under traffic. What the KRaft cluster holds
is read from its brokers and from the disks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    ConfigResource,
    ResourceType,
)

from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.conformance import assert_conforming
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.engine_matrix import PRIVATE_ENDPOINT
from integration.rigs.kraft_migrations import CONTROLLER_ID, KraftMigration
from integration.rigs.plans import Daemons, Targets, configured, fill, is_reassigning
from integration.rigs.requests import await_outcome, endings, submit_request
from integration.rigs.servers import BrokerOptions
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

PARTITIONS: Final = 6
AT_ONCE: Final = 2
TRICKLE: Final = 1
"""Bytes per second: the quiesce finds copies on their way."""
THROTTLES: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
UNSET: Final = {None, "", str(2**63 - 1)}
"""No throttle, as brokers describe it."""

Assignment = Mapping[int, tuple[int, ...]]


@contextmanager
def a_daemon(cluster: Cluster, directory: Path, *options: str) -> Iterator[Daemon]:
    """Yield a daemon that is not started yet; no broker has to be the controller in the end."""
    daemon = Daemons(cluster, directory).make(*options)
    try:
        yield daemon
    finally:
        daemon.stop()
        daemon.port.close()
    assert_conforming(cluster, daemon.journal_directory)


def quiesced(cluster: Cluster, *options: str) -> tuple[int, str]:
    """Run ``quiesce``; return its exit code and output."""
    result = run_reassigner("quiesce", *options, "--zookeeper", cluster.zookeeper_connect)
    return result.code, result.stdout


def descriptions(cluster: Cluster, topic: str) -> dict[str, dict[str, str | None]]:
    """Return the settings that brokers describe, of the topic and of each broker."""
    resources = [ConfigResource(ResourceType.TOPIC, topic)]
    resources += [ConfigResource(ResourceType.BROKER, str(broker)) for broker in cluster.brokers]
    found = {}
    for resource in resources:  # only a broker itself describes its settings
        (answer,) = cluster.admin.describe_configs([resource]).values()
        settings = answer.result(timeout=20)
        found[resource.name] = {name: entry.value for name, entry in settings.items()}
    return found


def shown(cluster: Cluster, topic: str) -> Assignment:
    """Return the replicas of a topic as brokers show them; none while one is out of sync."""
    partitions = cluster.admin.list_topics(topic, timeout=20).topics[topic].partitions
    in_sync = all(set(p.isrs) == set(p.replicas) for p in partitions.values())
    return {n: tuple(p.replicas) for n, p in partitions.items()} if in_sync else {}


def logs(cluster: Cluster, broker: int) -> set[str]:
    """Return the logs on the disks of a broker, without the one of its metadata."""
    found = cluster.replica_directories(broker)
    return {name for name in found if not name.startswith("__cluster_metadata")}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "options",
    [("--engine", "auto"), ("--engine", "native", "--tenure", "permanent", *PRIVATE_ENDPOINT)],
    ids=["delegated", "native"],
)
def test_after_a_quiesce_a_migration_takes_nothing_of_ours_over(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Nor is an acknowledged record lost, while the daemon runs on; another one is refused."""
    broker = BrokerOptions(inter_broker_protocol="3.9", internal="native" in options)
    before = {n: (1 + n % 3, 1 + (n + 1) % 3) for n in range(PARTITIONS)}
    targets: Targets = {("t", n): (1 + (n + 1) % 3, 1 + (n + 2) % 3) for n in range(PARTITIONS)}
    with Cluster.running(ClusterOptions(brokers=3, broker=broker)) as cluster:
        topic = cluster.create_topic("t", before, {"retention.ms": "86400000"})
        settings = configured(cluster, f"topics/{topic}")
        fill(cluster, targets)
        with (
            a_daemon(cluster, tmp_path, *options) as daemon,
            Traffic(cluster.bootstrap_servers, {topic: PARTITIONS}) as traffic,
        ):
            daemon.start()
            traffic.await_flow()
            expected = end_work(cluster, daemon, targets, before, tmp_path)
            assert configured(cluster, f"topics/{topic}") == settings
            with closing(KraftMigration(cluster, {topic: expected})) as migration:
                migrate(cluster, daemon, migration, tmp_path / "late")
                traffic.await_flow()
                traffic.stop()
                eventually(lambda: shown(cluster, topic) == expected, within_s=60)
                for name, of in descriptions(cluster, topic).items():
                    assert {of.get(key) for key in THROTTLES} <= UNSET, name
                for number in cluster.brokers:
                    held = {f"t-{n}" for n, replicas in expected.items() if number in replicas}
                    assert logs(cluster, number) == held
                found = traffic.audited()
                assert found.is_clean, str(found)
                assert traffic.failed == {}


def end_work(
    cluster: Cluster, daemon: Daemon, targets: Targets, before: Assignment, directory: Path
) -> Assignment:
    """Quiesce in the middle of a request; return the replicas that each partition has then."""
    at_zookeeper = ("--zookeeper", cluster.zookeeper_connect)
    request = submit_request(cluster, targets, throttle=TRICKLE, max_partitions_in_flight=AT_ONCE)
    eventually(lambda: is_reassigning(cluster, "t"), within_s=30, what="a step is in flight")
    code, said = quiesced(cluster, "--reason", "KRaft")
    assert code == 2, said
    assert "reassignment: t-" in said
    assert "throttle: topics/t" in said
    raised = run_reassigner("throttle", "50MB", "--request", request, *at_zookeeper)
    assert raised.code == 0, raised.stdout
    export = directory / "history.json"
    code, said = quiesced(cluster, "--wait", "--export", str(export))
    assert code == 0, said
    assert "Ready: nothing of the reassigner is left in the cluster." in said
    refused = submit_request(cluster, targets)
    assert await_outcome(cluster, refused, within_s=20)["refused"][0]["reason"] == "disabled"
    assert await_outcome(cluster, request, within_s=20)["done"] >= 1
    cancelled = {name for name, (fate, _) in endings(cluster, request).items()}
    assert 0 < len(cancelled) < PARTITIONS
    archive = json.loads(export.read_text())
    assert request in {of["id"] for of in archive["requests"]}
    assert archive["journal"]["path"].startswith(str(daemon.journal_directory))
    diagnosed = run_reassigner("doctor", "--migration", *at_zookeeper)
    assert diagnosed.code == 0, diagnosed.stdout
    return {
        n: before[n] if f"t-{n}" in cancelled else tuple(replicas)
        for (_, n), replicas in targets.items()
    }


def migrate(cluster: Cluster, daemon: Daemon, migration: KraftMigration, directory: Path) -> None:
    """Migrate the cluster to the end; the daemon leaves it alone, and another one ends at once."""
    migration.begin()
    migration.migrate()
    eventually(lambda: "KRaft" in "".join(daemon.status()["refused_because"]), within_s=30)
    with a_daemon(cluster, directory) as late:
        late.spawn()
        assert late.wait(within_s=60) == 3
    diagnosed = run_reassigner("doctor", "--migration", "--zookeeper", cluster.zookeeper_connect)
    assert diagnosed.code == 2
    assert "migration_begun" in diagnosed.stdout
    migration.leave_zookeeper()
    assert cluster.controller() == CONTROLLER_ID
    assert daemon.stop() == 0, daemon.log_tail()
    migration.finalize()
