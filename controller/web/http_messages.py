"""Requests as the routes see them, and responses: values without sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

HTML: Final = "text/html; charset=utf-8"
FORM: Final = "application/x-www-form-urlencoded"
FORM_BYTES_MAX: Final = 4096
DIGITS_MAX: Final = 10
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""A page may run, load, frame and send nothing but its own styles, pictures and forms."""
PAGE_POLICY: Final = f"{POLICY}; script-src 'self'; connect-src 'self'"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request of a client."""

    path: str
    """With its query."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""
    client: str = ""
    body: bytes = b""

    @property
    def name(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """The first value of each field of the query."""
        return _fields(self.path.partition("?")[2])

    def form(self) -> dict[str, str] | None:
        """Return the first value of each field of the body; None if it is not a form."""
        if self.headers.get("content-type", "").partition(";")[0].strip() != FORM:
            return None
        return _fields(self.body.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Response:
    """Status, body and the headers that differ between paths."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def text(status: HTTPStatus, words: str, **headers: str) -> Response:
    """Return a line of plain text; ``_`` in the name of a header stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, "text/plain; charset=utf-8", f"{words}\n".encode(), named)


def html(page: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return a page, which may run the script of this server and nothing else."""
    return Response(status, HTML, page.encode(), {"Content-Security-Policy": PAGE_POLICY})


def json_response(document: Mapping[str, Any]) -> Response:
    """Return a JSON document."""
    body = json.dumps(document, indent=1).encode()
    return Response(HTTPStatus.OK, "application/json", body + b"\n")


def redirect(location: str, **headers: str) -> Response:
    """Send the browser to another page after a form."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(HTTPStatus.SEE_OTHER, HTML, b"", {"Location": location, **named})


def is_number(words: str) -> bool:
    """Return whether the text is a short non-negative integer."""
    return words.isascii() and words.isdigit() and len(words) < DIGITS_MAX


def _fields(encoded: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(encoded).items()}
