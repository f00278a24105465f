"""In a new tenure, partitions between two steps continue before pending ones begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.cycle import apply
from controller.core.effects import SendStopReplica, SendUpdateMetadata
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BlockedBy,
    BrokerId,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.budget import Budget
from controller.core.pacing.controls import Controls, Limits
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.native import NativeContext
from controller.core.reassignments.records import OrphanEndedRecord, OrphanRecord
from controller.core.records import Change
from controller.core.requests.records import KillSwitchRead, LegacyPlanRead
from controller.core.requests.submissions import Window
from controller.core.role.records import BrokersRead, LeadershipGained, LeadershipLost
from controller.core.topics.records import TopicsListed, TopicsRead
from tests.core.builders import Driver, broker, replicas, tp

REQUEST = RequestId("request_0000000000")
ONE_AT_A_TIME = Options(max_partitions_in_flight=1)
CLOSED = Window(opens=0, closes=1)
"""A minute after midnight; the tests begin in the evening."""


def spec(
    target: tuple[int, ...], original: tuple[int, ...], *, cancelled_by: RequestId | None = None
) -> ReassignmentSpec:
    """Return a record of an earlier daemon's."""
    return ReassignmentSpec(
        replicas(*target),
        replicas(*original),
        REQUEST,
        Route.REQUEST,
        ZkVersion(0),
        cancelled_by=cancelled_by,
    )


def took_over(driver: Driver, specs: Mapping[TopicPartition, ReassignmentSpec]) -> None:
    """Claim where an earlier daemon left these records."""
    driver.adopt(specs)
    driver.observe(LegacyPlanRead(None))


def test_a_reassignment_after_its_first_step_continues_while_disabled() -> None:
    """Another controller ended the step in flight when the daemon died."""
    driver = Driver({tp(0): (0, 1, 3), tp(1): (0, 1, 2)})
    driver.observe(KillSwitchRead(is_on=True))
    took_over(driver, {tp(n): spec((3, 4, 5), (0, 1, 2)) for n in range(2)})
    driver.run(tp(0))
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(3, 4, 5))
    assert driver.history[tp(1)] == []
    blocked = driver.view.reassignments.by_partition[tp(1)].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.KILL_SWITCH


def test_what_another_daemon_accepted_does_not_begin_while_reassignments_are_disabled() -> None:
    """It ended what we had begun: our steps were of that record, not of the one that stands now."""
    driver = Driver({tp(): (0, 1, 2)}, answers_configs=True)
    driver.submit({tp(): (3, 4, 5)})
    assert driver.view.reassignments.by_partition[tp()].begun
    driver.observe(LeadershipLost("the session expired"))
    ended = TopicAssignment({0: PartitionAssignment(replicas(3, 4, 5))}, ZkVersion(5), Zxid(9))
    driver.observe(TopicsListed(frozenset({"t"})), TopicsRead({"t": ended}))
    driver.observe(*driver.nothing_requested(), KillSwitchRead(is_on=True), LeadershipGained())
    took_over(driver, {tp(): spec((0, 1, 2), (3, 4, 5))})
    state = replace(driver.first_states[tp()], leader=BrokerId(3), isr=replicas(3, 4, 5))
    driver.history[tp()].clear()
    driver.observe(StatesRead({tp(): state}))
    assert driver.history[tp()] == []
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.KILL_SWITCH
    driver.observe(KillSwitchRead(is_on=False))
    assert driver.view.reassignments.by_partition[tp()].in_flight


def test_a_reassignment_towards_an_earlier_target_continues_while_disabled() -> None:
    """The replica it has was named by a target that another request took the place of."""
    driver = Driver({tp(): (0, 1, 3)})
    driver.observe(KillSwitchRead(is_on=True))
    changed = replace(spec((4, 5, 6), (0, 1, 2)), abandoned=frozenset(replicas(3)))
    took_over(driver, {tp(): changed})
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 5, 6))


def test_a_rollback_continues_outside_the_window() -> None:
    """Also what had to wait for its turn when the role was claimed."""
    driver = Driver({tp(n): (0, 1, 3) for n in range(3)}, options=ONE_AT_A_TIME)
    driver.observe(ControlsRead(Controls(limits=Limits(window=CLOSED))))
    by = RequestId("cancel-0000000000000064")
    took_over(driver, {tp(n): spec((0, 1, 2), (0, 1, 2), cancelled_by=by) for n in range(3)})
    for n in range(3):
        assert driver.view.reassignments.by_partition[tp(n)].in_flight
        driver.run(tp(n))
        assert driver.view.topics.assignment(tp(n)) == PartitionAssignment(replicas(0, 1, 2))


def test_what_was_begun_goes_before_what_was_not() -> None:
    """Half moved partitions are ended first, whatever order their records are read in."""
    driver = Driver({tp(0): (0, 1), tp(1): (0, 1), tp(2): (0, 2)}, options=ONE_AT_A_TIME)
    took_over(driver, {tp(n): spec((2, 3), (0, 1)) for n in range(3)})
    driver.run(tp(0))
    assert driver.view.reassignments.by_partition[tp(2)].in_flight
    assert driver.history[tp(1)] == []


def test_what_another_controller_ended_counts_as_moved() -> None:
    """The last step was made before this tenure: its bytes were copied for the request."""
    driver = Driver({tp(): (3, 4, 5)})
    driver.view.disks_process.sizes[tp()] = 10
    took_over(driver, {tp(): spec((3, 4, 5), (0, 1, 2))})
    assert not driver.view.reassignments.by_partition
    assert driver.view.requests.by_id[REQUEST].moved_bytes == 30
    assert driver.view.requests.by_id[REQUEST].uncounted == 0


def test_what_ended_before_it_was_measured_is_not_missed_in_silence() -> None:
    """Its bytes are unknown: a count says that the sum omits it, unless nothing was copied."""
    driver = Driver({tp(0): (3, 4, 5), tp(1): (0, 2, 1)})
    took_over(driver, {tp(0): spec((3, 4, 5), (0, 1, 2)), tp(1): spec((0, 2, 1), (0, 1, 2))})
    assert not driver.view.reassignments.by_partition
    request = driver.view.requests.by_id[REQUEST]
    assert (request.moved_bytes, request.uncounted) == (None, 1)


def test_a_step_that_others_began_gives_up_no_good_copy_while_one_of_its_target_is_dead() -> None:
    """It is beyond the bound already, and dropping first would leave two copies of three."""
    driver = Driver({tp(): (1, 4, 5)}, min_isr=2)
    step = PartitionAssignment(replicas(2, 5, 3, 1, 4), replicas(2, 3), replicas(1, 4))
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(7) if b != 5}))
    driver.fold(TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(1), Zxid(9))}))
    driver.change_isr(tp(), replicas(1, 4, 2, 3))
    driver.states[tp()].clear()
    took_over(driver, {tp(): spec((2, 5, 3), (1, 4, 5))})
    assert driver.view.leadership.states[tp()].isr == replicas(1, 4, 2, 3)
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.BROKER_DEAD
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(7)}))
    driver.catch_up(tp(), 5)
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(2, 5, 3))


@pytest.mark.parametrize("step_size", [1, None])
@pytest.mark.parametrize("is_dead", [True, False])
def test_a_step_for_a_smaller_target_keeps_what_the_present_one_needs(
    *, step_size: int | None, is_dead: bool
) -> None:
    """It was to leave 5 alone; another request took its place, which wants 3 beside it."""
    step = PartitionAssignment(replicas(5, 2), removing_replicas=replicas(2))
    driver = Driver({tp(): (2, 5)}, options=Options(step_size=step_size))
    if is_dead:
        driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 1, 2, 4, 5, 6)}))
    driver.fold(TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(1), Zxid(9))}))
    driver.states[tp()].clear()
    took_over(driver, {tp(): replace(spec((3, 5), (1, 2)), abandoned=frozenset(replicas(4)))})
    if is_dead:
        assert driver.view.leadership.states[tp()].isr == replicas(2, 5)
        blocked = driver.view.reassignments.by_partition[tp()].blocked
        assert blocked is not None
        assert blocked.by is BlockedBy.BROKER_DEAD
        driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(7)}))
    driver.run(tp())
    assert all(len(s.isr) >= 2 for s in driver.states[tp()])
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(3, 5))


def test_a_replica_that_was_dead_when_its_step_began_stays_while_it_is_a_good_copy() -> None:
    """It could not leave then; one that lags now goes in its place."""
    step = PartitionAssignment(replicas(2, 3, 4, 1), replicas(4), replicas(1))
    driver = Driver({tp(): (1, 2, 3)}, leaders={tp(): 3}, options=Options(step_size=1))
    driver.fold(TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(1), Zxid(9))}))
    driver.change_isr(tp(), replicas(3, 1))
    driver.states[tp()].clear()
    took_over(driver, {tp(): spec((4, 5, 6), (1, 2, 3))})
    driver.catch_up(tp(), 4)
    assert driver.view.leadership.states[tp()].isr == replicas(3, 1, 4)
    driver.run(tp())
    assert all(len(s.isr) >= 3 for s in driver.states[tp()][2:])
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 5, 6))
    assert all(len(a.target_replicas) <= 4 for a in driver.history[tp()])


def test_a_step_that_min_isr_was_raised_over_keeps_its_replicas_until_the_next_has_added() -> None:
    """It was to take 4 back; without 4 fewer are in sync than now allowed, and none was added."""
    step = PartitionAssignment(replicas(2, 3, 4), replicas(4), replicas(4))
    driver = Driver({tp(): (2, 3)}, options=Options(step_size=1), min_isr=3)
    driver.fold(TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(1), Zxid(9))}))
    state = replace(
        driver.view.leadership.states[tp()], isr=replicas(3, 2, 4), version=ZkVersion(7)
    )
    driver.fold(StatesRead({tp(): state}))
    driver.states[tp()].clear()
    took_over(driver, {tp(): replace(spec((1, 2, 5), (2, 3)), abandoned=frozenset(replicas(4)))})
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 2, 5))
    assert all(len(s.isr) >= 3 for s in driver.states[tp()])


@pytest.mark.parametrize("is_back", [True, False])
@pytest.mark.parametrize("step_size", [1, None])
def test_a_step_keeps_a_good_copy_that_it_was_to_take_back_and_the_present_target_has(
    *, step_size: int | None, is_back: bool
) -> None:
    """It took 3 back for a target without it, waited, and 3 caught up while 5 was lost."""
    step = PartitionAssignment(replicas(4, 5, 1, 3), replicas(3), replicas(3))
    driver = Driver({tp(): (4, 5, 1)}, options=Options(step_size=step_size), min_isr=2)
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in (0, 1, 2, 3, 4, 6)}))
    driver.fold(TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(1), Zxid(9))}))
    driver.change_isr(tp(), replicas(4, 3, 1))
    driver.states[tp()].clear()
    by = RequestId("cancel-0000000000000064") if is_back else None
    original = (4, 3, 1) if is_back else (4, 5, 1)
    took_over(driver, {tp(): spec((4, 3, 1), original, cancelled_by=by)})
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 3, 1))
    assert all(len(s.isr) >= 3 for s in driver.states[tp()])


@pytest.mark.parametrize(
    ("step_size", "isr", "surplus"),
    [
        (1, (0, 1), (3, 4, 5)),
        (1, (0, 1, 4), (2, 3, 5)),
        (1, (0, 1, 2, 3), (4, 5)),
        (3, (0, 1), (5,)),
        (4, (0, 1), ()),
    ],
)
def test_a_jump_of_kafkas_controller_is_reduced_to_what_a_step_may_copy(
    step_size: int, isr: tuple[int, ...], surplus: tuple[int, ...]
) -> None:
    """Good copies stay, however many it made; of the others the first of the target."""
    driver = Driver({tp(): (0, 1)}, options=Options(step_size=step_size))
    driver.submit({tp(): (2, 3, 4, 5)})
    jump = PartitionAssignment(replicas(2, 3, 4, 5, 0, 1), replicas(2, 3, 4, 5), replicas(0, 1))
    driver.view.topics.by_name["t"].partitions[0] = jump
    driver.view.leadership.states[tp()] = replace(
        driver.view.leadership.states[tp()], isr=replicas(*isr)
    )
    turn = NativeContext.of(driver.view, tp(), driver.now)
    assert isinstance(turn, NativeContext)
    reduced = turn.reduced_assignment()
    assert (() if reduced is None else reduced.removing_replicas) == surplus
    if reduced is not None:
        assert reduced.target_replicas[:2] == (0, 1)


def test_a_step_that_adds_again_what_was_to_be_deleted_ends_its_record_with_its_first_write() -> (
    None
):
    """A record that outlives it would have the new copy deleted."""
    driver = Driver({tp(): (0, 1)})
    driver.submit({tp(): (0, 1, 4)})
    orphan = Orphan(BrokerId(4), tp(), driver.view.topics.by_name["t"].czxid, "not live")
    apply(driver.view, OrphanRecord(orphan), driver.now)
    turn = NativeContext.of(driver.view, tp(), driver.now)
    assert isinstance(turn, NativeContext)
    budget = Budget(driver.view, driver.now)
    begun = turn.open_step(turn.assignment, (), "found in the topic znode", budget)
    assert isinstance(begun, Change)
    assert OrphanEndedRecord(orphan) in begun.records


def test_a_step_that_another_controller_ended_is_not_written_again() -> None:
    """The topic znode says what it is to say: only the record goes."""
    driver = Driver({tp(): (0, 1)})
    driver.submit({tp(): (0, 1, 4)})
    written = list(driver.history[tp()])
    driver.view.topics.by_name["t"].partitions[0] = PartitionAssignment(replicas(0, 1, 4))
    driver.catch_up(tp(), 4)
    assert tp() not in driver.view.reassignments.by_partition
    assert driver.history[tp()] == written


def test_a_record_at_its_target_ends_only_on_a_topic_that_was_read_in_the_tenure() -> None:
    """The former controller may have moved the partition after the last read; now only we do."""
    driver = Driver({tp(): (0, 1)}, answers_topics=False)
    took_over(driver, {tp(): spec((0, 1), (1, 2))})
    assert tp() in driver.view.reassignments.by_partition
    moved = TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(1), Zxid(9))
    driver.observe(TopicsRead({"t": moved}))
    assert tp() in driver.view.reassignments.by_partition
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(0, 1))


def test_a_record_at_its_target_ends_without_a_step() -> None:
    """Another controller made the last one; brokers get the metadata once more."""
    driver = Driver({tp(): (0, 1)})
    driver.sent.clear()
    took_over(driver, {tp(): spec((0, 1), (1, 2))})
    assert driver.view.reassignments.by_partition == {}
    assert driver.history[tp()] == []
    assert driver.states[tp()] == []
    assert SendUpdateMetadata((tp(),)) in driver.sent


@pytest.mark.parametrize(
    ("assigned", "original", "target", "lagging"),
    [
        ((1, 2, 3, 4), (0, 1, 2), (3, 4, 5), 3),
        ((1, 2, 3, 4), (0, 1, 2), (3, 4, 5), 4),
        ((1, 3, 4), (1,), (3, 4), 4),
    ],
)
def test_between_two_steps_no_old_replica_leaves_while_one_of_the_target_is_out_of_the_isr(
    assigned: tuple[int, ...], original: tuple[int, ...], target: tuple[int, ...], lagging: int
) -> None:
    """The topic znode lists no step, as after the end of one; the ISR was whole at that end."""
    driver = Driver({tp(): assigned}, options=Options(step_size=1))
    driver.change_isr(tp(), tuple(r for r in replicas(*assigned) if r != lagging))
    driver.states[tp()].clear()
    driver.sent.clear()
    took_over(driver, {tp(): spec(target, original)})
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.REPLICA_NOT_IN_ISR
    assert driver.history[tp()] == []
    assert driver.states[tp()] == []
    assert not any(isinstance(e, SendStopReplica) for e in driver.sent)
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(*target))
    assert all(len(s.isr) >= len(target) for s in driver.states[tp()])


def test_a_record_at_its_target_ends_while_a_replica_lags_but_old_copies_stay_until_then() -> None:
    """Kafka's controller ends such an entry, too: nothing leaves, and the replica catches up."""
    driver = Driver({tp(): (3, 4, 5)})
    driver.change_isr(tp(), replicas(3, 4))
    driver.states[tp()].clear()
    driver.sent.clear()
    took_over(driver, {tp(): spec((3, 4, 5), (0, 1, 2))})
    assert driver.view.reassignments.by_partition == {}
    assert driver.history[tp()] == []
    assert driver.states[tp()] == []
    kept = {(BrokerId(b), tp()) for b in (0, 1, 2)}
    assert driver.view.reassignments.orphans.keys() == kept
    assert not any(isinstance(e, SendStopReplica) for e in driver.sent)
    driver.catch_up(tp(), 5)
    stopped = {e.broker for e in driver.sent if isinstance(e, SendStopReplica) and e.delete}
    assert stopped == set(replicas(0, 1, 2))


def test_a_jump_whose_original_replicas_are_unknown_is_not_reduced() -> None:
    """Which replicas would have to stay first is not known: the step is followed as it is."""
    driver = Driver({tp(): (0, 1)}, options=Options(step_size=1))
    driver.submit({tp(): (2, 3, 4, 5)})
    jump = PartitionAssignment(replicas(2, 3, 4, 5, 0, 1), replicas(2, 3, 4, 5), replicas(0, 1))
    driver.view.topics.by_name["t"].partitions[0] = jump
    turn = NativeContext.of(driver.view, tp(), driver.now)
    assert isinstance(turn, NativeContext)
    assert turn.reduced_assignment() is not None
    turn.reassignment.spec = replace(turn.spec, original=None)
    assert turn.reduced_assignment() is None
