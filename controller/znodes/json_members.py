"""
Checked reading of the members of a JSON object, for objects with many optional members.

The first error is kept in ``problem``; from then on the values read mean nothing. The caller checks
``problem`` at the end. The meaning of the members is not known here.
"""

from __future__ import annotations

import re
from typing import Final

from controller.core.model import RequestId
from controller.core.requests.submissions import StepSize, Window
from controller.znodes import json_documents as documents
from controller.znodes.paths import valid_request
from controller.znodes.windows import read_window

TEXT_MAX: Final = 1000
"""The most characters of a reason or a name: they are stored with their request."""


DIGEST: Final = re.compile("[0-9a-f]{64}")
"""A SHA-256 as the approval of a plan names it."""


class Members:
    """The members of one object; an absent one is None or empty."""

    def __init__(self, document: documents.Document, where: str = "") -> None:
        """Read this object; ``where`` precedes the text of every error."""
        self._document = document
        self._where = f"{where}: " if where else ""
        self.problem: str | None = None
        """The problem of the first bad member; None without one."""

    def __contains__(self, key: str) -> bool:
        return key in self._document

    def wrong(self, reason: str) -> None:
        """Keep an error, if it is the first."""
        if self.problem is None:
            self.problem = f"{self._where}{reason}"

    def only(self, known: frozenset[str]) -> None:
        """Refuse other members: they would be ignored silently."""
        unknown = sorted(self._document.keys() - known)
        if unknown:
            self.wrong(f"the key {documents.excerpt(unknown[0])} is not known")

    def text(self, key: str) -> str:
        """Read a short text."""
        value = self._document.get(key, "")
        if not documents.is_text(value):
            self.wrong(f"{key} is not a text but {documents.excerpt(value)}")
            return ""
        if len(value) > TEXT_MAX:
            self.wrong(f"{key} is longer than {TEXT_MAX} characters")
        return value[:TEXT_MAX]

    def digest(self, key: str) -> str:
        """Read a SHA-256 in hexadecimal digits."""
        value = self._document.get(key)
        if isinstance(value, str) and DIGEST.fullmatch(value):
            return value
        if key in self._document:
            self.wrong(f"{key} is not a SHA-256 but {documents.excerpt(value)}")
        return ""

    def number(self, key: str, low: int = 1, high: int = documents.INT_MAX) -> int | None:
        """Read an integer within bounds."""
        value = self._document.get(key)
        if key not in self._document or documents.is_int(value, low, high):
            return value if isinstance(value, int) else None
        bounds = (
            f"from {low} on"
            if high in (documents.INT_MAX, documents.LONG_MAX)
            else f"from {low} to {high}"
        )
        self.wrong(f"{key} is a number {bounds}, not {documents.excerpt(value)}")
        return None

    def count(self, key: str) -> int:
        """Read a count that must be present."""
        if key not in self._document:
            self.wrong(f"{key} is missing")
        return self.number(key, low=0, high=documents.LONG_MAX) or 0

    def rate(self, key: str) -> int | None:
        """Read a number of bytes, or of bytes per second."""
        return self.number(key, high=documents.LONG_MAX)

    def flag(self, key: str) -> bool:
        """Read true or false."""
        value = self._document.get(key, False)
        if not isinstance(value, bool):
            self.wrong(f"{key} is true or false, not {documents.excerpt(value)}")
        return value is True

    def step_size(self, key: str) -> StepSize | None:
        """Read a step size: the number of replicas that a step adds."""
        value = self._document.get(key)
        if value == "all":
            return "all"
        if key in self._document and not documents.is_int(value, low=1):
            self.wrong(f'{key} is a number from 1 on or "all", not {documents.excerpt(value)}')
        return value if documents.is_int(value, low=1) else None

    def window(self, key: str) -> Window | None:
        """Read a window."""
        if key not in self._document:
            return None
        read = read_window(self._document[key])
        if isinstance(read, Window):
            return read
        self.wrong(f"{key}: {read}")
        return None

    def request(self, key: str) -> RequestId | None:
        """Read a request id."""
        value = self._document.get(key)
        if documents.is_text(value) and valid_request(value):
            return RequestId(value)
        if key in self._document:
            self.wrong(f"{key}: {documents.excerpt(value)} is not a request id")
        return None

    def listed(self, key: str) -> tuple[object, ...]:
        """Read a list."""
        value = self._document.get(key, [])
        if documents.is_list(value):
            return tuple(value)
        self.wrong(f"{key} is not a list but {documents.excerpt(value)}")
        return ()

    def mapping(self, key: str) -> documents.Document:
        """Read an object."""
        value = self._document.get(key, {})
        if documents.is_object(value):
            return value
        self.wrong(f"{key} is not an object but {documents.excerpt(value)}")
        return {}

    def within(self, key: str, value: object) -> Members:
        """Return the reader of an object within this one; ``adopt`` it when it is read."""
        if not documents.is_object(value):
            self.wrong(f"{key} is not an object but {documents.excerpt(value)}")
            return Members({}, f"{self._where}{key}")
        return Members(value, f"{self._where}{key}")

    def adopt(self, inner: Members) -> None:
        """Keep the error of an object within this one, if it is the first."""
        if inner.problem is not None and self.problem is None:
            self.problem = inner.problem
