"""What peers may cost: nothing without rights, and little of the interpreter with them."""

from __future__ import annotations

import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafka.protocol.api_key import ApiKey

from controller.brokers import messages
from controller.core.calls.broker_requests import AlterPartitionAnswer
from controller.core.calls.client_requests import AlterReassignmentsAnswer
from controller.endpoint import client_codec, codec, relayed_frames, strict_decoding
from controller.endpoint.peers import PARTITION_BYTES, SMALL_FRAME, EndpointLimits
from controller.endpoint.strict_decoding import ROWS_MAX, UNPACED_MAX
from controller.errors import RemoteProtocolError
from controller.kafka_errors import INVALID_REQUEST, NOT_CONTROLLER
from tests.endpoint.requests import frame_of
from tests.endpoint.serving import WITHIN_S, answer_of, eventually, framed, resident_bytes
from tests.endpoint.test_client_service import (
    ALTER,
    altered,
    answering,
    public,
    seen,
)

UNAUTHORISED = 31


def alteration(partitions: int, replicas: int = 2) -> bytes:
    """Return a request to reassign so many partitions, as a client can write it by hand."""
    count = bytearray()
    left = partitions + 1
    while left >= 0x80:
        count.append(left & 0x7F | 0x80)
        left >>= 7
    count.append(left)
    targets = bytes([replicas + 1]) + struct.pack(f">{replicas}i", *range(1, replicas + 1))
    rows = b"".join(struct.pack(">i", n) + targets + b"\0" for n in range(partitions))
    head = struct.pack(">hhih", 45, 0, 7, -1) + b"\0" + struct.pack(">i", 1)
    return head + b"\x02\x02t" + bytes(count) + rows + b"\0\0"


def shrink(partitions: int) -> bytes:
    """Return a leader's request for so many partitions."""
    rows = [(number, 0, [1], 0, 0) for number in range(partitions)]
    return frame_of(
        messages.AlterPartitionRequest(version=1, broker_id=1, broker_epoch=1, topics=[("t", rows)])
    )


@contextmanager
def most_resident() -> Iterator[list[int]]:
    """Note the most memory that this process has meanwhile, beyond what it had before."""
    before, most, is_over = resident_bytes(), [0], threading.Event()

    def look() -> None:
        while not is_over.wait(0.002):
            most[0] = max(most[0], resident_bytes() - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def test_long_request_without_rights_takes_its_length_and_no_time() -> None:
    """It was decoded before a broker was asked: 275 MiB and seconds of the interpreter."""
    frame = alteration(660_000)
    assert len(frame) > codec.FRAME_MAX / 2
    with public(lambda header, _: altered(header, UNAUTHORISED)) as served, most_resident() as most:
        began = time.process_time()
        (answer,) = served.exchange(frame)
        took_s = time.process_time() - began
    assert AlterPartitionReassignmentsResponse.decode(answer[5:], version=0).error_code == 31
    assert not served.loop.events
    # The client and the broker of the test have it, too.
    assert most[0] < 8 * len(frame)
    assert took_s < 1.0


def test_request_about_more_than_a_cluster_has_is_refused_by_an_error() -> None:
    """The client learns the reason, and keeps its connection."""
    with public(
        lambda header, _: altered(header, NOT_CONTROLLER),
        answer=lambda _: AlterReassignmentsAnswer(0),
    ) as served:
        began = time.process_time()
        long, short = served.exchange(alteration(ROWS_MAX + 1), alteration(1))
        assert time.process_time() - began < 1.0
        errors = [
            AlterPartitionReassignmentsResponse.decode(answer[5:], version=0).error_code
            for answer in (long, short)
        ]
        assert errors == [INVALID_REQUEST, 0]
        assert len(served.loop.events) == 1
        assert served.counts.answered["AlterPartitionReassignments", "refused"] == 1


def test_elections_of_too_many_partitions_are_refused() -> None:
    """Version 0 has no error for all of them."""
    numbers = list(range(strict_decoding.ELEMENTS_MAX + 1))
    for version, topics in ((0, [("t", numbers)]), (1, [("t", numbers)])):
        request = ElectLeadersRequest(version=version, topic_partitions=topics, timeout_ms=1)
        header, requested = client_codec.decode(frame_of(request), "a client")
        assert requested is None
        if version:
            body = ElectLeadersResponse.decode(client_codec.refusal(header, 42)[8:], version=1)
            assert body.error_code == INVALID_REQUEST
        else:
            with pytest.raises(RemoteProtocolError):
                client_codec.refusal(header, 42)


@pytest.mark.parametrize("frame", [alteration(20_000), shrink(20_000)], ids=["client", "leader"])
def test_long_frame_takes_a_part_of_the_interpreter(frame: bytes) -> None:
    """The loop of the daemon shares it: the decoder rests after each millisecond of work."""
    decode = codec.decode if codec.header_of(frame).api_key == 56 else _decode_of_client
    shares: list[float] = []
    # Other processes on the machine, and the garbage of other tests, make single turns longer.
    gc.collect()
    gc.freeze()
    try:
        for _ in range(3):
            cpu, wall = time.thread_time(), time.perf_counter()
            decode(frame)
            cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
            assert cpu > 5 * strict_decoding.WORK_S
            shares.append(cpu / wall)
    finally:
        gc.unfreeze()
    assert min(shares) < 0.6


def _decode_of_client(frame: bytes) -> object:
    return client_codec.decode(frame, "a client")


def test_no_turn_of_the_decoder_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two rests, whatever the frame consists of."""
    turns: list[float] = []
    last = [0.0]

    def rested(_seconds: float) -> None:
        now = time.thread_time()
        turns.append(now - last[0])
        last[0] = now

    monkeypatch.setattr(time, "sleep", rested)
    tags = struct.pack(">hhihb", 56, 0, 77, -1, 0) + struct.pack(">iq", 4, 1) + b"\x01"
    many_tags = tags + b"\xa0\x8d\x06" + b"\x09\x00" * 100_000
    by_topic = AlterPartitionReassignmentsRequest(
        version=0, timeout_ms=1, topics=[(f"t{n}", [(0, [1, 2])]) for n in range(5_000)]
    )
    numbers = ElectLeadersRequest(
        version=1, topic_partitions=[("t", list(range(400_000)))], timeout_ms=1
    )
    for frame in (alteration(20_000), shrink(20_000), many_tags):
        last[0] = time.thread_time()
        if codec.header_of(frame).api_key == 56:
            codec.decode(frame)
        else:
            client_codec.decode(frame, "a client")
    for message in (by_topic, numbers):
        last[0] = time.thread_time()
        client_codec.decode(frame_of(message), "a client")
    assert len(turns) > 20
    assert sorted(turns)[len(turns) * 9 // 10] < 5 * strict_decoding.WORK_S


def test_short_frames_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read on the thread that serves connections, which must not sleep."""
    monkeypatch.setattr(strict_decoding, "time", None)
    frame = alteration(1_000)
    assert len(frame) < UNPACED_MAX
    client_codec.decode(frame, "a client")


def test_decoded_requests_have_a_share_for_each_address() -> None:
    """One client's requests that wait for the loop leave room for those of others."""
    partitions = 10_000
    share = partitions * PARTITION_BYTES + 1

    def judged(header: codec.RequestHeader, _frame: bytes) -> bytes:
        body = messages.AlterPartitionResponse(
            version=header.version, throttle_time_ms=0, error_code=NOT_CONTROLLER, topics=[]
        )
        return answering(header, body)

    limits = EndpointLimits(decoded_bytes=3 * share, address_decoded_bytes=share)
    with public(judged, limits=limits, is_answering=False) as served:
        with socket.create_connection(served.server.address, timeout=WITHIN_S) as first:
            first.sendall(framed(shrink(partitions)))
            eventually(lambda: served.loop.events)
            assert served.exchange(shrink(partitions)) == [b""]
            assert served.counts.refused == {"protocol": 1}
            with socket.create_connection(
                served.server.address, timeout=WITHIN_S, source_address=("127.0.0.2", 0)
            ) as other:
                other.sendall(framed(shrink(partitions)))
                eventually(lambda: len(served.loop.events) == 2)
                for event in served.loop.events:
                    served.tickets.respond(event.ticket, AlterPartitionAnswer(0))
                assert answer_of(other)
            assert answer_of(first)
        eventually(lambda: not served.server._decoded.used)


def test_long_request_that_a_broker_carries_out_is_not_counted_as_decoded() -> None:
    """Only Kafka's controller reads it."""
    features = struct.pack(">hhih", 57, 0, 7, -1) + b"\0" + bytes(100_000)

    def broker(header: codec.RequestHeader, frame: bytes) -> bytes:
        return seen(header, 2, ALTER) if header.api_key == ApiKey.Metadata else frame[4:8] + b"done"

    with public(broker, limits=EndpointLimits(address_decoded_bytes=1)) as served:
        assert served.exchange(features) == [features[4:8] + b"done"]


@pytest.mark.parametrize(
    ("version", "errors", "expected"),
    [
        (0, [41, 41], 41),
        (0, [31, 31], 31),
        (0, [0, 41], 0),
        (0, [], 0),
        (1, [], None),
        (2, [], None),
        (1, [41], 41),
        (2, [41, 41], 41),
        (2, [84], 84),
    ],
)
def test_first_error_of_an_election(version: int, errors: list[int], expected: int | None) -> None:
    """A broker says the same of all partitions, unless it is the controller."""
    rows = [("t", [(n, error, None) for n, error in enumerate(errors)])] if errors else []
    body = ElectLeadersResponse(
        version=version, throttle_time_ms=0, error_code=0, replica_election_results=rows
    )
    header = codec.RequestHeader(43, version, 1, None)
    assert relayed_frames.first_error(header, answering(header, body)) == expected


def test_first_error_of_a_whole_election() -> None:
    """As of version 1; nothing behind it is looked at."""
    for version in (1, 2):
        header = codec.RequestHeader(43, version, 1, None)
        body = ElectLeadersResponse(
            version=version, throttle_time_ms=0, error_code=31, replica_election_results=[]
        )
        whole = answering(header, body)
        assert relayed_frames.first_error(header, whole + bytes(SMALL_FRAME)) == UNAUTHORISED
