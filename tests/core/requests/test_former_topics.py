"""A record that outlives its topic is never applied to a new topic of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from controller.core import model
from controller.core.core_settings import Options
from controller.core.leadership.records import StatesRead
from controller.core.model import RequestId, Route, ZkVersion, Zxid
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.gates import preconditions_of
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord, SpecsRead
from controller.core.requests import outcomes, submissions
from controller.core.requests.records import (
    AcceptedRead,
    CancellationRead,
    HistoryRead,
    LegacyPlanRead,
    RefusalRecord,
)
from controller.core.requests.submissions import AcceptedEntry, LegacyPlan, legacy_request_id
from controller.core.role.records import ControllerClaimed, Deposed, UpdateMetadataAnswered
from controller.core.topics.records import TopicConfigsRead, TopicsRead
from tests.core.builders import Driver, plan, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver, delegated
from tests.core.requests.test_cancellation import CANCEL, undo
from tests.core.requests.test_submitted import outcomes as outcomes_of
from tests.core.requests.test_submitted import submission, submit

NAME = "request_0000000000"
FORMER, PRESENT = Zxid(5), Zxid(9)
"""The driver's topics have the latter."""
PAUSED = ControlsRead(Controls(Pauses(everything=Pause("wait"))))
GO_ON = ControlsRead(Controls())


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
        if isinstance(record, RefusalRecord)
        for refusal in record.refusals
    ]


def accepted_specs(driver: Driver) -> list[model.ReassignmentSpec]:
    """Return the specs that were written."""
    return [
        record.spec
        for change in driver.changes
        for record in change.records
        if isinstance(record, SpecRecord)
    ]


def created_again(*ids: int, adding: tuple[int, ...] = ()) -> TopicsRead:
    """Return the read of a topic of the same name that was created later."""
    assignment = model.PartitionAssignment(replicas(*ids), replicas(*adding))
    later = model.TopicAssignment({0: assignment}, ZkVersion(0), Zxid(90))
    return TopicsRead({"t": later})


def test_a_record_found_at_a_claim_ends_where_its_topic_was_created_again() -> None:
    """Neither its target nor its original replicas were meant for the present topic."""
    driver = Driver({tp(): (1, 2)})
    driver.adopt({tp(): of_topic(FORMER)})
    assert driver.view.reassignments.by_partition == {}
    assert refusals(driver) == [("r", "the topic was deleted and created again")]
    ended = [
        record
        for change in driver.changes
        for record in change.records
        if isinstance(record, SpecEndedRecord)
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
    assert driver.view.reassignments.by_partition == {}
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


def test_an_entry_waits_for_the_end_of_the_record() -> None:
    """Nothing of the record is kept: it ends with an outcome of its own first."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, submission(NAME, {tp(): (5, 6)}))
    driver.view.reassignments.by_partition[tp()].spec = of_topic(FORMER, NAME)
    later = "request_0000000001"
    submit(driver, submission(later, {tp(): (3, 4)}))
    assert [spec.request for spec in accepted_specs(driver)] == [NAME]
    driver.view.due.add((tp(),))
    driver.settle()
    assert refusals(driver) == [(NAME, "the topic was deleted and created again")]
    spec = accepted_specs(driver)[-1]
    assert (spec.request, spec.original, spec.target) == (later, (1, 2), (3, 4))
    assert (spec.topic_czxid, spec.abandoned, spec.version) == (PRESENT, frozenset(), None)


def test_the_entry_of_a_newer_plan_is_judged_by_itself() -> None:
    """It is not taken out of the plan with the record of the former topic."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    old = replace(of_topic(FORMER, "legacy-0000000000000001"), route=Route.LEGACY)
    driver.view.requests.legacy = None
    driver.adopt({tp(): old})
    driver.observe(LegacyPlanRead(plan({tp(): (5, 6)})))
    known = driver.view.reassignments.by_partition[tp()]
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
    driver.observe(CancellationRead(submissions.Cancellation(ZkVersion(0), Zxid(70), 1_000)))
    assert driver.view.reassignments.by_partition == {}
    assert not any(spec.rolls_back for spec in accepted_specs(driver))


def test_a_foreign_reassignment_of_the_new_topic_is_found_when_the_record_ends() -> None:
    """The record concealed it when the topic was read."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    driver.submit({tp(): (3, 4)})
    driver.observe(created_again(1, 2, 3, adding=(3,)))
    assert driver.view.reassignments.by_partition[tp()].spec.route is Route.FOREIGN


def test_a_foreign_reassignment_that_is_rolled_back_is_recorded_for_its_topic() -> None:
    """The rollback is a reassignment of ours from then on."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(Deposed("a broker is the controller"), *driver.own_records())
    assignment = model.PartitionAssignment(replicas(1, 2, 3), replicas(3))
    begun = model.TopicAssignment({0: assignment}, ZkVersion(1), PRESENT)
    driver.observe(TopicsRead({"t": begun}))
    driver.observe(ControllerClaimed(model.ControllerEpoch(30)), LegacyPlanRead(None))
    driver.observe(StatesRead(driver.first_states))
    assert driver.view.reassignments.by_partition[tp()].spec.route is Route.FOREIGN
    named = submissions.Cancellation(ZkVersion(0), Zxid(70), 1_000, partitions=frozenset({tp()}))
    driver.observe(CancellationRead(named))
    written = [spec for spec in accepted_specs(driver) if spec.rolls_back]
    assert [spec.topic_czxid for spec in written] == [PRESENT]


# --- records that are not examined yet -----------------------------------------------------------


def claim_at_once(
    driver: Driver,
    specs: Mapping[model.TopicPartition, model.ReassignmentSpec],
    listed: LegacyPlan | None = None,
) -> None:
    """Claim where an earlier daemon left these records; everything is read in the first cycle."""
    topics = {
        name: model.TopicAssignment(dict(topic.partitions), topic.version, topic.czxid)
        for name, topic in driver.view.topics.by_name.items()
    }
    driver.observe(Deposed("a new process"))
    for read in (
        *driver.own_records(),
        SpecsRead(specs, {}),
        ControllerClaimed(model.ControllerEpoch(30)),
        *(UpdateMetadataAnswered(b, driver.epoch(b), 0) for b in driver.view.cluster.brokers),
        LegacyPlanRead(listed),
        TopicsRead(topics),
        StatesRead(driver.first_states, armed=frozenset(driver.first_states)),
    ):
        driver.fold(read)
    driver.observe(TopicConfigsRead({t: model.TopicConfig(1, False) for t in topics}))  # noqa: FBT003


MANY: Final = [tp(number) for number in range(8)]


def test_very_many_records_move_nothing_before_each_is_examined() -> None:
    """A cycle considers pending reassignments that it does not examine."""
    driver = Driver(dict.fromkeys(MANY, (1, 2)), options=Options(look_chunk=1))
    claim_at_once(driver, dict.fromkeys(MANY, of_topic(FORMER)))
    assert driver.view.reassignments.by_partition == {}
    assert not any(driver.history.values())
    assert not any(driver.states.values())


def test_very_many_records_request_nothing_of_the_controller() -> None:
    """The delegated engine considers them in the same way."""
    options = replace(delegated(), look_chunk=1)
    driver = DelegatedDriver(dict.fromkeys(MANY, (1, 2)), options=options)
    claim_at_once(driver, dict.fromkeys(MANY, of_topic(FORMER)))
    assert driver.view.reassignments.by_partition == {}
    assert driver.orders == []


def test_the_entries_of_a_plan_are_not_accepted_again_for_the_new_topic() -> None:
    """They leave the plan with their records, in whatever cycle those are examined."""
    driver = Driver(dict.fromkeys(MANY, (1, 2)), options=Options(look_chunk=1))
    request = legacy_request_id(Zxid(50))
    former = replace(of_topic(FORMER, request), route=Route.LEGACY)
    listed = plan(dict.fromkeys(MANY, (5, 6)))
    claim_at_once(driver, dict.fromkeys(MANY, former), listed)
    assert accepted_specs(driver) == []
    assert not any(driver.history.values())
    assert driver.view.requests.legacy is None
    ended = "the topic was deleted and created again"
    assert refusals(driver) == [(request, ended)] * len(MANY)


# --- entries for the new topic -------------------------------------------------------------------


def test_an_entry_of_a_plan_is_not_refused_for_a_request_for_the_former_topic() -> None:
    """It waits for the end of the record, which is decided in the same cycle."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, submission(NAME, {tp(): (3, 4)}))
    driver.fold(created_again(2, 3))
    driver.observe(LegacyPlanRead(plan({tp(): (5, 6)})))
    driver.observe(TopicConfigsRead({"t": model.TopicConfig(1, False)}))  # noqa: FBT003
    assert refusals(driver) == [(NAME, "the topic was deleted and created again")]
    spec = driver.view.reassignments.by_partition[tp()].spec
    assert (spec.route, spec.original, spec.target) == (Route.LEGACY, (2, 3), (5, 6))


def test_a_request_is_not_refused_for_a_plan_for_the_former_topic() -> None:
    """It waits for the ends of the records, which may take several cycles."""
    driver = Driver(dict.fromkeys(MANY, (1, 2)), options=Options(look_chunk=1))
    driver.observe(PAUSED, Deposed("a broker is the controller"), *driver.own_records())
    submit(driver, submission(NAME, dict.fromkeys(MANY, (5, 6))))
    request = legacy_request_id(Zxid(40))
    former = replace(of_topic(FORMER, request), route=Route.LEGACY)
    claim_at_once(driver, dict.fromkeys(MANY, former))
    ended = "the topic was deleted and created again"
    assert refusals(driver) == [(request, ended)] * len(MANY)
    kept = {
        p: (r.spec.request, r.spec.original)
        for p, r in driver.view.reassignments.by_partition.items()
    }
    assert kept == dict.fromkeys(MANY, (NAME, (1, 2)))


# --- what else a record causes -------------------------------------------------------------------


def test_the_end_of_the_record_moves_no_leadership_of_the_new_topic() -> None:
    """No reassignment of it has ended that would have left another leader."""
    driver = Driver({tp(): (1, 2)}, leaders={tp(): 2})
    former = replace(of_topic(FORMER, legacy_request_id(Zxid(50))), route=Route.LEGACY)
    claim_at_once(driver, {tp(): former}, plan({tp(): (5, 6)}))
    assert driver.view.reassignments.by_partition == {}
    assert driver.states[tp()] == []


def test_the_record_throttles_nothing() -> None:
    """It may wait for the next tenure: its request may be paused."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(Deposed("a new process"), *driver.own_records())
    driver.observe(SpecsRead({tp(): of_topic(FORMER)}, {}))
    assert tp() in driver.view.reassignments.by_partition
    assert not driver.view.pacing_process.participants.requests
    driver.observe(SpecsRead({tp(): of_topic(PRESENT)}, {}))
    assert driver.view.pacing_process.participants.requests
    driver.observe(created_again(2, 3))
    assert not driver.view.pacing_process.participants.requests


def test_an_alter_entry_for_the_former_topic_is_withdrawn() -> None:
    """The new topic may be equal in every other respect."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    submit(driver, submission(NAME, {tp(): (1, 3)}))
    assert preconditions_of(driver.view, tp()) is not None
    driver.view.topics.by_name["t"].czxid = Zxid(90)
    assert preconditions_of(driver.view, tp()) is None


def test_a_foreign_reassignment_of_the_former_topic_is_not_rolled_back() -> None:
    """Its original replicas are those of the former topic."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers_states=False)
    assignment = model.PartitionAssignment(replicas(1, 2, 3), replicas(3))
    begun = model.TopicAssignment({0: assignment}, ZkVersion(1), PRESENT)
    driver.observe(TopicsRead({"t": begun}))
    assert driver.view.reassignments.by_partition[tp()].spec.route is Route.FOREIGN
    driver.fold(created_again(2, 3))
    named = submissions.Cancellation(ZkVersion(0), Zxid(70), 1_000, partitions=frozenset({tp()}))
    driver.observe(CancellationRead(named))
    state = replace(driver.first_states[tp()], leader=model.BrokerId(2), isr=replicas(2, 3))
    driver.observe(StatesRead({tp(): state}))
    assert accepted_specs(driver)[1:] == []
    assert driver.view.reassignments.by_partition == {}


@pytest.mark.parametrize("recorded_in", [Zxid(8), Zxid(10), None])
def test_what_was_finished_in_the_former_topic_is_not_undone(recorded_in: Zxid | None) -> None:
    """The new topic may have been created with the very replicas that the request led to."""
    driver = Driver({tp(): (3, 4)})
    name = RequestId(NAME)
    driver.observe(HistoryRead({}, {name: outcomes.EndedHistory(("summary",), Zxid(40))}))
    entry = AcceptedEntry(tp(), replicas(1, 2), replicas(3, 4), recorded_in)
    undo(driver, AcceptedRead(name, (entry,)))
    is_former = recorded_in == Zxid(8)
    assert [spec.target for spec in accepted_specs(driver)] == ([] if is_former else [(1, 2)])
    if is_former:
        assert outcomes_of(driver)[CANCEL].fates == {model.OutcomeKind.SKIPPED: 1}
