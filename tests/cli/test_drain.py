"""Tests of ``drain``: what it writes, what it says is left, and where a preview would move it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.model import (
    BrokerId,
    OutcomeKind,
    PartitionOutcome,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Drain, Drains, Pause, Pauses, Quiesce
from controller.core.requests.outcomes import RequestHistory
from controller.znodes.cancellations import KillSwitch
from tests.cli.builders import USER, FakeCluster, Terminal, a_status
from tests.cli.families import DRAIN_CZXID
from tests.cli.scripted_answers import AT_MS
from tests.core.builders import replicas, tp

REQUEST = RequestId(f"drain-{DRAIN_CZXID:016x}")
FOUR = BrokerId(4)
SWAP = Drain("disk swap", USER, AT_MS)
EMPTY = "broker 4 is empty: it can be shut down"


@pytest.fixture
def terminal() -> Terminal:
    """Return a terminal at a cluster of brokers 1 to 4, three partitions of two topics on 4."""
    cluster = FakeCluster().assign(tp(0), (1, 4)).assign(tp(1), (4, 2)).assign(tp(2), (1, 2))
    return Terminal(cluster.assign(tp(0, "u"), (3, 4)))


def move(terminal: Terminal, partition: TopicPartition, *target: int) -> None:
    """Let the daemon accept a partition."""
    before = terminal.cluster.topics[partition.topic].partitions[partition.partition].replicas  # type: ignore[union-attr]
    spec = ReassignmentSpec(replicas(*target), before, REQUEST, Route.REQUEST, ZkVersion(0))
    terminal.cluster.specs[partition] = spec


def test_a_drain_is_written_and_says_what_is_left(terminal: Terminal) -> None:
    """With who, when and why; the exit code says that it is not over."""
    result = terminal.run("drain", "4", "--reason", "disk swap", "--throttle", "50MB")
    assert result.exit_code == 2
    drains = terminal.cluster.controls.drains
    assert (drains.brokers, drains.throttle) == ({FOUR: SWAP}, 50_000_000)
    assert result.stdout.splitlines() == [
        f"broker 4 is being drained since 2025-06-15 15:06:40Z by {USER}: disk swap",
        "broker 4 has 3 replicas left: t-0, t-1, u-0 not accepted yet",
    ]


def test_a_second_drain_adds_brokers(terminal: Terminal) -> None:
    """Those that are drained keep their reason, and the options stay."""
    terminal.run("drain", "4", "--reason", "disk swap", "--throttle", "50MB")
    terminal.run("drain", "3", "4", "--reason", "another", "--by", "bob")
    drains = terminal.cluster.controls.drains
    assert drains.brokers == {FOUR: SWAP, BrokerId(3): Drain("another", "bob", AT_MS)}
    assert (drains.throttle, drains.version, drains.czxid) == (50_000_000, 1, DRAIN_CZXID)


def test_an_empty_broker_can_be_shut_down(terminal: Terminal) -> None:
    """The last line is made for people and scripts."""
    for partition, target in ((tp(0), (1, 2)), (tp(1), (3, 2)), (tp(0, "u"), (3, 1))):
        terminal.cluster.assign(partition, target)
    result = terminal.run("drain", "4")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == EMPTY


def test_what_is_being_reassigned_is_counted(terminal: Terminal) -> None:
    """It leaves the broker with the last step, and is told from what has not begun."""
    terminal.run("drain", "4")
    move(terminal, tp(0), 1, 2)
    move(terminal, tp(1), 3, 2)
    terminal.cluster.assign(tp(0), (1, 4, 2), adding=(2,), removing=(4,))
    last = terminal.run("drain").stdout.splitlines()[-1]
    assert last == (
        "broker 4 has 3 replicas left: t-0 being reassigned; u-0 not accepted yet; "
        "t-1 waiting for a step"
    )


def test_partitions_without_a_target_are_named_with_the_reason(terminal: Terminal) -> None:
    """Too few other brokers, and what an operator took out of the drain."""
    terminal.cluster.assign(tp(0), (1, 2, 3, 4))
    terminal.run("drain", "4")
    ending = PartitionOutcome(
        REQUEST, tp(1), OutcomeKind.ROLLED_BACK, by=RequestId("cancel-00000000000000ff")
    )
    terminal.cluster.histories[REQUEST] = RequestHistory(
        request=REQUEST, czxid=Zxid(5), endings=(ending,)
    )
    result = terminal.run("drain", "4", "--json")
    (found,) = json.loads(result.stdout)["drains"]
    assert (found["replicas"], found["being_reassigned"], found["not_accepted"]) == (3, 0, 1)
    assert [(p["topic"], p["partition"], p["by"]) for p in found["blocked"]] == [
        ("t", 0, "no_target"),
        ("t", 1, "no_target"),
    ]
    last = terminal.run("drain", "4").stdout.splitlines()[-1]
    few = "t-0 blocked: it has 4 replicas, and 3 brokers are live and not drained (no_target)"
    assert few in last
    assert "t-1 blocked: cancel-00000000000000ff cancelled its reassign" in last


@pytest.mark.parametrize("hold", ["paused", "kill_switch"])
def test_a_hold_is_named(terminal: Terminal, hold: str) -> None:
    """Nothing is accepted before it ends."""
    if hold == "paused":
        pauses = Pauses(everything=Pause("later"))
        terminal.cluster.controls = replace(terminal.cluster.controls, pauses=pauses)
    else:
        terminal.cluster.switch = KillSwitch("incident", "ann", 1)
    assert f"({hold})" in terminal.run("drain", "4").stdout


def test_nothing_is_drained_while_the_reassigner_is_quiesced(terminal: Terminal) -> None:
    """The daemon would end the drain again."""
    pauses = Pauses(quiesce=Quiesce("KRaft", "ann", 1))
    terminal.cluster.controls = replace(terminal.cluster.controls, pauses=pauses)
    result = terminal.run("drain", "4")
    assert (result.exit_code, terminal.cluster.controls.drains) == (3, Drains())
    assert "the reassigner is quiesced" in result.stderr


def test_a_dead_broker_is_drained_as_long_as_it_has_replicas(terminal: Terminal) -> None:
    """One that is neither live nor in any assignment is a mistake."""
    terminal.cluster.brokers -= {4}
    result = terminal.run("drain", "4")
    assert result.exit_code == 2
    assert "broker 4, which is not live, is being drained since" in result.stdout
    unknown = terminal.run("drain", "4", "9")
    assert unknown.exit_code == 1
    assert unknown.stderr.startswith("reassigner: there is no broker 9: it is not live")
    assert terminal.cluster.controls.drains.brokers.keys() == {FOUR}
    for partition, target in ((tp(0), (1, 2)), (tp(1), (3, 2)), (tp(0, "u"), (3, 1))):
        terminal.cluster.assign(partition, target)
    again = terminal.run("drain", "4", "--wait")
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (
        0,
        "broker 4 is empty: it need not return",
    ), "it is drained"


def test_drains_are_listed(terminal: Terminal) -> None:
    """All of them with what is left; the exit code is that of the fullest."""
    assert terminal.run("drain").stdout == "no broker is drained\n"
    terminal.run("drain", "4", "3")
    result = terminal.run("drain")
    assert result.exit_code == 2
    assert [line.split(":")[0] for line in result.stdout.splitlines()[1::2]] == [
        "broker 3 has 1 replica left",
        "broker 4 has 3 replicas left",
    ]


@pytest.mark.parametrize(("named", "left"), [(["4"], {3}), ([], set()), (["3", "4"], set())])
def test_a_drain_is_stopped(terminal: Terminal, named: Sequence[str], left: set[int]) -> None:
    """What has begun continues, and how to take it back is said."""
    terminal.run("drain", "4", "3")
    result = terminal.run("drain", "--stop", *named)
    assert result.exit_code == 0
    assert set(terminal.cluster.controls.drains.brokers) == left
    assert f"`reassigner undo {REQUEST}` moves its replicas back" in result.stdout
    assert terminal.run("drain", "--stop", "4").exit_code == 1


def test_a_preview_of_the_end_of_a_drain_says_what_would_be(terminal: Terminal) -> None:
    """An operator who reads the first line alone is not misled."""
    terminal.run("drain", "4")
    result = terminal.run("drain", "4", "--stop", "--dry-run")
    first, second, last = result.stdout.splitlines()
    assert first == "broker 4 would no longer be drained; what has not begun would not begin"
    assert second.startswith("what has begun would continue; `reassigner undo ")
    assert last == "Nothing was written."
    assert terminal.cluster.controls.drains.brokers.keys() == {4}


def test_a_dry_run_shows_the_targets_and_writes_nothing(terminal: Terminal) -> None:
    """They are those that the daemon would choose now."""
    terminal.cluster.assign(tp(3), (1, 2, 3, 4))
    result = terminal.run("drain", "4", "--dry-run")
    assert result.exit_code == 0
    assert terminal.cluster.controls.drains == Drains()
    changes = [line for line in result.stdout.splitlines() if " -> " in line]
    assert [line.partition(":")[0] for line in changes] == ["t-0", "t-1", "u-0"]
    assert all("drops 4" in line for line in changes)
    stays = "stays on broker 4: t-3 blocked: it has 4 replicas, and 3 brokers are live"
    assert stays in result.stderr
    assert "Nothing was written." in result.stdout
    document = json.loads(terminal.run("drain", "4", "--dry-run", "--json").stdout)
    assert {e["state"] for e in document["entries"]} == {"would_change"}


def test_waiting_ends_when_the_broker_is_empty(terminal: Terminal) -> None:
    """Progress is shown meanwhile."""
    terminal.cluster.assign(tp(1), (3, 2)).assign(tp(0, "u"), (3, 1))
    terminal.cluster.statuses = [a_status()]
    terminal.steps = [
        lambda _: move(terminal, tp(0), 1, 2),
        lambda cluster: cluster.finish(tp(0), (1, 2)),
    ]
    result = terminal.run("drain", "4", "--wait")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "broker 4 has 1 replica left: t-0 waiting for a step" in lines
    assert lines[-1] == EMPTY


def test_waiting_ends_where_nothing_can_leave_the_broker(terminal: Terminal) -> None:
    """Only more brokers would help, which is not a matter of time."""
    terminal.cluster.assign(tp(1), (3, 2)).assign(tp(0, "u"), (3, 1)).assign(tp(0), (1, 2, 3, 4))
    result = terminal.run("drain", "4", "--wait")
    assert result.exit_code == 2
    assert "t-0 blocked: " in result.stdout


def test_waiting_ends_when_someone_stops_the_drain(terminal: Terminal) -> None:
    """The broker is not empty, and will not be."""

    def stop(cluster: FakeCluster) -> None:
        cluster.controls = replace(cluster.controls, drains=Drains())

    terminal.steps = [stop]
    result = terminal.run("drain", "4", "--wait")
    assert result.exit_code == 4
    assert "The drain of broker 4 was stopped." in result.stderr


def test_a_reassignment_to_the_broker_counts_as_left(terminal: Terminal) -> None:
    """Also where it has no replica yet; what the daemon says of it is passed on."""
    for partition, target in ((tp(0), (1, 2)), (tp(1), (3, 2)), (tp(0, "u"), (3, 1))):
        terminal.cluster.assign(partition, target)
    move(terminal, tp(2), 1, 4)
    result = terminal.run("drain", "4")
    assert result.exit_code == 2
    last = "broker 4 has no replica left, 1 reassignment still involves it: t-2 not accepted yet"
    assert result.stdout.splitlines()[-1] == last


def test_a_broker_is_empty_when_its_replicas_are_replaced(terminal: Terminal) -> None:
    """A dead one is dropped before its successor has copied."""
    for partition, target in ((tp(0), (1,)), (tp(1), (3, 2)), (tp(0, "u"), (3, 1))):
        terminal.cluster.assign(partition, target)
    terminal.run("drain", "4")
    before = replicas(1, 4)
    spec = ReassignmentSpec(replicas(1, 2), before, REQUEST, Route.REQUEST, ZkVersion(0))
    terminal.cluster.specs[tp(0)] = spec
    last = terminal.run("drain").stdout.splitlines()[-1]
    assert (
        last
        == "broker 4 has no replica left, 1 reassignment still involves it: t-0 being reassigned"
    )


def test_what_a_reassignment_waits_for_is_said(terminal: Terminal) -> None:
    """By the daemon, where one leads."""
    terminal.run("drain", "4")
    move(terminal, tp(0), 1, 2)
    row = {"topic": "t", "partition": 0, "request": REQUEST}
    blocked = {"by": "broker_dead", "detail": "broker 2 is not live"}
    terminal.cluster.statuses = [a_status(in_flight=[{**row, "blocked_on": blocked}])]
    last = terminal.run("drain").stdout.splitlines()[-1]
    assert "t-0 blocked: broker 2 is not live (broker_dead)" in last


def test_where_plans_have_to_be_approved_the_approver_is_asked_for(terminal: Terminal) -> None:
    """Before and after the drain is written; the name is added later, too."""
    terminal.cluster.statuses = [a_status(require_approval=True)]
    why = "nobody approved the drain of broker 4: `reassigner drain 4 --approved-by NAME`"
    assert why in terminal.run("drain", "4", "--dry-run").stderr
    result = terminal.run("drain", "4", "--reason", "disk swap", "--wait")
    assert result.exit_code == 2
    assert why in result.stdout.splitlines()[-1]
    approved = terminal.run("drain", "4", "--approved-by", "bob")
    assert approved.stdout.splitlines()[-1].endswith("t-0, t-1, u-0 not accepted yet")
    assert terminal.cluster.controls.drains.brokers == {FOUR: replace(SWAP, approved_by="bob")}


def test_an_interrupted_wait_leaves_the_drain(terminal: Terminal) -> None:
    """It stands, and says what is left."""
    terminal.steps = [KeyboardInterrupt()]
    result = terminal.run("drain", "4", "--wait")
    assert result.exit_code == 2
    assert terminal.cluster.controls.drains.brokers.keys() == {FOUR}


@pytest.mark.parametrize(
    "args",
    [
        ("drain", "five"),
        ("drain", "--throttle", "1MB"),
        ("drain", "--wait"),
        ("drain", "4", "--throttle", "fast"),
        ("drain", "4", "--window", "late"),
        ("drain", "4", "--stop", "--wait"),
        ("drain", "--approved-by", "bob"),
        ("drain", "4", "--reason", "x" * 1001),
        ("drain", "--stop", "4"),
    ],
)
def test_wrong_usage_changes_nothing(terminal: Terminal, args: Sequence[str]) -> None:
    """One line says why."""
    result = terminal.run(*args)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert terminal.cluster.controls.drains == Drains()


def test_a_cancellation_of_the_drains_is_written_though_nothing_moves(terminal: Terminal) -> None:
    """It ends them; the preview says so."""
    terminal.run("drain", "4")
    result = terminal.run("cancel", REQUEST, "--dry-run", "--json")
    assert json.loads(result.stdout)["drained"] == [4]
    ended = terminal.run("cancel", REQUEST)
    assert terminal.cluster.cancel is not None
    assert f"This ends the drain of broker 4, drained since 2025-06-15 15:06:40Z by {USER}" in (
        ended.stderr
    )


def test_an_undo_of_the_drains_names_each_of_them(terminal: Terminal) -> None:
    """They share one request; each has its own reason."""
    terminal.run("drain", "4", "--reason", "disk swap")
    terminal.run("drain", "3", "--reason", "rack move")
    assert terminal.cluster.controls.drains.options.reason == (
        "broker 3: rack move; broker 4: disk swap"
    )
    printed = terminal.run("undo", REQUEST, "--dry-run").stdout
    assert "would drain no longer: 2 (broker 3, drained since" in printed
    assert "disk swap" in printed
    assert "rack move" in printed


def test_a_plan_onto_a_drained_broker_would_be_refused(terminal: Terminal, tmp_path: Path) -> None:
    """As the daemon will."""
    terminal.run("drain", "4")
    plan = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 2, "replicas": [1, 4]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    result = terminal.run("execute", str(plan), "--dry-run")
    assert result.exit_code == 3
    assert "broker 4 is drained" in result.stdout
