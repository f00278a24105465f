"""The role is given back with steps in flight: for deletions, under a pause, to moves of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.core.core_settings import Options, TenurePolicy
from controller.core.deletions.model import DELETION_PATIENCE_S
from controller.core.deletions.pending_deletions import DELETIONS_PATIENCE_S, yield_due
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import ClaimController, ResignController, SetTimer
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BlockedBy,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    RequestId,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.phases import Stopping, Syncing
from controller.core.reassignments.records import SpecsRead
from controller.core.records import TimerFired
from controller.core.requests.records import CancellationRead
from controller.core.requests.submissions import Cancellation
from controller.core.role.claims_and_resignations import (
    CLAIM_TIMER,
    DELETION_TIMER,
    LINGER_TIMER,
    PROGRESS_PATIENCE_S,
    hold_of,
)
from controller.core.role.records import ControllerClaimed, Deposed, YieldedRecord
from controller.core.topics.records import TopicsRead
from tests.core.builders import EPOCH, Driver, replicas, tp
from tests.core.disks.reports import reports
from tests.core.leadership.test_duties import live
from tests.core.requests.test_submitted import submission, submit

LINGER_S = 5.0
PAUSED = ControlsRead(Controls(pauses=Pauses(everything=Pause("topics are created"))))
RESUMED = ControlsRead(Controls())
REQUEST = RequestId("request_0000000000")
OTHER = tp(0, "other")


def with_a_dead_target(options: Options | None = None) -> Driver:
    """Return a step in flight whose new replica's broker died."""
    options = options or Options(tenure_linger_s=LINGER_S)
    driver = Driver({tp(): (1, 2, 3), OTHER: (1, 2, 3)}, brokers=(1, 2, 3, 4), options=options)
    submit(driver, submission(REQUEST, {tp(): (1, 2, 4)}))
    driver.observe(live(1, 2, 3))
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Syncing)
    driver.sent.clear()
    return driver


def resigns(driver: Driver) -> bool:
    """Return whether the role is being given back."""
    return any(isinstance(e, ResignController) for e in driver.sent)


def wait(driver: Driver, seconds: float) -> bool:
    """Let time pass, second by second; return whether the role is given back meanwhile."""
    for _ in range(int(seconds)):
        driver.now = Instant(driver.now + 1.0)
        driver.observe(TimerFired(LINGER_TIMER))
    return resigns(driver)


def yielded_to(driver: Driver) -> set[str]:
    """Return the deletions for which the role was given back."""
    records = [r for c in driver.changes for r in c.records if isinstance(r, YieldedRecord)]
    return {topic for record in records for topic in record.topics}


def give_back(driver: Driver) -> None:
    """Let a broker take the role, and the records be read again."""
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    _, *others = driver.own_records()
    driver.observe(Deposed("the role was given back"), SpecsRead(specs, {}), *others)
    driver.sent.clear()


def claims(driver: Driver) -> bool:
    """Return whether the role is, or was, claimed since it was given back."""
    driver.observe(TimerFired(CLAIM_TIMER))
    return any(isinstance(e, ClaimController) for e in driver.sent)


# --- deletions -----------------------------------------------------------------------------------


def test_a_step_that_cannot_end_does_not_keep_the_role_from_a_deletion() -> None:
    """The next controller carries the step out when the broker is back."""
    driver = with_a_dead_target()
    driver.observe(DeletionsRead(frozenset({"other"})))
    # Nothing else may happen in the cluster until then.
    assert SetTimer(DELETION_TIMER, Instant(driver.now + DELETION_PATIENCE_S)) in driver.sent
    assert not wait(driver, DELETION_PATIENCE_S - 1)
    assert wait(driver, 2)
    assert yielded_to(driver) == {"other"}
    assert driver.view.topics.known_assignment(tp()) == PartitionAssignment(
        replicas(1, 2, 3, 4), replicas(4)
    )


def test_a_step_that_copies_for_days_does_not_keep_the_role_from_a_deletion_either() -> None:
    """Progress or not: topics are deleted by a Kafka controller only."""
    driver = Driver({tp(): (1, 2, 3), OTHER: (1, 2)}, options=Options(tenure_linger_s=LINGER_S))
    submit(driver, submission(REQUEST, {tp(): (1, 2, 4)}))
    driver.observe(DeletionsRead(frozenset({"other"})))
    for second in range(int(DELETION_PATIENCE_S) + 1):
        held = {1: 10**12, 4: 1000 * (1 + second)}
        driver.observe(*reports(driver.view, {tp(): held}, driver.now))
        wait(driver, 1)
    assert resigns(driver)


def test_further_deletions_do_not_prolong_the_wait_of_the_first() -> None:
    """Where topics are deleted all the time the role is given back all the same."""
    driver = with_a_dead_target()
    driver.observe(DeletionsRead(frozenset({"other"})))
    assert not wait(driver, DELETION_PATIENCE_S - 10)
    driver.observe(DeletionsRead(frozenset({"other", "third"})))
    assert wait(driver, 11)
    assert yielded_to(driver) == {"other", "third"}


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_broker_that_got_the_role_for_a_deletion_has_time_for_it(*, is_deleted: bool) -> None:
    """The role is claimed again when the deletion has ended, or had its time; then for good."""
    driver = with_a_dead_target()
    driver.observe(DeletionsRead(frozenset({"other"})))
    assert wait(driver, DELETION_PATIENCE_S + 1)
    give_back(driver)
    driver.now = Instant(driver.now + 3 * driver.view.options.claim_retry_s)
    assert not claims(driver)
    if is_deleted:
        driver.observe(DeletionsRead(frozenset()))
    else:
        driver.now = Instant(driver.now + DELETION_PATIENCE_S)
    assert claims(driver)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(StatesRead(driver.first_states))
    driver.sent.clear()
    assert not wait(driver, 3 * DELETION_PATIENCE_S)
    assert driver.view.reassignments.by_partition[tp()].in_flight


def idle_with_a_request(*deletions: str) -> Driver:
    """Return a daemon without the role that is to move partitions while topics are deleted."""
    driver = Driver(
        {tp(): (1, 2, 3), OTHER: (1, 2, 3)},
        brokers=(1, 2, 3, 4),
        options=Options(tenure_linger_s=LINGER_S),
        answers_configs=True,
    )
    give_back(driver)
    driver.now = Instant(driver.now + 3600.0)
    driver.observe(DeletionsRead(frozenset(deletions)))
    submit(driver, submission(REQUEST, {tp(): (1, 2, 4)}))
    return driver


def is_claimed_within(driver: Driver, seconds: float, deletions: Mapping[int, set[str]]) -> bool:
    """Let time pass with deletions pending from a second on; return whether the role is claimed."""
    for second in range(int(seconds)):
        driver.now = Instant(driver.now + 1.0)
        if second in deletions:
            driver.observe(DeletionsRead(frozenset(deletions[second])))
        if claims(driver):
            return True
    return False


def take_the_role(driver: Driver) -> None:
    """Let the claim be made and everything be read that it put in doubt."""
    driver.now = Instant(driver.now + 0.5)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    topics = driver.view.topics.by_name.items()
    driver.observe(
        TopicsRead({n: TopicAssignment(dict(t.partitions), t.version, t.czxid) for n, t in topics})
    )
    driver.observe(StatesRead(driver.first_states))
    driver.sent.clear()


def test_a_deletion_that_cannot_end_does_not_hold_up_the_claim_with_those_that_end() -> None:
    """It had its time; a topic that is deleted every now and then is waited for by itself."""
    driver = idle_with_a_request("stuck")
    deletions = {25: {"stuck", "quick"}, 35: {"stuck"}}
    assert not is_claimed_within(driver, 35, deletions)
    assert is_claimed_within(driver, 1, {0: {"stuck"}})
    take_the_role(driver)
    driver.observe(DeletionsRead(frozenset({"stuck"})))
    assert not wait(driver, 3 * DELETION_PATIENCE_S)


def test_a_deletion_has_its_time_though_another_one_had_its_own() -> None:
    """A broker gets, or keeps, the role half a minute for each."""
    driver = idle_with_a_request("stuck")
    assert not is_claimed_within(driver, 20 + DELETION_PATIENCE_S, {20: {"stuck", "second"}})
    assert is_claimed_within(driver, 1, {})


def test_deletions_that_follow_each_other_hold_up_a_claim_for_a_bounded_time() -> None:
    """Each overlaps the next; the role is claimed, work begins, and the last gets it again soon."""
    driver = idle_with_a_request("t0")
    stream = {s: {f"t{s // 20}", f"t{s // 20 + 1}"} for s in range(0, 3600, 20)}
    assert not is_claimed_within(driver, DELETIONS_PATIENCE_S - 1, stream)
    assert is_claimed_within(driver, 1, stream)
    take_the_role(driver)
    assert driver.view.reassignments.by_partition[tp()].in_flight
    assert not wait(driver, 10)
    driver.observe(
        DeletionsRead((driver.view.deletions_session.markers or frozenset()) | {"one more"})
    )
    assert not wait(driver, DELETION_PATIENCE_S - 11)
    assert wait(driver, 2)
    assert "one more" in yielded_to(driver)
    give_back(driver)
    assert not is_claimed_within(driver, DELETION_PATIENCE_S - 2, {})
    assert is_claimed_within(driver, 3, {})


def test_no_step_begins_that_would_hold_up_the_deletion_which_a_claim_did_not_wait_for() -> None:
    """A broker deletes no topic before what is in flight of it has ended."""
    driver = Driver(
        {tp(): (1, 2, 3), OTHER: (1, 2, 3)},
        options=Options(tenure_linger_s=LINGER_S, max_partitions_in_flight=1),
        answers_configs=True,
    )
    submit(driver, submission(REQUEST, {tp(): (1, 2, 4), OTHER: (1, 2, 4)}))
    give_back(driver)
    driver.observe(DeletionsRead(frozenset({"t0"})))
    doomed = {s: {f"t{s // 20}", f"t{s // 20 + 1}"} for s in range(0, 100, 20)}
    doomed[100] = {"t5", "other"}
    assert is_claimed_within(driver, DELETIONS_PATIENCE_S + 1, doomed)
    take_the_role(driver)
    driver.run(tp())
    assert tp() not in driver.view.reassignments.by_partition
    waiting = driver.view.reassignments.by_partition[OTHER]
    assert not waiting.in_flight
    assert waiting.blocked is not None
    assert waiting.blocked.by is BlockedBy.TOPIC_DELETION


def test_a_claim_that_did_not_wait_for_a_deletion_gives_the_role_back_when_its_work_is_done() -> (
    None
):
    """There is nothing to keep it for."""
    driver = idle_with_a_request("t0")
    stream = {s: {f"t{s // 20}", f"t{s // 20 + 1}"} for s in range(0, 3600, 20)}
    assert is_claimed_within(driver, DELETIONS_PATIENCE_S, stream)
    take_the_role(driver)
    driver.run(tp())
    assert resigns(driver)


def test_the_time_of_a_deletion_begins_when_a_broker_can_take_the_role() -> None:
    """However long before it was seen, and whatever ended the tenure."""
    driver = with_a_dead_target()
    driver.observe(DeletionsRead(frozenset({"other"})))
    wait(driver, DELETION_PATIENCE_S - 2)
    give_back(driver)
    assert not is_claimed_within(driver, DELETION_PATIENCE_S - 1, {})
    assert is_claimed_within(driver, 1, {})


def test_a_permanent_tenure_does_not_wait_for_deletions() -> None:
    """The brokers never get the role for them."""
    driver = idle_with_a_request("other")
    assert not claims(driver)
    driver.view.options = replace(driver.view.options, tenure=TenurePolicy.PERMANENT)
    assert claims(driver)


def test_without_the_role_a_step_waits_for_a_pending_deletion() -> None:
    """What is reported as its reason does not need a tenure."""
    driver = idle_with_a_request("stuck")
    assert driver.view.tenure.held is None
    hold = hold_of(driver.view)
    assert hold is not None
    assert (hold.by, hold.detail) == (BlockedBy.TOPIC_DELETION, "topic deletion is pending: stuck")


# --- pauses --------------------------------------------------------------------------------------


def test_under_a_pause_a_step_without_progress_does_not_keep_the_role() -> None:
    """It is not claimed again before something changes that the daemon has to act on."""
    driver = with_a_dead_target()
    driver.observe(PAUSED)
    assert not wait(driver, 30 + LINGER_S - 1)
    assert wait(driver, 1)
    give_back(driver)
    driver.now = Instant(driver.now + 3600.0)
    assert not claims(driver)
    driver.observe(live(1, 2, 3, 4))
    assert not claims(driver), "a Kafka controller carries out what is in flight"
    driver.observe(RESUMED)
    assert claims(driver)


def test_without_a_pause_the_role_is_kept_for_a_step_that_waits_for_a_broker() -> None:
    """Only the controller hears of ISRs: without the role it would be claimed just to look."""
    driver = with_a_dead_target()
    assert not wait(driver, 10 * PROGRESS_PATIENCE_S)


@pytest.mark.parametrize("grows", [True, False])
def test_under_a_pause_a_step_that_copies_keeps_the_role(*, grows: bool) -> None:
    """Bytes that the new replica holds are progress, those of the others are not."""
    driver = Driver(
        {tp(): (1, 2, 3)}, options=Options(tenure_linger_s=LINGER_S), answers_configs=True
    )
    submit(driver, submission(REQUEST, {tp(): (1, 2, 4)}))
    driver.observe(PAUSED)
    for second in range(int(2 * PROGRESS_PATIENCE_S)):
        held = {1: 10**6 + second, 4: 1000 * (1 + second * grows)}
        driver.observe(*reports(driver.view, {tp(): held}, driver.now))
        wait(driver, 1)
    assert resigns(driver) is not grows
    assert driver.view.disks_process.copied
    if grows:
        driver.observe(RESUMED)
        driver.run(tp())
        assert not driver.view.disks_process.copied


def test_a_replica_that_enters_the_isr_is_progress() -> None:
    """Of several that a step adds, one after the other does."""
    options = Options(tenure_linger_s=LINGER_S, step_size=None)
    driver = Driver({tp(): (1, 2, 3)}, options=options)
    submit(driver, submission(REQUEST, {tp(): (4, 5, 6)}))
    driver.observe(PAUSED)
    wait(driver, PROGRESS_PATIENCE_S - 1)
    driver.catch_up(tp(), 4)
    assert not wait(driver, PROGRESS_PATIENCE_S - 1)
    assert wait(driver, LINGER_S + 3)


def test_a_deletion_of_a_replica_is_waited_for_until_its_deadline() -> None:
    """After an earlier resignation the undeleted log of the hung broker would go unrecorded."""
    options = Options(tenure_linger_s=LINGER_S, stop_replica_timeout_s=100.0)
    driver = Driver({tp(): (1, 2, 3)}, options=options, acknowledges=False)
    submit(driver, submission(REQUEST, {tp(): (1, 2)}))
    driver.acknowledge(tp(), replicas(1))
    driver.observe()
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Stopping)
    driver.observe(PAUSED)
    assert not wait(driver, 99)


def test_a_cancellation_that_waits_for_a_dead_broker_obeys_a_pause_of_all() -> None:
    """What is chosen is on record: a later tenure leads it back."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(tenure_linger_s=LINGER_S))
    submit(driver, submission(REQUEST, {tp(): (4, 5, 6)}))
    driver.catch_up(tp())
    driver.observe(live(1, 2, 4, 5, 6))
    cancelled = Cancellation(ZkVersion(0), Zxid(99), 0, requests=frozenset({REQUEST}))
    driver.observe(CancellationRead(cancelled))
    assert driver.view.reassignments.by_partition[tp()].spec.rolls_back
    assert not wait(driver, 2 * PROGRESS_PATIENCE_S), "what leads back keeps the role"
    driver.observe(PAUSED)
    assert wait(driver, PROGRESS_PATIENCE_S + LINGER_S + 2)


# --- moves of others -----------------------------------------------------------------------------


def test_moves_of_others_alone_do_not_keep_the_role() -> None:
    """A small request of ours ends; the foreign reassignment takes days, with or without us."""
    driver = Driver(
        {tp(): (1, 2), OTHER: (1, 2, 3)},
        options=Options(tenure_linger_s=LINGER_S),
        answers_configs=True,
    )
    adding = PartitionAssignment(replicas(4, 2, 3, 1), replicas(4), replicas(1))
    read = {"other": TopicAssignment({0: adding}, ZkVersion(1), Zxid(9))}
    driver.observe(Deposed("another one"), *driver.own_records(), TopicsRead(read))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(StatesRead(driver.first_states))
    submit(driver, submission(REQUEST, {tp(): (1, 3)}))
    assert driver.view.pacing.in_flight == 2
    assert not wait(driver, 2 * PROGRESS_PATIENCE_S)
    driver.run(tp())
    assert driver.view.pacing.in_flight == 1
    assert wait(driver, LINGER_S + 3)


def test_a_leader_that_is_to_be_elected_after_a_move_of_others_does_not_keep_the_role() -> None:
    """Kafka's controller takes such a request over."""
    driver = Driver({OTHER: (1, 2, 3)}, options=Options(tenure_linger_s=LINGER_S))
    adding = PartitionAssignment(replicas(4, 2, 3, 1), replicas(4), replicas(1))
    read = {"other": TopicAssignment({0: adding}, ZkVersion(1), Zxid(9))}
    driver.observe(Deposed("another one"), *driver.own_records(), TopicsRead(read))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(StatesRead(driver.first_states))
    driver.view.leadership.preferred[OTHER] = None
    assert wait(driver, LINGER_S + 3)


def test_a_rollback_keeps_the_role_where_every_request_is_held() -> None:
    """Only a pause of everything holds it, also when its cancellation was deleted meanwhile."""
    driver = Driver({tp(): (1, 2, 3)}, options=Options(tenure_linger_s=LINGER_S))
    submit(driver, submission(REQUEST, {tp(): (4, 5, 6)}))
    driver.catch_up(tp())
    driver.observe(live(1, 2, 4, 5, 6))
    paused = Pauses(requests={REQUEST: Pause("later")})
    driver.observe(ControlsRead(Controls(pauses=paused)))
    cancelled = Cancellation(ZkVersion(0), Zxid(99), 0, requests=frozenset({REQUEST}))
    driver.observe(CancellationRead(cancelled))
    driver.observe(CancellationRead(None))
    assert driver.view.reassignments.by_partition[tp()].spec.rolls_back
    assert not wait(driver, 10 * PROGRESS_PATIENCE_S)
    paused = Pauses(everything=Pause("now"))
    driver.observe(ControlsRead(Controls(pauses=paused)))
    assert wait(driver, PROGRESS_PATIENCE_S + LINGER_S + 2)


@pytest.mark.parametrize(("pending_s", "due_s"), [(-100.0, 0.0), (5.0, 5.0)])
def test_a_tenure_has_its_time_before_it_yields_to_a_deletion(
    pending_s: float, due_s: float
) -> None:
    """It counts from the claim, or from a deletion that is requested later."""
    driver = with_a_dead_target()
    driver.observe(DeletionsRead(frozenset({"other"})))
    view = driver.view
    assert view.tenure.held is not None
    claimed = view.tenure.held.since
    view.deletions_process.since = {"other": Instant(claimed + pending_s)}
    assert yield_due(view) == claimed + due_s + DELETION_PATIENCE_S
