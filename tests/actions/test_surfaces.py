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

from controller.actions.submission import PlanSubmission
from controller.core.model import (
    ReassignmentSpec,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Limits, Pause, Pauses, Quiesce, UnderMinIsr
from controller.core.requests.outcomes import RequestHistory, Summary
from controller.core.requests.submissions import Cancellation, LegacyPlan, RequestOptions
from controller.doctor.broker_answers import BrokerAnswers
from controller.errors import ControllerError
from controller.setting_sources import load_settings
from controller.web.access import author
from controller.web.forms import drains_of, options_of
from controller.web.steering import PageAction, PagePlans, Steering
from controller.znodes.cancellations import KillSwitch
from controller.znodes.json_documents import TEXT_MAX
from controller.znodes.plans import encode_submission
from tests.cli.builders import CZXID, REQUEST, FakeCluster, Terminal
from tests.cli.families import FakeOperator
from tests.cli.scripted_answers import AT_MS, CANCEL_CZXID, QUEUE, QUEUE_CZXID
from tests.core.builders import replicas, tp

OPEN, ENDED = RequestId("request_0000000001"), RequestId("request_0000000002")
WAITING = RequestId("request_0000000004")
UNKNOWN, MALFORMED = "request_0000000077", "a/b"
EVERYTHING = ""
BY_ALICE = author("alice")

COMMANDS: Final[Mapping[PageAction, Callable[[str], Sequence[str]]]] = {
    PageAction.PAUSE: lambda r: ("pause", *(("--request", r) if r else ())),
    PageAction.RESUME: lambda r: ("resume", *(("--request", r) if r else ())),
    PageAction.CANCEL: lambda r: ("cancel", *((r,) if r else ("--everything", "--yes"))),
    PageAction.UNDO: lambda r: ("undo", *((r,) if r else ("--everything", "--yes"))),
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
@pytest.mark.parametrize(
    "action", [PageAction.PAUSE, PageAction.RESUME, PageAction.CANCEL, PageAction.UNDO]
)
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


def pages_of(cluster: FakeCluster) -> PagePlans:
    """Return the plans of a page."""
    return PagePlans(
        load_settings({"zookeeper": "zk:2181"}, environ={}),
        lambda: nullcontext(FakeOperator(cluster)),
        lambda: None,
        query_brokers=lambda *_: BrokerAnswers(),
        query_min_insync=lambda _, __, topics: dict.fromkeys(topics, 1),
        sleep=lambda _: None,
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
        for turn in (plans.preview, lambda wanted: plans.submit(wanted, "alice")):
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
