"""The wait of kazoo's thread for its sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from controller.zk.clients import PollHandler

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two ends of a connection."""
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_only_ready_sockets_are_returned(pair: Pair) -> None:
    """A socket may be written at once, and read when the other end has written."""
    ours, theirs = pair
    handler = PollHandler()
    assert handler.select([ours, theirs], [], [], 0) == ([], [], [])
    assert handler.select([ours], [ours, theirs], [], 0) == ([], [ours, theirs], [])
    theirs.send(b"x")
    assert handler.select([ours, theirs], [ours], [], 1.0) == ([ours], [ours], [])


def test_it_waits_no_longer_than_its_timeout(pair: Pair) -> None:
    """Time-outs are in seconds; kazoo detects a lost connection by them."""
    began = time.monotonic()
    assert PollHandler().select([pair[0]], [], [], 0.05) == ([], [], [])
    assert 0.05 <= time.monotonic() - began < 2.0


def test_the_other_ends_hanging_up_wakes_the_reader(pair: Pair) -> None:
    """A read then shows that the connection is closed."""
    ours, theirs = pair
    theirs.close()
    assert PollHandler().select([ours], [], [], 1.0) == ([ours], [], [])


def test_a_closed_socket_is_an_error_and_not_silence(pair: Pair) -> None:
    """As kazoo's own handler has it: its thread must not wait for what never comes."""
    ours, _ = pair
    ours.close()
    with pytest.raises(ValueError, match="closed"):
        PollHandler().select([ours], [], [], 1.0)
