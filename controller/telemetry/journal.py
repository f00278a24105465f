"""
The journal: committed records and events as JSON Lines in rotating files.

The loop puts immutable values into a bounded queue; one thread encodes and writes them, so that a
slow or full disk never delays the loop. Lines that do not fit are dropped and counted, and the
count is written once there is room. Each line is ``{"v":1,"at":<ISO 8601>,"kind":...}`` with the
fields of its kind (docs/reference/journal.md).
"""

from __future__ import annotations

import fcntl
import json
import queue
import re
import threading
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import Final, TextIO

import structlog

from controller.errors import InvalidInputError
from controller.telemetry.journal_files import FILE_NAME
from controller.telemetry.json_values import iso_time, json_fields, json_value

VERSION: Final = 1
LOCK_NAME: Final = "journal.lock"
QUEUE_MAX: Final = 50_000
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
FILES_MAX: Final = 10
CLOSE_S: Final = 5.0
"""Longest time that ``close`` waits for the disk."""
GATHER_S: Final = 0.05
"""How long entries gather after the first: the loop is interrupted once for all of them."""

KINDS_OF_RECORDS: Final[Mapping[str, str]] = {
    "AppliedThrottleEndedRecord": "lease_ended",
    "AppliedThrottleRecord": "lease",
    "PartitionOutcomeRecord": "ending",
    "RequestOutcomeForgottenRecord": "outcome_forgotten",
    "RequestOutcomeRecord": "outcome",
    "SpecEndedRecord": "goal_ended",
    "SpecRecord": "goal",
    "UpdateRefusedRecord": "unheeded",
}
"""The kinds of records whose classes were renamed: version 1 of the journal keeps them."""

FIELDS_OF_RECORDS: Final[Mapping[str, str]] = {
    "spec": "goal",
    "applied_version": "lease_version",
    "kind": "kind_of",  # the line itself has a kind
}
"""The fields of records that have another name in version 1 of the journal."""

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode

_WORD_START: Final = re.compile(r"(?<!^)(?=[A-Z])")

JournalEntry = tuple[datetime, str, object]


def kind_of(record: object) -> str:
    """Return the kind of a record's line: ``StateRecord`` is ``state``."""
    return kind_named(type(record).__name__)


@cache
def kind_named(name: str) -> str:
    """Return the kind of the lines of a class of records."""
    return KINDS_OF_RECORDS.get(name) or _WORD_START.sub("_", name.removesuffix("Record")).lower()


def line_of(at: datetime, kind: str, content: object) -> str:
    """Return one line, without its end; ``content`` is a mapping of fields or a record."""
    is_record = is_dataclass(content) and not isinstance(content, type)
    fields = json_fields(content) if is_record else json_value(content)
    for name in FIELDS_OF_RECORDS.keys() & fields.keys():
        fields[FIELDS_OF_RECORDS[name]] = fields.pop(name)
    return _encode({"v": VERSION, "at": iso_time(at), "kind": kind, **fields})


def _open_locked(path: Path) -> TextIO:
    """Open and lock a file; the lock ends with the process."""
    file = path.open("a", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


class Journal:
    """
    Writes entries on a thread of its own.

    The directory is created if missing; entries of earlier runs stay. A file of ``file_bytes_max``
    is rotated, and ``files_max`` files are kept, the present one included.

    Raises:
        InvalidInputError: the directory cannot be written.

    """

    def __init__(
        self,
        directory: Path,
        *,
        queue_max: int = QUEUE_MAX,
        file_bytes_max: int = FILE_BYTES_MAX,
        files_max: int = FILES_MAX,
    ) -> None:
        self._path = directory / FILE_NAME
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        # A SimpleQueue takes an entry without a lock in Python.
        self._queue: queue.SimpleQueue[JournalEntry | None] = queue.SimpleQueue()
        self._queue_max = queue_max
        self.dropped = 0
        self._closed = threading.Event()
        self._log = structlog.stdlib.get_logger(__name__)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _open_locked(directory / LOCK_NAME)
            self._file: RawIOBase = self._path.open("ab", buffering=0)
        except BlockingIOError as error:
            why = "another reassigner writes its journal there; give each its own directory"
            raise InvalidInputError(f"journal directory {directory}: {why}") from error
        except OSError as error:
            raise InvalidInputError(f"journal directory {directory}: {error.strerror}") from error
        self._size = self._file.tell()
        self._is_cut = False
        """Whether the file ends within a line because the disk was full."""
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    @property
    def position(self) -> dict[str, object]:
        """The file, and the bytes of it that are written."""
        return {"path": str(self._path.resolve()), "bytes": self._size}

    @property
    def is_alive(self) -> bool:
        """Whether the writing thread runs."""
        return self._thread.is_alive()

    def append(self, at: datetime, kind: str, content: object) -> None:
        """Queue an entry; never waits. ``content`` must not change afterwards."""
        if self._queue.qsize() < self._queue_max:
            self._queue.put((at, kind, content))
        else:
            self.dropped += 1

    def close(self) -> None:
        """Write the queued entries, within ``CLOSE_S``, and end the thread."""
        self._closed.set()
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._file.close()
            self._lock.close()

    # --- on the writing thread -----------------------------------------------------------------

    def _write(self) -> None:
        reported = 0
        failing = False
        while True:
            entries = self._next()
            lost = self.dropped
            if lost > reported and entries:
                note: Mapping[str, int] = {"entries": lost - reported}
                entries.append((entries[-1][0], "journal_dropped", note))
                reported = lost
            try:
                self._append(entries)
                failing = False
            except OSError as error:
                self.dropped += len(entries)
                if not failing:
                    self._log.warning(
                        "journal_write_failed", path=str(self._path), error=str(error)
                    )
                failing = True
            if self._closed.is_set() and self._queue.empty():
                return

    def _next(self) -> list[JournalEntry]:
        """Wait for an entry and return all queued entries, with those of the next moment."""
        found = [self._queue.get()]
        self._closed.wait(GATHER_S)
        while True:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                return [entry for entry in found if entry is not None]

    def _append(self, entries: list[JournalEntry]) -> None:
        if self._file.closed:  # an earlier rotation failed
            self._file = self._reopen()
        lines = bytearray()
        for entry in entries:
            lines += f"{line_of(*entry)}\n".encode("ascii")
            if self._size + len(lines) >= self._file_bytes_max:
                self._put(lines)
                lines.clear()
                self._rotate()
        self._put(lines)

    def _put(self, lines: bytearray) -> None:
        """Write lines; end a line that a full disk cut off before the next one."""
        left = memoryview(b"\n" + lines if self._is_cut and lines else bytes(lines))
        while left:
            written = self._file.write(left) or 0
            self._size += written
            self._is_cut = left[written - 1] != ord("\n") if written else self._is_cut
            left = left[written:]

    def _rotate(self) -> None:
        """Rename the file to ``journal.jsonl.1``, the former ``.1`` to ``.2``, and so on."""
        self._file.close()
        for number in range(self._files_max - 1, 0, -1):
            source = self._path if number == 1 else self._numbered_path(number - 1)
            if source.exists():
                source.replace(self._numbered_path(number))
        self._file = self._reopen()
        self._size = 0

    def _reopen(self) -> RawIOBase:
        # With only one file there is no name to rotate to.
        return self._path.open("wb" if self._files_max == 1 else "ab", buffering=0)

    def _numbered_path(self, number: int) -> Path:
        return self._path.with_name(f"{FILE_NAME}.{number}")
