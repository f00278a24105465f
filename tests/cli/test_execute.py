"""Tests of ``reassigner execute``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.core.model import (
    BrokerId,
    OutcomeKind,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.requests.submissions import LegacyPlan, RequestOptions, Submission, Window
from controller.doctor.broker_answers import BrokerAnswers, Disks
from controller.errors import SessionSuspendedError
from controller.previews.plan_files import document_of, read_plan
from controller.znodes.cancellations import KillSwitch
from tests.cli.builders import USER, FakeCluster, Step, Terminal, a_partition, a_status
from tests.cli.families import OWN_ID
from tests.cli.scripted_answers import AT_MS
from tests.core.builders import replicas, tp

NAME = "request_0000000004"
OTHER = RequestId("request_0000000001")
FACTORS = "--allow-replication-factor-change"


class Scene:
    """A cluster of two partitions, a plan for both, and a terminal."""

    def __init__(self, directory: Path) -> None:
        """Both partitions are on 1 and 2, and shall be on 2 and 3."""
        self.cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2))
        self.terminal = Terminal(self.cluster)
        self.path = directory / "plan.json"
        self.write({tp(0): (2, 3), tp(1): (2, 3)})

    def write(self, entries: dict[TopicPartition, Sequence[int]]) -> None:
        """Write the plan's file."""
        plan = {p: replicas(*r) for p, r in entries.items()}
        self.path.write_text(json.dumps(document_of(plan)))

    def execute(self, *options: str) -> Any:  # noqa: ANN401 - typer's result
        """Run the verb."""
        return self.terminal.run("execute", str(self.path), *options)

    def note_options(self) -> list[RequestOptions]:
        """Let the daemon accept, and keep what was submitted."""
        seen: list[RequestOptions] = []

        def accept(cluster: FakeCluster) -> None:
            seen.extend(s.options for s in cluster.submitted.values())
            cluster.take_up()

        self.terminal.steps = [accept]
        return seen


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a scene with the plan in this test's directory."""
    return Scene(tmp_path)


def accept(cluster: FakeCluster) -> None:
    """Let the daemon accept what was submitted."""
    cluster.take_up()


def finish(cluster: FakeCluster) -> None:
    """Let every partition reach its target, and the request end."""
    for partition in list(cluster.specs):
        cluster.reach(partition)
    for request in cluster.histories:
        cluster.conclude(request, done=2)


def test_it_ends_when_the_request_is_accepted(scene: Scene) -> None:
    """Exit code 0, and the request by the name of its znode."""
    scene.terminal.steps = [accept]
    result = scene.execute()
    assert result.exit_code == 0
    assert f"Accepted as {NAME}: t-0, t-1" in result.stdout
    assert result.stdout.startswith("Current partition replica assignment\n")
    assert scene.cluster.plan is None


def test_the_request_carries_what_was_wished(scene: Scene) -> None:
    """Each option is in the znode; the person is known without being named."""
    seen = scene.note_options()
    options = ("--reason", "new rack", "--priority", "7", "--step-size", "all", "--throttle")
    more = ("50MB", "--window", "22:00-05:00 Europe/Berlin", "--atomic")
    result = scene.execute(*options, *more, "--max-partitions-in-flight", "3")
    assert result.exit_code == 0
    assert seen == [
        RequestOptions(
            reason="new rack",
            requested_by=USER,
            priority=7,
            step_size="all",
            throttle=50_000_000,
            window=Window(22 * 60, 5 * 60, "Europe/Berlin"),
            max_partitions_in_flight=3,
            atomic=True,
        )
    ]


def test_the_person_can_be_named(scene: Scene) -> None:
    """A pipeline submits on behalf of a person."""
    seen = scene.note_options()
    assert scene.execute("--requested-by", "team storage").exit_code == 0
    assert seen[0].requested_by == "team storage"


@pytest.mark.parametrize(
    "options",
    [
        ("--throttle", "fast"),
        ("--throttle", "0"),
        ("--window", "night"),
        ("--window", "22:00-05:00 Mars/Olympus"),
        ("--step-size", "0"),
        ("--priority", "5000"),
        ("--max-partitions-in-flight", "0"),
        ("--legacy", "--priority", "3"),
    ],
)
def test_a_wish_that_makes_no_sense_is_not_submitted(scene: Scene, options: Sequence[str]) -> None:
    """One line, exit code 1, before anything is written."""
    result = scene.execute(*options)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert not scene.cluster.submitted


def test_a_plan_too_large_for_a_znode_is_one_request_of_many_parts(scene: Scene) -> None:
    """One id, no znode too large, nothing lost."""
    cluster = scene.cluster
    brokers = replicas(1_000_001, 1_000_002, 1_000_003)
    plan = {TopicPartition(f"orders-{n}", p): brokers for n in range(25) for p in range(1000)}
    parts: list[dict[TopicPartition, tuple[int, ...]]] = []
    seen: list[RequestOptions] = []

    def take(found: FakeCluster) -> None:
        for submission in found.submitted.values():
            assert submission.unreadable is None
            assert not submission.refused
            assert submission.request == OWN_ID
            parts.append(dict(submission.entries))
            seen.append(submission.options)
        found.submitted = {}

    scene.path.write_text(json.dumps(document_of(plan)))
    scene.terminal.steps = [take]
    result = scene.execute("--json", "--reason", "many", "--timeout", "1")
    assert len(parts) > 1
    assert max(cluster.sizes) <= 700_000
    assert {o.parts for o in seen} == {len(parts)}
    assert {o.reason for o in seen} == {"many"}
    whole = {p: r for part in parts for p, r in part.items()}
    assert sum(len(part) for part in parts) == len(plan)
    assert whole == plan
    assert result.exit_code == 1, "nothing is kept of it: this daemon forgot it at once"


def test_refused_entries_are_listed_and_the_others_continue(scene: Scene) -> None:
    """Exit code 3."""
    scene.terminal.steps = [lambda c: c.take_up({tp(1): "broker 3 is not live"})]
    result = scene.execute()
    assert result.exit_code == 3
    assert "t-1 -> [2, 3] was refused: broker 3 is not live" in result.stdout
    assert f"Accepted as {NAME}: t-0" in result.stdout.splitlines()


def test_while_new_work_is_disabled_nothing_is_written(scene: Scene) -> None:
    """Exit code 3, since when, by whom and why."""
    scene.cluster.switch = KillSwitch("incident 42", "bob@desk", AT_MS)
    result = scene.execute()
    assert result.exit_code == 3
    assert "disabled since 2025-06-15 15:06:40Z by bob@desk: incident 42" in result.stderr
    assert not scene.cluster.submitted
    assert scene.execute("--legacy").exit_code == 3
    assert scene.cluster.plan is None


def test_a_pause_is_reported(scene: Scene) -> None:
    """The request is submitted all the same, and waits."""
    pauses = Pauses(everything=Pause("night shift", "bob", AT_MS))
    scene.cluster.controls = Controls(pauses=pauses)
    scene.terminal.steps = [accept]
    result = scene.execute()
    assert result.exit_code == 0
    assert "everything is paused since 2025-06-15 15:06:40Z by bob: night shift" in result.stderr


def test_partitions_of_other_requests_are_named_before(scene: Scene) -> None:
    """The requests that it would supersede, and the conflicts with the other route."""
    put = scene.cluster.specs
    put[tp(0)] = ReassignmentSpec(
        replicas(4, 1), replicas(1, 2), OTHER, Route.REQUEST, ZkVersion(0)
    )
    put[tp(1)] = ReassignmentSpec(
        replicas(4, 1), replicas(1, 2), RequestId("legacy-1"), Route.LEGACY
    )
    result = scene.execute("--dry-run")
    assert result.exit_code == 3
    assert f"would supersede 1 partition of {OTHER}: t-0" in result.stdout
    assert "would be refused: 1 partition of request legacy-1" in result.stdout
    assert not scene.cluster.submitted
    scene.terminal.steps = [accept]
    result = scene.execute()
    assert "Note: would be refused: 1 partition of request legacy-1" in result.stderr
    assert f"It supersedes 1 partition of {OTHER}: t-0" in result.stdout


def test_dry_run_makes_the_checks_of_acceptance(scene: Scene) -> None:
    """With the settings of all topics, asked for once: the same function, the same words."""
    scene.cluster.assign(tp(0, "u"), (1, 2)).assign(tp(0, "v"), (1, 2)).assign(tp(0, "w"), (1, 2))
    scene.cluster.deletions = frozenset({"v"})
    scene.cluster.min_insync = {"u": 2, "w": "not allowed"}
    plan = {tp(0): (2, 3), tp(0, "u"): (3,), tp(0, "v"): (1, 3), tp(0, "w"): (1, 3)}
    scene.write({**plan, tp(9): (1,), tp(1): (1, 9)})
    result = scene.execute("--dry-run", FACTORS)
    assert result.exit_code == 3
    too_few = "1 replica, fewer than min.insync.replicas (2): producers would fail"
    assert sorted(x for x in result.stdout.splitlines() if "would be refused" in x) == [
        "t-1 would be refused: broker 9 is not live and not a replica yet",
        "t-9 would be refused: the partition does not exist",
        f"u-0 would be refused: {too_few}",
        "v-0 would be refused: the topic is queued for deletion",
    ]
    assert "w: min.insync.replicas cannot be read from here" in result.stdout
    assert [a for a in scene.terminal.requested if "min" in a] == ["min.insync.replicas of t,u,v,w"]
    document = json.loads(scene.execute("--dry-run", "--json", FACTORS).stdout)
    assert document["settings_unknown"] == {"w": "not allowed"}
    assert {p["partition"] for p in document["problems"]} == {"u-0", "v-0", "t-9", "t-1"}


@pytest.mark.parametrize("route", [(), ("--legacy",)])
@pytest.mark.parametrize("as_json", [False, True])
def test_the_way_back_is_printed_before_anything_is_written(
    scene: Scene,
    route: Sequence[str],
    *,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever happens to the submission: whether it was written is then not known."""

    def fail(*_: object) -> None:
        raise SessionSuspendedError("ZooKeeper does not answer")

    monkeypatch.setattr(scene.cluster, "submit", fail)
    monkeypatch.setattr(scene.cluster, "create_plan", fail)
    result = scene.execute(*route, *(("--json",) if as_json else ()))
    assert result.exit_code == 1
    printed = (result.stderr if as_json else result.stdout).splitlines()
    back = json.loads(next(line for line in printed if line.startswith("{")))
    assert [e["replicas"] for e in back["partitions"]] == [[1, 2], [1, 2]]
    path = scene.path.with_name("back.json")
    path.write_text(json.dumps(back))
    assert read_plan(path).entries == {tp(0): (1, 2), tp(1): (1, 2)}


def test_the_way_back_of_what_is_in_flight_is_where_it_was(scene: Scene) -> None:
    """In the order it had: the first is the preferred leader."""
    scene.cluster.assign(tp(0), (4, 2, 1), adding=(4,))
    spec = ReassignmentSpec(replicas(4, 2), replicas(2, 1), OTHER, Route.REQUEST, ZkVersion(0))
    scene.cluster.specs[tp(0)] = spec
    scene.terminal.steps = [accept]
    result = scene.execute()
    back = json.loads(next(x for x in result.stdout.splitlines() if x.startswith("{")))
    assert back["partitions"][0]["replicas"] == [2, 1]


def test_dry_run_for_programs_names_conflicts(scene: Scene) -> None:
    """One document."""
    spec = ReassignmentSpec(replicas(4, 1), replicas(1, 2), OTHER, Route.REQUEST, ZkVersion(0))
    scene.cluster.specs[tp(0)] = spec
    conflicts = [{"request": OTHER, "would": "supersede", "partitions": ["t-0"]}]
    document = json.loads(scene.execute("--dry-run", "--json").stdout)
    assert document["conflicts"] == conflicts
    scene.terminal.steps = [accept]
    assert json.loads(scene.execute("--json").stdout)["conflicts"] == conflicts


def test_dry_run_for_programs_says_what_would_become_of_each_entry(scene: Scene) -> None:
    """Nothing was refused: nothing was asked for yet."""
    document = json.loads(scene.execute("--dry-run", "--json").stdout)
    assert {e["state"] for e in document["entries"]} == {"would_change"}
    spec = ReassignmentSpec(
        replicas(4, 1), replicas(1, 2), RequestId("legacy-1"), Route.LEGACY, ZkVersion(0)
    )
    scene.cluster.specs[tp(0)] = spec
    document = json.loads(scene.execute("--dry-run", "--json").stdout)
    assert document["entries"][0]["state"] == "would_be_refused"


def test_requesting_what_is_requested_already_is_no_conflict(scene: Scene) -> None:
    """Nothing is superseded by the same target."""
    spec = ReassignmentSpec(replicas(2, 3), replicas(1, 2), OTHER, Route.REQUEST, ZkVersion(0))
    scene.cluster.specs[tp(0)] = spec
    result = scene.execute("--dry-run")
    assert result.exit_code == 0
    assert "supersede" not in result.stdout


def test_wait_follows_to_the_summary(scene: Scene) -> None:
    """A line for each change, and the end in a sentence."""
    scene.cluster.statuses = [
        a_status(in_flight=[a_partition(request=NAME), a_partition(topic="other")])
    ]
    steps: list[Step | BaseException] = [accept, lambda c: c.reach(tp(0)), finish]
    scene.terminal.steps = steps
    result = scene.execute("--wait")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "0 of 2 ended" in lines
    assert "1 of 2 ended" in lines
    assert any(line.startswith("t-0: copying") for line in lines)
    assert not any(line.startswith("other-0") for line in lines)
    assert lines[-1] == f"{NAME} has ended: 2 of 2 done"


def test_wait_reports_a_cancelled_request(scene: Scene) -> None:
    """Exit code 4, and what became of each partition."""

    def cancel(cluster: FakeCluster) -> None:
        cluster.call_off(tp(0), OutcomeKind.ROLLED_BACK)
        cluster.call_off(tp(1), OutcomeKind.CANCELLED, "by cancel-1")
        cluster.conclude(RequestId(NAME))

    scene.terminal.steps = [accept, cancel]
    result = scene.execute("--wait")
    assert result.exit_code == 4
    assert "t-0 was rolled back" in result.stdout
    assert "t-1 was cancelled before its first step: by cancel-1" in result.stdout
    assert "0 of 2 done, 2 cancelled" in result.stdout


def test_wait_reports_a_superseded_partition(scene: Scene) -> None:
    """Exit code 3: it is not where this request wanted it."""

    def supersede(cluster: FakeCluster) -> None:
        cluster.reach(tp(0))
        cluster.call_off(tp(1), OutcomeKind.SUPERSEDED, "by request_0000000009")
        cluster.conclude(RequestId(NAME), done=1)

    scene.terminal.steps = [accept, supersede]
    result = scene.execute("--wait")
    assert result.exit_code == 3
    assert "t-1 was superseded: by request_0000000009" in result.stdout


def test_without_a_leader_it_says_so_and_ends(scene: Scene) -> None:
    """Exit code 2: the request is submitted and not accepted yet."""
    scene.cluster.leader = None
    result = scene.execute()
    assert result.exit_code == 2
    assert "No reassigner leads" in result.stderr
    assert f"Written as {NAME}, but not accepted yet" in result.stderr
    assert list(scene.cluster.submitted) == [NAME]


def test_it_does_not_wait_longer_than_requested(scene: Scene) -> None:
    """Exit code 2 with the time that was given."""
    result = scene.execute("--timeout", "3")
    assert result.exit_code == 2
    assert "not within 3 s" in result.stderr
    assert 3 <= scene.terminal.at < 4


def test_an_interrupt_leaves_the_request_running(scene: Scene) -> None:
    """Exit code 2, and how to call it off."""
    scene.terminal.steps = [accept, KeyboardInterrupt()]
    result = scene.execute("--wait")
    assert result.exit_code == 2
    assert f"{NAME} continues: 2 of 2 are not done" in result.stderr
    assert f"reassigner cancel {NAME}" in result.stderr
    assert set(scene.cluster.specs) == {tp(0), tp(1)}


def test_json_is_one_document(scene: Scene) -> None:
    """Request, result, counts, entries, refusals and the way back."""
    scene.terminal.steps = [accept, finish]
    document = json.loads(scene.execute("--json", "--wait").stdout)
    assert document["request"] == NAME
    assert document["submitted"] == [NAME]
    assert document["result"] == "done"
    assert document["partitions"]["done"] == 2
    assert [e["state"] for e in document["entries"]] == ["done", "done"]
    assert [e["replicas"] for e in document["rollback"]["partitions"]] == [[1, 2], [1, 2]]


def test_a_plan_by_the_other_route_is_not_in_the_way(scene: Scene) -> None:
    """Requests are judged partition by partition."""
    scene.cluster.plan = LegacyPlan({tp(7): replicas(1)}, ZkVersion(0), Zxid(1))
    scene.terminal.steps = [accept]
    assert scene.execute("--additional").exit_code == 0


def test_log_directories_of_the_file_are_submitted(scene: Scene) -> None:
    """With the throttle of the moves; the daemon judges the directories."""
    entry = {"topic": "t", "partition": 0, "replicas": [2, 3], "log_dirs": ["any", "/data/1"]}
    scene.path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    seen: list[Submission] = []

    def take(cluster: FakeCluster) -> None:
        seen.extend(cluster.submitted.values())
        cluster.take_up()

    scene.terminal.steps = [take]
    assert scene.execute("--log-dirs-throttle", "5MB").exit_code == 0
    (submission,) = seen
    assert submission.log_dirs == {tp(0): ((BrokerId(3), "/data/1"),)}
    assert submission.options.log_dirs_throttle == 5_000_000


def test_the_way_back_of_directories_names_directories(scene: Scene) -> None:
    """Those that the replicas have now, of the entries that name any; unknown ones are "any"."""
    entry = {"topic": "t", "partition": 0, "replicas": [1, 3], "log_dirs": ["/data/2", "any"]}
    plain = {"topic": "t", "partition": 1, "replicas": [2, 3]}
    scene.path.write_text(json.dumps({"version": 1, "partitions": [entry, plain]}))
    disks = Disks(frozenset({tp(0), tp(1)}), placed={tp(0): "/data/1", tp(1): "/data/1"})
    answers = BrokerAnswers(disks={BrokerId(1): disks, BrokerId(2): "no answer in time"})
    scene.cluster.snapshot = replace(scene.cluster.snapshot, brokers=answers)
    scene.terminal.steps = [accept]
    result = scene.execute("--json")
    assert json.loads(result.stdout)["rollback"]["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["/data/1", "any"]},
        {"topic": "t", "partition": 1, "replicas": [1, 2]},
    ]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_changed_replication_factor_is_noted(scene: Scene, options: tuple[str, ...]) -> None:
    """Before the plan is written, and in the preview."""
    scene.write({tp(0): (2, 3, 4), tp(1): (2,)})
    scene.terminal.steps = [accept]
    result = scene.execute(FACTORS, *options)
    words = " ".join((result.stdout + result.stderr).split())
    assert "the replication factor of 1 partition falls from 2 to 1: t-1" in words
    assert "the replication factor of 1 partition rises from 2 to 3: t-0" in words


def test_a_factor_that_falls_to_min_insync_replicas_is_noted(scene: Scene) -> None:
    """It is allowed, and the next restart of a broker stops producers."""
    scene.cluster.assign(tp(1), (1, 2, 3))
    scene.cluster.min_insync["t"] = 2
    scene.write({tp(1): (1, 2)})
    result = scene.execute(FACTORS, "--dry-run")
    words = " ".join((result.stdout + result.stderr).split())
    assert (
        "t: partitions would have 2 replicas, as many as min.insync.replicas: while one of them is "
        "out of sync, producers with acks=all fail" in words
    )
    scene.cluster.min_insync["t"] = 1
    again = scene.execute(FACTORS, "--dry-run")
    assert "as many as" not in again.stdout + again.stderr


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--legacy",)])
def test_a_replication_factor_does_not_change_unless_requested(
    scene: Scene, options: tuple[str, ...]
) -> None:
    """The plan is refused, with its partitions named, by any route (KIP-860)."""
    scene.write({tp(0): (2, 3, 4), tp(1): (2,)})
    result = scene.execute(*options)
    assert result.exit_code == 3
    assert "the replication factor of 1 partition falls from 2 to 1: t-1" in result.stderr
    assert "the replication factor of 1 partition rises from 2 to 3: t-0" in result.stderr
    assert FACTORS in result.stderr
    assert "rollback" not in result.stdout
    assert (scene.cluster.submitted, scene.cluster.plan) == ({}, None)


def test_a_factor_that_is_in_progress_is_not_changed_by_a_plan_of_the_same(scene: Scene) -> None:
    """The plan is compared with the target in progress, as Kafka does; one back changes it."""
    scene.cluster.accept(tp(0), (1, 2, 3), (1, 2))
    scene.write({tp(0): (2, 3, 4)})
    scene.terminal.steps = [accept]
    assert scene.execute().exit_code == 0
    scene.write({tp(0): (2, 3)})
    assert scene.execute().exit_code == 3


def test_no_way_back_is_printed_of_unknown_partitions(scene: Scene) -> None:
    """An empty plan restores nothing."""
    scene.write({tp(7): (2, 3)})
    scene.terminal.steps = [accept]
    assert "rollback" not in scene.execute().stdout


def test_brokers_that_lag_are_tolerated_by_the_native_engine_alone(scene: Scene) -> None:
    """The delegated one could not: the command says so, and writes nothing."""
    scene.cluster.statuses = [a_status(engine="delegated")]
    refused = scene.execute("--tolerate-lagging", "2")
    assert refused.exit_code == 3
    assert "--tolerate-lagging needs the native engine" in refused.stderr
    assert not scene.cluster.submitted
    scene.cluster.statuses = [a_status()]
    seen = scene.note_options()
    accepted = scene.execute("--tolerate-lagging", "3", "--tolerate-lagging", "2")
    assert accepted.exit_code == 0, repr(accepted.exception) + accepted.output
    assert [options.tolerate_lagging for options in seen] == [(2, 3)]
    (history,) = scene.cluster.histories.values()
    shown = scene.terminal.run("list", history.request).stdout
    assert "tolerates lagging: 2,3" in shown
