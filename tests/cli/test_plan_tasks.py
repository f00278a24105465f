"""Tests of ``reassigner add``, ``replication`` and ``rebalance``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from controller.core.model import BrokerId
from controller.core.pacing.controls import Controls, Drain, Drains
from controller.core.requests.submissions import RequestOptions, Window
from tests.cli.builders import USER, FakeCluster, Terminal
from tests.core.builders import tp


@pytest.fixture
def cluster() -> FakeCluster:
    """Give four brokers and three partitions on the first three."""
    return FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (2, 3)).assign(tp(2), (3, 1))


def finish(cluster: FakeCluster) -> None:
    """Let every partition reach its target, and the request end."""
    for partition in list(cluster.specs):
        cluster.reach(partition)
    for request, history in cluster.histories.items():
        cluster.conclude(request, done=history.total)


def run(cluster: FakeCluster, *arguments: str, ends: bool = True) -> Any:  # noqa: ANN401 - typer's result
    """Run a verb while the daemon accepts, and carries out what it accepted."""
    steps = [FakeCluster.take_up, finish] if ends else [FakeCluster.take_up]
    return Terminal(cluster, [*steps]).run(*arguments)


WOULD = "each broker would have"
TASKS = {
    "add": (
        ("add", "4"),
        "broker 4 would get its share of 1 replica; it has 0 now",
        "broker 4 has 0 of its share of 1 replica",
        "broker 4 has its share of 1 replica",
    ),
    "replication": (
        ("replication", "t", "3"),
        "3 partitions of t would have 3 replicas; 0 have it now",
        "0 of 3 partitions of t have 3 replicas",
        "3 partitions of t have 3 replicas",
    ),
    "rebalance": (
        ("rebalance",),
        f"{WOULD} 1 to 2 replicas and 0 to 1 preferred leaders; now 0 to 2 and 0 to 1",
        "each broker has 0 to 2 replicas and 0 to 1 preferred leaders so far, of 1 to 2 and 0 to 1",
        "each broker has 1 to 2 replicas and 0 to 1 preferred leaders",
    ),
}


@pytest.mark.parametrize(("command", "planned", "begun", "reached"), TASKS.values(), ids=TASKS)
def test_the_last_line_answers_the_question(
    cluster: FakeCluster, command: Sequence[str], planned: str, begun: str, reached: str
) -> None:
    """In the preview, after acceptance, at the end, and where nothing has to change any more."""
    preview = run(cluster, *command, "--dry-run")
    assert preview.exit_code == 0, preview.stderr
    assert preview.stdout.splitlines()[-2:] == ["Nothing was written.", planned]
    assert not cluster.submitted
    accepted = run(cluster, *command, ends=False)
    assert accepted.exit_code == 0, accepted.stderr
    assert "Accepted as request_" in accepted.stdout
    assert accepted.stdout.splitlines()[-1] == begun
    in_progress = run(cluster, *command, ends=False)
    assert in_progress.exit_code == 2, "what is in progress counts: nothing is planned again"
    assert in_progress.stdout.splitlines() == ["Nothing has to move.", begun]
    finish(cluster)
    again = run(cluster, *command, "--json")
    assert again.exit_code == 0
    document = {"request": None, "result": "done", "answer": reached}
    assert json.loads(again.stdout) == document


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("add", "4"), "add broker 4"),
        (("replication", "t", "3"), "replication factor 3: t"),
        (("rebalance",), "rebalance"),
        (
            ("generate", "t", "--drain", "3", "--spread-racks", "--execute"),
            "drain broker 3, spread racks: t",
        ),
    ],
)
def test_a_request_without_a_reason_has_its_goal(
    cluster: FakeCluster, command: Sequence[str], reason: str
) -> None:
    """Lists would show nothing else of it; the page plans and submits with the same functions."""
    assert run(cluster, *command).exit_code == 0
    (history,) = cluster.histories.values()
    assert history.options.reason == reason


@pytest.mark.parametrize(("command", "reached"), [(t[0], t[3]) for t in TASKS.values()], ids=TASKS)
def test_a_task_takes_what_execute_takes_and_waits(
    cluster: FakeCluster, command: Sequence[str], reached: str
) -> None:
    """The options of the request, the wait, and its document."""
    options = ("--throttle", "5MB", "--window", "22:00-05:00", "--reason", "why", "--priority", "2")
    done = run(cluster, *command, *options, "--wait", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["answer"] == reached
    (history,) = cluster.histories.values()
    assert history.options == RequestOptions(
        reason="why",
        requested_by=USER,
        priority=2,
        throttle=5_000_000,
        window=Window(22 * 60, 5 * 60),
    )
    assert document["request"] == history.request


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (
            ("add", "9"),
            "there is no broker 9: it is not live, and no partition has a replica on it",
        ),
        (("add", "3"), "broker 3 is being drained; `reassigner drain --stop` ends that"),
        (("add", "x"), "Invalid value for 'BROKER': a number, not 'x'"),
        (("replication", "nowhere", "3"), "there is no topic nowhere"),
        (("replication", "t", "5"), "t-0 needs 5 replicas, but only 3 brokers may hold one"),
        (("replication", "t", "0"), "Invalid value for 'N': a number, 1 or more, not 0"),
        (("replication", "t"), "Invalid value for 'N': a number, not 't'"),
        (("add", "-5"), "-5: a value must not be negative"),
        (("rebalance", "nowhere"), "there is no topic nowhere"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    cluster: FakeCluster, command: Sequence[str], problem: str
) -> None:
    """Exit code 1; broker 3 is being drained."""
    drains = Drains(brokers={BrokerId(3): Drain("old", USER, 1)})
    cluster.controls = Controls(drains=drains)
    result = Terminal(cluster).run(*command)
    assert result.exit_code == 1
    assert problem in result.stderr.splitlines()[-1]
    assert not cluster.submitted


def test_a_drained_broker_gets_nothing(cluster: FakeCluster) -> None:
    """It is emptied by the drain, and not filled again."""
    cluster.controls = Controls(drains=Drains(brokers={BrokerId(4): Drain("old", USER, 1)}))
    result = Terminal(cluster).run("rebalance", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "each broker has 2 to 2 replicas" in result.stdout
