"""
Moves that the stock tool started, beside the delegated engine on real brokers.

They are reported with their progress and left alone; their effect on ours is a setting; one that is
named in a cancellation goes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import MakeTopic
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon, run_reassigner
from integration.rigs.plans import (
    LEGACY_PLAN,
    Daemons,
    Targets,
    await_end,
    copies_held,
    outcome,
    plan_of,
    what_is_missing,
)
from integration.rigs.servers import BrokerOptions
from integration.rigs.waiting import eventually
from integration.test_engines import CANCEL, await_begun, request_moves


@pytest.fixture(scope="module")
def full_cluster() -> Iterator[Cluster]:
    """Give brokers at their full protocol."""
    options = ClusterOptions(broker=BrokerOptions(inter_broker_protocol=None))
    with Cluster.running(options) as cluster:
        yield cluster


@pytest.fixture
def cluster(full_cluster: Cluster) -> Iterator[Cluster]:
    """Give it with everything up: other fixtures build on it."""
    full_cluster.heal()
    yield full_cluster
    full_cluster.heal()


def started_by_the_tool(cluster: Cluster, targets: Targets, directory: Path) -> None:
    """Start a move as an operator does who knows nothing of us."""
    file = directory / "plan.json"
    file.write_text(json.dumps(plan_of(targets)))
    done = cluster.reassign_partitions("--reassignment-json-file", str(file), "--execute")
    assert done.code == 0, done.stdout
    await_begun(cluster, targets)


def followed(daemon: Daemon) -> dict[str, Any]:
    """Return what the daemon says of the moves of others, once it does."""

    def found() -> dict[str, Any] | None:
        requests = daemon.status()["requests"]
        return next((r for r in requests if r["kind"] == "foreign"), None)

    eventually(lambda: found() is not None, within_s=20, tolerating=(OSError,))
    document = found()
    assert document is not None
    return document


def test_ours_wait_for_a_reassignment_of_the_stock_tool_with_the_reason(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """The default; it is followed to its end, then ours continues."""
    theirs, ours = make_topic({0: (1, 2)}), make_topic({0: (1, 2)})
    foreign: Targets = {(theirs, 0): (3, 4)}
    wanted: Targets = {(ours, 0): (2, 5)}
    daemon = daemons.start()
    with copies_held(cluster, foreign):
        started_by_the_tool(cluster, foreign, tmp_path)
        assert followed(daemon)["partitions"]["in_flight"] == 1
        request_moves(cluster, wanted)
        eventually(lambda: "foreign_moves" in daemon.status()["blocked"], within_s=20)
        moving = next(p for p in daemon.status()["in_flight"] if p["topic"] == theirs)
        assert moving["target_replicas"] == [3, 4]
        assert (moving["state"], moving["blocked_on"]) == ("copying", None)
        assert cluster.replicas(ours, 0) == [1, 2]
    await_end(cluster, {**foreign, **wanted}, within_s=90, any_leader=True)
    eventually(lambda: followed(daemon)["partitions"]["done"] == 1, within_s=10)


def test_ours_run_beside_a_move_of_the_stock_tool(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """With foreign_moves = beside; theirs is never touched."""
    theirs, ours = make_topic({0: (1, 2)}), make_topic({0: (1, 2)})
    foreign: Targets = {(theirs, 0): (3, 4)}
    wanted: Targets = {(ours, 0): (2, 5)}
    daemons.start("--foreign-moves", "beside")
    with copies_held(cluster, foreign):
        started_by_the_tool(cluster, foreign, tmp_path)
        before = cluster.topic(theirs)
        name = request_moves(cluster, wanted)
        eventually(lambda: outcome(cluster, name) is not None, within_s=60)
        assert cluster.topic(theirs) == before
    await_end(cluster, {**foreign, **wanted}, within_s=90, any_leader=True)


def test_what_is_submitted_beside_a_move_of_the_stock_tool_can_be_refused(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """With foreign_moves = refuse the outcome says why."""
    theirs, ours = make_topic({0: (1, 2)}), make_topic({0: (1, 2)})
    foreign: Targets = {(theirs, 0): (3, 4)}
    daemon = daemons.start("--foreign-moves", "refuse")
    with copies_held(cluster, foreign):
        started_by_the_tool(cluster, foreign, tmp_path)
        followed(daemon)
        name = request_moves(cluster, {(ours, 0): (2, 5)})
        eventually(lambda: outcome(cluster, name) is not None, within_s=30)
        (refused,) = (outcome(cluster, name) or {})["refused"]
        assert refused["reason"] == "foreign_move"
    await_end(cluster, foreign, within_s=90, any_leader=True)


def test_a_move_of_the_stock_tool_is_cancelled_where_it_is_named(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """Everything does not include it; named it goes back, and the outcome says so."""
    theirs = make_topic({0: (1, 2)})
    foreign: Targets = {(theirs, 0): (3, 4)}
    daemon = daemons.start()
    with copies_held(cluster, foreign):
        started_by_the_tool(cluster, foreign, tmp_path)
        followed(daemon)
        cluster.zk.create(CANCEL, b"")
        eventually(lambda: cluster.zk.exists(CANCEL) is None, within_s=20)
        assert cluster.replicas(theirs, 0) == [3, 4, 1, 2]
        done = run_reassigner(
            "cancel",
            "--zookeeper",
            cluster.zookeeper_connect,
            "--partition",
            f"{theirs}-0",
            "--yes",
        )
        assert done.code == 0, done.stdout
        await_end(cluster, {(theirs, 0): (1, 2)}, within_s=40)


def test_the_legacy_znode_is_left_to_kafka_and_followed(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons
) -> None:
    """Kafka's controller starts every entry at once; we report them, and do not write the znode."""
    theirs = make_topic({0: (1, 2), 1: (1, 2)})
    foreign: Targets = {(theirs, 0): (3, 4), (theirs, 1): (4, 5)}
    daemon = daemons.start()
    with copies_held(cluster, foreign):
        cluster.zk.create(LEGACY_PLAN, json.dumps(plan_of(foreign)).encode())
        await_begun(cluster, foreign)
        eventually(lambda: followed(daemon)["partitions"]["in_flight"] == 2, within_s=20)
    eventually(
        lambda: not what_is_missing(cluster, foreign, any_leader=True),
        within_s=90,
        what=lambda: "; ".join(what_is_missing(cluster, foreign, any_leader=True)),
    )
    assert cluster.zk.exists(LEGACY_PLAN) is None
