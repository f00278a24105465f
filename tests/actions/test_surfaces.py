"""A form of the status page and the command for it decide the same, and say the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import Result

from controller.actions import work_control
from controller.actions.evacuating import LeadershipTaskKind
from controller.actions.submission import PlanSubmission
from controller.core.model import (
    BrokerId,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import (
    Controls,
    Evacuation,
    Evacuations,
    Limits,
    Pause,
    Pauses,
    Quiesce,
    UnderMinIsr,
)
from controller.core.requests.outcomes import RequestHistory, Summary
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    LegacyPlan,
    RequestOptions,
)
from controller.doctor.broker_answers import BrokerAnswers
from controller.errors import ControllerError
from controller.planning.proposer import propose
from controller.setting_sources import load_settings
from controller.web import page_plans
from controller.web.access import author
from controller.web.forms import (
    PlanForm,
    drains_of,
    leaderships_of,
    options_of,
    quiesce_of,
    undo_of,
)
from controller.web.page_plans import PagePlans, PlanPreview, Wanted
from controller.web.steering import PageAction, Steering
from controller.znodes.cancellations import KillSwitch
from controller.znodes.json_documents import TEXT_MAX
from controller.znodes.plans import encode_submission
from tests.cli.builders import CZXID, REQUEST, FakeCluster, Terminal
from tests.cli.families import FakeOperator
from tests.cli.scripted_answers import AT_MS, CANCEL_CZXID, QUEUE, QUEUE_CZXID
from tests.core.builders import replicas, tp
from tests.telemetry.builders import FixedClock, partition_state

OPEN, ENDED = RequestId("request_0000000001"), RequestId("request_0000000002")
WAITING = RequestId("request_0000000004")
UNKNOWN, MALFORMED = "request_0000000077", "a/b"
EVERYTHING = ""
BY_ALICE = author("alice")

COMMANDS: Final[Mapping[PageAction, Callable[[str], Sequence[str]]]] = {
    PageAction.PAUSE: lambda r: ("pause", *(("--request", r) if r else ())),
    PageAction.RESUME: lambda r: ("resume", *(("--request", r) if r else ())),
    PageAction.CANCEL: lambda r: ("cancel", *((r,) if r else ("--everything", "--yes"))),
    PageAction.STOP_DRAIN: lambda broker: ("drain", "--stop", broker),
    PageAction.WARN: lambda _: ("limits", "--under-min-isr", "warn"),
    PageAction.WAIT: lambda _: ("limits", "--under-min-isr", "wait"),
}
"""The command of each action of the page."""


def a_cluster() -> FakeCluster:
    """Return a cluster with a request in each state, and with pauses of some."""
    cluster = FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (1, 2)).assign(tp(2), (1, 2))
    spec = ReassignmentSpec(replicas(2, 3), replicas(1, 2), OPEN, Route.REQUEST, ZkVersion(0))
    cluster.specs[tp(0)] = spec
    summary = Summary(request=ENDED, kind="request", total=1, done=1)
    cluster.histories = {
        OPEN: RequestHistory(request=OPEN, czxid=Zxid(1)),
        ENDED: RequestHistory(request=ENDED, czxid=Zxid(2), summary=summary),
    }
    assert cluster.submit(encode_submission({tp(1): replicas(3, 4)}, RequestOptions())) == WAITING
    cluster.queue = LegacyPlan({tp(1): replicas(3, 4)}, ZkVersion(0), QUEUE_CZXID)
    cluster.plan = LegacyPlan({tp(2): replicas(3, 4)}, ZkVersion(0), CZXID)
    cluster.controls = Controls(
        Pauses(requests={ENDED: Pause("kept")}), Limits(max_partitions_in_flight=7)
    )
    return cluster


def idle() -> FakeCluster:
    """Return a cluster with nothing to do."""
    cluster = a_cluster()
    cluster.specs, cluster.submitted, cluster.queue, cluster.plan = {}, {}, None, None
    return cluster


def cancelling() -> FakeCluster:
    """Return a cluster with a cancellation that has not selected its partitions yet."""
    cluster = a_cluster()
    wanted = Cancellation(partitions=frozenset({tp(5)}))
    cluster.cancellation = replace(wanted, czxid=CANCEL_CZXID)
    return cluster


def paused() -> FakeCluster:
    """Return a cluster in which everything is paused."""
    cluster = a_cluster()
    everything = Pauses(everything=Pause("lunch"), requests={OPEN: Pause("mine")})
    cluster.controls = Controls(everything, Limits(under_min_isr=UnderMinIsr.IGNORE))
    return cluster


def moved() -> FakeCluster:
    """Return a cluster in which the partition of the ended request is at its target."""
    cluster = idle().assign(tp(7), (3, 4))
    cluster.accepted[ENDED] = [AcceptedEntry(tp(7), replicas(1, 2), replicas(3, 4))]
    return cluster


def tried(cluster: FakeCluster, wanted: Wanted) -> tuple[PlanPreview | None, str]:
    """Preview and submit by a page; return the preview, and why it was refused."""
    plans, shown = pages_of(cluster), None
    try:
        shown = plans.preview(wanted)
        plans.submit(wanted, BY_ALICE)
    except ControllerError as error:
        return shown, str(error)
    return shown, ""


def written(cluster: FakeCluster) -> object:
    """Return what operators wrote, without who and when."""
    found, pauses = cluster.cancellation, cluster.controls.pauses
    return (
        None if pauses.everything is None else pauses.everything.reason,
        {name: pause.reason for name, pause in pauses.requests.items()},
        cluster.controls.limits,
        None if found is None else (found.requests, found.partitions, found.scope),
    )


def text_of(result: Result) -> str:
    """Return why a command wrote nothing; empty if it wrote."""
    if "nothing to cancel" in result.stdout or "nothing to undo" in result.stdout:
        # `undo` also says what the cluster has now.
        return result.stdout.splitlines()[0]
    _, _, why = result.stderr.strip().rpartition("reassigner: ")
    return why if result.exit_code in (1, 3) else ""


def test_every_action_of_the_page_has_a_command() -> None:
    """A new one is compared here, too."""
    assert set(COMMANDS) == set(PageAction)


@pytest.mark.parametrize(
    "subject", [EVERYTHING, OPEN, ENDED, WAITING, QUEUE, REQUEST, UNKNOWN, MALFORMED]
)
@pytest.mark.parametrize("make", [a_cluster, idle, cancelling, paused])
@pytest.mark.parametrize("action", [PageAction.PAUSE, PageAction.RESUME, PageAction.CANCEL])
def test_page_and_command_decide_the_same(
    action: PageAction, make: Callable[[], FakeCluster], subject: str
) -> None:
    """About every request and everything: what is written, and the reason if nothing is."""
    by_command, by_page = make(), make()
    result = Terminal(by_command).run(*COMMANDS[action](subject))
    steering = Steering(lambda: nullcontext(FakeOperator(by_page)), lambda: AT_MS)
    why = ""
    try:
        steering.carry_out(action, subject, "alice")
    except ControllerError as error:
        why = str(error)
    assert written(by_page) == written(by_command)
    assert why == text_of(result)
    assert bool(why) is (written(by_page) == written(make())) or action is not PageAction.CANCEL


@pytest.mark.parametrize("make", [a_cluster, paused])
@pytest.mark.parametrize("action", [a for a in PageAction if a.is_brake])
def test_page_and_command_set_the_same_limit(
    action: PageAction, make: Callable[[], FakeCluster]
) -> None:
    """Beside the other limits."""
    by_command, by_page = make(), make()
    assert Terminal(by_command).run(*COMMANDS[action]("")).exit_code == 0
    Steering(lambda: nullcontext(FakeOperator(by_page))).carry_out(action, "", "alice")
    assert written(by_page) == written(by_command) != written(make())


# --- plans ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A plan, the options of its request, and what is special about the cluster."""

    plan: Mapping[TopicPartition, Sequence[int]]
    keys: Mapping[str, object] | None = None
    """Further keys of the file."""
    entry: Mapping[str, object] | None = None
    """Further keys of each entry."""
    form: Mapping[str, str] | None = None
    """The fields of the form; the options of the command have the same names."""
    is_disabled: bool = False
    text: str | None = None
    """In place of the plan."""

    def document(self) -> str:
        """Return the content of the file."""
        if self.text is not None:
            return self.text
        entries = [
            {"topic": p.topic, "partition": p.partition, "replicas": r, **(self.entry or {})}
            for p, r in self.plan.items()
        ]
        return json.dumps({"version": 1, "partitions": entries, **(self.keys or {})})

    def options(self) -> list[str]:
        """Return the options of the command."""
        found: list[str] = []
        for name, value in (self.form or {}).items():
            is_flag = name in ("atomic", FACTORS)
            found += [f"--{name}"] if is_flag else [f"--{name}", value]
        return found

    def cluster(self) -> FakeCluster:
        """Return the cluster."""
        cluster = a_cluster()
        cluster.switch = KillSwitch("incident", "bob", AT_MS) if self.is_disabled else None
        return cluster


FACTORS: Final = "allow-replication-factor-change"
ONE = {tp(1): (2, 3)}
CASES: Final[Mapping[str, Case]] = {
    "one": Case(ONE),
    "with options": Case(ONE, form={"reason": "why", "throttle": "5MB", "atomic": "1"}),
    "in place of another request": Case({tp(0): (3, 4)}),
    "against a legacy plan": Case({tp(2): (1, 4)}),
    "with refused entries": Case({tp(1): (2, 99), TopicPartition("none", 0): (1, 2)}),
    "at its target": Case({tp(1): (1, 2)}),
    "with log directories": Case(ONE, entry={"log_dirs": ["/d1", "any"]}),
    "in several parts": Case({TopicPartition("t" * 200 + str(n), 0): (1, 2) for n in range(4_000)}),
    "another replication factor": Case({tp(1): (2, 3, 4)}),
    "a wanted replication factor": Case({tp(1): (2, 3, 4)}, form={FACTORS: "1"}),
    "disabled": Case(ONE, is_disabled=True),
    "of another cluster": Case(ONE, keys={"cluster_id": "another"}),
    "of this cluster": Case(ONE, keys={"cluster_id": "the-cluster"}),
    "of other replicas": Case(ONE, entry={"original_replicas": [3, 4]}),
    "of these replicas": Case(ONE, entry={"original_replicas": [1, 2]}),
    "duplicate replicas": Case({tp(1): (3, 3)}),
    "without entries": Case({}),
    "no JSON": Case({}, text="{"),
    "of the tool": Case(
        {},
        text="Current partition replica assignment\n\n"
        '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[1,2]}]}\n\n'
        "Proposed partition reassignment configuration\n\n"
        '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,3]}]}',
    ),
    "throttle without a unit": Case(ONE, form={"throttle": "fast"}),
    "no throttle at all": Case(ONE, form={"throttle": "0"}),
    "the longest reason": Case(ONE, form={"reason": "x" * TEXT_MAX}),
    "a reason that is too long": Case(ONE, form={"reason": "x" * (TEXT_MAX + 1)}),
}


def submitted(cluster: FakeCluster) -> object:
    """Return the requests, without their authors, whose length moves the limits of parts."""
    found: dict[RequestId, list[Any]] = {}
    for part in cluster.submitted.values():
        options = replace(part.options, requested_by="")
        whole = found.setdefault(part.request, [options, {}, {}, {}])
        assert whole[0] == options
        for known, more in zip(
            whole[1:], (part.entries, part.log_dirs, part.expected), strict=True
        ):
            known.update(more)
    return found


def pages_of(cluster: FakeCluster, sleep: Callable[[float], None] = lambda _: None) -> PagePlans:
    """Return the plans of a page."""
    return PagePlans(
        load_settings({"zookeeper": "zk:2181"}, environ={}),
        lambda: nullcontext(FakeOperator(cluster)),
        lambda: None,
        query_brokers=lambda *_: BrokerAnswers(),
        query_min_insync=lambda _, __, topics: dict.fromkeys(topics, 1),
        sleep=sleep,
        now_ms=lambda: AT_MS,
    )


@pytest.mark.parametrize("name", CASES)
def test_page_and_execute_submit_the_same(name: str, tmp_path: Path) -> None:
    """Also the preview refuses what the submission refuses, and shows what a dry run prints."""
    case = CASES[name]
    path = tmp_path / "plan.json"
    path.write_text(case.document())
    by_command, by_page = case.cluster(), case.cluster()
    arguments = ("execute", str(path), *case.options())
    dry = Terminal(case.cluster()).run(*arguments, "--dry-run")
    result = Terminal(by_command).run(*arguments, "--timeout", "1")
    plans, whys = pages_of(by_page), []
    shown = None
    try:
        wanted = PlanSubmission(
            plan=plans.parse(case.document()),
            options=options_of(case.form or {}),
            may_change_factors=FACTORS in (case.form or {}),
        )
    except ControllerError as error:
        whys = [str(error)] * 2
    else:
        for turn in (plans.preview, lambda wanted: plans.submit(wanted, "alice")[0]):
            try:
                found = turn(wanted)
            except ControllerError as error:
                whys.append(str(error))
            else:
                shown = shown or found
    assert submitted(by_page) == submitted(by_command)
    texts = [text_of(r).replace(str(path), "the plan").replace("--", "") for r in (dry, result)]
    if shown is None:
        assert [w.replace("--", "") for w in whys] == texts
        assert by_page.submitted.keys() == {WAITING}
        return
    assert result.exit_code == 2, "it is not accepted yet"
    assert not isinstance(shown, str)
    lines = dry.stdout.splitlines()
    for line in (*shown.summary, *shown.problems, *shown.conflicts, *shown.changes, *shown.waits):
        assert line in lines
    notes = (dry.stdout + dry.stderr).replace(str(path), "the plan").splitlines()
    assert {f"Note: {line}" for line in shown.notes} <= set(notes)


@pytest.mark.parametrize("broker", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("is_quiesced", [False, True])
def test_page_and_command_drain_the_same(broker: int, is_quiesced: bool) -> None:  # noqa: FBT001 - a case
    """One that has replicas, one of which something stays, none, and one that does not exist."""

    def make() -> FakeCluster:
        cluster = a_cluster().assign(TopicPartition("wide", 0), (1, 2, 3))
        cluster.brokers -= {4}
        if is_quiesced:
            cluster.controls = replace(cluster.controls, pauses=Pauses(quiesce=Quiesce()))
        return cluster

    by_command, by_page, why = make(), make(), ""
    command = ("drain", str(broker), "--reason", "swap", "--throttle", "5MB", "--by", BY_ALICE)
    dry = Terminal(make()).run(*command, "--dry-run")
    result = Terminal(by_command).run(*command)
    fields = {"broker": str(broker), "reason": "swap", "throttle": "5MB"}
    plans, wanted = pages_of(by_page), drains_of(fields)
    try:
        shown = plans.preview(wanted)
        plans.submit(wanted, BY_ALICE)
    except ControllerError as error:
        why = str(error)
    else:
        lines = {*dry.stdout.splitlines(), *dry.stderr.splitlines()}
        assert set(shown.changes) <= lines
        assert set(shown.notes) <= {line.removeprefix("Note: ") for line in lines}
    assert by_page.controls.drains == by_command.controls.drains
    assert why == text_of(result)
    assert bool(why) is (broker in (4, 9) or is_quiesced)


@pytest.mark.parametrize("request_id", [OPEN, ENDED, WAITING, UNKNOWN])
@pytest.mark.parametrize("make", [a_cluster, idle, cancelling, moved])
def test_page_and_command_undo_the_same(make: Callable[[], FakeCluster], request_id: str) -> None:
    """With its throttle and window; what is selected, and the reason if nothing is."""
    by_command, by_page = make(), make()
    words = {"reason": "why", "throttle": "5MB", "window": "22:00-05:00"}
    options = [text for name, value in words.items() for text in (f"--{name}", value)]
    command = ("undo", request_id, "--requested-by", BY_ALICE, *options)
    dry = Terminal(make()).run(*command, "--dry-run")
    result = Terminal(by_command).run(*command, "--timeout", "1")
    shown, why = tried(by_page, undo_of({"request": request_id, **words}))
    assert why == text_of(result)
    assert by_page.cancellation == by_command.cancellation
    assert by_page.controls.limits == by_command.controls.limits
    assert (shown is None) is bool(text_of(dry))
    if shown is not None:
        printed = set(dry.stdout.splitlines())
        assert {n for n in shown.notes if n.startswith("would ")} <= printed
        assert f"{shown.entries} partition" in dry.stdout


@pytest.mark.parametrize("broker", [1, 2, 3, 9])
@pytest.mark.parametrize("is_quiesced", [False, True])
@pytest.mark.parametrize("task", LeadershipTaskKind)
def test_page_and_command_move_the_same_leaderships(
    task: LeadershipTaskKind,
    broker: int,
    is_quiesced: bool,  # noqa: FBT001 - a case
) -> None:
    """Off a broker that leads, one that does not, an evacuated one, and one that does not exist."""

    def make() -> FakeCluster:
        cluster = FakeCluster()
        for n, assigned in enumerate([(1, 2), (1, 3), (2, 1), (3, 2)]):
            cluster.assign(tp(n), assigned)
            cluster.states[tp(n)] = partition_state(assigned[0], assigned)
        cluster.evacuations = Evacuations(
            {BrokerId(2): Evacuation("kept")}, {tp(3): replicas(2, 3)}
        )
        if is_quiesced:
            cluster.controls = replace(cluster.controls, pauses=Pauses(quiesce=Quiesce()))
        return cluster

    by_command, by_page = make(), make()
    extra = () if task is LeadershipTaskKind.FORGET else ("--timeout", "0")
    command = (
        "leaders",
        f"--{task}",
        str(broker),
        "--reason",
        "kernel",
        "--requested-by",
        BY_ALICE,
    )
    dry = Terminal(make()).run(*command, "--dry-run")
    result = Terminal(by_command).run(*command, *extra)
    fields = {"task": task.value, "broker": str(broker), "reason": "kernel"}
    shown, why = tried(by_page, leaderships_of(fields))
    assert by_page.evacuations == by_command.evacuations
    assert submitted(by_page) == submitted(by_command)
    assert why == text_of(result)
    assert (shown is None) is bool(text_of(dry))
    if shown is not None:
        assert {*shown.changes, *shown.notes} <= set(dry.stdout.splitlines())
        for table in shown.tables:
            for leader, now, then in table.rows:
                assert f"broker {leader}: leads {now} partition" in dry.stdout
                assert f" now, {then} then" in dry.stdout


def test_a_form_that_returns_leaderships_ends_the_evacuation_when_they_are_back() -> None:
    """It looks again after the request, a few times."""
    cluster = FakeCluster().assign(tp(0), (2, 1))
    cluster.states[tp(0)] = partition_state(2, (2, 1))
    cluster.evacuations = Evacuations({BrokerId(1): Evacuation("k")}, {tp(0): replicas(1, 2)})
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert cluster.evacuations.brokers[BrokerId(1)].returning
        if len(slept) == 2:  # The daemon has carried out the request.
            cluster.submitted.clear()
            cluster.assign(tp(0), (1, 2))
            cluster.states[tp(0)] = partition_state(1, (1, 2))

    plans = pages_of(cluster, sleep)
    assert plans.submit(leaderships_of({"task": "return", "broker": "1"}), BY_ALICE) is not None
    assert (slept, cluster.evacuations.brokers) == ([page_plans.RETURN_LOOK_S] * 2, {})


@pytest.mark.parametrize("fields", [{}, {"deadline": "30m"}, {"cancel": "1"}])
@pytest.mark.parametrize("make", [a_cluster, idle, paused])
def test_page_and_command_quiesce_the_same(
    make: Callable[[], FakeCluster], fields: Mapping[str, str]
) -> None:
    """The general pause ends with it; the preview says what is left."""
    by_command, by_page = make(), make()
    options = ["--cancel"] if "cancel" in fields else [f"--{k}={v}" for k, v in fields.items()]
    command = ("quiesce", *options, "--reason", "bye", "--requested-by", BY_ALICE)
    dry = Terminal(make()).run(*command, "--dry-run")
    Terminal(by_command).run(*command)
    shown, why = tried(by_page, quiesce_of({**fields, "reason": "bye"}))
    assert by_page.controls == by_command.controls
    assert (why, by_page.controls.pauses.quiesce is None) == ("", False)
    assert shown is not None
    assert shown.summary[0].replace(" by alice, on the status page", "") in dry.stdout.replace(
        f" by {BY_ALICE}", ""
    )
    assert (work_control.READY in shown.summary) is (dry.exit_code == 0)


@pytest.mark.parametrize("factor", ["1", "2", "3", "9"])
def test_page_and_command_change_the_same_factor(
    factor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which a plan may not do by itself."""

    def make() -> FakeCluster:
        return FakeCluster().assign(tp(0), (1, 2)).assign(tp(1), (2, 3))

    monkeypatch.setattr(page_plans, "propose_apart", propose)
    by_command, by_page = make(), make()
    result = Terminal(by_command).run("replication", "t", factor, "--timeout", "1")
    plans, why = pages_of(by_page), ""
    try:
        form = {"kind": "replication", "topic-t": "1", "factor": factor}
        wanted = PlanForm(plans, FixedClock())._wanted_by(form)
        plans.preview(wanted)
        plans.submit(wanted, BY_ALICE)
    except ControllerError as error:
        why = str(error)
    assert submitted(by_page) == submitted(by_command)
    assert bool(by_page.submitted) is (factor in ("1", "3"))
    if factor == "9":
        assert why == text_of(result)


@pytest.mark.parametrize("broker", ["3", "4", "x"])
def test_page_and_command_stop_the_same_drain(broker: str) -> None:
    """A broker that is not drained is an error."""
    by_command, by_page, why = draining(), draining(), ""
    steering = Steering(lambda: nullcontext(FakeOperator(by_page)))
    try:
        steering.carry_out(PageAction.STOP_DRAIN, broker, "alice")
    except ControllerError as error:
        why = str(error)
    result = Terminal(by_command).run("drain", "--stop", broker)
    assert by_page.controls.drains == by_command.controls.drains
    assert bool(why) is bool(result.exit_code) is (broker != "3")


def draining() -> FakeCluster:
    """Return a cluster of which brokers 2 and 3 are drained."""
    cluster = a_cluster()
    Terminal(cluster).run("drain", "2", "3")
    return cluster
