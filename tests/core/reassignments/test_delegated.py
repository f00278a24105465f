"""The delegated engine: which alter entries it sends, when, and how it takes the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.core_settings import EngineName, Options
from controller.core.effects import (
    BeginTenure,
    ClaimController,
    ElectPreferred,
    ProbeReassignments,
    ReadTopics,
    SendLeaderAndIsr,
    SendStopReplica,
    SetTimer,
)
from controller.core.leadership.records import StateChanged, StatesRead
from controller.core.model import (
    AlterOutcome,
    BlockedBy,
    BrokerId,
    Instant,
    OutcomeKind,
    PartitionAssignment,
    ReassignmentSpec,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.orphans import LOST_WITHIN_S
from controller.core.reassignments.phases import (
    BACKOFF_S,
    UNSENT_S,
    AwaitingController,
    Pending,
    Syncing,
)
from controller.core.reassignments.records import (
    AlterationsWithdrawn,
    AlterResult,
    OrphanEndedRecord,
    OrphanRecord,
    OrphansRead,
    PhaseRecord,
    ReassignmentsAltered,
    SpecEndedRecord,
    SpecRecord,
)
from controller.core.requests.records import LegacyPlanRead
from controller.core.requests.submission_parts import atomic_refused
from controller.core.role.eligibility import native_refusals, refusals
from controller.core.role.records import BrokersRead, ClaimGuardsRead, Deposed, ReassignmentsProbed
from controller.core.topics.records import TopicsRead
from controller.core.wakeups import ALTER_ANSWER_TIMER
from controller.kafka_errors import NO_REASSIGNMENT_IN_PROGRESS
from tests.core.builders import broker, plan, replicas, tp
from tests.core.reassignments.delegated_rigs import DelegatedDriver, delegated
from tests.core.requests.test_cancellation import CANCEL, cancel, has_ended
from tests.core.requests.test_submitted import outcomes, submission, submit

FIRST = RequestId("request_0000000000")


def submit_target(driver: DelegatedDriver, *ids: int, name: str = FIRST) -> None:
    """Submit a request for the one partition of most tests."""
    submit(driver, submission(name, {tp(): ids}))


def answer(
    driver: DelegatedDriver, fate: AlterOutcome, *ids: int, error: int | None = None
) -> None:
    """Answer the entry that is under way."""
    made = fate is AlterOutcome.ANSWERED
    code = error if error is not None else 0 if made else 7
    result = AlterResult(tp(), replicas(*ids), code, "no answer", fate)
    driver.observe(ReassignmentsAltered((result,), BrokerId(1) if made else None))


def at(driver: DelegatedDriver) -> Replicas:
    """Return the replicas of the one partition of most tests."""
    return driver.assignment(tp()).replicas


def blocked_by(driver: DelegatedDriver) -> BlockedBy | None:
    """Return what the one partition of most tests waits for."""
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    return None if blocked is None else blocked.by


# --- steps -------------------------------------------------------------------------------------


def test_a_step_that_drops_and_adds_is_two_alter_entries_the_drop_first() -> None:
    """KAFKA-6794: at most one replica above the larger set, and none waits to be dropped."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    driver.run(tp())
    assert driver.orders == [
        (replicas(0, 1, 2, 3), False),
        (replicas(0, 2, 3), False),
        (replicas(0, 2, 3, 4), False),
        (replicas(0, 3, 4), False),
        (replicas(0, 3, 4, 5), False),
        (replicas(3, 4, 5), False),
    ]
    assert max(len(a.replicas) for a in driver.history[tp()]) == 4
    assert at(driver) == (3, 4, 5)
    assert outcomes(driver)[FIRST].done == 1


def test_the_single_jump_is_one_alter_entry() -> None:
    """With ``step_size = all`` the controller adds all and drops all."""
    driver = DelegatedDriver({tp(): (0, 1, 2)}, options=delegated(step_size=None))
    submit_target(driver, 3, 4, 5)
    driver.run(tp())
    assert driver.orders == [(replicas(3, 4, 5), False)]


def test_where_the_drop_has_to_wait_one_alter_entry_does_both() -> None:
    """Two of two in sync are wanted: the controller drops when the new one is in sync."""
    driver = DelegatedDriver({tp(): (0, 1)}, min_isr=2, options=delegated())
    submit_target(driver, 2, 3)
    driver.run(tp())
    assert driver.orders[0] == (replicas(0, 1, 2), False)
    assert at(driver) == (2, 3)
    assert min(len(s.isr) for s in driver.states[tp()]) >= 2


def test_a_dead_replica_is_replaced_without_being_waited_for() -> None:
    """The entry leaves it out: the controller would wait for it to be in sync."""
    driver = DelegatedDriver({tp(): (0, 1)}, min_isr=2)
    driver.change_isr(tp(), replicas(0))
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 2, 3)}))
    submit_target(driver, 0, 2)
    driver.run(tp())
    assert driver.orders[0] == (replicas(0, 2), False)
    assert at(driver) == (0, 2)
    (orphan,) = (r.orphan for c in driver.changes for r in c.records if isinstance(r, OrphanRecord))
    assert orphan.broker == 1


def test_an_undeleted_copy_is_recorded_before_the_next_step() -> None:
    """The daemon may not live to the end of the reassignment."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    driver.change_isr(tp(), replicas(0, 2))
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 2, 3, 4, 5)}))
    submit_target(driver, 3, 4, 5)
    assert at(driver) != (3, 4, 5)
    assert (BrokerId(1), tp()) in driver.view.reassignments.orphans


@pytest.mark.parametrize(("after_s", "is_recorded"), [(0.2, True), (5.0, True), (5.1, False)])
@pytest.mark.parametrize("is_back", [False, True])
def test_a_death_that_is_read_after_the_drop_is_recorded(
    after_s: float,
    is_recorded: bool,  # noqa: FBT001 - pytest passes parameters by name
    is_back: bool,  # noqa: FBT001
) -> None:
    """The topic znode is often read first, and the reassignment may have ended by then."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 0, 1)
    assert at(driver) == (0, 1)
    assert driver.view.reassignments.by_partition == {}
    driver.now = Instant(driver.now + after_s)
    live = {BrokerId(b): broker(b) for b in (0, 1, 3)}
    back = {BrokerId(2): broker(2, epoch=200)} if is_back else {}
    driver.observe(BrokersRead({**live, **back}))
    assert ((BrokerId(2), tp()) in driver.view.reassignments.orphans) == is_recorded


def test_a_broker_that_receives_the_replica_again_has_no_orphan_of_it() -> None:
    """Its log is in use."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 0, 1)
    submit_target(driver, 0, 1, 2, name="request_0000000001")
    driver.run(tp())
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 1)}))
    assert driver.view.reassignments.orphans == {}


def with_an_old_copy() -> tuple[DelegatedDriver, Orphan]:
    """Return a daemon that knows of a log that was left on broker 2."""
    driver = DelegatedDriver({tp(): (0, 1)}, answers=False)
    orphan = Orphan(BrokerId(2), tp(), driver.view.topics.by_name["t"].czxid, "it was dead")
    driver.observe(OrphansRead(frozenset({orphan})))
    return driver, orphan


def test_a_request_that_is_not_carried_out_does_not_end_the_record_of_an_old_copy() -> None:
    """The next request may not name its broker: no other record would name the copy."""
    driver, orphan = with_an_old_copy()
    submit_target(driver, 0, 1, 2)
    assert driver.orders == [(replicas(0, 1, 2), False)]
    assert driver.view.reassignments.orphans == {(2, tp()): orphan}
    answer(driver, AlterOutcome.UNSENT, 0, 1, 2)
    driver.answers = True
    submit_target(driver, 0, 1, 3, name="request_0000000001")
    driver.pass_time(UNSENT_S)
    driver.run(tp())
    assert at(driver) == (0, 1, 3)
    assert driver.view.reassignments.orphans == {(2, tp()): orphan}


def test_a_step_in_the_topic_znode_that_adds_an_old_copy_again_ends_its_record() -> None:
    """The log is in use: an operator must not be asked to delete it."""
    driver, orphan = with_an_old_copy()
    submit_target(driver, 0, 1, 2)
    driver.order(tp(), replicas(0, 1, 2))
    driver.settle()
    assert [c for c in driver.changes if OrphanEndedRecord(orphan) in c.records]
    assert driver.view.reassignments.orphans == {}
    assert tp() in driver.view.reassignments.by_partition


def test_a_replica_that_lived_when_it_was_dropped_is_no_orphan() -> None:
    """The controller had it deleted before any broker died."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    driver.change_isr(tp(), at(driver))
    driver.now = Instant(driver.now + LOST_WITHIN_S + 1.0)
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 2, 3, 4, 5)}))
    driver.run(tp())
    assert driver.view.reassignments.orphans == {}


def test_only_another_list_of_replicas_is_an_alter_entry() -> None:
    """Nothing is copied and nothing dropped, but the preferred leader is another."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 2, 1, 0)
    assert driver.orders == [(replicas(2, 1, 0), False)]
    assert at(driver) == (2, 1, 0)
    assert any(isinstance(e, ElectPreferred) for e in driver.sent)


def test_nothing_is_written_or_sent_that_is_the_controllers() -> None:
    """Neither topic znodes nor states, no request of a controller."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    driver.run(tp())
    assert driver.wrote_for_kafka() == []
    assert not [e for e in driver.sent if isinstance(e, SendLeaderAndIsr | SendStopReplica)]


@given(
    st.permutations(range(6)),
    st.permutations(range(6)),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([1, 2, None]),
    st.integers(1, 2),
)
def test_every_plan_ends_at_its_target_within_the_bound(  # noqa: PLR0917 - drawn
    here: list[int], there: list[int], size: int, wanted: int, step: int | None, floor: int
) -> None:
    """Whatever the replicas are; the ISR never falls below what the topic wants."""
    source, target = tuple(here[:size]), tuple(there[:wanted])
    driver = DelegatedDriver({tp(): source}, min_isr=floor, options=delegated(step_size=step))
    submit_target(driver, *target)
    if wanted < min(floor, size):
        return
    driver.run(tp())
    assert at(driver) == target
    bound = max(size, wanted) + (step or wanted)
    assert all(len(a.replicas) <= bound for a in driver.history[tp()])
    lowest = min([len(s.isr) for s in driver.states[tp()]], default=floor)
    assert lowest >= min(floor, size, wanted)


# --- cancel and retarget -----------------------------------------------------------------------


def test_a_cancellation_takes_the_step_in_flight_back() -> None:
    """The API's own cancel: what was being added goes at once."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    cancel(driver)
    assert driver.orders == [(replicas(0, 1, 2, 3), False), (replicas(0, 1, 2), True)]
    assert at(driver) == (0, 1, 2)
    assert has_ended(driver)
    assert outcomes(driver)[FIRST].fates == {OutcomeKind.ROLLED_BACK: 1}


@pytest.mark.parametrize("caught_up", range(6))
def test_the_original_order_is_restored_from_every_step(caught_up: int) -> None:
    """Ordinary steps lead back; the bound holds there too."""
    driver = DelegatedDriver({tp(): (0, 1, 2)}, min_isr=2)
    submit_target(driver, 3, 4, 5)
    for _ in range(caught_up):
        if tp() in driver.view.reassignments.by_partition:
            driver.change_isr(tp(), at(driver))
    moved = tp() not in driver.view.reassignments.by_partition
    cancel(driver)
    if not moved:
        driver.run(tp())
        assert at(driver) == (0, 1, 2)
    assert max(len(a.replicas) for a in driver.history[tp()]) <= 4


def test_a_cancellation_towards_dead_originals_is_not_passed_on() -> None:
    """The controller would take it, and delete the only copy that is in sync."""
    driver = DelegatedDriver({tp(): (0, 1)}, options=delegated(step_size=None))
    submit_target(driver, 2, 3)
    driver.change_isr(tp(), replicas(0, 2))
    state = driver.view.leadership.states[tp()]
    driver.view.leadership.states[tp()] = replace(state, leader=BrokerId(2), isr=replicas(2))
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (2, 3)}))
    cancel(driver)
    assert len(driver.orders) == 1
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.SKIPPED: 1}


def test_a_request_for_a_partition_in_flight_keeps_what_it_wants_too() -> None:
    """One entry overrides the other; replicas of neither target are dropped at once."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 1, 2)
    submit_target(driver, 1, 3, name="request_0000000001")
    assert driver.orders[:2] == [(replicas(0, 1, 2), False), (replicas(0, 1), True)]
    driver.run(tp())
    assert at(driver) == (1, 3)
    assert outcomes(driver)[FIRST].fates == {OutcomeKind.SUPERSEDED: 1}


def test_replicas_of_the_new_target_continue_to_copy() -> None:
    """A single jump to three, of which a later request wants two: the third is dropped."""
    driver = DelegatedDriver({tp(): (0, 1)}, options=delegated(step_size=None))
    submit_target(driver, 2, 3)
    submit_target(driver, 2, 4, name="request_0000000001")
    assert driver.orders[1] == (replicas(0, 1, 2), False)
    driver.run(tp())
    assert at(driver) == (2, 4)


def test_a_dead_replica_outside_the_target_does_not_keep_a_step_from_ending() -> None:
    """The controller waits for every replica of a step's target, so the entry is replaced."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    driver.change_isr(tp(), replicas(0, 2))
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 2, 3, 4, 5)}))
    assert driver.orders[-1] == (replicas(0, 2, 3), False)
    driver.run(tp())
    assert at(driver) == (3, 4, 5)


# --- answers -----------------------------------------------------------------------------------


def test_a_refused_entry_is_reported_and_sent_again_after_a_pause() -> None:
    """In the controller's words; until then the partition holds no slot."""
    driver = DelegatedDriver({tp(): (0, 1)}, refuses=(39, "the controller refuses it: dead broker"))
    submit_target(driver, 1, 2)
    assert blocked_by(driver) is BlockedBy.CONTROLLER_ANSWER
    assert driver.view.pacing.in_flight == 0
    assert len(driver.orders) == 1
    # Nothing else has it looked at when the rest is over.
    assert SetTimer(ALTER_ANSWER_TIMER, Instant(driver.now + BACKOFF_S)) in driver.sent
    driver.pass_time(1)
    assert len(driver.orders) == 1
    driver.refuses = None
    driver.pass_time(5)
    driver.run(tp())
    assert at(driver) == (1, 2)


def test_an_alter_entry_without_an_answer_is_followed_where_it_was_made() -> None:
    """The topic znode decides, not the answers."""
    driver = DelegatedDriver({tp(): (0, 1)}, answers=False)
    submit_target(driver, 1, 2)
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, AwaitingController)
    driver.answers = True
    driver.order(tp(), replicas(0, 1, 2))
    driver.settle()
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Syncing)
    answer(driver, AlterOutcome.UNKNOWN, 0, 1, 2)
    driver.run(tp())
    assert at(driver) == (1, 2)


def test_a_step_that_ends_before_its_alter_entry_is_answered_waits_for_the_answer() -> None:
    """One entry of a partition at a time."""
    driver = DelegatedDriver({tp(): (0, 1)}, answers=False)
    submit_target(driver, 1, 2)
    driver.order(tp(), replicas(0, 1, 2))
    driver.change_isr(tp(), replicas(0, 1, 2))
    assert len(driver.orders) == 1
    assert blocked_by(driver) is BlockedBy.CONTROLLER_ANSWER
    driver.answers = True
    answer(driver, AlterOutcome.ANSWERED, 0, 1, 2)
    assert at(driver) == (1, 2)


@pytest.mark.parametrize(
    ("fate", "rest_s"), [(AlterOutcome.UNSENT, UNSENT_S), (AlterOutcome.UNKNOWN, BACKOFF_S)]
)
@pytest.mark.parametrize("is_under_way", [False, True])
def test_an_alter_entry_that_failed_is_decided_again_after_a_rest(
    fate: AlterOutcome, rest_s: float, *, is_under_way: bool
) -> None:
    """Not at once: there may be no controller for a while."""
    driver = DelegatedDriver({tp(): (0, 1)}, answers=is_under_way)
    submit_target(driver, 2, 3)
    entry = replicas(0, 1, 2)
    if is_under_way:
        driver.answers = False
        cancel(driver)
        entry = replicas(0, 1)
    count = len(driver.orders)
    answer(driver, fate, *entry)
    driver.pass_time(rest_s - 0.1)
    assert len(driver.orders) == count
    assert blocked_by(driver) is BlockedBy.CONTROLLER_ANSWER
    driver.pass_time(0.2)
    assert driver.orders[count:] == [(entry, is_under_way)]


def test_an_alter_entry_that_was_withdrawn_is_decided_again_at_once() -> None:
    """It was not sent because something changed: another one may be due."""
    driver = DelegatedDriver({tp(): (0, 1)}, answers=False)
    submit_target(driver, 1, 2)
    driver.answers = True
    driver.observe(AlterationsWithdrawn((tp(),)))
    assert driver.orders == [(replicas(0, 1, 2), False)] * 2
    driver.run(tp())
    assert at(driver) == (1, 2)


@pytest.mark.parametrize("step_size", [1, None])
def test_a_cancel_is_not_sent_again_once_only_the_added_replica_is_in_sync(
    step_size: int | None,
) -> None:
    """It was right when it was decided; the controller it went to died with the other copy."""
    driver = DelegatedDriver({tp(): (0, 1)}, options=delegated(step_size=step_size))
    submit_target(driver, 2, 3)
    driver.change_isr(tp(), replicas(0, 2))
    driver.answers = False
    cancel(driver)
    assert driver.orders[-1] == (replicas(0, 1), True)
    count = len(driver.orders)
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (1, 2, 3)}))
    state = driver.view.leadership.states[tp()]
    elected = replace(
        state, leader=BrokerId(2), isr=replicas(2), version=ZkVersion(state.version + 1)
    )
    driver.observe(StatesRead({tp(): elected}))
    answer(driver, AlterOutcome.UNKNOWN, 0, 1)
    for _ in range(20):
        driver.pass_time(BACKOFF_S)
    assert all(2 in target and not cancels for target, cancels in driver.orders[count:])
    driver.answers = True
    driver.observe(BrokersRead({BrokerId(b): broker(b, epoch=300) for b in range(4)}))
    if len(driver.orders) > count:
        answer(driver, AlterOutcome.UNSENT, *driver.orders[-1][0])
    driver.change_isr(tp(), replicas(2, 0, 1))
    driver.pass_time(BACKOFF_S)
    assert at(driver) == (0, 1)


def test_the_way_back_waits_until_the_state_is_known() -> None:
    """A watch fired: who was in sync may not be any more."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 2, 3)
    driver.answers_states = False
    driver.observe(StateChanged(tp()))
    cancel(driver)
    assert driver.orders == [(replicas(0, 1, 2), False)]
    assert blocked_by(driver) is BlockedBy.STATE_UNKNOWN
    driver.answers_states = True
    driver.change_isr(tp(), replicas(0, 1))
    assert driver.orders[1:] == [(replicas(0, 1), True)]


def test_a_state_whose_watch_fired_before_the_read_arrived_is_not_current() -> None:
    """Neither is one that was read without a watch: what changed since would go unnoticed."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 2, 3)
    known = driver.view.leadership.states[tp()]
    driver.answers_states = False
    driver.observe(StateChanged(tp()))
    cancel(driver)
    nothing: frozenset[TopicPartition] = frozenset()
    for armed in (nothing, None):
        driver.observe(StatesRead({tp(): known}, armed=armed))
        assert blocked_by(driver) is BlockedBy.STATE_UNKNOWN
    driver.observe(StatesRead({tp(): known}, armed=frozenset({tp()})))
    assert driver.orders[1:] == [(replicas(0, 1), True)]


# --- entries without an answer -----------------------------------------------------------------


@pytest.mark.parametrize("cancels_first", [True, False])
@pytest.mark.parametrize("is_made", [True, False])
def test_an_alter_entry_of_unknown_fate_is_not_taken_for_never_made(
    *, cancels_first: bool, is_made: bool
) -> None:
    """The controller was busy: it may carry out the entry after the time-out."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    submit_target(driver, 3, 4)
    if cancels_first:
        cancel(driver)
    answer(driver, AlterOutcome.UNKNOWN, 1, 2, 3)
    if not cancels_first:
        cancel(driver)
    driver.pass_time(BACKOFF_S + 1)
    assert not has_ended(driver)
    assert driver.orders[-1] == (replicas(1, 2), True)
    if is_made:
        driver.order(tp(), replicas(1, 2, 3))
        driver.order(tp(), None)
        driver.settle()
        assert not has_ended(driver)
    answer(driver, AlterOutcome.ANSWERED, 1, 2, error=0 if is_made else NO_REASSIGNMENT_IN_PROGRESS)
    assert has_ended(driver)
    assert at(driver) == (1, 2)
    assert outcomes(driver)[FIRST].fates == {OutcomeKind.ROLLED_BACK: 1}


def test_what_was_made_late_is_read_before_a_way_back_ends() -> None:
    """The answer may come before the news of the topic znode."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    submit_target(driver, 3, 4)
    answer(driver, AlterOutcome.UNKNOWN, 1, 2, 3)
    cancel(driver)
    driver.pass_time(BACKOFF_S + 1)
    driver.answers_topics = False
    answer(driver, AlterOutcome.ANSWERED, 1, 2, error=NO_REASSIGNMENT_IN_PROGRESS)
    assert not has_ended(driver)
    driver.answers_topics = driver.answers = True
    driver.order(tp(), replicas(1, 2, 3))
    driver.settle()
    assert not has_ended(driver)
    driver.pass_time(BACKOFF_S + 1)
    assert has_ended(driver)
    assert at(driver) == (1, 2)


def test_what_an_earlier_daemon_may_have_requested_is_taken_back_before_a_cancellation_ends() -> (
    None
):
    """It died with an entry under way, which has no record."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    spec = ReassignmentSpec(replicas(3, 4), replicas(1, 2), FIRST, Route.REQUEST, ZkVersion(0))
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("night")))))
    driver.adopt({tp(): spec})
    assert driver.orders == []
    cancel(driver)
    assert driver.orders == [(replicas(1, 2), True)]
    assert not has_ended(driver)
    answer(driver, AlterOutcome.ANSWERED, 1, 2, error=NO_REASSIGNMENT_IN_PROGRESS)
    assert has_ended(driver)


def test_what_was_requested_for_another_request_does_not_outlive_the_next() -> None:
    """A later request wants the present replicas; the entry before may still be carried out."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    submit_target(driver, 3, 4)
    answer(driver, AlterOutcome.UNKNOWN, 1, 2, 3)
    submit_target(driver, 1, 2, name="request_0000000001")
    driver.pass_time(BACKOFF_S + 1)
    assert driver.orders[-1] == (replicas(1, 2), True)
    driver.answers = True
    driver.order(tp(), replicas(1, 2, 3))
    driver.order(tp(), None)
    answer(driver, AlterOutcome.ANSWERED, 1, 2)
    assert not driver.view.reassignments.by_partition
    assert at(driver) == (1, 2)


def test_what_was_requested_for_another_request_does_not_outlive_a_refused_atomic_one() -> None:
    """It took the partition over before another of its entries was refused."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    submit_target(driver, 3, 4)
    answer(driver, AlterOutcome.UNKNOWN, 1, 2, 3)
    later = submission("request_0000000001", {tp(0): (2, 5), tp(9): (1, 2)}, atomic=True)
    submit_target(driver, 2, 5, name=later.request)
    because = Refusal(later.request, "t-9", RefusalReason.UNKNOWN_PARTITION, "unknown", tp(9))
    (own, taken_back) = sorted(
        atomic_refused(driver.view, later, [because]), key=lambda c: c.partition != tp(9)
    )
    assert own.partition == tp(9)
    (back,) = taken_back.records
    assert isinstance(back, SpecRecord)
    assert back.spec.rolls_back
    assert back.spec.target == (1, 2)


def test_what_may_still_be_made_is_requested_again_only_after_a_rest() -> None:
    """As every other entry."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    submit_target(driver, 3, 4)
    answer(driver, AlterOutcome.UNKNOWN, 1, 2, 3)
    cancel(driver)
    driver.pass_time(BACKOFF_S + 1)
    count = len(driver.orders)
    answer(driver, AlterOutcome.UNSENT, 1, 2)
    assert len(driver.orders) == count
    driver.pass_time(UNSENT_S)
    assert len(driver.orders) == count + 1


def test_an_alter_entry_that_was_answered_leaves_no_doubt() -> None:
    """A rollback before the first step ends as cancelled, without an alter entry."""
    driver = DelegatedDriver({tp(): (1, 2)}, refuses=(39, "the controller refuses it"))
    submit_target(driver, 3, 4)
    cancel(driver)
    assert len(driver.orders) == 1
    assert outcomes(driver)[FIRST].fates == {OutcomeKind.CANCELLED: 1}


def test_an_alter_entry_that_was_accepted_and_is_never_seen_is_given_again() -> None:
    """A controller may die between its answer and its write."""
    driver = DelegatedDriver({tp(): (0, 1)}, refuses=(0, ""))
    submit_target(driver, 1, 2)
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, AwaitingController)
    driver.pass_time(11)
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Pending)
    driver.refuses = None
    driver.pass_time(6)
    driver.run(tp())
    assert at(driver) == (1, 2)


def test_an_answer_to_an_older_alter_entry_means_nothing() -> None:
    """Only the present entry is answered."""
    driver = DelegatedDriver({tp(): (0, 1)}, answers=False)
    submit_target(driver, 1, 2)
    moved = driver.view.reassignments.by_partition[tp()]
    order = moved.phase
    driver.observe(ReassignmentsAltered((), BrokerId(1)))
    answer(driver, AlterOutcome.ANSWERED, 0, 1, 3)
    assert moved.phase == order
    assert moved.is_requested
    assert ReadTopics(()) not in driver.sent


def test_a_step_that_others_took_back_is_not_made_again_at_once() -> None:
    """A client that did so may repeat it: the partition pauses with the reason."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 1, 2)
    driver.order(tp(), None)
    driver.settle()
    assert len(driver.orders) == 1
    assert "another client cancelled" in driver.view.reassignments.by_partition[tp()].blocked.detail  # type: ignore[union-attr]
    driver.pass_time(61)
    driver.run(tp())
    assert at(driver) == (1, 2)


def test_states_are_read_again_before_an_alter_entry_depends_on_them() -> None:
    """No compare-and-set notices that others changed them."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 1, 2)
    assert driver.view.leadership.watched[tp()] is True


# --- recovery ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ends_step", [False, True])
@pytest.mark.parametrize("caught_up", range(6))
def test_another_daemon_continues_from_any_point_of_a_step(
    caught_up: int, *, ends_step: bool
) -> None:
    """From the goals and the topic znodes alone; a step may have ended meanwhile."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    for _ in range(caught_up):
        if tp() in driver.view.reassignments.by_partition:
            driver.change_isr(tp(), at(driver))
    if tp() in driver.view.reassignments.by_partition:
        driver.replace_daemon(ends_step=ends_step)
    if tp() in driver.view.reassignments.by_partition:
        driver.run(tp())
    assert at(driver) == (3, 4, 5)


def test_a_rollback_is_followed_to_its_end_by_another_daemon() -> None:
    """The goal says where it came from and what it was to have."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    driver.answers = False
    spec = ReassignmentSpec(
        replicas(0, 1, 2),
        replicas(0, 1, 2),
        FIRST,
        Route.REQUEST,
        ZkVersion(1),
        cancelled_by=CANCEL,
        abandoned=frozenset(replicas(3, 4, 5)),
    )
    driver.answers = True
    driver.adopt({tp(): spec})
    driver.run(tp())
    assert at(driver) == (0, 1, 2)
    assert (replicas(0, 1, 2), True) in driver.orders


# --- which engine ------------------------------------------------------------------------------


def auto(*, features: bool) -> DelegatedDriver:
    """Return a daemon that chooses, on a cluster with or without signs of protocol 2.7."""
    driver = DelegatedDriver({tp(): (0, 1)}, options=Options(engine=EngineName.AUTO))
    driver.observe(Deposed("another daemon"))
    if features:
        brokers = {b: replace(r, has_features=True) for b, r in driver.view.cluster.brokers.items()}
        driver.observe(BrokersRead(brokers))
    driver.observe(*driver.own_records())
    driver.pass_time(driver.options.claim_retry_s)
    return driver


def test_auto_is_native_where_leaders_write_their_isr() -> None:
    """Nothing shows a protocol of 2.7 or later."""
    driver = auto(features=False)
    assert driver.view.role.engine is EngineName.NATIVE


def test_auto_is_delegated_as_soon_as_one_broker_is_at_protocol_2_7() -> None:
    """In a rolling upgrade too; the controller is probed before any entry is sent."""
    driver = auto(features=True)
    assert driver.view.role.engine is EngineName.DELEGATED
    assert any(isinstance(e, ProbeReassignments) for e in driver.sent)
    assert not any(isinstance(e, BeginTenure) for e in driver.sent)
    driver.observe(ReassignmentsProbed(None))
    assert any(isinstance(e, BeginTenure) for e in driver.sent)


def test_a_controller_without_the_alter_api_is_a_refusal() -> None:
    """It is older than 2.4."""
    driver = auto(features=True)
    driver.observe(ReassignmentsProbed("broker 1 is older than Kafka 2.4", is_final=True))
    assert not any(isinstance(e, BeginTenure | ClaimController) for e in driver.sent)


def test_no_engine_works_during_a_migration_to_kraft() -> None:
    """Neither the native nor the delegated engine would be safe."""
    driver = auto(features=True)
    driver.observe(ReassignmentsProbed(None))
    driver.observe(ClaimGuardsRead(BrokerId(3000), False, 5, True, "a KRaft controller leads"))  # noqa: FBT003
    driver.observe(Deposed("resigned"), *driver.own_records())
    sent = len(driver.sent)
    driver.pass_time(60)
    assert not any(isinstance(e, BeginTenure | ClaimController) for e in driver.sent[sent:])


@pytest.mark.parametrize("final", [True, False])
def test_auto_refuses_only_where_neither_engine_is_safe(*, final: bool) -> None:
    """What forbids one engine is no reason where the other one can work."""
    driver = auto(features=False)
    assert refusals(driver.view) == ()
    driver = auto(features=True)
    assert refusals(driver.view) == ()
    driver.observe(ReassignmentsProbed("broker 1 is older than Kafka 2.4", is_final=final))
    reasons = refusals(driver.view)
    assert len(reasons) == (2 if final else 0)
    assert ("broker 1 is older than Kafka 2.4" in reasons) == final


def test_an_enabled_feature_znode_shows_protocol_2_7() -> None:
    """Though no registration of a broker says so yet."""
    driver = auto(features=False)
    driver.observe(ClaimGuardsRead(BrokerId(1), True, -1, True, None))  # noqa: FBT003
    (reason,) = native_refusals(driver.view)
    assert reason.startswith("/feature is enabled")


def test_the_legacy_znode_is_left_to_the_controller() -> None:
    """It starts every entry at once: nothing of it is accepted, refused or tidied by us."""
    driver = DelegatedDriver({tp(): (0, 1)})
    driver.observe(LegacyPlanRead(plan({tp(): (1, 2)})))
    assert driver.view.requests.legacy is None
    assert driver.orders == []
    assert not driver.view.reassignments.by_partition


def test_goals_of_either_engine_are_the_same() -> None:
    """A daemon of one engine continues the work of the other engine."""
    driver = DelegatedDriver({tp(): (0, 1)})
    spec = ReassignmentSpec(replicas(1, 2), replicas(0, 1), FIRST, Route.LEGACY, ZkVersion(0))
    driver.adopt({tp(): spec})
    driver.run(tp())
    assert at(driver) == (1, 2)


# --- gates -------------------------------------------------------------------------------------


def test_leaders_that_alter_entries_move_keep_to_the_limit() -> None:
    """The controller elects as soon as a leader is dropped: clients look for theirs anew."""
    options = replace(delegated(step_size=None), max_leader_moves_per_broker_per_second=1)
    driver = DelegatedDriver({tp(n): (0, 1) for n in range(2)}, options=options)
    submit(driver, submission(FIRST, {tp(n): (1, 2) for n in range(2)}))
    assert len(driver.orders) == 1
    (waiting,) = [r for r in driver.view.reassignments.by_partition.values() if not r.in_flight]
    assert waiting.blocked is not None
    assert waiting.blocked.by is BlockedBy.LEADER_MOVES
    driver.pass_time(1.0)
    assert len(driver.orders) == 2


def test_a_live_replica_that_lags_makes_room_as_a_dead_one_does() -> None:
    """It is neither a good copy nor in the target."""
    driver = DelegatedDriver({tp(): (0, 1)})
    driver.change_isr(tp(), replicas(0))
    submit_target(driver, 0, 2)
    assert driver.orders == [(replicas(0), False), (replicas(0, 2), False)]


def test_no_alter_entry_adds_while_what_is_to_go_would_outgrow_the_bound() -> None:
    """KAFKA-6794: one replica above the larger set, also where min.insync.replicas holds copies."""
    driver = DelegatedDriver({tp(): (0, 1, 2, 3)}, min_isr=3, brokers=(0, 3, 4, 5))
    driver.change_isr(tp(), replicas(0, 3))
    spec = ReassignmentSpec(
        replicas(3, 4, 5), replicas(0, 1, 2), FIRST, Route.REQUEST, ZkVersion(0)
    )
    driver.adopt({tp(): spec})
    assert driver.orders == []
    assert blocked_by(driver) is BlockedBy.MIN_ISR


def test_a_way_back_without_a_live_replica_in_sync_is_not_requested() -> None:
    """The controller would have none to elect."""
    driver = DelegatedDriver({tp(): (0, 1)}, options=delegated(step_size=None))
    submit_target(driver, 3, 4)
    driver.change_isr(tp(), replicas(0, 1, 3))
    driver.observe(BrokersRead({BrokerId(5): broker(5)}))
    orders = len(driver.orders)
    cancel(driver)
    assert len(driver.orders) == orders
    assert blocked_by(driver) is BlockedBy.NO_LEADER


def test_what_cannot_go_yet_is_not_requested_again_where_the_step_says_so_already() -> None:
    """The other engine left it so: one added replica goes, the other waits for an original."""
    driver = DelegatedDriver({tp(): (0, 1)})
    spec = ReassignmentSpec(replicas(3, 4), replicas(0, 1), FIRST, Route.REQUEST, ZkVersion(0))
    back = spec.rolled_back(replicas(0, 1), CANCEL)
    left = PartitionAssignment(replicas(0, 1, 3, 4), replicas(3, 4), replicas(4))
    driver.view.topics.by_name["t"].partitions[0] = left
    driver.change_isr(tp(), replicas(0, 3))
    driver.view.topics.configs["t"] = replace(
        driver.view.topics.configs["t"], min_insync_replicas=2
    )
    driver.adopt({tp(): back})
    assert driver.orders == []
    assert blocked_by(driver) is BlockedBy.MIN_ISR


def in_doubt() -> DelegatedDriver:
    """Return a cancellation that waits: its request without an answer may still be carried out."""
    driver = DelegatedDriver({tp(): (1, 2)}, answers=False)
    submit_target(driver, 3, 4)
    cancel(driver)
    return driver


def test_a_request_in_doubt_is_not_cancelled_without_a_live_replica_in_sync() -> None:
    """The controller could elect no leader of the present replicas."""
    driver = in_doubt()
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (3, 4)}))
    answer(driver, AlterOutcome.UNKNOWN, 1, 2, 3)
    driver.pass_time(BACKOFF_S + 1)
    assert driver.orders == [(replicas(1, 2, 3), False)]
    assert blocked_by(driver) is BlockedBy.NO_LEADER
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(1, 5)}))
    driver.pass_time(BACKOFF_S + 1)
    assert driver.orders[1:] == [(replicas(1, 2), True)]
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (3, 4)}))
    answer(driver, AlterOutcome.UNKNOWN, 1, 2)
    driver.pass_time(BACKOFF_S + 1)
    assert len(driver.orders) == 2
    assert blocked_by(driver) is BlockedBy.NO_LEADER


def test_a_request_in_doubt_is_cancelled_only_on_a_state_that_is_known() -> None:
    """The only replica in sync may have died since the last read."""
    driver = in_doubt()
    driver.answers_states = False
    driver.observe(StateChanged(tp()))
    answer(driver, AlterOutcome.UNKNOWN, 1, 2, 3)
    driver.pass_time(BACKOFF_S + 1)
    assert driver.orders == [(replicas(1, 2, 3), False)]
    assert blocked_by(driver) is BlockedBy.STATE_UNKNOWN
    driver.answers_states = True
    driver.change_isr(tp(), replicas(1, 2))
    driver.pass_time(BACKOFF_S + 1)
    assert driver.orders[1:] == [(replicas(1, 2), True)]


def test_an_end_without_a_step_of_ours_depends_on_the_topic_znode_as_read() -> None:
    """The cluster's controller may change the partition until the record is deleted."""
    driver = DelegatedDriver({tp(): (0, 1)}, refuses=(39, "the controller refuses it"))
    submit_target(driver, 1, 2)
    moved = TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(5), Zxid(9))
    driver.observe(TopicsRead({"t": moved}))
    ended = [r for c in driver.changes for r in c.records if isinstance(r, SpecEndedRecord)]
    assert [r.stands for r in ended] == [True]


def test_an_end_after_a_step_of_ours_does_not_depend_on_the_topic_znode() -> None:
    """The step was seen to end, whatever follows."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 1, 2)
    driver.run(tp())
    ended = [r for c in driver.changes for r in c.records if isinstance(r, SpecEndedRecord)]
    assert [r.stands for r in ended] == [False]


def test_a_step_that_has_to_wait_between_two_steps_leaves_its_slot_to_others() -> None:
    """Under a pause the step in flight ends, and the next one does not begin."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("night")))))
    driver.change_isr(tp(), at(driver))
    assert len(driver.orders) == 1
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Pending)
    assert (blocked_by(driver), driver.view.pacing.in_flight) == (BlockedBy.PAUSED, 0)
    driver.observe(ControlsRead(Controls()))
    driver.run(tp())
    assert at(driver) == (3, 4, 5)


def test_a_step_whose_next_one_waits_for_a_read_leaves_its_slot_to_others() -> None:
    """The state is read first: no compare-and-set would notice its change."""
    driver = DelegatedDriver({tp(): (0, 1, 2)})
    submit_target(driver, 3, 4, 5)
    driver.answers_states = False
    driver.observe(StateChanged(tp()))
    state = driver.view.leadership.states[tp()]
    driver.view.leadership.states[tp()] = replace(state, isr=replicas(0, 1, 2, 3))
    topic = driver.view.topics.by_name["t"]
    ended = {0: PartitionAssignment(replicas(0, 1, 2, 3))}
    driver.sent.clear()
    driver.observe(
        TopicsRead({"t": TopicAssignment(ended, ZkVersion(topic.version + 1), topic.czxid)})
    )
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Pending)
    assert driver.view.pacing.in_flight == 0
    assert driver.orders == []


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_step_that_is_corrected_reports_why(*, is_cancelled: bool) -> None:
    """The log and the journal show it."""
    driver = DelegatedDriver({tp(): (0, 1)})
    submit_target(driver, 1, 2)
    before = len(driver.changes)
    if is_cancelled:
        cancel(driver)
    else:
        submit_target(driver, 1, 3, name="request_0000000001")
    phases = [r for c in driver.changes[before:] for r in c.records if isinstance(r, PhaseRecord)]
    cause = next(r.cause for r in phases if isinstance(r.phase, AwaitingController))
    assert cause == ("rolled back" if is_cancelled else "the target changed")


def test_a_correction_keeps_only_good_copies_of_those_that_cannot_go_yet() -> None:
    """One that lags may always leave, whatever its number is."""
    driver = DelegatedDriver({tp(): (4, 0)}, min_isr=2, options=delegated(step_size=None))
    submit_target(driver, 2, 3)
    driver.change_isr(tp(), replicas(4, 3))
    cancel(driver)
    assert driver.orders[-1] == (replicas(4, 0, 3), False)


def test_a_request_that_is_not_answered_is_what_the_partition_waits_for() -> None:
    """Then, that its effect is not seen; each is reported as such."""
    driver = DelegatedDriver({tp(): (0, 1)}, answers=False)
    submit_target(driver, 1, 2)
    waits = driver.view.reassignments.by_partition[tp()].blocked
    assert waits is not None
    assert waits.by is BlockedBy.CONTROLLER_ANSWER
    assert waits.detail == "the controller has not answered the request yet"
    answer(driver, AlterOutcome.ANSWERED, 0, 1, 2)
    waits = driver.view.reassignments.by_partition[tp()].blocked
    assert waits is not None
    assert waits.detail.startswith("the controller accepted the request, and ZooKeeper does not")
