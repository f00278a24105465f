"""
Heads of HTTP requests: read within a limit, and refused in doubt.

A reverse proxy sends requests of several clients over one connection. Where it and this server
disagree about the end of a request, a client can prefix another client's request with lines of its
own. So whatever two readers may understand differently is refused and ends the connection: two
lengths, a coded body, a body where none is expected, folded lines, names with spaces.
"""

from __future__ import annotations

import re
from email.message import Message
from http.client import LineTooLong
from typing import Final, Protocol

HEAD_MAX: Final = 32 * 1024
"""Bytes of all headers of a request."""
_SINGLE: Final = (
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "origin",
    "sec-fetch-site",
)
"""Headers that decide something here: a second one could be the one that a proxy looked at."""
_BODILESS: Final = frozenset({"GET", "HEAD"})
_HEADER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*\r?\n")
"""A header on one line (RFC 9112, section 5), without the line ends and folds of former times."""
_END: Final = (b"\r\n", b"\n")


class Lines(Protocol):
    """What a head is read from."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or as much of it."""
        ...


class HeadReader:
    """The lines of one head, for ``http.client.parse_headers``."""

    def __init__(self, lines: Lines) -> None:
        """
        Prepare.

        Args:
            lines: The connection, behind the request line.

        """
        self._lines = lines
        self._left = HEAD_MAX
        self.is_valid = True
        """Whether each line so far is a header, or the end of the head."""

    def readline(self, size: int, /) -> bytes:
        """
        Return the next line.

        Raises:
            LineTooLong: the head is too long.

        """
        line = self._lines.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("head")
        if line not in _END and not _HEADER.fullmatch(line):
            self.is_valid = False
        return line


def problem_of(method: str, headers: Message) -> str | None:
    """Return why the end of a request is in doubt; None: it is not."""
    repeated = [name for name in _SINGLE if len(headers.get_all(name, ())) > 1]
    if repeated:
        return f"more than one header {repeated[0]}"
    if "transfer-encoding" in headers:
        return "a body with a Transfer-Encoding is not read here"
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        return "the Content-Length is not a number"
    if method in _BODILESS and length.strip("0"):
        return f"a {method} has no body"
    return None
