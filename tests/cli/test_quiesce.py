"""Tests of ``quiesce``, and of what it forbids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.model import RequestId, Zxid
from controller.core.pacing.controls import AT_ONCE, Controls, Pause, Pauses, Quiesce
from controller.core.requests.outcomes import Part, RequestHistory, Summary
from controller.core.requests.submissions import RequestOptions
from tests.cli.builders import USER, FakeCluster, Terminal, a_status
from tests.cli.scripted_answers import AT_MS
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder

ONE = RequestId("request_0000000001")
QUIESCE = Quiesce("KRaft", USER, AT_MS)


@pytest.fixture
def terminal() -> Terminal:
    """Return a terminal at a cluster where a partition is reassigned."""
    return Terminal(FakeCluster(snapshot=at_work().build()))


def at_work() -> SnapshotBuilder:
    """Return a cluster where a partition is reassigned."""
    return SnapshotBuilder(1, 2).partition(tp(), (1, 2)).spec(tp(), (2, 1))


def end_work(cluster: FakeCluster) -> None:
    """Let the reassignment end."""
    znodes = replace(cluster.snapshot.znodes, specs={})
    cluster.snapshot = replace(cluster.snapshot, znodes=znodes)


def test_what_is_left_is_said(terminal: Terminal) -> None:
    """With what to do about it, and exit code 2; when nothing is left, 0."""
    result = terminal.run("quiesce", "--reason", "KRaft")
    assert result.exit_code == 2
    since = "the reassigner is quiesced since 2025-06-15 15:06:40Z by ann@desk: KRaft"
    assert result.stdout.splitlines()[:2] == [
        f"{since} (what has begun ends in its own time)",
        "warning: reassignment: t-0: is to be reassigned from 1,2 to 2,1 by legacy-1",
    ]
    assert terminal.cluster.controls.pauses == Pauses(quiesce=QUIESCE)
    end_work(terminal.cluster)
    result = terminal.run("quiesce")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("Ready")
    assert terminal.cluster.controls.pauses == Pauses(quiesce=QUIESCE)


def test_the_deadline_is_a_time_of_day(terminal: Terminal) -> None:
    """A later run changes it."""
    assert "at 2025-06-15 15:36:40Z" in terminal.run("quiesce", "--deadline", "30m").stdout
    found = terminal.cluster.controls.pauses.quiesce
    assert found == Quiesce("", USER, AT_MS, AT_MS + 1_800_000)
    assert "what has begun is rolled back)" in terminal.run("quiesce", "--cancel").stdout
    assert terminal.cluster.controls.pauses.quiesce == replace(found, deadline_ms=AT_ONCE)
    for wrong in (["--deadline", "soon"], ["--deadline", "1h", "--cancel"]):
        assert terminal.run("quiesce", *wrong).exit_code == 1


def test_a_wait_ends_when_nothing_is_left(terminal: Terminal) -> None:
    """It prints what it waits for, once."""
    terminal.steps = [lambda _: None, end_work]
    result = terminal.run("quiesce", "--wait")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == ["left: 1 reassignment"]


def test_a_wait_ends_where_no_daemon_leads(terminal: Terminal) -> None:
    """Nobody would carry it out."""
    terminal.cluster = FakeCluster(snapshot=at_work().with_znodes(daemons=()).build(), leader=None)
    result = terminal.run("quiesce", "--wait")
    assert result.exit_code == 2
    assert "no daemon leads: nobody ends what is left" in result.stdout


def test_an_interrupted_wait_leaves_the_quiesce(terminal: Terminal) -> None:
    """As any command that waits."""
    terminal.steps = [KeyboardInterrupt()]
    result = terminal.run("quiesce", "--wait")
    assert result.exit_code == 2
    assert "the quiesce continues" in result.stderr
    assert terminal.cluster.controls.pauses.quiesce is not None


def test_a_dry_run_writes_nothing(terminal: Terminal) -> None:
    """It says what is left all the same."""
    words = terminal.run("quiesce", "--dry-run", "--requested-by", "ann@desk", "--reason", "KRaft")
    begins = "the reassigner would be quiesced at 2025-06-15 15:06:40Z by ann@desk: KRaft"
    assert words.stdout.startswith(begins)
    result = terminal.run("quiesce", "--dry-run", "--json", "--wait")
    document = json.loads(result.stdout)
    assert (document["dry_run"], document["ready"]) == (True, False)
    assert [f["check"] for f in document["missing"]] == ["reassignment"]
    assert terminal.cluster.controls == Controls()


def test_a_resume_ends_it_with_the_general_pause(terminal: Terminal) -> None:
    """The pause of a broker alone does not."""
    terminal.cluster.controls = Controls(Pauses(everything=Pause("lunch")))
    terminal.run("quiesce", "--reason", "KRaft")
    assert "broker 3 is not paused by itself" in terminal.run("resume", "--broker", "3").stderr
    assert "is quiesced since" in terminal.run("list").stdout
    assert "nothing is paused" in terminal.run("resume").stdout
    assert terminal.cluster.controls.pauses == Pauses()


def test_nothing_is_submitted_meanwhile(terminal: Terminal, tmp_path: Path) -> None:
    """The command says why, and what ends it."""
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}')
    terminal.cluster.assign(tp(), (1, 2))
    terminal.run("quiesce", "--reason", "KRaft")
    for verb in (["execute"], ["queue", "add"]):
        result = terminal.run(*verb, str(plan))
        assert result.exit_code == 3
        why = "the reassigner is quiesced since 2025-06-15 15:06:40Z by ann@desk: KRaft"
        assert f"{why} (`reassigner resume` ends that)" in result.stderr


def test_the_outcomes_of_requests_are_exported(terminal: Terminal, tmp_path: Path) -> None:
    """They end with ZooKeeper; the journal stays, and its position is recorded."""
    end_work(terminal.cluster)
    summary = Summary(request=ONE, kind="request", total=1, done=1, ended_ms=AT_MS)
    part = Part(ONE, 1, AT_MS, RequestOptions(reason="disks"))
    history = RequestHistory(request=ONE, czxid=Zxid(1), parts={ONE: part}, summary=summary)
    terminal.cluster.histories[ONE] = history
    terminal.cluster.statuses = [a_status(journal={"path": "/j/journal.jsonl", "bytes": 5})]
    file = tmp_path / "history.json"
    assert terminal.run("quiesce", "--export", str(file)).exit_code == 0
    document = json.loads(file.read_text())
    assert (document["cluster_id"], document["ready"]) == ("the-cluster", True)
    assert document["journal"] == {"path": "/j/journal.jsonl", "bytes": 5}
    (request,) = document["requests"]
    assert (request["id"], request["summary"]["done"]) == (ONE, 1)
