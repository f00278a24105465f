"""
Logging: configuration, the thread that writes lines, and the limit of lines for each kind.

The daemon configures logging once; importing this module changes nothing. ``QueuedStream`` writes
the lines on a thread of its own: a pipe that is not read, or a slow disk, would otherwise stop the
loop. Lines that do not fit into its queue are dropped and counted, and the count is logged.

``LogLines`` limits the log events of each kind and counts the others in one line. A plan of ten
thousand partitions makes an event for each phase, and formatting them all would take the loop more
time than the work itself. The journal has every event.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO
from os import dup
from typing import TYPE_CHECKING, Final, TextIO

import structlog

from controller.core.model import Instant
from controller.reactor.ports import Clock
from controller.settings import LogFormat, LogLevel
from controller.telemetry.log_events import LINES_MAX, Level, LogEvent

if TYPE_CHECKING:
    from structlog.typing import Processor, WrappedLogger

# Local variables hold passwords.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)

LIBRARIES: Final = ("kazoo", "kafka", "confluent_kafka")
"""Loggers of libraries, of which warnings and errors are logged."""


def configure_logging(log_format: LogFormat, level: LogLevel, stream: TextIO) -> QueuedStream:
    """Route structlog and the standard library's loggers to the stream; return its handler."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    if log_format == "auto":
        log_format = "console" if stream.isatty() else "json"
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(log_format),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = QueuedStream(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_shared_processors(log_format), structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _renderer(log_format, stream),
            ],
        )
    )
    root = logging.getLogger()
    former, root.handlers[:] = root.handlers[:], [handler]
    for replaced in former:
        if isinstance(replaced, QueuedStream):
            replaced.close()
    root.setLevel(threshold)
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))
    return handler


def _shared_processors(log_format: LogFormat) -> list[Processor]:
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        processors.append(_TRACEBACKS)
    return processors


def _renderer(log_format: LogFormat, stream: TextIO) -> Processor:
    if log_format == "json":
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )


QUEUE_MAX: Final = 10_000
"""Lines that may wait; the journal has the events of dropped lines."""
FLUSH_S: Final = 2.0
"""Longest time that ``flush`` and ``close`` wait."""
_AGAIN_S: Final = 0.05
"""Pause before the next attempt to write to a stream that is full."""


class QueuedStream(logging.Handler):
    """Writes lines to a stream, on a thread of its own; does not close the stream."""

    def __init__(self, stream: TextIO, *, queue_max: int = QUEUE_MAX) -> None:
        super().__init__()
        self._stream = stream
        self._raw = _raw(stream)
        self._queue_max = queue_max
        self._lines: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        """Lines; events to set once the lines before them are written; None at the end."""
        self._dropped = 0
        """Lines that did not fit."""
        self._failed = 0
        """Lines that could not be written; counted on the writing thread."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Lines lost so far."""
        return self._dropped + self._failed

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line; never waits."""
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
        """Wait until the queued lines are written, at most ``FLUSH_S``."""
        if self._thread.is_alive():
            written = threading.Event()
            self._lines.put(written)
            written.wait(FLUSH_S)

    def close(self) -> None:
        """Write the queued lines, within ``FLUSH_S``, and end the thread."""
        if not self._ended.is_set():
            self._lines.put(None)
            self._thread.join(FLUSH_S)
            self._ended.set()
            if self._raw is not None and not self._thread.is_alive():
                self._raw.close()
        super().close()

    # --- on the writing thread -----------------------------------------------------------------

    def _run(self) -> None:
        reported = 0
        while (item := self._lines.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            if not self._write(item):
                self._failed += 1
            elif (lost := self.dropped) > reported and self._write(self._note(lost - reported)):
                reported = lost

    def _write(self, line: str) -> bool:
        """Write a line; return False if the stream is closed."""
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
    Return the stream's file without its buffer; None if it has no file.

    A thread that blocks in the buffer holds its lock, which the interpreter needs at exit.
    """
    try:
        return FileIO(dup(stream.fileno()), "wb")
    except (OSError, ValueError):  # of memory, or closed
        return None


# --- limits by kind -----------------------------------------------------------------------------

WINDOW_S: Final = 1.0
"""Length of the window that starts with the first line of a kind."""
MORE: Final = "_more"
"""Suffix of the event that counts the lines left out."""
IN_THE_JOURNAL: Final = "in the journal"
"""Where to find the lines left out; debug lines are nowhere else."""

Kind = tuple[str, str | None]
"""The kind of an event and its phase, if it has one: each phase has a limit of its own."""


@dataclass(slots=True)
class _Window:
    ends: Instant
    level: Level
    lines: int = 0
    left_out: int = 0


class LogLines:
    """Writes events to a log, at most ``LINES_MAX`` of a kind in a window."""

    def __init__(self, log: WrappedLogger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._windows: dict[Kind, _Window] = {}

    def write(self, event: LogEvent) -> None:
        """Write an event, or count it."""
        kind = (event.kind, event.phase)
        window = self._windows.get(kind)
        if window is None:
            window = _Window(Instant(self._clock.now() + WINDOW_S), event.level)
            self._windows[kind] = window
        if window.lines < LINES_MAX:
            window.lines += 1
            self._put(event.level, event.kind, event.fields)
        else:
            window.left_out += 1

    def tend(self) -> None:
        """Log how many lines were left out of the windows that ended; to be called often."""
        now = self._clock.now()
        for kind in [k for k, w in self._windows.items() if w.ends <= now]:
            self._close(kind)

    def flush(self) -> None:
        """Log how many lines were left out so far, before the process ends."""
        for kind in list(self._windows):
            self._close(kind)

    def _close(self, kind: Kind) -> None:
        window, (name, phase) = self._windows.pop(kind), kind
        if not window.left_out:
            return
        fields: dict[str, object] = {"count": window.left_out}
        if phase is not None:
            fields["phase"] = phase
        if window.level is not Level.DEBUG:
            fields["each"] = IN_THE_JOURNAL
        self._put(window.level, f"{name}{MORE}", fields)

    def _put(self, level: Level, kind: str, fields: Mapping[str, object]) -> None:
        getattr(self._log, level.value)(kind, **fields)
