"""
Content of files that are read again when they change.

A file that became invalid changes nothing: the content of before stays, and the problem is
reported once. Safe from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from controller.errors import InvalidInputError

Content = TypeVar("Content")


class FollowedFiles(Generic[Content]):
    """
    The content of one or more files that belong together.

    ``read`` returns their content, or raises ``InvalidInputError``; after the first time,
    ``problem`` is called with what is wrong instead.
    """

    def __init__(
        self, paths: Sequence[Path], read: Callable[[], Content], problem: Callable[[str], None]
    ) -> None:
        self._paths = paths
        self._read = read
        self._problem = problem
        self._lock = threading.Lock()
        # Before the content: a change while it is read is noticed at the next call.
        self._read_at = self._stamps()
        self._content = read()

    def content(self) -> Content:
        """Return the present content."""
        with self._lock:
            stamps = self._stamps()
            if stamps != self._read_at:
                self._read_at = stamps
                try:
                    self._content = self._read()
                except InvalidInputError as error:
                    self._problem(str(error))
            return self._content

    def _stamps(self) -> list[tuple[int, int, int, int]]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int, int, int]:
    """Return what differs between two versions of a file; zeros where there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode
