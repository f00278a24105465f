"""Tests of ``leaders``: what it requests, what it remembers, and what its last line says."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.controls import Evacuation, Evacuations, Pauses, Quiesce
from controller.core.requests.submissions import Window
from tests.cli.builders import USER, FakeCluster, Terminal, a_status
from tests.cli.scripted_answers import AT_MS
from tests.core.builders import replicas, tp


def place(
    cluster: FakeCluster, partition: TopicPartition, order: Sequence[int], leader: int, *isr: int
) -> None:
    """Let a partition have this order, leader and ISR."""
    cluster.assign(partition, order)
    cluster.states[partition] = PartitionState(
        BrokerId(leader),
        LeaderEpoch(1),
        replicas(*(isr or order)),
        ControllerEpoch(1),
        ZkVersion(0),
    )


def carry_out(cluster: FakeCluster) -> None:
    """Let the daemon carry out what was submitted."""
    requests = {s.request: s for s in cluster.submitted.values()}
    cluster.take_up()
    for request, submission in requests.items():
        for partition, order in submission.entries.items():
            cluster.reach(partition)
            place(cluster, partition, order, order[0])
        cluster.conclude(request, done=len(submission.entries))


def refuse(cluster: FakeCluster) -> None:
    """Let the daemon refuse what was submitted."""
    (submission,) = cluster.submitted.values()
    cluster.take_up(dict.fromkeys(submission.entries, "the kill switch is set"))
    cluster.conclude(submission.request)


@pytest.fixture
def terminal() -> Terminal:
    """Return a terminal at a cluster of four brokers with three partitions."""
    cluster = FakeCluster()
    place(cluster, tp(0), (1, 2, 3), 1)
    place(cluster, tp(1), (2, 1, 3), 1)
    place(cluster, tp(2), (3, 4, 2), 3)
    return Terminal(cluster, steps=[carry_out] * 20)


def orders(terminal: Terminal) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition, in order."""
    found = terminal.cluster.topics["t"]
    assert not isinstance(found, str)
    return {tp(n): tuple(map(int, a.replicas)) for n, a in found.partitions.items()}


def test_an_evacuated_broker_is_the_last_of_every_order(terminal: Terminal) -> None:
    """Also where it led without being preferred; other partitions stay."""
    result = terminal.run("leaders", "--evacuate", "1", "--reason", "kernel")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "broker 1 leads no partition: it can be restarted"
    assert orders(terminal) == {tp(0): (2, 3, 1), tp(1): (2, 3, 1), tp(2): (3, 4, 2)}
    found = terminal.cluster.evacuations
    assert found.brokers == {BrokerId(1): Evacuation("kernel", USER, AT_MS)}
    assert found.former == {tp(0): replicas(1, 2, 3), tp(1): replicas(2, 1, 3)}
    (history,) = terminal.cluster.histories.values()
    assert history.options.elect_leaders
    assert history.options.reason == "kernel"


def test_a_broker_whose_partitions_lack_another_replica_is_not_to_be_restarted(
    terminal: Terminal,
) -> None:
    """The last line says so, of the evacuation and of the list, and the exit code is not 0."""
    terminal.run("leaders", "--evacuate", "1")
    place(terminal.cluster, tp(0), (2, 3, 1), 2, 2, 1)
    for arguments in (("--evacuate", "1"), ()):
        result = terminal.run("leaders", *arguments)
        assert result.exit_code == 2
        assert "another replica of t-0 is not in sync" in result.stdout.splitlines()[-1]


def test_a_return_restores_the_former_order_and_forgets_it(terminal: Terminal) -> None:
    """The leaderships that the broker had as preferred leader are back."""
    terminal.run("leaders", "--evacuate", "1")
    result = terminal.run("leaders", "--return", "1")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "the leaderships of broker 1 are back: it leads 1 partition"
    ]
    assert orders(terminal) == {tp(0): (1, 2, 3), tp(1): (2, 1, 3), tp(2): (3, 4, 2)}
    assert terminal.cluster.evacuations == Evacuations()


def test_several_brokers_return_in_any_order(terminal: Terminal) -> None:
    """An order follows from the former one and from the brokers that are away."""
    terminal.run("leaders", "--evacuate", "1")
    terminal.run("leaders", "--evacuate", "2")
    assert orders(terminal)[tp(0)] == (3, 1, 2)
    terminal.run("leaders", "--return", "1")
    assert orders(terminal)[tp(0)] == (1, 2, 3)
    assert orders(terminal)[tp(1)] == (3, 1, 2)
    assert terminal.run("leaders", "--return", "2").exit_code == 0
    assert orders(terminal) == {tp(0): (1, 2, 3), tp(1): (2, 1, 3), tp(2): (3, 4, 2)}
    assert terminal.cluster.evacuations == Evacuations()


def test_a_partition_without_another_replica_in_sync_is_named_and_left(terminal: Terminal) -> None:
    """The broker cannot be restarted without it."""
    place(terminal.cluster, tp(0), (1, 2, 3), 1, 1)
    place(terminal.cluster, tp(3), (1,), 1)
    result = terminal.run("leaders", "--evacuate", "1")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "t-0: no other replica is in sync",
        "t-3: it has no other",
        "broker 1 still leads 2 partitions",
    ]
    assert orders(terminal)[tp(1)] == (2, 3, 1)


def test_a_lagging_or_dead_replica_leads_nothing(terminal: Terminal) -> None:
    """The first that is in sync and live does."""
    place(terminal.cluster, tp(0), (1, 2, 3, 4), 1, 1, 3, 4)
    terminal.cluster.brokers = frozenset({1, 2, 4})
    assert terminal.run("leaders", "--evacuate", "1").exit_code == 0
    assert orders(terminal)[tp(0)] == (4, 2, 3, 1)


def test_what_is_being_reassigned_is_left(terminal: Terminal) -> None:
    """A request with copies is not superseded."""
    spec = ReassignmentSpec(
        replicas(1, 4), replicas(1, 2, 3), RequestId("request_7"), Route.REQUEST, ZkVersion(0)
    )
    terminal.cluster.specs[tp(0)] = spec
    result = terminal.run("leaders", "--evacuate", "1")
    assert result.exit_code == 2
    assert "t-0: it is being reassigned by request_7" in result.stdout


def test_partitions_that_were_changed_since_stay_and_are_named(terminal: Terminal) -> None:
    """The former order means nothing there."""
    terminal.run("leaders", "--evacuate", "1")
    place(terminal.cluster, tp(0), (4, 2, 1), 4)
    result = terminal.run("leaders", "--return", "1")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == ("t-0 left as found: its replicas are [4, 2, 1] since")
    assert orders(terminal) == {tp(0): (4, 2, 1), tp(1): (2, 1, 3), tp(2): (3, 4, 2)}


def test_topics_that_are_created_meanwhile_are_followed(terminal: Terminal) -> None:
    """The command looks again before it says that it is done."""

    def create(cluster: FakeCluster) -> None:
        place(cluster, tp(7), (1, 3), 1)
        carry_out(cluster)

    terminal.steps = [create, *terminal.steps]
    assert terminal.run("leaders", "--evacuate", "1").exit_code == 0
    assert orders(terminal)[tp(7)] == (3, 1)
    assert terminal.cluster.evacuations.former[tp(7)] == (1, 3)
    place(terminal.cluster, tp(8), (1, 4), 1)
    listed = terminal.run("leaders")
    assert listed.exit_code == 2
    assert "t-8: not requested yet; run `reassigner leaders --evacuate 1`" in listed.stdout
    assert listed.stdout.splitlines()[-1] == "broker 1 still leads 1 partition"


def test_an_interrupted_run_is_continued(terminal: Terminal) -> None:
    """What was requested is not requested again."""
    terminal.steps = [lambda c: c.take_up(), KeyboardInterrupt()]
    result = terminal.run("leaders", "--evacuate", "1")
    assert result.exit_code == 2
    assert "Interrupted" in result.stderr
    assert "t-0, t-1: being moved; see `reassigner status`" in result.stdout
    (request,) = terminal.cluster.histories

    def end(cluster: FakeCluster) -> None:
        for partition, spec in list(cluster.specs.items()):
            assert isinstance(spec, ReassignmentSpec)
            cluster.reach(partition)
            place(cluster, partition, spec.target, spec.target[0])

    terminal.steps = [end]
    assert terminal.run("leaders", "--evacuate", "1").exit_code == 0
    assert list(terminal.cluster.histories) == [request]


def test_a_return_supersedes_an_evacuation_in_progress(terminal: Terminal) -> None:
    """The way back is open at any time."""
    terminal.steps = [lambda c: c.take_up(), KeyboardInterrupt()]
    terminal.run("leaders", "--evacuate", "1")
    terminal.steps = [carry_out] * 5
    assert terminal.run("leaders", "--return", "1").exit_code == 0
    assert orders(terminal)[tp(0)] == (1, 2, 3)
    assert terminal.cluster.evacuations == Evacuations()


def test_a_replica_that_dies_before_it_leads_is_replaced(terminal: Terminal) -> None:
    """A run that waits gives the partition another leader."""

    def lag(cluster: FakeCluster) -> None:
        cluster.take_up()
        place(cluster, tp(0), (1, 2, 3), 1, 1, 3)
        cluster.reach(tp(1))
        place(cluster, tp(1), (2, 3, 1), 2)

    terminal.steps = [lag, *([lambda _: None] * 45), *([carry_out] * 20)]
    result = terminal.run("leaders", "--evacuate", "1", "--wait")
    assert result.exit_code == 0, result.stdout
    assert orders(terminal)[tp(0)] == (3, 2, 1)
    assert terminal.cluster.evacuations.former[tp(0)] == (1, 2, 3)


def test_refused_entries_are_named(terminal: Terminal) -> None:
    """With exit code 3."""
    terminal.steps = [refuse]
    result = terminal.run("leaders", "--evacuate", "1")
    assert result.exit_code == 3
    assert "was refused: the kill switch is set" in result.stdout
    assert "broker 1 still leads 2 partitions" in result.stdout


def test_nothing_is_remembered_where_nothing_may_be_submitted(terminal: Terminal) -> None:
    """As `execute`."""
    terminal.cluster.controls = type(terminal.cluster.controls)(Pauses(quiesce=Quiesce("KRaft")))
    result = terminal.run("leaders", "--evacuate", "1")
    assert result.exit_code == 3
    assert "quiesced" in result.stderr
    assert terminal.cluster.evacuations == Evacuations()


def test_the_broker_with_fewest_leaders_leads_next(terminal: Terminal) -> None:
    """Those without a choice count first; leaders elsewhere count, too, wherever they are."""
    for number in range(10, 14):
        place(terminal.cluster, tp(number), (1, 2, 3), 1)
    place(terminal.cluster, tp(20), (2, 4), 4)
    place(terminal.cluster, tp(21), (1, 2), 1)
    result = terminal.run("leaders", "--evacuate", "1", "--dry-run")
    assert result.stdout.splitlines()[-5:-1] == [
        "t-21: leader 1 -> 2, replicas 1,2 -> 2,1",
        "broker 1: leads 7 partitions now, 0 then",
        "broker 2: leads 0 partitions now, 4 then",
        "broker 3: leads 1 partition now, 4 then",
    ]
    found = json.loads(terminal.run("leaders", "--evacuate", "1", "--dry-run", "--json").stdout)
    assert found["leaders"]["2"] == {"now": 0, "then": 4}


@pytest.mark.parametrize("verb", ["--evacuate", "--return"])
def test_a_request_without_a_reason_has_its_task(terminal: Terminal, verb: str) -> None:
    """Lists would show nothing else of it."""
    if verb == "--return":
        terminal.run("leaders", "--evacuate", "2", "--evacuate", "1")
    terminal.run("leaders", verb, "2", verb, "1")
    *_, history = terminal.cluster.histories.values()
    assert history.options.reason == f"leaders {verb} 1 {verb} 2"


def test_a_leader_that_stays_is_not_listed_as_one_that_moves(terminal: Terminal) -> None:
    """Only the order of its replicas changes."""
    place(terminal.cluster, tp(0), (1, 2, 3), 2)
    result = terminal.run("leaders", "--evacuate", "1", "--dry-run")
    assert "2 -> 2" not in result.stdout
    assert "t-0: the leader stays, the order of replicas changes" in result.stdout.splitlines()


def test_a_dry_run_writes_nothing(terminal: Terminal) -> None:
    """It shows each change of a leader."""
    result = terminal.run("leaders", "--evacuate", "1", "--dry-run")
    assert result.exit_code == 0
    assert "t-0: leader 1 -> 2, replicas 1,2,3 -> 2,3,1" in result.stdout
    assert terminal.cluster.evacuations == Evacuations()
    assert not terminal.cluster.submitted
    document = json.loads(terminal.run("leaders", "--evacuate", "1", "--dry-run", "--json").stdout)
    assert document["orders"] == {"t-0": [2, 3, 1], "t-1": [2, 3, 1]}


def test_a_window_is_a_window_of_the_request(terminal: Terminal) -> None:
    """The command says when it opens, and that leaderships are left."""
    terminal.steps = [lambda c: c.take_up()]
    result = terminal.run("leaders", "--evacuate", "1", "--window", "22:00-05:00", "--timeout", "5")
    assert result.exit_code == 2
    assert "outside of the window 22:00-05:00 UTC, which opens" in result.stderr
    (history,) = terminal.cluster.histories.values()
    assert history.options.window == Window(22 * 60, 5 * 60)


def test_unknown_and_dead_brokers(terminal: Terminal) -> None:
    """A broker that does not exist is an error; leaderships return only to a live one."""
    unknown = terminal.run("leaders", "--evacuate", "9")
    assert unknown.exit_code == 1
    assert "there is no broker 9" in unknown.stderr
    assert terminal.run("leaders", "--return", "1").exit_code == 1
    assert terminal.run("leaders", "--forget", "1").exit_code == 1
    assert terminal.run("leaders", "--evacuate", "1", "--return", "2").exit_code == 1
    terminal.run("leaders", "--evacuate", "2")
    terminal.cluster.brokers = frozenset({1, 3, 4})
    dead = terminal.run("leaders", "--return", "2")
    assert dead.exit_code == 3
    assert "broker 2 is not live" in dead.stderr


def test_a_broker_that_is_gone_for_good_is_forgotten(terminal: Terminal) -> None:
    """The present order stays; what another one needs is kept."""
    terminal.run("leaders", "--evacuate", "1")
    terminal.run("leaders", "--evacuate", "2")
    assert terminal.run("leaders", "--forget", "1").exit_code == 0
    assert terminal.cluster.evacuations.brokers.keys() == {2}
    assert terminal.run("leaders", "--forget", "2").exit_code == 0
    assert terminal.cluster.evacuations == Evacuations()
    assert orders(terminal)[tp(0)] == (3, 1, 2)
    assert terminal.run("leaders").stdout == "no broker is evacuated\n"


def test_the_result_as_json(terminal: Terminal) -> None:
    """With what is left, and the partitions that another replica is missing of."""
    place(terminal.cluster, tp(2), (1, 4, 2), 4, 4, 1)
    place(terminal.cluster, tp(3), (1,), 1)
    document = json.loads(terminal.run("leaders", "--evacuate", "1", "--json").stdout)
    assert document == {
        "brokers": [{"broker": 1, "leads": 1, "under_replicated": []}],
        "requests": ["request_0000000004"],
        "problems": [],
        "changed": {},
        "left": {"t-3": "it has no other"},
        "under_way": [],
        "result": "in_progress",
    }
    listed = json.loads(terminal.run("leaders", "--json").stdout)
    assert listed["evacuated"][0]["broker"] == 1
    assert listed["evacuated"][0]["leads"] == 1


def test_status_and_explain_have_the_verdict(terminal: Terminal) -> None:
    """An operator looks there for whether the broker can be restarted."""
    terminal.run("leaders", "--evacuate", "1", "--reason", "kernel")
    verdict = "broker 1 leads no partition: it can be restarted"
    evacuated = {"broker": 1, "reason": "kernel", "by": USER, "since_ms": AT_MS}
    told = a_status(evacuations=[{**evacuated, "returning": False, "verdict": None}])
    terminal.cluster.statuses = [told]
    words = f"leaderships evacuated since 2025-06-15 15:06:40Z by {USER}: kernel; {verdict}"
    assert f"broker 1: {words}" in terminal.run("status").stdout.splitlines()
    document = json.loads(terminal.run("status", "--json").stdout)
    assert document["evacuations"][0]["verdict"] == verdict
    assert f"  evacuated   broker 1: {words}" in terminal.run("explain", "t-0").stdout.splitlines()
    place(terminal.cluster, tp(9), (1, 2), 1)
    assert "broker 1 still leads 1 partition" in terminal.run("status").stdout
