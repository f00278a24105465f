"""Tests of ``reassigner verify``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.core.model import OutcomeKind, ReassignmentSpec, RequestId, Route, ZkVersion, Zxid
from controller.core.requests.outcomes import RequestHistory
from controller.core.requests.submissions import AcceptedEntry, RequestOptions
from controller.previews.plan_files import document_of
from controller.znodes.plans import encode_submission
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


def test_an_entry_between_two_steps_does_not_wait(plan: str) -> None:
    """Its first step was made; the other one has not begun."""
    cluster = FakeCluster().assign(tp(0), (1, 2, 3)).assign(tp(1), (1, 2))
    for number in (0, 1):
        cluster.accept(tp(number), (2, 3), (1, 2))
    result = Terminal(cluster).run("verify", plan, "--json")
    states = [entry["state"] for entry in json.loads(result.stdout)["entries"]]
    assert states == ["moving", "accepted"]


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


def completed() -> tuple[FakeCluster, RequestId]:
    """Return a cluster with a request that was completed."""
    cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))
    request = submit(cluster)
    cluster.take_up()
    for number in (0, 1):
        cluster.reach(tp(number))
    cluster.conclude(request, done=2)
    return cluster, request


CANCEL = RequestId("cancel-00000000000000ff")


def undo(cluster: FakeCluster, *partitions: int, is_over: bool) -> None:
    """Let a cancellation of scope all move partitions back."""
    cluster.histories[CANCEL] = RequestHistory(request=CANCEL, czxid=Zxid(255))
    for number in partitions:
        entry = AcceptedEntry(tp(number), replicas(2, 3), replicas(1, 2))
        cluster.accepted.setdefault(CANCEL, []).append(entry)
        if is_over:
            cluster.assign(tp(number), (1, 2))
        else:
            cluster.assign(tp(number), (1, 2, 3), adding=(1,))
            cluster.specs[tp(number)] = ReassignmentSpec(
                replicas(1, 2), replicas(2, 3), CANCEL, Route.REQUEST, ZkVersion(0)
            )


def test_a_request_that_stands_is_done() -> None:
    """Exit code 0: the cluster has what it asked for."""
    cluster, request = completed()
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 0
    assert f"{request}: 2 of 2 done" in result.stdout


def test_a_request_that_was_undone_since_is_not_completed() -> None:
    """Exit code 4; what the cluster has now is said, and by which cancellation."""
    cluster, request = completed()
    undo(cluster, 0, is_over=True)
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 4
    assert (
        f"t-0 was completed, and was undone since by {CANCEL}: its replicas are 1,2 rather than 2,3"
        in result.stdout
    )
    assert "Reassignment of partition t-1 is completed." in result.stdout
    assert f"{request}: 1 of 2 done, 1 undone" in result.stdout
    document = json.loads(Terminal(cluster).run("verify", request, "--json").stdout)
    assert document["changed_since"] == [{"partition": "t-0", "by": CANCEL, "in_progress": False}]
    assert (document["partitions"]["done"], document["partitions"]["undone"]) == (1, 1)
    assert document["entries"][0]["state"] == "undone"


def test_a_request_that_is_being_undone_is_in_progress() -> None:
    """Exit code 2 until it has ended."""
    cluster, request = completed()
    undo(cluster, 0, 1, is_over=False)
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 2
    assert f"t-1 was completed, and is being undone by {CANCEL}" in result.stdout
    assert "0 of 2 done, 2 rolling back" in result.stdout


def test_a_request_that_was_superseded_since_names_the_later_one() -> None:
    """Exit code 3, as where it is superseded before its end."""
    cluster, request = completed()
    other = cluster.submit(encode_submission({tp(1): replicas(4, 3)}, RequestOptions()))
    cluster.take_up()
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 0, "it has not begun"
    cluster.assign(tp(1), (2, 3, 4), adding=(4,))
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 3
    assert f"t-1 was completed, and is being reassigned by {other}" in result.stdout
    cluster.reach(tp(1))
    cluster.conclude(RequestId(other), done=1)
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 3
    assert f"was reassigned since by {other}: its replicas are 4,3 rather than 2,3" in result.stdout


def test_a_request_that_another_client_changed_is_neither_done_nor_in_progress() -> None:
    """Exit code 1, as for a plan; so is a partition that was deleted."""
    cluster, request = completed()
    undo(cluster, 0, is_over=True)
    cluster.assign(tp(0), (4, 1))
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 1
    assert "t-0 was completed, and was changed since by another client" in result.stdout
    cluster, request = completed()
    cluster.topics.clear()
    result = Terminal(cluster).run("verify", request)
    assert result.exit_code == 1
    assert "t-0 was completed, and does not exist any more" in result.stdout


def test_the_cancellation_of_another_plan_is_none_of_this_one(plan: str) -> None:
    """The same partition, another target: exit code 1."""
    cluster = FakeCluster().assign(tp(0), (2, 3)).assign(tp(1), (1, 2))
    other = cluster.submit(encode_submission({tp(1): replicas(4)}, RequestOptions()))
    cluster.take_up()
    cluster.call_off(tp(1), OutcomeKind.ROLLED_BACK)
    cluster.conclude(RequestId(other))
    assert Terminal(cluster).run("verify", plan).exit_code == 1
