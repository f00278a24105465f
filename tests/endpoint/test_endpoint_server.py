"""The endpoint server answers what is valid, closes what is not, and keeps its limits."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack
from functools import partial

import pytest
from kafka.protocol.api_key import ApiKey

from controller import kafka_errors
from controller.async_server import STOP_S
from controller.brokers import messages
from controller.core.calls import broker_requests
from controller.core.calls.broker_requests import (
    AlterPartition,
    ControlledShutdownAnswer,
    IsrResult,
)
from controller.core.model import BrokerId, LeaderEpoch, ZkVersion
from controller.endpoint import codec
from controller.endpoint.broker_service import BrokerService, Tickets
from controller.endpoint.endpoint_server import EndpointServer
from controller.endpoint.peers import SMALL_FRAME, EndpointLimits
from controller.errors import InvalidInputError
from controller.setting_values import HttpAddress
from tests.endpoint.requests import frame_of, request_frame
from tests.endpoint.serving import WITHIN_S, Counts, Loop, answer_of, eventually, framed, serving

ALTER = framed(request_frame(ApiKey.AlterPartition, 0))
HELLO = framed(request_frame(ApiKey.ApiVersions, 3))
VERSIONS_WITH_TAG = request_frame(ApiKey.ApiVersions, 3)[:-1] + b"\x01\x00\x80\x80\x04"
"""An ApiVersions that ends with an unknown tagged field of ``SMALL_FRAME`` bytes, without these."""


def idle() -> BrokerService:
    """Return a service without a loop."""
    return BrokerService(Tickets(Loop(lambda _: None)), Counts())


def error_of(answer: bytes) -> int:
    """Return the error of an AlterPartition answer v0: after correlation id, tags and throttle."""
    return int(struct.unpack_from(">h", answer, 4 + 1 + 4)[0])


def test_a_request_reaches_the_loop_and_its_answer_the_broker() -> None:
    """One event with the decoded request; the answer has the correlation id of the request."""
    with serving() as served, served.connect() as broker:
        broker.sendall(ALTER)
        answer = answer_of(broker)
        assert struct.unpack_from(">i", answer)[0] == 77
        assert error_of(answer) == kafka_errors.NONE
        (requested,) = served.loop.requested
        assert isinstance(requested.request, AlterPartition)
        assert served.counts.answered == {("AlterPartition", "answered"): 1}


def test_api_versions_lists_what_is_served() -> None:
    """SASL is not, without mechanisms; an unknown version is answered, and the peer asks again."""
    with serving() as served, served.connect() as broker:
        broker.sendall(framed(request_frame(ApiKey.ApiVersions, 0)))
        _, error, count = struct.unpack_from(">ihi", answer := answer_of(broker))
        assert error == 0
        keys = [struct.unpack_from(">hhh", answer, 10 + 6 * n) for n in range(count)]
        assert keys == [(7, 1, 3), (18, 0, 3), (56, 0, 3), (67, 0, 0)]
        later = bytearray(HELLO)
        later[6:8] = struct.pack(">h", 4)
        broker.sendall(later)
        assert struct.unpack_from(">ih", answer_of(broker)) == (77, 35)
        broker.sendall(HELLO)
        assert struct.unpack_from(">ih", answer_of(broker)) == (77, 0)


def test_the_next_request_waits_until_the_one_before_is_answered() -> None:
    """A peer that sends without waiting has one request in the loop, and answers in order."""
    with serving(answer=lambda _: None) as served, served.connect() as broker:
        broker.sendall(ALTER * 3)
        eventually(lambda: served.loop.requested)
        time.sleep(0.1)
        assert len(served.loop.requested) == 1
        for n in range(3):
            eventually(partial(served.loop.has_received, n + 1))
            requested = served.loop.requested[n]
            served.tickets.respond(requested.ticket, broker_requests.AlterPartitionAnswer(n))
            assert error_of(answer_of(broker)) == n


def test_a_peer_that_comes_before_it_is_served_is_refused() -> None:
    """It would wait for an answer while the daemon waits for ZooKeeper."""
    server = EndpointServer(HttpAddress("127.0.0.1", 0), idle(), Counts())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.address, timeout=WITHIN_S)
    server.start()
    with socket.create_connection(server.address, timeout=WITHIN_S) as peer:
        peer.sendall(HELLO)
        assert answer_of(peer)
    server.stop()


def test_two_servers_cannot_have_one_address() -> None:
    """The address of one that does not listen yet can be taken: the second start fails."""
    first = EndpointServer(HttpAddress("127.0.0.1", 0), idle(), Counts())
    second = EndpointServer(first.address, idle(), Counts())
    first.start()
    with pytest.raises(InvalidInputError, match="endpoint_listen: cannot listen on"):
        second.start()
    with pytest.raises(InvalidInputError, match="endpoint_listen: cannot listen on"):
        EndpointServer(first.address, idle(), Counts())
    first.stop()
    second.stop()


def test_who_waits_when_the_role_ends_is_answered_not_controller() -> None:
    """The late answer to the same request is dropped: a second one would stop the broker."""
    with serving(answer=lambda _: None) as served, served.connect() as broker:
        broker.sendall(ALTER)
        eventually(lambda: served.loop.requested)
        served.tickets.refuse_all()
        assert error_of(answer_of(broker)) == kafka_errors.NOT_CONTROLLER
        served.tickets.respond(1, broker_requests.AlterPartitionAnswer(0))
        broker.sendall(HELLO)
        assert struct.unpack_from(">ih", answer_of(broker)) == (77, 0)


def test_a_loop_that_does_not_answer_in_time_is_no_controller() -> None:
    """The broker sends its request again."""
    with serving(answer=lambda _: None, answer_s=0.05) as served, served.connect() as broker:
        broker.sendall(ALTER)
        assert error_of(answer_of(broker)) == kafka_errors.NOT_CONTROLLER


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", codec.FRAME_MAX + 1),
        framed(VERSIONS_WITH_TAG + bytes(SMALL_FRAME)),
        framed(b"\x00"),
        framed(request_frame(ApiKey.AlterPartition, 0) + b"\x00"),
        framed(struct.pack(">hhih", 3, 9, 1, -1)),
        framed(struct.pack(">hhih", 7, 0, 1, -1)),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=[
        "negative",
        "empty",
        "too long",
        "long ApiVersions",
        "short",
        "longer than itself",
        "unserved",
        "old",
        "http",
    ],
)
def test_anything_else_closes_the_connection_without_a_byte(sent: bytes) -> None:
    """An error answer could stop a broker; a closed connection makes it connect again."""
    with serving() as served, served.connect() as broker:
        broker.sendall(sent)
        assert answer_of(broker) == b""
        assert served.counts.refused == {"protocol": 1}
        assert not served.loop.requested
        with served.connect() as other:
            other.sendall(HELLO)
            assert answer_of(other)


def test_an_answer_that_does_not_fit_its_request_closes_the_connection() -> None:
    """Never a guess."""
    with serving(answer=lambda _: ControlledShutdownAnswer(0)) as served:
        with served.connect() as broker:
            broker.sendall(ALTER)
            assert answer_of(broker) == b""
        assert served.counts.refused == {"protocol": 1}


@pytest.mark.parametrize("sent", [b"", b"\x00", ALTER[:-1]], ids=["nothing", "one byte", "most"])
def test_a_slow_peer_is_closed(sent: bytes) -> None:
    """Before its first request, and in the middle of one."""
    limits = EndpointLimits(unauthenticated_s=0.1, frame_s=0.1)
    with serving(limits=limits) as served, served.connect() as broker:
        broker.sendall(sent)
        assert answer_of(broker) == b""
        assert served.counts.refused == {"slow": 1}


def test_a_peer_that_does_not_read_its_answer_is_closed_and_delays_no_other() -> None:
    """The answer is longer than what the kernel keeps for a connection."""
    isr = (BrokerId(1),) * 4_000_000
    state = IsrResult("t", None, 0, 0, BrokerId(1), LeaderEpoch(1), isr, 0, ZkVersion(1))
    long = broker_requests.AlterPartitionAnswer(0, (state,))
    with serving(lambda _: long, EndpointLimits(frame_s=2.0)) as served, served.connect() as broker:
        broker.sendall(ALTER)
        eventually(lambda: served.counts.answered)
        with served.connect() as other:
            other.sendall(HELLO)
            assert answer_of(other)
            assert served.counts.refused == {}
        eventually(lambda: served.counts.refused == {"slow": 1})
        eventually(lambda: served.counts.open == 0)


def test_an_idle_peer_is_closed_after_its_first_request() -> None:
    """The limit of an idle connection follows the one before authentication."""
    with serving(limits=EndpointLimits(idle_s=0.1)) as served, served.connect() as broker:
        broker.sendall(HELLO)
        assert answer_of(broker)
        assert answer_of(broker) == b""
        assert served.counts.refused == {"slow": 1}


def test_one_connection_too_many_closes_the_one_that_is_idle_longest() -> None:
    """So that brokers get through however many connect."""
    with serving(limits=EndpointLimits(connections_max=3)) as served:
        peers = [served.connect() for _ in range(3)]
        for peer in peers:
            peer.sendall(HELLO)
            assert answer_of(peer)
        peers[0].sendall(HELLO)
        assert answer_of(peers[0])
        with served.connect() as late:
            late.sendall(HELLO)
            assert answer_of(late)
        assert answer_of(peers[1]) == b""
        assert served.counts.refused == {"crowded": 1}
        for peer in (peers[0], peers[2]):
            peer.sendall(HELLO)
            assert answer_of(peer)
        for peer in peers:
            peer.close()
        eventually(lambda: served.counts.open == 0)


@pytest.mark.parametrize("is_answered", [True, False])
def test_silent_peers_do_not_close_connections_that_are_in_use(*, is_answered: bool) -> None:
    """Each has an address of its own, and a broker has two connections."""
    response = broker_requests.AlterPartitionAnswer(0)
    with (
        serving(
            lambda _: response if is_answered else None, EndpointLimits(connections_max=4)
        ) as served,
        ExitStack() as connections,
    ):
        brokers = [connections.enter_context(served.connect()) for _ in range(2)]
        for number, broker in enumerate(brokers):
            broker.sendall(ALTER)
            eventually(partial(served.loop.has_received, number + 1))
            if is_answered:
                assert answer_of(broker)
        for number in range(10):
            address = (f"127.0.1.{number + 1}", 0)
            connections.enter_context(
                socket.create_connection(served.server.address, WITHIN_S, source_address=address)
            )
        eventually(lambda: served.counts.refused == {"crowded": 8})
        for broker, requested in zip(brokers, tuple(served.loop.requested), strict=True):
            if is_answered:
                broker.sendall(ALTER)
            else:
                served.tickets.respond(requested.ticket, response)
            assert answer_of(broker)


def long_request() -> bytes:
    """Return an AlterPartition of about 100 kB."""
    rows = [(partition, 5, [1, 2], 41) for partition in range(4000)]
    return frame_of(
        messages.AlterPartitionRequest(
            version=0, broker_id=4, broker_epoch=1, topics=[("orders", rows)]
        )
    )


def partly_sent(sent: int, connection: socket.socket) -> None:
    """Send so many bytes of a frame that is longer, and give them time to arrive."""
    connection.sendall(struct.pack(">i", codec.FRAME_MAX) + bytes(sent))
    time.sleep(0.1)


def test_silent_peers_take_no_memory_from_a_long_request() -> None:
    """A length that is announced is none that arrives."""
    with serving(limits=EndpointLimits(frames_bytes=150_000)) as served, ExitStack() as connections:
        for _ in range(8):
            partly_sent(1, connections.enter_context(served.connect()))
        broker = connections.enter_context(served.connect())
        broker.sendall(framed(long_request()))
        assert error_of(answer_of(broker)) == kafka_errors.NONE
        assert not served.counts.refused


def test_long_frames_share_a_limited_memory() -> None:
    """What does not fit closes its connection; the memory is free again with the next frame."""
    with serving(limits=EndpointLimits(frames_bytes=100_000)) as served:
        with served.connect() as first, served.connect() as second:
            partly_sent(140_000, first)
            partly_sent(140_000, second)
            assert answer_of(second) == b""
            assert served.counts.refused == {"protocol": 1}
        eventually(lambda: served.counts.open == 0)
        with served.connect() as third:
            for _ in range(5):
                third.sendall(framed(long_request()))
                assert error_of(answer_of(third)) == kafka_errors.NONE


def test_one_address_takes_a_part_of_the_memory() -> None:
    """The rest is for the others."""
    with serving(limits=EndpointLimits(address_bytes=80_000)) as served:
        with served.connect() as first, served.connect() as second:
            partly_sent(140_000, first)
            second.sendall(framed(long_request()))
            assert answer_of(second) == b""
            with socket.create_connection(
                served.server.address, WITHIN_S, source_address=("127.0.0.2", 0)
            ) as other:
                other.sendall(framed(long_request()))
                assert error_of(answer_of(other)) == kafka_errors.NONE
        eventually(lambda: served.counts.open == 0)
        with served.connect() as third:
            third.sendall(framed(long_request()))
            assert error_of(answer_of(third)) == kafka_errors.NONE


def test_a_peer_that_hangs_up_while_the_loop_thinks_harms_nobody() -> None:
    """Its answer is dropped."""
    with serving(answer=lambda _: None) as served:
        with served.connect() as broker:
            broker.sendall(ALTER)
            eventually(lambda: served.loop.requested)
        served.tickets.respond(1, broker_requests.AlterPartitionAnswer(0))
        eventually(lambda: served.counts.open == 0)
        assert not served.counts.refused


def test_open_connections_do_not_delay_the_end() -> None:
    """They are closed: a peer that waits for an answer connects to the next controller."""
    with (
        serving(answer=lambda _: None) as served,
        served.connect() as idle,
        served.connect() as waiting,
    ):
        waiting.sendall(ALTER)
        eventually(lambda: served.loop.requested)
        began = time.monotonic()
        served.server.stop()
        assert time.monotonic() - began < STOP_S / 2
        assert not served.server.is_alive
        assert answer_of(waiting) == answer_of(idle) == b""


def test_an_address_in_use_is_refused() -> None:
    """With the setting that named it."""
    with serving() as served, pytest.raises(InvalidInputError, match="endpoint_listen"):
        EndpointServer(served.server.address, idle(), served.counts)
