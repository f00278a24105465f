"""Approved requests: verified against their hash, and refused where partitions drifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.core import model
from controller.core.core_settings import Options
from controller.core.model import RefusalReason, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.records import SpecRecord
from controller.core.requests.outcomes import OpenHistory
from controller.core.requests.records import (
    CancellationRead,
    HistoryRead,
    PartRecord,
    QueueRead,
    RefusalRecord,
    SubmissionReliedRecord,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submission_parts import part_of
from controller.core.requests.submissions import (
    APPROVAL_REQUIRED,
    Cancellation,
    Submission,
    plan_hash,
    queue_request_id,
)
from controller.core.role.records import Deposed
from controller.core.topics.records import TopicsRead
from tests.core.builders import Driver, plan, replicas, tp
from tests.core.requests.test_submitted import outcomes, submission, submit

NAME = "request_0000000000"
LATER = "request_0000000001"
PAUSED = ControlsRead(Controls(Pauses(everything=Pause("wait"))))
GO_ON = ControlsRead(Controls())

Entries = Mapping[TopicPartition, Sequence[int]]


def approved(
    entries: Entries, expected: Entries, name: str = NAME, **options: object
) -> Submission:
    """Return an approved request as read; its hash is that of the entries given."""
    wanted = {p: replicas(*r) for p, r in entries.items()}
    there = {p: replicas(*r) for p, r in expected.items()}
    chosen = {"approved": plan_hash(wanted, there), "approved_by": "ann"} | options
    named = submission(name, entries, **chosen)  # type: ignore[arg-type]
    return replace(named, expected=there)


def refusals(driver: Driver) -> list[tuple[RefusalReason, str]]:
    """Return the refusals that were written: reason and detail."""
    return [
        (refusal.reason, refusal.detail)
        for change in driver.changes
        for record in change.records
        if isinstance(record, RefusalRecord)
        for refusal in record.refusals
    ]


def reasons(driver: Driver) -> list[RefusalReason]:
    """Return the reasons of the refusals that were written."""
    return [reason for reason, _ in refusals(driver)]


def specs(driver: Driver) -> list[model.ReassignmentSpec]:
    """Return the specs that were written, in order."""
    return [
        record.spec
        for change in driver.changes
        for record in change.records
        if isinstance(record, SpecRecord)
    ]


# --- acceptance ----------------------------------------------------------------------------------


def test_an_approved_request_is_carried_out_with_its_approver_in_the_outcome() -> None:
    """The record names the approved replicas until the first step, and no longer."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    entries = {tp(0): (1, 3), tp(1): (2, 3)}
    request = approved(entries, {tp(0): (1, 2), tp(1): (1, 2)}, requested_by="bob")
    submit(driver, request)
    assert [s.expected for s in specs(driver)[:2]] == [(1, 2), (1, 2)]
    driver.run(tp(0))
    driver.run(tp(1))
    assert [s.expected for s in specs(driver)[2:]] == [None, None]
    summary = outcomes(driver)[RequestId(NAME)]
    assert (summary.done, summary.requested_by, summary.approved_by) == (2, "bob", "ann")
    assert summary.approved == request.options.approved


def test_an_entry_that_drifted_before_acceptance_is_refused_and_the_others_move() -> None:
    """The refusal names the approved and the present replicas."""
    driver = Driver({tp(0): (2, 1), tp(1): (1, 2)})
    submit(driver, approved({tp(0): (1, 3), tp(1): (1, 3)}, {tp(0): (1, 2), tp(1): (1, 2)}))
    detail = "it was approved for the replicas [1, 2], it has [2, 1]"
    assert refusals(driver) == [(RefusalReason.DRIFTED, detail)]
    driver.run(tp(1))
    assert driver.history[tp(0)] == []
    assert driver.passed(tp(1))[-1] == (1, 3)


def test_an_entry_that_is_at_its_target_already_is_done() -> None:
    """Nothing is moved, and the replicas are the ones that were approved as the target."""
    driver = Driver({tp(): (1, 3)})
    submit(driver, approved({tp(): (1, 3)}, {tp(): (1, 2)}))
    assert refusals(driver) == []
    assert outcomes(driver)[RequestId(NAME)].done == 1


def test_a_partition_that_is_being_reassigned_is_not_as_approved() -> None:
    """Its replicas are no plain assignment, even where the same brokers serve."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, submission(NAME, {tp(): (1, 3)}))
    submit(driver, approved({tp(): (1, 4)}, {tp(): (1, 2)}, LATER))
    assert reasons(driver) == [RefusalReason.DRIFTED]
    driver.run(tp())
    assert driver.passed(tp())[-1] == (1, 3)


def test_an_approved_entry_supersedes_a_reassignment_that_has_not_begun() -> None:
    """Its replicas are still those that were approved."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, submission(NAME, {tp(): (1, 3)}))
    submit(driver, approved({tp(): (1, 4)}, {tp(): (1, 2)}, LATER))
    driver.observe(GO_ON)
    driver.run(tp())
    assert driver.passed(tp())[-1] == (1, 4)


# --- verification --------------------------------------------------------------------------------


def test_entries_that_were_not_approved_are_refused_as_a_whole() -> None:
    """The hash covers targets and approved replicas."""
    good = approved({tp(): (1, 3)}, {tp(): (1, 2)})
    for changed in (
        replace(good, entries={tp(): replicas(1, 4)}),
        replace(good, expected={tp(): replicas(2, 1)}),
        replace(good, expected={}),
        replace(good, entries={**good.entries, tp(1): replicas(1, 3)}),
    ):
        driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
        submit(driver, changed)
        assert reasons(driver) == [RefusalReason.NOT_APPROVED]
        assert driver.view.reassignments.by_partition == {}
        assert driver.view.requests_session.submissions == {}
        assert outcomes(driver)[RequestId(NAME)].approved_by == "ann"


def test_a_hash_of_entries_without_approved_replicas_does_not_help() -> None:
    """Such an entry could begin from any replicas."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, approved({tp(): (1, 3)}, {}))
    ((reason, detail),) = refusals(driver)
    assert reason is RefusalReason.NOT_APPROVED
    assert "do not name the replicas" in detail


def in_parts(**first: object) -> list[Submission]:
    """Return an approved request of two parts."""
    entries = {tp(0): (1, 3), tp(1): (1, 3)}
    there = {tp(0): (1, 2), tp(1): (1, 2)}
    whole = approved(entries, there)
    common = {"approved": whole.options.approved, "part_of": RequestId("big"), "parts": 2}
    return [
        approved({tp(0): (1, 3)}, {tp(0): (1, 2)}, NAME, **{**common, **first}),
        approved({tp(1): (1, 3)}, {tp(1): (1, 2)}, LATER, **common),
    ]


def test_parts_are_verified_together_and_opened_in_one_transaction() -> None:
    """Nothing is accepted before all are there: the hash covers all of them."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    first, second = in_parts()
    submit(driver, first)
    assert specs(driver) == []
    submit(driver, second)
    (opening,) = (
        c.records for c in driver.changes if any(isinstance(r, PartRecord) for r in c.records)
    )
    opened = [r for r in opening if isinstance(r, PartRecord)]
    assert [(r.part.name, r.part.approved_version) for r in opened] == [(NAME, 0), (LATER, 0)]
    relied = [r for r in opening if isinstance(r, SubmissionReliedRecord)]
    assert [r.name for r in relied] == [NAME, LATER]
    driver.run(tp(0))
    driver.run(tp(1))
    assert outcomes(driver)[RequestId("big")].done == 2


def test_parts_of_which_one_is_not_as_approved_are_refused_all() -> None:
    """The refusal of the first one does not make the second one an approved plan."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    first, second = in_parts()
    submit(driver, replace(first, entries={tp(0): replicas(1, 4)}), second)
    assert reasons(driver) == [RefusalReason.NOT_APPROVED] * 2
    assert driver.view.reassignments.by_partition == {}


def test_parts_that_name_different_approvals_are_refused() -> None:
    """So are parts that name different approvers."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    submit(driver, *in_parts(approved_by="eve"))
    assert reasons(driver) == [RefusalReason.NOT_APPROVED] * 2


def test_a_part_that_is_left_after_a_restart_is_accepted_by_its_verified_version() -> None:
    """The whole cannot be hashed again: the other part is gone."""
    first, second = in_parts()
    for version, expected in ((0, []), (1, [RefusalReason.NOT_APPROVED])):
        driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
        history = {s.name: replace(part_of(s), approved_version=s.version) for s in (first, second)}
        driver.observe(
            SubmissionsListed(frozenset({LATER})),
            HistoryRead({RequestId("big"): OpenHistory(history, 0)}, {}),
        )
        driver.observe(SubmissionsRead({LATER: replace(second, version=ZkVersion(version))}))
        assert reasons(driver) == expected
        assert (tp(1) in driver.view.reassignments.by_partition) is not bool(expected)


# --- cancellation and atomic requests ------------------------------------------------------------


def drifted(driver: Driver, *ids: int) -> TopicsRead:
    """Return the read of the topic after another client gave its partition other replicas."""
    topic = driver.view.topics.by_name["t"]
    changed = {**topic.partitions, 0: model.PartitionAssignment(replicas(*ids))}
    version = ZkVersion(topic.version + 1)
    return TopicsRead({"t": model.TopicAssignment(changed, version, topic.czxid)})


def test_a_cancellation_does_not_undo_what_another_client_did() -> None:
    """The entry is refused, and the partition stays where the other client has put it."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(PAUSED)
    submit(driver, approved({tp(): (1, 3)}, {tp(): (1, 2)}))
    driver.fold(drifted(driver, 4, 5))
    driver.observe(CancellationRead(Cancellation(ZkVersion(0), Zxid(70), 1_000)))
    assert driver.view.reassignments.by_partition == {}
    assert reasons(driver) == [RefusalReason.DRIFTED]
    assert driver.history[tp()] == []


def test_the_refusal_of_an_atomic_request_does_not_undo_what_another_client_did() -> None:
    """Accepted entries are taken back where they are as approved; the drifted one is refused."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    first, second = in_parts()
    parts = [replace(part, options=replace(part.options, atomic=True)) for part in (first, second)]
    driver.observe(PAUSED)
    submit(driver, *parts)
    driver.observe(drifted(driver, 4, 5))
    driver.observe(GO_ON)
    assert driver.history[tp(0)] == []
    assert RefusalReason.DRIFTED in reasons(driver)


# --- require_approval ----------------------------------------------------------------------------


def test_only_approved_plans_are_accepted_where_that_is_required() -> None:
    """Other requests are refused with the way that is left."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(require_approval=True))
    submit(driver, submission(NAME, {tp(0): (1, 3)}))
    assert refusals(driver) == [(RefusalReason.NOT_APPROVED, APPROVAL_REQUIRED)]
    submit(driver, approved({tp(1): (1, 3)}, {tp(1): (1, 2)}, LATER))
    driver.run(tp(1))
    assert (driver.history[tp(0)], driver.passed(tp(1))[-1]) == ([], (1, 3))


def test_the_legacy_plan_and_the_queue_are_refused_where_approval_is_required() -> None:
    """Their entries leave the znodes with the refusal."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(require_approval=True))
    driver.submit({tp(0): (1, 3)})
    driver.observe(QueueRead(plan({tp(1): (1, 3)}, czxid=77)))
    assert refusals(driver) == [(RefusalReason.NOT_APPROVED, APPROVAL_REQUIRED)] * 2
    assert outcomes(driver)[queue_request_id(Zxid(77))].done == 0
    assert driver.view.reassignments.by_partition == {}
    assert driver.view.requests.legacy is None


def test_a_rollback_needs_no_approval() -> None:
    """It leads back to what was before."""
    driver = Driver({tp(): (1, 2)}, options=Options(require_approval=True))
    submit(driver, approved({tp(): (3, 4)}, {tp(): (1, 2)}))
    driver.observe(CancellationRead(Cancellation(ZkVersion(0), Zxid(70), 1_000)))
    driver.run(tp())
    assert driver.passed(tp())[-1] == (1, 2)


def test_an_unapproved_request_is_refused_without_the_controller_role() -> None:
    """As a disabled one is."""
    driver = Driver({tp(): (1, 2)}, options=Options(require_approval=True))
    driver.observe(Deposed("elsewhere"))
    driver.observe(*driver.own_records())
    driver.sent.clear()
    submit(driver, submission(NAME, {tp(): (1, 3)}))
    assert reasons(driver) == [RefusalReason.NOT_APPROVED]
    assert not any(type(effect).__name__ == "ClaimController" for effect in driver.sent)
