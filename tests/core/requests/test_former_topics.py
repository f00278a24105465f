"""A record that outlives its topic is never applied to a new topic of the same name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core import events, model, records, submissions
from controller.core.controls import Controls, Pause, Pauses
from controller.core.model import RequestId, Route, ZkVersion, Zxid
from controller.core.requests.acceptance import legacy_request_id
from tests.core.builders import Driver, plan, replicas, tp
from tests.core.requests.test_submitted import submission, submit

NAME = "request_0000000000"
FORMER, PRESENT = Zxid(5), Zxid(9)
"""The driver's topics have the latter."""
PAUSED = events.ControlsRead(Controls(Pauses(everything=Pause("wait"))))
GO_ON = events.ControlsRead(Controls())


def of_topic(czxid: Zxid | None, request: str = "r") -> model.ReassignmentSpec:
    """Return a record of an earlier daemon: it moves 4,5 to 5,6."""
    return model.ReassignmentSpec(
        replicas(5, 6),
        replicas(4, 5),
        RequestId(request),
        Route.REQUEST,
        ZkVersion(3),
        topic_czxid=czxid,
    )


def refusals(driver: Driver) -> list[tuple[str, str]]:
    """Return the refusals with their reasons, in order."""
    return [
        (refusal.request, refusal.detail)
        for change in driver.changes
        for record in change.records
        if isinstance(record, records.RefusalRecord)
        for refusal in record.refusals
    ]


def accepted_specs(driver: Driver) -> list[model.ReassignmentSpec]:
    """Return the specs that were written."""
    return [
        record.spec
        for change in driver.changes
        for record in change.records
        if isinstance(record, records.SpecRecord)
    ]


def created_again(*ids: int, adding: tuple[int, ...] = ()) -> events.TopicsRead:
    """Return the read of a topic of the same name that was created later."""
    assignment = model.PartitionAssignment(replicas(*ids), replicas(*adding))
    later = model.TopicAssignment({0: assignment}, ZkVersion(0), Zxid(90))
    return events.TopicsRead({"t": later})


def test_a_record_found_at_a_claim_ends_where_its_topic_was_created_again() -> None:
    """Neither its target nor its original replicas were meant for the present topic."""
    driver = Driver({tp(): (1, 2)})
    driver.adopt({tp(): of_topic(FORMER)})
    assert driver.view.work.reassignments == {}
    assert refusals(driver) == [("r", "the topic was deleted and created again")]
    ended = [
        record
        for change in driver.changes
        for record in change.records
        if isinstance(record, records.SpecEndedRecord)
    ]
    assert [(record.version, record.outcome) for record in ended] == [(3, "topic deleted")]
    assert driver.history[tp()] == []


@pytest.mark.parametrize("czxid", [PRESENT, None])
def test_a_record_of_the_present_topic_is_continued(czxid: Zxid | None) -> None:
    """So is one of an earlier version, which does not say which topic it was accepted for."""
    driver = Driver({tp(): (4, 5)})
    driver.adopt({tp(): of_topic(czxid)})
    driver.run(tp())
    assert driver.passed(tp())[-1] == (5, 6)


def test_a_pending_reassignment_ends_when_its_topic_is_created_again() -> None:
    """The daemon reads only the new topic: its deletion was over before."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    driver.submit({tp(): (3, 4)})
    assert [spec.topic_czxid for spec in accepted_specs(driver)] == [PRESENT]
    driver.observe(created_again(2, 3))
    assert driver.view.work.reassignments == {}
    request = legacy_request_id(Zxid(50))
    assert refusals(driver) == [(request, "the topic was deleted and created again")]
    driver.observe(GO_ON)
    assert driver.history[tp()] == []


def test_an_entry_for_the_new_topic_takes_its_own_original_replicas() -> None:
    """A cancellation would lead back to them."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    driver.adopt({tp(): of_topic(FORMER)})
    submit(driver, submission(NAME, {tp(): (5, 6)}))
    (spec,) = accepted_specs(driver)
    assert (spec.original, spec.target, spec.topic_czxid) == ((1, 2), (5, 6), PRESENT)
    assert spec.abandoned == frozenset()


def test_an_entry_that_replaces_the_record_takes_its_version() -> None:
    """Acceptance may come before the end of the record: it is replaced, with nothing of it kept."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, submission(NAME, {tp(): (5, 6)}))
    known = driver.view.work.reassignments[tp()]
    known.spec = of_topic(FORMER, "old")
    submit(driver, submission("request_0000000001", {tp(): (3, 4)}))
    spec = accepted_specs(driver)[-1]
    assert (spec.original, spec.target, spec.version) == ((1, 2), (3, 4), 3)
    assert (spec.topic_czxid, spec.abandoned) == (PRESENT, frozenset())


def test_the_entry_of_a_newer_plan_is_judged_by_itself() -> None:
    """It is not taken out of the plan with the record of the former topic."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    old = replace(of_topic(FORMER, "legacy-0000000000000001"), route=Route.LEGACY)
    driver.view.intake.legacy = None
    driver.adopt({tp(): old})
    driver.observe(events.LegacyPlanRead(plan({tp(): (5, 6)})))
    known = driver.view.work.reassignments[tp()]
    assert known.spec.request == legacy_request_id(Zxid(50))
    assert known.spec.original == (1, 2)
    driver.observe(GO_ON)
    driver.run(tp())
    assert driver.passed(tp())[-1] == (5, 6)


def test_a_cancellation_does_not_reverse_the_record_of_a_former_topic() -> None:
    """The original replicas were those of the deleted topic."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    driver.submit({tp(): (3, 4)})
    driver.fold(created_again(2, 3))
    driver.observe(events.CancellationRead(submissions.Cancellation(ZkVersion(0), Zxid(70), 1_000)))
    assert driver.view.work.reassignments == {}
    assert not any(spec.rolls_back for spec in accepted_specs(driver))


def test_a_foreign_reassignment_of_the_new_topic_is_found_when_the_record_ends() -> None:
    """The record concealed it when the topic was read."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    driver.submit({tp(): (3, 4)})
    driver.observe(created_again(1, 2, 3, adding=(3,)))
    assert driver.view.work.reassignments[tp()].spec.route is Route.FOREIGN


def test_a_foreign_reassignment_that_is_rolled_back_is_recorded_for_its_topic() -> None:
    """The rollback is a reassignment of ours from then on."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(events.Deposed("a broker is the controller"), *driver.own_records())
    assignment = model.PartitionAssignment(replicas(1, 2, 3), replicas(3))
    begun = model.TopicAssignment({0: assignment}, ZkVersion(1), PRESENT)
    driver.observe(events.TopicsRead({"t": begun}))
    driver.observe(events.ControllerClaimed(model.ControllerEpoch(30)), events.LegacyPlanRead(None))
    driver.observe(events.StatesRead(driver.first_states))
    assert driver.view.work.reassignments[tp()].spec.route is Route.FOREIGN
    named = submissions.Cancellation(ZkVersion(0), Zxid(70), 1_000, partitions=frozenset({tp()}))
    driver.observe(events.CancellationRead(named))
    written = [spec for spec in accepted_specs(driver) if spec.rolls_back]
    assert [spec.topic_czxid for spec in written] == [PRESENT]
