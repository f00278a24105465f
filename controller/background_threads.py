"""The threads beside the loop: each works until it is stopped, and the host ends without it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Final

JOIN_S: Final = 2.0


class BackgroundThread(ABC):
    """A thread that must not end by itself: the host checks ``is_alive``."""

    def __init__(self, name: str) -> None:
        """Prepare the thread; ``start`` begins ``_run``."""
        self.name = name
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _join(self, timeout_s: float = JOIN_S) -> None:
        """Wait for the end of the thread, if it was started, but not long."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    @abstractmethod
    def _run(self) -> None:
        """Work until the thread is to end."""
