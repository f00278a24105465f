"""Cancellation: nothing begins, what began goes back, what cannot is skipped and says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import (
    ClaimController,
    DescribeTopicConfigs,
    ReadAccepted,
    SendStopReplica,
)
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    OutcomeKind,
    PartitionAssignment,
    PartitionOutcome,
    PartitionState,
    RequestId,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.limits_in_force import step_size_of, throttle_of, windows_of
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord, SpecsRead
from controller.core.records import Change
from controller.core.requests.cancellation import follow_cancellation, needs_the_role
from controller.core.requests.outcomes import (
    EndedHistory,
    OpenHistory,
    Part,
    Undone,
    undone_requests,
)
from controller.core.requests.records import (
    AcceptedRead,
    AcceptedRecord,
    CancellationEndedRecord,
    CancellationRead,
    HistoryRead,
    LegacyEntryRecord,
    LegacyPlanRead,
    PartitionOutcomeRecord,
    PartRecord,
    QueueRead,
    RequestOutcomeForgottenRecord,
    SubmissionEndedRecord,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    CancelScope,
    RequestOptions,
    StepSize,
    Window,
)
from controller.core.requests.undo import UNDO_PART
from controller.core.role.records import BrokersRead, ControllerClaimed, Deposed
from controller.core.topics.records import TopicConfigsRead, TopicsRead
from tests.core.builders import EPOCH, WALL_S, Driver, broker, plan, replicas, tp
from tests.core.requests.test_submitted import outcomes, submission, submit

CZXID = 100
CANCEL = RequestId(f"cancel-{CZXID:016x}")


def cancel(driver: Driver, **selection: object) -> None:
    """Write the cancel znode; everything in progress where nothing is selected."""
    read = Cancellation(ZkVersion(0), Zxid(CZXID), 0, **selection)  # type: ignore[arg-type]
    driver.observe(CancellationRead(read))


def add_to(driver: Driver, mzxid: int = 2 * CZXID) -> None:
    """Change the cancel znode to everything in progress: its czxid stays."""
    read = Cancellation(ZkVersion(1), Zxid(CZXID), 0, mzxid=Zxid(mzxid))
    driver.observe(CancellationRead(read))


def has_ended(driver: Driver) -> bool:
    """Whether the cancel znode was deleted."""
    return any(isinstance(r, CancellationEndedRecord) for c in driver.changes for r in c.records)


def back_at(driver: Driver, partition: TopicPartition, *ids: int) -> bool:
    """Whether a partition has exactly these replicas, in order, and nothing drives it."""
    wanted = PartitionAssignment(replicas(*ids))
    return (
        driver.view.topics.assignment(partition) == wanted
        and not driver.view.reassignments.by_partition
    )


def test_an_added_replica_that_is_not_in_sync_goes_at_once() -> None:
    """Where no original was dropped yet the way back is one step."""
    driver = Driver({tp(): (0, 1, 2)})
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    cancel(driver)
    assert back_at(driver, tp(), 0, 1, 2)
    assert driver.history[tp()] == [
        PartitionAssignment(replicas(0, 1, 2, 3), replicas(3)),
        PartitionAssignment(replicas(0, 1, 2, 3), replicas(3), replicas(3)),
        PartitionAssignment(replicas(0, 1, 2)),
    ]
    deleted = [e.broker for e in driver.sent if isinstance(e, SendStopReplica) and e.delete]
    assert deleted == [3]
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.ROLLED_BACK: 1}
    assert outcomes(driver)[CANCEL].ended_ms == 1000 * WALL_S
    assert outcomes(driver)[RequestId("request_0000000000")].fates == {OutcomeKind.ROLLED_BACK: 1}


def test_the_single_jump_goes_back_in_one_step() -> None:
    """All that was added goes, in sync or not."""
    driver = Driver({tp(): (0, 1, 2)}, options=Options(step_size=None))
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    driver.catch_up(tp(), 3)
    cancel(driver)
    assert back_at(driver, tp(), 0, 1, 2)
    assert set(driver.view.leadership.states[tp()].isr) == set(replicas(0, 1, 2))


@pytest.mark.parametrize("steps", range(1, 4))
def test_the_original_order_is_restored_whatever_step_was_reached(steps: int) -> None:
    """The ordinary steps lead back, at most one replica more than it had."""
    driver = Driver({tp(): (0, 1, 2)}, min_isr=2)
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    for _ in range(steps - 1):
        driver.catch_up(tp())
    cancel(driver)
    driver.run(tp())
    assert back_at(driver, tp(), 0, 1, 2)
    assert all(len(a.target_replicas) <= 4 for a in driver.history[tp()])
    assert has_ended(driver)


def test_what_has_not_begun_never_does() -> None:
    """It ends without a write to the topic znode, if that is still as it was read."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2)}, options=Options(max_partitions_in_flight=1))
    submit(driver, submission("request_0000000000", {tp(0): (1, 3), tp(1): (1, 3)}))
    cancel(driver)
    assert driver.history[tp(1)] == []
    assert driver.view.reassignments.by_partition == {}
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.ROLLED_BACK: 1, OutcomeKind.CANCELLED: 1}
    records = [r for change in driver.changes for r in change.records]
    ended = {r.partition: r.stands for r in records if isinstance(r, SpecEndedRecord)}
    assert ended == {tp(0): False, tp(1): True}
    # What it chose is counted as it ends; it submits no entry itself.
    parts = [r.part for r in records if isinstance(r, PartRecord) and r.request == CANCEL]
    assert [part.total for part in parts] == [0]


def test_what_could_begin_in_the_turn_of_its_cancellation_does_not() -> None:
    """Else its record would go while its first step is written, and the step would never end."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    assert driver.history[tp()] == []
    chosen = Cancellation(ZkVersion(0), Zxid(CZXID), 0)
    driver.observe(ControlsRead(Controls()), CancellationRead(chosen))
    assert driver.history[tp()] == []
    assert back_at(driver, tp(), 0, 1, 2)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.CANCELLED: 1}


def test_a_cancellation_that_waits_for_a_state_goes_before_the_step_by_that_state() -> None:
    """Another controller ended the move meanwhile: it is led back, not recorded as done."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4), acknowledges=False)
    driver.submit({tp(): (1, 2, 4)})
    spec = driver.view.reassignments.by_partition[tp()].spec
    ended = TopicAssignment({0: PartitionAssignment(replicas(1, 2, 4))}, ZkVersion(7), Zxid(9))
    driver.observe(Deposed("the session ended"), TopicsRead({"t": ended}), LegacyPlanRead(None))
    driver.observe(SpecsRead({tp(): spec}, {}), *driver.own_records()[1:])
    cancel(driver)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    state = PartitionState(
        BrokerId(1), LeaderEpoch(9), replicas(1, 2, 4), ControllerEpoch(1), ZkVersion(9)
    )
    driver.observe(StatesRead({tp(): state}))
    assert driver.view.reassignments.by_partition[tp()].spec.rolls_back


def test_adding_only_and_removing_only_moves_are_cancelled() -> None:
    """The stock tool of 3.9 skips the first kind."""
    driver = Driver({tp(0): (1, 2), tp(1): (1, 2, 3)}, acknowledges=False)
    submit(driver, submission("request_0000000000", {tp(0): (1, 2, 3), tp(1): (1, 2)}))
    driver.acknowledges = True
    cancel(driver)
    driver.acknowledge(tp(0), replicas(1))
    driver.acknowledge(tp(1), replicas(1))
    driver.settle()
    for partition in (tp(0), tp(1)):
        driver.run(partition)
    assert driver.view.topics.assignment(tp(0)) == PartitionAssignment(replicas(1, 2))
    assert driver.view.topics.assignment(tp(1)) == PartitionAssignment(replicas(1, 2, 3))


def test_the_legacy_entry_is_rewritten_in_the_same_multi() -> None:
    """Else a Kafka controller that takes over would start the move again."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.submit({tp(): (3, 4, 5)})
    cancel(driver)
    (turning,) = [
        c
        for c in driver.changes
        if any(
            isinstance(r, LegacyEntryRecord) and r.replicas == replicas(0, 1, 2) for r in c.records
        )
    ]
    assert any(isinstance(r, SpecRecord) for r in turning.records)
    assert back_at(driver, tp(), 0, 1, 2)
    assert driver.view.requests.legacy is None


def test_only_what_is_selected_goes_back() -> None:
    """By request, by topic or by partition."""
    others = {tp(0, "a"): (1, 2), tp(0, "b"): (1, 2), tp(1, "b"): (1, 2)}
    driver = Driver(others)
    submit(driver, submission("request_0000000000", {tp(0, "a"): (1, 3)}))
    submit(
        driver,
        submission("request_0000000001", {tp(0, "b"): (1, 3), tp(1, "b"): (1, 3)}, czxid=61),
    )
    cancel(driver, partitions=frozenset({tp(1, "b")}))
    assert set(driver.view.reassignments.by_partition) == {tp(0, "a"), tp(0, "b")}
    assert has_ended(driver)


def test_without_known_originals_it_is_skipped() -> None:
    """The original is unknown; the reassignment continues and the outcome has the reason."""
    driver = Driver({tp(): (0, 1, 2)})
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    spec = driver.view.reassignments.by_partition[tp()].spec
    driver.view.reassignments.by_partition[tp()].spec = type(spec)(
        spec.target, None, spec.request, spec.route, spec.version
    )
    cancel(driver)
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.SKIPPED: 1}
    assert driver.view.reassignments.by_partition[tp()].spec.target == replicas(3, 4, 5)


def test_what_would_go_offline_is_skipped() -> None:
    """No original is in ISR while a new replica lives (KIP-236)."""
    driver = Driver({tp(): (0, 1)}, options=Options(step_size=None))
    submit(driver, submission("request_0000000000", {tp(): (3, 4)}))
    driver.catch_up(tp(), 3)
    state = driver.view.leadership.states[tp()]
    driver.change_isr(tp(), replicas(3))
    del state
    cancel(driver)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.SKIPPED: 1}


def test_a_dead_original_does_not_hold_up_the_way_back() -> None:
    """The gate is the ISR that results, not that every original lives."""
    driver = Driver({tp(): (0, 1, 2)}, min_isr=2)
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    live = [b for b in range(7) if b != 1]
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in live}))
    cancel(driver)
    driver.run(tp())
    assert back_at(driver, tp(), 0, 1, 2)
    assert set(driver.view.leadership.states[tp()].isr) == set(replicas(0, 2))


def test_a_way_back_that_would_leave_too_few_in_sync_waits() -> None:
    """An added replica in sync stays until an original is back."""
    driver = Driver({tp(): (0, 1, 2)}, min_isr=2, options=Options(step_size=None))
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    driver.catch_up(tp(), 3)
    driver.change_isr(tp(), replicas(0, 3))
    cancel(driver)
    driver.settle()
    assert set(driver.view.leadership.states[tp()].isr) == set(replicas(0, 3))
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert not has_ended(driver)
    driver.change_isr(tp(), replicas(0, 3, 2))
    driver.run(tp())
    assert back_at(driver, tp(), 0, 1, 2)


def test_a_good_copy_goes_back_only_when_the_originals_that_live_have_caught_up() -> None:
    """What lags goes at once; a second copy in sync is not exchanged for one that is not."""
    driver = Driver({tp(): (0, 1, 2)}, options=Options(step_size=2))
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    driver.catch_up(tp(), 3)
    driver.change_isr(tp(), replicas(0, 3))
    cancel(driver)
    assert driver.view.leadership.states[tp()].isr == replicas(0, 3)
    assert driver.view.reassignments.by_partition[tp()].deleted == {4}
    driver.change_isr(tp(), replicas(0, 3, 1))
    assert driver.view.leadership.states[tp()].isr == replicas(0, 3, 1)
    driver.run(tp())
    assert back_at(driver, tp(), 0, 1, 2)


def test_a_good_copy_does_not_make_room_for_another_target_before_that_is_copied() -> None:
    """All replicas of the new target are there already, but not in sync."""
    driver = Driver({tp(): (0, 1, 2)}, options=Options(step_size=None))
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    driver.catch_up(tp(), 3)
    driver.change_isr(tp(), replicas(0, 3))
    submit(driver, submission("request_0000000001", {tp(): (0, 4, 5)}))
    assert driver.view.leadership.states[tp()].isr == replicas(0, 3)
    driver.run(tp())
    assert back_at(driver, tp(), 0, 4, 5)


def test_a_second_cancel_finds_nothing_and_needs_no_role() -> None:
    """It is answered outside of a tenure."""
    driver = Driver({tp(): (0, 1, 2)})
    driver.observe(Deposed("idle"), *driver.own_records())
    driver.sent.clear()
    cancel(driver)
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].total == 0
    assert not any(isinstance(e, ClaimController) for e in driver.sent)


def test_what_is_not_understood_cancels_nothing() -> None:
    """It is recorded and deleted."""
    driver = Driver({tp(): (0, 1, 2)})
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    cancel(driver, unreadable="not JSON", raw=b"cancel please")
    assert driver.view.reassignments.by_partition[tp()].spec.target == replicas(3, 4, 5)
    assert outcomes(driver)[CANCEL].raw == b"cancel please"


def test_what_is_submitted_later_waits_until_all_is_chosen() -> None:
    """And is then accepted: it was not meant."""
    driver = Driver({tp(0): (0, 1, 2), tp(1): (0, 1, 2)})
    submit(driver, submission("request_0000000000", {tp(0): (3, 4, 5)}))
    driver.observe(SubmissionsListed(frozenset({"request_0000000001"})))
    cancel(driver)
    assert not has_ended(driver)
    submit(driver, submission("request_0000000001", {tp(1): (3, 1, 2)}, czxid=CZXID + 1))
    assert has_ended(driver)
    assert set(driver.view.reassignments.by_partition) == {tp(1)}


def test_a_request_that_was_not_accepted_yet_is_cancelled_as_well() -> None:
    """Everything in progress is also what was asked for and not yet looked at."""
    driver = Driver({tp(0): (0, 1, 2)})
    cancel(driver, requests=frozenset({RequestId("request_0000000000")}))
    assert has_ended(driver)
    driver = Driver({tp(0): (0, 1, 2)})
    driver.observe(SubmissionsListed(frozenset({"request_0000000000"})))
    cancel(driver)
    submit(driver, submission("request_0000000000", {tp(0): (3, 4, 5)}))
    assert driver.view.reassignments.by_partition == {}
    assert outcomes(driver)[RequestId("request_0000000000")].fates == {OutcomeKind.CANCELLED: 1}


def cancel_beside(driver: Driver, *names: str, mzxid: int = CZXID) -> None:
    """Write "everything in progress", or change it, where these requests stand."""
    read = Cancellation(ZkVersion(mzxid // CZXID - 1), Zxid(CZXID), 0, mzxid=Zxid(mzxid))
    driver.observe(SubmissionsListed(frozenset(names)), CancellationRead(read))


def test_a_request_that_is_gone_before_it_is_read_does_not_hold_up_the_cancellation() -> None:
    """A withdrawn request has nothing to cancel."""
    name = RequestId("request_0000000000")
    driver = Driver({tp(0): (0, 1, 2)})
    cancel_beside(driver, name)
    assert not has_ended(driver)
    driver.observe(SubmissionsRead({name: None}), SubmissionsListed(frozenset()))
    assert has_ended(driver)


def test_what_a_changed_cancellation_may_mean_has_to_be_read_first() -> None:
    """It was submitted since the cancellation began, and is older than its change."""
    driver = rolling_back()
    name = RequestId("request_0000000001")
    cancel_beside(driver, name, mzxid=2 * CZXID)
    driver.acknowledges = True
    driver.acknowledge(tp(0), replicas(0))
    driver.settle()
    driver.run(tp(0))
    assert not has_ended(driver)
    driver.observe(SubmissionsRead({name: submission(name, {tp(1): (3, 4, 5)}, CZXID + 1)}))
    assert has_ended(driver)
    assert driver.history[tp(1)] == []


def test_a_name_that_comes_again_is_freed_before_the_cancellation_ends_its_request() -> None:
    """There is one outcome by a name."""
    name = RequestId("request_0000000000")
    driver = Driver({tp(0): (0, 1, 2)})
    driver.observe(HistoryRead({}, {name: EndedHistory(("summary",), Zxid(40))}))
    cancel_beside(driver, name)
    driver.observe(SubmissionsRead({name: submission(name, {tp(0): (3, 4, 5)})}))
    kinds = [type(r) for change in driver.changes for r in change.records]
    assert kinds.index(RequestOutcomeForgottenRecord) < kinds.index(SubmissionEndedRecord)
    assert has_ended(driver)


def test_a_queue_in_doubt_holds_up_the_cancellation() -> None:
    """What it lists may be older than the cancellation, and would be drained after it."""
    driver = Driver({tp(0): (0, 1, 2)})
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("lunch")))))
    queued = plan({tp(0): (3, 4, 5)}, czxid=CZXID - 1)
    driver.observe(QueueRead(queued))
    assert driver.view.requests.queue is not None
    driver.view.requests.queue.stale = True
    cancel_beside(driver)
    assert not has_ended(driver)
    driver.observe(QueueRead(queued))
    assert has_ended(driver)
    assert tp(0) not in driver.view.reassignments.by_partition


def rolling_back() -> Driver:
    """Return a cancellation of one request whose first step back is not acknowledged."""
    driver = Driver({tp(0): (0, 1, 2), tp(1): (0, 1, 2), tp(2): (0, 1, 2)})
    name = RequestId("request_0000000000")
    submit(driver, submission(name, {tp(0): (3, 4, 5)}))
    driver.catch_up(tp(0), 3)
    driver.acknowledges = False
    cancel(driver, requests=frozenset({name}))
    assert driver.view.reassignments.by_partition[tp(0)].spec.rolls_back
    assert not has_ended(driver)
    return driver


def test_what_is_added_to_a_cancellation_takes_a_plan_written_since_its_begin() -> None:
    """What was asked for before its last change is meant, as far as that selects it."""
    driver = rolling_back()
    driver.observe(LegacyPlanRead(plan({tp(1): (3, 4, 5)}, czxid=CZXID + 1)))
    assert driver.view.reassignments.by_partition[tp(1)].in_flight
    add_to(driver)
    assert driver.view.reassignments.by_partition[tp(1)].spec.rolls_back


def test_what_is_added_to_a_cancellation_takes_a_queue_written_since_its_begin() -> None:
    """It leaves the queue."""
    driver = rolling_back()
    driver.observe(ControlsRead(Controls(Pauses(everything=Pause("lunch")))))
    driver.observe(QueueRead(plan({tp(1): (3, 4, 5)}, czxid=CZXID + 1)))
    assert driver.view.requests.queue is not None
    add_to(driver)
    assert driver.view.requests.queue is None


def test_what_is_added_to_a_cancellation_takes_a_request_written_since_its_begin() -> None:
    """It is not accepted any more."""
    driver = rolling_back()
    config = driver.view.topics.configs.pop("t")
    name = RequestId("request_0000000001")
    submit(driver, submission(name, {tp(1): (3, 4, 5)}, czxid=CZXID + 1))
    assert name in driver.view.requests_session.submissions
    add_to(driver)
    driver.observe(TopicConfigsRead({"t": config}))
    assert tp(1) not in driver.view.reassignments.by_partition
    assert outcomes(driver) == {}
    driver.acknowledges = True
    driver.acknowledge(tp(0), replicas(0))
    driver.settle()
    driver.run(tp(0))
    assert outcomes(driver)[name].fates == {OutcomeKind.CANCELLED: 1}


def select(driver: Driver, version: int, mzxid: int, **selection: object) -> None:
    """Replace what the cancel znode names, as clients do when its selection is complete."""
    read = Cancellation(
        ZkVersion(version),
        Zxid(CZXID),
        0,
        mzxid=Zxid(mzxid),
        **selection,  # type: ignore[arg-type]
    )
    driver.observe(CancellationRead(read))


def test_one_partition_is_cancelled_beside_what_was_submitted_since_everything_was() -> None:
    """What only the earlier cancellation would have named moves on."""
    driver = rolling_back()
    for number, time in ((1, 150), (2, 160)):
        name = f"request_000000000{number}"
        submit(driver, submission(name, {tp(number): (3, 4, 5)}, czxid=time))
    select(driver, 1, 200, partitions=frozenset({tp(2)}))
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    assert specs[tp(0)].rolls_back
    assert not specs[tp(1)].rolls_back
    assert tp(2) not in specs or specs[tp(2)].rolls_back


def test_what_was_skipped_is_cancelled_when_it_is_named_after_a_newer_request() -> None:
    """Its outcome of the first selection is no answer to the second."""
    driver = rolling_back()
    name = RequestId("request_0000000001")
    submit(driver, submission(name, {tp(1): (3, 4, 5)}, czxid=150))
    skip = PartitionOutcome(CANCEL, tp(1), OutcomeKind.SKIPPED, "it would go offline")
    driver.commit(Change((PartitionOutcomeRecord(skip),), partition=tp(1)))
    select(driver, 1, 200, partitions=frozenset({tp(1)}))
    spec = driver.view.reassignments.by_partition[tp(1)].spec
    assert spec.rolls_back
    assert "1" in driver.view.requests.by_id[CANCEL].parts


def test_what_is_written_after_the_last_change_of_a_cancellation_is_not_meant() -> None:
    """It waits until all is chosen, and begins."""
    driver = rolling_back()
    add_to(driver, mzxid=CZXID + 1)
    submit(driver, submission("request_0000000001", {tp(1): (3, 4, 5)}, czxid=CZXID + 2))
    assert not driver.view.reassignments.by_partition[tp(1)].spec.rolls_back


def test_scope_all_moves_back_what_was_finished() -> None:
    """From where the outcome says that it was, the last accepted first."""
    driver = Driver({tp(0): (0, 1), tp(1): (0, 1)})
    name = RequestId("request_0000000000")
    submit(driver, submission(name, {tp(0): (0, 2), tp(1): (0, 3)}))
    driver.run(tp(0))
    cancel(driver, requests=frozenset({name}), scope=CancelScope.ALL)
    assert ReadAccepted(name) in driver.sent
    assert not has_ended(driver)
    entries = (_entry(tp(0), (0, 1), (0, 2)), _entry(tp(1), (0, 1), (0, 3)))
    driver.observe(AcceptedRead(name, entries))
    driver.run(tp(0))
    driver.run(tp(1))
    assert back_at(driver, tp(0), 0, 1)
    assert back_at(driver, tp(1), 0, 1)
    assert has_ended(driver)


def test_what_was_finished_is_moved_back_with_the_options_of_the_cancellation() -> None:
    """Its throttle precedes those of the requests; outside its window no step begins."""
    driver = Driver({tp(0): (0, 1)})
    name = RequestId("request_0000000000")
    submit(driver, submission(name, {tp(0): (0, 2)}))
    driver.run(tp(0))
    night = Window(22 * 60, 5 * 60)
    options = {"throttle": 7, "window": night}
    cancel(driver, requests=frozenset({name}), scope=CancelScope.ALL, **options)
    driver.observe(AcceptedRead(name, (_entry(tp(0), (0, 1), (0, 2)),)))
    assert throttle_of(driver.view, CANCEL) == 7
    assert windows_of(driver.view, CANCEL) == (night,)


def test_what_was_undone_is_undone_again_where_a_newer_request_finished_since() -> None:
    """The cancellation that undid it is still in progress, and names the newer one as well."""
    driver = Driver({tp(0): (0, 1)})
    first, second = RequestId("request_0000000000"), RequestId("request_0000000001")
    submit(driver, submission(first, {tp(0): (0, 2)}))
    driver.run(tp(0))
    cancel(driver, requests=frozenset({first}), scope=CancelScope.ALL)
    driver.observe(AcceptedRead(first, (_entry(tp(0), (0, 1), (0, 2)),)))
    driver.run(tp(0))
    assert back_at(driver, tp(0), 0, 1)
    submit(driver, submission(second, {tp(0): (0, 3)}, czxid=150))
    driver.run(tp(0))
    assert back_at(driver, tp(0), 0, 3)
    # As where another partition of the first request is still on its way back.
    driver.view.requests.cancellation_ended = None
    driver.view.requests.by_id[CANCEL].has_ended = False
    driver.view.requests.by_id[CANCEL].settled.add(tp(0))
    scope = CancelScope.ALL
    select(driver, 1, 200, requests=frozenset({second}), scope=scope)
    driver.observe(AcceptedRead(second, (_entry(tp(0), (0, 1), (0, 3)),)))
    driver.run(tp(0))
    assert back_at(driver, tp(0), 0, 1)


def test_what_was_finished_is_not_left_where_its_topic_has_to_be_read_again() -> None:
    """Another client wrote to the topic: the rejected rollback is decided again after the read."""
    driver = Driver({tp(0): (0, 1)})
    name = RequestId("request_0000000000")
    submit(driver, submission(name, {tp(0): (0, 2)}))
    driver.run(tp(0))
    topic = driver.view.topics.by_name["t"]
    topic.invalidate(driver.view.role.read_generation)
    cancel(driver, requests=frozenset({name}), scope=CancelScope.ALL)
    driver.observe(AcceptedRead(name, (_entry(tp(0), (0, 1), (0, 2)),)))
    assert not has_ended(driver)
    later = ZkVersion(topic.version + 1)
    read = TopicAssignment(dict(topic.partitions), later, topic.czxid, topic.topic_id)
    driver.observe(TopicsRead({"t": read}))
    driver.run(tp(0))
    assert back_at(driver, tp(0), 0, 1)
    assert has_ended(driver)


@pytest.mark.parametrize("answered", ["before", "after", "after, with the entry"])
def test_what_is_accepted_and_finished_after_its_request_was_read_is_undone_too(
    answered: str,
) -> None:
    """The daemon heard of the cancellation late: a part of the older request was under way."""
    driver = Driver({tp(0): (0, 1), tp(1): (0, 2)})
    name = RequestId("request_0000000000")
    submit(driver, submission(name, {tp(0): (0, 2)}))
    driver.run(tp(0))
    first, later = _entry(tp(0), (0, 1), (0, 2)), _entry(tp(1), (0, 1), (0, 2))
    cancel(driver, requests=frozenset({name}), scope=CancelScope.ALL)
    if answered == "before":
        driver.fold(AcceptedRead(name, (first,)))
    driver.commit(Change((AcceptedRecord(name, later),), partition=tp(1)))
    if answered != "before":
        recorded = replace(later, recorded_in=Zxid(CZXID + 1))
        entries = (first, recorded) if answered.endswith("entry") else (first,)
        driver.fold(AcceptedRead(name, entries))
    driver.settle()
    driver.run(tp(0))
    driver.run(tp(1))
    assert back_at(driver, tp(0), 0, 1)
    assert back_at(driver, tp(1), 0, 1)
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].done == 2


def undo(driver: Driver, *read: AcceptedRead) -> None:
    """Cancel everything of the topic, the finished too, and answer what was accepted."""
    cancel(driver, topics=frozenset({"t"}), scope=CancelScope.ALL)
    asked = {e.request for e in driver.sent if isinstance(e, ReadAccepted)}
    assert asked == {CANCEL, *(answer.request for answer in read)}
    for answer in read:
        driver.observe(answer)


FIRST, SECOND = RequestId("request_0000000000"), RequestId("request_0000000001")


def undone_twice() -> Driver:
    """Move a partition by two requests, and undo both."""
    driver = Driver({tp(): (1, 2)})
    submit(driver, submission(FIRST, {tp(): (1, 3)}))
    driver.run(tp())
    submit(driver, submission(SECOND, {tp(): (1, 4)}, czxid=61))
    driver.run(tp())
    undo(
        driver,
        AcceptedRead(FIRST, (_entry(tp(), (1, 2), (1, 3)),)),
        AcceptedRead(SECOND, (_entry(tp(), (1, 3), (1, 4)),)),
    )
    return driver


def test_what_two_requests_moved_goes_back_to_where_the_first_found_it() -> None:
    """Whichever of them is read first, the partition is not reported as skipped."""
    driver = undone_twice()
    driver.run(tp())
    assert back_at(driver, tp(), 1, 2)
    assert outcomes(driver)[CANCEL].fates == {}
    assert outcomes(driver)[CANCEL].done == 1


def test_what_was_moved_there_and_back_is_where_it_was() -> None:
    """There is nothing to undo."""
    driver = Driver({tp(): (1, 2)})
    first, second = RequestId("request_0000000000"), RequestId("request_0000000001")
    submit(driver, submission(first, {tp(): (1, 3)}))
    driver.run(tp())
    submit(driver, submission(second, {tp(): (1, 2)}, czxid=61))
    driver.run(tp())
    undo(
        driver,
        AcceptedRead(first, (_entry(tp(), (1, 2), (1, 3)),)),
        AcceptedRead(second, (_entry(tp(), (1, 3), (1, 2)),)),
    )
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].total == 0


def test_a_partition_that_another_client_reassigned_since_is_skipped() -> None:
    """It is not where any of the requests led."""
    driver = Driver({tp(): (4, 5)})
    name = RequestId("request_0000000000")
    driver.observe(HistoryRead({}, {name: EndedHistory(("summary",), Zxid(40))}))
    undo(driver, AcceptedRead(name, (_entry(tp(), (1, 2), (1, 3)),)))
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.SKIPPED: 1}


def test_what_was_finished_is_not_undone_in_a_topic_that_is_to_be_deleted() -> None:
    """A replica whose log is deleted already never joins the ISR: the way back would not end."""
    driver = Driver({tp(): (1, 3)})
    driver.view.deletions_process.yielded = frozenset({"t"})
    driver.observe(DeletionsRead(frozenset({"t"})))
    name = RequestId("request_0000000000")
    driver.observe(HistoryRead({}, {name: EndedHistory(("summary",), Zxid(40))}))
    undo(driver, AcceptedRead(name, (_entry(tp(), (1, 2), (1, 3)),)))
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.SKIPPED: 1}
    assert driver.history[tp()] == []


def test_what_was_finished_is_not_undone_where_producers_would_fail() -> None:
    """The operator raised min.insync.replicas since; settings that are not known are asked for."""
    driver = Driver({tp(): (1, 3)}, min_isr=2)
    name = RequestId("request_0000000000")
    driver.observe(HistoryRead({}, {name: EndedHistory(("summary",), Zxid(40))}))
    driver.now = Instant(driver.now + driver.options.config_refresh_s)
    undo(driver, AcceptedRead(name, (_entry(tp(), (1,), (1, 3)),)))
    assert not has_ended(driver)
    assert DescribeTopicConfigs(("t",)) in driver.sent
    driver.observe(TopicConfigsRead({"t": TopicConfig(2, unclean_leader_election=False)}))
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].fates == {OutcomeKind.SKIPPED: 1}
    assert driver.history[tp()] == []


def test_what_a_request_did_not_bring_to_its_target_is_not_undone() -> None:
    """A later reassignment moved the partition there: it is not part of the request."""
    driver = Driver({tp(): (1, 3)})
    name = RequestId("request_0000000000")
    driver.observe(HistoryRead({}, {name: EndedHistory(("summary",), Zxid(40))}))
    entry = _entry(tp(), (1, 2), (1, 3))
    undo(driver, AcceptedRead(name, (entry,), elsewhere=frozenset({tp()})))
    assert has_ended(driver)
    assert outcomes(driver)[CANCEL].total == 0
    assert driver.history[tp()] == []


def test_the_way_back_of_what_was_finished_is_as_gentle_as_the_way_there() -> None:
    """Its throttle and step size are in force before its first step; its window is not."""
    driver = Driver({tp(): (3, 4)})
    name = RequestId("request_0000000000")
    driver.observe(HistoryRead({}, {name: EndedHistory(("summary",), Zxid(40))}))
    wish = RequestOptions(throttle=5_000_000, step_size="all", window=Window(0, 1))
    undo(driver, AcceptedRead(name, (_entry(tp(), (1, 2), (3, 4)),), wish))
    assert throttle_of(driver.view, CANCEL) == 5_000_000
    records = [type(r) for c in driver.changes for r in c.records]
    assert records.index(PartRecord) < records.index(SpecRecord)
    spec = driver.view.reassignments.by_partition[tp()].spec
    assert step_size_of(driver.view, spec) is None
    assert windows_of(driver.view, CANCEL) == ()
    part = [r.part for c in driver.changes for r in c.records if isinstance(r, PartRecord)][-1]
    assert part.options.throttle == 5_000_000


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_way_back_is_as_gentle_after_a_restart(*, newest_first: bool) -> None:
    """In whatever order its parts are read, and whatever was added to the cancellation since."""
    driver = Driver({})
    parts = [
        Part("3", 0, 0, RequestOptions(reason="too slow")),
        Part(UNDO_PART, 0, 0, RequestOptions(throttle=5_000_000)),
    ]
    read = {part.name: part for part in (reversed(parts) if newest_first else parts)}
    driver.observe(HistoryRead({CANCEL: OpenHistory(read, 0)}, {}))
    assert throttle_of(driver.view, CANCEL) == 5_000_000
    driver.commit(Change((PartRecord(CANCEL, Part("4", 0, 0)),)))
    assert throttle_of(driver.view, CANCEL) == 5_000_000


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(2, None, 1), (2, "all", 2), ("all", "all", None), (None, "all", 1), (None, None, 1)],
)
def test_the_way_back_takes_the_smallest_of_the_step_sizes(
    first: StepSize | None, second: StepSize | None, expected: int | None
) -> None:
    """A request that named none was carried out by the daemon's own, here 1."""
    driver = Driver({tp(0): (3, 4), tp(1): (3, 4)}, options=Options(step_size=1))
    names = RequestId("request_0000000000"), RequestId("request_0000000001")
    kept = {name: EndedHistory(("summary",), Zxid(40)) for name in names}
    driver.observe(HistoryRead({}, kept))
    wishes = RequestOptions(step_size=first), RequestOptions(step_size=second)
    undo(
        driver,
        AcceptedRead(names[0], (_entry(tp(0), (1, 2), (3, 4)),), wishes[0]),
        AcceptedRead(names[1], (_entry(tp(1), (1, 2), (3, 4)),), wishes[1]),
    )
    assert step_size_of(driver.view, driver.view.reassignments.by_partition[tp(0)].spec) == expected


def test_a_cancelled_move_is_recovered_by_a_second_daemon() -> None:
    """The way back is durable in the goal."""
    driver = Driver({tp(): (0, 1, 2)}, min_isr=2)
    submit(driver, submission("request_0000000000", {tp(): (3, 4, 5)}))
    driver.catch_up(tp())
    cancel(driver)
    spec = driver.view.reassignments.by_partition[tp()].spec
    assert spec.cancelled_by == CANCEL
    driver.adopt({tp(): spec})
    driver.observe(LegacyPlanRead(None))
    driver.acknowledge(tp(), replicas(0))
    driver.settle()
    driver.run(tp())
    assert back_at(driver, tp(), 0, 1, 2)


def _entry(
    partition: TopicPartition, original: Sequence[int], target: Sequence[int]
) -> AcceptedEntry:
    return AcceptedEntry(partition, replicas(*original), replicas(*target))


def test_a_plan_in_doubt_holds_up_the_cancellation() -> None:
    """What was added to it may be older than the cancellation, and would begin after it."""
    driver = Driver({tp(0): (0, 1, 2), tp(1): (0, 1, 2)})
    driver.submit({tp(0): (3, 4, 5)})
    assert driver.view.requests.legacy is not None
    driver.view.requests.legacy.stale = True
    cancel(driver, partitions=frozenset({tp(1)}))
    assert not has_ended(driver)
    driver.observe(LegacyPlanRead(plan({tp(0): (3, 4, 5)})))
    assert has_ended(driver)


@pytest.mark.parametrize("is_known", [True, False])
def test_the_outcome_of_a_cancellation_has_the_time_of_its_end(*, is_known: bool) -> None:
    """0: the wall clock was not read yet."""
    driver = Driver({tp(): (1, 2)})
    if not is_known:
        driver.view.pacing_process.wall = None
    cancel(driver)
    assert outcomes(driver)[CANCEL].ended_ms == (WALL_S * 1000 if is_known else 0)


NAMED = {
    "its topic": {"topics": frozenset({"t"})},
    "its partition": {"partitions": frozenset({tp()})},
    "another partition": {"topics": frozenset({"u"}), "partitions": frozenset({tp(1)})},
    "everything": {},
    "everything, also finished": {"scope": CancelScope.ALL},
}


@pytest.mark.parametrize(
    ("named", "is_needed"), [*zip(NAMED, (True, True, False, False, True), strict=True)]
)
def test_a_cancellation_needs_the_role_for_a_foreign_reassignment_that_it_names(
    named: str, *, is_needed: bool
) -> None:
    """It is adopted in the tenure only; a selection of everything leaves it alone."""
    driver = Driver({tp(): (1, 2, 3), tp(1): (1, 2), tp(0, "u"): (1, 2)})
    driver.observe(Deposed("another one"), *driver.own_records())
    moved = PartitionAssignment(replicas(1, 2, 3), replicas(3))
    driver.view.topics.by_name["t"].partitions[0] = moved
    selection = NAMED[named]
    driver.view.requests.cancellation = Cancellation(ZkVersion(0), Zxid(CZXID), 0, **selection)  # type: ignore[arg-type]
    assert needs_the_role(driver.view) == is_needed
    driver.view.requests.cancellation = Cancellation(
        ZkVersion(0), Zxid(CZXID), 0, unreadable="not JSON", scope=CancelScope.ALL
    )
    assert not needs_the_role(driver.view)


@pytest.mark.parametrize("there_is", ["a reassignment", "a legacy plan", "a queue", "a request"])
def test_a_cancellation_needs_the_role_where_there_is_anything_to_select(there_is: str) -> None:
    """Without the role nothing is accepted, and so nothing cancelled."""
    driver = Driver({tp(): (1, 2, 3)})
    view = driver.view
    if there_is == "a reassignment":
        submit(driver, submission("request_0000000000", {tp(): (1, 2, 4)}))
    driver.observe(Deposed("another one"))
    view.requests.cancellation = Cancellation(ZkVersion(0), Zxid(CZXID), 0)
    match there_is:
        case "a legacy plan":
            driver.fold(LegacyPlanRead(plan({tp(): (1, 2, 4)})))
        case "a queue":
            driver.fold(QueueRead(plan({tp(): (1, 2, 4)})))
        case "a request":
            driver.fold(SubmissionsListed(frozenset({"request_0000000000"})))
        case _:
            pass
    assert needs_the_role(view)


def test_a_cancellation_does_not_end_before_a_stale_queue_is_read() -> None:
    """An entry of it may be one that the cancellation selects."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    driver.observe(QueueRead(plan({tp(): (1, 2, 4)})))
    assert driver.view.requests.queue is not None
    driver.view.requests.queue.stale = True
    cancel(driver)
    assert not has_ended(driver)
    driver.observe(QueueRead(plan({}, czxid=51)))
    assert has_ended(driver)


def test_a_cancellation_waits_for_a_topic_that_is_being_read() -> None:
    """Its replicas decide whether there is anything to roll back."""
    driver = Driver({tp(): (1, 2)}, answers_topics=False)
    submit(driver, submission("request_0000000000", {tp(): (1, 3)}))
    topic = driver.view.topics.by_name["t"]
    topic.invalidate(driver.view.role.read_generation + 1)
    driver.view.role.read_generation += 1
    cancel(driver)
    assert not has_ended(driver)
    assert not driver.view.reassignments.by_partition[tp()].spec.rolls_back
    read = TopicAssignment(dict(topic.partitions), topic.version, topic.czxid)
    driver.observe(TopicsRead({"t": read}))
    driver.run(tp())
    assert has_ended(driver)
    assert back_at(driver, tp(), 1, 2)


def test_a_cancellation_does_not_end_before_foreign_reassignments_are_adopted() -> None:
    """It may name one of them, which is a reassignment of ours only then."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.view.reassignments_tenure.may_have_foreign = True
    driver.view.requests.cancellation = Cancellation(
        ZkVersion(0), Zxid(CZXID), 0, topics=frozenset({"t"})
    )
    assert follow_cancellation(driver.view, driver.now).changes == ()
    driver.view.reassignments_tenure.may_have_foreign = False
    assert follow_cancellation(driver.view, driver.now).changes


def selected(driver: Driver) -> Part:
    """Return the last part of the cancellation, which says what it selected."""
    parts = driver.view.requests.by_id[CANCEL].parts.values()
    return next(p for p in parts if p.name != UNDO_PART)


def test_a_cancellation_records_what_it_undoes_and_cancels() -> None:
    """By request: what was finished is undone, what was in progress is cancelled."""
    driver = Driver({tp(0): (0, 1), tp(1): (0, 1), tp(2): (0, 1)})
    name = RequestId("request_0000000000")
    submit(driver, submission(name, {tp(0): (0, 2), tp(1): (0, 3), tp(2): (0, 4)}))
    driver.run(tp(0))
    cancel(driver, requests=frozenset({name}), scope=CancelScope.ALL)
    entries = (
        _entry(tp(0), (0, 1), (0, 2)),
        _entry(tp(1), (0, 1), (0, 3)),
        _entry(tp(2), (0, 1), (0, 4)),
    )
    driver.observe(AcceptedRead(name, entries))
    part = selected(driver)
    assert part.undoes == {name: 1}
    assert part.cancels == {name: 2}
    assert driver.view.requests.undone == {name: Undone(CANCEL, 1, is_open=True)}
    for n in range(3):
        driver.run(tp(n))
    assert has_ended(driver)
    assert driver.view.requests.undone == {name: Undone(CANCEL, 1, is_open=False)}


def test_what_was_undone_is_known_after_a_change_of_the_leader() -> None:
    """The next daemon reads it with the names of ended requests."""
    driver = Driver({})
    ended = EndedHistory(("part-0", "summary"), Zxid(50), {RequestId("request_0000000000"): 3})
    driver.observe(HistoryRead({}, {CANCEL: ended}))
    undone = Undone(CANCEL, 3, is_open=False)
    assert driver.view.requests.undone == {RequestId("request_0000000000"): undone}


def test_what_two_requests_moved_is_undone_of_both() -> None:
    """One way back past both of them."""
    driver = undone_twice()
    assert selected(driver).undoes == {FIRST: 1, SECOND: 1}


def test_an_undo_that_was_undone_leaves_its_request_done() -> None:
    """The newest cancellation decides."""
    one, first, second = map(RequestId, ("request_0000000000", "cancel-01", "cancel-02"))
    undoes = {first: ({one: 3}, False), second: ({first: 3}, False)}
    assert undone_requests(undoes) == {first: Undone(second, 3, is_open=False)}
    assert undone_requests({first: ({one: 3}, True)}) == {one: Undone(first, 3, is_open=True)}
    again = {first: ({one: 1}, False), second: ({one: 2}, True)}
    assert undone_requests(again) == {one: Undone(second, 3, is_open=True)}
