"""The thread of all broker connections."""

from __future__ import annotations

import queue
import threading

import pytest

from controller.brokers.io_threads import IoThread
from controller.errors import BrokerUnreachableError
from tests.brokers.fakes import WAIT_S


def test_posted_work_runs_in_order_on_the_thread() -> None:
    """What is posted before the start runs too."""
    io, ran = IoThread("io"), queue.Queue[tuple[int, str]]()
    io.post(lambda: ran.put((1, threading.current_thread().name)))
    io.start()
    io.post(lambda: ran.put((2, threading.current_thread().name)))
    assert [ran.get(timeout=WAIT_S) for _ in range(2)] == [(1, "io"), (2, "io")]
    io.stop()
    assert not io.is_alive


def test_thread_that_never_started_can_be_stopped() -> None:
    """Stopping is safe in every order."""
    io = IoThread()
    io.stop()
    assert not io.is_alive


def test_unknown_host_is_unreachable() -> None:
    """The name server's answer becomes an error that says what to do next."""
    io, outcome = IoThread(), queue.Queue[str]()

    async def look_up() -> None:
        try:
            await io.resolve("no-such-host.invalid", 9092)
        except BrokerUnreachableError as error:
            outcome.put(str(error))

    io.start()
    io.post(lambda: io.spawn(look_up))
    assert "no-such-host.invalid cannot be resolved" in outcome.get(timeout=WAIT_S)
    io.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_unforeseen_error_ends_the_thread() -> None:
    """A watchdog sees a dead thread; a channel that fell silent would go unnoticed."""
    io = IoThread()

    async def stumble() -> None:
        raise LookupError("a bug")

    io.start()
    io.post(lambda: io.spawn(stumble))
    dead = threading.Event()
    for _ in range(int(WAIT_S * 1000)):
        if not io.is_alive:
            break
        dead.wait(0.001)
    assert not io.is_alive
