"""Tests of ``reassigner explain``."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from controller.core.model import (
    BlockedBy,
    BrokerId,
    OutcomeKind,
    PartitionOutcome,
    ReassignmentSpec,
    Refusal,
    RefusalReason,
    RequestId,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.model import Orphan
from controller.core.requests.outcomes import RequestHistory, Summary
from controller.core.requests.submissions import AcceptedEntry, LegacyPlan
from controller.telemetry.advice import ADVICE, PHASE_MEANINGS, advice_for, remedy_for
from tests.cli.builders import CZXID, REQUEST, FakeCluster, Terminal
from tests.core.builders import replicas, tp
from tests.telemetry.builders import partition_state

SINCE = "2026-01-02T03:04:05.000Z"
SHOWN = "2026-01-02 03:04:05Z"


def explained(**parts: Any) -> dict[str, Any]:  # noqa: ANN401 - a document's values
    """Return what a daemon says of a partition in flight."""
    moved = {
        "request": REQUEST,
        "phase": "A2-syncing",
        "phase_since": SINCE,
        "step": 2,
        "steps": 4,
        "blocked_on": {"by": "broker_dead", "detail": "broker 4 is not live", "since": SINCE},
        "stalled": True,
    }
    return {
        "reassignment": moved,
        "not_accepted_because": None,
        "steps_to_come": [
            {"target": [0, 3, 4, 5], "adding": [5], "dropping": [2]},
            {"target": [3, 4, 5], "adding": [], "dropping": [0]},
        ],
        **parts,
    }


def a_moving_cluster() -> FakeCluster:
    """Return a cluster with one partition in the second step of four."""
    cluster = FakeCluster(brokers=frozenset({0, 1, 2, 3, 5}))
    cluster.assign(tp(), (0, 2, 3, 4, 1), adding=(4,), removing=(1,))
    cluster.accept(tp(), (3, 4, 5), (0, 1, 2))
    cluster.states[tp()] = partition_state(0, (0, 2, 3), leader_epoch=5)
    return cluster


def test_a_partition_in_flight_is_explained_whole() -> None:
    """Where it is, what it waits for, what to do, and what comes next."""
    cluster = a_moving_cluster()
    cluster.explanations[tp()] = explained()
    terminal = Terminal(cluster)
    result = terminal.run("explain", "t-0")
    assert result.exit_code == 0
    assert terminal.requested == ["daemon:8095 t-0"]
    assert result.stdout.splitlines() == [
        "t-0 is being reassigned",
        "  replicas    0,2,3,4,1 (adding 4, removing 1)",
        "  leader      0, leader epoch 5",
        "  ISR         0,2,3",
        "  not live    broker 4",
        "  original    0,1,2",
        f"  request     {REQUEST} (legacy)",
        "  target      3,4,5",
        f"  phase       copying since {SHOWN} (A2-syncing: {PHASE_MEANINGS['A2-syncing']})",
        "  step        2 of 4",
        f"  blocked     broker 4 is not live (broker_dead, since {SHOWN}), STALLED",
        f"  what to do  {advice_for(BlockedBy.BROKER_DEAD, REQUEST)}",
        "  steps to come, if nothing changes:",
        "    3. 0,3,4,5: add 5, drop 2",
        "    4. 3,4,5: drop 0",
    ]


def test_a_partition_between_two_steps_is_being_reassigned() -> None:
    """By the daemon, and by ZooKeeper alone where the record has the original replicas."""
    cluster = a_moving_cluster().assign(tp(), (0, 2, 3))
    words = "t-0 is being reassigned, between two steps\n"
    document = explained()
    blocked = {"by": "paused", "detail": "everything is paused", "since": SINCE}
    document["reassignment"] |= {"phase": "pending", "begun": True, "blocked_on": blocked}
    cluster.explanations[tp()] = document
    printed = Terminal(cluster).run("explain", "t-0").stdout
    assert printed.startswith(words)
    assert f"  phase       between two steps since {SHOWN} (pending: " in printed
    assert f"  held up     everything is paused (paused, since {SHOWN}), STALLED\n" in printed
    cluster.leader = None
    assert Terminal(cluster).run("explain", "t-0").stdout.startswith(words)
    cluster.assign(tp(), (0, 1, 2))
    printed = Terminal(cluster).run("explain", "t-0").stdout
    assert printed.startswith("t-0 is to be reassigned, no step is in flight\n")


def test_the_remedy_names_the_request_and_the_brokers() -> None:
    """So that its command can be pasted; without them, it has placeholders."""
    cluster = a_moving_cluster()
    document = explained()
    document["reassignment"] |= {
        "isr": [0, 2],
        "adding_replicas": [4],
        "target_replicas": [0, 2, 3, 4],
    }
    cluster.explanations[tp()] = document
    document["reassignment"]["replicas"] = [0, 2, 3, 4]
    command = f"`reassigner limits --request {REQUEST} --tolerate-lagging 3`"
    assert command in Terminal(cluster).run("explain", "t-0").stdout
    told = json.loads(Terminal(cluster).run("explain", "t-0", "--json").stdout)
    assert command in told["what_to_do"]
    document["reassignment"] |= {"isr": [0, 2, 3]}
    cluster.explanations[tp()] = document
    assert "tolerate-lagging" not in Terminal(cluster).run("explain", "t-0").stdout
    for by in BlockedBy:
        words = advice_for(by, REQUEST, [3])
        assert words is not None
        assert not re.search(r"\b(ID|BROKER)\b", words)


@pytest.mark.parametrize("stalled", [False, True])
def test_a_partition_that_copies_is_not_explained_as_blocked(*, stalled: bool) -> None:
    """What to do is said only where it takes too long."""
    cluster = a_moving_cluster()
    document = explained()
    document["reassignment"] |= {
        "state": "copying",
        "blocked_on": None,
        "adding_replicas": [4],
        "isr": [0, 2, 3],
        "stalled": stalled,
    }
    cluster.explanations[tp()] = document
    printed = Terminal(cluster).run("explain", "t-0").stdout
    assert f"  state       copying to 4 (since {SHOWN})\n" in printed
    assert "blocked" not in printed
    assert ("STALLED" in printed) is stalled
    remedy = advice_for(BlockedBy.REPLICA_NOT_IN_ISR, REQUEST)
    assert remedy is not None
    assert (remedy in printed) is stalled
    document = json.loads(Terminal(cluster).run("explain", "t-0", "--json").stdout)
    assert (document["state"], document["blocked_on"]) == ("copying", None)


def test_without_a_daemon_zookeeper_alone_explains() -> None:
    """And says so; the steps are those of our own setting."""
    both = Terminal(a_moving_cluster().assign(tp(1), (1, 2))).run("explain", "t-0", "t-1")
    assert both.exit_code == 0
    lines = both.stdout.splitlines()
    assert (lines[0], "t-1 is not being reassigned" in lines) == ("t-0 is being reassigned", True)
    as_json = ("explain", "t-0", "t-1", "--json")
    document = json.loads(Terminal(a_moving_cluster().assign(tp(1), (1, 2))).run(*as_json).stdout)
    assert [p["partition"] for p in document["partitions"]] == [0, 1]
    result = Terminal(a_moving_cluster()).run("explain", "t", "0")
    assert result.exit_code == 0
    assert "by ZooKeeper alone: http://daemon:8095/explain does not answer" in result.stderr
    assert "phase" not in result.stdout
    assert result.stdout.splitlines()[-3:] == [
        "  steps to come, at step size 1, if nothing changes:",
        "    1. 0,3,4,5: add 5, drop 2",
        "    2. 3,4,5: drop 0",
    ]


def test_explain_reports_that_no_daemon_leads() -> None:
    """It is not an error: there may be none just now."""
    cluster = a_moving_cluster()
    cluster.leader = None
    result = Terminal(cluster).run("explain", "t-0", "--json")
    document = json.loads(result.stdout)
    assert (document["daemon"], document["daemon_problem"]) == (None, "no reassigner leads")
    assert document["standing"] == "moving"
    assert len(document["steps_to_come"]) == 2


def test_a_partition_at_rest_says_so_and_how_its_last_request_ended() -> None:
    """A refusal of the partition explains its assignment; refusals of others do not."""
    cluster = FakeCluster(leader=None).assign(tp(), (1, 2))
    cluster.states[tp()] = partition_state(1, (1,))
    refusals = (
        Refusal(REQUEST, "t-01 -> [9]", RefusalReason.UNKNOWN_BROKER, "not this one"),
        Refusal(REQUEST, "t-0 -> [9]", RefusalReason.UNKNOWN_BROKER, "broker 9 is not live"),
    )
    cluster.ended = (
        Summary(request=REQUEST, kind="legacy", total=len(refusals), done=0, refused=refusals),
    )
    lines = Terminal(cluster).run("explain", "t-0").stdout.splitlines()
    assert lines == [
        "t-0 is not being reassigned",
        "  replicas    1,2",
        "  leader      1, leader epoch 5",
        "  ISR         1",
        f"  refused     t-0 -> [9] of {REQUEST}: broker 9 is not live",
    ]


def test_the_last_request_that_did_not_reach_its_target_is_named() -> None:
    """The newest of those where something was cancelled, rolled back, skipped or superseded."""
    cluster = FakeCluster(leader=None).assign(tp(), (1, 2))
    for name, fate in (("old", OutcomeKind.ROLLED_BACK), ("new", OutcomeKind.SUPERSEDED)):
        request = RequestId(name)
        rows = (
            PartitionOutcome(request, tp(), fate, by=RequestId("another")),
            PartitionOutcome(request, tp(1), OutcomeKind.CANCELLED),
        )
        summary = Summary(request=request, kind="request", total=2, done=0, fates={fate: 2})
        cluster.ended = (summary, *cluster.ended)
        cluster.histories[request] = RequestHistory(
            request=request, czxid=Zxid(1), endings=rows, summary=summary
        )
    text = Terminal(cluster).run("explain", "t-0").stdout
    assert text.splitlines()[-1] == "  ended       new: t-0 was superseded: by another"
    document = json.loads(Terminal(cluster).run("explain", "t-0", "--json").stdout)
    ending_row = {"request": "new", "fate": "superseded", "detail": "by another"}
    assert document["last_ending"] == ending_row


def test_a_newer_request_that_is_done_replaces_a_refusal_and_an_ending() -> None:
    """What went wrong before it says nothing about the partition any more."""
    cluster = FakeCluster(leader=None).assign(tp(), (1, 2))
    old, new = RequestId("old"), RequestId("new")
    row = PartitionOutcome(old, tp(), OutcomeKind.CANCELLED)
    refusal = Refusal(old, "t-0 -> [9]", RefusalReason.UNKNOWN_BROKER, "broker 9 is not live")
    summary = Summary(
        request=old,
        kind="request",
        total=2,
        done=0,
        refused=(refusal,),
        fates={OutcomeKind.CANCELLED: 1},
    )
    done = Summary(request=new, kind="request", total=1, done=1)
    cluster.ended = (done, summary)
    cluster.histories[old] = RequestHistory(
        request=old, czxid=Zxid(1), endings=(row,), summary=summary
    )
    cluster.accepted[new] = [AcceptedEntry(tp(1), replicas(1), replicas(2))]
    text = Terminal(cluster).run("explain", "t-0").stdout
    assert "  ended " in text
    assert "  refused " in text
    cluster.accepted[new] = [AcceptedEntry(tp(), replicas(1), replicas(1, 2))]
    text = Terminal(cluster).run("explain", "t-0").stdout
    assert "  ended " not in text
    assert "  refused " not in text


def test_a_reassignment_without_our_record_is_foreign() -> None:
    """The topic znode names replicas, and no record of ours does."""
    cluster = FakeCluster(leader=None).assign(tp(), (1, 2, 3), adding=(3,), removing=(1,))
    document = json.loads(Terminal(cluster).run("explain", "t-0", "--json").stdout)
    assert (document["standing"], document["target_replicas"]) == ("foreign", [2, 3])
    assert document["original_replicas"] is None


def test_an_entry_that_is_not_accepted_says_what_it_waits_for() -> None:
    """With advice."""
    cluster = FakeCluster().assign(tp(), (1, 2))
    cluster.plan = LegacyPlan({tp(): replicas(1, 3)}, ZkVersion(0), CZXID)
    wait = {"by": "config_unknown", "detail": "min.insync.replicas is unknown: refused"}
    cluster.explanations[tp()] = explained(
        reassignment=None, not_accepted_because={**wait, "since": None}, steps_to_come=[]
    )
    printed = Terminal(cluster).run("explain", "t-0").stdout
    assert "t-0 is in the plan, not accepted yet" in printed
    assert "  blocked     min.insync.replicas is unknown: refused (config_unknown)\n" in printed
    assert "    1. 1,2,3: add 3\n    2. 1,3: drop 2\n" in printed


def test_records_of_a_partition_are_listed() -> None:
    """Orphans with whether their broker lives; what cannot be decoded with its reason."""
    cluster = FakeCluster(leader=None, deletions=frozenset({"t"})).assign(tp(), (1, 9))
    cluster.specs[tp()] = "not JSON"
    cluster.states[tp()] = "the node is empty"
    cluster.orphans = (Orphan(BrokerId(3), tp(), Zxid(9), "not live"), "the node is empty")
    printed = Terminal(cluster).run("explain", "t-0").stdout
    for line in (
        "t-0 is to be reassigned, no step is in flight",
        "  record      cannot be decoded: not JSON",
        "  state       cannot be decoded: the node is empty",
        "  topic       is queued for deletion, which waits for broker 9",
        "  orphan      broker 3 (live) may still hold an old copy, as its broker was not live",
        "  orphan      a record cannot be decoded: the node is empty",
    ):
        assert line in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("u-0",), "there is no topic u"),
        (("t-7",), "topic t has no partition 7"),
        (("t", "0", "1"), "is not a partition"),
        (("t-0", "t"), "is not a partition"),
        (("u",), "there is no topic u"),
        (("broken",), "the topic znode of broken cannot be decoded: not JSON"),
        (("broken-0",), "the topic znode of broken cannot be decoded: not JSON"),
    ],
)
def test_what_does_not_exist_is_an_error(words: tuple[str, ...], message: str) -> None:
    """Exit code 1 and one line."""
    cluster = FakeCluster().assign(tp(), (1, 2))
    cluster.topics["broken"] = "not JSON"
    result = Terminal(cluster).run("explain", *words)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_the_partitions_of_a_topic_are_listed() -> None:
    """With what a reassignment is to make of them."""
    cluster = a_moving_cluster().assign(tp(1), (2, 3))
    cluster.states[tp(1)] = partition_state(2, (2,))
    request = cluster.specs[tp()]
    assert isinstance(request, ReassignmentSpec)
    lines = Terminal(cluster).run("explain", "t").stdout.splitlines()
    assert lines[0].endswith(f", target 3,4,5 ({request.request})")
    assert lines[1:] == [
        "t-1: replicas 2,3, leader 2, ISR 2",
        "`reassigner explain t-0` explains one.",
    ]
    found = json.loads(Terminal(cluster).run("explain", "t", "--json").stdout)["partitions"]
    assert found[1] == {
        "topic": "t",
        "partition": 1,
        "replicas": [2, 3],
        "leader": 2,
        "isr": [2],
        "target_replicas": None,
        "request": None,
    }


def test_a_remedy_names_the_partition() -> None:
    """What is copied from there has no gap to fill."""
    moved = {**explained()["reassignment"], "topic": "t", "partition": 0}
    assert "`reassigner cancel --partition t-0`" in str(remedy_for(moved))


def test_there_is_advice_for_every_reason() -> None:
    """And none is made up for a reason of a newer daemon."""
    assert set(ADVICE) == set(BlockedBy)
    assert advice_for("limit") == ADVICE[BlockedBy.LIMIT]
    assert advice_for("the moon") is None
