"""
Threads of ours on which everything runs that waits for ZooKeeper.

A job that fails because the connection is gone is run again when it is back. One that ZooKeeper
refuses (permissions, for example) is logged; it is dropped, or run again after a while where the
thread only reads: somebody may put it right, and nobody else would ask anew. Any other error ends
the thread, and the process with it: the host looks at ``is_alive``.

Invariant: jobs run one at a time, in the order in which they were put, but for those refused.
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

from controller.errors import SessionLostError, SessionSuspendedError
from controller.zk.sessions import Session

Job = Callable[[], None]

REFUSED_S: Final = 10.0
"""After so long a read that ZooKeeper refused is tried again."""

_PAUSE_S: Final = 0.05
"""Between two tries: kazoo may fail at once while it still says that it is connected."""

_JOIN_S: Final = 2.0


class Worker:
    """One thread and its queue."""

    def __init__(self, name: str, session: Session, *, again_s: float | None = None) -> None:
        """
        Start the thread.

        Args:
            name: Of the thread.
            session: Whose connection the jobs need.
            again_s: When to run a job again that ZooKeeper refused; None: it is dropped.

        """
        self.name = name
        self._session = session
        self._again_s = again_s
        self._refused: deque[tuple[float, Job]] = deque()
        """When each is to be run again; the first is the next."""
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._log = structlog.stdlib.get_logger(__name__)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def put(self, job: Job) -> None:
        """Run it as soon as what came before is done; safe from any thread, never waits."""
        self._jobs.put(job)

    def pause(self, seconds: float) -> bool:
        """Wait on this thread, but not beyond its end; return whether it was as long as that."""
        return not self._stopping.wait(seconds)

    def stop(self) -> None:
        """Drop what was not begun and let the thread end; does not wait long for it."""
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            job = self._next()
            if job is not None:
                self._persist(job)

    def _next(self) -> Job | None:
        """Wait for a job, be it one that was refused; None: look again."""
        left_s = self._refused[0][0] - time.monotonic() if self._refused else None
        if left_s is not None and left_s <= 0:
            return self._refused.popleft()[1]
        try:
            return self._jobs.get(timeout=left_s)
        except queue.Empty:
            return None

    def _persist(self, job: Job) -> None:
        while not self._stopping.is_set():
            try:
                job()
            except (SessionSuspendedError, SessionLostError):
                self.pause(_PAUSE_S)
                while not self._session.wait(_PAUSE_S) and not self._stopping.is_set():
                    pass
            except KazooException as error:
                self._log.error("zookeeper refuses", thread=self.name, error=repr(error))
                if self._again_s is not None:
                    self._refused.append((time.monotonic() + self._again_s, job))
                return
            else:
                return
