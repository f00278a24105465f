"""Clients get a broker's answers, and the daemon's where only the controller can answer."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, cast

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

from controller.brokers import messages
from controller.brokers.broker_follower import BrokerFollower
from controller.brokers.topic_validation import TopicValidation
from controller.core.calls import client_requests
from controller.core.calls.broker_requests import AlterPartitionAnswer
from controller.core.calls.client_requests import (
    AlterReassignments,
    AlterReassignmentsAnswer,
    CedeRole,
    CedeRoleAnswer,
    ClientAnswer,
    EffectiveConfig,
    ElectLeaders,
    PartitionResult,
    TopicDefaults,
)
from controller.core.calls.records import BrokerRequestReceived, ClientRequestReceived
from controller.core.model import BrokerId, ControllerEpoch, TopicPartition, Zxid
from controller.core.records import Event
from controller.core.topics.model import TopicSettings
from controller.endpoint import client_codec, codec, relayed_frames, topic_codec
from controller.endpoint.authentication import Authentication
from controller.endpoint.broker_service import FIRST, BrokerService, Tickets
from controller.endpoint.client_service import ClientService
from controller.endpoint.endpoint_server import EndpointServer
from controller.endpoint.peers import SMALL_FRAME, EndpointLimits, FrameMemory
from controller.endpoint.relay import Relay, Upstream
from controller.endpoint.topic_service import PATIENCE_S, TopicService
from controller.kafka_errors import NOT_CONTROLLER, STALE_CONTROLLER_EPOCH
from controller.setting_values import HttpAddress
from tests.endpoint.fake_broker import LISTENER, FakeBroker, fake_broker
from tests.endpoint.requests import frame_of, request_frame
from tests.endpoint.serving import (
    WITHIN_S,
    Counts,
    answer_of,
    eventually,
    framed,
)

OWN_ID = 1_000_000
CREATE, ALTER = 5, 7
"""Operations (``AclOperation``)."""
RELAYED_KEY: Final = int(ApiKey.DescribeCluster)
"""A request that brokers answer; if the daemon answers it, tests of the relay need another."""
RELAYED: Final = struct.pack(">hhih", RELAYED_KEY, 0, 9, -1)


class RelayedCall:
    """The inbox of a loop that answers at once, or leaves that to the test."""

    def __init__(self, answer: Callable[[Event], object], *, is_answering: bool = True) -> None:
        self.events: list[BrokerRequestReceived | ClientRequestReceived] = []
        self.tickets: Tickets | None = None
        self._answer = answer
        self._is_answering = is_answering

    def put(self, event: Event) -> None:
        """Take a request and answer it."""
        assert isinstance(event, BrokerRequestReceived | ClientRequestReceived)
        self.events.append(event)
        assert self.tickets is not None
        if self._is_answering:
            self.tickets.respond(event.ticket, self._answer(event))  # type: ignore[arg-type]


@dataclass
class FakeValidation:
    """What brokers say of topics; they have a policy by default."""

    found: TopicDefaults | None
    problems: Mapping[TopicSettings, str] | None = field(default_factory=dict)
    requested: list[TopicSettings] = field(default_factory=list)
    deletions: bool | None = None
    shown: tuple[EffectiveConfig, ...] | None = None
    """What they say of the settings of each new topic."""

    def defaults(self) -> TopicDefaults | None:
        """Return their defaults."""
        return self.found

    def config_problems(
        self, wanted: Collection[TopicSettings]
    ) -> Mapping[TopicSettings, str] | None:
        """Return why they reject settings."""
        self.requested += wanted
        return self.problems

    def described(
        self, wanted: Collection[TopicSettings]
    ) -> Mapping[TopicSettings, tuple[EffectiveConfig, ...]] | None:
        """Return what settings new topics would have."""
        return None if self.shown is None else dict.fromkeys(wanted, self.shown)

    def is_deletion_enabled(self) -> bool | None:
        """Return whether they delete topics."""
        return self.deletions


@dataclass
class Listed:
    """The topics that exist."""

    topics: frozenset[str] = frozenset()
    names_by_id: Mapping[str, str] = field(default_factory=dict)
    created: dict[str, int] = field(default_factory=dict)

    def exists(self, name: str, czxid: Zxid) -> bool:
        """Return whether this very topic exists."""
        return name in self.topics and self.created.get(name, czxid) == czxid


def topic_service(
    tickets: Tickets, validation: FakeValidation, listed: Listed, patience_s: float = PATIENCE_S
) -> TopicService:
    """Return the service in front of such brokers and topics."""
    brokers = cast("TopicValidation", validation)
    return TopicService(tickets, brokers, cast("BrokerFollower", listed), patience_s=patience_s)


@dataclass
class Public:
    """A server for clients, and the brokers behind it."""

    server: EndpointServer
    loop: RelayedCall
    counts: Counts
    brokers: list[FakeBroker]
    relay: Relay
    tickets: Tickets

    def serve(self, epoch: ControllerEpoch = FIRST) -> None:
        """Take the role."""
        self.tickets.serve(epoch)

    def lose(self) -> None:
        """Lose the role."""
        self.tickets.refuse_all()

    def exchange(self, *frames: bytes) -> list[bytes]:
        """Send requests over one connection and return the answers; empty where it is closed."""
        with socket.create_connection(self.server.address, timeout=WITHIN_S) as client:
            answers = []
            for frame in frames:
                client.sendall(framed(frame))
                answers.append(answer_of(client))
            return answers


@contextmanager
def public(
    *brokers: Callable[[codec.RequestHeader, bytes], bytes | None],
    answer: Callable[[Event], object] = lambda _: None,
    is_sasl: bool = False,
    limits: EndpointLimits | None = None,
    validation: FakeValidation | None = None,
    listed: Listed | None = None,
    is_held: bool = True,
    is_answering: bool = True,
) -> Iterator[Public]:
    """Run a server in front of brokers that answer so."""
    with ExitStack() as running:
        behind = [running.enter_context(fake_broker(b, n + 1)) for n, b in enumerate(brokers)]
        counts, loop = Counts(), RelayedCall(answer, is_answering=is_answering)
        tickets = loop.tickets = Tickets(loop)
        relay = Relay(LISTENER, FrameMemory(2**20))
        relay.update_brokers(b.registration for b in behind)
        service = ClientService(
            BrokerId(OWN_ID),
            relay,
            tickets,
            BrokerService(tickets, counts),
            topic_service(tickets, validation or FakeValidation(None), listed or Listed()),
            counts,
            is_sasl=is_sasl,
        )
        server = EndpointServer(
            HttpAddress("127.0.0.1", 0),
            service,
            counts,
            limits=limits,
            authentication=Authentication(is_relayed=is_sasl),
        )
        tickets.post = server.post
        server.start()
        running.callback(server.stop)
        if is_held:
            tickets.serve()
        yield Public(server, loop, counts, behind, relay, tickets)


def answering(header: codec.RequestHeader, body: ApiMessage) -> bytes:
    """Return a broker's answer, without its length."""
    return codec.respond(header, body)[4:]


def alter_request() -> bytes:
    """Return a request to reassign a partition."""
    topics = [("t", [(0, [3, 4])])]
    return frame_of(AlterPartitionReassignmentsRequest(version=0, timeout_ms=1, topics=topics))


def altered(header: codec.RequestHeader, error: int) -> bytes:
    """Return a broker's answer to it."""
    return answering(
        header,
        AlterPartitionReassignmentsResponse(
            version=0, throttle_time_ms=0, error_code=error, error_message=None, responses=[]
        ),
    )


def seen(header: codec.RequestHeader, controller: int, *operations: int) -> bytes:
    """Return a broker's Metadata."""
    return answering(
        header,
        MetadataResponse(
            version=relayed_frames.METADATA_VERSION,
            throttle_time_ms=0,
            brokers=[],
            cluster_id="c",
            controller_id=controller,
            topics=[],
            authorized_operations=set(operations) or None,
        ),
    )


def test_whatever_is_not_known_is_relayed_byte_for_byte() -> None:
    """Over one connection for each client; it ends with the client's."""
    with public(lambda _, frame: frame[4:8] + frame[::-1]) as served:
        sent = RELAYED + b"any body"
        assert served.exchange(sent, sent) == [sent[4:8] + sent[::-1]] * 2
        (broker,) = served.brokers
        assert broker.frames == [sent, sent]
        assert broker.connections == 1
        assert not served.loop.events


@pytest.mark.parametrize("key", [0, 4, 5, 6, 58, -1])
def test_what_no_client_sends_here_closes_the_connection(key: int) -> None:
    """Produce may expect no answer; the others are between brokers and controllers."""
    with public(lambda _, frame: frame) as served:
        assert served.exchange(struct.pack(">hhih", key, 0, 9, -1)) == [b""]
        assert not served.brokers[0].frames


def test_answer_to_another_request_closes_the_connection() -> None:
    """A broker, or what is in its place, is out of step."""
    with public(lambda _h, _f: b"\x00\x00\x00\x01") as served:
        assert served.exchange(RELAYED) == [b""]


def test_broker_that_cannot_be_reached_is_passed_over() -> None:
    """Every client gets a live one."""
    with public(lambda _, frame: frame[4:8], lambda _, frame: frame[4:8]) as served:
        gone = served.brokers[0].registration
        relay = served.relay
        with fake_broker(lambda _h, _f: None, 3) as third:
            dead = third.registration
        relay.update_brokers([gone, dead])
        sent = RELAYED
        for _ in range(4):
            assert served.exchange(sent) == [sent[4:8]]


def test_broker_that_hangs_is_given_up_soon() -> None:
    """It accepts connections; the client connects again and gets another broker."""
    hangs = threading.Event()

    def hanging(_header: codec.RequestHeader, _frame: bytes) -> None:
        hangs.wait(WITHIN_S)

    with public(hanging, lambda _, frame: frame[4:8]) as served:
        served.relay.first_s = 0.1
        sent = RELAYED
        found = [served.exchange(sent)[0] for _ in range(2)]
        assert sorted(found) == [b"", sent[4:8]]
        assert served.counts.refused == {"slow": 1}
        hangs.set()


def test_late_answer_is_not_taken_for_that_to_the_next_request() -> None:
    """The daemon's own requests have the same correlation id: rights would be read from it."""
    is_late = threading.Event()

    def late(_header: codec.RequestHeader, frame: bytes) -> bytes:
        is_late.wait(WITHIN_S)
        return frame[4:8] + b"the first one's"

    async def send_twice(relay: Relay) -> None:
        request = relayed_frames.metadata_request()
        upstream = await relay.connected("a client")
        with pytest.raises(TimeoutError):
            await upstream.exchange(request)
        is_late.set()
        upstream.first_s = WITHIN_S
        with pytest.raises(ConnectionError):
            await upstream.exchange(request)

    with fake_broker(late) as broker:
        relay = Relay(LISTENER, FrameMemory(2**20), first_s=0.1)
        relay.update_brokers([broker.registration])
        asyncio.run(send_twice(relay))


def test_connections_of_an_address_lead_to_one_broker_until_it_fails() -> None:
    """What a client was answered over one it finds over another; the addresses are spread."""

    async def found(relay: Relay, *addresses: str) -> list[BrokerId]:
        upstreams = [await relay.connected(address) for address in addresses]
        for upstream in upstreams:
            upstream.close()
        return [upstream.broker for upstream in upstreams]

    async def fail(relay: Relay, address: str) -> None:
        upstream = await relay.connected(address)
        with pytest.raises(TimeoutError):
            await upstream.exchange(relayed_frames.metadata_request())

    async def all_of_it(relay: Relay) -> None:
        addresses = [f"10.0.0.{n}" for n in range(30)]
        first = await found(relay, *addresses)
        assert set(first) == set(relay.brokers)
        assert await found(relay, *addresses) == first
        await fail(relay, addresses[0])
        assert (await found(relay, addresses[0]))[0] != first[0]

    never = threading.Event()

    def silent(_header: codec.RequestHeader, _frame: bytes) -> bytes:
        never.wait(1)
        return b""

    with fake_broker(silent) as one, fake_broker(silent) as two:
        relay = Relay(LISTENER, FrameMemory(2**20), first_s=0.1)
        relay.update_brokers(
            replace(b.registration, id=BrokerId(n)) for n, b in enumerate((one, two), 1)
        )
        asyncio.run(all_of_it(relay))


def test_no_broker_at_all_closes_the_connection() -> None:
    """A client connects to another address then."""
    with public() as served:
        assert served.exchange(RELAYED) == [b""]


def test_answer_that_a_client_does_not_read_takes_no_memory() -> None:
    """It is passed on in parts, and the rest stays with the broker: others get their answers."""
    size = 16 * 2**20  # More than the kernel keeps for a connection.
    sent = RELAYED
    with public(lambda _, frame: frame[4:8] + bytes(size - 4)) as served:
        memory = served.relay.memory = FrameMemory(2**20)
        with ExitStack() as slow:
            unread_ones = [slow.enter_context(unread(served, sent)) for _ in range(3)]
            eventually(lambda: len(served.brokers[0].frames) == 3)
            assert [len(answer) for answer in served.exchange(sent, sent)] == [size, size]
            assert not memory.used
            assert len(answer_of(unread_ones[0])) == size
        assert not served.counts.refused


def test_connection_that_ends_within_an_answer_ends_that_of_the_client() -> None:
    """What is missing cannot be made up; the client asks again."""
    whole = struct.pack(">i", 9) + bytes(3 * SMALL_FRAME)
    sent = RELAYED

    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4 + len(sent))
        writer.write(struct.pack(">i", len(whole)) + whole[:-1])
        writer.close()
        await writer.wait_closed()

    async def send() -> list[bytes]:
        listening = await asyncio.start_server(broken, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        upstream = Upstream(BrokerId(1), reader, writer, FrameMemory(2**20), "a client", 5.0)
        arriving = await upstream.begin(sent)
        parts = aiter(arriving)
        read = [await anext(parts) for _ in range(3)]
        with pytest.raises(ConnectionError):
            await anext(parts)
        upstream.close()
        listening.close()
        return read

    assert b"".join(asyncio.run(send())) == struct.pack(">i", len(whole)) + whole[: 3 * SMALL_FRAME]


def test_answers_of_the_daemon_that_are_not_read_have_a_share_for_each_address() -> None:
    """A client that reads nothing takes none of the others' memory."""
    waiting = [PartitionResult(TopicPartition("t", n), 39, "x" * 100) for n in range(60_000)]
    given = AlterReassignmentsAnswer(0, tuple(waiting))
    size = len(client_codec.encode(codec.header_of(alter_request()), given))
    with public(
        lambda header, _: altered(header, NOT_CONTROLLER), answer=lambda _: given
    ) as served:
        memory = served.relay.memory = FrameMemory(3 * size, size)
        with unread(served, alter_request()):
            eventually(lambda: memory.used > size - 10)
            assert served.exchange(alter_request()) == [b""]
            assert served.counts.refused == {"protocol": 1}
            with socket.create_connection(
                served.server.address, timeout=WITHIN_S, source_address=("127.0.0.2", 0)
            ) as other:
                other.sendall(framed(alter_request()))
                assert len(answer_of(other)) == size - 4
        eventually(lambda: not memory.used)


@contextmanager
def unread(served: Public, frame: bytes) -> Iterator[socket.socket]:
    """Send a request without reading the answer."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(WITHIN_S)
        client.connect(served.server.address)
        client.sendall(framed(frame))
        yield client


@pytest.mark.parametrize("version", range(4))
def test_api_versions_is_the_brokers_within_our_limits(version: int) -> None:
    """What the daemon answers itself is answered in versions that it has."""
    keys = [(43, 0, 3), (45, 0, 1), (46, 0, 0), (3, 0, 12), (56, 0, 9)]

    def broker(header: codec.RequestHeader, _frame: bytes) -> bytes:
        body = ApiVersionsResponse(version=version, error_code=0, api_keys=keys)
        return codec._frame(header, body, flexible_header=False)[4:]

    with public(broker) as served:
        (answer,) = served.exchange(frame_of(ApiVersionsRequest(version=version)))
        body = ApiVersionsResponse.decode(answer[4:], version=version)
        assert [(k.api_key, k.min_version, k.max_version) for k in body.api_keys] == [
            (43, 0, 2),
            (45, 0, 0),
            (46, 0, 0),
            (3, 0, 12),
            (56, 0, 3),
        ]


# --- what the controller answers -----------------------------------------------------------------


def test_daemon_answers_what_a_broker_permits_and_does_not_answer() -> None:
    """The same request went to the broker first: it authorised the client."""
    result = PartitionResult(TopicPartition("t", 0), 39, "why")
    with public(
        lambda header, _: altered(header, NOT_CONTROLLER),
        answer=lambda _: AlterReassignmentsAnswer(0, (result,)),
    ) as served:
        (answer,) = served.exchange(alter_request())
        body = AlterPartitionReassignmentsResponse.decode(answer[5:], version=0)
        row = body.responses[0].partitions[0]
        assert (row.partition_index, row.error_code, row.error_message) == (0, 39, "why")
        (requested,) = served.loop.events
        assert isinstance(requested.request, AlterReassignments)
        assert requested.request.client == "1 at 127.0.0.1"
        assert served.counts.answered == {("AlterPartitionReassignments", "answered"): 1}


@pytest.mark.parametrize("error", [31, 0, -1], ids=["unauthorised", "the controller", "unknown"])
def test_any_other_answer_of_a_broker_is_the_clients(error: int) -> None:
    """It may not ask, or it reached the real controller."""
    with public(lambda header, _: altered(header, error)) as served:
        (answer,) = served.exchange(alter_request())
        body = AlterPartitionReassignmentsResponse.decode(answer[5:], version=0)
        assert body.error_code == error
        assert not served.loop.events


def test_without_the_role_a_client_hears_the_brokers_answer_and_has_to_connect_again() -> None:
    """Another daemon of the same id may have the role, at another address."""
    with public(
        lambda header, _: altered(header, NOT_CONTROLLER),
        answer=lambda _: AlterReassignmentsAnswer(NOT_CONTROLLER),
    ) as served:
        answer, closed = served.exchange(alter_request(), alter_request())
        body = AlterPartitionReassignmentsResponse.decode(answer[5:], version=0)
        assert body.error_code == NOT_CONTROLLER
        assert not closed


def test_brokers_hear_at_once_that_the_role_is_not_here() -> None:
    """Also where the request would reach the controller: they would stay connected."""
    with public(lambda _header, _frame: b"never asked", is_held=False) as served:
        (answer,) = served.exchange(request_frame(ApiKey.AlterPartition, 3))
        body = messages.AlterPartitionResponse.decode(answer[5:], version=3)
        assert body.error_code == NOT_CONTROLLER
        assert not served.loop.events
        assert not served.brokers[0].frames


def test_no_broker_answers_another_in_the_place_of_the_controller() -> None:
    """It may take itself for the controller that it was: what it says is not passed on."""

    def former(header: codec.RequestHeader, _frame: bytes) -> bytes:
        body = messages.AlterPartitionResponse(
            version=header.version, throttle_time_ms=0, error_code=0, topics=[]
        )
        return answering(header, body)

    with public(former) as served:
        assert served.exchange(request_frame(ApiKey.AlterPartition, 3)) == [b""]
        assert not served.loop.events


def test_what_only_kafkas_controller_does_is_refused_soon_where_another_daemon_leads() -> None:
    """Brokers name the id of both: the client has to connect to the other one."""
    cluster = Handover(CREATE)
    with public(cluster.broker(1), answer=cluster.give_back, is_held=False) as served:
        begun = time.monotonic()
        answer, closed = served.exchange(create_request(), create_request())
        assert answer[4:] == b"not controller"
        assert not closed
        assert time.monotonic() - begun < 2
        assert not served.loop.events


def test_client_of_a_broker_that_is_not_the_controller_has_to_connect_again() -> None:
    """Some clients learn the new controller only then."""
    cluster = Handover(CREATE)
    cluster.controller = 2
    with public(cluster.broker(1), answer=cluster.give_back) as served:
        answer, closed = served.exchange(create_request(), create_request())
        assert answer[4:] == b"not controller"
        assert not closed


def test_malformed_request_does_not_reach_the_loop() -> None:
    """A broker, which permits it first, would read something else than the daemon."""
    with public(lambda header, _: altered(header, NOT_CONTROLLER)) as served:
        assert served.exchange(alter_request() + b"\x00") == [b""]
        assert not served.loop.events


# --- rights, at every instant ----------------------------------------------------------------


def judged(header: codec.RequestHeader, error: int) -> bytes:
    """Return a broker's answer to what brokers ask of their controller."""
    if header.api_key == ApiKey.ControlledShutdown:
        error = STALE_CONTROLLER_EPOCH if error == NOT_CONTROLLER else error
        shutdown = messages.ControlledShutdownResponse(
            version=header.version, error_code=error, remaining_partitions=[]
        )
        return answering(header, shutdown)
    if header.api_key == ApiKey.AlterPartitionReassignments:
        return altered(header, error)
    return answering(
        header,
        messages.AlterPartitionResponse(
            version=header.version, throttle_time_ms=0, error_code=error, topics=[]
        ),
    )


def long_change(partitions: int = 50_000) -> bytes:
    """Return a request of a leader that takes long to decode."""
    rows = [(number, 0, [1], 0, 0) for number in range(partitions)]
    return frame_of(
        messages.AlterPartitionRequest(
            version=1, broker_id=1, broker_epoch=1, topics=[("victim", rows)]
        )
    )


@pytest.mark.parametrize(
    "frame", [long_change(), request_frame(ApiKey.ControlledShutdown, 3), alter_request()]
)
def test_request_that_came_before_the_claim_does_not_reach_the_loop_after_it(frame: bytes) -> None:
    """No broker was asked whether the peer may: it is answered at once, and never waits."""
    with public(lambda header, _: judged(header, NOT_CONTROLLER), is_held=False) as served:
        with socket.create_connection(served.server.address, timeout=WITHIN_S) as client:
            client.sendall(framed(frame))
            peers, frames = served.server._connections, served.brokers[0].frames
            eventually(lambda: frames or any(peer.was_served for peer in tuple(peers)))
            served.serve()
            assert answer_of(client)
        time.sleep(0.3)
        assert not served.loop.events


@pytest.mark.parametrize(
    "frame",
    [
        request_frame(ApiKey.AlterPartition, 3),
        request_frame(ApiKey.ControlledShutdown, 3),
        alter_request(),
    ],
)
def test_permission_of_one_tenure_is_void_in_the_next(frame: bytes) -> None:
    """The broker took so long that another claim was made: the peer is to ask again."""
    is_judged = threading.Event()

    def slow(header: codec.RequestHeader, _frame: bytes) -> bytes:
        is_judged.wait(WITHIN_S)
        return judged(header, NOT_CONTROLLER)

    with public(slow) as served:
        with socket.create_connection(served.server.address, timeout=WITHIN_S) as client:
            client.sendall(framed(frame))
            eventually(lambda: served.brokers[0].frames)
            served.lose()
            served.serve(ControllerEpoch(7))
            is_judged.set()
            assert answer_of(client)
        assert not served.loop.events


@pytest.mark.parametrize(
    "frame",
    [long_change(), request_frame(ApiKey.ControlledShutdown, 3), alter_request()],
)
def test_request_without_rights_is_not_decoded(
    frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it costs: a broker refuses it by its first bytes and its connection."""

    def decoded(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(codec, "read_request", decoded)
    for is_held in (True, False):
        with public(lambda header, _: judged(header, 31), is_held=is_held) as served:
            (answer,) = served.exchange(frame)
            assert answer
            assert not served.loop.events


def test_permission_names_the_broker_that_gave_it() -> None:
    """And the tenure, which the loop compares with its own."""
    with public(
        lambda header, _: judged(header, NOT_CONTROLLER),
        answer=lambda _: AlterPartitionAnswer(0),
    ) as served:
        served.exchange(request_frame(ApiKey.AlterPartition, 3))
        (event,) = served.loop.events
        assert event.permission.granted_by == served.brokers[0].id
        assert event.permission.controller_epoch == served.tickets.tenure
        assert event.permission.peer.endswith(" at 127.0.0.1")


@pytest.mark.parametrize("operations", [(), (CREATE,)], ids=["without rights", "with rights"])
def test_long_request_for_topics_is_read_only_with_a_right_on_the_cluster(
    operations: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights on topics are known only after their names are."""
    read: list[bytes] = []

    def noted(frame: bytes) -> tuple[codec.RequestHeader, topic_codec.TopicsWanted]:
        read.append(frame)
        return decode(frame)

    decode = topic_codec.decode
    monkeypatch.setattr(topic_codec, "decode", noted)
    topics: list[object] = [(f"topic-{number}", 1, 1, [], []) for number in range(4_000)]
    request = CreateTopicsRequest(version=2, topics=topics, timeout_ms=1, validate_only=False)
    frame = frame_of(request)
    assert len(frame) > SMALL_FRAME

    def broker(header: codec.RequestHeader, given: bytes) -> bytes:
        if header.api_key == ApiKey.CreateTopics:
            return given[4:8] + b"not controller"
        return seen(header, OWN_ID, *operations)

    with public(broker, answer=lambda _: CedeRoleAnswer(NOT_CONTROLLER)) as served:
        with socket.create_connection(served.server.address, timeout=WITHIN_S) as client:
            client.sendall(framed(frame))
            if operations:
                eventually(lambda: read)
            else:
                assert answer_of(client)[4:] == b"not controller"
        assert read == ([frame] if operations else [])


def test_long_request_delays_no_other_peer() -> None:
    """It is decoded on another thread than the one that serves connections."""
    topics = [("t", [(number, None) for number in range(200_000)])]
    long = frame_of(AlterPartitionReassignmentsRequest(version=0, timeout_ms=1, topics=topics))
    began = time.perf_counter()
    client_codec.decode(long, "c")
    decoding_s = time.perf_counter() - began

    def broker(header: codec.RequestHeader, frame: bytes) -> bytes:
        return altered(header, NOT_CONTROLLER) if frame == long else frame[4:8]

    with (
        public(broker, answer=lambda _: AlterReassignmentsAnswer(0)) as served,
        socket.create_connection(served.server.address, timeout=WITHIN_S) as client,
        socket.create_connection(served.server.address, timeout=WITHIN_S) as other,
    ):
        client.sendall(framed(long))
        waits = []
        while not served.loop.events:
            began = time.perf_counter()
            other.sendall(framed(RELAYED))
            assert answer_of(other)
            waits.append(time.perf_counter() - began)
        assert max(waits) < decoding_s / 2
        assert answer_of(client)


def test_request_for_too_many_topics_closes_the_connection() -> None:
    """No tool creates so many at once, and KRaft permits 10,000."""
    topics: list[object] = [(f"topic-{number}", 1, 1, [], []) for number in range(60_000)]
    request = CreateTopicsRequest(version=2, topics=topics, timeout_ms=1, validate_only=False)
    with public(lambda header, _: seen(header, OWN_ID, CREATE)) as served:
        assert served.exchange(frame_of(request)) == [b""]
        (requested,) = served.brokers[0].frames
        assert codec.header_of(requested).api_key == ApiKey.Metadata
        assert not served.loop.events


@pytest.mark.parametrize("permitted", [True, False])
def test_brokers_are_answered_if_another_broker_permits_their_request(*, permitted: bool) -> None:
    """CLUSTER_ACTION is checked where the rights are known."""

    def broker(header: codec.RequestHeader, _frame: bytes) -> bytes:
        error = NOT_CONTROLLER if permitted else 31
        body = messages.AlterPartitionResponse(
            version=header.version, throttle_time_ms=0, error_code=error, topics=[]
        )
        return answering(header, body)

    with public(broker, answer=lambda _: AlterPartitionAnswer(0)) as served:
        (answer,) = served.exchange(request_frame(ApiKey.AlterPartition, 3))
        found = messages.AlterPartitionResponse.decode(answer[5:], version=3).error_code
        assert found == (0 if permitted else 31)
        assert len(served.loop.events) == int(permitted)


# --- what only Kafka's controller carries out ----------------------------------------------------


def create_request() -> bytes:
    """Return a request to create a topic."""
    topics: list[object] = [("new", 1, 1, [], [])]
    return frame_of(
        CreateTopicsRequest(version=2, topics=topics, timeout_ms=1000, validate_only=False)
    )


class Handover:
    """Two brokers: the second becomes the controller when the role is given back."""

    def __init__(self, *operations: int) -> None:
        self.controller = OWN_ID
        self.operations = operations

    def give_back(self, event: Event) -> CedeRoleAnswer:
        """Answer a CedeRole."""
        assert isinstance(event, ClientRequestReceived)
        assert event.request == CedeRole("CreateTopics")
        self.controller = 2
        return CedeRoleAnswer(NOT_CONTROLLER)

    def broker(self, number: int) -> Callable[[codec.RequestHeader, bytes], bytes]:
        """Return what a broker answers: whether it is the controller, in place of a result."""

        def answer(header: codec.RequestHeader, frame: bytes) -> bytes:
            if header.api_key == 3:
                return seen(header, self.controller, *self.operations)
            verdict = b"created" if self.controller == number else b"not controller"
            return frame[4:8] + verdict

        return answer


def test_role_is_given_back_and_the_new_controller_queried() -> None:
    """The client waits for one answer, which is that of Kafka's controller."""
    cluster = Handover(CREATE)
    with public(cluster.broker(1), cluster.broker(2), answer=cluster.give_back) as served:
        assert served.exchange(create_request())[0][4:] == b"created"
        assert served.counts.answered == {("CreateTopics", "ceded"): 1}


def test_request_of_a_client_that_gave_up_is_not_carried_out() -> None:
    """It asks again by then, and would find its topic there."""
    cluster = Handover(CREATE)
    left = threading.Event()

    def give_back(event: Event) -> CedeRoleAnswer:
        left.wait(WITHIN_S)
        return cluster.give_back(event)

    with public(cluster.broker(1), cluster.broker(2), answer=give_back) as served:
        with socket.create_connection(served.server.address, timeout=WITHIN_S) as client:
            client.sendall(framed(create_request()))
            until = time.monotonic() + WITHIN_S
            while not served.loop.events and time.monotonic() < until:
                time.sleep(0.01)
        left.set()
        time.sleep(0.5)
        requested = [codec.header_of(f).api_key for b in served.brokers for f in b.frames]
        assert set(requested) == {3}


def test_client_without_the_right_moves_no_role() -> None:
    """It gets what a broker says, as if the daemon were not there."""
    cluster = Handover(ALTER)
    with public(cluster.broker(1), cluster.broker(2), answer=cluster.give_back) as served:
        assert served.exchange(create_request())[0][4:] == b"not controller"
        assert not served.loop.events


def test_a_broker_that_is_the_controller_gets_the_request() -> None:
    """The role is not ours: nothing to give back."""
    cluster = Handover(CREATE)
    cluster.controller = 1
    with public(cluster.broker(1), answer=cluster.give_back) as served:
        assert served.exchange(create_request())[0][4:] == b"created"
        assert not served.loop.events


def test_unclean_election_goes_to_the_loop_as_such() -> None:
    """A broker permits it before; it may lose records."""
    rows = [("t", [(0, NOT_CONTROLLER, None)])]

    def broker(header: codec.RequestHeader, _frame: bytes) -> bytes:
        return answering(
            header,
            ElectLeadersResponse(
                version=2, throttle_time_ms=0, error_code=0, replica_election_results=rows
            ),
        )

    def elected(event: Event) -> ClientAnswer:
        assert isinstance(event, ClientRequestReceived)
        partition = TopicPartition("t", 0)
        assert event.request == ElectLeaders((partition,), 1.0, is_unclean=True)
        return client_requests.ElectLeadersAnswer(0, (PartitionResult(partition, 83),))

    unclean = ElectLeadersRequest(
        version=2, election_type=1, topic_partitions=[("t", [0])], timeout_ms=1000
    )
    with public(broker, answer=elected) as served:
        (answer,) = served.exchange(frame_of(unclean))
        body = ElectLeadersResponse.decode(answer[5:], version=2)
        assert body.replica_election_results[0].partition_result[0].error_code == 83


@pytest.mark.parametrize("is_held", [True, False])
def test_election_that_a_broker_without_partitions_permits_is_the_controllers(
    *, is_held: bool
) -> None:
    """A broker that just started knows none that it could refuse; without the role it stays so."""

    def broker(header: codec.RequestHeader, _frame: bytes) -> bytes:
        return answering(
            header,
            ElectLeadersResponse(
                version=2, throttle_time_ms=0, error_code=0, replica_election_results=[]
            ),
        )

    def elected(_event: Event) -> ClientAnswer:
        done = PartitionResult(TopicPartition("t", 0), 0)
        return client_requests.ElectLeadersAnswer(0, (done,))

    everything = ElectLeadersRequest(
        version=2, election_type=0, topic_partitions=None, timeout_ms=1000
    )
    with public(broker, answer=elected, is_held=is_held) as served:
        (answer,) = served.exchange(frame_of(everything))
        body = ElectLeadersResponse.decode(answer[5:], version=2)
        assert len(body.replica_election_results) == int(is_held)


# --- what concerns the daemon as a broker --------------------------------------------------------


def test_daemon_has_no_logs_and_no_settings_but_brokers_do() -> None:
    """A broker behind it would report its own, as if they were the daemon's."""
    with public(lambda _, frame: frame[4:8] + b"relayed") as served:
        logs = frame_of(DescribeLogDirsRequest(version=1, topics=None))
        ours, theirs = (
            frame_of(DescribeConfigsRequest(version=1, resources=[(4, name, None)]))
            for name in (str(OWN_ID), "1")
        )
        found = served.exchange(logs, ours, theirs)
        assert not found[0].endswith(b"relayed")
        assert not found[1].endswith(b"relayed")
        assert found[2].endswith(b"relayed")
        assert served.brokers[0].frames == [theirs]


@pytest.mark.parametrize("error", [0, 58])
def test_authentication_is_the_brokers_and_its_refusal_closes(error: int) -> None:
    """An error answer is final for a client, and a broker may stop on it."""

    def broker(header: codec.RequestHeader, _frame: bytes) -> bytes:
        body = SaslAuthenticateResponse(
            version=1, error_code=error, error_message=None, auth_bytes=b"", session_lifetime_ms=0
        )
        return answering(header, body)

    with public(broker, is_sasl=True) as served:
        token = frame_of(SaslAuthenticateRequest(version=1, auth_bytes=b"\x00user\x00secret"))
        (answer,) = served.exchange(token)
        assert bool(answer) is (error == 0)


@pytest.mark.parametrize(
    ("token", "is_last"), [(b"", True), (b"v=signature", True), (b"r=nonce,s=,i=4096", False)]
)
def test_long_frames_are_read_after_authentication_only(token: bytes, *, is_last: bool) -> None:
    """With SCRAM, the first message proves nothing: it has the name of a user."""

    def broker(header: codec.RequestHeader, frame: bytes) -> bytes:
        if header.api_key != ApiKey.SaslAuthenticate:
            return frame[4:8]
        body = SaslAuthenticateResponse(
            version=2, error_code=0, error_message=None, auth_bytes=token, session_lifetime_ms=0
        )
        return answering(header, body)

    long = RELAYED + bytes(SMALL_FRAME)
    with public(broker, is_sasl=True) as served:
        message = frame_of(SaslAuthenticateRequest(version=2, auth_bytes=b"n,,n=user,r=nonce"))
        first, second = served.exchange(message, long)
        assert first
        assert second == (long[4:8] if is_last else b"")
        assert served.exchange(long) == [b""]
        assert len(served.brokers[0].frames) == 1 + is_last


def test_nothing_is_decoded_before_authentication() -> None:
    """A broker gets the request and closes the connection; any answer proves the authentication."""
    malformed = create_request() + b"\x00"
    with public(lambda _, frame: frame[4:8], is_sasl=True) as served:
        assert served.exchange(malformed, malformed) == [malformed[4:8], b""]
        assert served.brokers[0].frames == [malformed]
        assert not served.loop.events


def test_peer_that_does_not_authenticate_in_time_is_closed() -> None:
    """It may ask for versions first, which is no reason to wait for it as for others."""
    versions = frame_of(ApiVersionsRequest(version=0))

    def broker(header: codec.RequestHeader, _frame: bytes) -> bytes:
        body = ApiVersionsResponse(version=0, error_code=0, api_keys=[])
        return codec._frame(header, body, flexible_header=False)[4:]

    with public(broker, is_sasl=True, limits=EndpointLimits(unauthenticated_s=0.1)) as served:
        with socket.create_connection(served.server.address, timeout=WITHIN_S) as client:
            client.sendall(framed(versions))
            assert answer_of(client)
            assert answer_of(client) == b""
        assert served.counts.refused == {"slow": 1}
