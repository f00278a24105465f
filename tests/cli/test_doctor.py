"""Tests of ``reassigner doctor``."""

from __future__ import annotations

import json
from pathlib import Path

from controller.cli.findings_text import EACH_MAX
from controller.core.model import ZkVersion
from controller.core.pacing.throttle_settings import (
    FOLLOWER_RATE,
    LEADER_RATE,
    AppliedThrottle,
    Entity,
)
from controller.errors import TokenNeededError
from tests.cli.builders import FakeCluster, Terminal, a_status
from tests.core.builders import tp
from tests.doctor.builders import SnapshotBuilder
from tests.doctor.test_journal_checks import ENDED


def a_terminal(built: SnapshotBuilder) -> Terminal:
    """Return a terminal at a cluster whose daemon answers, and serves clients as recommended."""
    terminal = Terminal(FakeCluster(snapshot=built.build(), statuses=[a_status()]))
    terminal.environ["REASSIGNER_CONTROLLER_ENDPOINT"] = "public"
    terminal.environ["REASSIGNER_ENDPOINT_LISTEN"] = "127.0.0.1:9095"
    return terminal


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
    """Scripts see by the exit code that there are findings."""
    result = a_terminal(SnapshotBuilder(1).with_znodes(kill_switch=True)).run("doctor")
    assert result.exit_code == 2
    what = "it exists: new requests are refused, and accepted entries do not start"
    assert result.stdout.splitlines() == [
        f"warning: kill_switch: /admin/reassign_cancel: {what}",
        "  what to do: run `reassigner enable` when reassignments may start again",
        "0 critical, 1 warning, 0 info",
    ]


def test_a_journal_is_checked(tmp_path: Path) -> None:
    """The oldest file comes first; a directory without a journal is an error."""
    for number, epoch in (("", 4), (".1", 5), (".10", 3)):
        step = {**ENDED, "leader_epoch": epoch}
        (tmp_path / f"journal.jsonl{number}").write_text(f"{json.dumps(step)}\n")
    terminal = a_terminal(SnapshotBuilder(1))
    result = terminal.run("doctor", "--journal", str(tmp_path))
    assert result.exit_code == 2
    fell = "2026-01-02T03:04:05.000Z: the leader epoch fell from 5 to 4"
    assert f"critical: journal: t-0: {fell}" in result.stdout
    assert f"info: journal_checked: {tmp_path}: 3 changes of phase" in result.stdout
    missing = terminal.run("doctor", "--journal", str(tmp_path / "nowhere"))
    assert (missing.exit_code, "no journal.jsonl" in missing.stderr) == (1, True)


def test_many_findings_of_one_kind_are_cut_and_counted() -> None:
    """A broker with ten thousand stray directories does not fill the terminal."""
    built = SnapshotBuilder(1).disk(1, [tp(n) for n in range(EACH_MAX + 3)])
    result = a_terminal(built).run("doctor")
    lines = result.stdout.splitlines()
    assert sum(line.startswith("warning: stray_log") for line in lines) == EACH_MAX
    assert "  and 3 more like this (all with --all-rows)" in lines
    document = json.loads(a_terminal(built).run("doctor", "--json").stdout)
    assert len(document["findings"]) == EACH_MAX + 3
    assert document["counts"] == {"critical": 0, "warning": EACH_MAX + 3, "info": 0}
    assert set(document["findings"][0]) == {"check", "severity", "subject", "evidence", "advice"}


def test_a_leader_that_does_not_answer_is_found() -> None:
    """It is asked, as `status` asks it."""
    terminal = Terminal(FakeCluster())
    result = terminal.run("doctor")
    assert result.exit_code == 2
    assert terminal.requested == ["daemon:8095"]
    assert "warning: silent_daemon: daemon:8095: " in result.stdout


def test_a_missing_token_is_said_to_be_one() -> None:
    """The daemon lives; its log has nothing of it."""
    terminal = Terminal(FakeCluster())
    terminal.problem = TokenNeededError("http://daemon:8095/status answers 401 without a token")
    result = terminal.run("doctor")
    assert "warning: silent_daemon: daemon:8095: " in result.stdout
    assert "answers 401 without a token" in result.stdout
    assert "set http_token or REASSIGNER_HTTP_TOKEN" in result.stdout


def test_a_leader_that_brokers_refuse_is_found() -> None:
    """Its status says what only the holder of the role can find out."""
    status = {**a_status(), "refused_because": ["3 of 3 live brokers refuse"]}
    built = SnapshotBuilder(1)
    result = Terminal(FakeCluster(snapshot=built.build(), statuses=[status])).run("doctor")
    assert result.exit_code == 2
    assert "critical: daemon_refused: " in result.stdout


def test_out_of_reach_is_an_error() -> None:
    """Not a finding: nothing was looked at."""
    terminal = a_terminal(SnapshotBuilder(1))
    terminal.unreachable = True
    result = terminal.run("doctor")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr


BROKER = Entity("brokers/4")
LEASE = AppliedThrottle(
    BROKER,
    {LEADER_RATE: "7", FOLLOWER_RATE: "7"},
    {LEADER_RATE: "9", FOLLOWER_RATE: None},
    ZkVersion(2),
)


def with_orphan_throttle(**parts: object) -> Terminal:
    """Return a terminal at a cluster where a daemon left a throttle behind."""
    return a_terminal(
        SnapshotBuilder(1).with_znodes(applied_throttles={BROKER: LEASE}, daemons=(), **parts)
    )


def test_without_the_option_nothing_is_fixed() -> None:
    """The advice names the option."""
    terminal = with_orphan_throttle()
    result = terminal.run("doctor")
    assert result.exit_code == 2
    assert "reassigner doctor --fix" in result.stdout
    assert terminal.cluster.lifted == []


def test_fix_lifts_throttles_that_were_left_behind_and_says_so() -> None:
    """Exit code 0, as nothing is wrong any more."""
    terminal = with_orphan_throttle()
    result = terminal.run("doctor", "--fix")
    assert (
        f"removed the throttle of {BROKER}, {LEADER_RATE} is 9, {FOLLOWER_RATE} is deleted"
        in result.stdout.splitlines()
    )
    assert terminal.cluster.lifted == [BROKER]
    assert result.exit_code == 0
    document = json.loads(with_orphan_throttle().run("doctor", "--fix", "--json").stdout)
    assert [(m["entity"], m["is_done"]) for m in document["fixed"]] == [(BROKER, True)]
    assert document["dry_run"] is False


def test_fix_touches_nothing_else() -> None:
    """Every other finding stays, and stays a reason to look."""
    terminal = with_orphan_throttle(kill_switch=True)
    assert terminal.run("doctor", "--fix").exit_code == 2
    assert terminal.cluster.lifted == [BROKER]


def test_dry_run_lists_what_would_be_fixed() -> None:
    """And needs --fix, without which nothing is changed anyway."""
    terminal = with_orphan_throttle()
    result = terminal.run("doctor", "--fix", "--dry-run")
    assert f"would remove the throttle of {BROKER}" in result.stdout.splitlines()
    assert (result.exit_code, terminal.cluster.lifted) == (2, [])
    wrong = terminal.run("doctor", "--dry-run")
    assert (wrong.exit_code, len(wrong.stderr.splitlines())) == (1, 1)


def test_where_a_daemon_leads_nothing_is_fixed() -> None:
    """It lifts what it set itself, and may need it again at any moment."""
    terminal = a_terminal(SnapshotBuilder(1).with_znodes(applied_throttles={BROKER: LEASE}))
    result = terminal.run("doctor", "--fix")
    assert "Nothing was fixed: a daemon leads" in result.stdout
    assert (result.exit_code, terminal.cluster.lifted) == (0, [])
    sound = a_terminal(SnapshotBuilder(1).with_znodes(daemons=())).run("doctor", "--fix")
    assert "Nothing was fixed: no throttle" in sound.stdout


def test_what_changed_meanwhile_is_left_alone() -> None:
    """Exit code 2: it is still there."""
    terminal = with_orphan_throttle()
    terminal.cluster.others_are_faster = True
    result = terminal.run("doctor", "--fix")
    assert f"left alone, because it has just changed: {BROKER}" in result.stdout.splitlines()
    assert result.exit_code == 2


def test_what_is_hidden_is_reported_and_the_other_checks_are_made() -> None:
    """Before, the first znode that may not be read ended it."""
    built = SnapshotBuilder(1).with_znodes(kill_switch=True, hidden=frozenset({"/admin/x"}))
    result = a_terminal(built).run("doctor")
    assert result.exit_code == 2
    assert "warning: hidden: /admin/x: ZooKeeper does not let us read it" in result.stdout
    assert "warning: kill_switch" in result.stdout


def test_a_broker_the_daemon_cannot_reach_is_found() -> None:
    """The daemon says so in its status."""
    terminal = a_terminal(SnapshotBuilder(1, 2))
    terminal.cluster.statuses = [a_status(unreachable_brokers={"2": "b2:9092: refused"})]
    result = terminal.run("doctor")
    assert result.exit_code == 2
    assert "critical: unreachable_broker: broker 2: it is registered" in result.stdout


def test_nothing_is_fixed_where_something_is_hidden_that_may_need_it() -> None:
    """A record that may not be read may be the one that the throttle is for."""
    lease = AppliedThrottle(
        Entity("brokers/1"), {LEADER_RATE: "1"}, {LEADER_RATE: None}, ZkVersion(0)
    )
    built = SnapshotBuilder(1).with_znodes(daemons=(), applied_throttles={lease.entity: lease})
    assert "would remove" in a_terminal(built).run("doctor", "--fix", "--dry-run").stdout
    built.with_znodes(hidden=frozenset({"/admin/reassignments/t"}))
    terminal = a_terminal(built)
    result = terminal.run("doctor", "--fix")
    assert terminal.cluster.lifted == []
    assert "znodes that may not be read may need the throttles" in result.stdout


def retiring(**parts: object) -> Terminal:
    """Return a terminal at a cluster on which a daemon died in a throttled step."""
    built = SnapshotBuilder(1, 2, 3, 4).partition(tp(), (1, 2, 3), adding=(3,))
    built.spec(tp(), (3, 4))
    made = {"applied_throttles": {BROKER: LEASE}, "daemons": (), "submitted": ("/admin/x",)}
    return a_terminal(built.with_znodes(**{**made, **parts}))


def test_what_a_daemon_left_is_listed_while_none_leads() -> None:
    """Throttles, records and submissions; the advice names the way out."""
    result = retiring(controls=("/reassigner/control/limits",)).run("doctor")
    assert result.exit_code == 2
    for line in (
        "warning: record_left: /admin/reassignments/t/0: to 3,4 by legacy-1, and no daemon leads; ",
        "; the cluster's controller ends the step to 1,2,3 that its topic znode contains\n",
        "warning: submission_left: /admin/x: no daemon leads that would read it\n",
        "warning: throttle_left: brokers/4: a daemon set follower.replication.throttled.rate, ",
        "info: control_left: /reassigner/control/limits: no daemon leads that obeys it\n",
        "start a daemon; if none will run here again: reassigner doctor --fix --no-daemon\n",
    ):
        assert line in result.stdout
    with_daemon = retiring(daemons=("daemon:8095",), applied_throttles={}).run("doctor")
    assert "_left" not in with_daemon.stdout


def test_no_daemon_restores_and_deletes_everything() -> None:
    """What ends with the records is no finding any more; the step in flight is named."""
    terminal = retiring()
    result = terminal.run("doctor", "--fix", "--no-daemon")
    assert terminal.cluster.lifted == [BROKER]
    lines = result.stdout.splitlines()
    assert lines[-3:] == [
        f"removed the throttle of {BROKER}, {LEADER_RATE} is 9, {FOLLOWER_RATE} is deleted",
        "deleted 2 znodes: /admin/reassignments",
        "t-0: the cluster's controller ends the step to 1,2,3, unthrottled; its target was 3,4",
    ]
    foreign = retiring(unreadable={"/brokers/ids/9": "not JSON"})
    assert foreign.run("doctor", "--fix", "--no-daemon").exit_code == 2
    ours = retiring(unreadable={"/admin/reassignments/t/7": "not JSON"})
    assert ours.run("doctor", "--fix", "--no-daemon").exit_code == result.exit_code


def test_records_that_have_to_stay_are_a_finding() -> None:
    """The line begins with what stays."""
    terminal = retiring()
    terminal.cluster.others_are_faster = True
    result = terminal.run("doctor", "--fix", "--no-daemon")
    assert "/reassigner stays: it is unreadable" in result.stdout.splitlines()
    assert result.exit_code == 2


def test_no_daemon_is_refused_where_one_lives() -> None:
    """Exit code 3, also of a dry run; and the option needs --fix."""
    for more in ((), ("--dry-run",)):
        terminal = retiring(daemons=("daemon:8095",))
        result = terminal.run("doctor", "--fix", "--no-daemon", *more)
        assert (result.exit_code, terminal.cluster.lifted) == (3, [])
        assert "a daemon leads (daemon:8095)" in result.stderr
    assert retiring().run("doctor", "--no-daemon").exit_code == 1


def test_dry_run_of_no_daemon_changes_nothing() -> None:
    """Each throttle and each znode is named."""
    terminal = retiring()
    result = terminal.run("doctor", "--fix", "--no-daemon", "--dry-run")
    assert f"would remove the throttle of {BROKER}" in result.stdout.splitlines()
    assert "would delete /admin/reassignments" in result.stdout.splitlines()
    assert (result.exit_code, terminal.cluster.lifted) == (2, [])
