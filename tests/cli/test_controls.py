"""Tests of ``pause``, ``resume``, ``limits``, ``throttle``, ``disable`` and ``enable``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.core.model import BrokerId, RequestId, ZkVersion, Zxid
from controller.core.pacing.controls import (
    UNTHROTTLED,
    BrokerLimits,
    Controls,
    Limits,
    Pause,
    Pauses,
    QueueOrder,
    RequestLimits,
    UnderMinIsr,
)
from controller.core.requests.outcomes import Part, RequestHistory, Summary
from controller.core.requests.submissions import AUTO, LegacyPlan, RequestOptions, Window
from controller.znodes.plans import encode_submission
from tests.cli.builders import USER, FakeCluster, Terminal, a_status
from tests.cli.scripted_answers import AT_MS

ONE = RequestId("request_0000000001")
FIVE = BrokerId(5)
PAUSE = Pause("disks", USER, AT_MS)


@pytest.fixture
def terminal() -> Terminal:
    """Return a terminal at a cluster that knows a request."""
    cluster = FakeCluster(brokers=frozenset({1, 2, 3, 4, 5}))
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


def test_steps_that_still_run_are_counted(terminal: Terminal) -> None:
    """A partition between two steps has none in flight."""
    counts = {"in_flight": 3, "between_steps": 1, "waiting": 9}
    request = {"id": ONE, "partitions": {"in_flight": 1, "between_steps": 0}}
    terminal.cluster.statuses = [a_status(partitions=counts, requests=[request])] * 2
    printed = terminal.run("pause", "--request", ONE).stdout
    assert printed.splitlines()[-1].endswith("; 1 step in flight still runs to its end")
    printed = terminal.run("pause").stdout
    assert printed.splitlines()[0].endswith("; 2 steps in flight still run to their end")


def test_a_change_is_awaited_until_the_status_shows_it(terminal: Terminal) -> None:
    """The next command is not to show the former state; a daemon that lags is named."""
    before = a_status(controls={"digest": Controls().digest, "disabled": False})
    pauses = Pauses(everything=Pause("", USER, AT_MS))
    after = a_status(controls={"digest": Controls(pauses).digest, "disabled": False})
    terminal.cluster.statuses = [before, before, after]
    assert terminal.run("pause").stderr == ""
    assert terminal.cluster.statuses == [after]
    terminal.cluster.statuses = [before]
    assert "the daemon has not taken it in yet" in terminal.run("disable").stderr


def test_requests_and_brokers_are_paused_by_themselves(terminal: Terminal) -> None:
    """Resuming one leaves the other alone, and resuming everything both."""
    terminal.run("pause", "--request", ONE, "--broker", "5", "--reason", "disks")
    assert terminal.cluster.controls.pauses == Pauses(requests={ONE: PAUSE}, brokers={FIVE: PAUSE})
    assert "broker 5 is no longer paused" in terminal.run("resume", "--broker", "5").stdout
    assert terminal.cluster.controls.pauses == Pauses(requests={ONE: PAUSE})
    assert f"{ONE} is paused" in terminal.run("resume").stdout
    assert terminal.run("resume", "--all").exit_code == 0
    assert terminal.cluster.controls.pauses == Pauses()


def test_only_a_pause_that_stands_is_resumed(terminal: Terminal) -> None:
    """A mistyped id is an error; a request or broker that is gone since is resumed all the same."""
    for problem, *names in (
        ("broker 5 is not paused\n", "--broker", "5"),
        ("there is no broker 99", "--broker", "99"),
        (f"{ONE} is not paused\n", "--request", ONE),
        ("request nope is not known", "--request", "nope"),
        ("--all is of all requests and brokers", "--all", "--broker", "5"),
    ):
        result = terminal.run("resume", *names)
        assert (result.exit_code, result.stdout) == (1, "")
        assert problem in result.stderr
    gone, lost = RequestId("request_0000000077"), BrokerId(99)
    terminal.cluster.controls = Controls(Pauses(PAUSE, {gone: PAUSE}, {lost: PAUSE}))
    assert "broker 5 is not paused by itself" in terminal.run("resume", "--broker", "5").stderr
    assert terminal.run("resume", "--broker", "99", "--request", gone).exit_code == 0
    assert terminal.cluster.controls.pauses == Pauses(PAUSE)


def test_previews_say_what_would_be(terminal: Terminal) -> None:
    """An operator who reads the first line alone is not misled."""
    terminal.run("pause", "--broker", "4", "--reason", "before")
    for first, *verb in (
        ("broker 4 would no longer be paused", "resume", "--broker", "4"),
        ("New reassignments would be refused; ", "disable"),
        ("The limits of broker 5 would be:", "limits", "--broker", "5", "--max-incoming", "2"),
        (f"The limits of {ONE} would be:", "throttle", "1MB", "--request", ONE),
        ("the throttle would be 1 MB/s per broker, ", "throttle", "1MB"),
    ):
        result = terminal.run(*verb, "--dry-run")
        assert result.stdout.startswith(first)
        assert result.stdout.endswith("Nothing was written.\n")
    found = terminal.run("pause", "--broker", "5", "--dry-run").stdout
    assert "broker 4 is paused since" in found
    assert "broker 5 would be paused at" in found


def test_limits_of_one_broker_or_request_are_shown_alone(terminal: Terminal) -> None:
    """One that does not exist is an error."""
    terminal.run("limits", "--broker", "5", "--max-incoming", "2")
    assert terminal.run("limits", "--broker", "5").stdout == "broker 5: max-incoming 2\n"
    assert terminal.run("limits", "--broker", "4").stdout == "broker 4: as all brokers\n"
    assert terminal.run("limits", "--request", ONE).stdout == f"{ONE}: as submitted\n"
    assert f"{ONE}: none of its own" in terminal.run("throttle", "--request", ONE).stdout
    for verb in (["limits"], ["throttle"], ["limits", "--unset", "priority"]):
        result = terminal.run(*verb, "--request", "drain-x")
        assert result.exit_code == 1
        assert "request drain-x is not known; see `reassigner list`" in result.stderr
    assert "there is no broker 9" in terminal.run("limits", "--broker", "9").stderr


def test_a_rate_without_its_unit_is_doubted(terminal: Terminal) -> None:
    """It is set all the same: Kafka's own tool takes it, too."""
    assert "(did you mean 50MB?)" in terminal.run("throttle", "50").stderr
    assert terminal.cluster.controls.throttle == 50


@pytest.mark.parametrize("verb", [["pause"], ["limits", "--priority", "5"], ["throttle", "1MB"]])
def test_a_request_that_ended_is_not_steered(terminal: Terminal, verb: Sequence[str]) -> None:
    """What is set for it would stay for ever and mean nothing."""
    ended = Summary(request=ONE, kind="request", total=1, done=1)
    terminal.cluster.histories[ONE] = RequestHistory(request=ONE, czxid=Zxid(1), summary=ended)
    result = terminal.run(*verb, "--request", ONE)
    assert result.exit_code == 1
    assert f"{ONE} has ended" in result.stderr
    assert terminal.cluster.controls == Controls()


def test_a_throttle_of_a_request_says_nothing_of_other_limits(terminal: Terminal) -> None:
    """What was not meant is shown by `limits`."""
    terminal.run("limits", "--max-incoming", "2")
    result = terminal.run("throttle", "1MB", "--request", ONE)
    assert result.stdout.splitlines() == [f"{ONE}: throttle 1 MB/s"]
    lifted = terminal.run("throttle", "none", "--request", ONE)
    assert lifted.stdout.splitlines() == [f"{ONE}: throttle none"]
    unset = terminal.run("limits", "--request", ONE, "--unset", "throttle")
    assert unset.stdout.splitlines() == [f"{ONE}: as submitted"]


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
        ("pause", "--broker", "9"),
        ("limits", "--broker", "9", "--max-incoming", "2"),
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
        "--under-min-isr",
        "warn",
    )
    assert result.exit_code == 0
    assert terminal.cluster.controls.limits == Limits(
        max_partitions_in_flight=7,
        max_incoming_per_broker=3,
        max_outgoing_per_broker=4,
        max_bytes_in_flight=10_000_000_000,
        max_leader_moves_per_broker_per_second=2,
        step_size="all",
        order=QueueOrder.SMALL_FIRST,
        under_min_isr=UnderMinIsr.WARN,
        window=Window(22 * 60, 5 * 60),
    )
    assert "max-bytes: 10 GB" in result.stdout
    assert "window: 22:00-05:00 UTC" in result.stdout
    assert "under-min-isr: warn" in result.stdout


def test_limits_of_a_broker_and_of_a_request(terminal: Terminal) -> None:
    """Each beside the others."""
    first = terminal.run("limits", "--broker", "5", "--max-incoming", "2")
    result = terminal.run("limits", "--request", ONE, "--priority", "5", "--step-size", "2")
    assert terminal.cluster.controls.limits == Limits(
        brokers={FIVE: BrokerLimits(max_incoming=2)},
        requests={ONE: RequestLimits(priority=5, step_size=2)},
    )
    assert first.stdout.splitlines() == ["broker 5: max-incoming 2"]
    assert result.stdout.splitlines() == [f"{ONE}: priority 5, step-size 2"]
    assert "broker 5: max-incoming 2" in terminal.run("limits").stdout.splitlines()
    unset = terminal.run("limits", "--broker", "5", "--unset", "max-incoming")
    assert unset.stdout.splitlines() == ["broker 5: as all brokers"]


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


def test_the_throttle_may_follow_what_producers_see(terminal: Terminal) -> None:
    """For all requests and for one; ``limits`` and ``throttle`` say so."""
    result = terminal.run("throttle", "auto")
    assert result.stdout.splitlines()[0] == "throttle: auto, except for requests with their own"
    assert terminal.cluster.controls.throttle == AUTO
    assert json.loads(terminal.run("throttle", "--json").stdout)["throttle"] == AUTO
    assert "throttle: auto" in terminal.run("limits").stdout
    one = terminal.run("throttle", "Auto", "--request", ONE)
    assert one.stdout.splitlines() == [f"{ONE}: throttle auto"]
    assert terminal.cluster.controls.limits.requests[ONE].throttle == AUTO
    assert f"{ONE}: auto, set live" in terminal.run("throttle").stdout
    assert terminal.run("throttle", "none").exit_code == 0
    assert terminal.cluster.controls.throttle is None


def test_a_throttle_of_the_settings_is_shown_and_lifted(terminal: Terminal) -> None:
    """``none`` holds against it: without a live throttle it would hold again."""
    configured = {"throttle": AUTO, "configured_throttle": AUTO}
    terminal.cluster.statuses = [a_status(limits=configured)]
    assert "throttle: auto" in terminal.run("throttle").stdout
    assert "throttle: auto" in terminal.run("limits").stdout
    assert "throttle: none" in terminal.run("throttle", "none").stdout
    assert terminal.cluster.controls.throttle == UNTHROTTLED
    assert "throttle: none" in terminal.run("throttle").stdout


def test_the_throttle_of_a_request_is_one_of_its_limits(terminal: Terminal) -> None:
    """``none`` lifts the submitted one, too, and holds against that of all."""
    submitted_with(terminal, ONE, 50_000_000)
    assert f"{ONE}: 50 MB/s per broker, as submitted" in terminal.run("throttle").stdout
    terminal.run("throttle", "5MiB", "--request", ONE)
    limits = terminal.cluster.controls.limits
    assert limits.requests == {ONE: RequestLimits(throttle=5 * 1024 * 1024)}
    assert f"{ONE}: 5.24 MB/s per broker, set live" in terminal.run("throttle").stdout
    result = terminal.run("throttle", "none", "--request", ONE)
    assert result.stdout.splitlines() == [f"{ONE}: throttle none"]
    lifted = terminal.cluster.controls.limits.requests[ONE].throttle
    assert lifted == 9223372036854775807, "Kafka's own rate for none, which older daemons read"
    assert f"{ONE}: none, set live" in terminal.run("throttle").stdout
    assert json.loads(terminal.run("throttle", "--json").stdout)["requests"] == {ONE: None}
    shown = json.loads(terminal.run("limits", "--json").stdout)["limits"]["requests"]
    assert shown == {ONE: {"throttle": None}}
    terminal.run("limits", "--request", ONE, "--unset", "throttle")
    assert terminal.cluster.controls.limits == Limits()


def test_limits_of_a_request_that_has_ended_are_not_in_force(terminal: Terminal) -> None:
    """They are not shown, and the next change removes them."""
    terminal.run("limits", "--request", ONE, "--priority", "2")
    history = terminal.cluster.histories[ONE]
    summary = Summary(request=ONE, kind="request", total=1, done=1)
    terminal.cluster.histories[ONE] = replace(history, summary=summary)
    assert ONE not in terminal.run("limits").stdout
    assert json.loads(terminal.run("limits", "--json").stdout)["limits"]["requests"] == {}
    terminal.run("limits", "--max-incoming", "3")
    assert terminal.cluster.controls.limits == Limits(max_incoming_per_broker=3)


def submitted_with(terminal: Terminal, request: RequestId, throttle: int) -> None:
    """Let a request have been accepted with a throttle of its own."""
    part = Part("0", 1, AT_MS, RequestOptions(throttle=throttle))
    history = RequestHistory(request=request, czxid=Zxid(1), parts={"0": part})
    terminal.cluster.histories[request] = history


def test_the_throttle_of_all_names_the_requests_it_does_not_reach(terminal: Terminal) -> None:
    """Each with the command that reaches it: accepted or still to be, set live or submitted."""
    two, ended = RequestId("request_0000000002"), RequestId("request_0000000003")
    submitted_with(terminal, ONE, 50_000_000)
    submitted_with(terminal, ended, 70_000_000)
    summary = Summary(request=ended, kind="request", total=1, done=1)
    terminal.cluster.histories[ended] = replace(terminal.cluster.histories[ended], summary=summary)
    terminal.cluster.histories[two] = RequestHistory(request=two, czxid=Zxid(2))
    waiting = terminal.cluster.submit(encode_submission({}, RequestOptions(throttle=7_000_000)))
    result = terminal.run("throttle", "20MB")
    assert result.stdout.splitlines() == [
        "throttle: 20 MB/s per broker, except for requests with their own",
        f"{ONE} keeps its own throttle: 50 MB/s per broker, as submitted",
        f"  to change it: reassigner throttle 20MB --request {ONE}",
        f"{waiting} keeps its own throttle: 7 MB/s per broker, as submitted",
        f"  to change it: reassigner throttle 20MB --request {waiting}",
    ]
    terminal.run("throttle", "20MB", "--request", ONE)
    terminal.run("throttle", "none", "--request", waiting)
    document = json.loads(terminal.run("throttle", "20MB", "--json", "--dry-run").stdout)
    assert document["not_reached"] == {waiting: None}
    assert "--request" not in terminal.run("throttle", "none", "--dry-run").stdout.replace(
        f"--request {ONE}", ""
    )


@pytest.mark.parametrize("rate", ["2MB", "none"])
def test_the_throttle_of_a_plan_by_the_legacy_route_and_of_the_queue(
    terminal: Terminal, rate: str
) -> None:
    """Neither is kept as a request before anything of it was accepted or refused."""
    terminal.cluster.plan = LegacyPlan({}, ZkVersion(0), Zxid(0x51))
    terminal.cluster.queue = LegacyPlan({}, ZkVersion(0), Zxid(0x61))
    for request in ("legacy-0000000000000051", "queue-0000000000000061"):
        result = terminal.run("throttle", rate, "--request", request)
        assert result.exit_code == 0, result.stderr
        assert request in terminal.cluster.controls.limits.requests


def test_the_kill_switch_is_turned_on_once(terminal: Terminal) -> None:
    """The first reason stays, and the second caller sees it."""
    result = terminal.run("disable", "--reason", "incident 42")
    assert result.exit_code == 0
    assert "new reassignments are refused" in result.stdout
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


def test_a_request_in_progress_can_tolerate_brokers_that_lag(terminal: Terminal) -> None:
    """Until that is unset; with the native engine."""
    changed = terminal.run("limits", "--request", ONE, "--tolerate-lagging", "3")
    assert changed.stdout == f"{ONE}: tolerate-lagging 3\n"
    assert terminal.cluster.controls.limits.requests[ONE].tolerate_lagging == (3,)
    shown = json.loads(terminal.run("limits", "--json").stdout)
    assert shown["limits"]["requests"][ONE] == {"tolerate_lagging": [3]}
    unset = terminal.run("limits", "--request", ONE, "--unset", "tolerate-lagging")
    assert unset.stdout == f"{ONE}: as submitted\n"
    assert terminal.run("limits", "--tolerate-lagging", "3").exit_code == 1
    terminal.cluster.statuses = [a_status(engine="delegated")]
    assert terminal.run("limits", "--request", ONE, "--tolerate-lagging", "3").exit_code == 3
