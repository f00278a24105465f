"""A quiesce: what has not begun is cancelled, the rest ends, or goes back at the deadline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import EngineName, Options, TenurePolicy
from controller.core.effects import ClaimController, ResignController, SetTimer
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BlockedBy,
    ControllerEpoch,
    Instant,
    OutcomeKind,
    PartitionAssignment,
    ReassignmentSpec,
    RefusalReason,
    RequestId,
    Route,
    TopicAssignment,
    ZkVersion,
)
from controller.core.pacing.controls import AT_ONCE, Controls, Pause, Pauses, Quiesce
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.records import SpecsRead
from controller.core.records import TimerFired
from controller.core.requests.records import (
    AcceptedRead,
    KillSwitchRead,
    LegacyEntryRecord,
    QueueEndedRecord,
    QueueRead,
    RefusalRecord,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import AcceptedEntry, CancelScope
from controller.core.role.claims_and_resignations import DEADLINE_TIMER, LINGER_TIMER, has_work
from controller.core.role.records import ControllerClaimed, Deposed
from controller.core.topics.records import TopicsRead
from tests.core.builders import EPOCH, WALL_S, Driver, plan, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver, delegated
from tests.core.requests.test_cancellation import CANCEL, cancel, has_ended
from tests.core.requests.test_submitted import outcomes, submission, submit
from tests.core.role.test_claims_and_resignations import run_timers

FIRST = RequestId("request_0000000000")
QUIESCE = Quiesce("end of ZooKeeper", "ann@host", 1_700_000_000_000)


def quiesce(driver: Driver, deadline_ms: int | None = None, **others: object) -> None:
    """Write the control."""
    found = replace(QUIESCE, deadline_ms=deadline_ms)
    driver.observe(ControlsRead(Controls(Pauses(quiesce=found, **others))))  # type: ignore[arg-type]


def resume(driver: Driver) -> None:
    """Remove the control."""
    driver.observe(ControlsRead(Controls()))


def release(driver: Driver) -> None:
    """Let the daemon be rid of the role, and forget what was sent before."""
    driver.observe(Deposed("it resigned"), *driver.own_records())
    driver.sent.clear()


def has_claimed(driver: Driver) -> bool:
    """Whether the role is claimed, at once or after the back-off."""
    run_timers(driver)
    return any(isinstance(e, ClaimController) for e in driver.sent)


def has_resigned(driver: Driver) -> bool:
    """Whether the role was given up."""
    return any(isinstance(e, ResignController) for e in driver.sent)


BOTH = pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])


def driver_of(engine: EngineName, in_flight: int = 2) -> Driver:
    """Return a cluster of two partitions."""
    of = {tp(0): (0, 1, 2), tp(1): (0, 1, 2)}
    if engine is EngineName.DELEGATED:
        return DelegatedDriver(of, options=replace(delegated(), max_partitions_in_flight=in_flight))
    return Driver(of, options=Options(max_partitions_in_flight=in_flight), answers_configs=True)


@BOTH
def test_what_has_begun_goes_on_to_its_target_and_the_rest_never_begins(engine: EngineName) -> None:
    """The steps between count as begun; a partition that waits for its turn is cancelled."""
    driver = driver_of(engine, in_flight=1)
    submit(driver, submission(FIRST, {tp(0): (3, 4, 5), tp(1): (3, 4, 5)}))
    driver.catch_up(tp(0))
    quiesce(driver)
    assert tp(1) not in driver.view.reassignments.by_partition
    driver.run(tp(0))
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(3, 4, 5))
    assert driver.view.topics.assignment(tp(1)) == PartitionAssignment(replicas(0, 1, 2))
    summary = outcomes(driver)[FIRST]
    assert (summary.done, summary.fates) == (1, {OutcomeKind.CANCELLED: 1})


@BOTH
def test_what_has_begun_goes_back_at_the_deadline(engine: EngineName) -> None:
    """A timer is set for it, and each partition has its original replicas in their order then."""
    driver = driver_of(engine)
    submit(driver, submission(FIRST, {tp(0): (3, 4, 5), tp(1): (3, 4, 5)}))
    driver.catch_up(tp(0))
    quiesce(driver, int(1000 * (WALL_S + 60)))
    assert len(driver.view.reassignments.by_partition) == 2
    at = {e.name: e.at for e in driver.sent if isinstance(e, SetTimer)}[DEADLINE_TIMER]
    assert at == driver.now + 60
    driver.now = at
    driver.observe(TimerFired(DEADLINE_TIMER))
    assert driver.view.reassignments.rolling_back == {QUIESCE.request: 1}
    driver.run(tp(0))
    for partition in (tp(0), tp(1)):
        assignment = driver.view.topics.assignment(partition)
        assert assignment == PartitionAssignment(replicas(0, 1, 2))
    assert outcomes(driver)[FIRST].fates == {OutcomeKind.ROLLED_BACK: 2}


@BOTH
def test_what_has_begun_goes_back_at_once_if_it_is_cancelled(engine: EngineName) -> None:
    """The wall clocks of operator and daemon do not matter."""
    driver = driver_of(engine)
    driver.view.pacing_process.wall = None
    submit(driver, submission(FIRST, {tp(0): (3, 4, 5)}))
    quiesce(driver, AT_ONCE)
    assert not driver.view.reassignments.by_partition
    assert outcomes(driver)[FIRST].fates == {OutcomeKind.ROLLED_BACK: 1}


def test_nothing_goes_back_before_the_wall_clock_is_known() -> None:
    """A deadline is a time of day."""
    driver = Driver({tp(): (0, 1, 2)})
    submit(driver, submission(FIRST, {tp(): (3, 4, 5)}))
    driver.view.pacing_process.wall = None
    quiesce(driver, deadline_ms=1)
    assert not driver.view.reassignments.by_partition[tp()].spec.rolls_back


def test_an_entry_of_the_plan_goes_back_in_the_znode_too() -> None:
    """A broker that becomes the controller would start it again."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.submit({tp(): (3, 4, 5)})
    quiesce(driver, AT_ONCE)
    listed = [r for c in driver.changes for r in c.records if isinstance(r, LegacyEntryRecord)]
    assert LegacyEntryRecord(tp(), replicas(0, 1, 2)) in listed
    assert driver.view.requests.legacy is None


def test_whatever_is_submitted_is_refused_with_the_reason() -> None:
    """Requests, plan and queue alike: nothing is left that a later resume would begin."""
    driver = Driver({tp(n): (0, 1, 2) for n in range(3)})
    submit(driver, submission("request_0000000001", {tp(0): (3, 4, 5)}))
    quiesce(driver)
    submit(driver, submission("request_0000000002", {tp(0): (3, 4, 5)}))
    driver.submit({tp(1): (3, 4, 5)})
    driver.observe(QueueRead(plan({tp(2): (3, 4, 5)}, czxid=51)))
    driver.run(tp(0))
    assert not driver.view.reassignments.by_partition
    refused = [
        r
        for c in driver.changes
        for record in c.records
        if isinstance(record, RefusalRecord)
        for r in record.refusals
    ]
    assert [r.reason for r in refused] == 3 * [RefusalReason.DISABLED]
    why = "the reassigner is quiesced by ann@host: end of ZooKeeper"
    assert all(r.detail.startswith(why) for r in refused)
    assert any(isinstance(r, QueueEndedRecord) for c in driver.changes for r in c.records)
    release(driver)
    resume(driver)
    assert not has_claimed(driver)


def test_requests_and_queue_are_refused_without_the_role() -> None:
    """A claim for them would move the controller of the cluster for nothing."""
    driver = Driver({tp(): (0, 1, 2)})
    release(driver)
    quiesce(driver)
    submit(driver, submission(FIRST, {tp(): (3, 4, 5)}))
    driver.observe(QueueRead(plan({tp(): (3, 4, 5)}, czxid=51)))
    assert not has_claimed(driver)
    assert not driver.view.requests_session.submissions
    assert driver.view.requests.queue is None


@pytest.mark.parametrize("policy", list(TenurePolicy))
def test_the_role_is_given_up_when_nothing_is_left(policy: TenurePolicy) -> None:
    """At once, whatever the policy; and it is not claimed again before the resume."""
    driver = Driver({tp(): (0, 1, 2)}, options=Options(tenure=policy, tenure_linger_s=60.0))
    submit(driver, submission(FIRST, {tp(): (0, 1, 3)}))
    quiesce(driver)
    assert not has_resigned(driver)
    driver.run(tp())
    assert has_resigned(driver)
    release(driver)
    assert not has_claimed(driver)
    resume(driver)
    assert has_claimed(driver) == (policy is TenurePolicy.PERMANENT)


def test_the_role_is_claimed_to_end_what_waits_without_it() -> None:
    """Work that a pause holds keeps no role, and is cancelled all the same."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("lunch")))))
    submit(driver, submission(FIRST, {tp(): (3, 4, 5)}))
    specs = {tp(): driver.view.reassignments.by_partition[tp()].spec}
    driver.observe(Deposed("it resigned"), *driver.own_records())
    driver.observe(SpecsRead(specs, {}))
    driver.sent.clear()
    driver.now = Instant(driver.now + 60)
    driver.observe(TimerFired(LINGER_TIMER))
    assert not any(isinstance(e, ClaimController) for e in driver.sent)
    quiesce(driver)
    assert any(isinstance(e, ClaimController) for e in driver.sent)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(StatesRead(driver.first_states))
    assert not driver.view.reassignments.by_partition


def test_a_paused_request_goes_back_at_the_deadline_though_it_began() -> None:
    """Before that its pause holds, and keeps no role."""
    driver = Driver({tp(): (0, 1, 2)})
    submit(driver, submission(FIRST, {tp(): (3, 4, 5)}))
    quiesce(driver, int(1000 * (WALL_S + 60)), requests={FIRST: Pause("later")})
    driver.catch_up(tp())
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.PAUSED
    assert not has_work(driver.view, Instant(driver.now + 59))
    assert has_work(driver.view, Instant(driver.now + 61))


def test_finished_entries_are_not_undone_while_quiesced() -> None:
    """It would be new work, which is cancelled again, for ever."""
    driver = Driver({tp(0): (0, 1, 2), tp(1): (0, 1, 2)})
    submit(driver, submission(FIRST, {tp(0): (0, 1, 3)}))
    driver.run(tp(0))
    submit(driver, submission("request_0000000001", {tp(1): (0, 1, 3)}))
    quiesce(driver)
    cancel(driver, requests=frozenset({FIRST}), scope=CancelScope.ALL)
    accepted = AcceptedEntry(tp(0), replicas(0, 1, 2), replicas(0, 1, 3))
    driver.observe(AcceptedRead(FIRST, (accepted,)))
    assert tp(0) not in driver.view.reassignments.by_partition
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.SKIPPED: 1}


def test_a_foreign_reassignment_is_left_to_who_requested_it() -> None:
    """The cluster's controller ends it; it does not keep the role either."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    driver.order(tp(), replicas(3, 4, 5))
    quiesce(driver, AT_ONCE)
    assignment = driver.view.topics.assignment(tp())
    assert assignment is not None
    assert assignment.target_replicas == (3, 4, 5)
    assert driver.view.role.engine is EngineName.DELEGATED


def test_a_second_quiesce_changes_only_the_deadline() -> None:
    """Who began it and when stays; a resume ends it with the general pause."""
    first = Pauses(everything=Pause("lunch")).quiescing(QUIESCE)
    assert first == Pauses(quiesce=QUIESCE)
    again = first.quiescing(Quiesce("again", "bob@host", 5, AT_ONCE))
    assert again.quiesce == replace(QUIESCE, deadline_ms=AT_ONCE)
    assert again.quiescing(Quiesce("and again", "bob@host", 6)) == again
    assert again.adding(Pause("lunch")).removing() == Pauses()


def test_a_partition_that_others_moved_before_it_began_stays_where_it_is() -> None:
    """Its former replicas would undo what another client did; it would wait for ever otherwise."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("lunch")))))
    submit(driver, submission(FIRST, {tp(): (3, 4, 5)}))
    elsewhere = TopicAssignment(
        {0: PartitionAssignment(replicas(5, 6))},
        ZkVersion(1),
        driver.view.topics.by_name["t"].czxid,
    )
    driver.observe(TopicsRead({"t": elsewhere}))
    quiesce(driver, AT_ONCE)
    assert not driver.view.reassignments.by_partition
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(5, 6))
    assert outcomes(driver)[FIRST].fates == {OutcomeKind.CANCELLED: 1}


@pytest.mark.parametrize("is_quiesced", [True, False], ids=["quiesced", "disabled"])
def test_a_cancellation_ends_what_is_not_accepted_though_new_work_is_refused(
    *, is_quiesced: bool
) -> None:
    """It waited for the acceptance that was forbidden, and everything else waited for it."""
    driver = Driver({tp(): (0, 1, 2)})
    refusing = ControlsRead(Controls(Pauses(quiesce=QUIESCE))) if is_quiesced else None
    driver.fold(refusing or KillSwitchRead(is_on=True))
    wanted = submission(FIRST, {tp(): (3, 4, 5)})
    driver.fold(SubmissionsListed(frozenset({FIRST})))
    driver.fold(SubmissionsRead({FIRST: wanted}))
    cancel(driver)
    assert not driver.view.requests_session.submissions
    if is_quiesced:
        # The rest needs no role.
        release(driver)
    assert has_ended(driver)


def test_what_the_controller_may_still_carry_out_is_led_back_at_once() -> None:
    """After a takeover it is in doubt; held as not begun, it would wait without a deadline."""
    driver = DelegatedDriver({tp(): (0, 1, 2)}, answers=False)
    spec = ReassignmentSpec(
        replicas(3, 4, 5), replicas(0, 1, 2), FIRST, Route.REQUEST, ZkVersion(0)
    )
    driver.fold(ControlsRead(Controls(Pauses(quiesce=QUIESCE))))
    driver.adopt({tp(): spec})
    known = driver.view.reassignments.by_partition.get(tp())
    assert known is None or known.spec.rolls_back
