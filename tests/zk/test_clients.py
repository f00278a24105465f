"""
The connection of kazoo's thread: requests and answers, and the certain life of the session.

The latter follows from the server's responses.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.exceptions import ConnectionLoss

from controller.clocks import MonotonicClock
from controller.core.model import Instant
from controller.zk.leased_client import ClientLease, LeasedClient
from tests.zk.fakes import WITHIN_S, FakeClock

TIMEOUT_S = 60.0
GRANTED_S = 1.0
PING = -2


class Server:
    """A ZooKeeper that opens and closes sessions and answers pings; silent, it does neither."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._socket.getsockname()[:2])
        self.is_silent = threading.Event()
        self.ends_at: int | None = None
        """At this request it sends no more; None: never."""
        self.numbers: list[int] = []
        """Of the requests other than pings."""
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        if not _frame(connection) or self.is_silent.is_set():
            return
        granted = struct.pack(">iiqi16s?", 0, int(GRANTED_S * 1000), 77, 16, b"", False)  # noqa: FBT003
        connection.sendall(struct.pack(">i", len(granted)) + granted)
        while request := _frame(connection):
            (number,) = struct.unpack_from(">i", request)
            if number > 0:
                self.numbers.append(number)
                if number == self.ends_at:
                    connection.shutdown(socket.SHUT_WR)
                if self.ends_at is not None and number >= self.ends_at:
                    continue
            if number != PING or not self.is_silent.is_set():
                answer = struct.pack(">iqi", number, 0, 0)
                connection.sendall(struct.pack(">i", len(answer)) + answer)


def _frame(connection: socket.socket) -> bytes:
    try:
        head = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL) if head else b""
    except OSError:
        return b""


@contextmanager
def connected() -> Iterator[tuple[Server, LeasedClient]]:
    """Give a client that asked for a long session of a server that grants short ones."""
    server = Server()
    client = LeasedClient(MonotonicClock(), hosts=server.address, timeout=TIMEOUT_S)
    try:
        client.start(timeout=WITHIN_S)
        yield server, client
    finally:
        client.stop()
        client.close()
        server.close()


def test_the_time_out_that_the_server_grants_counts() -> None:
    """It caps what is asked for at ``maxSessionTimeout``: 40 s by default."""
    clock = MonotonicClock()
    before = clock.now()
    with connected() as (_, client):
        assert client.lease.timeout_s == GRANTED_S
        assert before + GRANTED_S <= client.lease.ends <= clock.now() + GRANTED_S


def test_every_answer_prolongs_the_session_and_silence_does_not() -> None:
    """Counted from the sending of what was answered."""
    with connected() as (server, client):
        begun = client.lease.ends
        deadline = time.monotonic() + WITHIN_S
        while client.lease.ends <= begun and time.monotonic() < deadline:
            time.sleep(0.01)
        assert client.lease.ends > begun
        server.is_silent.set()
        time.sleep(0.05)  # an answer that was on its way
        ends = client.lease.ends
        time.sleep(GRANTED_S / 2)
        assert client.lease.ends == ends


def test_requests_of_many_threads_are_sent_and_answered_in_order() -> None:
    """Each is sent once, however many are sent together, and none is left behind."""
    with connected() as (server, client):
        results: list[bool] = []

        def delete() -> None:
            for _ in range(20):
                pending = [client.delete_async("/znode") for _ in range(50)]
                results.extend(each.get(timeout=WITHIN_S) for each in pending)

        threads = [threading.Thread(target=delete) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WITHIN_S)
        assert results == [True] * 4_000
        assert server.numbers == list(range(1, 4_001))


def test_what_was_sent_with_others_is_not_sent_again() -> None:
    """When the connection breaks, the outcome of all that was sent and not answered is unknown."""
    with connected() as (server, client):
        server.ends_at = 4
        pending = [client.delete_async("/znode") for _ in range(100)]
        assert [each.get(timeout=WITHIN_S) for each in pending[:3]] == [True] * 3
        for each in pending[3:]:
            with pytest.raises(ConnectionLoss):
                each.get(timeout=WITHIN_S)
        assert server.numbers == list(range(1, len(server.numbers) + 1))


def test_a_request_larger_than_the_sockets_buffers_is_sent_whole() -> None:
    """As a multi with a large topic is."""
    with connected() as (server, client):
        pending = [client.delete_async("/" + "z" * 3_000_000) for _ in range(3)]
        assert [each.get(timeout=WITHIN_S) for each in pending] == [True] * 3
        assert server.numbers == [1, 2, 3]


def test_a_late_answer_vouches_for_when_it_was_requested() -> None:
    """It may have lain in a socket while the process was stopped."""
    clock = FakeClock()
    lease = ClientLease(clock, TIMEOUT_S)
    lease.note_grant(10.0, clock.now())
    sent_at = clock.now()
    clock.seconds += 60.0
    lease.note_answer(sent_at)
    assert lease.ends == Instant(sent_at + 10.0)
    assert lease.left_s == -50.0


def test_the_loops_clock_counts_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept for an hour wakes up an hour later."""
    requested: list[int] = []

    def gettime(clock: int) -> float:
        requested.append(clock)
        return 5.0

    monkeypatch.setattr(time, "clock_gettime", gettime)
    assert MonotonicClock().now() == 5.0
    assert requested == [getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)]
