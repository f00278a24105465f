"""The requests to brokers: their order, and what is merged while brokers are busy."""

from __future__ import annotations

from dataclasses import replace

from controller.core.model import (
    BrokerId,
    Instant,
    LeaderEpoch,
    PartitionAssignment,
    TopicPartition,
)
from controller.reactor.outbox import (
    LEADER_AND_ISR_CHUNK,
    METADATA_EVERY_S,
    NEW_REPLICAS_CHUNK,
    Outbox,
)
from controller.reactor.ports import (
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrState,
    StopReplica,
    UpdateMetadata,
)
from tests.core.builders import Driver, replicas, tp

ONE = BrokerId(1)
NOW = Instant(100.0)


def opened(*brokers: int) -> tuple[Driver, Outbox]:
    """Return a view with two partitions and an outbox with open queues; 1 does not serve t-1."""
    driver = Driver({tp(0): (1, 2), tp(1): (2,)}, brokers=(1, 2))
    outbox = Outbox()
    for b in brokers:
        outbox.open(BrokerId(b))
    return driver, outbox


def assign(driver: Driver, partition: TopicPartition, *brokers: int) -> None:
    """Have the topic znode name these replicas."""
    topics = driver.view.topics.by_name
    topic = topics[partition.topic]
    assigned = {**topic.partitions, partition.partition: PartitionAssignment(replicas(*brokers))}
    topics[partition.topic] = replace(topic, partitions=assigned)


def drain(
    driver: Driver, outbox: Outbox, broker: BrokerId = ONE, now: Instant = NOW
) -> list[BrokerRequest]:
    """Answer everything at once and return what one broker was sent, in order."""
    sent: list[BrokerRequest] = []
    for _ in range(100):
        taken = list(outbox.take(driver.view, now))
        if not taken:
            return sent
        for to, request in taken:
            if to == broker:
                sent.append(request)
            outbox.note_answer(to)
    raise AssertionError("the outbox does not run dry")


def test_requests_of_a_batch_go_in_the_order_of_kafkas_controller() -> None:
    """LeaderAndIsr, then UpdateMetadata, then StopReplica without and with deletion."""
    driver, outbox = opened(1, 2)
    outbox.add_stop_replica(driver.view, tp(1), ONE, LeaderEpoch(3), delete=False)
    outbox.add_stop_replica(driver.view, tp(1), ONE, LeaderEpoch(3), delete=True)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), ())
    sent = drain(driver, outbox)
    assert [type(r) for r in sent] == [LeaderAndIsr, UpdateMetadata, StopReplica, StopReplica]
    stops = [r for r in sent if isinstance(r, StopReplica)]
    assert [s.states[0].delete for s in stops] == [False, True]


def test_the_live_brokers_go_before_everything_queued() -> None:
    """A broker silently ignores a leader it does not know."""
    driver, outbox = opened(1)
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), ())
    outbox.add_live_brokers()
    first, second = drain(driver, outbox)
    assert isinstance(first, UpdateMetadata)
    assert first.states == ()
    assert {b.id for b in first.live_brokers} == set(replicas(1, 2))
    assert isinstance(second, LeaderAndIsr)


def test_a_busy_broker_gets_the_newest_state_once() -> None:
    """While a request is out, later states of a partition replace each other."""
    driver, outbox = opened(1)
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), ())
    assert len(list(outbox.take(driver.view, NOW))) == 1
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), replicas(1))
    driver.change_isr(tp(0), replicas(1))
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), ())
    assert list(outbox.take(driver.view, NOW)) == []
    outbox.note_answer(ONE)
    (request,) = drain(driver, outbox)
    assert isinstance(request, LeaderAndIsr)
    (state,) = request.states
    assert state.isr == replicas(1)
    assert state.is_new


def test_a_recovering_leader_is_sent_so() -> None:
    """As the znode says (KIP-704): "recovered" would end the recovery before it is done."""
    driver, outbox = opened(2)
    recovering = replace(driver.view.leadership.states[tp(0)], leader_recovery_state=1)
    driver.view.leadership.states[tp(0)] = recovering
    for partition in (tp(0), tp(1)):
        outbox.add_leader_and_isr(driver.view, partition, replicas(2), ())
    (states,) = states_sent(drain(driver, outbox, BrokerId(2)))
    assert [s.leader_recovery_state for s in states] == [1, 0]


def test_topics_with_and_without_an_id_are_sent_apart() -> None:
    """The answers as of version 5 name topics by their ids only."""
    driver, outbox = opened(2)
    driver.view.topics.by_name["u"] = replace(driver.view.topics.by_name["t"], topic_id="u" * 22)
    driver.view.leadership.states[tp(0, "u")] = driver.view.leadership.states[tp(0)]
    driver.view.tenure.protocol = "3.9"
    for partition in (tp(0), tp(0, "u"), tp(1)):
        outbox.add_leader_and_isr(driver.view, partition, replicas(2), ())
    outbox.add_update_metadata(driver.view, (tp(0), tp(0, "u")), None)
    requests = drain(driver, outbox, BrokerId(2))
    assert [[s.partition for s in states] for states in states_sent(requests)] == [
        [tp(0, "u")],
        [tp(0), tp(1)],
    ]
    assert [type(r) for r in requests] == [LeaderAndIsr, LeaderAndIsr, UpdateMetadata]
    assert {r.protocol for r in requests} == {"3.9"}


def test_a_member_of_the_isr_is_never_new() -> None:
    """The member lost its log with a disk, and would lead with an empty one."""
    driver, outbox = opened(1)
    written = replace(driver.view.leadership.states[tp(0)], leader_epoch=LeaderEpoch(1))
    driver.view.leadership.states[tp(0)] = written
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), replicas(1))
    ((state,),) = states_sent(drain(driver, outbox))
    assert not state.is_new


def test_a_replica_that_entered_the_isr_before_its_request_was_sent_is_not_new() -> None:
    """The replica has a log already, from an earlier request."""
    driver, outbox = opened(1)
    written = replace(
        driver.view.leadership.states[tp(0)], leader_epoch=LeaderEpoch(1), isr=replicas(2)
    )
    driver.view.leadership.states[tp(0)] = written
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), replicas(1))
    driver.change_isr(tp(0), replicas(2, 1))
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), ())
    ((state,),) = states_sent(drain(driver, outbox))
    assert (state.isr, state.is_new) == (replicas(2, 1), False)


def test_a_replica_of_a_new_partition_is_new_in_its_first_request() -> None:
    """Another replica died meanwhile: no replica has a log yet, and no record was acknowledged."""
    driver, outbox = opened(1)
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), replicas(1))
    written = replace(
        driver.view.leadership.states[tp(0)], leader_epoch=LeaderEpoch(1), isr=replicas(1)
    )
    driver.view.leadership.states[tp(0)] = written
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), ())
    ((state,),) = states_sent(drain(driver, outbox))
    assert (state.leader_epoch, state.is_new) == (1, True)


def test_a_replica_that_is_added_again_gets_leader_and_isr_after_stop_replica() -> None:
    """A LeaderAndIsr never overtakes the StopReplica queued before it, nor joins its batch."""
    driver, outbox = opened(1)
    outbox.add_stop_replica(driver.view, tp(1), ONE, LeaderEpoch(0), delete=True)
    assign(driver, tp(1), 2, 1)
    outbox.add_leader_and_isr(driver.view, tp(1), replicas(1), replicas(1))
    assert [type(r) for r in drain(driver, outbox)] == [StopReplica, LeaderAndIsr]


def test_a_stop_overtakes_what_was_queued_for_the_replica() -> None:
    """A LeaderAndIsr that waits for a replica is void after its removal."""
    driver, outbox = opened(1)
    assign(driver, tp(1), 2, 1)
    outbox.add_leader_and_isr(driver.view, tp(1), replicas(1), replicas(1))
    assign(driver, tp(1), 2)
    outbox.add_stop_replica(driver.view, tp(1), ONE, LeaderEpoch(0), delete=True)
    assert [type(r) for r in drain(driver, outbox)] == [StopReplica]


def test_a_broker_that_is_no_replica_is_sent_no_state() -> None:
    """It would take the partition for one on a failed disk until it restarts."""
    driver, outbox = opened(1, 2)
    outbox.add_leader_and_isr(driver.view, tp(1), replicas(1, 2), replicas(1))
    assert drain(driver, outbox) == []
    outbox.add_leader_and_isr(driver.view, tp(1), replicas(1, 2), replicas(1))
    (request,) = drain(driver, outbox, BrokerId(2))
    assert isinstance(request, LeaderAndIsr)


def test_a_closed_queue_forgets() -> None:
    """Nothing queued for a broker that is gone, or under a lost claim, is ever sent."""
    driver, outbox = opened(1, 2)
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1, 2), ())
    outbox.close(ONE)
    assert drain(driver, outbox) == []
    outbox.clear()
    assert drain(driver, outbox, BrokerId(2)) == []


def test_a_broker_that_serves_the_partition_is_never_stopped() -> None:
    """The broker is a replica again since the request was queued."""
    driver, outbox = opened(1)
    outbox.add_stop_replica(driver.view, tp(0), ONE, LeaderEpoch(0), delete=True)
    assert drain(driver, outbox) == []


def test_a_broker_that_joins_gets_all_metadata_before_its_replicas() -> None:
    """Clients find it at once, and until it knows the topics it denies that they exist."""
    driver, outbox = opened(1, 2)
    outbox.add_live_brokers()
    outbox.add_update_metadata(driver.view, [tp()], [ONE])
    outbox.add_leader_and_isr(driver.view, tp(), [ONE], [])
    requests = drain(driver, outbox)
    assert [type(r) for r in requests] == [UpdateMetadata, LeaderAndIsr]
    assert isinstance(requests[0], UpdateMetadata)
    assert requests[0].states
    assert requests[0].live_brokers


def test_metadata_for_all_brokers_is_never_older_than_that_of_a_broker_that_joined() -> None:
    """It goes after the newcomer's metadata, and a broker believes what it hears last."""
    driver, outbox = opened(1, 2)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    driver.change_isr(tp(0), replicas(1))
    outbox.add_update_metadata(driver.view, [tp(0)], [ONE])
    later = Instant(NOW + METADATA_EVERY_S)
    sent = [*drain(driver, outbox), *drain(driver, outbox, now=later)]
    published = [r for r in sent if isinstance(r, UpdateMetadata)]
    assert [s.isr for r in published for s in r.states] == [replicas(1)] * 2


def test_what_is_for_clients_alone_waits_after_the_last_of_its_kind() -> None:
    """The first goes at once; updates shortly after it are merged into one request."""
    driver, outbox = opened(1)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    assert [type(r) for r in drain(driver, outbox)] == [UpdateMetadata]
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    assert drain(driver, outbox) == []
    outbox.add_update_metadata(driver.view, [tp(1)], None)
    due = Instant(NOW + METADATA_EVERY_S)
    assert outbox.due == due
    ((_, request),) = outbox.take(driver.view, due)
    assert isinstance(request, UpdateMetadata)
    assert {s.partition for s in request.states} == {tp(0), tp(1)}
    assert outbox.due is None


def test_metadata_of_a_partition_that_was_just_created_is_never_held_back() -> None:
    """Whoever created it may ask any broker for it at once."""
    driver, outbox = opened(1, 2)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    drain(driver, outbox)
    outbox.add_leader_and_isr(driver.view, tp(1), replicas(2), replicas(2))
    outbox.add_update_metadata(driver.view, [tp(1)], None)
    (request,) = drain(driver, outbox)
    assert isinstance(request, UpdateMetadata)
    assert {s.partition for s in request.states} == {tp(1)}
    outbox.add_update_metadata(driver.view, [tp(1)], None)
    assert drain(driver, outbox) == []


def test_what_changes_a_brokers_work_takes_its_clients_news_along() -> None:
    """A state change for a broker is never delayed, and its metadata goes with it."""
    driver, outbox = opened(1)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    drain(driver, outbox)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    outbox.add_leader_and_isr(driver.view, tp(0), replicas(1), ())
    assert [type(r) for r in drain(driver, outbox)] == [LeaderAndIsr, UpdateMetadata]
    assert outbox.due is None


def test_the_live_brokers_and_a_newcomers_metadata_are_never_held_back() -> None:
    """Without the first a broker ignores leaders; without the second it denies topics."""
    driver, outbox = opened(1)
    outbox.add_update_metadata(driver.view, [tp(0)], None)
    drain(driver, outbox)
    outbox.add_live_brokers()
    assert [type(r) for r in drain(driver, outbox)] == [UpdateMetadata]
    outbox.add_update_metadata(driver.view, [tp(0)], [ONE])
    assert [type(r) for r in drain(driver, outbox)] == [UpdateMetadata]


def crowded(replicas_: int) -> tuple[Driver, Outbox]:
    """Return an open queue and a view in which the broker has so many replicas."""
    driver = Driver({tp(n): (1, 2) for n in range(replicas_)}, brokers=(1, 2))
    outbox = Outbox()
    outbox.open(ONE)
    return driver, outbox


def states_sent(requests: list[BrokerRequest]) -> list[tuple[LeaderAndIsrState, ...]]:
    """Return the states of each LeaderAndIsr."""
    return [r.states for r in requests if isinstance(r, LeaderAndIsr)]


def test_replicas_to_create_are_sent_in_smaller_batches() -> None:
    """A broker creates their logs under the lock that all other requests wait for."""
    driver, outbox = crowded(LEADER_AND_ISR_CHUNK + 1)
    everything = list(driver.assignments)
    for partition in everything:
        outbox.add_leader_and_isr(driver.view, partition, [ONE], ())
    assert [len(s) for s in states_sent(drain(driver, outbox))] == [LEADER_AND_ISR_CHUNK, 1]
    for partition in everything:
        outbox.add_leader_and_isr(driver.view, partition, [ONE], [ONE])
    chunks = [len(s) for s in states_sent(drain(driver, outbox))]
    assert chunks == [*[NEW_REPLICAS_CHUNK] * 4, 1]


def test_what_creates_no_replica_does_not_wait_behind_all_that_do() -> None:
    """A leader elected meanwhile goes with the very next request, and every partition goes once."""
    driver, outbox = crowded(LEADER_AND_ISR_CHUNK + NEW_REPLICAS_CHUNK)
    *created, elected = driver.assignments
    for partition in created:
        outbox.add_leader_and_isr(driver.view, partition, [ONE], [ONE])
    ((_, first),) = outbox.take(driver.view, NOW)
    outbox.add_leader_and_isr(driver.view, elected, [ONE], ())
    outbox.note_answer(ONE)
    requests = states_sent([first, *drain(driver, outbox)])
    assert [elected in {s.partition for s in states} for states in requests[:2]] == [False, True]
    assert sorted(s.partition for states in requests for s in states) == sorted([*created, elected])


def test_a_waiting_state_is_sent_in_its_newest_version() -> None:
    """A state is read when it is sent, not when it is queued."""
    driver, outbox = crowded(NEW_REPLICAS_CHUNK + 1)
    last = tp(NEW_REPLICAS_CHUNK)
    for partition in driver.assignments:
        outbox.add_leader_and_isr(driver.view, partition, [ONE], [ONE])
    assert len(list(outbox.take(driver.view, NOW))) == 1
    driver.change_isr(last, replicas(1))
    outbox.add_leader_and_isr(driver.view, last, [ONE], ())
    outbox.note_answer(ONE)
    ((state,),) = states_sent(drain(driver, outbox))
    assert (state.partition, state.isr, state.is_new) == (last, replicas(1), True)


def test_only_clients_of_what_waits_wait_with_it() -> None:
    """Clients would find a broker that does not lead yet; stops wait for no other partition."""
    gone, late = tp(0, "u"), tp(NEW_REPLICAS_CHUNK)
    created = [tp(n) for n in range(NEW_REPLICAS_CHUNK + 1)]
    driver = Driver({**dict.fromkeys(created, (1, 2)), gone: (2,)}, brokers=(1, 2))
    outbox = Outbox()
    outbox.open(ONE)
    for partition in created:
        outbox.add_leader_and_isr(driver.view, partition, [ONE], [ONE])
    outbox.add_update_metadata(driver.view, [gone, late], None)
    outbox.add_stop_replica(driver.view, gone, ONE, LeaderEpoch(0), delete=True)
    assert [(type(r), r.states[0].partition) for r in drain(driver, outbox)] == [
        (LeaderAndIsr, created[0]),
        (UpdateMetadata, gone),
        (StopReplica, gone),
        (LeaderAndIsr, late),
        (UpdateMetadata, late),
    ]


def test_former_leader_that_shuts_down_follows_before_it_stops() -> None:
    """It takes writes from clients as long as it considers itself the leader."""
    driver = Driver({tp(n): (2, 1) for n in range(LEADER_AND_ISR_CHUNK + 1)}, brokers=(1, 2))
    outbox = Outbox()
    outbox.open(ONE)
    driver.view.leadership.shutting_down[ONE] = driver.epoch(ONE)
    for partition in driver.assignments:
        outbox.add_leader_and_isr(driver.view, partition, replicas(1), ())
        outbox.add_stop_replica(driver.view, partition, ONE, LeaderEpoch(1), delete=False)
    follows: set[TopicPartition] = set()
    stopped: set[TopicPartition] = set()
    for request in drain(driver, outbox):
        if isinstance(request, LeaderAndIsr):
            follows.update(s.partition for s in request.states)
        elif isinstance(request, StopReplica):
            stopped.update(s.partition for s in request.states)
            assert stopped <= follows
    assert stopped == set(driver.assignments)


def test_leader_that_shuts_down_is_not_stopped() -> None:
    """No other replica can lead; and no replica of it is deleted."""
    driver, outbox = opened(1)
    driver.view.leadership.shutting_down[ONE] = driver.epoch(ONE)
    outbox.add_stop_replica(driver.view, tp(0), ONE, LeaderEpoch(1), delete=False)
    driver.view.leadership.states[tp(0)] = replace(
        driver.view.leadership.states[tp(0)], leader=BrokerId(2)
    )
    outbox.add_stop_replica(driver.view, tp(0), ONE, LeaderEpoch(1), delete=True)
    assert drain(driver, outbox) == []
