"""
Log lines of log events, limited for each kind; further events are counted in one line.

A plan of ten thousand partitions makes an event for each phase. Formatting them all would take the
loop more time than the work itself; the journal has every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from controller.core.model import Instant
from controller.reactor.ports import Clock
from controller.telemetry.log_events import LINES_MAX, Level, LogEvent

WINDOW_S: Final = 1.0
"""Length of the window that starts with the first line of a kind."""
MORE: Final = "_more"
"""Suffix of the event that counts the lines left out."""
IN_THE_JOURNAL: Final = "in the journal"
"""Where to find the lines left out; debug lines are nowhere else."""

Kind = tuple[str, str | None]
"""The kind of an event and its phase, if it has one: each phase has a limit of its own."""


class Log(Protocol):
    """The methods used of a structlog logger."""

    def debug(self, event: str, **fields: object) -> object:
        """Write a debug line."""
        ...

    def info(self, event: str, **fields: object) -> object:
        """Write a line about normal operation."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Write a line that an operator should see."""
        ...


@dataclass(slots=True)
class _Window:
    """The lines of one kind in the present window."""

    ends: Instant
    level: Level
    lines: int = 0
    left_out: int = 0


class LogLines:
    """Writes events to a log, at most ``LINES_MAX`` of a kind in a window."""

    def __init__(self, log: Log, clock: Clock) -> None:
        """Write to this log."""
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
        match level:
            case Level.DEBUG:
                self._log.debug(kind, **fields)
            case Level.INFO:
                self._log.info(kind, **fields)
            case Level.WARNING:
                self._log.warning(kind, **fields)
