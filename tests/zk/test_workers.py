"""Threads on which everything runs that waits for ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from kazoo.exceptions import NoAuthError

from controller.errors import SessionLostError, SessionSuspendedError
from controller.zk.workers import Worker
from tests.zk.fakes import WITHIN_S, FakeClient, connected_session


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Give a worker that is stopped in the end."""
    worker = Worker("test", connected_session(FakeClient()))
    yield worker
    worker.stop()
    assert not worker.is_alive


def _run(worker: Worker, *jobs: Callable[[], None]) -> None:
    done = threading.Event()
    for job in (*jobs, done.set):
        worker.put(job)
    assert done.wait(WITHIN_S)


def test_jobs_run_in_order(worker: Worker) -> None:
    """One at a time."""
    ran: list[int] = []
    _run(worker, lambda: ran.append(1), lambda: ran.append(2))
    assert ran == [1, 2]


@pytest.mark.parametrize("error", [SessionSuspendedError("x"), SessionLostError("x")])
def test_a_job_is_run_again_when_the_connection_is_back(worker: Worker, error: Exception) -> None:
    """Before anything else, so that no read is forgotten."""
    errors, ran = [error], []

    def job() -> None:
        if errors:
            raise errors.pop()
        ran.append("again")

    _run(worker, job, lambda: ran.append("next"))
    assert ran == ["again", "next"]


def test_what_zookeeper_refuses_is_dropped(worker: Worker) -> None:
    """Asking again would change nothing; the others go on."""

    def job() -> None:
        raise NoAuthError

    _run(worker, job)
    assert worker.is_alive


def test_a_read_that_zookeeper_refused_is_tried_again() -> None:
    """The caller waits for it, and the permissions may have been corrected meanwhile."""
    worker = Worker("test", connected_session(FakeClient()), again_s=0.0)
    refusals = [NoAuthError(), NoAuthError()]
    called = threading.Event()

    def job() -> None:
        if refusals:
            raise refusals.pop()
        called.set()

    worker.put(job)
    assert called.wait(WITHIN_S)
    worker.stop()


def test_what_was_refused_waits_while_others_run() -> None:
    """It holds up nothing, however often it is refused."""
    worker = Worker("test", connected_session(FakeClient()), again_s=WITHIN_S)
    ran: list[str] = []

    def job() -> None:
        ran.append("refused")
        raise NoAuthError

    _run(worker, job, lambda: ran.append("next"))
    assert ran == ["refused", "next"]
    worker.stop()
    assert not worker.is_alive
