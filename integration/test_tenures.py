"""
Taking the controller role and giving it back, again and again, under clients that must not notice.

Also by force: another process may take the role at any moment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined] # as its stubs forget to say
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from controller.core.deletions.model import DELETION_PATIENCE_S
from controller.core.role.claims_and_resignations import PROGRESS_PATIENCE_S
from integration.conftest import MakeTopic
from integration.rigs.clients import unnoticed
from integration.rigs.cluster import QUIET, Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.running_daemons import (
    await_claim,
    await_shown,
    controller_epoch,
    is_done,
    permanent_tenure,
    running_daemon,
    strike,
    submit,
)
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually

SAFE = {"min.insync.replicas": "2"}
THROTTLED_REPLICAS = "follower.replication.throttled.replicas"
THROTTLED_RATE = "follower.replication.throttled.rate"
HEAVY_BYTES = 4_000_000


@pytest.mark.acceptance
def test_a_consumer_group_continues_while_the_role_changes_and_its_coordinator_dies(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Claim, death and return of the coordinator, hand-back: one member, one assignment, no gap."""
    topic = make_topic({0: [1, 2, 3], 1: [4, 5, 1]}, SAFE)
    with unnoticed(cluster, {topic: 2}, pause_s=25) as clients:
        with permanent_tenure(cluster):
            dead = _coordinator(cluster, clients.member.group)
            cluster.brokers[dead].kill()
            eventually(lambda: not cluster.is_registered(dead), within_s=20)
            eventually(
                lambda: _coordinator(cluster, clients.member.group) != dead,
                within_s=15,
                what="the group has another coordinator",
                tolerating=(KafkaException,),
            )
            seen = len(clients.member.consumed)
            eventually(lambda: len(clients.member.consumed) > seen + 200, within_s=15)
            cluster.brokers[dead].start()
            await_shown(cluster, topic)
        seen = len(clients.member.consumed)
        eventually(lambda: len(clients.member.consumed) > seen + 200, within_s=15)


def test_the_role_changes_hands_for_every_plan_and_no_record_is_lost(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Two epochs per plan: ours and that of the broker that takes the role back."""
    topic = make_topic({0: [1, 2, 3], 1: [2, 3, 4]}, SAFE)
    with (
        running_daemon(cluster, "--tenure-linger", "1"),
        unnoticed(cluster, {topic: 2}, pause_s=10),
    ):
        for first, second in (([2, 3, 4], [3, 4, 5]), ([3, 4, 5], [4, 5, 1]), ([1, 2, 3], [1, 2])):
            plan = {topic: {0: first, 1: second}}
            before = controller_epoch(cluster)
            submit(cluster, plan)
            eventually(partial(is_done, cluster, plan), within_s=40)
            eventually(cluster.controller_broker, within_s=15)
            assert controller_epoch(cluster) == before + 2
            await_shown(cluster, topic)


def test_a_topic_is_deleted_while_a_step_copies(cluster: Cluster, make_topic: MakeTopic) -> None:
    """The daemon deletes it and keeps the role; then the plan continues."""
    busy = make_topic({0: [1, 2, 3]}, SAFE)
    heavy = _heavy_topic(cluster, make_topic)
    doomed = make_topic({0: [1, 2, 3], 1: [3, 4, 5]})
    plan = {heavy: {0: [3, 4, 5]}}
    with (
        running_daemon(cluster, "--tenure-linger", "1") as daemon,
        unnoticed(cluster, {busy: 1}, pause_s=10),
    ):
        with _slow_copies(cluster, 4, 5):
            submit(cluster, plan)
            eventually(lambda: _is_copying(daemon, heavy), within_s=15)
            epoch = controller_epoch(cluster)
            cluster.zk.create(f"/admin/delete_topics/{doomed}", b"")
            eventually(lambda: cluster.topic(doomed) is None, within_s=30)
            assert _is_copying(daemon, heavy)
            assert controller_epoch(cluster) == epoch
        eventually(lambda: is_done(cluster, plan), within_s=40)
        eventually(cluster.controller_broker, within_s=15)
        assert controller_epoch(cluster) == epoch + 1


def test_a_daemon_whose_role_is_seized_stops_at_once_and_comes_back(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """A broker becomes the controller in the middle of a move; the daemon takes over once more."""
    busy = make_topic({0: [1, 2, 3]}, SAFE)
    heavy = _heavy_topic(cluster, make_topic)
    plan = {heavy: {0: [3, 4, 5]}, busy: {0: [2, 3, 4]}}
    with (
        running_daemon(cluster, "--tenure-linger", "1") as daemon,
        unnoticed(cluster, {busy: 1}, pause_s=10),
    ):
        with _slow_copies(cluster, 4, 5):
            submit(cluster, plan)
            eventually(lambda: _is_copying(daemon, heavy), within_s=15)
            epoch = controller_epoch(cluster)
            cluster.zk.delete("/controller")
            eventually(cluster.controller_broker, within_s=5, every_s=0.01)
            eventually(lambda: daemon.status()["tenure"]["held"] is False, within_s=1, every_s=0.05)
            await_claim(cluster)
            assert controller_epoch(cluster) == epoch + 2
        eventually(lambda: is_done(cluster, plan), within_s=40)
        eventually(cluster.controller_broker, within_s=15)


def test_a_dead_target_broker_keeps_the_role_neither_from_a_deletion_nor_from_a_pause(
    cluster: Cluster, make_topic: MakeTopic
) -> None:
    """Topics are deleted and created while the step waits; it ends when the broker is back."""
    busy = make_topic({0: [1, 2, 3]}, SAFE)
    moved = make_topic({0: [1, 2, 3]}, SAFE)
    doomed = make_topic({0: [1, 2, 3], 1: [3, 5, 1]})
    plan = {moved: {0: [1, 2, 4]}}
    zookeeper = ("--zookeeper", cluster.zookeeper_connect)
    with (
        # The step has to begin towards a frozen broker, which does not report its free space.
        running_daemon(cluster, "--tenure-linger", "1", "--min-free", "none") as daemon,
        unnoticed(cluster, {busy: 1}, pause_s=10),
    ):
        cluster.brokers[4].freeze()  # registered, but it copies nothing
        submit(cluster, plan)
        eventually(lambda: _is_copying(daemon, moved), within_s=5, every_s=0.1)
        strike(cluster, 4)
        cluster.zk.create(f"/admin/delete_topics/{doomed}", b"")
        eventually(lambda: cluster.topic(doomed) is None, within_s=DELETION_PATIENCE_S + 25)
        await_claim(cluster, within_s=DELETION_PATIENCE_S + 10)
        assert run_reassigner("pause", *zookeeper).code == 0
        eventually(cluster.controller_broker, within_s=PROGRESS_PATIENCE_S + 20)
        epoch = controller_epoch(cluster)
        make_topic({0: [1, 2, 3]})
        assert controller_epoch(cluster) == epoch, "the role is not taken under a pause"
        cluster.brokers[4].start()
        eventually(lambda: is_done(cluster, plan), within_s=60, what="a broker ends the step")
        assert run_reassigner("resume", *zookeeper).code == 0


def test_a_move_of_others_does_not_keep_the_role(cluster: Cluster, make_topic: MakeTopic) -> None:
    """A small plan of ours begins and ends beside it; then topics can be created again."""
    heavy = _heavy_topic(cluster, make_topic)
    small = make_topic({0: [1, 2, 3]}, SAFE)
    theirs, ours = {heavy: {0: [1, 2, 5]}}, {small: {0: [1, 2, 4]}}
    with running_daemon(cluster, "--tenure-linger", "1"):
        with _slow_copies(cluster, 5):
            listed = [{"topic": heavy, "partition": 0, "replicas": [1, 2, 5]}]
            file = cluster.directory / f"{heavy}.json"
            file.write_text(json.dumps({"version": 1, "partitions": listed}))
            tool = cluster.reassign_partitions("--reassignment-json-file", str(file), "--execute")
            assert tool.code == 0, tool.stdout
            submit(cluster, ours)
            eventually(lambda: is_done(cluster, ours), within_s=40)
            eventually(cluster.controller_broker, within_s=20)
            assert not is_done(cluster, theirs)
            epoch = controller_epoch(cluster)
            make_topic({0: [1, 2, 3]})
            assert controller_epoch(cluster) == epoch
        eventually(lambda: is_done(cluster, theirs), within_s=60)


def test_a_daemon_that_brokers_refuse_gives_the_role_back_and_writes_nothing() -> None:
    """Without ClusterAction; allowed again, the next claim carries the request out."""
    extra = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    options = ClusterOptions(brokers=3, broker=BrokerOptions(extra=extra))
    with Cluster.running(options) as cluster:
        topic = cluster.create_topic("refused", {0: [1, 2]})
        plan = {topic: {0: [1, 3]}}
        before, epoch = cluster.state(topic, 0), controller_epoch(cluster)
        # Where a resource has rules, only what they allow is allowed.
        rules = [
            AclBinding(
                ResourceType.BROKER,
                "kafka-cluster",
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                operation,
                kind,
            )
            for operation, kind in (
                (AclOperation.ALL, AclPermissionType.ALLOW),
                (AclOperation.CLUSTER_ACTION, AclPermissionType.DENY),
            )
        ]
        for future in cluster.admin.create_acls(rules).values():
            future.result(timeout=15)
        with running_daemon(cluster) as daemon:
            submit(cluster, plan)
            eventually(lambda: controller_epoch(cluster) == epoch + 2, within_s=30)
            eventually(cluster.controller_broker, within_s=15)
            eventually(
                lambda: "CLUSTER_AUTHORIZATION_FAILED" in str(daemon.status()["refused_because"]),
                within_s=15,
            )
            assert cluster.state(topic, 0) == before
            assert cluster.replicas(topic, 0) == [1, 2]
            time.sleep(10)
            assert controller_epoch(cluster) == epoch + 2, "the role is not claimed in a loop"
        filters = [
            AclBindingFilter(
                ResourceType.BROKER,
                "kafka-cluster",
                ResourcePatternType.LITERAL,
                None,  # type: ignore[arg-type] # any principal, which its stubs do not know
                None,  # type: ignore[arg-type] # any host
                AclOperation.ANY,
                AclPermissionType.ANY,
            )
        ]
        for future in cluster.admin.delete_acls(filters).values():
            future.result(timeout=15)
        with running_daemon(cluster, "--tenure-linger", "1"):
            eventually(lambda: is_done(cluster, plan), within_s=60)


# --- inside --------------------------------------------------------------------------------------


def _coordinator(cluster: Cluster, group: str) -> int:
    """Return the broker that coordinates a group."""
    found = cluster.admin.describe_consumer_groups([group], request_timeout=10)
    return int(found[group].result(timeout=15).coordinator.id)


def _heavy_topic(cluster: Cluster, make_topic: MakeTopic) -> str:
    """Return a topic whose only partition takes its time under ``_slow_copies``."""
    topic = make_topic({0: [1, 2, 3]}, SAFE)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
    for _ in range(HEAVY_BYTES // 10_000):
        producer.produce(topic, b"x" * 10_000, partition=0)
    assert producer.flush(30) == 0
    _alter(cluster, ResourceType.TOPIC, topic, THROTTLED_REPLICAS, "*")
    return topic


@contextmanager
def _slow_copies(cluster: Cluster, *broker_ids: int) -> Iterator[None]:
    """Let brokers copy a megabyte of throttled topics in ten seconds, and all of it afterwards."""
    for broker_id in broker_ids:
        _alter(cluster, ResourceType.BROKER, str(broker_id), THROTTLED_RATE, "20000")
    for broker_id in broker_ids:
        # Brokers hear of changes one after the other: the topics' are known when this one is.
        eventually(partial(_is_throttled, cluster, broker_id), within_s=10)
    try:
        yield
    finally:
        for broker_id in broker_ids:
            _alter(cluster, ResourceType.BROKER, str(broker_id), THROTTLED_RATE, None)


def _alter(
    cluster: Cluster, kind: ResourceType, name: str, setting: str, value: str | None
) -> None:
    """Change one setting of a topic or broker; None takes it back."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(setting, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    for future in cluster.admin.incremental_alter_configs([resource]).values():
        future.result(timeout=15)


def _is_throttled(cluster: Cluster, broker_id: int) -> bool:
    resource = ConfigResource(ResourceType.BROKER, str(broker_id))
    (future,) = cluster.admin.describe_configs([resource]).values()
    return THROTTLED_RATE in future.result(timeout=15)


def _is_copying(daemon: Daemon, topic: str) -> bool:
    """Return whether a step of ours waits for a copy."""
    return any(
        found["topic"] == topic and found["phase"] == "A2-syncing"
        for found in daemon.status()["in_flight"]
    )
