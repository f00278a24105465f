"""Plans of the status page are those of the commands."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from controller.actions.draining import NewDrains
from controller.actions.submission import PlanSubmission
from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.controls import Drain, Drains
from controller.core.requests.submissions import RequestOptions
from controller.doctor.broker_answers import BrokerAnswers
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.previews.plan_files import PlanFile
from controller.previews.proposal import Goal
from controller.setting_sources import load_settings
from controller.web.page_plans import PagePlans
from controller.znodes.cancellations import KillSwitch
from tests.cli.builders import FakeCluster
from tests.cli.families import FakeOperator
from tests.cli.scripted_answers import AT_MS
from tests.core.builders import replicas

A, B, T, U = (TopicPartition(topic, 0) for topic in "abtu")


def plans_of(cluster: FakeCluster) -> PagePlans:
    """Return the plans of a page beside a cluster, whose brokers do not answer."""
    return PagePlans(
        load_settings({"zookeeper": "zk:2181"}, environ={}),
        lambda: nullcontext(FakeOperator(cluster)),
        lambda: None,
        query_brokers=lambda *_: BrokerAnswers(),
        query_min_insync=lambda _, __, topics: dict.fromkeys(topics, 1),
        sleep=lambda _: None,
        now_ms=lambda: AT_MS,
    )


def text_of(*partitions: tuple[str, int, list[int]], **more: object) -> str:
    """Return a plan in the format of Kafka's tool."""
    entries = [{"topic": t, "partition": n, "replicas": r} for t, n, r in partitions]
    return json.dumps({"version": 1, "partitions": entries, **more})


def drains(*brokers: int, reason: str = "") -> NewDrains:
    """Return the drains of brokers."""
    return NewDrains(brokers=[BrokerId(b) for b in brokers], about=Drain(reason))


def test_a_drain_is_previewed_and_stands() -> None:
    """What cannot leave the broker is named; an unknown broker is an error."""
    cluster = FakeCluster().assign(A, (1, 2)).assign(B, (2, 3)).assign(T, (1, 2, 3, 4))
    shown = plans_of(cluster).preview(drains(1))
    assert (shown.entries, shown.changes[0][:11]) == (1, "a-0: 1,2 ->")
    assert "t-0 blocked: it has 4 replicas" in shown.notes[0]
    assert cluster.controls.drains == Drains()
    with pytest.raises(InvalidInputError, match="there is no broker 9"):
        plans_of(cluster).preview(drains(1, 9))
    request, is_shown = plans_of(cluster).submit(drains(1, reason="swap"), "alice")
    assert is_shown, "no daemon is awaited that does not answer"
    found = cluster.controls.drains
    assert (found.request, found.brokers) == (request, {1: Drain("swap", "alice", AT_MS)})


def test_tasks_are_planned_in_a_process_of_their_own() -> None:
    """As `add` and `rebalance` plan; where nothing has to move, the form says so."""
    cluster = FakeCluster(brokers=frozenset({1, 2, 3})).assign(A, (1, 2)).assign(B, (1, 2))
    plans = plans_of(cluster.assign(T, (2, 1)))
    added = plans.propose(Goal(all_topics=True, added=frozenset({BrokerId(3)})))
    assert {3} == {b for target in added.entries.values() for b in target} - {1, 2}
    assert added.notes
    rebalanced = plans.propose(Goal(all_topics=True, rebalance=True))
    assert any(3 in target for target in rebalanced.entries.values())
    even = FakeCluster(brokers=frozenset({1, 2})).assign(A, (1, 2)).assign(B, (2, 1))
    with pytest.raises(InvalidInputError, match="Nothing has to move"):
        plans_of(even).propose(Goal(all_topics=True, rebalance=True))


def test_brokers_are_offered_with_what_they_have() -> None:
    """Dead and drained ones are named as such; none without a status."""
    cluster = FakeCluster()
    assert list(plans_of(cluster).brokers()) == []
    loads = [{"broker": 1, "rack": "a", "replicas": 1}, {"broker": 4, "replicas": 2}]
    status = {"broker_loads": loads, "dead_brokers": [4], "drains": [{"broker": 4}]}
    plans = PagePlans(
        load_settings({"zookeeper": "zk:2181"}, environ={}),
        lambda: nullcontext(FakeOperator(cluster)),
        lambda: status,
    )
    assert [tuple(b) for b in plans.brokers()] == [
        (1, "rack a, 1 replica"),
        (4, "dead, drained, 2 replicas"),
    ]


def test_plan_is_read_as_execute_does() -> None:
    """Its errors name no file."""
    plans = plans_of(FakeCluster().assign(T, (1, 2)))
    assert plans.parse(text_of(("t", 0, [3, 4]))).entries == {T: replicas(3, 4)}
    with pytest.raises(InvalidInputError, match=r"^the plan: "):
        plans.parse("{}")
    with pytest.raises(InvalidInputError, match=r"^the plan: one entry is invalid"):
        plans.parse(text_of(("t", 0, [3, 3])))
    foreign = plans.parse(text_of(("t", 0, [3, 4]), cluster_id="another"))
    for turn in (plans.preview, lambda wanted: plans.submit(wanted, "alice")):
        with pytest.raises(
            InvalidInputError, match=r"^the plan was planned for the cluster another"
        ):
            turn(PlanSubmission(plan=foreign))


def test_preview_shows_changes_and_refusals() -> None:
    """As `execute --dry-run`: here of brokers that do not answer."""
    cluster = FakeCluster().assign(T, (1, 2)).assign(U, (1, 2))
    plan = PlanFile(entries={T: replicas(3, 4), U: replicas(3, 99)})
    shown = plans_of(cluster).preview(
        PlanSubmission(plan=plan, options=RequestOptions(throttle=1_000_000))
    )
    assert (shown.entries, shown.refused) == (2, 1)
    assert "t-0: 1,2 -> 3,4 (adds 3,4, drops 1,2)" in shown.changes
    (problem,) = shown.problems
    assert problem.startswith("u-0 would be refused: ")
    assert shown.summary[0].startswith("1 partition in ")
    assert "no daemon answers" in " ".join(shown.notes)
    assert shown.tables[0].rows
    assert cluster.submitted == {}


def test_plan_is_submitted_as_a_request() -> None:
    """With its options; not while new reassignments are disabled."""
    cluster = FakeCluster().assign(T, (1, 2))
    plan = PlanFile(entries={T: replicas(3, 4)})
    options = RequestOptions(reason="test")
    plans_of(cluster).submit(PlanSubmission(plan=plan, options=options), "alice")
    (submission,) = cluster.submitted.values()
    assert submission.entries == plan.entries
    assert (submission.options.requested_by, submission.options.reason) == ("alice", "test")
    cluster.switch = KillSwitch()
    with pytest.raises(ReassignmentConflictError, match="disabled"):
        plans_of(cluster).submit(PlanSubmission(plan=plan), "alice")
    with pytest.raises(ReassignmentConflictError, match="disabled"):
        plans_of(cluster).preview(PlanSubmission(plan=plan))
