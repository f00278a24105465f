"""Tests of ``reassigner verify``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.core.model import OutcomeKind, ReassignmentSpec, RequestId, Route, ZkVersion
from controller.core.submissions import RequestOptions
from controller.previews.plan_files import document_of
from controller.znodes.submissions import encode_submission
from tests.cli.builders import REQUEST, FakeCluster, Terminal
from tests.core.builders import replicas, tp

DONE = "Reassignment of partition t-0 is completed."
MOVING = "Reassignment of partition t-1 is still in progress."


@pytest.fixture
def plan(tmp_path: Path) -> str:
    """Return the file of a plan that puts two partitions on 2 and 3."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document_of({tp(0): replicas(2, 3), tp(1): replicas(2, 3)})))
    return str(path)


def test_a_plan_that_is_done(plan: str) -> None:
    """Exit code 0, and the words of Kafka's own tool."""
    cluster = FakeCluster().assign(tp(0), (2, 3)).assign(tp(1), (2, 3))
    result = Terminal(cluster).run("verify", plan)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["Status of partition reassignment:", DONE]


def test_a_plan_under_way(plan: str) -> None:
    """Exit code 2 while an entry waits or moves."""
    cluster = FakeCluster().assign(tp(0), (2, 3)).assign(tp(1), (1, 2))
    cluster.accept(tp(1), (2, 3))
    result = Terminal(cluster).run("verify", plan)
    assert result.exit_code == 2
    assert result.stdout.splitlines()[1:] == [DONE, MOVING]


@pytest.mark.parametrize("adding", [(), (4,)])
def test_a_plan_that_will_not_come_true(plan: str, adding: tuple[int, ...]) -> None:
    """Exit code 1: not at the target, and without a reassignment."""
    cluster = FakeCluster().assign(tp(0), (1, 2, *adding), adding=adding)
    result = Terminal(cluster).run("verify", plan)
    assert result.exit_code == 1
    assert "rather than 2,3." in result.stdout
    assert "There is no partition t-1." in result.stdout


def test_verify_for_programs(plan: str) -> None:
    """Each entry with its state and what the topic znode says."""
    cluster = FakeCluster().assign(tp(0), (2, 3)).assign(tp(1), (2, 3, 1), removing=(1,))
    result = Terminal(cluster).run("verify", plan, "--json")
    assert result.exit_code == 2
    first, second = json.loads(result.stdout)["entries"]
    assert first["state"] == "done"
    assert second == {
        "topic": "t",
        "partition": 1,
        "state": "moving",
        "target_replicas": [2, 3],
        "replicas": [2, 3, 1],
        "adding_replicas": [],
        "removing_replicas": [1],
    }


def submit(cluster: FakeCluster) -> RequestId:
    """Let the plan be a request that was accepted."""
    name = cluster.submit(
        encode_submission({tp(0): replicas(2, 3), tp(1): replicas(2, 3)}, RequestOptions())
    )
    return RequestId(name)


def test_a_plan_that_waits_in_a_request_is_under_way(plan: str) -> None:
    """It is not accepted yet."""
    cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))
    submit(cluster)
    result = Terminal(cluster).run("verify", plan)
    assert result.exit_code == 2
    assert result.stdout.count("is still in progress.") == 2


def test_a_plan_on_its_way_back_is_under_way(plan: str) -> None:
    """It was cancelled, and the words say so."""
    cluster = FakeCluster().assign(tp(0), (2, 3)).assign(tp(1), (1, 2, 3), adding=(3,))
    spec = ReassignmentSpec(
        replicas(1, 2), replicas(1, 2), REQUEST, Route.REQUEST, ZkVersion(1), RequestId("cancel-1")
    )
    cluster.specs[tp(1)] = spec
    result = Terminal(cluster).run("verify", plan)
    assert result.exit_code == 2
    assert "t-1 was cancelled and is still in progress." in result.stdout


def test_a_cancelled_plan_and_a_refused_one_differ(plan: str) -> None:
    """Exit code 4: what is kept of the request says that it was called off."""
    cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))
    request = submit(cluster)
    cluster.take_up()
    cluster.reach(tp(0))
    cluster.call_off(tp(1), OutcomeKind.ROLLED_BACK)
    cluster.conclude(request, done=1)
    result = Terminal(cluster).run("verify", plan)
    assert result.exit_code == 4
    assert "Reassignment of partition t-1 was rolled back." in result.stdout


def test_the_cancellation_of_another_plan_is_none_of_this_one(plan: str) -> None:
    """The same partition, another target: exit code 1."""
    cluster = FakeCluster().assign(tp(0), (2, 3)).assign(tp(1), (1, 2))
    other = cluster.submit(encode_submission({tp(1): replicas(4)}, RequestOptions()))
    cluster.take_up()
    cluster.call_off(tp(1), OutcomeKind.ROLLED_BACK)
    cluster.conclude(RequestId(other))
    assert Terminal(cluster).run("verify", plan).exit_code == 1
