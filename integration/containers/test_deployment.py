"""
The main job through the compose file: a plan under load, a killed daemon, its standby, the proof.

Then Prometheus and the page of the same deployment.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration.containers.container_cluster import ContainerCluster
from integration.containers.deployment import DAEMONS, PROMETHEUS, Deployment, get
from integration.rigs.conformance import violations
from integration.rigs.plans import await_end, fill, is_reassigning, plan_of, specs
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

PARTITIONS: Final = 6
TARGETS: Final = ((3, 4, 5), (5, 1, 4), (2, 4, 3))
TAKEOVER_WITHIN_S: Final = 40.0
"""The session of a killed daemon lasts ten seconds."""

log = logging.getLogger("containers")


def status(service: str) -> dict[str, Any]:
    """Return ``/status`` of a daemon."""
    document: dict[str, Any] = json.loads(get(DAEMONS[service], "/status"))
    return document


def leader() -> str | None:
    """Return the service that leads; None: none does, or none answers."""
    for service in DAEMONS:
        try:
            if status(service)["role"] == "leader":
                return service
        except OSError:
            continue
    return None


def await_leader(*among: str) -> str:
    """Wait until one of these services leads; return it."""
    eventually(lambda: leader() in among, within_s=TAKEOVER_WITHIN_S, what=f"one of {among} leads")
    found = leader()
    assert found is not None
    return found


def data_of(expression: str) -> list[dict[str, Any]]:
    """Return what an expression is in Prometheus now."""
    return list(requested(f"query?query={expression}")["result"])


def requested(path: str) -> dict[str, Any]:
    """Return the data of an answer of Prometheus."""
    document = json.loads(get(PROMETHEUS, f"/api/v1/{path}"))
    assert document["status"] == "success", document
    data: dict[str, Any] = document["data"]
    return data


@pytest.fixture
def deployed_cluster(deployed: Deployment, tmp_path: Path) -> Iterator[ContainerCluster]:
    """Give the cluster of the deployment beside its daemons."""
    cluster = ContainerCluster(deployed, tmp_path)
    cluster.zk.start(timeout=30)
    yield cluster
    cluster.close()


def test_a_plan_survives_the_daemon_that_began_it(
    deployed: Deployment, deployed_cluster: ContainerCluster, tmp_path: Path
) -> None:
    """
    ``execute`` in a container, kill -9 of the leader's, the standby ends the work, nothing is lost.

    The killed one comes back as the standby; ``verify`` and Kafka's own tool agree with the znodes.
    """
    cluster, begun = deployed_cluster, time.monotonic()
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(
        topic, dict.fromkeys(range(PARTITIONS), (1, 2, 3)), {"min.insync.replicas": "2"}
    )
    fill(cluster, [(topic, n) for n in range(PARTITIONS)])
    targets = {(topic, n): TARGETS[n % len(TARGETS)] for n in range(PARTITIONS)}
    plan = json.dumps(plan_of(targets))
    first = await_leader(*DAEMONS)
    (other,) = set(DAEMONS) - {first}
    with Traffic(cluster.bootstrap_servers, {topic: PARTITIONS}) as traffic:
        traffic.await_flow()
        submit = "cat > /tmp/plan.json && reassigner execute /tmp/plan.json --throttle 1MB"
        code, said = deployed.exec(first, "sh", "-c", submit, stdin=plan)
        assert code == 0, said
        eventually(lambda: is_reassigning(cluster, topic), within_s=30, what="a step is in flight")
        deployed.kill(first)
        killed = time.monotonic()
        assert is_reassigning(cluster, topic)
        assert await_leader(other) == other
        log.info("%s was killed; %s leads after %.1f s", first, other, time.monotonic() - killed)
        deployed.start(first)
        assert status(first)["role"] == "standby"
        code, said = deployed.exec(other, "reassigner", "throttle", "100MB")
        assert code == 0, said
        await_end(cluster, targets, within_s=120)
        traffic.await_flow()
        traffic.stop()
    found = traffic.audited()
    assert traffic.failed == {}
    assert found.is_clean, str(found)
    deployed.exec(other, "reassigner", "throttle", "unlimited")
    verify = "cat > /tmp/plan.json && reassigner verify /tmp/plan.json"
    code, said = deployed.exec(other, "sh", "-c", verify, stdin=plan)
    assert code == 0, said
    file = tmp_path / "plan.json"
    file.write_text(plan)
    code, said = cluster.reassign_partitions("--reassignment-json-file", str(file), "--verify")
    assert code == 0, said
    assert said.count("is completed.") == len(targets), said
    assert violations(cluster) == []
    assert specs(cluster) == set()
    log.info(
        "%d records acknowledged, %d missing; the main job took %.0f s",
        found.acknowledged,
        len(found.missing),
        time.monotonic() - begun,
    )
    cluster.delete_topics(topic)


def test_a_leader_that_has_to_end_gives_its_place_away_at_once(deployed: Deployment) -> None:
    """SIGTERM: exit code 0 within ten seconds, and the standby leads without waiting."""
    first = await_leader(*DAEMONS)
    (other,) = set(DAEMONS) - {first}
    code, took_s = deployed.stop(first)
    assert code == 0, deployed.logs(first)[-2000:]
    assert took_s < 10, took_s
    assert await_leader(other) == other
    deployed.start(first)
    assert await_leader(other) == other
    log.info("%s ended in %.1f s", first, took_s)


@pytest.mark.usefixtures("deployed")
def test_prometheus_scrapes_both_daemons_and_evaluates_every_rule() -> None:
    """Every target is up, every rule is healthy, exactly one daemon leads."""

    def health() -> dict[str, str]:
        targets = requested("targets")["activeTargets"]
        return {target["labels"]["instance"]: target["health"] for target in targets}

    wanted = {f"{service}:8095": "up" for service in DAEMONS}
    eventually(lambda: health() == wanted, within_s=30, what=lambda: f"targets: {health()}")

    def unhealthy() -> list[str]:
        rules = [rule for group in requested("rules")["groups"] for rule in group["rules"]]
        assert rules
        return [rule["name"] for rule in rules if rule["health"] != "ok"]

    eventually(lambda: not unhealthy(), within_s=40, what=lambda: f"rules: {unhealthy()}")
    eventually(lambda: len(data_of("reassigner_leader==1")) == 1, within_s=30)


@pytest.mark.usefixtures("deployed")
def test_each_daemon_shows_its_page() -> None:
    """On the ports of this machine that the compose file names."""
    await_leader(*DAEMONS)
    for port in DAEMONS.values():
        page = get(port, "/")
        assert "<title>" in page
        assert "</html>" in page
        assert get(port, "/healthz")
        assert get(port, "/readyz")


def test_the_daemon_may_write_its_journal_alone(deployed: Deployment) -> None:
    """The root file system is read only, as the compose file says."""
    for service in DAEMONS:
        code, said = deployed.exec(service, "sh", "-c", "touch /opt/reassigner/x")
        assert code != 0
        assert "Read-only file system" in said, said
        code, said = deployed.exec(service, "sh", "-c", "ls /var/lib/reassigner/journal")
        assert (code, bool(said.strip())) == (0, True), said
