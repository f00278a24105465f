"""
Threads that wait for ZooKeeper: one runs jobs in order, one times a small read now and then.

A job that fails because the connection is gone runs again when it is back. A job that ZooKeeper
refuses (permissions, for example) is logged; then it is dropped, or, on a thread that only reads,
run again later, as an operator may correct the cause. Any other error ends the thread, and the
process with it: the host checks ``is_alive``.

Invariant: jobs run one at a time, in the order in which they were put, except those refused.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog
from kazoo.exceptions import KazooException
from tenacity import Retrying, retry_if_exception_type, stop_when_event_set, wait_random

from controller.background_threads import BackgroundThread
from controller.errors import ControllerError, SessionLostError, SessionSuspendedError
from controller.zk.sessions import Session
from controller.znodes import paths

Job = Callable[[], None]

REFUSED_S: Final = 10.0
"""Until a read that ZooKeeper refused is tried again."""

AGAIN: Final = wait_random(0.025, 0.075)
"""Pauses before a job runs again: kazoo may fail at once while it still reports a connection."""

_LOOK_S: Final = 0.05


class Worker(BackgroundThread):
    """One thread and its queue."""

    def __init__(self, name: str, session: Session, *, again_s: float | None = None) -> None:
        """Start the thread; a refused job runs again after ``again_s``; None: it is dropped."""
        super().__init__(name)
        self._session = session
        self._again_s = again_s
        self._refused: deque[tuple[float, Job]] = deque()
        """Refused jobs, and when each runs again; the first is the next."""
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._retrying = Retrying(
            retry=retry_if_exception_type((SessionSuspendedError, SessionLostError)),
            wait=AGAIN,
            sleep=self._await_connection,
            stop=stop_when_event_set(self._stopping),
            retry_error_callback=lambda _: None,
        )
        self._log = structlog.stdlib.get_logger(__name__)
        self.start()

    def put(self, job: Job) -> None:
        """Run a job after those put before; safe from any thread, never waits."""
        self._jobs.put(job)

    def pause(self, seconds: float) -> bool:
        """Wait on this thread, but not beyond its end; return False where it ends."""
        return not self._stopping.wait(seconds)

    def stop(self) -> None:
        """Drop the jobs that wait and end the thread; does not wait long for it."""
        self._stopping.set()
        self._jobs.put(None)
        self._join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            job = self._next()
            if job is not None and not self._stopping.is_set():
                self._persist(job)

    def _next(self) -> Job | None:
        """Wait for a job, a new or a refused one; None: check again."""
        left_s = self._refused[0][0] - time.monotonic() if self._refused else None
        if left_s is not None and left_s <= 0:
            return self._refused.popleft()[1]
        try:
            return self._jobs.get(timeout=left_s)
        except queue.Empty:
            return None

    def _persist(self, job: Job) -> None:
        """Run a job, again whenever the connection is back, until it is done or refused."""
        try:
            self._retrying(job)
        except KazooException as error:
            self._log.error("zookeeper refuses", thread=self.name, error=repr(error))
            if self._again_s is not None:
                self._refused.append((time.monotonic() + self._again_s, job))

    def _await_connection(self, pause_s: float) -> None:
        self.pause(pause_s)
        while not self._session.wait(_LOOK_S) and not self._stopping.is_set():
            pass


EVERY_S: Final = 10.0
Latency = Callable[[str, float], None]
"""Called with an operation and the seconds that it took."""


class Pings(BackgroundThread):
    """Times a small read every few seconds, while there is a connection."""

    def __init__(self, session: Session, report: Latency, *, every_s: float = EVERY_S) -> None:
        """Prepare; ``report`` receives each measurement, on the thread of the pings."""
        super().__init__("zookeeper pings")
        self._session = session
        self._report = report
        self._every_s = every_s
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the thread; does not wait long for it."""
        self._stopping.set()
        self._join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._session.is_connected:
                self._ping()
            self._stopping.wait(self._every_s)

    def _ping(self) -> None:
        begun = time.monotonic()
        try:
            self._session.result_of(self._session.client.get_async(paths.BROKER_IDS))
        except (ControllerError, KazooException):
            return  # The session's state shows it.
        self._report("ping", time.monotonic() - begun)
