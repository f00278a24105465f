"""
Whether a channel may still act: the one thing its two threads share.

The loop thread closes a gate, once and for ever; the IO thread passes through it whenever it
hands bytes to the kernel or an answer to the inbox. Knows neither.

Invariant: when ``close`` has returned, nobody is inside and nobody will get in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Open until closed; never opened again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether it was open a moment ago: good for giving up, not for acting."""
        return self._open

    def close(self) -> None:
        """Close it; waits for who is inside, which is never longer than one non-blocking call."""
        with self._lock:
            self._open = False

    @contextmanager
    def passing(self) -> Iterator[bool]:
        """Hold the gate as it is: what is done inside is done before ``close`` returns."""
        with self._lock:
            yield self._open
