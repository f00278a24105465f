"""Requests: accepted, refused, superseded, and how they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.core.core_settings import Options
from controller.core.cycle import observe, take_due
from controller.core.decide import decide
from controller.core.effects import ReadTopics
from controller.core.model import (
    ControllerEpoch,
    OutcomeKind,
    PartitionAssignment,
    RefusalReason,
    RequestId,
    Route,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import AppliedThrottlesRead, ControlsRead
from controller.core.reassignments.records import OrphansRead, SpecRecord, SpecsRead
from controller.core.requests.outcomes import EndedHistory, OpenHistory, Part, Summary
from controller.core.requests.records import (
    AcceptedRecord,
    CancellationRead,
    HistoryRead,
    KillSwitchRead,
    LegacyPlanRead,
    PartRecord,
    QueueRead,
    RequestOutcomeRecord,
    SubmissionEndedRecord,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import Cancellation, RequestOptions, Submission
from controller.core.role.records import ControllerClaimed, Deposed, LeadershipGained
from controller.core.topics.records import TopicConfigsRead, TopicsListed, TopicsRead
from tests.core.builders import EPOCH, Driver, plan, replicas, tp

Entries = Mapping[TopicPartition, Sequence[int]]


def submission(name: str, entries: Entries, czxid: int = 60, **options: object) -> Submission:
    """Return a request as read."""
    return Submission(
        name,
        {p: replicas(*r) for p, r in entries.items()},
        ZkVersion(0),
        Zxid(czxid),
        1_700_000_000_000,
        RequestOptions(**options),  # type: ignore[arg-type]
    )


def submit(driver: Driver, *submissions: Submission) -> None:
    """Write requests and let them be read."""
    listed = set(driver.view.requests_session.submissions_listed or ()) | {
        s.name for s in submissions
    }
    driver.observe(SubmissionsListed(frozenset(listed)))
    driver.observe(SubmissionsRead({s.name: s for s in submissions}))


def outcomes(driver: Driver) -> dict[RequestId, Summary]:
    """Return every summary written."""
    return {
        r.summary.request: r.summary
        for change in driver.changes
        for r in change.records
        if isinstance(r, RequestOutcomeRecord)
    }


def test_a_request_is_accepted_deleted_and_carried_out() -> None:
    """The goal is durable first; the znode goes when every entry was dealt with."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    submit(driver, submission("request_0000000000", {tp(0): (1, 3), tp(1): (2, 3)}))
    assert driver.view.requests_session.submissions == {}
    kinds = [type(r) for change in driver.changes for r in change.records]
    assert kinds.index(PartRecord) < kinds.index(SpecRecord) < kinds.index(SubmissionEndedRecord)
    driver.run(tp(0))
    driver.run(tp(1))
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(1, 3))
    summary = outcomes(driver)[RequestId("request_0000000000")]
    assert (summary.total, summary.done, summary.refused) == (2, 2, ())


def test_overlapping_requests_write_a_record_once_in_a_turn() -> None:
    """The later one is decided on what the first one wrote; together they would be refused."""
    driver = Driver({tp(n): (1, 2) for n in range(3)})
    first = submission("request_0000000000", {tp(n): (1, 3) for n in range(3)})
    later = submission("request_0000000001", {tp(n): (1, 4) for n in range(3)})
    names = frozenset({first.name, later.name})
    observe(driver.view, SubmissionsListed(names), driver.now)
    observe(driver.view, SubmissionsRead({first.name: first, later.name: later}), driver.now)
    while driver.view.due:
        decision = decide(driver.view, take_due(driver.view), driver.now)
        specs = [r for c in decision.changes for r in c.records if isinstance(r, SpecRecord)]
        assert len({spec.partition for spec in specs}) == len(specs)
        for change in decision.changes:
            driver.commit(change)
    for n in range(3):
        assert driver.view.reassignments.by_partition[tp(n)].spec.request == later.request
    assert driver.view.requests_session.submissions == {}


def test_no_outcome_is_written_before_all_that_is_listed_was_read() -> None:
    """A daemon before may have accepted a request by halves: the rest of it is still to come."""
    driver = Driver({tp(0): (1, 2)})
    request = RequestId("request_0000000000")
    driver.observe(SubmissionsListed(frozenset({request})))
    part = Part(request, 1, 1_700_000_000_000, RequestOptions())
    driver.observe(HistoryRead({request: OpenHistory({request: part}, 0, (), ())}, {}))
    assert request not in outcomes(driver)
    driver.observe(SubmissionsRead({request: submission(request, {tp(0): (1, 3)})}))
    driver.run(tp(0))
    assert outcomes(driver)[request].done == 1


def test_an_outcome_another_daemon_wrote_is_not_written_again() -> None:
    """Else every attempt would be refused, and the next one begin at once."""
    driver = Driver({tp(0): (1, 2)})
    request = RequestId("request_0000000000")
    submit(driver, submission(request, {tp(0): (1, 3)}))
    driver.observe(Deposed("another daemon takes over"))
    driver.observe(
        SpecsRead({}, {}),
        HistoryRead({}, {request: EndedHistory(("summary",), Zxid(70))}),
        LeadershipGained(),
        ControllerClaimed(ControllerEpoch(EPOCH + 1)),
    )
    assert driver.view.requests.by_id[request].has_ended
    assert request not in outcomes(driver)


def test_an_unreadable_request_is_refused_as_unreadable_while_disabled() -> None:
    """Its content is kept, as the number of its entries is unknown."""
    driver = Driver({tp(0): (1, 2)})
    driver.observe(KillSwitchRead(is_on=True))
    garbage = submission("request_0000000000", {})
    submit(driver, replace(garbage, unreadable="not JSON", raw=b"{"))
    assert driver.view.requests_session.submissions == {}
    summary = outcomes(driver)[RequestId("request_0000000000")]
    assert (summary.total, summary.raw) == (1, b"{")
    assert [r.reason for r in summary.refused] == [RefusalReason.UNREADABLE]


def test_a_request_supersedes_a_foreign_reassignment_that_was_not_adopted_yet() -> None:
    """Both become due in one turn; a cancellation has to find the request, not the move before."""
    driver, request = Driver({}), RequestId("request_0000000000")
    driver.observe(TopicsListed(frozenset({"t"})))
    submit(driver, submission(request, {tp(0): (3, 2)}))
    begun = PartitionAssignment(replicas(4, 1, 2), replicas(4), replicas(2))
    driver.observe(
        TopicsRead({"t": TopicAssignment({0: begun}, ZkVersion(1), Zxid(9))}),
        TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=False)}),
    )
    spec = driver.view.reassignments.by_partition[tp(0)].spec
    assert (spec.request, spec.original, spec.target) == (request, replicas(1, 2), replicas(3, 2))
    assert spec.abandoned == frozenset(replicas(4))


def test_what_is_done_already_is_the_last_word_on_what_another_request_would_move() -> None:
    """Both become due in one turn: the less urgent one is judged last, by what the other wants."""
    driver = Driver({tp(0): (1, 2)})
    moves = submission("request_0000000000", {tp(0): (1, 3)})
    stays = submission("request_0000000001", {tp(0): (1, 2)}, priority=-5)
    submit(driver, moves, stays)
    if tp(0) in driver.view.reassignments.by_partition:
        driver.run(tp(0))
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(1, 2))
    assert outcomes(driver)[moves.request].fates == {OutcomeKind.SUPERSEDED: 1}
    assert outcomes(driver)[stays.request].done == 1


def test_the_bad_part_is_refused_and_the_good_part_done() -> None:
    """Each entry is judged for itself, and the outcome names those that were refused."""
    driver = Driver({tp(0): (1, 2)})
    submit(driver, submission("request_0000000001", {tp(0): (1, 3), tp(7): (1, 2)}))
    driver.run(tp(0))
    summary = outcomes(driver)[RequestId("request_0000000001")]
    assert (summary.total, summary.done) == (2, 1)
    assert [r.reason for r in summary.refused] == [RefusalReason.UNKNOWN_PARTITION]


def test_parts_are_one_request() -> None:
    """One id, one count, one outcome, which waits for the last part."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    whole = RequestId("req-2")
    submit(driver, submission("request_0000000005", {tp(0): (1, 3)}, part_of=whole, parts=2))
    driver.run(tp(0))
    assert outcomes(driver) == {}
    submit(driver, submission("request_0000000006", {tp(1): (1, 3)}, part_of=whole, parts=2))
    driver.run(tp(1))
    assert (outcomes(driver)[whole].total, outcomes(driver)[whole].done) == (2, 2)


def test_a_partition_on_the_legacy_route_refuses_a_request() -> None:
    """Legacy and new route never mix on one partition (KIP-236)."""
    driver = Driver({tp(0): (1, 2)})
    driver.submit({tp(0): (1, 3)})
    submit(driver, submission("request_0000000007", {tp(0): (1, 4)}))
    summary = outcomes(driver)[RequestId("request_0000000007")]
    assert [r.reason for r in summary.refused] == [RefusalReason.OTHER_ROUTE]
    assert driver.view.reassignments.by_partition[tp(0)].spec.route is Route.LEGACY


def test_a_partition_of_a_request_refuses_the_legacy_route() -> None:
    """The same the other way round."""
    driver = Driver({tp(0): (1, 2)})
    submit(driver, submission("request_0000000008", {tp(0): (1, 3)}))
    driver.submit({tp(0): (1, 4)})
    refused = driver.view.requests.by_id[RequestId(f"legacy-{50:016x}")].refused
    assert [r.reason for r in refused] == [RefusalReason.OTHER_ROUTE]


def test_kip_236_a_change_in_flight_drops_the_intermediate_replica() -> None:
    """[1,2] to [2,3], then to [2,4]: replica 3 goes at once, not when 4 is in sync."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, submission("request_0000000009", {tp(): (2, 3)}))
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(
        replicas(1, 2, 3), replicas(3)
    )
    submit(driver, submission("request_0000000010", {tp(): (2, 4)}, czxid=61))
    first, *later = driver.history[tp()][1:]
    assert first == PartitionAssignment(replicas(1, 2, 3), replicas(3), replicas(3))
    assert all(3 not in a.replicas for a in later)
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(2, 4))
    before = outcomes(driver)[RequestId("request_0000000009")]
    assert before.fates == {OutcomeKind.SUPERSEDED: 1}
    assert outcomes(driver)[RequestId("request_0000000010")].done == 1


def test_a_change_in_flight_keeps_a_replica_that_both_targets_want() -> None:
    """It continues to copy."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, submission("request_0000000011", {tp(): (3, 4)}))
    submit(driver, submission("request_0000000012", {tp(): (3, 5)}, czxid=61))
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(
        replicas(1, 2, 3), replicas(3)
    )
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(3, 5))


def test_the_originals_survive_a_change() -> None:
    """The record keeps where the partition was first, and its version counts the change."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, submission("request_0000000013", {tp(): (3, 4)}))
    driver.catch_up(tp())
    submit(driver, submission("request_0000000014", {tp(): (4, 5)}, czxid=61))
    spec = driver.view.reassignments.by_partition[tp()].spec
    assert spec.original == replicas(1, 2)
    assert spec.version == 1


def test_what_is_taken_over_takes_no_step_towards_the_former_target_in_that_turn() -> None:
    """Else a replica of the former target is added and copied."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    submit(driver, submission("request_0000000013", {tp(): (3, 1, 2)}))
    driver.observe(ControlsRead(Controls()), QueueRead(plan({tp(): (4, 1, 2)})))
    driver.run(tp())
    assert all(3 not in a.replicas for a in driver.history[tp()])
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 1, 2))


def test_while_disabled_requests_are_refused_and_reassignments_in_flight_continue() -> None:
    """``/admin/reassign_cancel``: no partition makes its first step."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(max_partitions_in_flight=1))
    submit(driver, submission("request_0000000015", {tp(0): (3, 4), tp(1): (3, 4)}))
    driver.observe(KillSwitchRead(is_on=True))
    submit(driver, submission("request_0000000016", {tp(1): (1, 5)}, czxid=61))
    summary = outcomes(driver)[RequestId("request_0000000016")]
    assert [r.reason for r in summary.refused] == [RefusalReason.DISABLED]
    driver.run(tp(0))
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(3, 4))
    assert driver.view.topics.assignment(tp(1)) == PartitionAssignment(replicas(1, 2))
    driver.observe(KillSwitchRead(is_on=False))
    driver.run(tp(1))
    assert driver.view.topics.assignment(tp(1)) == PartitionAssignment(replicas(3, 4))


def test_disabled_refuses_without_the_role() -> None:
    """A refusal needs no controller role: no broker is deposed for it."""
    driver = Driver({tp(0): (1, 2)})
    driver.observe(Deposed("idle"), *driver.own_records())
    driver.observe(KillSwitchRead(is_on=True))
    driver.sent.clear()
    submit(driver, submission("request_0000000017", {tp(0): (1, 3)}))
    assert RequestId("request_0000000017") in outcomes(driver)
    assert not any("Claim" in type(e).__name__ for e in driver.sent)


def test_a_huge_request_does_not_stand_before_a_small_one() -> None:
    """Slots go to the requests in turn."""
    many = {tp(n): (1, 2) for n in range(20)}
    driver = Driver({**many, tp(0, "small"): (1, 2)}, options=Options(max_partitions_in_flight=4))
    submit(driver, submission("request_0000000018", dict.fromkeys(many, (1, 3))))
    submit(driver, submission("request_0000000019", {tp(0, "small"): (1, 3)}, czxid=61))
    for partition in list(driver.view.reassignments.by_partition):
        if driver.view.reassignments.by_partition[partition].in_flight:
            driver.run(partition)
            break
    assert driver.view.reassignments.by_partition[tp(0, "small")].in_flight


def test_the_higher_priority_goes_first() -> None:
    """Whatever came before it."""
    driver = Driver({tp(n): (1, 2) for n in range(4)}, options=Options(max_partitions_in_flight=1))
    submit(
        driver,
        submission("request_0000000020", {tp(0): (1, 3), tp(1): (1, 3), tp(2): (1, 3)}),
    )
    submit(driver, submission("request_0000000021", {tp(3): (1, 3)}, czxid=61, priority=5))
    driver.run(tp(0))
    assert driver.view.reassignments.by_partition[tp(3)].in_flight


def test_a_request_may_have_a_step_size_of_its_own() -> None:
    """``all`` is the single jump, whatever the daemon's setting."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, submission("request_0000000022", {tp(): (3, 4)}, step_size="all"))
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(
        replicas(3, 4, 1, 2), replicas(3, 4), replicas(1, 2)
    )


def test_an_interrupted_acceptance_is_repeated_without_harm() -> None:
    """A second daemon reads the znode again: what has a goal is passed over."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)})
    request = submission("request_0000000023", {tp(0): (1, 3), tp(1): (1, 3)})
    submit(driver, request)
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    driver.adopt(specs)
    driver.changes.clear()
    submit(driver, request)
    assert driver.view.requests_session.submissions == {}
    assert not any(isinstance(r, AcceptedRecord) for c in driver.changes for r in c.records)


def test_the_legacy_plan_may_be_changed_in_flight() -> None:
    """The drop set works on either route."""
    driver = Driver({tp(): (1, 2)})
    driver.submit({tp(): (2, 3)})
    legacy = driver.view.requests.legacy
    assert legacy is not None
    version = ZkVersion(legacy.version + 1)
    driver.observe(LegacyPlanRead(replace(plan({tp(): (2, 4)}), version=version)))
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(2, 4))
    assert all(3 not in a.replicas or 3 in a.removing_replicas for a in driver.history[tp()][1:])


def test_the_last_word_counts_where_requests_that_waited_are_accepted_together() -> None:
    """A request for where the partition is now undoes an earlier one, though nothing began yet."""
    driver = Driver({tp(): (1, 2)})
    submit(
        driver,
        submission("request_0000000000", {tp(): (1, 3)}),
        submission("request_0000000001", {tp(): (1, 2)}),
    )
    if tp() in driver.view.reassignments.by_partition:
        driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 2))
    assert outcomes(driver)[RequestId("request_0000000000")].fates == {OutcomeKind.SUPERSEDED: 1}


def test_a_request_of_which_nothing_was_accepted_is_not_over_before_it_is_read_again() -> None:
    """A daemon died between the note of the part and the first entry; the next one reads both."""
    driver = Driver({tp(): (1, 2)})
    name = RequestId("request_0000000000")
    request = submission(name, {tp(): (1, 3)})
    part = Part(name, 1, request.created_ms, RequestOptions())
    driver.observe(Deposed("killed"))
    driver.observe(SubmissionsListed(frozenset({name})))
    driver.observe(
        SpecsRead({}, {}),
        OrphansRead(frozenset()),
        AppliedThrottlesRead({}),
        HistoryRead({name: OpenHistory({name: part}, 0, (), ())}, {}),
    )
    assert outcomes(driver) == {}
    driver.observe(SubmissionsRead({name: request}))
    assert outcomes(driver) == {}


def test_a_read_from_before_our_last_write_takes_nothing_back_of_what_is_kept() -> None:
    """It may come late, as when the role changed hands twice in a short time."""
    name = RequestId("request_0000000000")
    driver = Driver({tp(0): (0, 1, 2), tp(1): (0, 1, 2)})
    submit(driver, submission(name, {tp(0): (3, 4, 5), tp(1): (3, 4, 5)}))
    driver.observe(
        CancellationRead(Cancellation(ZkVersion(0), Zxid(1), 0, partitions=frozenset({tp(0)})))
    )
    driver.run(tp(0))
    part = Part(name, 2, 5, RequestOptions())
    for accepted in (0, 1, 2):
        driver.observe(HistoryRead({name: OpenHistory({name: part}, accepted)}, {}))
    driver.run(tp(1))
    summary = outcomes(driver)[name]
    assert (summary.total, summary.done) == (2, 1)
    assert summary.fates == {OutcomeKind.ROLLED_BACK: 1}


def test_a_partition_that_the_topic_lacks_is_refused_only_when_it_was_read_again() -> None:
    """Topics and requests are read side by side: it may have grown before it was asked for."""
    driver = Driver({tp(0): (1, 2)})
    driver.answers_topics = False
    driver.sent.clear()
    requested = submission("request_0000000000", {tp(1): (1, 3), tp(2): (1, 3)})
    submit(driver, requested)
    assert driver.sent.count(ReadTopics(("t",))) == 1
    assert driver.view.requests.by_id[requested.request].refused == []
    grown = dict.fromkeys(range(2), PartitionAssignment(replicas(1, 2)))
    driver.observe(TopicsRead({"t": TopicAssignment(grown, ZkVersion(1), Zxid(9))}))
    assert set(driver.view.reassignments.by_partition) == {tp(1)}
    (refusal,) = driver.view.requests.by_id[requested.request].refused
    assert refusal.partition == tp(2)
    assert driver.sent.count(ReadTopics(("t",))) == 1


def test_a_request_waits_for_earlier_ones_that_are_listed_and_not_read() -> None:
    """The later one wins: accepted first, it would be overtaken by the one before it."""
    driver = Driver({tp(): (1, 2)})
    first = submission("request_0000000000", {tp(): (1, 3)})
    second = submission("request_0000000001", {tp(): (1, 4)})
    driver.observe(SubmissionsListed(frozenset({first.name, second.name})))
    driver.observe(SubmissionsRead({second.name: second}))
    assert driver.view.reassignments.by_partition == {}
    driver.observe(SubmissionsRead({first.name: first}))
    assert driver.view.reassignments.by_partition[tp()].spec.target == replicas(1, 4)
