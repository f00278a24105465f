"""The end of a tenure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import EngineName, LegacyMode, Options, TenurePolicy
from controller.core.cycle import record_effect, take_due
from controller.core.decide import decide
from controller.core.effects import (
    BeginTenure,
    ClaimController,
    Effect,
    ReadTopics,
    ResignController,
    SetTimer,
)
from controller.core.leadership.records import StatesRead
from controller.core.model import (
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.model import Orphan
from controller.core.reassignments.records import OrphansRead, SpecsRead
from controller.core.records import Event, TimerFired
from controller.core.requests.records import LegacyPlanRead, QueueRead
from controller.core.role.claims_and_resignations import (
    CLAIM_TIMER,
    LINGER_TIMER,
    has_work,
    hold_of,
)
from controller.core.role.records import (
    BrokersRead,
    ClaimFailed,
    ClaimGuardsRead,
    ControllerClaimed,
    Deposed,
    LeadershipGained,
    LeadershipLost,
    UpdateMetadataAnswered,
)
from controller.core.role.tenure_reset import VOID
from controller.core.topics.records import TopicsListed, TopicsRead
from controller.core.topics.topic_configs import CONFIG_TIMER
from controller.kafka_errors import STALE_CONTROLLER_EPOCH
from tests.core.builders import EPOCH, Driver, broker, plan, replicas, tp
from tests.core.requests.test_submitted import submission, submit


def run_timers(driver: Driver) -> None:
    """Let every timer fire that has to do with the tenure, each name once per setting."""
    seen = 0
    while True:
        timers = {
            e.name: e.at
            for e in driver.sent[seen:]
            if isinstance(e, SetTimer) and e.name != CONFIG_TIMER
        }
        seen = len(driver.sent)
        if not timers:
            return
        for name, at in sorted(timers.items(), key=lambda timer: timer[1]):
            driver.now = Instant(max(driver.now, at))
            driver.observe(TimerFired(name))


def linger(driver: Driver) -> None:
    """Let the time pass after which the role is given back where nothing is to do."""
    for _ in range(3):
        driver.now = Instant(driver.now + 1.0)
        driver.observe(TimerFired(LINGER_TIMER))


def test_the_role_is_given_back_when_the_last_work_was_an_election() -> None:
    """Elections of preferred leaders outlast the plan; when the last is held, idleness begins."""
    options = Options(tenure_linger_s=1.0, preferred_elections_per_second=1)
    driver = Driver({tp(n): (1, 2) for n in range(3)}, options=options)
    submit(driver, submission("request_0000000000", {tp(n): (2, 1) for n in range(3)}))
    run_timers(driver)
    assert [driver.view.leadership.states[tp(n)].leader for n in range(3)] == [2, 2, 2]
    assert any(isinstance(e, SetTimer) and e.name == LINGER_TIMER for e in driver.sent)
    assert any(isinstance(e, ResignController) for e in driver.sent)


def test_orphans_that_outlast_a_tenure_are_tried_again_though_nothing_happens() -> None:
    """A quiet cluster has no events: a timer has to be set."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure_linger_s=0.0))
    orphan = Orphan(BrokerId(3), tp(), Zxid(9), "not confirmed")
    driver.observe(OrphansRead(frozenset({orphan})))
    driver.observe(Deposed("another one"), *driver.own_records())
    driver.observe(OrphansRead(frozenset({orphan})))
    run_timers(driver)
    assert isinstance(driver.sent[-1], ClaimController)


def test_the_role_is_kept_while_the_repair_of_a_restarted_leader_awaits_a_read() -> None:
    """It may have lost its log, and a Kafka controller that is elected now would not know it."""
    driver = Driver({tp(): (2, 1, 3)}, options=Options(tenure_linger_s=1.0))
    leadership = driver.view.leadership
    state = leadership.states.pop(tp())
    leadership.distrusted[tp()] = driver.view.role.read_generation
    leadership.bounced[tp()] = {BrokerId(2)}
    linger(driver)
    assert not any(isinstance(e, ResignController) for e in driver.sent)
    driver.observe(StatesRead({tp(): state}, driver.view.role.read_generation))
    assert leadership.states[tp()].leader == 1
    linger(driver)
    assert any(isinstance(e, ResignController) for e in driver.sent)


def test_an_unreadable_topic_does_not_keep_the_role() -> None:
    """Nothing says when its znode becomes readable."""
    driver = Driver({tp(): (2, 1, 3)}, options=Options(tenure_linger_s=1.0))
    view = driver.view
    driver.observe(TopicsRead({tp().topic: "not JSON"}, view.role.read_generation))
    view.topics.by_name[tp().topic].invalidate(view.role.read_generation)
    view.leadership.bounced[tp()] = {BrokerId(2)}
    assert view.topics.assignment(tp()) is None
    linger(driver)
    assert any(isinstance(e, ResignController) for e in driver.sent)


@pytest.mark.parametrize("mode", list(LegacyMode))
def test_a_paused_plan_does_not_fall_to_a_broker_that_would_start_it_whole(
    mode: LegacyMode,
) -> None:
    """Taken out of the znode it can wait without the role; mirrored there it cannot."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure_linger_s=1.0, legacy_mode=mode))
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    driver.submit({tp(): (3, 4)})
    linger(driver)
    assert driver.view.requests.legacy is not None
    resigned = any(isinstance(e, ResignController) for e in driver.sent)
    assert resigned == (not driver.view.requests.legacy.entries) == (mode is LegacyMode.ABSORB)


def waiting_for_health(options: Options) -> Driver:
    """Return work that nothing holds but another topic, which is below min.insync.replicas."""
    sick = tp(0, "sick")
    driver = Driver({tp(): (1, 2), sick: (3, 4)}, options=options, min_isr=2)
    driver.change_isr(sick, replicas(3))
    submit(driver, submission("request_0000000000", {tp(): (1, 5)}))
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.CLUSTER_HEALTH
    return driver


def test_the_role_is_kept_while_work_waits_for_the_health_of_the_cluster() -> None:
    """Only the controller hears of it: without the role it would be claimed again just to look."""
    driver = waiting_for_health(Options(tenure_linger_s=1.0))
    linger(driver)
    assert not any(isinstance(e, ResignController) for e in driver.sent)
    driver.change_isr(tp(0, "sick"), replicas(3, 4))
    assert driver.view.reassignments.by_partition[tp()].in_flight


def test_a_pause_gives_the_role_back_also_while_the_cluster_is_not_well() -> None:
    """So that topics can be created meanwhile."""
    driver = waiting_for_health(Options(tenure_linger_s=1.0))
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("topics are created")))))
    linger(driver)
    assert any(isinstance(e, ResignController) for e in driver.sent)


@pytest.mark.parametrize(("waited_s", "at_once"), [(0.0, True), (0.9, True), (1.1, False)])
def test_a_plan_that_just_came_is_a_race_with_the_controller_of_the_cluster(
    waited_s: float, *, at_once: bool
) -> None:
    """Later that one has long begun it, and may be amid an event that needs it in good order."""
    driver = without_the_role()
    driver.observe(LegacyPlanRead(None))
    driver.fold(LegacyPlanRead(plan({tp(): (2, 1)})))
    driver.now = Instant(driver.now + waited_s)
    driver.settle()
    assert claims(driver) == [ClaimController(at_once=at_once)]


def test_a_plan_that_was_created_after_an_idle_tenure_is_a_race_too() -> None:
    """It is new by its creation, whatever had to be read anew."""
    driver = without_the_role()
    driver.observe(LegacyPlanRead(plan({tp(): (2, 1)})))
    assert claims(driver) == [ClaimController(at_once=True)]


def test_a_plan_that_was_there_before_us_is_no_race() -> None:
    """The present controller has had its time to begin it."""
    driver = without_the_role()
    driver.view.requests.legacy_last = None
    driver.observe(LegacyPlanRead(plan({tp(): (2, 1)})))
    assert claims(driver) == [ClaimController()]


def test_other_work_lets_the_controller_of_the_cluster_end_its_event() -> None:
    """It has nothing to do with it."""
    driver = without_the_role()
    driver.observe(LegacyPlanRead(None))
    submit(driver, submission("request_0000000000", {tp(): (1, 2)}))
    assert ClaimController() in driver.sent
    assert ClaimController(at_once=True) not in driver.sent


def claims(driver: Driver) -> list[Effect]:
    """Return the claims that were asked for."""
    return [effect for effect in driver.sent if isinstance(effect, ClaimController)]


def without_the_role() -> Driver:
    """Return a daemon that gave the role back some time ago."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(Deposed("a broker is the controller"), *driver.own_records())
    driver.now = Instant(driver.now + 60.0)
    driver.sent.clear()
    return driver


EVERYTHING: tuple[Event, ...] = (
    BrokersRead({BrokerId(b): broker(b) for b in range(1, 6)}),
    TopicsListed(frozenset({"t"})),
    TopicsRead(
        {"t": TopicAssignment({0: PartitionAssignment(replicas(1, 2))}, ZkVersion(0), Zxid(9))}
    ),
    *Driver.nothing_requested(),
    *Driver.own_records(),
)
"""Everything that has to be known before a claim."""


@pytest.mark.parametrize("last", EVERYTHING, ids=lambda event: type(event).__name__)
def test_the_role_is_claimed_when_the_last_is_known_whatever_that_is(last: Event) -> None:
    """Nothing else may happen afterwards that would have it looked at again."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(LeadershipLost("the session expired"))
    driver.now = Instant(driver.now + driver.options.claim_retry_s)
    driver.observe(LeadershipGained())
    driver.view.cluster.brokers = {}
    driver.sent.clear()
    for event in EVERYTHING:
        if event is not last:
            driver.observe(event)
    assert not any(isinstance(e, ClaimController) for e in driver.sent)
    driver.observe(last)
    assert any(isinstance(e, ClaimController) for e in driver.sent)


def test_no_second_claim_is_made_before_the_first_has_its_answer() -> None:
    """The answer to the first would be taken for the one to the second."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure=TenurePolicy.PERMANENT))
    driver.observe(Deposed("x"), *driver.own_records())
    record_effect(driver.view, ClaimController(), driver.now)
    driver.observe(LeadershipLost("the session expired"), LeadershipGained(), *EVERYTHING)
    driver.sent.clear()
    driver.now = Instant(driver.now + driver.options.claim_retry_s)
    driver.observe(TimerFired(CLAIM_TIMER))
    assert not claims(driver)
    driver.observe(ClaimFailed("the session ended meanwhile"))
    driver.now = Instant(driver.now + driver.options.claim_retry_s)
    driver.observe(TimerFired(CLAIM_TIMER))
    assert claims(driver)


@pytest.mark.parametrize("answer", [ControllerClaimed(ControllerEpoch(EPOCH + 1)), ClaimFailed("")])
def test_the_engine_is_chosen_again_only_after_the_answer_to_a_claim(answer: Event) -> None:
    """A delegated tenure that owns ``/controller`` would leave a controller's duties undone."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2), options=Options(engine=EngineName.AUTO))
    driver.observe(Deposed("x"), *driver.own_records())
    record_effect(driver.view, ClaimController(), driver.now)
    brokers = {b: replace(r, has_features=True) for b, r in driver.view.cluster.brokers.items()}
    driver.observe(BrokersRead(brokers))
    during = driver.view.role.engine
    driver.sent.clear()
    driver.observe(answer)
    if driver.view.tenure.held is not None:
        assert any(isinstance(e, ResignController) for e in driver.sent)
        driver.observe(Deposed("resigned"), *driver.own_records())
    assert (during, driver.view.role.engine) == (EngineName.NATIVE, EngineName.DELEGATED)


@pytest.mark.parametrize("claim", [ClaimController(), BeginTenure()])
@pytest.mark.parametrize("reported", [1, 2])
def test_a_claim_that_outlasts_the_leadership_is_given_back(claim: Effect, reported: int) -> None:
    """Another daemon may have led meanwhile, and nothing was read since."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3, 4), answers_topics=False)
    submit(driver, submission("request_0000000000", {tp(): (3, 4)}))
    driver.observe(Deposed("x"))
    driver.observe(
        SpecsRead({p: r.spec for p, r in driver.view.reassignments.by_partition.items()}, {})
    )
    record_effect(driver.view, claim, driver.now)
    lost: tuple[Event, ...] = (LeadershipLost("the session expired"), Deposed("the role too"))
    driver.observe(*lost[:reported])
    driver.observe(LeadershipGained())
    driver.sent.clear()
    driver.changes.clear()
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    assert driver.view.tenure.held is None
    assert driver.sent == [ResignController(VOID)]
    assert not driver.changes
    driver.observe(*EVERYTHING, TimerFired(CLAIM_TIMER))
    assert not claims(driver)
    driver.observe(Deposed("resigned"), *driver.own_records(), LegacyPlanRead(plan({tp(): (2, 1)})))
    driver.now = Instant(driver.now + driver.options.claim_retry_s)
    driver.observe(TimerFired(CLAIM_TIMER))
    assert claims(driver)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 3)))
    assert driver.view.tenure.held is not None


def test_a_topic_that_comes_in_the_turn_in_which_the_role_is_lost_is_read() -> None:
    """Decisions of such a turn are not carried out, and the listing is not reported again."""
    driver = Driver({tp(): (1, 2)})
    driver.fold(TopicsListed(frozenset({"t", "new"})))
    decide(driver.view, take_due(driver.view), driver.now)
    driver.observe(Deposed("the claim was gone when it was to be written"))
    assert ReadTopics(("new",)) in driver.sent


def fire(driver: Driver, at: Instant) -> bool:
    """Let a time come; return whether the role is given back then."""
    driver.now = at
    for _ in range(2):
        driver.observe(TimerFired(LINGER_TIMER))
    return any(isinstance(e, ResignController) for e in driver.sent)


def test_orphans_alone_keep_the_role_for_a_minute() -> None:
    """Their broker may never answer; the next tenure tries again."""
    driver = Driver({tp(): (1, 2)}, acknowledges=False)
    driver.view.options = Options(tenure_linger_s=0.0)
    assert driver.view.tenure.held is not None
    since = driver.view.tenure.held.since
    driver.observe(OrphansRead(frozenset({Orphan(BrokerId(3), tp(), Zxid(9), "not confirmed")})))
    assert not fire(driver, Instant(since + 59.9))
    assert fire(driver, Instant(since + 60.0))


def test_no_step_begins_while_the_role_is_being_given_back() -> None:
    """The next controller would find it begun; what is in flight already ends there as well."""
    driver = Driver({tp(): (1, 2)})
    one = BrokerId(1)
    driver.observe(UpdateMetadataAnswered(one, driver.epoch(one), STALE_CONTROLLER_EPOCH))
    assert driver.view.tenure.resigning
    submit(driver, submission("request_0000000000", {tp(): (1, 3)}))
    assert not driver.view.pacing.in_flight
    hold = hold_of(driver.view)
    assert hold is not None
    assert hold.by is BlockedBy.DRAINING


def test_a_cluster_that_turns_out_to_be_newer_gets_its_controller_back() -> None:
    """The first reason is given; leaders that ask us for their ISR would get no answer."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    brokers = {b: replace(r, has_features=True) for b, r in driver.view.cluster.brokers.items()}
    driver.observe(
        ClaimGuardsRead(BrokerId(1), True, -1, True, None),  # noqa: FBT003 - the event's fields in order
        BrokersRead(brokers),
    )
    (resigned,) = (e.reason for e in driver.sent if isinstance(e, ResignController))
    assert resigned.startswith("broker 1,2 runs inter-broker protocol 2.7 or later")


def test_a_queue_to_be_ended_needs_the_role_under_a_pause_too() -> None:
    """Nothing leaves it, but that it is empty, or has entries to refuse, is said at once."""
    driver = Driver({tp(): (1, 2)})
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    driver.fold(QueueRead(plan({tp(): (1, 3)})))
    assert not has_work(driver.view, driver.now)
    driver.fold(QueueRead(plan({}, czxid=51)))
    assert has_work(driver.view, driver.now)
    malformed = replace(plan({tp(): (1, 3)}, czxid=52), refused=(("t-0", "no replicas"),))
    driver.fold(QueueRead(malformed))
    assert has_work(driver.view, driver.now)


@pytest.mark.parametrize("is_held", [True, False])
def test_the_role_is_given_back_with_its_reason(*, is_held: bool) -> None:
    """The log shows whether work is left."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure_linger_s=1.0))
    if is_held:
        driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    submit(driver, submission("request_0000000000", {tp(): (1, 3)}))
    if not is_held:
        driver.run(tp())
    linger(driver)
    (resigned,) = {e.reason for e in driver.sent if isinstance(e, ResignController)}
    assert resigned == ("what is left is held back" if is_held else "nothing left to do")
