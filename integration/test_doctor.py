"""``doctor`` on a real cluster: silent where nothing is wrong, and each main finding for real."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import run_reassigner
from integration.rigs.engine_matrix import Row
from integration.rigs.kafka_jars import KAFKA_2_4, KAFKA_3_9
from integration.rigs.plans import Daemons, await_tenure
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually

FINDINGS = 2


@pytest.fixture(scope="module")
def hospital() -> Iterator[Cluster]:
    """Give a cluster of three brokers that these tests make ill, one after the other."""
    options = ClusterOptions(brokers=3, broker=BrokerOptions(internal_replication_factor=2))
    with Cluster.running(options) as cluster:
        yield cluster


def diagnose(cluster: Cluster) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the findings."""
    result = run_reassigner("doctor", "--zookeeper", cluster.zookeeper_connect, "--json")
    assert result.code in (0, FINDINGS), result.stdout
    document = json.loads(result.stdout)
    assert sum(document["counts"].values()) == len(document["findings"])
    return result.code, document["findings"]


def subjects(findings: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return what was found about what."""
    return {(f["check"], f["subject"]) for f in findings}


def put(cluster: Cluster, path: str, content: object) -> None:
    """Create a znode with its parents, or write it."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    cluster.zk.ensure_path(path)
    cluster.zk.set(path, data)


def test_a_sound_cluster_has_no_findings(hospital: Cluster) -> None:
    """But for the remark that no daemon runs; exit code 0."""
    hospital.create_topic("sound", {0: (1, 2), 1: (2, 3)}, {"min.insync.replicas": "2"})
    code, findings = diagnose(hospital)
    assert [(f["check"], f["severity"]) for f in findings] == [("no_daemon", "info")]
    assert code == 0


def test_a_hidden_znode_is_a_finding_and_the_rest_is_looked_at(hospital: Cluster) -> None:
    """One that clients wrote with permissions of their own; what rests on it is not concluded."""
    hospital.create_topic("veiled", {0: (1, 2)})
    put(hospital, "/admin/reassignments/veiled/0", _spec([2, 1]))
    put(hospital, "/admin/reassign_cancel", b"")
    paths = ("/admin/reassignments/veiled/0", "/brokers/topics/veiled")
    for path in paths:
        hospital.zk.set_acls(path, [make_acl("world", "anyone", admin=True, delete=True)])
    try:
        code, findings = diagnose(hospital)
        assert code == FINDINGS
        assert {("hidden", path) for path in paths} <= subjects(findings)
        assert ("kill_switch", "/admin/reassign_cancel") in subjects(findings)
        # Other tests may have left findings about other topics.
        named = {f["check"] for f in findings if "veiled" in f["subject"]}
        assert named.isdisjoint({"lost_record", "stray_log", "no_leader"}), findings
    finally:
        for path in paths:
            hospital.zk.set_acls(path, OPEN_ACL_UNSAFE)
        hospital.zk.delete("/admin/reassignments/veiled", recursive=True)
        hospital.zk.delete("/admin/reassign_cancel")


def test_a_broker_the_controller_cannot_reach_is_a_finding(
    hospital: Cluster, tmp_path: Path
) -> None:
    """It is registered and nothing listens there: one line in the log; nothing when it is gone."""
    registration = (hospital.read("/brokers/ids/1") or {}) | {
        "endpoints": ["PLAINTEXT://127.0.0.1:1"],
        "host": "127.0.0.1",
        "port": 1,
    }
    daemons = Daemons(hospital, tmp_path)
    daemon = daemons.start("--tenure", "permanent")
    try:
        await_tenure(daemon)
        put(hospital, "/brokers/ids/99", registration)
        shown = eventually(
            lambda: daemon.status()["unreachable_brokers"], within_s=30, what="it is named"
        )
        assert set(shown) == {"99"}
        code, findings = diagnose(hospital)
        assert code == FINDINGS
        assert ("unreachable_broker", "broker 99") in subjects(findings)
        time.sleep(5)
        lines = [x for x in daemon.log.read_text().splitlines() if '"broker_unreachable"' in x]
        assert len(lines) == 1
        assert "reassigner_unreachable_brokers 1.0" in daemon.get("/metrics")[1]
        hospital.zk.delete("/brokers/ids/99")
        eventually(lambda: not daemon.status()["unreachable_brokers"], within_s=20)
    finally:
        if hospital.zk.exists("/brokers/ids/99") is not None:
            hospital.zk.delete("/brokers/ids/99")
        daemons.close()


SETTINGS_ROWS = (
    Row("native", KAFKA_3_9, "2.6"),
    Row("delegated", KAFKA_3_9, None),
    Row("native", KAFKA_2_4, None),
)


@pytest.mark.parametrize("row", SETTINGS_ROWS, ids=lambda row: row.name)
def test_settings_that_brokers_reject_are_found(row: Row, tmp_path: Path) -> None:
    """As a tool left them that writes ZooKeeper itself; valid ones, and throttles, are not."""
    with row.running() as cluster:
        bad, good = "left-by-a-tool", "fine"
        cluster.create_topic(bad, {0: (1, 2)})
        cluster.create_topic(good, {0: (1, 2)}, {"cleanup.policy": "compact"})
        throttle = {"leader.replication.throttled.rate": "1000000"}
        for entity, settings in {
            f"topics/{bad}": {"cleanup.policy": "bogus"},
            "brokers/1": throttle,
            "brokers/2": {"log.cleaner.threads": "many"},
            "brokers/<default>": {"log.retention.ms": "soon"},
        }.items():
            put(cluster, f"/config/{entity}", {"version": 1, "config": settings})
        daemons = Daemons(cluster, tmp_path)
        for is_running in (False, True):
            if is_running:
                daemons.start()
            code, findings = diagnose(cluster)
            assert code == FINDINGS
            settings_found = {s for check, s in subjects(findings) if check.endswith("_settings")}
            assert settings_found == {
                f"/config/topics/{bad}",
                "/config/brokers/2",
                "/config/brokers/<default>",
            }
            rejected = next(f for f in findings if f["subject"] == f"/config/topics/{bad}")
            assert (rejected["check"], rejected["severity"]) == ("rejected_settings", "critical")
            assert "bogus" in rejected["evidence"]
        daemons.close()


def test_each_main_finding_is_made(hospital: Cluster) -> None:
    """What tools, dead daemons and dead brokers leave behind is listed, and not touched."""
    hospital.create_topic("ill", {0: (1, 2), 1: (1, 2)}, {"min.insync.replicas": "2"})
    hospital.create_topic("thin", {0: (1,)}, {"min.insync.replicas": "2"})
    hospital.create_topic("alone", {0: (3,)})
    _leave_a_directory(hospital, 2, "thin-0")
    _leave_a_directory(hospital, 1, "ghost-0")
    _leave_a_directory(hospital, 1, "orphaned-4")
    put(
        hospital,
        "/brokers/topics/ill",
        {
            "version": 2,
            "partitions": {"0": [1, 2, 3], "1": [1, 2]},
            "adding_replicas": {"0": [3]},
            "removing_replicas": {},
        },
    )
    record = {"version": 1, "topic_czxid": 7, "reason": "not live"}
    put(hospital, "/reassigner/orphans/1/orphaned-4", record)
    put(hospital, "/admin/reassignments/ill/9", _spec([1, 2]))
    put(hospital, "/admin/reassignments/ill/1", b"nonsense")
    put(hospital, "/admin/reassign_cancel", b"")
    throttle = {"leader.replication.throttled.replicas": "1:1"}
    config = {**throttle, "min.insync.replicas": "2"}
    put(hospital, "/config/topics/ill", {"version": 1, "config": config})
    hospital.brokers[3].kill()
    eventually(lambda: hospital.leader("alone", 0) is None, within_s=20)
    before = {n: hospital.replica_directories(n) for n in hospital.brokers}
    code, findings = diagnose(hospital)
    assert code == FINDINGS
    assert {
        ("dead_broker", "broker 3"),
        ("foreign_reassignment", "ill-0"),
        ("idle_topic_throttle", "ill"),
        ("kill_switch", "/admin/reassign_cancel"),
        ("lost_record", "/admin/reassignments/ill/9"),
        ("no_daemon", "/reassigner/leader"),
        ("no_leader", "alone-0"),
        ("orphan", "orphaned-4 on broker 1"),
        ("stray_log", "ghost-0 on broker 1"),
        ("stray_log", "thin-0 on broker 2"),
        ("under_min_isr", "thin-0"),
        ("unreadable", "/admin/reassignments/ill/1"),
    } <= subjects(findings)
    assert ("stray_log", "orphaned-4 on broker 1") not in subjects(findings)
    assert {f["subject"] for f in findings if f["check"] == "stray_log"} == {
        "ghost-0 on broker 1",
        "thin-0 on broker 2",
    }
    assert {n: hospital.replica_directories(n) for n in hospital.brokers} == before


def _spec(target: list[int]) -> dict[str, object]:
    return {
        "version": 1,
        "original": None,
        "target": target,
        "request": "legacy-0000000000000001",
        "route": "legacy",
    }


def _leave_a_directory(cluster: Cluster, broker_id: int, name: str) -> None:
    """Let a broker find a replica directory on its disk when it starts."""
    broker = cluster.brokers[broker_id]
    broker.stop()
    (broker.log_dirs[0] / name).mkdir()
    cluster.start_brokers(broker_id)
    cluster.heal()
