"""
Approved plans on real brokers, with both engines: exactly what was approved is carried out.

A partition that another client reassigns between approval and first step is refused, and stays
where that client has put it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import run_reassigner
from integration.rigs.engine_matrix import ROWS, Row
from integration.rigs.plans import Daemons, await_end, plan_of, specs
from integration.rigs.requests import await_outcome, reassigner, submit_request
from integration.rigs.waiting import eventually

REFUSED: Final = 3
SMOKE: Final = ("delegated-3.9.1-full", "native-3.9.1-2.6")


def name_of(row: Row) -> str:
    """Return how tests call a row."""
    return row.name


@pytest.fixture(scope="module", params=[r for r in ROWS if r.name in SMOKE], ids=name_of)
def row(request: pytest.FixtureRequest) -> Row:
    """Give one row after the other."""
    found: Row = request.param
    return found


@pytest.fixture(scope="module")
def shared_cluster(row: Row) -> Iterator[Cluster]:
    """Give the cluster of a row; ``cluster`` repairs it after every test."""
    with Cluster.running(row.options) as cluster:
        yield cluster


def approved(cluster: Cluster, directory: Path, targets: dict[tuple[str, int], Any]) -> list[str]:
    """Write a plan for approval; return the arguments with which it is submitted."""
    plan, out = directory / "plan.json", directory / "approved.json"
    plan.write_text(json.dumps(plan_of(targets)))
    written = reassigner(cluster, "execute", str(plan), "--dry-run", "--out", str(out))
    assert written.code == 0, written.stdout
    named = json.loads(out.read_text())["approval"]["hash"]
    return [str(out), "--approved", named, "--approved-by", "ann", "--requested-by", "bob"]


def executed(cluster: Cluster, *arguments: str) -> str:
    """Submit a plan; return its request."""
    submitted = run_reassigner(
        *("execute", *arguments, "--json", "--zookeeper", cluster.zookeeper_connect),
        errors_too=False,
    )
    assert submitted.code == 0, submitted.stdout
    return str(json.loads(submitted.stdout)["request"])


def test_only_the_approved_plan_is_carried_out(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, row: Row, tmp_path: Path
) -> None:
    """Requester and approver are in the outcome; a request without an approval is refused."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    targets = {(topic, 0): (3, 4)}
    daemons.start("--engine", row.wanted, "--tenure-linger", "1", "--require-approval")
    unapproved = submit_request(cluster, {(topic, 1): (3, 4)})
    (refused,) = await_outcome(cluster, unapproved, within_s=30)["refused"]
    assert refused["reason"] == "not_approved"
    request = executed(cluster, *approved(cluster, tmp_path, targets), "--wait")
    await_end(cluster, targets, within_s=60)
    outcome = await_outcome(cluster, request, within_s=20)
    assert (outcome["requested_by"], outcome["approved_by"]) == ("bob", "ann")
    assert cluster.replicas(topic, 1) == [1, 2]


def test_a_partition_that_drifts_before_its_first_step_is_refused(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, row: Row, tmp_path: Path
) -> None:
    """The other partition of the plan is moved."""
    topic = make_topic({0: (1, 2), 1: (1, 2)})
    daemon = daemons.start("--engine", row.wanted, "--tenure-linger", "1")
    assert reassigner(cluster, "pause").code == 0
    arguments = approved(cluster, tmp_path, {(topic, 0): (3, 4), (topic, 1): (3, 4)})
    request = executed(cluster, *arguments)
    eventually(lambda: len(specs(cluster)) == 2, within_s=20, what="both are accepted")
    daemon.kill()
    drifted = tmp_path / "drifted.json"
    drifted.write_text(json.dumps(plan_of({(topic, 0): (5, 2)})))
    moved = cluster.reassign_partitions("--reassignment-json-file", str(drifted), "--execute")
    assert moved.code == 0, moved.stdout
    eventually(lambda: cluster.replicas(topic, 0) == [5, 2], within_s=60)
    again = reassigner(cluster, "execute", *arguments)
    assert again.code == REFUSED, again.stdout
    daemons.start("--engine", row.wanted, "--tenure-linger", "1")
    assert reassigner(cluster, "resume").code == 0
    outcome = await_outcome(cluster, request, within_s=90)
    (refused,) = outcome["refused"]
    assert (refused["reason"], refused["partition"]) == ("drifted", 0)
    assert (outcome["done"], cluster.replicas(topic, 1)) == (1, [3, 4])
    assert cluster.replicas(topic, 0) == [5, 2]
