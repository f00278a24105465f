"""Tests of ``reassigner execute --legacy``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.core.model import Refusal, RefusalReason, TopicPartition
from controller.core.requests.outcomes import Summary
from controller.previews.plan_files import document_of
from tests.cli.builders import (
    REQUEST,
    FakeCluster,
    Step,
    Terminal,
    a_partition,
    a_request,
    a_status,
)
from tests.core.builders import replicas, tp


class Scene:
    """A cluster of two partitions, a plan for both, and a terminal."""

    def __init__(self, directory: Path) -> None:
        """Both partitions are on 1 and 2, and shall be on 2 and 3."""
        self.cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))
        self.terminal = Terminal(self.cluster)
        self.path = directory / "plan.json"
        self.write({tp(0): (2, 3), tp(1): (2, 3)})

    def write(self, entries: dict[TopicPartition, Sequence[int]]) -> None:
        """Write the plan's file."""
        plan = {p: replicas(*r) for p, r in entries.items()}
        self.path.write_text(json.dumps(document_of(plan)))

    def execute(self, *options: str) -> Any:  # noqa: ANN401 - typer's result
        """Run the verb."""
        return self.terminal.run("execute", str(self.path), "--legacy", *options)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a scene with the plan in this test's directory."""
    return Scene(tmp_path)


def accept_both(cluster: FakeCluster) -> None:
    """Let the daemon accept both entries."""
    for number in (0, 1):
        cluster.accept(tp(number), (2, 3), original=(1, 2))


def finish_both(cluster: FakeCluster) -> None:
    """Let both entries end."""
    for number in (0, 1):
        cluster.finish(tp(number), (2, 3))


def test_it_ends_when_every_entry_is_accepted(scene: Scene) -> None:
    """Exit code 0, and the request by its name."""
    scene.terminal.steps = [accept_both]
    result = scene.execute()
    assert result.exit_code == 0
    assert f"Accepted as {REQUEST}: t-0, t-1" in result.stdout


def test_it_prints_the_way_back(scene: Scene, tmp_path: Path) -> None:
    """The present assignment, as a plan that can be executed."""
    scene.terminal.steps = [accept_both]
    printed = scene.execute().stdout
    begin, end = printed.index("{"), printed.rindex("}") + 1
    (tmp_path / "back.json").write_text(printed[begin:end])
    back = json.loads(printed[begin:end])
    assert [e["replicas"] for e in back["partitions"]] == [[1, 2], [1, 2]]


def test_entries_at_their_target_are_done(scene: Scene) -> None:
    """Kafka's own controller, or the daemon, was faster than we looked."""
    scene.terminal.steps = [finish_both]
    result = scene.execute()
    assert result.exit_code == 0
    assert "Done: t-0, t-1" in result.stdout


def test_a_plan_in_the_way_refuses(scene: Scene) -> None:
    """Exit code 3, one line, and nothing is written."""
    scene.cluster.create_plan({tp(7): replicas(1)})
    result = scene.execute()
    assert result.exit_code == 3
    assert len(result.stderr.splitlines()) == 1
    assert "--additional" in result.stderr
    assert scene.cluster.plan is not None
    assert list(scene.cluster.plan.entries) == [tp(7)]


def test_additional_adds_to_the_plan(scene: Scene) -> None:
    """What was there stays."""
    scene.cluster.create_plan({tp(7): replicas(1)})
    seen: list[list[TopicPartition]] = []

    def note(cluster: FakeCluster) -> None:
        assert cluster.plan is not None
        seen.append(list(cluster.plan.entries))
        accept_both(cluster)

    scene.terminal.steps = [note]
    assert scene.execute("--additional").exit_code == 0
    assert seen == [[tp(7), tp(0), tp(1)]]


def test_refused_entries_are_listed_with_the_reason_of_the_outcome(scene: Scene) -> None:
    """Exit code 3; the valid entry continues."""

    def judge(cluster: FakeCluster) -> None:
        cluster.accept(tp(0), (2, 3))
        cluster.take_out(tp(1))
        reason, detail = RefusalReason.UNKNOWN_BROKER, "broker 3 is not live"
        refused = Refusal(REQUEST, "t-1 -> [2,3]", reason, detail)
        cluster.outcomes[REQUEST] = Summary(
            request=REQUEST, kind="legacy", total=1, done=0, refused=(refused,)
        )

    scene.terminal.steps = [judge]
    result = scene.execute()
    assert result.exit_code == 3
    assert "t-1 -> [2,3] was refused: broker 3 is not live" in result.stdout
    assert f"Accepted as {REQUEST}: t-0" in result.stdout


def test_refused_entries_of_a_running_request_are_explained_by_the_daemon(scene: Scene) -> None:
    """The outcome is written only when the whole request has ended."""

    def judge(cluster: FakeCluster) -> None:
        cluster.accept(tp(0), (2, 3))
        cluster.take_out(tp(1))
        request = a_request(refused=1)
        request["refusals"] = [{"entry": "t-1 -> [2,3]", "reason": "x", "detail": "no such topic"}]
        cluster.statuses = [a_status(requests=[request])]

    scene.terminal.steps = [judge]
    result = scene.execute()
    assert result.exit_code == 3
    assert "was refused: no such topic" in result.stdout


def test_without_a_leader_it_says_so_and_ends(scene: Scene) -> None:
    """Exit code 2: the plan is submitted and not accepted yet."""
    scene.cluster.leader = None
    result = scene.execute()
    assert result.exit_code == 2
    assert "No reassigner leads" in result.stderr
    assert "no reassigner leads; the next leader takes it up" in result.stderr
    assert scene.terminal.at < 60


def test_a_leader_that_comes_in_time_is_waited_for(scene: Scene) -> None:
    """A standby needs a moment to take over."""
    scene.cluster.leader = None

    def elect(cluster: FakeCluster) -> None:
        cluster.leader = "daemon:8095"

    waiting: list[Step | BaseException] = [lambda _: None] * 30
    scene.terminal.steps = [*waiting, elect, accept_both]
    assert scene.execute().exit_code == 0


def test_it_does_not_wait_longer_than_requested(scene: Scene) -> None:
    """Exit code 2 with the time that was given."""
    result = scene.execute("--timeout", "3")
    assert result.exit_code == 2
    assert "not within 3 s" in result.stderr
    assert 3 <= scene.terminal.at < 4


def test_wait_follows_to_the_end(scene: Scene) -> None:
    """A line for each change, plain where there is no terminal."""
    moving = a_status(in_flight=[a_partition(), a_partition(topic="other", request="legacy-1")])
    scene.cluster.statuses = [moving]

    def move(cluster: FakeCluster) -> None:
        cluster.assign(tp(0), (2, 3, 1), adding=(3,), removing=(1,))

    def finish_one(cluster: FakeCluster) -> None:
        cluster.finish(tp(0), (2, 3))

    scene.terminal.steps = [accept_both, move, finish_one, finish_both]
    result = scene.execute("--wait")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "0 of 2 done, 2 waiting" in lines
    assert "0 of 2 done, 1 moving, 1 waiting" in lines
    assert "1 of 2 done, 1 waiting" in lines
    assert "2 of 2 done" in lines
    assert any(line.startswith("t-0: copying, step 1 of 3") for line in lines)
    assert not any(line.startswith("other-0") for line in lines)
    assert lines[-1] == "Done: t-0, t-1"


def test_wait_draws_bars_on_a_terminal(scene: Scene) -> None:
    """The same numbers, drawn."""
    scene.terminal.is_terminal = True
    scene.cluster.statuses = [a_status(in_flight=[a_partition()])]
    scene.terminal.steps = [accept_both, finish_both]
    result = scene.execute("--wait")
    assert result.exit_code == 0
    assert "2 of 2 done" in result.stdout


def test_an_interrupt_leaves_the_move_running(scene: Scene) -> None:
    """Where things stand, exit code 2, and nothing is undone."""
    scene.terminal.steps = [accept_both, KeyboardInterrupt()]
    result = scene.execute("--wait")
    assert result.exit_code == 2
    assert "the reassignment continues: 0 of 2 done, 2 waiting" in result.stderr
    assert set(scene.cluster.specs) == {tp(0), tp(1)}


def test_an_interrupt_while_waiting_for_acceptance_is_no_different(scene: Scene) -> None:
    """The plan stays where it was written."""
    scene.terminal.steps = [KeyboardInterrupt()]
    result = scene.execute()
    assert result.exit_code == 2
    assert scene.cluster.plan is not None


def test_dry_run_shows_the_changes_and_writes_nothing(scene: Scene) -> None:
    """What is added and dropped, by partition."""
    scene.cluster.assign(tp(1), (2, 3))
    result = scene.execute("--dry-run")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:2] == ["t-0: 1,2 -> 2,3 (adds 3, drops 1)", "t-1: is at 2,3 already"]
    assert lines[-1] == "Nothing was written."
    assert scene.cluster.plan is None


def test_dry_run_finds_what_would_be_refused(scene: Scene) -> None:
    """Unknown partitions and brokers that are not live: exit code 3."""
    scene.write({tp(0): (2, 9), tp(5): (1, 2), tp(1): (2, 1)})
    result = scene.execute("--dry-run")
    assert result.exit_code == 3
    assert "t-0 would be refused: broker 9 is not live" in result.stdout
    assert "t-5 would be refused: the partition does not exist" in result.stdout
    assert "t-1: 1,2 -> 2,1 (changes the order)" in result.stdout


def test_dry_run_for_programs(scene: Scene) -> None:
    """One document with entries and problems."""
    scene.write({tp(5): (1, 2)})
    result = scene.execute("--dry-run", "--json")
    document = json.loads(result.stdout)
    assert document["problems"] == [{"partition": "t-5", "detail": "the partition does not exist"}]


def test_json_is_one_document(scene: Scene) -> None:
    """Request, result, entries, refusals and the way back."""
    scene.terminal.steps = [accept_both, finish_both]
    result = scene.execute("--json", "--wait")
    document = json.loads(result.stdout)
    assert document["request"] == REQUEST
    assert document["result"] == "done"
    assert [e["state"] for e in document["entries"]] == ["done", "done"]
    assert document["refused"] == []
    assert [e["replicas"] for e in document["rollback"]["partitions"]] == [[1, 2], [1, 2]]


def test_an_invalid_file_is_not_submitted(scene: Scene) -> None:
    """Exit code 1, before anything connects."""
    scene.path.write_text("{}")
    scene.terminal.unreachable = True
    result = scene.execute()
    assert result.exit_code == 1
    assert "plan.json" in result.stderr
    assert scene.cluster.plan is None
