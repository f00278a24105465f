"""ISR changes of leaders are written as they ask, and refused only where that is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller import kafka_errors
from controller.core.calls import broker_requests
from controller.core.calls.broker_requests import (
    AlterPartition,
    AlterPartitionAnswer,
    ControlledShutdown,
    IsrChange,
    IsrResult,
    RequestFromBroker,
)
from controller.core.calls.records import BrokerRequestReceived
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.core_settings import EngineName, Options
from controller.core.cycle import apply
from controller.core.deletions.model import TopicDeletion
from controller.core.effects import ReadPurpose, ReadStates, Respond, SendUpdateMetadata
from controller.core.leadership.leader_selection import state_record
from controller.core.leadership.records import (
    IsrRecord,
    PreferredElectionRead,
    StateCreatedRecord,
    StateRecord,
    StatesRead,
)
from controller.core.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    PartitionState,
    Replicas,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.records import Change, TimerFired
from controller.core.role.invalidation import invalidate
from controller.core.role.records import BrokersRead, Deposed
from controller.core.topics.records import TopicsRead
from controller.core.wakeups import PENDING_REQUESTS_TIMER
from tests.core.builders import EPOCH, Driver, broker, replicas, tp

LEADER = BrokerId(1)
ENDPOINT = LiveBroker(BrokerId(1000), BrokerEpoch(0), (Endpoint("BROKERS", "h", 1, "PLAINTEXT"),))
BEFORE_REGISTRATIONS = Zxid(50)
AFTER_REGISTRATIONS = Zxid(200)


def change(
    isr: Replicas, *, epoch: int = 0, version: int = 0, partition: int = 0, topic: str | None = "t"
) -> IsrChange:
    """Return what a leader asks for one partition."""
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ" if topic is None else None
    return IsrChange(topic, topic_id, partition, LeaderEpoch(epoch), isr, 0, ZkVersion(version))


def alter_partition(*changes: IsrChange, version: int = 1, by: int = 1) -> AlterPartition:
    """Return the request of a leader."""
    return AlterPartition(BrokerId(by), broker(by).epoch, version, changes)


def answers(driver: Driver, ticket: int = 1) -> list[Respond]:
    """Return the answers to a ticket."""
    return [e for e in driver.sent if isinstance(e, Respond) and e.ticket == ticket]


def send(driver: Driver, request: RequestFromBroker, ticket: int = 1) -> None:
    """Let a broker ask."""
    driver.observe(BrokerRequestReceived(ticket, request, driver.permission))


def results(driver: Driver, ticket: int = 1) -> tuple[IsrResult, ...]:
    """Return the partitions of the only answer to a ticket."""
    (sent,) = answers(driver, ticket)
    assert isinstance(sent.response, AlterPartitionAnswer)
    assert sent.response.error == 0
    return sent.response.results


def error(driver: Driver) -> int:
    """Return the error of the only answer about the only partition."""
    (found,) = results(driver)
    return found.error


def with_two_listeners(broker_id: BrokerId) -> LiveBroker:
    """Return a registration with a listener for brokers and one for clients."""
    known = broker(broker_id)
    for_brokers = Endpoint("BROKERS", "localhost", 9100 + broker_id, "PLAINTEXT")
    return replace(known, endpoints=(*known.endpoints, for_brokers))


def pass_time(driver: Driver, seconds: float) -> None:
    """Let the timer of the waiting requests fire."""
    driver.now = Instant(driver.now + seconds)
    driver.observe(TimerFired(PENDING_REQUESTS_TIMER))


def test_change_is_durable_before_it_is_answered_and_announced() -> None:
    """Leader and epochs stay; the answer has the new version."""
    driver = Driver({tp(): (1, 2, 3)})
    before = driver.view.leadership.states[tp()]
    send(driver, alter_partition(change(replicas(1, 2))))
    after = driver.view.leadership.states[tp()]
    assert after == replace(before, isr=replicas(1, 2), version=ZkVersion(1))
    assert results(driver) == (
        IsrResult(
            "t",
            None,
            0,
            kafka_errors.NONE,
            LEADER,
            before.leader_epoch,
            replicas(1, 2),
            0,
            ZkVersion(1),
        ),
    )
    assert SendUpdateMetadata((tp(),)) in driver.sent
    assert not driver.view.calls.pending_broker_requests


def test_repeated_request_is_answered_with_what_is_durable() -> None:
    """The first answer was lost; nothing is written again."""
    driver = Driver({tp(): (1, 2, 3)})
    send(driver, alter_partition(change(replicas(1, 2))))
    send(driver, alter_partition(change(replicas(2, 1))), ticket=2)
    assert [f.error for f in results(driver, 2)] == [kafka_errors.NONE]
    assert sum(isinstance(r, IsrRecord) for c in driver.changes for r in c.records) == 1


def test_all_partitions_of_a_request_are_answered_together() -> None:
    """With their own results."""
    driver = Driver({tp(n): (1, 2, 3) for n in range(3)})
    changes = [
        change(replicas(1, 2)),
        change(replicas(1, 2), partition=1, epoch=-1),
        change(replicas(1), partition=2),
    ]
    send(driver, alter_partition(*changes))
    assert [(f.partition, f.error) for f in results(driver)] == [
        (0, kafka_errors.NONE),
        (1, kafka_errors.FENCED_LEADER_EPOCH),
        (2, kafka_errors.NONE),
    ]


def test_request_of_an_earlier_epoch_is_fenced() -> None:
    """It may add a replica that is being dropped."""
    driver = Driver({tp(): (1, 2, 3)})
    send(driver, alter_partition(change(replicas(1, 2), epoch=-1)))
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH


def test_request_of_a_broker_that_does_not_lead_is_fenced() -> None:
    """Only the leader knows who is in sync."""
    driver = Driver({tp(): (1, 2, 3)})
    send(driver, alter_partition(change(replicas(1, 2)), by=2))
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH


def test_request_of_an_earlier_version_is_refused() -> None:
    """It was decided on another ISR."""
    driver = Driver({tp(): (1, 2, 3)})
    send(driver, alter_partition(change(replicas(1, 2), version=-1)))
    assert error(driver) == kafka_errors.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("member", [9, 4], ids=["dead", "not a replica"])
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, kafka_errors.FENCED_LEADER_EPOCH),
        (1, kafka_errors.OPERATION_NOT_ATTEMPTED),
        (2, kafka_errors.INELIGIBLE_REPLICA),
        (3, kafka_errors.INELIGIBLE_REPLICA),
    ],
)
def test_member_that_cannot_be_in_sync_is_refused_where_leaders_know_the_error(
    member: int, version: int, expected: int
) -> None:
    """The others get the next leader epoch: written, it would be in sync where it is back empty."""
    driver = Driver({tp(): (1, 2, 9)}, brokers=(1, 2, 3, 4))
    send(
        driver,
        alter_partition(change((LEADER, BrokerId(2), BrokerId(member)), epoch=99), version=version),
    )
    assert not answers(driver)
    driver = Driver({tp(): (1, 2, 3, 9)}, brokers=(1, 2, 3, 4))
    state = driver.view.leadership.states[tp()]
    assert BrokerId(9) not in state.isr
    wanted = (LEADER, BrokerId(member))
    proposed = change(wanted, epoch=state.leader_epoch, version=state.version)
    send(driver, alter_partition(proposed, version=version), ticket=2)
    assert [f.error for f in results(driver, 2)] == [expected]
    written = driver.view.leadership.states[tp()]
    assert (written.isr, written.leader_epoch) == (state.isr, state.leader_epoch + (version == 0))


def test_state_beyond_the_view_is_read_before_it_is_judged() -> None:
    """The leader may know a newer one; an error would freeze its ISR."""
    driver = Driver({tp(): (1, 2, 3)})
    send(driver, alter_partition(change(replicas(1, 2), epoch=3, version=5)))
    assert not answers(driver)
    assert sum(isinstance(e, ReadStates) for e in driver.sent) >= 1
    reads = [e for e in driver.sent if isinstance(e, ReadStates)]
    pass_time(driver, 0.1)
    assert [e for e in driver.sent if isinstance(e, ReadStates)] == reads
    known = driver.view.leadership.states[tp()]
    read = replace(known, leader_epoch=LeaderEpoch(3), version=ZkVersion(5))
    driver.observe(StatesRead({tp(): read}))
    assert error(driver) == kafka_errors.NONE


@pytest.mark.parametrize("healthy", [True, False])
def test_partition_that_cannot_be_judged_is_left_out_of_the_answer(*, healthy: bool) -> None:
    """Its leader asks for it again, together with what it wants to change by then."""
    driver = Driver({tp(): (1, 2, 3), tp(0, "healthy"): (1, 2, 3)})
    wanted = change(replicas(1, 2), topic="healthy")
    send(
        driver,
        alter_partition(change(replicas(1, 2), epoch=3), *([wanted] if healthy else []), version=0),
    )
    assert not answers(driver)
    pass_time(driver, 5.5)
    assert [r.topic for r in results(driver)] == ["healthy"] * healthy


def read_again(driver: Driver, state: PartitionState | None) -> None:
    """Let the reads of the state that were asked for be answered."""
    generation = driver.view.role.read_generation
    driver.observe(StatesRead({tp(): state}, read_generation=generation))


@pytest.mark.parametrize("version", [0, 1])
def test_request_for_a_topic_that_was_created_again_ends(version: int) -> None:
    """It names the topic only; no read will show what the leader of the former one knew."""
    driver = Driver({tp(): (1, 2, 3)})
    state = driver.view.leadership.states[tp()]
    request = alter_partition(change(replicas(1, 2), epoch=3, version=7), version=version)
    send(driver, request)
    driver.observe(StatesRead({tp(): state}))  # began before the request
    pass_time(driver, 4.0)
    read_again(driver, state)
    assert not answers(driver)
    pass_time(driver, 1.5)
    read_again(driver, state)
    assert error(driver) == kafka_errors.INVALID_UPDATE_VERSION


def test_request_for_a_partition_that_is_no_more_ends() -> None:
    """The topic was created again with fewer."""
    driver = Driver({tp(): (1, 2, 3)})
    gone = tp(5)
    send(
        driver,
        alter_partition(change(replicas(1, 2), partition=gone.partition, epoch=3, version=7)),
    )
    generation = driver.view.role.read_generation
    driver.observe(StatesRead({gone: None}, read_generation=generation))
    assert not answers(driver)
    pass_time(driver, 5.5)
    assert error(driver) == kafka_errors.UNKNOWN_TOPIC_OR_PARTITION


def test_unknown_topic_is_answered_only_when_it_is_known_to_be_gone() -> None:
    """The listing may be older than the topic."""
    driver = Driver({tp(): (1, 2, 3)})
    send(driver, alter_partition(change(replicas(1, 2), topic="new")))
    assert not answers(driver)
    pass_time(driver, 6.0)
    assert error(driver) == kafka_errors.UNKNOWN_TOPIC_OR_PARTITION


def test_topic_is_found_by_its_id() -> None:
    """As of version 2 a request has no names."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.observe(BrokersRead({b: with_two_listeners(b) for b in driver.view.cluster.brokers}))
    driver.view.options = Options(endpoint=ENDPOINT)
    with_id = TopicAssignment(
        {0: PartitionAssignment(replicas(1, 2, 3))},
        ZkVersion(1),
        Zxid(9),
        topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
    )
    proposed = alter_partition(change(replicas(1, 2), topic=None), version=3)
    send(driver, proposed)
    assert not answers(driver)
    driver.observe(TopicsRead({"t": with_id}))
    assert error(driver) == kafka_errors.NONE


def served(**known: object) -> Driver:
    """Return a tenure with an endpoint, whose state was read as given."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    driver.observe(BrokersRead({b: with_two_listeners(b) for b in driver.view.cluster.brokers}))
    driver.view.options = Options(endpoint=ENDPOINT)
    read = replace(driver.view.leadership.states[tp()], isr=replicas(1, 2), version=ZkVersion(1))
    driver.fold(StatesRead({tp(): replace(read, **known)}))  # type: ignore[arg-type] # its fields
    return driver


def test_request_that_may_be_older_than_a_restart_of_the_replica_is_fenced() -> None:
    """The leader repeats it until a controller answers; the replica may have lost its log."""
    driver = served(mzxid=BEFORE_REGISTRATIONS)
    read = driver.view.leadership.states[tp()]
    driver.sent.clear()
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1)))
    written = driver.view.leadership.states[tp()]
    assert (written.isr, written.leader_epoch) == (read.isr, read.leader_epoch + 1)
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH
    assert not any(
        isinstance(e, ReadStates) and e.purpose is ReadPurpose.CONFLICT for e in driver.sent
    )
    send(driver, alter_partition(change(replicas(1, 2, 3), epoch=1, version=2)), ticket=2)
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 3)


def test_leader_epoch_is_not_raised_before_a_bounce_that_cannot_be_judged_yet() -> None:
    """The write would say that the broker is in sync, and the bounce take it out later."""
    driver = served(mzxid=BEFORE_REGISTRATIONS)
    read = driver.view.leadership.states[tp()]
    driver.view.leadership.seeding.add(tp())
    driver.view.leadership.bounced[tp()] = {BrokerId(2)}
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1)))
    assert driver.view.leadership.states[tp()] == read
    driver.view.leadership.seeding.clear()
    driver.view.due.add((tp(),))
    driver.settle()
    written = driver.view.leadership.states[tp()]
    assert (written.isr, written.leader_epoch) == (replicas(1), read.leader_epoch + 1)
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH


def test_no_isr_is_changed_before_a_bounce_that_cannot_be_judged_yet() -> None:
    """The write would be newer than the registration: no other controller could tell any more."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    read = driver.view.leadership.states[tp()]
    driver.view.leadership.seeding.add(tp())
    driver.view.leadership.bounced[tp()] = {BrokerId(2)}
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1)))
    assert driver.view.leadership.states[tp()] == read
    assert not answers(driver)
    driver.view.leadership.seeding.clear()
    driver.view.due.add((tp(),))
    driver.settle()
    assert driver.view.leadership.states[tp()].isr == replicas(1)
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH


def test_request_after_the_last_restart_of_the_replica_is_carried_out() -> None:
    """The leader heard of the state that was written after it."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1)))
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 3)
    assert error(driver) == kafka_errors.NONE


def back(driver: Driver, broker_id: int, registered: int) -> BrokersRead:
    """Return what is read when a broker registered anew."""
    again = replace(with_two_listeners(BrokerId(broker_id)), epoch=BrokerEpoch(registered))
    return BrokersRead({**driver.view.cluster.brokers, again.id: again})


def without(driver: Driver, broker_id: int) -> BrokersRead:
    """Return what is read when a broker is gone."""
    return BrokersRead({b: r for b, r in driver.view.cluster.brokers.items() if b != broker_id})


def add_the_third(driver: Driver, *, version: int = 3) -> AlterPartition:
    """Return the leader's request to add broker 3 to the present state."""
    state = driver.view.leadership.states[tp()]
    wanted = change(replicas(1, 2, 3), epoch=state.leader_epoch, version=state.version)
    return alter_partition(wanted, version=version)


def as_read() -> Driver:
    """Return a state that another controller wrote."""
    return served(mzxid=AFTER_REGISTRATIONS)


def as_elected() -> Driver:
    """Return a state of which this tenure wrote the leader epoch."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    driver.observe(without(driver, 3))
    driver.observe(back(driver, 3, 300))
    return driver


def as_requested() -> Driver:
    """Return a state that this tenure wrote last as the leader asked."""
    driver = as_elected()
    send(driver, add_the_third(driver), ticket=7)
    state = driver.view.leadership.states[tp()]
    shrunk = change(replicas(1, 2), epoch=state.leader_epoch, version=state.version)
    send(driver, alter_partition(shrunk), ticket=8)
    return driver


def as_created() -> Driver:
    """Return a state that this tenure created while broker 3 was dead."""
    driver = served()
    driver.observe(without(driver, 3))
    created = StateCreatedRecord(tp(), LEADER, replicas(1, 2), EPOCH)
    apply(driver.view, created, driver.now)
    driver.observe(back(driver, 3, 300))
    return driver


@pytest.mark.parametrize("state_of", [as_read, as_elected, as_requested, as_created])
@pytest.mark.parametrize("version", [0, 3])
def test_request_older_than_a_restart_is_fenced_whoever_wrote_the_state(
    state_of: Callable[[], Driver], version: int
) -> None:
    """The leader's way to the controller was cut meanwhile, and the replica lost its log."""
    driver = state_of()
    before = driver.view.leadership.states[tp()]
    late = add_the_third(driver, version=version)
    driver.observe(back(driver, 3, 900))
    written = driver.view.leadership.states[tp()]
    assert (written.leader, written.isr) == (LEADER, replicas(1, 2))
    assert written.leader_epoch == before.leader_epoch + 1
    send(driver, late, ticket=9)
    assert [r.error for r in results(driver, 9)] == [kafka_errors.FENCED_LEADER_EPOCH]
    driver.observe(without(driver, 1))
    elected = driver.view.leadership.states[tp()]
    assert (elected.leader, elected.isr) == (2, replicas(2))


def test_replica_without_its_log_is_not_elected_though_it_is_preferred() -> None:
    """Not before it is in sync anew."""
    driver = Driver({tp(): (3, 1, 2)}, brokers=(1, 2, 3), leaders={tp(): 1})
    state = driver.view.leadership.states[tp()]
    read = replace(state, isr=replicas(1, 2), version=ZkVersion(1), mzxid=AFTER_REGISTRATIONS)
    driver.fold(StatesRead({tp(): read}))
    driver.observe(without(driver, 3))
    late = add_the_third(driver)
    driver.observe(back(driver, 3, 900))
    send(driver, late)
    driver.observe(PreferredElectionRead(frozenset({tp()}), ZkVersion(0)))
    assert driver.view.leadership.states[tp()].leader == LEADER
    send(driver, add_the_third(driver), ticket=2)
    driver.now = Instant(driver.now + 60.0)
    driver.observe(PreferredElectionRead(frozenset({tp()}), ZkVersion(1)))
    assert driver.view.leadership.states[tp()].leader == 3


@pytest.mark.parametrize("endpoint", [ENDPOINT, None], ids=["AlterPartition", "ZooKeeper"])
def test_registration_raises_the_leader_epoch_once_where_its_replica_is_out_of_the_isr(
    endpoint: LiveBroker | None,
) -> None:
    """In one cycle; below protocol 2.7 the leader's own write may wait for its connection."""
    driver = Driver({tp(n): (1, 2, 3) for n in range(4)}, brokers=(1, 2, 3))
    driver.observe(BrokersRead({b: with_two_listeners(b) for b in driver.view.cluster.brokers}))
    driver.view.options = Options(endpoint=endpoint)
    for n in range(3):
        state = driver.view.leadership.states[tp(n)]
        read = replace(state, isr=replicas(1, 2), version=ZkVersion(1), mzxid=AFTER_REGISTRATIONS)
        driver.fold(StatesRead({tp(n): read}))
    driver.settle()
    driver.changes.clear()
    driver.observe(back(driver, 3, 900))
    for _ in range(3):
        driver.now = Instant(driver.now + 60.0)
        driver.observe(TimerFired(PENDING_REQUESTS_TIMER))
        driver.observe(BrokersRead(dict(driver.view.cluster.brokers)))
    driver.view.due.add(driver.view.leadership.states)
    driver.settle()
    written = [r for c in driver.changes for r in c.records if isinstance(r, StateRecord)]
    assert sorted((r.partition, r.isr, r.leader_epoch) for r in written) == [
        *((tp(n), replicas(1, 2), 1) for n in range(3)),
        (tp(3), replicas(1, 2), 1),  # it was in sync: it leaves
    ]


@pytest.mark.parametrize(("mzxid", "raised"), [(899, 1), (901, 0)])
def test_next_daemon_raises_the_leader_epoch_if_the_former_one_had_not(
    mzxid: int, raised: int
) -> None:
    """It died between the registration and the write, or after it."""
    driver = served(mzxid=Zxid(mzxid))
    state = driver.view.leadership.states.pop(tp())
    driver.fold(back(driver, 3, 900))
    driver.view.due.bounced.clear()
    driver.view.due.partitions.clear()
    driver.observe(StatesRead({tp(): state}))
    assert epoch(driver) == state.leader_epoch + raised


def test_isr_that_was_written_before_a_registration_was_heard_of_fences_nothing() -> None:
    """What fences is the leader epoch: the follower's last fetch may be older as well."""
    driver = as_read()
    before = driver.view.leadership.states[tp()]
    later = replace(before, version=ZkVersion(before.version + 1), mzxid=Zxid(950))
    driver.observe(StatesRead({tp(): later}))
    driver.observe(back(driver, 3, 900))
    assert epoch(driver) == before.leader_epoch + 1


def epoch(driver: Driver) -> int:
    """Return the leader epoch of the partition."""
    return driver.view.leadership.states[tp()].leader_epoch


def state_version(driver: Driver) -> ZkVersion:
    """Return the version of the partition's state."""
    return driver.view.leadership.states[tp()].version


def test_leader_that_requested_with_a_former_epoch_gets_another_one() -> None:
    """Kafka 2.7 forgets what it asked for next, and waits for an answer (KAFKA-12686)."""
    driver = served(mzxid=BEFORE_REGISTRATIONS)
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1), version=0))
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH
    fenced_at = epoch(driver)
    pass_time(driver, 1.0)  # the answer may be on its way
    assert epoch(driver) == fenced_at
    pass_time(driver, 1.5)
    assert epoch(driver) == fenced_at + 1
    pass_time(driver, 60.0)
    assert epoch(driver) == fenced_at + 1


def test_leader_that_sends_requests_with_the_present_epoch_has_forgotten_nothing() -> None:
    """It had the present epoch when it asked, or its release forgets nothing."""
    for version, requests_again in ((0, True), (1, False)):
        driver = served(mzxid=BEFORE_REGISTRATIONS)
        send(driver, alter_partition(change(replicas(1, 2, 3), version=1), version=version))
        fenced_at = epoch(driver)
        if requests_again:
            again = change(replicas(1, 2, 3), epoch=fenced_at, version=2)
            send(driver, alter_partition(again, version=0), ticket=2)
        pass_time(driver, 60.0)
        assert epoch(driver) == fenced_at


@pytest.mark.parametrize(
    ("isr", "endpoint", "raised"),
    [((1, 2), ENDPOINT, 1), ((1, 2, 3), ENDPOINT, 0), ((1, 2), None, 0)],
)
def test_leader_that_a_former_controller_answered_may_have_forgotten_its_request(
    isr: tuple[int, ...], endpoint: LiveBroker | None, raised: int
) -> None:
    """It has a moment to ask by itself; where all are in sync, there is nothing to ask."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    driver.view.options = Options(endpoint=endpoint)
    read = replace(driver.view.leadership.states.pop(tp()), isr=replicas(*isr))
    driver.observe(StatesRead({tp(): read}))
    pass_time(driver, 1.0)
    assert epoch(driver) == read.leader_epoch
    pass_time(driver, 1.5)
    assert epoch(driver) == read.leader_epoch + raised


def test_leader_that_restarted_meanwhile_is_not_told_to_lead_on() -> None:
    """It may have lost what it acknowledged: another member of the ISR leads."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    read = driver.view.leadership.states.pop(tp())
    driver.observe(StatesRead({tp(): read}))
    restarted = replace(with_two_listeners(LEADER), epoch=BrokerEpoch(300))
    driver.now = Instant(driver.now + 2.5)
    driver.fold(BrokersRead({**driver.view.cluster.brokers, LEADER: restarted}))
    driver.observe(TimerFired(PENDING_REQUESTS_TIMER))
    assert driver.view.leadership.states[tp()].leader == 2


def test_leader_gets_the_next_epoch_though_one_was_written_soon_after_the_answer() -> None:
    """It may have heard of that one first, and have forgotten the request of that epoch."""
    driver = served(mzxid=BEFORE_REGISTRATIONS)
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1), version=0))
    state = driver.view.leadership.states[tp()]
    driver.commit(Change((state_record(driver.view, tp(), state, LEADER, state.isr),)))
    driver.settle()
    written = epoch(driver)
    pass_time(driver, 2.5)
    assert epoch(driver) == written + 1


@pytest.mark.parametrize(("version", "waited_s", "raised"), [(0, 0.0, 1), (0, 9.0, 0), (1, 0.0, 0)])
def test_leader_may_hear_of_the_next_epoch_before_the_answer(
    version: int, waited_s: float, raised: int
) -> None:
    """It forgets the request of that epoch, too: the answer comes on another connection."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    pass_time(driver, 60.0)
    proposed = change(replicas(1, 2, 3), epoch=epoch(driver), version=state_version(driver))
    send(driver, alter_partition(proposed, version=version))
    assert error(driver) == kafka_errors.NONE
    pass_time(driver, waited_s)
    state = driver.view.leadership.states[tp()]
    driver.commit(Change((state_record(driver.view, tp(), state, LEADER, replicas(1, 2)),)))
    driver.settle()
    written = epoch(driver)
    pass_time(driver, 2.5)
    assert epoch(driver) == written + raised
    pass_time(driver, 60.0)
    assert epoch(driver) == written + raised


def test_leader_that_waits_for_nothing_gets_no_other_epoch() -> None:
    """All replicas are in the ISR: it asked for no more."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    pass_time(driver, 60.0)
    proposed = change(replicas(1, 2, 3), epoch=epoch(driver), version=state_version(driver))
    send(driver, alter_partition(proposed, version=0))
    state = driver.view.leadership.states[tp()]
    driver.commit(Change((state_record(driver.view, tp(), state, BrokerId(1), state.isr),)))
    driver.settle()
    written = epoch(driver)
    pass_time(driver, 60.0)
    assert epoch(driver) == written


def test_state_that_a_rejected_write_put_in_doubt_is_not_the_first_of_the_tenure() -> None:
    """Its leader asked no other controller meanwhile."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    pass_time(driver, 60.0)
    state = driver.view.leadership.states[tp()]
    write = state_record(driver.view, tp(), state, LEADER, state.isr)
    invalidate(driver.view, Change((write,), partition=tp()))
    read_again(driver, replace(state, version=ZkVersion(state.version + 1)))
    pass_time(driver, 2.5)
    assert epoch(driver) == state.leader_epoch


def with_three_gone() -> tuple[Driver, IsrChange]:
    """Return a tenure whose leader asked for a replica just before its broker died."""
    driver = Driver({tp(): (1, 2, 3), tp(0, "other"): (1, 2)}, brokers=(1, 2, 3))
    driver.observe(BrokersRead({b: with_two_listeners(b) for b in driver.view.cluster.brokers}))
    driver.view.options = Options(endpoint=ENDPOINT)
    without_three(driver)
    with_three(driver, 500)
    state = driver.view.leadership.states[tp()]
    without_three(driver)
    proposed = change(replicas(1, 2, 3), epoch=state.leader_epoch, version=state.version)
    return driver, proposed


def without_three(driver: Driver) -> None:
    """Let broker 3 die."""
    driver.observe(BrokersRead({b: r for b, r in driver.view.cluster.brokers.items() if b != 3}))


def with_three(driver: Driver, registered: int) -> None:
    """Let broker 3 return, perhaps without its log."""
    three = replace(with_two_listeners(BrokerId(3)), epoch=BrokerEpoch(registered))
    driver.observe(BrokersRead({**driver.view.cluster.brokers, BrokerId(3): three}))


def test_refused_member_is_answered_though_another_partition_is_not_judged() -> None:
    """A later pass would find it eligible, without its log."""
    driver, proposed = with_three_gone()
    other = change(replicas(1), epoch=9, version=9, topic="other")
    send(driver, alter_partition(proposed, other, version=2))
    assert error(driver) == kafka_errors.INELIGIBLE_REPLICA
    with_three(driver, 900)
    pass_time(driver, 10.0)
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2)


def test_copy_of_a_refused_request_is_fenced() -> None:
    """The leader counts on the refusal; the copy came over a connection that broke."""
    driver, proposed = with_three_gone()
    send(driver, alter_partition(proposed, version=2))
    assert error(driver) == kafka_errors.INELIGIBLE_REPLICA
    with_three(driver, 900)
    send(driver, alter_partition(proposed, version=2), ticket=2)
    assert [r.error for r in results(driver, 2)] == [kafka_errors.FENCED_LEADER_EPOCH]
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2)
    again = change(replicas(1, 2, 3), epoch=epoch(driver), version=state_version(driver))
    send(driver, alter_partition(again, version=2), ticket=3)
    assert [r.error for r in results(driver, 3)] == [kafka_errors.NONE]
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2, 3)


def test_delegated_engine_writes_no_leader_epoch() -> None:
    """The states are the cluster's controller's."""
    driver = served(mzxid=AFTER_REGISTRATIONS)
    driver.view.role.engine = EngineName.DELEGATED
    read = driver.view.leadership.states.pop(tp())
    driver.observe(StatesRead({tp(): read}))
    pass_time(driver, 2.5)
    assert epoch(driver) == read.leader_epoch


def test_request_waits_while_a_leader_epoch_is_to_be_raised() -> None:
    """The topic is read again first."""
    driver = served(mzxid=BEFORE_REGISTRATIONS)
    driver.answers_topics = False
    read = driver.view.leadership.states[tp()]
    driver.view.topics.by_name["t"].stale = True
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1)))
    assert driver.view.leadership.states[tp()] == read
    assert not answers(driver)


def test_request_of_a_former_leader_is_fenced_where_no_epoch_can_be_raised() -> None:
    """No member of the ISR is live; the other partitions of its request are not held up."""
    driver = served(mzxid=BEFORE_REGISTRATIONS, leader=NO_LEADER, isr=replicas(4))
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1)))
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH


def test_request_about_a_topic_that_is_being_deleted_is_answered() -> None:
    """No state of it is written any more."""
    driver = served(mzxid=BEFORE_REGISTRATIONS)
    driver.view.deletions.running["t"] = TopicDeletion({}, set(), {})
    send(driver, alter_partition(change(replicas(1, 2, 3), version=1)))
    assert error(driver) == kafka_errors.NONE


def test_dead_replica_that_a_leader_requested_leaves_the_isr_also_if_it_is_back() -> None:
    """Leaders before Kafka 3.2 ask for it; it may have lost its log."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2))
    back = dict(driver.view.cluster.brokers)
    known = driver.view.leadership.states[tp()]
    write = IsrRecord(tp(), known, replicas(1, 2, 3), 0)
    apply(driver.view, write, driver.now)
    driver.observe(BrokersRead({**back, BrokerId(3): broker(3, 900)}))
    assert driver.view.leadership.states[tp()].isr == replicas(1, 2)


def test_broker_of_another_registration_is_refused() -> None:
    """Its successor may have lost what it acknowledged."""
    driver = Driver({tp(): (1, 2, 3)})
    stale = replace(alter_partition(change(replicas(1, 2))), broker_epoch=BrokerEpoch(1))
    send(driver, stale)
    (sent,) = answers(driver)
    assert sent.response == AlterPartitionAnswer(kafka_errors.STALE_BROKER_EPOCH)


def test_daemon_without_the_role_is_not_the_controller() -> None:
    """In a standby, after a tenure, and while a broker is the controller."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.observe(Deposed("a new controller"))
    send(driver, alter_partition(change(replicas(1, 2))))
    driver = Driver({tp(): (1, 2, 3)})
    driver.view.role.engine = EngineName.DELEGATED
    send(driver, alter_partition(change(replicas(1, 2))))
    (sent,) = answers(driver)
    assert sent.response == AlterPartitionAnswer(kafka_errors.NOT_CONTROLLER)
    assert not any(isinstance(r, IsrRecord) for c in driver.changes for r in c.records)


def test_other_requests_are_refused_in_their_own_shape() -> None:
    """A broker cannot decode the answer to another request."""
    driver = Driver({tp(): (1, 2, 3)})
    driver.view.role.engine = EngineName.DELEGATED
    send(driver, ControlledShutdown(LEADER, broker(1).epoch))
    (sent,) = answers(driver)
    assert sent.response == broker_requests.ControlledShutdownAnswer(kafka_errors.NOT_CONTROLLER)


def test_election_of_the_same_cycle_precedes_the_request_of_the_former_leader() -> None:
    """Both write the state: the second would be rejected."""
    driver = Driver({tp(): (1, 2, 3)}, brokers=(1, 2, 3))
    driver.fold(
        BrokerRequestReceived(1, alter_partition(change(replicas(1, 2))), driver.permission)
    )
    driver.view.leadership.bounced[tp()] = {LEADER}
    driver.view.due.add((tp(),))
    driver.settle()
    writes = [
        type(r) for c in driver.changes for r in c.records if isinstance(r, StateRecord | IsrRecord)
    ]
    assert writes == [StateRecord]
    assert error(driver) == kafka_errors.FENCED_LEADER_EPOCH
