"""Tests of ``pause``, ``resume``, ``limits``, ``throttle``, ``disable`` and ``enable``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from controller.core.controls import (
    BrokerLimits,
    Controls,
    Limits,
    Order,
    Pause,
    Pauses,
    RequestLimits,
)
from controller.core.histories import RequestHistory, Summary
from controller.core.model import BrokerId, RequestId, Zxid
from controller.core.submissions import Window
from tests.cli.asked import AT_MS
from tests.cli.builders import USER, FakeCluster, Terminal, a_status

ONE = RequestId("request_0000000001")
FIVE = BrokerId(5)
PAUSE = Pause("disks", USER, AT_MS)


@pytest.fixture
def terminal() -> Terminal:
    """Return a terminal at a cluster that knows a request."""
    cluster = FakeCluster()
    cluster.histories[ONE] = RequestHistory(request=ONE, czxid=Zxid(1))
    return Terminal(cluster)


def test_everything_is_paused_and_resumed(terminal: Terminal) -> None:
    """With who, when and why."""
    result = terminal.run("pause", "--reason", "disks")
    assert result.exit_code == 0
    assert "everything is paused since 2025-06-15 15:06:40Z by ann@desk: disks" in result.stdout
    assert terminal.cluster.controls.pauses == Pauses(everything=PAUSE)
    assert "nothing is paused" in terminal.run("resume").stdout
    assert terminal.cluster.controls.pauses == Pauses()


def test_requests_and_brokers_are_paused_by_themselves(terminal: Terminal) -> None:
    """Resuming one leaves the other alone, and resuming everything both."""
    terminal.run("pause", "--request", ONE, "--broker", "5", "--reason", "disks")
    assert terminal.cluster.controls.pauses == Pauses(requests={ONE: PAUSE}, brokers={FIVE: PAUSE})
    terminal.run("resume", "--broker", "5")
    assert terminal.cluster.controls.pauses == Pauses(requests={ONE: PAUSE})
    assert f"request {ONE} is paused" in terminal.run("resume").stdout
    assert terminal.run("resume", "--all").exit_code == 0
    assert terminal.cluster.controls.pauses == Pauses()


@pytest.mark.parametrize("verb", [["pause"], ["limits", "--priority", "5"], ["throttle", "1MB"]])
def test_a_request_that_ended_is_not_steered(terminal: Terminal, verb: Sequence[str]) -> None:
    """What is set for it would stay for ever and mean nothing."""
    ended = Summary(request=ONE, kind="request", total=1, done=1)
    terminal.cluster.histories[ONE] = RequestHistory(request=ONE, czxid=Zxid(1), summary=ended)
    result = terminal.run(*verb, "--request", ONE)
    assert result.exit_code == 1
    assert f"request {ONE} has ended" in result.stderr
    assert terminal.cluster.controls == Controls()


def test_a_throttle_of_a_request_says_nothing_of_other_limits(terminal: Terminal) -> None:
    """What was not meant is shown by `limits`."""
    terminal.run("limits", "--max-incoming", "2")
    result = terminal.run("throttle", "1MB", "--request", ONE)
    assert result.stdout.splitlines() == [f"request {ONE}: throttle 1 MB/s"]
    unset = terminal.run("throttle", "none", "--request", ONE)
    assert unset.stdout.splitlines() == [f"request {ONE}: as submitted"]


def test_a_pause_keeps_its_first_reason(terminal: Terminal) -> None:
    """Pausing what is paused changes nothing."""
    terminal.run("pause", "--reason", "disks")
    terminal.run("pause", "--reason", "another")
    assert terminal.cluster.controls.pauses == Pauses(everything=PAUSE)


def test_dry_run_pauses_nothing(terminal: Terminal) -> None:
    """It shows how it would be."""
    result = terminal.run("pause", "--broker", "5", "--dry-run", "--json")
    document = json.loads(result.stdout)
    assert document["paused"]["brokers"]["5"]["by"] == USER
    assert terminal.cluster.controls.pauses == Pauses()


@pytest.mark.parametrize(
    "args",
    [
        ("pause", "--request", "request_0000000099"),
        ("pause", "--request", "a/b"),
        ("pause", "--broker", "five"),
        ("limits", "--max-incoming", "0"),
        ("limits", "--order", "random"),
        ("limits", "--window", "late"),
        ("limits", "--max-bytes", "many"),
        ("limits", "--priority", "3"),
        ("limits", "--broker", "5", "--order", "small-first"),
        ("limits", "--request", ONE, "--max-incoming", "2"),
        ("limits", "--request", "request_0000000099", "--priority", "2"),
        ("limits", "--request", ONE, "--broker", "5", "--priority", "2"),
        ("limits", "--unset", "speed"),
        ("throttle", "fast"),
        ("throttle", "0"),
        ("throttle", "5MB", "--request", "request_0000000099"),
    ],
)
def test_wrong_usage_changes_nothing(terminal: Terminal, args: Sequence[str]) -> None:
    """Exit code 1 and one line."""
    before = terminal.cluster.controls
    result = terminal.run(*args)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert terminal.cluster.controls == before


def test_limits_of_all_are_set_one_by_one(terminal: Terminal) -> None:
    """What is not named stays."""
    terminal.run("limits", "--max-partitions-in-flight", "7", "--order", "small-first")
    result = terminal.run(
        "limits",
        "--max-bytes",
        "10GB",
        "--leader-moves",
        "2",
        "--window",
        "22:00-05:00",
        "--step-size",
        "all",
        "--max-incoming",
        "3",
        "--max-outgoing",
        "4",
    )
    assert result.exit_code == 0
    assert terminal.cluster.controls.limits == Limits(
        max_partitions_in_flight=7,
        max_incoming_per_broker=3,
        max_outgoing_per_broker=4,
        max_bytes_in_flight=10_000_000_000,
        max_leader_moves_per_broker_per_second=2,
        step_size="all",
        order=Order.SMALL_FIRST,
        window=Window(22 * 60, 5 * 60),
    )
    assert "max-bytes: 10 GB" in result.stdout
    assert "window: 22:00-05:00 UTC" in result.stdout


def test_limits_of_a_broker_and_of_a_request(terminal: Terminal) -> None:
    """Each beside the others."""
    first = terminal.run("limits", "--broker", "5", "--max-incoming", "2")
    result = terminal.run("limits", "--request", ONE, "--priority", "5", "--step-size", "2")
    assert terminal.cluster.controls.limits == Limits(
        brokers={FIVE: BrokerLimits(max_incoming=2)},
        requests={ONE: RequestLimits(priority=5, step_size=2)},
    )
    assert first.stdout.splitlines() == ["broker 5: max-incoming 2"]
    assert result.stdout.splitlines() == [f"request {ONE}: priority 5, step-size 2"]
    assert "broker 5: max-incoming 2" in terminal.run("limits").stdout.splitlines()
    unset = terminal.run("limits", "--broker", "5", "--unset", "max-incoming")
    assert unset.stdout.splitlines() == ["broker 5: as all"]


def test_a_limit_is_unset(terminal: Terminal) -> None:
    """As in the settings again; a broker of which nothing is left to say is left out."""
    terminal.run("limits", "--broker", "5", "--max-incoming", "2")
    terminal.run("limits", "--order", "large-first")
    terminal.run("limits", "--broker", "5", "--unset", "max-incoming")
    result = terminal.run("limits", "--unset", "--order")
    assert terminal.cluster.controls.limits == Limits()
    assert "No limit is set" in result.stdout


def test_limits_without_an_option_show_what_holds(terminal: Terminal) -> None:
    """Set live, or as the daemon says, or unknown."""
    terminal.run("limits", "--max-incoming", "2")
    terminal.cluster.statuses = [a_status(limits={"max_partitions_in_flight": 100})]
    lines = terminal.run("limits").stdout.splitlines()
    assert "max-incoming: 2 (set live)" in lines
    assert "max-partitions-in-flight: 100 (settings)" in lines
    assert "max-outgoing: as in the daemon's settings" in lines
    document = json.loads(terminal.run("limits", "--json").stdout)
    assert document["limits"]["max_incoming_per_broker"] == 2
    assert document["effective"] == {"max_partitions_in_flight": 100}


def test_dry_run_limits_nothing(terminal: Terminal) -> None:
    """It shows how it would be."""
    result = terminal.run("limits", "--max-incoming", "2", "--dry-run")
    assert "max-incoming: 2" in result.stdout
    assert terminal.cluster.controls.limits == Limits()


def test_the_throttle_of_all_changes_live(terminal: Terminal) -> None:
    """In bytes per second and broker; none takes it away."""
    assert "none" in terminal.run("throttle").stdout
    result = terminal.run("throttle", "50MB")
    assert result.exit_code == 0
    assert "throttle: 50 MB/s per broker" in result.stdout
    assert terminal.cluster.controls.throttle == 50_000_000
    assert json.loads(terminal.run("throttle", "--json").stdout)["throttle"] == 50_000_000
    assert terminal.run("throttle", "20MB", "--dry-run").exit_code == 0
    assert terminal.cluster.controls.throttle == 50_000_000
    assert terminal.run("throttle", "none").exit_code == 0
    assert terminal.cluster.controls.throttle is None


def test_the_throttle_of_a_request_is_one_of_its_limits(terminal: Terminal) -> None:
    """None: as it was submitted."""
    terminal.run("throttle", "5MiB", "--request", ONE)
    limits = terminal.cluster.controls.limits
    assert limits.requests == {ONE: RequestLimits(throttle=5 * 1024 * 1024)}
    assert f"request {ONE}: 5.24 MB/s" in terminal.run("throttle").stdout
    terminal.run("throttle", "none", "--request", ONE)
    assert terminal.cluster.controls.limits == Limits()


def test_the_kill_switch_is_turned_on_once(terminal: Terminal) -> None:
    """The first reason stays, and is told to who comes second."""
    result = terminal.run("disable", "--reason", "incident 42")
    assert result.exit_code == 0
    assert "refused from now on" in result.stdout
    result = terminal.run("disable", "--reason", "again")
    assert result.exit_code == 0
    assert "already, since 2025-06-15 15:06:40Z by ann@desk: incident 42" in result.stdout
    document = json.loads(terminal.run("disable", "--json").stdout)
    assert document["was_disabled"] is True
    assert document["reason"] == "incident 42"


def test_the_kill_switch_is_turned_off(terminal: Terminal) -> None:
    """Exit code 0, whether or not it was on."""
    terminal.run("disable")
    assert "Enabled" in terminal.run("enable").stdout
    assert terminal.cluster.switch is None
    result = terminal.run("enable")
    assert result.exit_code == 0
    assert "was not disabled" in result.stdout
    assert json.loads(terminal.run("enable", "--json").stdout) == {
        "dry_run": False,
        "disabled": False,
        "was_disabled": False,
    }
