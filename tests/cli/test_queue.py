"""Tests of ``reassigner queue``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.core.model import ZkVersion
from controller.core.requests.submissions import LegacyPlan
from controller.previews.plan_files import document_of
from controller.znodes.cancellations import KillSwitch
from tests.cli.builders import REQUEST, FakeCluster, Terminal
from tests.cli.scripted_answers import AT_MS, QUEUE, QUEUE_CZXID
from tests.core.builders import replicas, tp

PLAN = {tp(0): replicas(2, 3), tp(1): replicas(2, 3)}


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return the file of a plan."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document_of(PLAN)))
    return str(path)


@pytest.fixture
def cluster() -> FakeCluster:
    """Return a cluster with the partitions of the plan."""
    return FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))


def test_a_plan_is_queued(cluster: FakeCluster, file: str) -> None:
    """Under the name that its znode's identity gives it."""
    result = Terminal(cluster).run("queue", "add", file)
    assert result.exit_code == 0
    assert f"Queued as {QUEUE}: t-0, t-1" in result.stdout
    assert cluster.queue is not None
    assert cluster.queue.entries == PLAN


def test_directories_are_queued_with_their_entries(cluster: FakeCluster, tmp_path: Path) -> None:
    """And listed again."""
    path = tmp_path / "placed.json"
    entry = {"topic": "t", "partition": 0, "replicas": [2, 3], "log_dirs": ["/a", "any"]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    assert Terminal(cluster).run("queue", "add", str(path)).exit_code == 0
    listed = json.loads(Terminal(cluster).run("queue", "list", "--json").stdout)
    assert listed["partitions"] == [entry]


def test_while_a_queue_exists_no_other_is_written(cluster: FakeCluster, file: str) -> None:
    """Exit code 3."""
    cluster.create_queue({tp(7): replicas(1)})
    result = Terminal(cluster).run("queue", "add", file)
    assert result.exit_code == 3
    assert "exists already" in result.stderr
    assert cluster.queue is not None
    assert list(cluster.queue.entries) == [tp(7)]


def test_while_new_work_is_disabled_nothing_is_queued(cluster: FakeCluster, file: str) -> None:
    """Exit code 3."""
    cluster.switch = KillSwitch(since_ms=AT_MS)
    assert Terminal(cluster).run("queue", "add", file).exit_code == 3
    assert cluster.queue is None


def test_dry_run_queues_nothing(cluster: FakeCluster, file: str) -> None:
    """It shows what would change, and what would be refused."""
    cluster.brokers = frozenset({1, 2})
    result = Terminal(cluster).run("queue", "add", file, "--dry-run")
    assert result.exit_code == 3
    assert "t-0: 1,2 -> 2,3 (adds 3, drops 1)" in result.stdout
    assert "t-0 would be refused: broker 3 is not live" in result.stdout
    assert cluster.queue is None


def test_partitions_already_in_flight_are_listed_before_they_are_queued(
    cluster: FakeCluster, file: str
) -> None:
    """By any route; an operator who queues it all the same is warned again."""
    cluster.accept(tp(0), (1, 4), (1, 2))
    warning = f"would supersede 1 partition of request {REQUEST}: t-0"
    preview = Terminal(cluster).run("queue", "add", file, "--dry-run")
    assert preview.exit_code == 0
    assert warning in preview.stdout.splitlines()
    document = json.loads(Terminal(cluster).run("queue", "add", file, "--dry-run", "--json").stdout)
    assert document["conflicts"] == [
        {"request": REQUEST, "would": "supersede", "partitions": ["t-0"]}
    ]
    assert cluster.queue is None
    assert f"Note: {warning}" in Terminal(cluster).run("queue", "add", file).stderr.splitlines()


def test_the_queue_is_listed(cluster: FakeCluster) -> None:
    """Exit code 2 while something waits."""
    assert Terminal(cluster).run("queue", "list").exit_code == 0
    cluster.create_queue(PLAN)
    result = Terminal(cluster).run("queue", "list")
    assert result.exit_code == 2
    assert "t-0 -> 2,3" in result.stdout.splitlines()
    document = json.loads(Terminal(cluster).run("queue", "list", "--json").stdout)
    assert document["request"] == QUEUE
    assert len(document["partitions"]) == 2


def test_a_malformed_queue_is_reported_and_can_be_cleared(cluster: FakeCluster) -> None:
    """It was written by hand."""
    cluster.queue = LegacyPlan({}, ZkVersion(0), QUEUE_CZXID, unreadable="not JSON")
    assert "not JSON" in Terminal(cluster).run("queue", "list").stdout
    assert Terminal(cluster).run("queue", "clear").exit_code == 0
    assert cluster.queue is None


def test_entries_are_taken_out_before_they_start(cluster: FakeCluster) -> None:
    """What is not in it has started, or never was: exit code 3."""
    cluster.create_queue(PLAN)
    result = Terminal(cluster).run("queue", "remove", "t-0")
    assert result.exit_code == 0
    assert "Removed from the queue: t-0" in result.stdout
    result = Terminal(cluster).run("queue", "remove", "t-0", "t-1", "--json")
    assert result.exit_code == 3
    document = {"dry_run": False, "removed": ["t-1"], "not_queued": ["t-0"]}
    assert json.loads(result.stdout) == document
    assert cluster.queue is None


def test_the_queue_is_cleared(cluster: FakeCluster) -> None:
    """A second time says so."""
    cluster.create_queue(PLAN)
    assert "t-0, t-1" in Terminal(cluster).run("queue", "clear").stdout
    assert "empty already" in Terminal(cluster).run("queue", "clear").stdout


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--execute-queue", "--reassignment-json-file", "x.json"),
        ("add",),
        ("remove",),
        ("remove", "t"),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_one_line(cluster: FakeCluster, args: tuple[str, ...]) -> None:
    """Exit code 1."""
    result = Terminal(cluster).run("queue", *args)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
