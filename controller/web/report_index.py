"""
Reports of past work, as written by ``reassigner pipeline report``, for the status page to link.

Each report is a directory. Only its ``report.html`` is served; its ``report.json`` names the
requests it is about. Nothing is written, no file outside is read, and names that could form a path
are refused.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

PAGE: Final = "report.html"
CONTENTS: Final = "report.json"
LISTED_MAX: Final = 20
"""Reports that are listed; older ones are still served by name."""
PAGE_BYTES_MAX: Final = 16 << 20
CONTENTS_BYTES_MAX: Final = 1 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class IndexedReport:
    """One report."""

    name: str
    written_at: datetime
    requests: tuple[str, ...]
    """The requests it is about; empty if it does not say."""


class ReportIndex:
    """The reports of a directory; each call reads it, so that a new report needs no restart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def newest(self) -> list[IndexedReport]:
        """Return the newest reports, the latest first, without those that cannot be read."""
        try:
            names = [path.name for path in self._directory.iterdir()]
        except OSError:
            return []
        dated = []
        for name in names:
            page = self._file(name, PAGE)
            # It may be deleted meanwhile.
            with contextlib.suppress(OSError):
                if page is not None:
                    dated.append((page.stat().st_mtime, name))
        return [
            IndexedReport(name, datetime.fromtimestamp(at, UTC), self._requests(name))
            for at, name in sorted(dated, reverse=True)[:LISTED_MAX]
        ]

    def read(self, name: str) -> bytes | None:
        """Return a report's page; None if there is no report of this name."""
        page = self._file(name, PAGE)
        if page is None:
            return None
        try:
            with page.open("rb") as file:
                body = file.read(PAGE_BYTES_MAX + 1)
        except OSError:
            return None
        return body if len(body) <= PAGE_BYTES_MAX else None

    def _file(self, name: str, kind: str) -> Path | None:
        """Return a file of a report; None if there is none or a link leads out of the directory."""
        if _NAME.fullmatch(name) is None:
            return None
        try:
            path = (self._directory / name / kind).resolve(strict=True)
            is_inside = path.is_relative_to(self._directory.resolve(strict=True))
        except (OSError, RuntimeError):
            return None
        return path if is_inside and path.is_file() else None

    def _requests(self, name: str) -> tuple[str, ...]:
        contents = self._file(name, CONTENTS)
        if contents is None:
            return ()
        try:
            with contents.open("rb") as file:
                document = json.loads(file.read(CONTENTS_BYTES_MAX))
        except (OSError, ValueError):
            return ()
        listed = document.get("requests") if isinstance(document, dict) else None
        return tuple(map(str, listed)) if isinstance(listed, list) else ()
