"""
A stream for log lines that holds nobody up: whoever logs puts a line into a bounded queue.

One thread writes them. A pipe that nobody reads, or a slow disk, would else stop whoever has
something to say, above all the loop. What does not fit is dropped, counted, and the count is
written as soon as there is room. Lines wait for at most a moment when the process ends.
"""

from __future__ import annotations

import logging
import queue
import threading
from io import FileIO
from os import dup
from typing import Final, TextIO

QUEUE_MAX: Final = 10_000
"""Lines that may wait: the journal has what is dropped."""
FLUSH_S: Final = 2.0
"""How long flushing and closing wait for whoever reads the lines."""
_AGAIN_S: Final = 0.05
"""Between two tries to write to what does not take anything just now."""


class QueuedStream(logging.Handler):
    """Writes lines to a stream, on a thread of its own."""

    def __init__(self, stream: TextIO, *, queue_max: int = QUEUE_MAX) -> None:
        """
        Start the thread.

        Args:
            stream: Where the lines go; not closed here.
            queue_max: Lines that may wait to be written.

        """
        super().__init__()
        self._stream = stream
        self._raw = _raw(stream)
        self._queue_max = queue_max
        self._lines: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        """Lines; events to be set when those before them are written; None at the end."""
        self._dropped = 0
        """Lines that did not fit."""
        self._failed = 0
        """Lines that could not be written; counted on the writing thread."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Lines lost so far because they were not taken in time."""
        return self._dropped + self._failed

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line; never waits."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as every handler of the standard library does
            self.handleError(record)
            return
        if self._lines.qsize() < self._queue_max:
            self._lines.put(line)
        else:
            self._dropped += 1

    def flush(self) -> None:
        """Wait until what was added so far is written, but not for long."""
        if self._thread.is_alive():
            written = threading.Event()
            self._lines.put(written)
            written.wait(FLUSH_S)

    def close(self) -> None:
        """Write what waits, as far as it is taken soon, and end the thread."""
        if not self._ended.is_set():
            self._lines.put(None)
            self._thread.join(FLUSH_S)
            self._ended.set()
            if self._raw is not None and not self._thread.is_alive():
                self._raw.close()
        super().close()

    # --- on the writing thread -----------------------------------------------------------------

    def _run(self) -> None:
        told = 0
        while (item := self._lines.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            if not self._write(item):
                self._failed += 1
            elif (lost := self.dropped) > told and self._write(self._note(lost - told)):
                told = lost

    def _write(self, line: str) -> bool:
        """Write a line; False where nobody reads any more."""
        try:
            if self._raw is None:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            else:
                self._write_raw(self._raw, f"{line}\n".encode(errors="backslashreplace"))
        except (OSError, ValueError):
            return False
        return True

    def _write_raw(self, raw: FileIO, line: bytes) -> None:
        left = memoryview(line)
        while left and not self._ended.is_set():
            written = raw.write(left)
            if written is None:
                self._ended.wait(_AGAIN_S)
            else:
                left = left[written:]

    def _note(self, lines: int) -> str:
        """Return the line that tells of those lost."""
        fields = {
            "name": __name__,
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "log_dropped",
            "lines": lines,
        }
        return self.format(logging.makeLogRecord(fields))


def _raw(stream: TextIO) -> FileIO | None:
    """
    Return the stream's file without its buffer, None where it has none.

    A thread that waits within the buffer holds its lock, and the interpreter wants that when the
    process ends.
    """
    try:
        return FileIO(dup(stream.fileno()), "wb")
    except (OSError, ValueError):  # of memory, or closed
        return None
