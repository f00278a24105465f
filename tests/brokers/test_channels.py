"""Channels to brokers that are sockets: order, resending, closing, and what they show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tenacity import wait_random_exponential

from controller.brokers.broker_connections import ConnectionLimits
from controller.brokers.channels import BrokerChannels, ChannelOptions, ChannelState
from controller.brokers.connection_settings import ConnectionSettings, ListenerChoice
from controller.brokers.messages import LeaderAndIsrResponse
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered
from controller.core.model import BrokerEpoch, BrokerId
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.role.records import UpdateMetadataAnswered
from tests.brokers.builders import (
    CONTROLLER,
    assigned,
    leader_and_isr,
    no_metadata,
    stop_replica,
    stopped,
)
from tests.brokers.fakes import (
    KAFKA_2_6,
    WAIT_S,
    Answer,
    CollectingInbox,
    Drop,
    FakeBroker,
    Garbage,
    Hold,
    Reaction,
    Received,
    Script,
    succeed,
    success,
)

ONE = BrokerId(1)
OPTIONS = ChannelOptions(
    CONTROLLER,
    limits=ConnectionLimits(connect_timeout_s=WAIT_S, request_timeout_s=WAIT_S),
    reconnect=wait_random_exponential(multiplier=0.001, max=0.01),
)
Channels = Callable[[ChannelOptions], BrokerChannels]


@pytest.fixture
def inbox() -> CollectingInbox:
    """Return an empty inbox."""
    return CollectingInbox()


@pytest.fixture
def make(inbox: CollectingInbox) -> Iterator[Channels]:
    """Return a maker of started channels; they are stopped when the test ends."""
    made: list[BrokerChannels] = []

    def channels(options: ChannelOptions) -> BrokerChannels:
        made.append(BrokerChannels(inbox, options))
        made[-1].start()
        return made[-1]

    yield channels
    for each in made:
        each.stop()
        assert not each.is_alive


@pytest.fixture
def channels(make: Channels) -> BrokerChannels:
    """Return started channels."""
    return make(OPTIONS)


def first(reaction: Callable[[Received], Reaction]) -> Script:
    """Return a script that reacts so to the first request and then succeeds."""
    requested = iter([reaction])

    def script(received: Received) -> Reaction:
        return next(requested, succeed)(received)

    return script


def test_answers_come_in_the_order_of_the_requests(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """All three kinds are sent one after the other and answered with what was sent."""
    with FakeBroker() as broker:
        channels.open(broker.registration())
        channels.send(ONE, no_metadata())
        channels.send(ONE, leader_and_isr(assigned("orders", 7, leader_epoch=12)))
        channels.send(ONE, stop_replica(stopped("orders", 7, leader_epoch=12)))
        events = [inbox.next() for _ in range(3)]
    assert [type(e) for e in events] == [
        UpdateMetadataAnswered,
        LeaderAndIsrAnswered,
        StopReplicaAnswered,
    ]
    assert isinstance(events[1], LeaderAndIsrAnswered)
    assert events[1].results[0] == (("orders", 7), 12, 0)
    assert not events[1].resent
    received = [broker.received.get(timeout=WAIT_S) for _ in range(3)]
    assert [(r.api_key, r.version) for r in received] == [(6, 6), (4, 4), (5, 3)]


def test_request_carries_the_ids_of_both_ends(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """Controller id, controller epoch, and the epoch of the broker the channel was opened with."""
    with FakeBroker() as broker:
        channels.open(broker.registration(epoch=4711))
        channels.send(ONE, leader_and_isr())
        event = inbox.next()
        message = broker.received.get(timeout=WAIT_S).message
    assert (message.controller_id, message.controller_epoch) == (1_000_000, 17)
    assert message.broker_epoch == 4711
    assert isinstance(event, LeaderAndIsrAnswered)
    assert event.broker_epoch == 4711


def test_second_request_waits_for_the_answer_to_the_first(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """Never are two requests in flight to one broker."""
    released = threading.Event()
    hold = first(lambda received: Hold(released, Answer(success(received))))
    with FakeBroker(script=hold) as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        channels.send(ONE, no_metadata())
        assert broker.received.get(timeout=WAIT_S).api_key == 4
        assert broker.received.empty()
        released.set()
        assert isinstance(inbox.next(), LeaderAndIsrAnswered)
        assert isinstance(inbox.next(), UpdateMetadataAnswered)


def test_same_request_is_sent_again_after_a_lost_connection(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """The broker may have seen it before, so the answer says that it was resent."""
    with FakeBroker(script=first(lambda _: Drop())) as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        event = inbox.next()
        sent = [broker.received.get(timeout=WAIT_S).message for _ in range(2)]
    assert isinstance(event, LeaderAndIsrAnswered)
    assert event.resent
    assert event.took_s >= 0.0005
    assert sent[0].encode() == sent[1].encode()
    assert broker.connections == 2


def test_only_the_request_in_flight_counts_as_resent(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """The request behind a resent one is new to the broker."""
    with FakeBroker(script=first(lambda _: Drop())) as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        channels.send(ONE, stop_replica())
        events = [inbox.next(), inbox.next()]
    assert [getattr(e, "resent", None) for e in events] == [True, False]


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00", b"\xff" * 40, b"\x00\x00\xff\xff\xff\xff\x7f", b"\x00\x00\x02\x05a"],
)
def test_answer_that_makes_no_sense_is_requested_again(
    channels: BrokerChannels, inbox: CollectingInbox, body: bytes
) -> None:
    """Garbage is a lost connection, neither an answer nor an error that escapes."""
    with FakeBroker(script=first(lambda _: Garbage(body))) as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        event = inbox.next()
    assert isinstance(event, LeaderAndIsrAnswered)
    assert (event.error, event.resent) == (0, True)
    assert [r.error for r in event.results] == [0]


def test_request_that_times_out_is_sent_again(make: Channels, inbox: CollectingInbox) -> None:
    """A broker that does not answer in time is asked again on a new connection."""
    released = threading.Event()
    hold = first(lambda received: Hold(released, Answer(success(received))))
    impatient = replace(OPTIONS, limits=ConnectionLimits(request_timeout_s=0.05))
    with FakeBroker(script=hold) as broker:
        channels = make(impatient)
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        event = inbox.next()
        released.set()
    assert isinstance(event, LeaderAndIsrAnswered)
    assert event.resent


def test_idle_channel_reconnects_and_sends(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """A connection lost between two requests costs nothing, and nothing counts as resent."""
    with FakeBroker() as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        inbox.next()
        broker.disconnect()
        channels.send(ONE, leader_and_isr())
        event = inbox.next()
        received = [broker.received.get(timeout=WAIT_S) for _ in range(2)]
    assert isinstance(event, LeaderAndIsrAnswered)
    assert len(received) == 2


def test_errors_of_single_partitions_are_reported(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """A broker's refusal of one partition arrives beside the success of another."""

    def refuse_one(received: Received) -> Reaction:
        rows = [("orders", 0, 0), ("orders", 1, 56)]
        return Answer(LeaderAndIsrResponse(version=received.version, partition_errors=rows))

    with FakeBroker(script=refuse_one) as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr(assigned(partition=0), assigned(partition=1)))
        event = inbox.next()
    assert isinstance(event, LeaderAndIsrAnswered)
    assert [(r.partition.partition, r.error) for r in event.results] == [(0, 0), (1, 56)]


@pytest.mark.parametrize("how", ["close", "close_all", "replace"])
def test_closed_channel_delivers_and_sends_nothing_more(
    channels: BrokerChannels, inbox: CollectingInbox, how: str
) -> None:
    """The answer in flight is lost, the request behind it never sent."""
    released = threading.Event()
    hold = first(lambda received: Hold(released, Answer(success(received))))
    with FakeBroker(script=hold) as broker:
        channels.open(broker.registration(epoch=100))
        channels.send(ONE, leader_and_isr())
        channels.send(ONE, no_metadata())
        broker.received.get(timeout=WAIT_S)
        if how == "close":
            channels.close(ONE)
        elif how == "close_all":
            channels.close_all()
        channels.open(broker.registration(epoch=101))
        released.set()
        channels.send(ONE, stop_replica())
        event = inbox.next()
        after = broker.received.get(timeout=WAIT_S)
    assert isinstance(event, StopReplicaAnswered)
    assert event.broker_epoch == BrokerEpoch(101)
    assert after.api_key == 5
    assert inbox.events.empty()
    assert broker.received.empty()


def test_nothing_is_sent_while_the_session_may_have_expired(
    make: Channels, inbox: CollectingInbox
) -> None:
    """The request waits, is sent once the session certainly lives, and does not count as resent."""
    allowed, requested = threading.Event(), threading.Semaphore(0)

    def may_send() -> bool:
        requested.release()
        return allowed.is_set()

    channels = make(replace(OPTIONS, may_send=may_send))
    with FakeBroker() as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        for _ in range(3):
            assert requested.acquire(timeout=WAIT_S)
        assert broker.received.empty()
        allowed.set()
        event = inbox.next()
    assert isinstance(event, LeaderAndIsrAnswered)
    assert not event.resent


def test_opening_again_with_the_same_epoch_keeps_the_request_in_flight(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """A broker whose registration changed without a restart keeps its channel."""
    released = threading.Event()
    hold = first(lambda received: Hold(released, Answer(success(received))))
    with FakeBroker(script=hold) as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        broker.received.get(timeout=WAIT_S)
        channels.open(broker.registration())
        released.set()
        assert isinstance(inbox.next(), LeaderAndIsrAnswered)
    assert broker.connections == 1


def test_new_endpoint_counts_from_the_next_connection_on(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """A broker that moved to another port is found there once the old connection ends."""
    with FakeBroker(script=lambda _: Drop()) as before, FakeBroker() as after:
        channels.open(before.registration())
        channels.send(ONE, leader_and_isr())
        before.received.get(timeout=WAIT_S)
        channels.open(after.registration())
        assert isinstance(inbox.next(), LeaderAndIsrAnswered)
        assert after.received.get(timeout=WAIT_S).api_key == 4


def test_request_to_an_unknown_broker_is_ignored(channels: BrokerChannels) -> None:
    """The broker is gone, and an event says so elsewhere."""
    channels.send(BrokerId(9), no_metadata())
    channels.close(BrokerId(9))
    assert channels.describe() == {}


def test_broker_that_comes_up_later_is_reached(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """The channel keeps trying, and what waited is sent once."""
    with FakeBroker() as gone:
        registration = gone.registration()
    channels.open(registration)
    channels.send(ONE, leader_and_isr())
    state = eventually(channels, lambda s: s.last_error is not None)
    assert not state.connected
    assert len(channels._channels[ONE]._requests) == 1
    with FakeBroker() as broker:
        channels.open(broker.registration())
        event = inbox.next()
    assert isinstance(event, LeaderAndIsrAnswered)
    assert not event.resent


def test_a_channel_reports_why_it_has_no_connection(make: Channels) -> None:
    """A listener that does not exist is a reason to show, not an error that escapes."""
    channels = make(
        replace(
            OPTIONS,
            connections=ConnectionSettings(
                listeners=ListenerChoice(control_plane_listener="CONTROL")
            ),
        )
    )
    with FakeBroker() as broker:
        channels.open(broker.registration())
        state = eventually(channels, lambda s: s.last_error is not None)
    assert state.last_error == "broker 1 has no listener named CONTROL"


@pytest.mark.parametrize("host", ["", "no such host.invalid", "x" * 300, "bro\x00ker"])
def test_host_that_makes_no_sense_is_a_reason(channels: BrokerChannels, host: str) -> None:
    """A registration with a broken host name leaves the channel unconnected, and says why."""
    endpoint = Endpoint("PLAINTEXT", host, 1, "PLAINTEXT")
    channels.open(LiveBroker(ONE, BrokerEpoch(1), (endpoint,)))
    state = eventually(channels, lambda s: s.last_error is not None)
    assert not state.connected


@pytest.mark.parametrize("port", [-1, 0, 70_000, 2**40, 2**80])
def test_port_that_makes_no_sense_is_a_reason(channels: BrokerChannels, port: int) -> None:
    """So does a broken port."""
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT")
    channels.open(LiveBroker(ONE, BrokerEpoch(1), (endpoint,)))
    state = eventually(channels, lambda s: s.last_error is not None)
    assert not state.connected
    assert channels.is_alive


def test_channel_shows_that_it_is_connected(channels: BrokerChannels) -> None:
    """From any thread."""
    with FakeBroker() as broker:
        channels.open(broker.registration(epoch=7))
        eventually(channels, lambda s: s.connected)


def test_broker_out_of_reach_is_named_after_a_while(channels: BrokerChannels) -> None:
    """With the reason; one that is connected, or was given up, is not."""
    with FakeBroker() as broker:
        gone = broker.registration()
    with FakeBroker(2) as there:
        channels.open(gone)
        channels.open(there.registration())
        eventually(channels, lambda state: state.last_error is not None)
        eventually(channels, lambda state: state.connected, BrokerId(2))
        assert channels.unreachable(60.0) == {}
        assert list(channels.unreachable(0.0)) == [ONE]
        assert channels.unreachable(0.0)[ONE]
    channels.close_all()
    assert channels.unreachable(0.0) == {}


def test_broker_without_a_common_version_is_answered_for(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """The channel does not wait for a broker without the version: the error is Kafka's code."""
    with FakeBroker(understood={**KAFKA_2_6, 4: (6, 7)}) as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr())
        event = inbox.next()
        assert broker.received.empty()
        last_error = channels.describe()[ONE].last_error
    assert isinstance(event, LeaderAndIsrAnswered)
    assert event.error == 35
    assert last_error is not None
    assert "no common version" in last_error


def test_request_that_cannot_be_encoded_is_answered_with_an_error(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """Garbage from a znode neither stops the channel nor reaches the broker."""
    with FakeBroker() as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr(assigned(leader_epoch=2**40)))
        channels.send(ONE, leader_and_isr())
        events = [inbox.next(), inbox.next()]
    assert [getattr(e, "error", None) for e in events] == [-1, 0]


def test_two_thousand_partitions_fit_in_one_request(
    channels: BrokerChannels, inbox: CollectingInbox
) -> None:
    """The largest request a turn makes is answered partition by partition."""
    states = [assigned(f"topic-{n // 50}", n % 50) for n in range(2_000)]
    with FakeBroker() as broker:
        channels.open(broker.registration())
        channels.send(ONE, leader_and_isr(*states))
        event = inbox.next()
    assert isinstance(event, LeaderAndIsrAnswered)
    assert [r.partition for r in event.results] == [s.partition for s in states]
    assert {r.error for r in event.results} == {0}


def eventually(
    channels: BrokerChannels, holds: Callable[[ChannelState], bool], broker: BrokerId = ONE
) -> ChannelState:
    """Return the channel's state as soon as it is so."""
    patience = threading.Event()
    for _ in range(int(WAIT_S * 1000)):
        state = channels.describe()[broker]
        if holds(state):
            return state
        patience.wait(0.001)
    raise AssertionError(f"never came to be: {channels.describe()}")
