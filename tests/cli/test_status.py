"""Tests of ``reassigner status`` and ``reassigner watch``."""

from __future__ import annotations

import json

import pytest

from tests.cli.builders import FakeCluster, Terminal, a_partition, a_request, a_status

FULL = {"by": "limit", "detail": "full", "since": "2026-01-02T03:04:05.000Z"}
BUSY = a_status(
    tenure={"held": True, "epoch": 9, "since": "2026-01-02T03:04:05.000Z"},
    requests=[a_request(done=1, in_flight=1)],
    partitions={"in_flight": 1, "waiting": 0},
    in_flight=[a_partition(blocked_on=FULL, stalled=True)],
    waiting=[{"topic": "t", "partition": 1, "request": "r", "blocked_on": FULL}],
    blocked={"limit": 7},
    blocked_in_flight={"limit": 1},
    stalled={"limit": 1},
)
LINE = (
    "t-0: copying, step 1 of 3, replicas 1,2,3 -> 2,3, isr 1,2, leader 1, "
    "held up: full (limit, since 2026-01-02 03:04:05Z), STALLED"
)


def test_status_of_an_idle_leader() -> None:
    """Exit code 0: nothing is in flight and nothing waits."""
    terminal = Terminal(FakeCluster(statuses=[a_status()]))
    result = terminal.run("status")
    assert result.exit_code == 0
    assert terminal.requested == ["daemon:8095"]
    assert result.stdout.splitlines() == [
        "leader, engine native, not the controller now",
        "0 partitions in flight, 0 waiting",
    ]


def test_status_of_a_busy_leader() -> None:
    """Exit code 2, with requests and partitions by line."""
    result = Terminal(FakeCluster(statuses=[BUSY])).run("status")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "leader, engine native, controller since 2026-01-02 03:04:05Z at epoch 9",
        "request legacy-000000000000002a: in flight, 1 of 2 done, 1 in flight, 0 waiting",
        LINE,
        "t-1: waiting: full (limit, since 2026-01-02 03:04:05Z)",
        "in flight, held up: limit 1",
        "waiting, by reason: limit 6",
        "stalled: limit 1",
        "1 partition in flight, 0 waiting",
    ]


def test_phases_are_in_words_and_have_their_names_on_demand() -> None:
    """For programs they always have the names."""
    terminal = Terminal(FakeCluster(statuses=[BUSY] * 3))
    assert "A2-syncing" not in terminal.run("status").stdout
    assert "t-0: copying (A2-syncing), step 1" in terminal.run("status", "--verbose").stdout
    assert "A2-syncing" in terminal.run("status", "--json").stdout
    drawn = Terminal(FakeCluster(statuses=[BUSY] * 2), is_terminal=True)
    assert "A2-syncing" in drawn.run("status", "--verbose").stdout


def test_dead_brokers_are_problems() -> None:
    """With what they have, as far as it was counted."""
    loads = [{"broker": 4, "replicas": 12}]
    status = a_status(dead_brokers=[4], broker_loads=loads)
    printed = Terminal(FakeCluster(statuses=[status])).run("status").stdout
    assert "broker 4 is dead: it is not registered, with 12 replicas" in printed


def test_what_is_below_min_isr_is_a_problem_and_what_is_not_named_is_counted() -> None:
    """Only the first partitions of each reason are named."""
    detail = "below min.insync.replicas: 1 partition, u-1; no copy waits for them"
    waiting = {"topic": "t", "partition": 1, "request": "r", "blocked_on": FULL}
    status = a_status(
        strain={"under_min_isr": {"partitions": 1, "detail": detail}},
        waiting=[waiting],
        partitions={"in_flight": 0, "waiting": 4},
    )
    lines = Terminal(FakeCluster(statuses=[status])).run("status").stdout.splitlines()
    assert detail in lines
    assert "and 3 more partitions waiting" in lines


def test_a_held_request_is_open_and_one_cancelled_by_half_is_not_done() -> None:
    """On a terminal, among the requests with a bar; the other one among the ended ones."""
    held = {**a_request(waiting=2), "state": "held", "reason": "paused: disk swap", "share": 0.1}
    ended = {**a_request(done=1, cancelled=1), "id": "r-0", "state": "cancelled", "share": 0.5}
    status = a_status(requests=[held, ended], partitions={"in_flight": 0, "waiting": 2})
    cluster = FakeCluster(statuses=[status, status])
    printed = Terminal(cluster, is_terminal=True).run("status").stdout
    before, _, after = printed.partition("ended")
    assert "legacy-000000000000002a" in before
    assert "10%" in before
    assert "r-0: cancelled in part, 1 of 2 done, 1 cancelled" in after
    assert "request r-0: cancelled in part, 1 of 2 done" in Terminal(cluster).run("status").stdout


def test_a_request_shows_why_it_waits() -> None:
    """As the daemon gives it, beside the counts."""
    held = {**a_request(waiting=2), "state": "waiting", "reason": "paused: disk swap"}
    status = a_status(requests=[held], partitions={"in_flight": 0, "waiting": 2})
    printed = Terminal(FakeCluster(statuses=[status])).run("status").stdout
    assert "0 in flight, 2 waiting (paused: disk swap)" in printed


def test_holds_of_operators_are_shown() -> None:
    """Also while there is no work: the next request would wait."""
    about = {"reason": "disk swap", "by": "ann@desk", "since_ms": 1_750_000_000_000}
    paused = {"everything": about, "requests": {}, "brokers": {"5": {**about, "reason": ""}}}
    status = a_status(controls={"paused": paused, "disabled": True, "throttle": None})
    lines = Terminal(FakeCluster(statuses=[status])).run("status").stdout.splitlines()
    assert "everything is paused since 2025-06-15 15:06:40Z by ann@desk: disk swap" in lines
    assert "broker 5 is paused since 2025-06-15 15:06:40Z by ann@desk" in lines
    assert any(line.startswith("new reassignments are disabled") for line in lines)


def test_a_drain_says_whether_it_is_over() -> None:
    """A dead broker has no replica any more, and reassignments that involve it: it is not empty."""
    about = {"reason": "swap", "by": "ann", "since_ms": 1_750_000_000_000, "hold": None}
    rows = [(1, 11, 1, True), (2, 10, 10, False), (3, 0, 0, True), (4, 0, 0, False)]
    status = a_status(
        drains=[
            {**about, "broker": b, "replicas": left, "reassignments": moving, "live": is_live}
            for b, left, moving, is_live in rows
        ]
    )
    lines = Terminal(FakeCluster(statuses=[status])).run("status").stdout.splitlines()
    since = "since 2025-06-15 15:06:40Z by ann: swap"
    for line in (
        f"broker 1 is being drained {since}; 10 replicas left, 1 reassignment still involves it",
        f"broker 2 is being drained {since}; no replica left, 10 reassignments still involve it",
        f"broker 3 is drained {since}; empty: it can be shut down",
        f"broker 4 is drained {since}; empty: it need not return",
    ):
        assert line in lines


def test_a_cancellation_has_no_counts_of_its_own() -> None:
    """It has none: they are those of the requests it cancels."""
    done = {**a_request(), "id": "cancel-1", "state": "done"}
    done["partitions"] = dict.fromkeys(done["partitions"], 0)
    printed = Terminal(FakeCluster(statuses=[a_status(requests=[done])])).run("status").stdout
    assert "request cancel-1: done\n" in printed


def test_alter_entries_without_an_answer_are_shown() -> None:
    """Of the delegated engine; not where there are none."""
    status = a_status(orders={"unanswered": 3})
    printed = Terminal(FakeCluster(statuses=[status])).run("status").stdout
    assert "the cluster's controller has not answered for 3 partitions" in printed


def test_the_refusals_of_the_leading_daemon_are_shown() -> None:
    """Refusals to be the controller, and missing readiness."""
    status = a_status(refused_because=["/feature is enabled"], unready_because="session lost")
    printed = Terminal(FakeCluster(statuses=[status])).run("status").stdout
    assert "cannot be the controller: /feature is enabled" in printed
    assert "not ready: session lost" in printed


def test_status_for_programs_is_what_the_daemon_says() -> None:
    """Unchanged, whatever else it holds."""
    result = Terminal(FakeCluster(statuses=[BUSY])).run("status", "--json")
    assert json.loads(result.stdout) == BUSY


def test_status_may_query_a_daemon_directly() -> None:
    """Without ZooKeeper, which may be what is down."""
    terminal = Terminal(FakeCluster(statuses=[a_status()]), environ={}, unreachable=True)
    assert terminal.run("status", "--http", "10.0.0.1:8095").exit_code == 0
    assert terminal.requested == ["10.0.0.1:8095"]


@pytest.mark.parametrize(
    ("cluster", "words"),
    [(FakeCluster(leader=None), "no reassigner leads"), (FakeCluster(), "does not answer")],
)
def test_status_without_a_leader_that_answers(cluster: FakeCluster, words: str) -> None:
    """Exit code 1 and one line."""
    result = Terminal(cluster).run("status", "--timeout", "0")
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_status_waits_for_the_daemon_that_takes_over() -> None:
    """It says what it waits for, once; the new leader may be a standby for a moment."""
    cluster = FakeCluster(standbys=("other:8095",))
    terminal = Terminal(cluster)

    def take_over(_: FakeCluster) -> None:
        cluster.leader, cluster.standbys = "other:8095", ()
        cluster.statuses = [a_status(role="standby"), a_status()]

    terminal.steps = [*[lambda _: None] * 3, take_over]
    result = terminal.run("status")
    assert result.exit_code == 0
    assert result.stdout.startswith("leader, engine native")
    silent, taking_over = result.stderr.splitlines()
    assert silent == (
        "reassigner: the leading reassigner: http://daemon:8095/status does not answer: refused; "
        "a standby takes over when its session with ZooKeeper ends; waiting up to 20 s"
    )
    assert taking_over == (
        "reassigner: the reassigner at other:8095 is taking over; waiting up to 20 s"
    )
    assert terminal.requested[-1] == "other:8095"


def test_status_waits_for_no_daemon_that_does_not_run() -> None:
    """Without a session of any daemon there is no failover."""
    terminal = Terminal(FakeCluster(leader=None))
    assert terminal.run("status").exit_code == 1
    assert terminal.at == 0
    alone = Terminal(FakeCluster())
    result = alone.run("status", "--timeout", "5")
    assert result.exit_code == 1
    assert "no standby runs" in result.stderr
    assert 4 <= alone.at <= 6


def test_watch_prints_a_line_for_each_change() -> None:
    """What stays the same is not repeated."""
    terminal = Terminal(FakeCluster(statuses=[BUSY, BUSY, a_status()]))
    terminal.steps = [lambda _: None] * 3 + [KeyboardInterrupt()]
    result = terminal.run("watch")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len([x for x in lines if x.startswith("t-0:")]) == 1
    assert lines[-1] == "0 partitions in flight, 0 waiting"


def test_watch_interrupted_while_something_is_under_way() -> None:
    """Exit code 2; nothing is stopped."""
    terminal = Terminal(FakeCluster(statuses=[BUSY]), steps=[KeyboardInterrupt()])
    assert terminal.run("watch").exit_code == 2


def test_watch_may_end_when_nothing_is_left() -> None:
    """For scripts: exit code 0 at the end of the work."""
    result = Terminal(FakeCluster(statuses=[BUSY, a_status()])).run("watch", "--until-idle")
    assert result.exit_code == 0


def test_watch_survives_the_loss_of_the_leader() -> None:
    """Another one takes over."""
    cluster = FakeCluster(statuses=[])

    def come_back(found: FakeCluster) -> None:
        found.statuses = [a_status()]

    terminal = Terminal(cluster, steps=[come_back])
    result = terminal.run("watch", "--until-idle")
    assert result.exit_code == 0
    assert "does not answer" in result.stdout


def test_watch_for_programs_prints_lines_of_json() -> None:
    """One document for each change."""
    result = Terminal(FakeCluster(statuses=[BUSY, BUSY, a_status()])).run(
        "watch", "--json", "--until-idle"
    )
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert documents == [BUSY, a_status()]


def test_watch_draws_bars_on_a_terminal() -> None:
    """The partition in flight with its step, and the request."""
    terminal = Terminal(FakeCluster(statuses=[BUSY]), steps=[KeyboardInterrupt()], is_terminal=True)
    result = terminal.run("watch")
    assert "t-0" in result.stdout
    assert "1/3" in result.stdout


def test_a_standby_that_is_asked_says_where_the_leader_is() -> None:
    """Only a daemon that is named on the command line can be one."""
    for leader, words in (
        ("http://l:1", "the leader is http://l:1"),
        (None, "no daemon leads now"),
    ):
        cluster = FakeCluster(statuses=[a_status(role="standby", leader=leader)])
        terminal = Terminal(cluster, environ={}, unreachable=True)
        assert words in terminal.run("status", "--http", "a:8095").stdout
