"""Tests of ``reassigner doctor``."""

from __future__ import annotations

import json

from controller.cli.doctor import EACH_MAX
from tests.cli.builders import FakeCluster, Terminal, a_status
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder


def a_terminal(built: SnapshotBuilder) -> Terminal:
    """Return a terminal at a cluster whose daemon answers."""
    return Terminal(FakeCluster(snapshot=built.build(), statuses=[a_status()]))


def test_a_sound_cluster_ends_with_zero() -> None:
    """One line, and nothing to do."""
    result = a_terminal(SnapshotBuilder(1)).run("doctor")
    assert result.exit_code == 0
    assert result.stdout == "0 critical, 0 warning, 0 info\n"


def test_a_remark_alone_is_no_reason_to_alarm() -> None:
    """A standby is as it should be."""
    result = a_terminal(SnapshotBuilder(1).with_znodes(daemons=("a:1", "b:1"))).run("doctor")
    assert result.exit_code == 0
    assert "info: several_daemons: /reassigner/leader: 2 daemons run: a:1, b:1" in result.stdout


def test_findings_end_with_two_and_say_what_to_do() -> None:
    """Scripts see that somebody should look."""
    result = a_terminal(SnapshotBuilder(1).with_znodes(kill_switch=True)).run("doctor")
    assert result.exit_code == 2
    what = "it exists: somebody wants no partition to start"
    assert result.stdout.splitlines() == [
        f"warning: kill_switch: /admin/reassign_cancel: {what}",
        "  what to do: delete it when reassignments may begin again",
        "0 critical, 1 warning, 0 info",
    ]


def test_many_findings_of_one_kind_are_cut_and_counted() -> None:
    """A broker with ten thousand stray directories does not fill the terminal."""
    built = SnapshotBuilder(1).disk(1, [tp(n) for n in range(EACH_MAX + 3)])
    result = a_terminal(built).run("doctor")
    lines = result.stdout.splitlines()
    assert sum(line.startswith("warning: stray_log") for line in lines) == EACH_MAX
    assert "  and 3 more like this (all with --json)" in lines
    document = json.loads(a_terminal(built).run("doctor", "--json").stdout)
    assert len(document["findings"]) == EACH_MAX + 3
    assert document["counts"] == {"critical": 0, "warning": EACH_MAX + 3, "info": 0}
    assert set(document["findings"][0]) == {"check", "severity", "subject", "evidence", "advice"}


def test_a_leader_that_does_not_answer_is_found() -> None:
    """It is asked, as `status` asks it."""
    terminal = Terminal(FakeCluster())
    result = terminal.run("doctor")
    assert result.exit_code == 2
    assert terminal.asked == ["daemon:8095"]
    assert "warning: silent_daemon: daemon:8095: " in result.stdout


def test_out_of_reach_is_an_error() -> None:
    """Not a finding: nothing was looked at."""
    terminal = a_terminal(SnapshotBuilder(1))
    terminal.unreachable = True
    result = terminal.run("doctor")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr
