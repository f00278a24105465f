"""Requests that want all or nothing: accepted whole, refused whole, taken back whole."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.cycle import take_due
from controller.core.decide import decide
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    ControllerEpoch,
    OutcomeKind,
    PartitionAssignment,
    ReassignmentSpec,
    RefusalReason,
    RequestId,
    Route,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.records import AppliedThrottlesRead
from controller.core.reassignments.records import OrphansRead, SpecRecord, SpecsRead
from controller.core.requests.outcomes import OpenHistory, Part
from controller.core.requests.records import (
    AcceptedRead,
    HistoryRead,
    LegacyPlanRead,
    RefusalRecord,
    SubmissionEndedRecord,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submission_parts import take_back
from controller.core.requests.submissions import AcceptedEntry, RequestOptions
from controller.core.role.records import ControllerClaimed, Deposed
from tests.core.builders import EPOCH, Driver, replicas, tp
from tests.core.requests.test_submitted import outcomes, submission, submit

REQUEST = RequestId("request_0000000002")
OLDER = RequestId("request_0000000001")


def spec(target: tuple[int, ...], original: tuple[int, ...], *abandoned: int) -> ReassignmentSpec:
    """Return the record of an entry of the request that is all or nothing."""
    return ReassignmentSpec(
        replicas(*target),
        replicas(*original),
        REQUEST,
        Route.REQUEST,
        ZkVersion(0),
        abandoned=frozenset(replicas(*abandoned)),
    )


def taken_by_halves(driver: Driver, specs: Mapping[TopicPartition, ReassignmentSpec]) -> None:
    """Claim where a daemon died that had accepted these entries of the request and no others."""
    known = dict(driver.view.leadership.states)
    driver.observe(Deposed("a new process"))
    part = Part(REQUEST, 3, 1_700_000_000_000, RequestOptions(atomic=True))
    rows = tuple(AcceptedEntry(p, g.original, g.target) for p, g in specs.items())
    driver.observe(
        SubmissionsListed(frozenset({REQUEST})),
        SpecsRead(specs, {}),
        OrphansRead(frozenset()),
        HistoryRead({REQUEST: OpenHistory({REQUEST: part}, len(rows), (), ())}, {}),
        AppliedThrottlesRead({}),
        LegacyPlanRead(None),
    )
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(AcceptedRead(REQUEST, rows))
    driver.observe(StatesRead(known))


def test_an_atomic_request_with_one_bad_entry_starts_nothing() -> None:
    """All or nothing: what is good is refused with the bad one's reason."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    bad = {tp(0): (1, 3), tp(1): (1, 3), tp(9): (1, 2)}
    submit(driver, submission("request_0000000002", bad, atomic=True))
    assert driver.view.reassignments.by_partition == {}
    summary = outcomes(driver)[RequestId("request_0000000002")]
    assert summary.done == 0
    assert {r.reason for r in summary.refused} == {
        RefusalReason.UNKNOWN_PARTITION,
        RefusalReason.ATOMIC,
    }
    assert sum(r.entries for r in summary.refused) == 3


def test_an_atomic_request_goes_when_its_own_refusals_are_durable() -> None:
    """A refusal that has to be decided anew must not be forgotten with the znode."""
    driver = Driver({tp(0): (1, 2), tp(9): (1, 2)})
    bad = submission("request_0000000002", {tp(0): (1, 3), tp(9): (1, 1)}, atomic=True)
    driver.fold(SubmissionsListed(frozenset({bad.name})))
    driver.fold(SubmissionsRead({bad.name: bad}))
    decision = decide(driver.view, take_due(driver.view), driver.now)
    written = [r for change in decision.changes for r in change.records]
    assert [r.refusals[0].partition for r in written if isinstance(r, RefusalRecord)] == [tp(9)]
    assert not any(isinstance(r, SubmissionEndedRecord) for r in written)


def test_an_atomic_request_waits_for_all_its_parts() -> None:
    """Not even the first part is accepted before the last is there."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    whole = RequestId("req-1")
    first = submission("request_0000000003", {tp(0): (1, 3)}, atomic=True, part_of=whole, parts=2)
    second = submission("request_0000000004", {tp(1): (1, 3)}, atomic=True, part_of=whole, parts=2)
    submit(driver, first)
    assert driver.view.reassignments.by_partition == {}
    submit(driver, second)
    assert set(driver.view.reassignments.by_partition) == {tp(0), tp(1)}
    driver.run(tp(0))
    driver.run(tp(1))
    assert outcomes(driver)[whole].done == 2


def taken(
    specs: Mapping[TopicPartition, ReassignmentSpec],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return these goals as entries of a request."""
    return {p: tuple(g.target) for p, g in specs.items()}


def test_nothing_begins_while_the_rest_of_a_request_is_listed_and_not_read() -> None:
    """A daemon before may have accepted a part of it; the rest may yet refuse the whole."""
    driver = Driver({tp(0): (1, 2)})
    taken_by_halves(driver, {tp(0): spec((1, 3), (1, 2))})
    assert driver.history[tp(0)] == []
    whole = {tp(0): (1, 3)}
    submit(driver, submission(REQUEST, whole, atomic=True))
    assert driver.view.reassignments.by_partition[tp(0)].in_flight


def test_accepted_entries_continue_after_the_request_znode_was_deleted() -> None:
    """The znode was deleted: no entry of it can be refused any more."""
    driver = Driver({tp(0): (1, 2)})
    taken_by_halves(driver, {tp(0): spec((1, 3), (1, 2))})
    driver.observe(SubmissionsListed(frozenset()))
    assert driver.view.reassignments.by_partition[tp(0)].in_flight


def test_what_was_accepted_of_a_request_is_taken_back_when_the_rest_turns_out_bad() -> None:
    """What it took over in flight is led back; what has not begun ends without a step."""
    driver = Driver({tp(0): (0, 1, 2), tp(1): (1, 2)})
    submit(driver, submission(OLDER, {tp(0): (3, 4, 5)}))
    driver.acknowledges = False
    specs = {tp(0): spec((0, 1, 6), (0, 1, 2), 3, 4, 5), tp(1): spec((1, 3), (1, 2))}
    taken_by_halves(driver, specs)
    assert driver.view.reassignments.by_partition[tp(0)].in_flight
    submit(driver, submission(REQUEST, {**taken(specs), tp(9): (1, 2)}, atomic=True))
    assert driver.view.reassignments.by_partition[tp(0)].spec.rolls_back
    driver.acknowledges = True
    driver.acknowledge(tp(0), replicas(0, 1, 2))
    driver.settle()
    assert driver.view.reassignments.by_partition == {}
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(0, 1, 2))
    assert all(6 not in assignment.replicas for assignment in driver.history[tp(0)])
    assert driver.history[tp(1)] == []
    summary = outcomes(driver)[REQUEST]
    assert (summary.total, summary.done) == (3, 0)
    assert {r.partition: r.reason for r in summary.refused} == {
        tp(1): RefusalReason.ATOMIC,
        tp(9): RefusalReason.UNKNOWN_PARTITION,
    }
    assert summary.fates == {OutcomeKind.ROLLED_BACK: 1}


def test_what_was_accepted_is_led_back_also_while_its_topic_is_in_doubt() -> None:
    """What stands there was read before, and the record does not end beside a step."""
    driver = Driver({tp(0): (0, 1, 2), tp(1): (1, 2)})
    submit(driver, submission(OLDER, {tp(0): (3, 4, 5)}))
    driver.acknowledges = False
    specs = {tp(0): spec((0, 1, 6), (0, 1, 2), 3, 4, 5)}
    taken_by_halves(driver, specs)
    driver.view.topics.by_name["t"].stale = True
    (change,) = take_back(driver.view, REQUEST, "the rest of it is bad")
    (record,) = change.records
    assert isinstance(record, SpecRecord)
    assert record.spec.rolls_back


def test_a_way_back_that_is_under_way_is_not_begun_again() -> None:
    """Its record is written once, however often the rest of the request is judged."""
    driver = Driver({tp(0): (0, 1, 2), tp(1): (1, 2)})
    submit(driver, submission(OLDER, {tp(0): (3, 4, 5)}))
    driver.catch_up(tp(0), 3)
    driver.acknowledges = False
    taken_by_halves(driver, {tp(0): spec((0, 1, 6), (0, 1, 2), 3, 4, 5)})
    driver.changes.clear()
    bad = {tp(0): (0, 1, 6), tp(1): (1, 3), tp(9): (1, 2)}
    submit(driver, submission(REQUEST, bad, atomic=True))
    assert driver.view.reassignments.by_partition[tp(0)].in_flight
    specs = [r for c in driver.changes for r in c.records if isinstance(r, SpecRecord)]
    assert [r.spec.target for r in specs] == [replicas(0, 1, 2)]
    assert driver.view.requests_session.submissions == {}
