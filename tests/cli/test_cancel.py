"""Tests of ``reassigner cancel``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
from controller.core.pacing.controls import Evacuation, Evacuations, RequestLimits
from controller.core.requests.outcomes import Part, RequestHistory
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    CancelScope,
    RequestOptions,
    Window,
)
from controller.errors import CancellationPendingError, ReassignmentConflictError
from controller.znodes.cancellations import combine
from controller.znodes.plans import encode_submission
from tests.cli.builders import USER, FakeCluster, Terminal, a_status
from tests.cli.scripted_answers import CANCEL, CANCEL_CZXID
from tests.core.builders import replicas, tp

ONE, TWO = RequestId("request_0000000001"), RequestId("request_0000000002")
NOTHING = "There is nothing to cancel"


def a_cluster() -> FakeCluster:
    """Return a cluster where two requests move a partition each, of topics t and u."""
    cluster = FakeCluster()
    for partition, request in ((tp(0), ONE), (TopicPartition("u", 0), TWO)):
        cluster.assign(partition, (1, 2))
        target = replicas(2, 3)
        spec = ReassignmentSpec(target, replicas(1, 2), request, Route.REQUEST, ZkVersion(0))
        cluster.specs[partition] = spec
        cluster.accepted[request] = [AcceptedEntry(partition, replicas(1, 2), target)]
        cluster.record_outcome(
            PartitionOutcome(request, TopicPartition("x", 0), OutcomeKind.SUPERSEDED)
        )
    return cluster


def take_up(cluster: FakeCluster) -> None:
    """Let the daemon turn everything round."""
    for partition, spec in cluster.specs.items():
        assert isinstance(spec, ReassignmentSpec)
        assert spec.original is not None
        cluster.specs[partition] = ReassignmentSpec(
            spec.original, spec.original, spec.request, spec.route, ZkVersion(1), CANCEL
        )


def end(cluster: FakeCluster) -> None:
    """Let everything be back, one of it skipped, and the cancellation end."""
    cluster.cancellation = None
    cluster.record_outcome(
        PartitionOutcome(CANCEL, tp(9), OutcomeKind.SKIPPED, "its former replicas are unknown")
    )
    cluster.conclude(CANCEL, kind="cancel")


def test_a_request_is_cancelled_when_the_daemon_has_taken_it_up() -> None:
    """Exit code 0, and the id under which the outcome will be."""
    terminal = Terminal(a_cluster(), steps=[take_up])
    result = terminal.run("cancel", ONE, "--reason", "wrong rack")
    assert result.exit_code == 0
    assert f"Cancelling as {CANCEL}" in result.stdout
    written = terminal.cluster.cancellation
    assert written is not None
    assert written.requests == {ONE}
    assert (written.reason, written.requested_by) == ("wrong rack", USER)
    assert written.scope is CancelScope.IN_FLIGHT


def test_what_is_back_at_once_was_taken_up() -> None:
    """While others that the cancellation meant before are still on their way."""

    def choose(cluster: FakeCluster) -> None:
        cluster.call_off(TopicPartition("u", 0), OutcomeKind.ROLLED_BACK)
        parts = {n: Part(n, 0, 0) for n in ("0", "1")}
        chosen = RequestHistory(request=CANCEL, czxid=CANCEL_CZXID, parts=parts)
        cluster.histories[CANCEL] = chosen

    cluster = a_cluster()
    cluster.cancellation = a_cancellation(ONE)
    known = RequestHistory(request=CANCEL, czxid=CANCEL_CZXID, parts={"0": Part("0", 0, 0)})
    cluster.histories[CANCEL] = known
    result = Terminal(cluster, steps=[choose]).run("cancel", TWO)
    assert result.exit_code == 0, result.stdout


@pytest.mark.parametrize(
    ("options", "topics", "partitions"),
    [
        (("--topic", "t", "--topic", "u"), frozenset({"t", "u"}), frozenset()),
        (("--partition", "t-0"), frozenset(), frozenset({tp(0)})),
    ],
)
def test_topics_and_partitions_are_selected(
    options: Sequence[str], topics: frozenset[str], partitions: frozenset[TopicPartition]
) -> None:
    """Each may be repeated."""
    terminal = Terminal(a_cluster(), steps=[take_up])
    assert terminal.run("cancel", *options).exit_code == 0
    written = terminal.cluster.cancellation
    assert written is not None
    assert (written.topics, written.partitions) == (topics, partitions)


@pytest.mark.parametrize(
    "args",
    [
        (),
        (ONE, "--everything", "--yes"),
        ("--partition", "t"),
        ("--topic", "a b"),
        ("a/b",),
        ("request_0000000077",),
        (ONE, "--scope", "all"),
    ],
)
def test_wrong_usage_cancels_nothing(args: Sequence[str]) -> None:
    """Exit code 1 and one line; a request that does not exist is a slip of the pen."""
    terminal = Terminal(a_cluster())
    result = terminal.run("cancel", *args)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert terminal.cluster.cancellation is None


def test_everything_is_confirmed_first() -> None:
    """With the number of partitions; no is no."""
    terminal = Terminal(a_cluster(), is_terminal=True, typed="n\n")
    result = terminal.run("cancel", "--everything")
    assert result.exit_code == 1
    assert "2 partitions" in result.stdout
    assert terminal.cluster.cancellation is None


def test_everything_is_cancelled_by_a_yes() -> None:
    """The empty selection."""
    terminal = Terminal(a_cluster(), is_terminal=True, typed="y\n", steps=[take_up])
    assert terminal.run("cancel", "--everything").exit_code == 0
    written = terminal.cluster.cancellation
    assert written is not None
    assert written.is_everything


def test_cancelling_everything_without_a_terminal_needs_yes() -> None:
    """A script says so beforehand."""
    terminal = Terminal(a_cluster(), steps=[take_up])
    result = terminal.run("cancel", "--all")
    assert result.exit_code == 1
    assert "--yes" in result.stderr
    assert terminal.run("cancel", "--all", "--yes").exit_code == 0


def test_a_second_cancel_says_there_is_nothing_to_do() -> None:
    """Exit code 0, and the znode that stood there is not touched."""
    cluster = a_cluster()
    terminal = Terminal(cluster, steps=[take_up])
    assert terminal.run("cancel", "--all", "--yes").exit_code == 0
    before = cluster.cancellation
    result = terminal.run("cancel", "--all", "--yes")
    assert result.exit_code == 0
    assert NOTHING in result.stdout
    assert f"{CANCEL} is in progress already" in result.stdout
    assert cluster.cancellation is before


def test_with_nothing_in_progress_no_znode_is_left() -> None:
    """The same for programs."""
    terminal = Terminal(FakeCluster())
    assert NOTHING in terminal.run("cancel", "--all", "--yes").stdout
    document = json.loads(terminal.run("cancel", "--all", "--yes", "--json").stdout)
    assert document["result"] == "nothing_to_do"
    assert terminal.cluster.cancellation is None


def test_what_is_not_accepted_yet_or_queued_is_called_off_too() -> None:
    """An unread request, a plan, a queue."""
    for prepare in (submitted, planned, queued):
        cluster = FakeCluster().assign(tp(0), (1, 2))
        prepare(cluster)
        result = Terminal(cluster).run("cancel", "--everything", "--dry-run")
        assert "1 (" in result.stdout, result.stdout


def submitted(cluster: FakeCluster) -> None:
    """Let a request wait."""
    cluster.submit(encode_submission({tp(0): replicas(2, 3)}, RequestOptions()))


def planned(cluster: FakeCluster) -> None:
    """Let a plan by the legacy route wait."""
    cluster.create_plan({tp(0): replicas(2, 3)})


def queued(cluster: FakeCluster) -> None:
    """Let an entry wait in the queue."""
    cluster.create_queue({tp(0): replicas(2, 3)})


def test_what_others_began_is_called_off_only_where_it_is_named() -> None:
    """Kafka's own API reassigns it."""
    cluster = FakeCluster().assign(tp(0), (1, 2, 3), adding=(3,))
    assert NOTHING in Terminal(cluster).run("cancel", "--all", "--yes").stdout
    named = Terminal(cluster).run("cancel", "--topic", "t", "--dry-run")
    assert "1 (t-0)" in named.stdout


def test_undo_moves_back_what_is_finished() -> None:
    """Unless it has been moved since, or is back already; the last line says how far it is."""
    cluster = a_cluster()
    cluster.reach(tp(0))
    cluster.conclude(ONE, done=1)
    assert NOTHING in Terminal(cluster).run("cancel", ONE).stdout
    shown = Terminal(cluster).run("undo", ONE, "--dry-run")
    assert "would move back, finished already: 1 (t-0)" in shown.stdout
    assert "1 partition in 2 steps: 1 replica to copy" in shown.stdout, "as the page forecasts it"
    assert shown.stdout.endswith("1 partition would have the replicas of before\n")

    def move_back(cluster: FakeCluster) -> None:
        cluster.assign(tp(0), (1, 2))
        cluster.cancellation = None
        cluster.conclude(CANCEL, kind="cancel", done=1)

    options = ("--throttle", "5MB", "--window", "22:00-05:00", "--wait")
    terminal = Terminal(cluster, steps=[lambda _: None, move_back])
    done = terminal.run("undo", ONE, *options, "--timeout", "0")
    assert done.exit_code == 2
    assert done.stdout.endswith(
        f"{ONE} is not undone yet: 0 of 1 partition with the replicas of before\n"
    )
    written = cluster.cancellation
    assert written is not None
    assert (written.requests, written.scope) == (frozenset({ONE}), CancelScope.ALL)
    assert (written.throttle, written.window) == (5_000_000, Window(22 * 60, 5 * 60))
    done = Terminal(cluster, steps=[move_back]).run("undo", ONE, *options)
    assert done.exit_code == 0
    undone = f"{ONE} is undone: 1 partition with the replicas of before"
    assert done.stdout.splitlines()[-1] == undone
    again = Terminal(cluster).run("undo", ONE)
    assert again.stdout.splitlines() == ["There is nothing to undo.", undone]
    document = json.loads(Terminal(cluster).run("undo", ONE, "--json").stdout)
    assert document == {"cancellation": None, "result": "nothing_to_do", "answer": undone}


def test_undo_of_an_evacuation_says_that_the_broker_stays_evacuated() -> None:
    """The order of replicas is back; the control and the way back are for ``leaders``."""
    cluster = a_cluster()
    cluster.reach(tp(0))
    cluster.conclude(ONE, done=1)
    about = Evacuation("restart", "ann", 1_750_000_000_000)
    cluster.evacuations = Evacuations({BrokerId(2): about}, {tp(0): replicas(1, 2)})
    stays = (
        "broker 2 stays evacuated (since 2025-06-15 15:06:40Z by ann: restart): "
        "`reassigner leaders --return 2` brings its leaderships back and ends that"
    )
    dry = Terminal(cluster).run("undo", ONE, "--dry-run")
    assert stays in dry.stdout.splitlines()
    document = json.loads(Terminal(cluster).run("undo", ONE, "--dry-run", "--json").stdout)
    assert document["evacuated"] == [2]
    done = Terminal(cluster).run("undo", ONE, "--timeout", "0")
    assert f"Note: {stays}" in done.stderr.splitlines()


def test_undo_throttles_what_is_in_flight_as_well() -> None:
    """It rolls back as a part of its request, whose throttle changes; others keep theirs."""
    terminal = Terminal(a_cluster(), steps=[take_up])
    assert terminal.run("undo", ONE, "--throttle", "5MB").exit_code == 0
    limits = terminal.cluster.controls.limits
    assert limits.requests == {ONE: RequestLimits(throttle=5_000_000)}
    terminal = Terminal(a_cluster(), steps=[take_up])
    assert terminal.run("undo", ONE).exit_code == 0
    assert terminal.cluster.controls.limits.requests == {}


@pytest.mark.parametrize("verb", ["cancel", "undo"])
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_topic_or_partition_that_does_not_exist_is_an_error(
    verb: str, options: Sequence[str]
) -> None:
    """Where nothing is selected: a mistyped name looks like nothing to do."""
    for named, problem in (
        (("--topic", "nosuch"), "there is no topic nosuch"),
        (("--partition", "t-9"), "there is no partition t-9"),
    ):
        result = Terminal(a_cluster()).run(verb, *named, *options)
        assert result.exit_code == 1
        assert problem in result.stderr


def test_dry_run_writes_nothing() -> None:
    """It lists all of what would be called off."""
    terminal = Terminal(a_cluster())
    result = terminal.run("cancel", ONE, TWO, "--dry-run", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["in_progress"] == ["t-0", "u-0"]
    assert terminal.cluster.cancellation is None


def test_wait_follows_to_the_end_and_lists_what_was_skipped() -> None:
    """Exit code 3, with the reason."""
    cluster = a_cluster()
    cluster.statuses = [a_status()]
    result = Terminal(cluster, steps=[take_up, end]).run("cancel", "--all", "--yes", "--wait")
    assert result.exit_code == 3
    assert "t-9 could not be cancelled: its former replicas are unknown" in result.stdout
    assert f"Cancellation {CANCEL} is complete: 1 skipped." in result.stdout


def test_wait_counts_what_was_rolled_back() -> None:
    """For programs: counts by what became of them."""

    def complete(cluster: FakeCluster) -> None:
        cluster.cancellation = None
        cluster.record_outcome(PartitionOutcome(CANCEL, tp(0), OutcomeKind.ROLLED_BACK))
        cluster.record_outcome(PartitionOutcome(CANCEL, tp(1), OutcomeKind.CANCELLED))
        cluster.conclude(CANCEL, kind="cancel", done=5)

    terminal = Terminal(a_cluster(), steps=[take_up, complete])
    result = terminal.run("cancel", "--all", "--yes", "--wait", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["result"] == "done"
    assert document["partitions"] == {
        "cancelled": 1,
        "rolled_back": 1,
        "moved_back": 3,
        "skipped": 0,
    }


def test_without_a_leading_daemon_the_cancellation_is_written_and_reported() -> None:
    """Exit code 2: one that starts takes it up."""
    cluster = a_cluster()
    cluster.leader = None
    result = Terminal(cluster).run("cancel", ONE)
    assert result.exit_code == 2
    assert "no reassigner leads" in result.stdout
    assert cluster.cancellation is not None


def test_an_interrupt_leaves_the_cancellation_running() -> None:
    """Exit code 2."""
    terminal = Terminal(a_cluster(), steps=[take_up, KeyboardInterrupt()])
    result = terminal.run("cancel", ONE, "--wait")
    assert result.exit_code == 2
    assert terminal.cluster.cancellation is not None


# --- adding to a cancellation --------------------------------------------------------------------


def a_cancellation(
    *requests: RequestId, scope: CancelScope = CancelScope.IN_FLIGHT, reason: str = ""
) -> Cancellation:
    """Return a cancellation of requests, or of everything."""
    return Cancellation(
        ZkVersion(0), CANCEL_CZXID, 0, requests=frozenset(requests), scope=scope, reason=reason
    )


def test_what_is_selected_already_is_replaced() -> None:
    """Else it would select again what was submitted since."""
    wanted = a_cancellation(TWO, reason="b")
    for found in (a_cancellation(reason="a"), a_cancellation(ONE, reason="a")):
        both = combine(found, wanted, is_selected=True)
        assert both.requests == {TWO}
        assert both.reason == "a; b"


def test_the_scope_is_of_the_last_cancellation() -> None:
    """What an earlier one of another scope selected is on its way back."""
    wide = a_cancellation(TWO, scope=CancelScope.ALL)
    assert combine(a_cancellation(), wide, is_selected=True).scope is CancelScope.ALL
    narrow = combine(wide, a_cancellation(ONE), is_selected=True)
    assert narrow.scope is CancelScope.IN_FLIGHT
    assert narrow.requests == {ONE}


def test_requests_are_added_to_what_is_not_selected_yet() -> None:
    """A request is named: a later time selects no other."""
    both = combine(a_cancellation(ONE, reason="a"), a_cancellation(TWO, reason="b"))
    assert both.requests == {ONE, TWO}
    assert both.reason == "a; b"


P, Q = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({}, {"partitions": frozenset({P})}),
        ({}, {"requests": frozenset({ONE})}),
        ({"topics": frozenset({"t"})}, {"topics": frozenset({"u"})}),
        ({"partitions": frozenset({P})}, {"partitions": frozenset({Q})}),
        ({"partitions": frozenset({P})}, {"topics": frozenset({"u"})}),
        ({"requests": frozenset({ONE}), "topics": frozenset({"t"})}, {"topics": frozenset({"u"})}),
        ({"requests": frozenset({ONE})}, {"requests": frozenset({TWO}), "scope": CancelScope.ALL}),
        ({"scope": CancelScope.ALL}, {}),
        (
            {"requests": frozenset({ONE}), "scope": CancelScope.ALL},
            {
                "requests": frozenset({ONE}),
                "topics": frozenset({"t"}),
                "scope": CancelScope.ALL,
            },
        ),
    ],
)
def test_what_names_more_than_requests_is_selected_before_another_follows(
    found: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Both would get the time of the later one, and select what the earlier one did not mean."""
    with pytest.raises(CancellationPendingError, match="not selected its partitions yet"):
        combine(replace(a_cancellation(), **found), replace(a_cancellation(), **wanted))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({}, {}),
        ({}, {"scope": CancelScope.ALL}),
        ({"scope": CancelScope.ALL, "topics": frozenset({"t"})}, {"scope": CancelScope.ALL}),
        ({"requests": frozenset({ONE})}, {}),
        ({"partitions": frozenset({P})}, {"partitions": frozenset({P, Q})}),
        ({"partitions": frozenset({P})}, {"topics": frozenset({"t"})}),
    ],
)
def test_what_is_named_again_needs_no_wait(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """It selects all that the earlier one names, at the later time, as is wanted."""
    later = replace(a_cancellation(), **wanted)
    assert combine(replace(a_cancellation(), **found), later) == later


def test_a_move_back_that_is_in_progress_keeps_its_options() -> None:
    """Others wait for its end; what names none joins it."""
    found = replace(a_cancellation(ONE, scope=CancelScope.ALL), throttle=5)
    later = a_cancellation(TWO, scope=CancelScope.ALL)
    assert combine(found, later).throttle == 5
    assert combine(found, replace(later, throttle=5), is_selected=True).throttle == 5
    assert combine(found, a_cancellation(TWO), is_selected=True).throttle is None
    for is_selected in (False, True):
        with pytest.raises(CancellationPendingError, match="with other options"):
            combine(found, replace(later, throttle=6), is_selected=is_selected)


def test_what_cannot_be_read_is_not_added_to() -> None:
    """The daemon refuses it in a moment."""
    found = Cancellation(ZkVersion(0), Zxid(1), 0, unreadable="not JSON")
    with pytest.raises(ReassignmentConflictError, match="not JSON"):
        combine(found, a_cancellation(ONE))
