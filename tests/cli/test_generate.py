"""Tests of ``reassigner generate``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.core.model import BrokerId, LogDir, ReassignmentSpec
from controller.core.requests.submissions import Submission
from controller.doctor.broker_answers import BrokerAnswers, Disks
from tests.cli.builders import FakeCluster, Terminal
from tests.core.builders import tp


@pytest.fixture
def cluster() -> FakeCluster:
    """Give four brokers and three partitions on the first three."""
    found = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (2, 3)).assign(tp(2), (3, 1))
    disks = Disks(frozenset({tp(0), tp(1)}), sizes={tp(0): 500, tp(1): 300})
    answers = BrokerAnswers(disks={BrokerId(1): disks, BrokerId(2): "no answer in time"})
    found.snapshot = replace(found.snapshot, brokers=answers)
    return found


def proposed(stdout: str) -> dict[str, list[int]]:
    """Return the replicas of a printed proposal."""
    line = stdout.splitlines()[4]
    return {f"{p['topic']}-{p['partition']}": p["replicas"] for p in json.loads(line)["partitions"]}


def document(cluster: FakeCluster, *arguments: str) -> Any:  # noqa: ANN401 - a document
    """Run the verb for a program."""
    result = Terminal(cluster).run("generate", "t", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_broker_is_emptied_with_the_fewest_copies(cluster: FakeCluster) -> None:
    """Only what it holds moves; the sizes of those that answered are summed up."""
    result = Terminal(cluster).run("generate", "t", "--drain", "3")
    assert result.exit_code == 0
    assert proposed(result.stdout) == {"t-1": [2, 4], "t-2": [1, 4]}
    former = Terminal(cluster).run("generate", "t", "--remove-broker", "3")
    assert former.stdout == result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == "Note: the sizes of the replicas on broker 2 are unknown."
    assert lines[1] == (
        "2 of 3 partitions to change; 2 replicas to copy (300 B), no plan copies fewer."
    )
    current = json.loads(result.stdout.splitlines()[1])["partitions"]
    assert [p["replicas"] for p in current] == [[2, 3], [3, 1]]


def test_a_new_broker_gets_its_share(cluster: FakeCluster) -> None:
    """Six replicas on four brokers: one is the least of an even share."""
    found = document(cluster, "--add", "4")
    assert found["replicas"]["4"] == [0, 1]
    assert found["replicas_copied"] == found["replicas_copied_min"] == 1


def test_brokers_come_out_even(cluster: FakeCluster) -> None:
    """Replicas and leaders; every broker appears, before and after."""
    found = document(cluster, "--rebalance")
    assert sorted(after for _, after in found["replicas"].values()) == [1, 1, 2, 2]
    assert max(after for _, after in found["leaders"].values()) == 1
    assert found["bytes_copied"] is not None


def test_the_replication_factor_is_changed(cluster: FakeCluster) -> None:
    """Up, with a replica for each partition; and down, copying nothing."""
    assert document(cluster, "--replication-factor", "3")["replicas_copied"] == 3
    assert document(cluster, "--replication-factor", "1")["replicas_copied"] == 0


def test_topics_are_chosen_by_name_by_file_and_by_expression(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """An unknown name is reported; matching topics are left out."""
    for topic in ("u", "u2"):
        cluster.assign(tp(0, topic), (1, 2))
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"topics": [{"topic": "u"}]}))
    drain = ("--drain", "2")

    def moved(*arguments: str) -> set[str]:
        result = Terminal(cluster).run("generate", *arguments, *drain)
        assert result.exit_code == 0, result.stderr
        return set(proposed(result.stdout))

    assert moved("--topics-to-move-json-file", str(path)) == {"u-0"}
    assert moved("--all-topics", "--exclude-topics", "u.*") == {"t-0", "t-1"}
    assert moved("--all-topics", "--exclude-topics", "u") == {"t-0", "t-1", "u2-0"}
    result = Terminal(cluster).run("generate", "nowhere", *drain)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "reassigner: there is no topic nowhere\n"


def test_what_is_being_reassigned_is_left_out(cluster: FakeCluster) -> None:
    """And reported."""
    cluster.assign(tp(1), (2, 3, 4), adding=(4,))
    result = Terminal(cluster).run("generate", "t", "--drain", "3")
    assert set(proposed(result.stdout)) == {"t-2"}
    assert "left out, because they are reassigning: t-1" in result.stderr


def test_a_dead_broker_is_not_emptied_by_chance(cluster: FakeCluster) -> None:
    """Only with the option for it."""
    cluster.brokers = frozenset({1, 2, 4})
    result = Terminal(cluster).run("generate", "t", "--rebalance")
    assert result.exit_code == 1
    assert "broker 3 has replicas and is not live" in result.stderr
    result = Terminal(cluster).run("generate", "t", "--drain", "3")
    assert set(proposed(result.stdout)) == {"t-1", "t-2"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--rebalance",), "name topics or use --all-topics"),
        (("t", "--all-topics", "--rebalance"), "name topics or use --all-topics"),
        (("t",), "name a goal"),
        (("t", "--broker-list", "1,9"), "there is no broker 9"),
        (("t", "--drain", "9"), "there is no broker 9: it is not live, and no partition"),
        (("t", "--broker-list", "1,x"), 'For input string: "x"'),
        (("t", "--add", "4", "--drain", "4"), "broker 4 is named for use and to be drained"),
        (("t", "--drain", "3", "--wait"), "--wait needs --execute"),
        (("t", "--replication-factor", "5"), "t-0 needs 5 replicas, but only 4 brokers"),
        (("t", "--rebalance", "--dry-run"), "--dry-run needs --execute"),
        (("--all-topics", "--exclude-topics", "(", "--rebalance"), "--exclude-topics:"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    cluster: FakeCluster, arguments: tuple[str, ...], problem: str
) -> None:
    """Exit code 1."""
    result = Terminal(cluster).run("generate", *arguments)
    assert result.exit_code == 1
    assert problem in result.stderr.splitlines()[-1]


def test_racks_are_kept_unless_they_do_not_matter(cluster: FakeCluster) -> None:
    """The fullest broker of the same rack rather than the empty one of another's."""
    cluster.racks = {1: "a", 2: "b", 3: "b", 4: "a"}
    kept = document(cluster, "--drain", "2")
    assert kept["proposed"]["partitions"][0]["replicas"] == [1, 3]
    free = document(cluster, "--drain", "2", "--disable-rack-aware")
    assert free["proposed"]["partitions"][0]["replicas"] == [1, 4]
    cluster.racks = {1: "a"}
    result = Terminal(cluster).run("generate", "t", "--rebalance")
    assert "Not all brokers have rack information" in result.stderr


def test_a_proposal_is_written_and_submitted(cluster: FakeCluster, tmp_path: Path) -> None:
    """The file is what `execute` reads; the request carries the reason."""
    path = tmp_path / "plan.json"
    terminal = Terminal(cluster, [FakeCluster.take_up])
    arguments = ("t", "--drain", "3", "--execute", "--reason", "old hardware")
    result = terminal.run("generate", *arguments, "--output", str(path))
    assert result.exit_code == 0
    (request,) = cluster.histories.values()
    assert request.options.reason == "old hardware"
    written = {p["partition"]: p["replicas"] for p in json.loads(path.read_text())["partitions"]}
    assert written == {n: list(cluster.specs[tp(n)].target) for n in (1, 2)}  # type: ignore[union-attr] # no texts here


def test_what_generate_prints_is_a_plan_file(cluster: FakeCluster, tmp_path: Path) -> None:
    """Its standard output can be saved and executed: the proposed plan is taken."""
    result = Terminal(cluster).run("generate", "t", "--drain", "3")
    path = tmp_path / "generated.txt"
    path.write_text(result.stdout)
    executed = Terminal(cluster, [FakeCluster.take_up]).run("execute", str(path))
    assert executed.exit_code == 0
    assert "the proposed assignment of the tool's output was taken" in executed.stderr
    specs = {p: s for p, s in cluster.specs.items() if isinstance(s, ReassignmentSpec)}
    targets = {str(p): list(s.target) for p, s in specs.items()}
    assert targets == proposed(result.stdout)


def test_brokers_may_be_listed_with_spaces(cluster: FakeCluster) -> None:
    """As people type them in quotes."""
    found = document(cluster, "--broker-list", "1, 2 ,4")
    assert all(3 not in p["replicas"] for p in found["proposed"]["partitions"])


def test_a_plan_is_not_taken_for_a_file_of_topics(cluster: FakeCluster, tmp_path: Path) -> None:
    """Nor a broken file for an empty one; the message has the place."""
    path = tmp_path / "topics.json"
    for content, problem in (
        ('{"version": 1, "partitions": []}', "this is a plan, for `reassigner execute`"),
        ('{"topics": [\n  {"topic" "t"}]}', "line 2, column 12"),
    ):
        path.write_text(content)
        arguments = ("--topics-to-move-json-file", str(path), "--rebalance")
        result = Terminal(cluster).run("generate", *arguments)
        assert result.exit_code == 1
        assert f"{path}: " in result.stderr
        assert problem in result.stderr


def test_a_dry_run_submits_nothing(cluster: FakeCluster) -> None:
    """The preview of execute, and its exit code."""
    terminal = Terminal(cluster)
    result = terminal.run("generate", "t", "--drain", "3", "--execute", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.endswith("Nothing was written.\n")
    assert not cluster.submitted


def test_where_nothing_has_to_move_nothing_is_proposed(cluster: FakeCluster) -> None:
    """On standard output either."""
    result = Terminal(cluster).run("generate", "t", "--drain", "4", "--no-sizes")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith("Nothing has to move.\n")


# --- small plans ---------------------------------------------------------------------------------


@pytest.fixture
def disks() -> FakeCluster:
    """Give three brokers with one disk of 1,000 bytes each, and one with two; the first is full."""
    found = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 3)).assign(tp(2), (1, 2))
    found.assign(tp(0, "u"), (4,))
    sizes = {tp(0): 500, tp(1): 90, tp(2): 240, tp(0, "u"): 350}
    on = {1: {0, 1, 2}, 2: {0, 2}, 3: {1}}
    answers: dict[BrokerId, Disks | str] = {}
    for broker, numbers in on.items():
        held = {tp(n): sizes[tp(n)] for n in numbers}
        free = 1000 - sum(held.values()) - (100 if broker == 1 else 0)
        dirs = (LogDir("/d", 1000, free),)
        answers[BrokerId(broker)] = Disks(
            frozenset(held), sizes=held, dirs=dirs, placed=dict.fromkeys(held, "/d")
        )
    last = tp(0, "u")
    answers[BrokerId(4)] = Disks(
        frozenset({last}),
        sizes={last: 350},
        dirs=(LogDir("/a", 400, 50), LogDir("/b", 600, 500)),
        placed={last: "/a"},
    )
    found.snapshot = replace(found.snapshot, brokers=BrokerAnswers(disks=answers))
    return found


def small(cluster: FakeCluster, *arguments: str) -> Any:  # noqa: ANN401 - a document
    """Make a small plan for a program."""
    result = Terminal(cluster).run("generate", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_broker_is_relieved_with_the_fewest_bytes(disks: FakeCluster) -> None:
    """Of all topics; the target with several disks is named with one of them."""
    found = small(disks, "--relieve", "1", "--below", "85%")
    (moved,) = found["proposed"]["partitions"]
    assert (moved["topic"], moved["partition"]) == ("t", 1)
    assert moved["replicas"] == [4, 3]
    assert moved["log_dirs"] == ["/b", "any"]
    assert (found["bytes_copied"], found["bytes_above"], found["is_least"]) == (90, 81, True)
    assert found["fill"] == [0.93, 0.84]
    assert found["forecast"]["changes"] == 1
    result = Terminal(disks).run("generate", "--relieve", "1", "--below", "0.85")
    assert result.stderr.startswith(
        "1 of 4 partitions to change; 1 replica to copy (90 B).\n"
        "broker 1: 93.0% full before, 84.0% after; 81 B had to leave to be below 85%, and no plan "
        "copies fewer bytes\n"
    )
    assert proposed(result.stdout) == {"t-1": [4, 3]}


def test_a_directory_is_relieved_and_the_plan_is_submitted(disks: FakeCluster) -> None:
    """Within its broker, by a request that names the directory."""
    found = small(disks, "--relieve", "4:/a", "--below", "80%")
    assert (found["replicas_copied"], found["replicas_relocated"]) == (0, 1)
    arguments = ("--relieve", "4:/a", "--below", "80%", "--execute")
    submitted: list[Submission] = []

    def take_up(cluster: FakeCluster) -> None:
        submitted.extend(cluster.submitted.values())
        cluster.take_up()

    result = Terminal(disks, [take_up]).run("generate", *arguments)
    assert result.exit_code == 0, result.stderr
    (request,) = submitted
    assert request.entries == {tp(0, "u"): (4,)}
    assert request.log_dirs == {tp(0, "u"): ((4, "/b"),)}
    (history,) = disks.histories.values()
    assert history.options.reason == "relieve 4:/a below 80%", "as none is given"


def test_named_topics_alone_may_move(disks: FakeCluster) -> None:
    """Of the others, nothing does."""
    result = Terminal(disks).run("generate", "u", "--relieve", "1", "--below", "85%")
    assert result.exit_code == 1
    assert "81 bytes are above that, and its replicas that may move have 0" in result.stderr


def test_what_is_below_the_mark_already_stays(disks: FakeCluster) -> None:
    """Exit code 0, and nothing on standard output."""
    result = Terminal(disks).run("generate", "--relieve", "1", "--below", "95%")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith("Nothing has to move.\n")


def test_a_copy_in_progress_counts_as_if_it_had_ended(disks: FakeCluster) -> None:
    """A second plan does not take away what the first one does already."""
    disks.assign(tp(1), (4, 1, 3), adding=(4,), removing=(1,))
    found = small(disks, "--relieve", "1", "--below", "85%")
    assert found["proposed"]["partitions"] == []
    assert found["left_out"] == ["t-1"]
    assert found["fill"] == [0.84, 0.84]


def test_a_budget_is_spent_on_the_fullest_broker(disks: FakeCluster) -> None:
    """No more is copied than it pays for; the rest of the figures says how far that gets."""
    found = small(disks, "--budget", "300B")
    moved = {(p["topic"], p["partition"]): p["replicas"] for p in found["proposed"]["partitions"]}
    assert moved == {("t", 2): [3, 2]}
    assert found["bytes_copied"] == 240 <= found["budget"]
    before, after = found["fullest_to_even"]
    assert before > after >= found["fullest_to_even_bound"]
    result = Terminal(disks).run("generate", "--budget", "300B")
    assert "with 300 B no plan comes below" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--relieve", "1"), "--relieve needs --below: the fill to come below, such as 80%"),
        (("--relieve", "x", "--below", "80%"), "--relieve: a broker, or a broker and a log"),
        (("--relieve", "1", "--below", "80"), "--below: a share such as 80% or 0.8, not '80'"),
        (("--relieve", "1", "--below", "0%"), "--below: a share such as 80% or 0.8, not '0%'"),
        (("--below", "80%"), "--below needs --relieve"),
        (("--relieve", "9", "--below", "80%"), "there is no broker 9: it is not live"),
        (("--relieve", "4:/x", "--below", "80%"), "no log directory /x; it has /a, /b"),
        (("--relieve", "1", "--below", "5%"), "its replicas that may move have 830"),
        (("--relieve", "1", "--below", "40%"), "lowest mark that can be reached is 59%"),
        (("--relieve", "1", "--below", "80%", "--budget", "1GB"), "no --budget"),
        (("--relieve", "1", "--below", "80%", "--no-sizes"), "need the sizes of replicas"),
        (("--budget", "1GB", "--rebalance", "--all-topics"), "take no other goal"),
        (("--budget", "much"), "--budget: bytes such as"),
    ],
)
def test_a_small_plan_that_cannot_be_made_is_one_line(
    disks: FakeCluster, arguments: tuple[str, ...], problem: str
) -> None:
    """Exit code 1; a mark out of reach names the one that is not."""
    result = Terminal(disks).run("generate", *arguments)
    assert result.exit_code == 1
    assert problem in result.stderr.splitlines()[-1]


def test_disks_of_unknown_size_are_not_guessed(disks: FakeCluster, tmp_path: Path) -> None:
    """Neither for what is relieved nor for what takes replicas; the settings may name it."""
    answers = dict(disks.snapshot.brokers.disks)
    for broker in (1, 4):
        old = answers[BrokerId(broker)]
        assert isinstance(old, Disks)
        answers[BrokerId(broker)] = replace(old, dirs=tuple(LogDir(d.path) for d in old.dirs))
    disks.snapshot = replace(disks.snapshot, brokers=BrokerAnswers(disks=answers))
    result = Terminal(disks).run("generate", "--relieve", "1", "--below", "80%")
    assert "the size of the log directories of broker 1 is unknown" in result.stderr
    assert result.exit_code == 1
    capacities, config = tmp_path / "capacities.json", tmp_path / "config.toml"
    capacities.write_text(json.dumps({"1": {"/d": 1000}, "4": {"/a": 400, "/b": 600}}))
    config.write_text(f'zookeeper = "zk:2181"\ndisk_capacities = "{capacities}"\n')
    known = small(disks, "--relieve", "1", "--below", "80%", "--config", str(config))
    assert known["proposed"]["partitions"][0]["replicas"] == [4, 3]
    assert known["notes"] == []
    found = small(disks, "--relieve", "2", "--below", "70%")
    assert found["proposed"]["partitions"][0]["replicas"] == [1, 3]
    assert "broker 1,4 does not report the size of its volumes: left out" in found["notes"]
