"""``reassigner generate`` on a real cluster: sizes from the disks, and a plan that ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import run_reassigner
from integration.rigs.plans import Daemons, await_end, fill


def generated(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """Return what is proposed for a program."""
    where = ("--zookeeper", cluster.zookeeper_connect, "--json")
    done = run_reassigner("generate", *arguments, *where, errors_too=False)
    assert done.code == 0, done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.acceptance
def test_sizes_come_from_the_brokers_disks(cluster: Cluster, make_topic: MakeTopic) -> None:
    """A partition of some megabytes counts as such where a copy of it is proposed."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    fill(cluster, [(topic, 0)])
    found = generated(cluster, topic, "--drain", "1")
    assert found["replicas_copied"] == found["replicas_copied_min"] == 1
    (moved,) = found["proposed"]["partitions"]
    assert moved["partition"] == 0
    assert 1 not in moved["replicas"]
    assert 5_000_000 <= found["bytes_copied"] < 6_000_000
    assert found["bytes"]["1"][1] == 0


@pytest.mark.any_cluster
def test_a_proposal_is_carried_out(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """A broker is emptied, everything is evened out, and planned again there is nothing to do."""
    topic = make_topic(dict.fromkeys(range(5), (1, 2)))
    daemons.start()
    spec = ("--drain", "2", "--rebalance")
    found = generated(cluster, topic, *spec)
    targets = {(topic, p["partition"]): p["replicas"] for p in found["proposed"]["partitions"]}
    assert targets
    assert all(2 not in replicas for replicas in targets.values())
    counts = [after for broker, (_, after) in found["replicas"].items() if broker != "2"]
    assert max(counts) - min(counts) <= 1
    where = ("--zookeeper", cluster.zookeeper_connect)
    done = run_reassigner("generate", topic, *spec, "--execute", "--reason", "test", *where)
    assert done.code == 0, done.stdout
    await_end(cluster, targets, within_s=120)
    assert generated(cluster, topic, *spec)["proposed"]["partitions"] == []


@pytest.mark.any_cluster
@pytest.mark.parametrize("engine_name", ["native", "delegated"])
def test_what_kafkas_tool_generates_is_executed_as_it_is(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path, engine_name: str
) -> None:
    """With its headings, and in UTF-16 as a Windows shell writes it."""
    topic = make_topic({0: (1, 2)})
    topics, plan = tmp_path / "topics.json", tmp_path / "generated.txt"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    flags = ("--generate", "--broker-list", "3", "--topics-to-move-json-file", str(topics))
    wrong = run_reassigner("execute", str(topics), "--zookeeper", cluster.zookeeper_connect)
    assert wrong.code == 1
    assert "this is a file of topics" in wrong.stdout
    refused = cluster.reassign_partitions(*flags)
    assert "replication factor" in refused.stdout.lower()
    flags = (*flags[:2], "3,2", *flags[3:])
    plan.write_text(cluster.reassign_partitions(*flags).stdout, encoding="utf-16", newline="\r\n")
    daemons.start("--engine", engine_name)
    where = ("--zookeeper", cluster.zookeeper_connect)
    done = run_reassigner("execute", str(plan), "--wait", *where)
    assert done.code == 0, done.stdout
    assert "the proposed assignment of the tool's output was taken" in done.stdout
    assert set(cluster.replicas(topic, 0)) == {2, 3}
