"""
How long ZooKeeper takes to answer: one small read now and then, timed.

On a thread of ours, so that a slow ensemble is seen also while nothing is written. Without a
connection nothing is measured: the session's state says that already.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from kazoo.exceptions import KazooException

from controller.errors import ControllerError
from controller.zk.sessions import Session
from controller.znodes import paths

EVERY_S: Final = 10.0
_JOIN_S: Final = 2.0

Latency = Callable[[str, float], None]
"""Told of an operation and the seconds it took."""


class Pings:
    """Times a read every few seconds."""

    def __init__(self, session: Session, told: Latency, *, every_s: float = EVERY_S) -> None:
        """
        Prepare; nothing is asked yet.

        Args:
            session: Whose connection is timed.
            told: Called on the thread of the pings.
            every_s: Between two of them.

        """
        self._session = session
        self._told = told
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zookeeper pings", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; does not wait long for an answer."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._session.is_connected:
                self._ping()
            self._stopping.wait(self._every_s)

    def _ping(self) -> None:
        begun = time.monotonic()
        try:
            self._session.ask(self._session.client.get_async(paths.BROKER_IDS))
        except (ControllerError, KazooException):
            return  # the session's state tells of it
        self._told("ping", time.monotonic() - begun)
