"""Tests of ``reassigner list``, and of ``reassigner verify REQUEST``."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from controller.core.model import Instant, OutcomeKind, PartitionOutcome, RequestId, Route, Zxid
from controller.core.requests.model import Request
from controller.core.requests.outcomes import Part, RequestHistory, Summary
from controller.core.requests.submissions import RequestOptions
from controller.telemetry.advice import count_words
from controller.znodes.cancellations import KillSwitch
from controller.znodes.plans import encode_submission
from tests.cli.builders import FakeCluster, Terminal, a_request, a_status
from tests.cli.scripted_answers import AT_MS, CANCEL
from tests.core.builders import replicas, tp

FIRST = RequestId("request_0000000004")
OPTIONS = RequestOptions(reason="new rack", requested_by="ann", throttle=50_000_000)


@pytest.fixture
def cluster() -> FakeCluster:
    """Return a cluster with a submitted request for three partitions."""
    found = FakeCluster()
    plan = {tp(n): replicas(2, 3) for n in range(3)}
    for partition in plan:
        found.assign(partition, (1, 2))
    found.submit(encode_submission(plan, OPTIONS))
    return found


def test_what_is_not_accepted_yet_is_listed(cluster: FakeCluster) -> None:
    """There may be no leading daemon."""
    result = Terminal(cluster).run("list")
    assert result.exit_code == 0
    line = f"{FIRST}: not accepted yet, 3 partitions, submitted 2025-06-15 15:06:40Z"
    assert f"{line}, by ann: new rack" in result.stdout.splitlines()


def test_an_open_request_is_counted_from_zookeeper_alone(cluster: FakeCluster) -> None:
    """The daemon does not answer."""
    cluster.take_up({tp(2): "no such broker"})
    cluster.reach(tp(0))
    result = Terminal(cluster).run("list")
    assert f"{FIRST}: 1 of 3 done, 1 open, 1 refused" in result.stdout


def test_an_open_request_is_described_by_the_daemon(cluster: FakeCluster) -> None:
    """Where it answers, it knows more."""
    cluster.take_up()
    documented = {**a_request(total=3, in_flight=2, waiting=1), "id": FIRST}
    cluster.statuses = [a_status(requests=[documented])]
    assert "2 in flight, 1 waiting" in Terminal(cluster).run("list").stdout
    document = json.loads(Terminal(cluster).run("list", "--json").stdout)
    assert document["daemon_answers"] is True
    assert document["requests"][0]["partitions"]["in_flight"] == 2
    assert document["requests"][0]["reason"] == "new rack"


def test_holds_are_listed(cluster: FakeCluster) -> None:
    """The kill switch, pauses, a cancellation, the queue."""
    terminal = Terminal(cluster)
    terminal.run("pause", "--broker", "4")
    cluster.switch = KillSwitch("incident", since_ms=AT_MS)
    cluster.create_queue({tp(9): replicas(1)})
    printed = terminal.run("list").stdout
    assert "disabled since 2025-06-15 15:06:40Z: incident" in printed
    assert "broker 4 is paused" in printed
    assert "1 partition in the queue" in printed


def test_with_nothing_open_it_says_so() -> None:
    """Exit code 0."""
    result = Terminal(FakeCluster()).run("list")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["No request is open."]


def test_history_lists_what_ended_the_newest_first(cluster: FakeCluster) -> None:
    """When, who, why, how many, how much."""
    cluster.take_up({tp(2): "no such broker"})
    cluster.reach(tp(0))
    cluster.call_off(tp(1), OutcomeKind.ROLLED_BACK)
    cluster.conclude(FIRST, done=1)
    cluster.record_outcome(PartitionOutcome(CANCEL, tp(1), OutcomeKind.SKIPPED))
    cluster.conclude(CANCEL, kind="cancel")
    result = Terminal(cluster).run("list", "--history")
    first, second = result.stdout.splitlines()
    assert first.startswith(f"2025-06-15 15:06:41Z  {CANCEL} (cancel)")
    assert second == (
        f"2025-06-15 15:06:40Z  {FIRST} (request): 1 of 3 done, 1 refused, 1 cancelled, "
        "2.5 MB moved, by ann: new rack"
    )
    limited = Terminal(cluster).run("list", "--history", "--limit", "1", "--json")
    assert [r["id"] for r in json.loads(limited.stdout)["requests"]] == [CANCEL]


def undone(cluster: FakeCluster, entries: int = 3) -> None:
    """Let all entries of the request be done, and a cancellation undo some of them."""
    cluster.take_up()
    for number in range(3):
        cluster.reach(tp(number))
    cluster.conclude(FIRST, done=3)
    cluster.conclude(CANCEL, kind="cancel")
    part = Part("0", 0, AT_MS, undoes={FIRST: entries})
    cluster.histories[CANCEL] = replace(cluster.histories[CANCEL], parts={"0": part})


def test_an_undone_request_is_not_done(cluster: FakeCluster) -> None:
    """In the history, and by itself; the cancellation says what it undid."""
    undone(cluster)
    terminal = Terminal(cluster)
    listed = terminal.run("list", "--history").stdout
    assert f"{FIRST} (request): 0 of 3 done, 3 undone, 2.5 MB moved, undone by {CANCEL}" in listed
    assert f"{CANCEL} (undo): 2.5 MB moved, undoes {FIRST} (3 partitions)" in listed
    first, second = json.loads(terminal.run("list", "--history", "--json").stdout)["requests"]
    if first["id"] == FIRST:
        first, second = second, first
    assert (first["undoes"], first["total"]) == ({FIRST: 3}, 0)
    assert (second["state"], second["undone_by"], second["done"]) == ("undone", CANCEL, 0)
    alone = json.loads(terminal.run("list", FIRST, "--json").stdout)
    assert (alone["partitions"]["undone"], alone["partitions"]["done"]) == (3, 0)
    assert alone["summary"]["state"] == "undone"


def test_what_was_undone_in_part_is_counted(cluster: FakeCluster) -> None:
    """The rest is done."""
    undone(cluster, 1)
    listed = Terminal(cluster).run("list", "--history").stdout
    assert "2 of 3 done, 1 undone" in listed
    screen = Terminal(cluster, is_terminal=True).run("list", "--history").stdout
    assert "1 undone" in screen


def test_a_request_that_is_being_undone_says_so(cluster: FakeCluster) -> None:
    """Its cancellation has not ended."""
    undone(cluster)
    cluster.histories[CANCEL] = replace(cluster.histories[CANCEL], summary=None)
    assert f"being undone by {CANCEL}" in Terminal(cluster).run("list", "--history").stdout
    assert f"undoes {FIRST} (3 partitions)" in Terminal(cluster).run("list").stdout
    assert Terminal(cluster).run("verify", FIRST).exit_code == 2


def test_a_drain_with_nothing_left_to_do_is_in_the_history(cluster: FakeCluster) -> None:
    """It stands until it is stopped, and its request has no outcome until then."""
    name = RequestId("drain-000000000000000a")
    cluster.histories[name] = RequestHistory(request=name, czxid=Zxid(10))
    known = {**a_request(total=4, done=4), "id": name, "kind": "drain", "state": "standing"}
    known |= {"asked_for": "disks", "requested_by": "ann", "bytes": None}
    cluster.statuses = [a_status(requests=[known])] * 2
    listed = Terminal(cluster).run("list", "--history").stdout
    assert f"{name} (drain): 4 of 4 done, standing, by ann: disks" in listed
    listed = Terminal(cluster).run("list").stdout
    assert f"{name}: standing, 4 of 4 done" in listed
    assert ": disks" in listed


def test_page_and_commands_count_a_cancelled_request_alike(cluster: FakeCluster) -> None:
    """What was cancelled before its first step, and what was rolled back."""
    fates = {OutcomeKind.CANCELLED: 1, OutcomeKind.ROLLED_BACK: 2}
    summary = Summary(request=FIRST, kind="request", total=4, done=1, fates=fates)
    request = Request(Route.REQUEST, Instant(0.0), kind="request", total=4, fates=Counter(fates))
    assert summary.counts() == request.counts()
    assert list(count_words(summary.counts())) == ["1 of 4 done", "3 cancelled"]
    cluster.histories[FIRST] = RequestHistory(request=FIRST, czxid=Zxid(1), summary=summary)
    assert "1 of 4 done, 3 cancelled" in Terminal(cluster).run("list", "--history").stdout
    assert "1 of 4 done, 3 cancelled" in Terminal(cluster).run("verify", FIRST).stdout


def test_one_request_is_shown_in_full(cluster: FakeCluster) -> None:
    """Its wishes, parts, refused entries and endings."""
    cluster.take_up({tp(2): "no such broker"})
    cluster.call_off(tp(1), OutcomeKind.SUPERSEDED, "by request_0000000009")
    result = Terminal(cluster).run("list", FIRST)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"{FIRST}: 0 of 3 done, 1 waiting, 1 refused, 1 superseded"
    assert "throttle: 50 MB/s (as submitted)" in lines
    assert f"part {FIRST}: 3 partitions, submitted 2025-06-15 15:06:40Z" in lines
    assert "t-2 -> [2, 3] was refused: no such broker" in lines
    assert "t-1 was superseded: by request_0000000009" in lines
    document = json.loads(Terminal(cluster).run("list", FIRST, "--json").stdout)
    assert document["options"]["throttle"] == 50_000_000
    assert [e["state"] for e in document["entries"]] == ["accepted", "superseded"]


def test_what_was_changed_since_the_submission_is_shown(cluster: FakeCluster) -> None:
    """With what was submitted."""
    terminal = Terminal(cluster)
    terminal.run("throttle", "400KB", "--request", FIRST)
    terminal.run("limits", "--priority", "5", "--window", "22:00-05:00", "--request", FIRST)
    lines = terminal.run("list", FIRST).stdout.splitlines()
    assert "throttle: 400 KB/s (set live; submitted with 50 MB/s)" in lines
    assert "priority: 5 (set live)" in lines
    document = json.loads(terminal.run("list", FIRST, "--json").stdout)
    assert document["options"]["throttle"] == 50_000_000
    live = {"priority": 5, "throttle": 400_000, "window": "22:00-05:00 UTC"}
    assert document["set_live"] == live
    terminal.run("throttle", "none", "--request", FIRST)
    lifted = terminal.run("list", FIRST).stdout
    assert "throttle: none (set live; submitted with 50 MB/s)" in lifted.splitlines()


@pytest.mark.parametrize("verb", ["list", "verify"])
def test_an_unknown_request_is_an_error(verb: str) -> None:
    """Exit code 1 and one line."""
    result = Terminal(FakeCluster()).run(verb, "request_0000000099")
    assert result.exit_code == 1
    assert "request_0000000099 is not known" in result.stderr


# --- verify --------------------------------------------------------------------------------------


def test_verify_follows_a_request_from_its_submission_to_its_end(cluster: FakeCluster) -> None:
    """Exit code 2 until the summary is there, then 0 as long as the replicas are as requested."""
    terminal = Terminal(cluster)
    assert terminal.run("verify", FIRST).exit_code == 2
    cluster.take_up()
    result = terminal.run("verify", FIRST)
    assert result.exit_code == 2
    assert "Reassignment of partition t-0 is still in progress." in result.stdout
    for number in range(3):
        cluster.reach(tp(number))
    cluster.conclude(FIRST, done=3)
    result = terminal.run("verify", FIRST)
    assert result.exit_code == 0
    assert "Reassignment of partition t-0 is completed." in result.stdout
    assert f"{FIRST}: 3 of 3 done" in result.stdout
    cluster.assign(tp(0), (1, 4))
    result = terminal.run("verify", FIRST)
    assert result.exit_code == 1
    assert "t-0 was completed, and was changed since by another client" in result.stdout


def test_verify_reports_a_cancelled_request(cluster: FakeCluster) -> None:
    """Exit code 4."""
    cluster.take_up()
    cluster.reach(tp(0))
    cluster.call_off(tp(1), OutcomeKind.ROLLED_BACK)
    cluster.call_off(tp(2), OutcomeKind.CANCELLED)
    cluster.conclude(FIRST, done=1)
    result = Terminal(cluster).run("verify", FIRST)
    assert result.exit_code == 4
    assert "t-1 was rolled back" in result.stdout
    document = json.loads(Terminal(cluster).run("verify", FIRST, "--json").stdout)
    assert document["partitions"]["rolled_back"] == 1
    assert [e["fate"] for e in document["endings"]] == ["rolled_back", "cancelled"]


def test_verify_reports_a_request_that_was_refused_in_part(cluster: FakeCluster) -> None:
    """Exit code 3."""
    cluster.take_up({tp(2): "no such broker"})
    cluster.reach(tp(0))
    cluster.reach(tp(1))
    cluster.conclude(FIRST, done=2)
    result = Terminal(cluster).run("verify", FIRST)
    assert result.exit_code == 3
    assert "t-2 -> [2, 3] was refused: no such broker" in result.stdout
