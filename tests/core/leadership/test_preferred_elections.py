"""Preferred elections: none is lost, and none is held where nothing can be elected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import Options, TenurePolicy
from controller.core.cycle import record_effect, take_due
from controller.core.decide import decide
from controller.core.deletions.records import DeletionsRead
from controller.core.effects import ElectPreferred, SetTimer
from controller.core.leadership.preferred_elections import BALANCE_TIMER
from controller.core.leadership.records import (
    PreferredElectionEndedRecord,
    PreferredElectionRead,
    PreferredTriedRecord,
    StateRecord,
    StatesRead,
)
from controller.core.model import BrokerId, Instant, TopicPartition, ZkVersion
from controller.core.records import Change, Event, TimerFired
from controller.core.requests.records import LegacyPlanRead, SubmissionsListed, SubmissionsRead
from controller.core.role.claims_and_resignations import has_work
from controller.core.role.invalidation import invalidate, set_aside
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicsListed
from controller.core.wakeups import PREFERRED_TIMER
from tests.core.builders import Driver, plan, tp
from tests.core.leadership.test_duties import live
from tests.core.reassignments.delegated_rigs import delegated
from tests.core.requests.test_submitted import submission, submit

REQUESTED = PreferredElectionRead(frozenset({tp()}), ZkVersion(3))


def led_by_two(count: int = 1, **options: object) -> Driver:
    """Return a cluster in which the second replica leads each partition."""
    partitions = [tp(n) for n in range(count)]
    return Driver(
        dict.fromkeys(partitions, (1, 2, 3)),
        brokers=(1, 2, 3),
        leaders=dict.fromkeys(partitions, 2),
        options=Options(**options),  # type: ignore[arg-type]
    )


def election(driver: Driver, *events: Event) -> Change:
    """Return the change that elects the preferred leader, which is not written."""
    for event in events:
        driver.fold(event)
    decision = decide(driver.view, take_due(driver.view), driver.now)
    (change,) = [c for c in decision.changes if any(isinstance(r, StateRecord) for r in c.records)]
    return change


def lost_race(driver: Driver, change: Change) -> None:
    """Have a write refused that the leader was faster with."""
    for effect in invalidate(driver.view, change):
        record_effect(driver.view, effect, driver.now)


def pass_time(driver: Driver, seconds: float = 1.0) -> None:
    """Let the time come at which elections are looked at again."""
    driver.now = Instant(driver.now + seconds)
    driver.observe(TimerFired(PREFERRED_TIMER))


def is_ended(driver: Driver) -> bool:
    """Whether ``/admin/preferred_replica_election`` was deleted."""
    records = [r for c in driver.changes for r in c.records]
    return PreferredElectionEndedRecord(ZkVersion(3)) in records


def test_an_election_that_lost_a_race_is_held_when_the_state_is_read() -> None:
    """The request is not deleted before the preferred leader leads."""
    driver = led_by_two()
    state = driver.view.leadership.states[tp()]
    lost_race(driver, election(driver, REQUESTED))
    driver.settle()
    pass_time(driver)
    assert (list(driver.view.leadership.preferred), is_ended(driver)) == ([tp()], False)
    assert has_work(driver.view, driver.now)
    driver.observe(StatesRead({tp(): replace(state, version=ZkVersion(1))}))
    pass_time(driver)
    assert driver.view.leadership.states[tp()].leader == 1
    pass_time(driver)
    assert is_ended(driver)


def test_the_end_of_an_election_is_written_with_it() -> None:
    """There is no instant at which one of both is durable."""
    change = election(led_by_two(), REQUESTED)
    assert [r.partitions for r in change.records if isinstance(r, PreferredTriedRecord)] == [
        (tp(),)
    ]


def test_an_election_that_was_not_written_is_decided_anew_a_second_later() -> None:
    """It waited for its topic to be read again, say; nothing else has it looked at."""
    driver = led_by_two()
    election(driver, REQUESTED)
    pass_time(driver)
    assert driver.view.leadership.states[tp()].leader == 1


def test_what_we_wish_ourselves_is_not_lost_either() -> None:
    """After a reassignment the first replica of the target is to lead."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    driver.now = Instant(driver.now + 1.0)
    wanted = submission("request_0000000000", {tp(): (2, 1, 3)})
    driver.fold(SubmissionsListed(frozenset({wanted.name})))
    driver.fold(SubmissionsRead({wanted.name: wanted}))
    for _ in range(10):
        decision = decide(driver.view, take_due(driver.view), driver.now)
        elected = [
            c for c in decision.changes if PreferredTriedRecord((tp(),), driver.now) in c.records
        ]
        for change in decision.changes:
            if change not in elected:
                driver.commit(change)
        for effect in (e for c in decision.changes for e in c.effects):
            driver.answer(effect)
        if elected:
            break
    state = driver.view.leadership.states[tp()]
    (change,) = elected
    lost_race(driver, change)
    driver.observe(StatesRead({tp(): replace(state, version=ZkVersion(1))}))
    pass_time(driver)
    assert driver.view.leadership.states[tp()].leader == 2


def test_an_election_that_is_not_permitted_is_left_to_the_next_controller() -> None:
    """The role is not held for it, and the request stays where that controller finds it."""
    driver = led_by_two()
    change = election(driver, REQUESTED)
    set_aside(driver.view, change, "/brokers", "not permitted", driver.now)
    driver.settle()
    pass_time(driver)
    assert not has_work(driver.view, driver.now)
    assert not is_ended(driver)


def test_a_topic_that_is_to_be_deleted_gets_no_preferred_leader() -> None:
    """As with Kafka's controller; the request ends."""
    driver = led_by_two(tenure=TenurePolicy.PERMANENT)
    driver.observe(DeletionsRead(frozenset({"t"})), REQUESTED)
    pass_time(driver)
    assert driver.states[tp()] == []
    assert is_ended(driver)


@pytest.mark.parametrize(
    ("way", "is_elected"), [("execute", True), ("stock", False), ("legacy", False)]
)
def test_where_only_the_order_changes_kafkas_ways_elect_nobody(
    way: str, *, is_elected: bool
) -> None:
    """As with Kafka's controller; those who use them hold an election afterwards."""
    driver = Driver({tp(): (1, 2, 3)})
    if way == "legacy":
        driver.observe(LegacyPlanRead(plan({tp(): (2, 1, 3)})))
    else:
        wanted = submission("request_0000000000", {tp(): (2, 1, 3)}, keep_leaders=way == "stock")
        submit(driver, wanted)
    assert driver.view.topics.by_name["t"].partitions[0].replicas == (2, 1, 3)
    pass_time(driver)
    assert driver.view.leadership.states[tp()].leader == (2 if is_elected else 1)


def test_leaders_that_are_kept_are_elected_where_replicas_change() -> None:
    """The leadership goes to the first of the target, whoever asked."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    submit(driver, submission("request_0000000000", {tp(): (4, 1, 2)}, keep_leaders=True))
    driver.run(tp())
    pass_time(driver)
    assert driver.view.leadership.states[tp()].leader == 4


def test_nor_is_one_requested_of_the_controller_where_that_is_another() -> None:
    """It would refuse."""
    driver = Driver({tp(): (1, 2, 3)}, options=delegated())
    driver.view.leadership.preferred[tp()] = None
    driver.view.due.elections = True
    driver.observe(DeletionsRead(frozenset({"t"})))
    assert not driver.view.leadership.preferred
    assert not any(isinstance(e, ElectPreferred) for e in driver.sent)


@pytest.mark.parametrize("partition", [tp(7), TopicPartition("nowhere", 0)])
def test_what_does_not_exist_does_not_hold_the_request_up(partition: TopicPartition) -> None:
    """Nothing will ever be elected there."""
    driver = led_by_two()
    driver.observe(PreferredElectionRead(frozenset({partition}), ZkVersion(3)))
    pass_time(driver)
    assert is_ended(driver)


def test_a_state_that_cannot_be_read_does_not_hold_the_request_up() -> None:
    """It was read, and there is nothing to compare and set."""
    driver = led_by_two()
    del driver.view.leadership.states[tp()]
    driver.observe(StatesRead({tp(): "no JSON"}), REQUESTED)
    pass_time(driver)
    assert is_ended(driver)


def test_a_partition_of_a_topic_that_is_not_read_yet_is_waited_for() -> None:
    """It was made just before the election was asked for."""
    driver = led_by_two()
    new = TopicPartition("new", 0)
    driver.answers_topics = False
    driver.observe(TopicsListed(frozenset({"t", "new"})))
    driver.observe(PreferredElectionRead(frozenset({new}), ZkVersion(3)))
    pass_time(driver)
    assert not is_ended(driver)
    driver.observe(TopicsListed(frozenset({"t"})))
    pass_time(driver)
    assert is_ended(driver)


def test_a_broker_gains_no_more_leaderships_in_a_second_than_the_limit_says() -> None:
    """Elections and steps share it."""
    driver = led_by_two(3, max_leader_moves_per_broker_per_second=2)
    driver.observe(PreferredElectionRead(frozenset(tp(n) for n in range(3)), ZkVersion(3)))
    leaders = [driver.view.leadership.states[tp(n)].leader for n in range(3)]
    assert leaders == [BrokerId(1), BrokerId(1), BrokerId(2)]
    assert driver.view.leadership.leader_moves[BrokerId(1)][1] == 2
    pass_time(driver)
    assert driver.view.leadership.states[tp(2)].leader == 1


def test_elections_keep_to_their_rate() -> None:
    """Each makes clients look for their leader again."""
    driver = led_by_two(3, preferred_elections_per_second=1)

    def elected() -> int:
        return sum(driver.view.leadership.states[tp(n)].leader == 1 for n in range(3))

    driver.observe(PreferredElectionRead(frozenset(tp(n) for n in range(3)), ZkVersion(3)))
    assert elected() == 1
    pass_time(driver, 0.9)
    assert elected() == 1
    pass_time(driver, 0.2)
    assert elected() == 2


def test_elections_by_the_controller_keep_to_their_rate_and_are_all_requested() -> None:
    """Nothing else has them looked at again but the time."""
    options = replace(delegated(), preferred_elections_per_second=1)
    driver = Driver({tp(n): (1, 2, 3) for n in range(2)}, options=options)
    driver.view.leadership.preferred = {tp(n): None for n in range(2)}
    driver.view.due.elections = True
    driver.settle()
    assert [e.partitions for e in driver.sent if isinstance(e, ElectPreferred)] == [(tp(0),)]
    assert SetTimer(PREFERRED_TIMER, Instant(driver.now + 1.0)) in driver.sent
    pass_time(driver)
    requested = [e.partitions for e in driver.sent if isinstance(e, ElectPreferred)]
    assert requested == [(tp(0),), (tp(1),)]


def test_a_partition_whose_state_is_not_read_yet_is_waited_for() -> None:
    """It is still in question who leads it."""
    driver = led_by_two()
    state = driver.view.leadership.states.pop(tp())
    driver.view.leadership.unseeded[tp()] = None
    driver.observe(REQUESTED)
    assert SetTimer(PREFERRED_TIMER, Instant(driver.now + 1.0)) in driver.sent
    pass_time(driver)
    assert not is_ended(driver)
    driver.observe(StatesRead({tp(): state}))
    pass_time(driver)
    assert driver.view.leadership.states[tp()].leader == 1


# --- the balance of leaderships ------------------------------------------------------------------


def balancing(**options: object) -> Driver:
    """Return ten partitions that prefer broker 1, two of which broker 2 leads, and one of 3's."""
    partitions = {tp(n): (1, 2, 3) for n in range(10)} | {tp(10): (3, 1, 2)}
    return Driver(
        partitions,
        brokers=(1, 2, 3, 4),
        leaders={tp(0): 2, tp(1): 2},
        options=Options(
            tenure=TenurePolicy.PERMANENT,
            **{"auto_leader_rebalance": True, **options},  # type: ignore[arg-type]
        ),
    )


def after_an_interval(driver: Driver) -> list[int]:
    """Return who leads the first three partitions an interval later."""
    driver.now = Instant(driver.now + driver.view.options.leader_imbalance_check_interval_s)
    driver.observe(TimerFired(BALANCE_TIMER))
    return [int(driver.view.leadership.states[tp(n)].leader) for n in range(3)]


def test_preferred_leaders_are_elected_of_a_broker_that_leads_too_few_of_its_partitions() -> None:
    """The first check comes an interval after the claim."""
    driver = balancing()
    (timer,) = [e for e in driver.sent if isinstance(e, SetTimer) and e.name == BALANCE_TIMER]
    assert timer.at == driver.now + 300.0
    driver.observe(TimerFired("anything"))
    assert driver.view.leadership.states[tp(0)].leader == 2
    assert after_an_interval(driver) == [1, 1, 1]


@pytest.mark.parametrize(
    "options",
    [{"auto_leader_rebalance": False}, {"leader_imbalance_per_broker_percentage": 20}],
    ids=["not asked for", "no more than the percentage"],
)
def test_without_need_no_leadership_moves(options: dict[str, object]) -> None:
    """Two of ten are twenty percent, not more."""
    assert after_an_interval(balancing(**options)) == [2, 2, 1]


def test_what_is_reassigned_or_to_be_deleted_or_out_of_sync_is_not_balanced() -> None:
    """All of broker 1's partitions count; only the rest of them moves."""
    driver = balancing()
    driver.change_isr(tp(0), (BrokerId(2), BrokerId(3)))
    driver.submit({tp(1): (1, 2, 4)})
    assert tp(1) in driver.view.reassignments.by_partition
    assert after_an_interval(driver) == [2, 2, 1]
    driver = balancing()
    driver.observe(DeletionsRead(frozenset({"t"})))
    assert after_an_interval(driver) == [2, 2, 1]


def test_a_broker_that_is_away_gets_no_leadership_back() -> None:
    """The others lead for it until it is in sync again."""
    driver = balancing()
    brokers = {b: live for b, live in driver.view.cluster.brokers.items() if b != 1}
    driver.observe(BrokersRead(brokers))
    assert after_an_interval(driver) == [2, 2, 2]


def test_the_balance_is_checked_once_an_interval() -> None:
    """Elections in between are up to the operator."""
    driver = balancing()
    assert after_an_interval(driver) == [1, 1, 1]
    checked = driver.view.leadership_process.balanced_at
    driver.now = Instant(driver.now + 10.0)
    driver.observe(TimerFired(BALANCE_TIMER))
    assert driver.view.leadership_process.balanced_at == checked


def test_partitions_of_a_topic_that_is_to_be_deleted_do_not_count_for_the_balance() -> None:
    """Two of ten are twenty percent, not more, whoever leads a topic that is about to go."""
    partitions = {tp(n): (1, 2, 3) for n in range(10)} | {tp(n, "u"): (1, 2) for n in range(5)}
    driver = Driver(
        partitions,
        brokers=(1, 2, 3),
        leaders={tp(0): 2, tp(1): 2, **{tp(n, "u"): 2 for n in range(5)}},
        options=Options(
            tenure=TenurePolicy.PERMANENT,
            auto_leader_rebalance=True,
            leader_imbalance_per_broker_percentage=20,
        ),
    )
    driver.observe(DeletionsRead(frozenset({"u"})))
    assert after_an_interval(driver) == [2, 2, 1]
    driver.observe(DeletionsRead(frozenset()))
    assert after_an_interval(driver) == [1, 1, 1]


def test_no_preferred_leader_is_elected_before_its_bounce_is_handled() -> None:
    """It may have lost its log; it leaves the ISR first, and the election finds no candidate."""
    driver = Driver({tp(): (2, 1)}, leaders={tp(): 1})
    driver.view.leadership.bounced[tp()] = {BrokerId(2)}
    driver.view.leadership.seeding.add(tp())
    driver.observe(REQUESTED)
    assert driver.view.leadership.states[tp()].leader == 1
    assert driver.view.leadership.preferred
    driver.view.leadership.seeding.clear()
    driver.view.due.add((tp(),))
    driver.settle()
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (1, (1,))


def test_a_replica_whose_bounce_waits_is_not_elected() -> None:
    """It may lack what was acknowledged, and is in the ISR until a later cycle repairs that."""
    driver = led_by_two(3, look_chunk=1)
    driver.fold(PreferredElectionRead(frozenset(map(tp, range(3))), ZkVersion(3)))
    driver.fold(live(1, 2, 3, bounced=(1,)))
    decision = decide(driver.view, take_due(driver.view), driver.now)
    held = {p for p in driver.view.leadership.states if driver.view.due.held.get(p)}
    assert held
    written = [r for c in decision.changes for r in c.records if isinstance(r, StateRecord)]
    assert [r for r in written if r.partition in held] == []
