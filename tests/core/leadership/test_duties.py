"""The duties of a controller in tenure."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import pytest

from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.core_settings import Options, TenurePolicy
from controller.core.cycle import record_effect, take_due
from controller.core.decide import decide
from controller.core.deletions.records import DeletionsRead
from controller.core.disks.records import LogDirEventsRead
from controller.core.effects import (
    ClaimController,
    CloseChannel,
    DescribeTopicConfigs,
    OpenChannel,
    ReadPurpose,
    ReadStates,
    SendLeaderAndIsr,
    SendLiveBrokers,
    SendUpdateMetadata,
)
from controller.core.leadership.cluster_loading import inform_joined, send_reads
from controller.core.leadership.duties import leader_bounced, repair, send_leader_and_isr
from controller.core.leadership.records import (
    IsrNotificationsRead,
    LeaderAndIsrAnswered,
    LeaderAndIsrResult,
    NotificationsDeletedRecord,
    PreferredElectionRead,
    StateCreatedRecord,
    StatesRead,
)
from controller.core.model import (
    NO_LEADER,
    Blocked,
    BlockedBy,
    BrokerId,
    ControllerEpoch,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.phases import Pending, Starting
from controller.core.records import TimerFired
from controller.core.role.invalidation import invalidate, set_aside
from controller.core.role.records import BrokersRead, ControllerClaimed, Deposed
from controller.core.topics.records import TopicConfigsRead, TopicsListed, TopicsRead
from controller.core.topics.topic_configs import CONFIG_RETRY_S, UNWELL_TIMER
from controller.core.worklist import Worklist
from tests.core.builders import EPOCH, Driver, broker, replicas, requested_now, tp
from tests.core.topics.test_topic_configs import request_count, settings


def live(*ids: int, bounced: tuple[int, ...] = ()) -> BrokersRead:
    """Return the registrations of these brokers, some of them new ones."""
    brokers: dict[BrokerId, LiveBroker] = {}
    for i in ids:
        brokers[BrokerId(i)] = broker(i, 900 if i in bounced else 100)
    return BrokersRead(brokers)


def test_a_dead_leader_is_replaced_by_the_first_live_replica_in_sync() -> None:
    """Offline election takes assignment order, and the dead one leaves ISR in the same write."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    driver.observe(live(2, 3))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2, 3))
    assert len(driver.states[tp()]) == 1


def test_a_dead_follower_leaves_the_isr() -> None:
    """The leader does not have to find out by the lag."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    driver.observe(live(1, 2))
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2)


@pytest.mark.parametrize("min_isr", [1, 2])
@pytest.mark.parametrize("isr", [(1, 2, 3, 4), (1, 4)])
def test_a_stranger_leaves_the_isr(isr: tuple[int, ...], min_isr: int) -> None:
    """Kafka's controller ended a reassignment without it, for KAFKA-12315; it is no copy."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4), min_isr=min_isr)
    driver.change_isr(tp(), replicas(*isr))
    left = tuple(r for r in isr if r != 4)
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (1, left)
    assert driver.states[tp()][-1].leader_epoch == 1


def test_a_stranger_leaves_the_isr_with_whatever_else_is_written() -> None:
    """A follower died: both go in one write."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    known = driver.view.leadership.states[tp()]
    read = replace(known, isr=replicas(1, 2, 3, 4), version=ZkVersion(1))
    driver.fold(StatesRead({tp(): read}))
    driver.observe(live(1, 2, 4))
    assert [s.isr for s in driver.states[tp()]] == [replicas(1, 2)]


def test_a_leader_that_is_no_replica_hands_over_to_one_in_sync() -> None:
    """No LeaderAndIsr could bring it the new version."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4, 5), leaders={tp(): 4})
    driver.sent.clear()
    driver.change_isr(tp(), replicas(4, 5))
    driver.submit({tp(): (1, 2)})
    assert len(driver.states[tp()]) == 1
    blocked = driver.view.reassignments.by_partition[tp()].blocked
    assert blocked is not None
    assert blocked.by is BlockedBy.NO_LEADER
    driver.change_isr(tp(), replicas(4, 5, 3))
    state = driver.states[tp()][2]
    assert (state.leader, state.isr) == (3, replicas(3))
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 2))


def test_strangers_of_an_isr_without_a_leader_stay() -> None:
    """The first member of the ISR that returns has every acknowledged record."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    known = driver.view.leadership.states[tp()]
    driver.view.leadership.states[tp()] = replace(known, isr=replicas(1, 4))
    driver.observe(live(2, 3))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (NO_LEADER, replicas(1, 4))
    driver.observe(live(1, 2, 3))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (1, replicas(1))


def test_no_replica_is_a_stranger_by_a_read_from_before_the_claim() -> None:
    """The controller before us may have made it a replica since; the topic is read again first."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.observe(Deposed("idle"), *driver.own_records())
    driver.answers_topics = False
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    read = replace(driver.first_states[tp()], isr=replicas(1, 2, 3), version=ZkVersion(3))
    driver.observe(StatesRead({tp(): read}))
    assert driver.states[tp()] == []
    moved = {0: PartitionAssignment(replicas(1, 2, 3))}
    driver.observe(TopicsRead({"t": TopicAssignment(moved, ZkVersion(1), Zxid(9))}))
    assert driver.states[tp()] == []
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 3)


def test_who_is_no_replica_has_to_catch_up_where_it_is_added_again() -> None:
    """What was acknowledged since its removal it does not have."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4))
    driver.change_isr(tp(), replicas(1, 2, 3, 4))
    driver.submit({tp(): (1, 2, 4)})
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 3)


def test_when_the_whole_isr_dies_it_is_kept_without_a_leader() -> None:
    """Each member has every acknowledged record: the first that returns may lead."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.observe(live(3))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (NO_LEADER, replicas(1, 2))
    driver.observe(live(2, 3))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2))


def test_no_unclean_election_unless_the_topic_allows_it() -> None:
    """A live replica outside the ISR leads only where the topic's settings say so."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.change_isr(tp(), replicas(1))
    driver.observe(live(2, 3))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=True)}))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2))


def test_no_unclean_election_by_settings_read_before_the_partition_lost_its_leader() -> None:
    """They may have been changed since: that it has no leader is written, then they are read."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.observe(settings(unclean=True))
    driver.change_isr(tp(), replicas(1))
    driver.sent.clear()
    driver.observe(live(2, 3))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (NO_LEADER, replicas(1))
    assert request_count(driver) == 1
    driver.observe(settings(unclean=False))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER


def test_an_unclean_election_needs_two_writes() -> None:
    """The question goes out between them, and the same answer as before counts."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3), answers_configs=True)
    driver.observe(settings(unclean=True))
    driver.change_isr(tp(), replicas(1))
    driver.states[tp()].clear()
    driver.observe(live(2, 3))
    assert [(s.leader, s.isr) for s in driver.states[tp()]] == [
        (NO_LEADER, replicas(1)),
        (BrokerId(2), replicas(2)),
    ]


def test_an_answer_that_was_under_way_when_the_leader_was_lost_permits_nothing() -> None:
    """The broker may have read the settings before the operator changed them."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.change_isr(tp(), replicas(1))
    before = requested_now(driver.view, ("t",), driver.now)
    driver.observe(live(2, 3))
    permits = TopicConfig(1, unclean_leader_election=True)
    driver.observe(TopicConfigsRead({"t": permits}, before))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    driver.observe(TopicConfigsRead({"t": permits}, driver.view.topics_process.config_request))
    assert driver.view.leadership.states[tp()].leader == BrokerId(2)


def test_a_question_without_an_answer_permits_nothing() -> None:
    """It is asked again after a while, not in every turn."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.observe(settings(unclean=True))
    driver.change_isr(tp(), replicas(1))
    driver.sent.clear()
    driver.observe(live(2, 3))
    driver.observe(TopicConfigsRead({"t": "no broker answers"}))
    for _ in range(3):
        driver.observe(TimerFired(UNWELL_TIMER))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    assert request_count(driver) == 1
    driver.now = Instant(driver.now + CONFIG_RETRY_S)
    driver.observe(TimerFired(UNWELL_TIMER))
    assert request_count(driver) == 2


def test_settings_are_read_anew_when_a_replica_returns_to_a_partition_without_a_leader() -> None:
    """An operator forbids the election, then starts the broker that must not lead."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.change_isr(tp(), replicas(1))
    driver.observe(live(3))
    driver.observe(settings(unclean=True))
    driver.observe(live(2, 3))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    driver.observe(settings(unclean=False))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER


def test_settings_are_read_anew_in_the_next_tenure() -> None:
    """Another controller held the role meanwhile, for however long."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.change_isr(tp(), replicas(1))
    driver.observe(live(2, 3))
    driver.observe(settings(unclean=False))
    late = requested_now(driver.view, ("t",), driver.now)
    driver.restart()
    driver.observe(TopicConfigsRead({"t": TopicConfig(1, unclean_leader_election=True)}, late))
    assert driver.view.leadership.states[tp()].leader == NO_LEADER
    driver.observe(settings(unclean=True))
    assert driver.view.leadership.states[tp()].leader == BrokerId(2)


def test_one_question_covers_every_partition_without_a_leader() -> None:
    """Not a question for each of them."""
    topics = ("t", "u")
    driver = Driver(
        {tp(n, t): (1, 2) for t in topics for n in range(50)},
        brokers=(1, 2, 3),
        answers_configs=True,
    )
    for partition in driver.assignments:
        driver.change_isr(partition, replicas(1))
    driver.configs = dict.fromkeys(topics, TopicConfig(1, unclean_leader_election=True))
    driver.sent.clear()
    driver.observe(live(2, 3))
    questions = [e for e in driver.sent if isinstance(e, DescribeTopicConfigs)]
    assert questions == [DescribeTopicConfigs(topics)]
    assert {s.leader for s in driver.view.leadership.states.values()} == {BrokerId(2)}


def test_a_bounced_leader_is_treated_as_failed_first() -> None:
    """It restarted before its session ended: another leads, and it gets all metadata."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    driver.sent.clear()
    driver.observe(live(1, 2, bounced=(1,)))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2))
    assert CloseChannel(BrokerId(1)) in driver.sent
    assert any(isinstance(e, OpenChannel) and e.broker.id == 1 for e in driver.sent)
    assert any(isinstance(e, SendLeaderAndIsr) and 1 in e.brokers for e in driver.sent)


def test_an_added_replica_whose_broker_registers_anew_gets_a_newer_leader_epoch() -> None:
    """Its process may have noted the present epoch without a log, and ignore it."""
    driver = Driver({tp(): (1, 2), tp(1): (1, 2)}, brokers=(1, 2, 3))
    driver.submit({tp(): (1, 3)})
    added = driver.view.leadership.states[tp()]
    driver.observe(live(1, 2))
    assert driver.view.leadership.states[tp()] == added
    driver.sent.clear()
    driver.observe(live(1, 2, 3, bounced=(3,)))
    raised = driver.view.leadership.states[tp()]
    assert (raised.leader, raised.isr) == (added.leader, added.isr)
    assert raised.leader_epoch == added.leader_epoch + 1
    sent = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr)]
    assert sent[0] == SendLeaderAndIsr(tp(), replicas(1, 2, 3))
    assert not driver.states[tp(1)]
    driver.observe(BrokersRead(dict(driver.view.cluster.brokers)))
    assert driver.view.leadership.states[tp()] == raised
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(1, 3))


def test_an_added_replica_in_sync_needs_no_newer_leader_epoch() -> None:
    """Only one that bounced leaves the ISR, and that raises the epoch."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3, 4))
    driver.submit({tp(): (3, 4)})
    assignment = driver.view.topics.assignment(tp())
    assert assignment is not None
    adding = assignment.adding_replicas[0]
    known = driver.view.leadership.states[tp()]
    driver.view.reassignments.by_partition[tp()].rejoined |= {adding}
    driver.view.leadership.states[tp()] = replace(known, isr=(*known.isr, adding))
    assert repair(driver.view, tp()) is None


def claimed_again(driver: Driver) -> dict[TopicPartition, PartitionState]:
    """Claim the role again; return the states, of which none was read yet in this tenure."""
    known = dict(driver.view.leadership.states)
    driver.observe(Deposed("x"), *driver.own_records())
    driver.now = Instant(driver.now + 1.0)
    record_effect(driver.view, ClaimController(), driver.now)
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    return known


def test_a_broker_that_leads_very_many_partitions_is_welcomed_at_once() -> None:
    """A decision that takes as long as the session lives gives the role up."""
    driver = Driver({tp(n): (1, 2) for n in range(20_000)}, brokers=(1, 2))
    due = Worklist(joined={BrokerId(1)})
    began = process_time()
    reads = [e for e in inform_joined(driver.view, due).effects if isinstance(e, ReadStates)]
    assert process_time() - began < 2.0
    assert [len(e.partitions) for e in reads] == [20_000]


def test_a_bounce_before_the_state_was_read_is_treated_when_it_is_read() -> None:
    """A leader that crashed may lack what it acknowledged: another one leads."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = claimed_again(driver)
    driver.observe(live(1, 2, 3, bounced=(1,)))
    driver.observe(StatesRead(known))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2, 3))
    assert driver.view.leadership.bounced == {}


def test_a_broker_that_left_and_came_back_before_the_state_was_read_bounced() -> None:
    """Each registration was seen in a turn of its own; the state shows a live leader."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = claimed_again(driver)
    driver.observe(live(2, 3))
    driver.observe(live(1, 2, 3, bounced=(1,)))
    driver.observe(StatesRead(known))
    assert driver.view.leadership.states[tp()].leader == 2


def test_a_bounce_before_the_topic_was_read_is_treated_when_its_state_is_read() -> None:
    """The controller before us made the topic just before our claim."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    state = claimed_again(driver)[tp()]
    driver.observe(live(1, 2, 3, bounced=(1,)))
    assignments = {0: PartitionAssignment(replicas(1, 2)), 1: PartitionAssignment(replicas(2, 3))}
    driver.observe(
        TopicsListed(frozenset({"t", "new"})),
        TopicsRead({"new": TopicAssignment(assignments, ZkVersion(0), Zxid(50))}),
    )
    assert driver.view.leadership.bounced == {tp(): {1}, tp(topic="new"): {1}}
    second = replace(state, leader=BrokerId(2), isr=replicas(2, 3))
    states = {tp(topic="new"): replace(state, isr=replicas(1, 2)), tp(1, "new"): second}
    driver.observe(StatesRead(states))
    assert driver.view.leadership.states[tp(topic="new")].leader == 2
    assert driver.view.leadership.states[tp(1, "new")] == second


@pytest.mark.parametrize("reported", [1, 2])
def test_a_bounce_while_the_claim_was_under_way_is_treated_when_the_state_is_read(
    reported: int,
) -> None:
    """
    The claim may have been made before, though it is heard of later.

    Meanwhile the end of the former tenure may be reported again.
    """
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    known = dict(driver.view.leadership.states)
    driver.observe(Deposed("x"), *driver.own_records())
    record_effect(driver.view, ClaimController(), driver.now)
    for _ in range(reported - 1):
        driver.observe(Deposed("resigned"), *driver.own_records())
    driver.observe(live(1, 2, 3, bounced=(1,)))
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    driver.observe(StatesRead(known))
    assert driver.view.leadership.states[tp()].leader == 2


def test_bounces_are_forgotten_with_the_tenure() -> None:
    """Those of a known state are not kept; whether the others were treated, the states show."""
    driver = Driver({tp(): (1, 2, 3), tp(1): (2, 3)}, brokers=(1, 2, 3))
    known = claimed_again(driver)
    driver.observe(StatesRead({tp(1): known[tp(1)]}))
    driver.observe(live(1, 2, 3, bounced=(1, 2)))
    assert driver.view.leadership.bounced == {tp(): {1, 2}}
    known = {tp(): known[tp()], **claimed_again(driver)}
    assert not driver.view.leadership.bounced
    driver.observe(StatesRead(known))
    assert driver.view.leadership.states[tp()].leader == 1


def test_a_bounce_is_treated_again_where_its_write_was_refused() -> None:
    """The leader wrote the ISR in between; the state that is read again shows it alive."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    state = driver.view.leadership.states[tp()]
    driver.fold(live(1, 2, 3, bounced=(1,)))
    decision = decide(driver.view, take_due(driver.view), driver.now)
    (change,) = [c for c in decision.changes if c.partition == tp()]
    for effect in invalidate(driver.view, change):
        record_effect(driver.view, effect, driver.now)
    driver.observe(StatesRead({tp(): replace(state, version=ZkVersion(1))}))
    assert driver.view.leadership.states[tp()].leader == 2


def test_a_bounce_is_treated_again_where_its_write_was_not_permitted() -> None:
    """Nothing is read again then: the next look at the partition tries once more."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    driver.fold(live(1, 2, 3, bounced=(1,)))
    decision = decide(driver.view, take_due(driver.view), driver.now)
    (change,) = [c for c in decision.changes if c.partition == tp()]
    set_aside(driver.view, change, "/brokers", "not permitted", driver.now)
    driver.view.due.add((tp(),))
    driver.settle()
    assert driver.view.leadership.states[tp()].leader == 2


@pytest.mark.parametrize("is_race", [True, False])
def test_a_broker_that_is_back_before_a_refused_write_is_tried_again_has_failed(
    *, is_race: bool
) -> None:
    """It led alone, and was to lead no more: it leads again at a new epoch."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    driver.change_isr(tp(), replicas(1))
    state = driver.view.leadership.states[tp()]
    driver.fold(live(2))
    decision = decide(driver.view, take_due(driver.view), driver.now)
    (change,) = [c for c in decision.changes if c.partition == tp()]
    if is_race:
        for effect in invalidate(driver.view, change):
            record_effect(driver.view, effect, driver.now)
    else:
        set_aside(driver.view, change, "/brokers", "not permitted", driver.now)
    driver.observe(live(1, 2, bounced=(1,)))
    if is_race:
        driver.observe(StatesRead({tp(): state}))
    now = driver.view.leadership.states[tp()]
    assert (now.leader, now.isr, now.leader_epoch) == (BrokerId(1), replicas(1), 1)


def test_a_bounce_waits_with_a_partition_that_is_left_for_a_later_turn() -> None:
    """Its state is put in doubt before that turn comes."""
    options = Options(look_chunk=1)
    driver = Driver({tp(n): (1, 2) for n in range(3)}, brokers=(1, 2), options=options)
    driver.fold(live(2))
    take_due(driver.view)
    driver.fold(live(1, 2, bounced=(1,)))
    held = [p for p in driver.view.leadership.states if p in driver.view.due.held]
    lost = driver.view.leadership.states.pop(held[-1])
    driver.settle()
    driver.observe(StatesRead({held[-1]: lost}))
    assert driver.view.leadership.states[held[-1]].leader == 2


def test_a_leader_whose_bounce_waits_hears_nothing_because_of_a_failed_disk() -> None:
    """It may lack what it acknowledged: it is to hear of the epoch of its repair only."""
    options = Options(look_chunk=1)
    driver = Driver({tp(n): (1, 2) for n in range(3)}, brokers=(1, 2), options=options)
    driver.fold(LogDirEventsRead(("log_dir_event_0000000001",), frozenset({BrokerId(1)})))
    driver.fold(live(1, 2, bounced=(1,)))
    decision = decide(driver.view, take_due(driver.view), driver.now)
    assert driver.view.due.held
    sent = [e for e in decision.effects if isinstance(e, SendLeaderAndIsr)]
    assert sent == []


def test_a_bounced_sole_replica_leads_again_at_a_new_epoch() -> None:
    """Without a new leader epoch the broker would ignore the request."""
    driver = Driver({tp(): (1,)}, brokers=(1, 2))
    driver.observe(live(1, 2, bounced=(1,)))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr, state.leader_epoch) == (BrokerId(1), replicas(1), 1)


def test_a_broker_that_joins_gets_all_metadata_and_the_others_learn_of_it() -> None:
    """Live brokers to all first, then all metadata and its replicas to the newcomer."""
    driver = Driver({tp(0): (1, 2), tp(1): (2, 3)}, brokers=(1, 2))
    driver.sent.clear()
    driver.observe(live(1, 2, 3))
    kinds = [type(e) for e in driver.sent]
    assert kinds.index(OpenChannel) < kinds.index(SendLiveBrokers)
    sent = [e for e in driver.sent if isinstance(e, SendUpdateMetadata) and e.brokers]
    assert set(sent[0].partitions) == {tp(0), tp(1)}
    introduced = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr)]
    assert SendLeaderAndIsr(tp(1), replicas(3), ()) in introduced
    assert not any(e.partition == tp(0) and 3 in e.brokers for e in introduced)


def test_a_new_topic_gets_its_first_state() -> None:
    """The first live replica leads, all live ones are in sync; dead ones are not."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    driver.observe(TopicsListed(frozenset({"t", "new"})))
    assignment = TopicAssignment(
        {0: PartitionAssignment(replicas(3, 2, 1))}, ZkVersion(0), Zxid(70)
    )
    driver.observe(TopicsRead({"new": assignment}))
    new = tp(0, "new")
    assert ReadStates((new,), ReadPurpose.SEED) in driver.sent
    driver.observe(StatesRead({new: None}))
    state = driver.view.leadership.states[new]
    assert (state.leader, state.isr, state.leader_epoch) == (BrokerId(2), replicas(2, 1), 0)
    created = [r for c in driver.changes for r in c.records if isinstance(r, StateCreatedRecord)]
    assert len(created) == 1


@pytest.mark.parametrize("because", ["its topic is to be deleted", "no replica is live"])
def test_a_new_partition_gets_no_state_while_none_can_lead_it(because: str) -> None:
    """Kafka's controller creates none then; the state follows when the reason is gone."""
    new = TopicPartition("new", 0)
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3, 4))
    driver.submit({tp(): (1, 4)})
    if because == "no replica is live":
        driver.observe(live(1, 2, 4))
    else:
        driver.observe(DeletionsRead(frozenset({"new"})))
    topic = TopicAssignment({0: PartitionAssignment(replicas(3))}, ZkVersion(0), Zxid(20))
    driver.observe(TopicsListed(frozenset({"t", "new"})), TopicsRead({"new": topic}))
    driver.observe(StatesRead({new: None}))
    assert new not in driver.view.leadership.states
    driver.observe(DeletionsRead(frozenset()), live(1, 2, 3, 4))
    state = driver.view.leadership.states[new]
    assert (state.leader, state.isr) == (BrokerId(3), replicas(3))


def test_an_isr_notification_is_read_published_and_deleted() -> None:
    """Clients see the ISR the leader wrote."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    driver.sent.clear()
    driver.observe(IsrNotificationsRead(("isr_change_0000000001",), frozenset({tp()})))
    assert ReadStates((tp(),), ReadPurpose.REFRESH) in driver.sent
    deleted = [
        r for c in driver.changes for r in c.records if isinstance(r, NotificationsDeletedRecord)
    ]
    assert [d.names for d in deleted] == [("isr_change_0000000001",)]
    changed = PartitionState(
        BrokerId(1), LeaderEpoch(0), replicas(1), ControllerEpoch(1), ZkVersion(1)
    )
    driver.observe(StatesRead({tp(): changed}))
    assert any(isinstance(e, SendUpdateMetadata) and tp() in e.partitions for e in driver.sent)


def test_a_failed_log_directory_moves_the_leadership() -> None:
    """The event makes us ask; the storage error in the answer makes the replica offline."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    driver.sent.clear()
    driver.observe(LogDirEventsRead(("log_dir_event_0000000001",), frozenset({BrokerId(1)})))
    assert SendLeaderAndIsr(tp(), replicas(1), ()) in driver.sent
    failed = LeaderAndIsrResult(tp(), LeaderEpoch(0), 56)
    driver.observe(
        LeaderAndIsrAnswered(BrokerId(1), driver.epoch(BrokerId(1)), 0, (failed,), resent=False)
    )
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2))


def test_a_preferred_election_moves_the_leader_and_ends_the_request() -> None:
    """``/admin/preferred_replica_election`` is carried out and deleted."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2), leaders={tp(): 2})
    driver.observe(PreferredElectionRead(frozenset({tp()}), ZkVersion(0)))
    assert driver.view.leadership.states[tp()].leader == BrokerId(1)
    assert driver.view.leadership.preferred_version is None


def test_a_reassigning_partition_survives_the_death_of_its_leader() -> None:
    """The election keeps to the replicas that serve, and the reassignment ends."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3, 4, 5, 6), min_isr=2)
    driver.submit({tp(): (4, 5, 6)})
    driver.observe(live(2, 3, 4, 5, 6))
    assert driver.view.leadership.states[tp()].leader == BrokerId(2)
    driver.run(tp())
    assert driver.view.topics.assignment(tp()) == PartitionAssignment(replicas(4, 5, 6))
    assert (BrokerId(1), tp()) in driver.view.reassignments.orphans


def test_a_leader_that_restarted_is_not_sent_an_earlier_read() -> None:
    """It may have changed its ISR: with an older one it would commit without those it misses."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    topic = driver.view.topics.by_name["t"]
    topic.stale = True
    driver.answers_topics = False
    driver.sent.clear()
    driver.observe(live(1, 2, bounced=(1,)))
    sent = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr) and BrokerId(1) in e.brokers]
    assert sent == []
    reads = [e for e in driver.sent if isinstance(e, ReadStates) and tp() in e.partitions]
    assert reads
    changed = replace(driver.view.leadership.states[tp()], isr=replicas(1), version=ZkVersion(1))
    driver.observe(StatesRead({tp(): changed}))
    assert not any(isinstance(e, SendLeaderAndIsr) for e in driver.sent)
    driver.observe(TopicsRead({"t": TopicAssignment(topic.partitions, topic.version, topic.czxid)}))
    assert SendLeaderAndIsr(tp(), replicas(1, 2), ()) in driver.sent


def test_replicas_that_may_be_former_ones_are_not_sent() -> None:
    """A leader takes a replica of its LeaderAndIsr into the ISR again, once it is in sync."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    topic = driver.view.topics.by_name["t"]
    topic.stale = True
    driver.answers_topics = False
    driver.sent.clear()
    moved = replace(driver.view.leadership.states[tp()], isr=replicas(1, 3), version=ZkVersion(1))
    driver.view.leadership.unseeded[tp()] = None
    driver.observe(StatesRead({tp(): moved}))
    assert not any(isinstance(e, SendLeaderAndIsr) for e in driver.sent)
    now = {0: PartitionAssignment(replicas(1, 3))}
    version = ZkVersion(topic.version + 1)
    driver.observe(TopicsRead({"t": TopicAssignment(now, version, topic.czxid)}))
    sent = [e.brokers for e in driver.sent if isinstance(e, SendLeaderAndIsr)]
    assert replicas(1, 3) in sent


def test_a_stale_topic_is_sent_as_read_after_its_leader_restarted() -> None:
    """The topic is known again before the state is; then the restart counts as a failure."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    driver.change_isr(tp(), replicas(1))
    topic = driver.view.topics.by_name["t"]
    topic.stale = True
    driver.answers_topics = False
    driver.sent.clear()
    driver.observe(live(1, 2, bounced=(1,)))
    again = TopicAssignment(dict(topic.partitions), topic.version, topic.czxid)
    driver.observe(TopicsRead({"t": again}))
    sent = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr) and BrokerId(1) in e.brokers]
    assert sent == []
    known = driver.view.leadership.states[tp()]
    version = ZkVersion(known.version + 1)
    driver.observe(StatesRead({tp(): replace(known, isr=replicas(1, 2), version=version)}))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2))


def test_a_restart_in_doubt_does_not_count_twice() -> None:
    """Back in sync it stays: its restart was seen to."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    topic = driver.view.topics.by_name["t"]
    topic.stale = True
    driver.answers_topics = False
    driver.observe(live(1, 2, bounced=(2,)))
    again = TopicAssignment(dict(topic.partitions), topic.version, topic.czxid)
    driver.observe(TopicsRead({"t": again}))
    assert driver.view.leadership.states[tp()].isr == replicas(1)
    driver.catch_up(tp())
    topic.stale = True
    driver.observe(TopicsRead({"t": again}))
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2)


def test_an_unclean_election_takes_a_full_replica_before_one_that_is_being_added() -> None:
    """That one comes first in the assignment, and may hold nothing yet."""
    driver = Driver(
        {tp(): (1, 2)}, brokers=(1, 2, 3), options=Options(step_size=None), answers_configs=True
    )
    driver.observe(settings(unclean=True))
    driver.submit({tp(): (3, 1)})
    driver.change_isr(tp(), replicas(1))
    driver.observe(live(2, 3))
    assert driver.view.leadership.states[tp()].leader == BrokerId(2)


def test_no_leader_is_elected_for_a_topic_that_is_being_deleted() -> None:
    """As with Kafka's controller, which stops its replicas instead."""
    driver = Driver({tp(): (1, 2), tp(0, "u"): (1, 2)}, brokers=(1, 2, 3))
    driver.fold(DeletionsRead(frozenset({"t"})))
    driver.view.deletions_process.yielded = frozenset({"t"})
    driver.submit({tp(0, "u"): (1, 3)})
    driver.observe(live(2, 3))
    assert driver.view.leadership.states[tp(0, "u")].leader == BrokerId(2)
    assert driver.view.leadership.states[tp()] == driver.first_states[tp()]


def test_a_bounce_is_treated_once_the_deletion_of_the_topic_is_taken_back() -> None:
    """The leader restarted, and no other was elected while its topic was to be deleted."""
    driver = Driver({tp(): (1, 2), tp(0, "u"): (3, 2)}, brokers=(1, 2, 3))
    driver.view.deletions_process.yielded = frozenset({"t"})
    driver.view.deletions.being_deleted = frozenset({"t"})
    driver.submit({tp(0, "u"): (3, 1)})
    driver.observe(DeletionsRead(frozenset({"t"})))
    driver.observe(live(1, 2, 3, bounced=(1,)))
    driver.observe(StatesRead({tp(): driver.first_states[tp()]}))
    assert driver.view.leadership.states[tp()] == driver.first_states[tp()]
    driver.observe(DeletionsRead(frozenset()))
    assert driver.view.leadership.states[tp()].leader == BrokerId(2)


def test_a_follower_that_bounced_is_treated_though_the_topic_is_to_be_deleted() -> None:
    """Its leader leads on, and a later write of the state would say that it is in sync."""
    driver = Driver({tp(): (1, 2), tp(0, "u"): (3, 2)}, brokers=(1, 2, 3, 4))
    driver.submit({tp(0, "u"): (3, 4)})
    driver.observe(DeletionsRead(frozenset({"t"})))
    driver.observe(live(1, 2, 3, 4, bounced=(2,)))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(1), replicas(1))


def test_a_leader_is_elected_once_a_deletion_that_was_requested_in_the_tenure_is_revoked() -> None:
    """An operator deletes its znode; no other event concerns the partition."""
    driver = Driver({tp(): (1, 2), tp(0, "u"): (3, 2)}, brokers=(1, 2, 3, 4))
    driver.submit({tp(0, "u"): (3, 4)})
    driver.observe(DeletionsRead(frozenset({"t"})))
    driver.observe(live(2, 3, 4))
    assert driver.view.leadership.states[tp()] == driver.first_states[tp()]
    driver.observe(DeletionsRead(frozenset()))
    state = driver.view.leadership.states[tp()]
    assert (state.leader, state.isr) == (BrokerId(2), replicas(2))


def test_a_step_in_flight_gets_its_leader_though_its_topic_is_to_be_deleted() -> None:
    """The deletion waits for the role, and the role for the end of the step."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3))
    driver.submit({tp(): (1, 3)})
    assert driver.view.reassignments.by_partition[tp()].in_flight
    driver.observe(DeletionsRead(frozenset({"t"})))
    driver.observe(live(2, 3))
    assert driver.view.leadership.states[tp()].leader == BrokerId(2)


def test_an_unacknowledged_state_is_sent_again_during_other_waits() -> None:
    """A write that is refused meanwhile is no reason to leave it with the former ISR."""
    driver = Driver({tp(): (0, 1, 2)}, acknowledges=False)
    driver.submit({tp(): (0, 1)})
    moved = driver.view.reassignments.by_partition[tp()]
    assert isinstance(moved.phase, Starting)
    moved.wait(Blocked(BlockedBy.WRITE_REFUSED, "no_auth"), driver.now)
    for passed, is_sent in ((29.0, False), (2.0, True)):
        driver.sent.clear()
        driver.now = Instant(driver.now + passed)
        driver.observe(TimerFired("leader_acknowledgement"))
        sent = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr)]
        assert bool(sent) == is_sent


@pytest.mark.parametrize(("yielded", "leader"), [("", 1), ("t", 2)])
def test_what_waits_gets_a_leader_once_the_deletion_had_its_time(yielded: str, leader: int) -> None:
    """Before that it can wait for the deletion; then the role is kept until it has ended."""
    driver = Driver(
        {tp(): (1, 2), tp(0, "u"): (3, 2)},
        brokers=(1, 2, 3),
        options=Options(max_partitions_in_flight=1),
    )
    driver.submit({tp(0, "u"): (3, 1), tp(): (1, 3)})
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Pending)
    driver.view.deletions_process.yielded = frozenset({yielded})
    driver.observe(DeletionsRead(frozenset({"t"})))
    driver.observe(live(2, 3))
    assert driver.view.leadership.states[tp()].leader == BrokerId(leader)


def test_a_broker_that_restarts_while_it_is_added_is_not_new_to_the_partition() -> None:
    """It may have its log on a disk that failed, and be in the ISR by now: so it says."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2, 3), options=Options(step_size=None))
    driver.submit({tp(): (2, 3)})
    assert SendLeaderAndIsr(tp(), replicas(2, 3, 1), replicas(3)) in driver.sent
    driver.sent.clear()
    driver.observe(live(1, 2, 3, bounced=(3,)))
    sent = [e for e in driver.sent if isinstance(e, SendLeaderAndIsr) and 3 in e.brokers]
    assert sent
    assert all(not e.new for e in sent)


def test_a_broker_with_another_endpoint_gets_all_metadata_there() -> None:
    """Its registration stays, and it was not away: no other replica is elected."""
    driver = Driver({tp(): (1, 2)}, brokers=(1, 2))
    moved = replace(broker(2), endpoints=(Endpoint("PLAINTEXT", "elsewhere", 1, "PLAINTEXT"),))
    driver.sent.clear()
    driver.observe(BrokersRead({BrokerId(1): broker(1), BrokerId(2): moved}))
    channels = [e for e in driver.sent if isinstance(e, OpenChannel | CloseChannel)]
    assert channels == [CloseChannel(BrokerId(2)), OpenChannel(moved)]
    assert SendLeaderAndIsr(tp(), replicas(2), ()) in driver.sent
    assert driver.view.leadership.states[tp()] == driver.first_states[tp()]


def test_a_new_partition_of_a_topic_to_be_deleted_gets_no_state() -> None:
    """Kafka's controller would have to take it offline again."""
    driver = Driver({tp(): (1, 2)}, options=Options(tenure=TenurePolicy.PERMANENT))
    assignment = TopicAssignment({0: PartitionAssignment(replicas(2, 1))}, ZkVersion(0), Zxid(70))
    driver.observe(DeletionsRead(frozenset({"new"})), TopicsListed(frozenset({"t", "new"})))
    driver.observe(TopicsRead({"new": assignment}), StatesRead({tp(0, "new"): None}))
    assert tp(0, "new") not in driver.view.leadership.states


@pytest.mark.parametrize(
    "noted", ["bounced", "before the state was read", "held for a later turn", "refused before"]
)
def test_a_leader_that_bounced_is_not_sent_the_state_that_was_read(noted: str) -> None:
    """It is to hear of the epoch of the repair only, whenever that is written."""
    driver = Driver({tp(): (1, 2)})
    view, due = driver.view, Worklist(seeded={tp(): None})
    sent = [e for e in send_reads(view, due).effects if isinstance(e, SendLeaderAndIsr)]
    assert [e.brokers for e in sent] == [(1, 2)]
    bounced = {BrokerId(1)}
    match noted:
        case "bounced":
            due.bounced = bounced
        case "before the state was read":
            due.bounced_from[tp()] = bounced
        case "held for a later turn":
            view.due.held[tp()] = frozenset(bounced)
        case _:
            view.leadership.bounced[tp()] = bounced
    assert not [e for e in send_reads(view, due).effects if isinstance(e, SendLeaderAndIsr)]


def test_replicas_that_may_have_changed_are_sent_to_no_broker() -> None:
    """A leader that gets former replicas takes them into the ISR again."""
    view = Driver({tp(): (1, 2)}).view
    assert send_leader_and_isr(view, tp(), replicas(1, 2)) == (
        SendLeaderAndIsr(tp(), replicas(1, 2)),
    )
    assert send_leader_and_isr(view, tp(), ()) == ()
    view.topics.by_name["t"].invalidate(view.role.read_generation + 1)
    assert send_leader_and_isr(view, tp(), replicas(1, 2)) == ()


def test_a_partition_without_a_known_state_has_no_leader_that_restarted() -> None:
    """Its first read is sent to the replicas when it is known."""
    driver = Driver({tp(): (1, 2)})
    due = Worklist(bounced={BrokerId(1)})
    assert leader_bounced(driver.view, due, tp())
    assert not leader_bounced(driver.view, Worklist(bounced={BrokerId(2)}), tp())
    driver.view.leadership.states.clear()
    assert not leader_bounced(driver.view, due, tp())
