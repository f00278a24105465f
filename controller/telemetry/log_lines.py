"""
Notes as log lines: each in full, but where very many of a kind come at once the rest is counted.

A plan of ten thousand partitions makes a note for each and every phase; written one by one they
cost the loop more than the work itself, and nobody reads them. The journal keeps every one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from controller.core.model import Instant
from controller.reactor.ports import Clock
from controller.telemetry.log_events import LINES_MAX, Level, LogEvent

WINDOW_S: Final = 1.0
"""How long a kind is counted from its first line on."""
MORE: Final = "_more"
"""What the name of the line that tells only how many ends with."""
IN_THE_JOURNAL: Final = "in the journal"
"""Where those are that were left out; what is for developers only is nowhere else."""

Kind = tuple[str, str | None]
"""Kind of a note, and the phase where it tells of one: every phase has lines of its own."""


class Log(Protocol):
    """What of a structlog logger is used."""

    def debug(self, event: str, **fields: object) -> object:
        """Write a line for developers."""
        ...

    def info(self, event: str, **fields: object) -> object:
        """Write a line of the ordinary course of things."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Write a line that an operator should look at."""
        ...


@dataclass(slots=True)
class _Window:
    """Notes of one kind since the first of them."""

    ends: Instant
    level: Level
    lines: int = 0
    left_out: int = 0


class LogLines:
    """Writes notes to a log, at most ``LINES_MAX`` of a kind in a window."""

    def __init__(self, log: Log, clock: Clock) -> None:
        """Write to this log."""
        self._log = log
        self._clock = clock
        self._windows: dict[Kind, _Window] = {}

    def write(self, note: LogEvent) -> None:
        """Write a note, or count it."""
        kind = (note.kind, note.phase)
        window = self._windows.get(kind)
        if window is None:
            window = _Window(Instant(self._clock.now() + WINDOW_S), note.level)
            self._windows[kind] = window
        if window.lines < LINES_MAX:
            window.lines += 1
            self._put(note.level, note.kind, note.fields)
        else:
            window.left_out += 1

    def tend(self) -> None:
        """Tell how many lines were left out of the windows that are over; to be called often."""
        now = self._clock.now()
        for kind in [k for k, w in self._windows.items() if w.ends <= now]:
            self._close(kind)

    def flush(self) -> None:
        """Tell how many lines were left out so far: there may be no later moment."""
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
