"""
The HTTP server, on threads of its own; what it answers is ``pages``.

Bounded in connections and time, and without a word about its insides: what fails is logged here and
answered with a plain status. A client has one deadline for all of a request. Where there are too
many connections the oldest end, so that a probe, which comes in one packet, is always answered.
Pages may wait for the loop: how many are made at once is bounded apart from probes.
"""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import urlsplit

import structlog

from controller.errors import InvalidInputError
from controller.setting_values import HttpAddress
from controller.telemetry.page_actions import BODY_MAX
from controller.telemetry.routes import READ_ONLY, Answer, Routes, is_number, text

REQUEST_S: Final = 10.0
"""How long a client may take in all to send a request and to read its answer."""
CONNECTIONS_MAX: Final = 64
"""One more ends the oldest of the client that has the most."""
CLIENT_CONNECTIONS_MAX: Final = 24
"""Of one client address; one more ends its oldest."""
PAGES_MAX: Final = 32
"""Answers that are made at once, beside those of the probes."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
ANY_HOST: Final = frozenset({"/metrics"})
"""Served under any name: Prometheus addresses its targets as its configuration names them."""
LOCAL_NAMES: Final = (".localhost", ".local", ".internal", ".svc", ".home.arpa")
"""Endings of names that nobody can register on the internet."""
ANY_NAME: Final = "*"
UNKNOWN_NAME: Final = "this server does not go by that name; add it to the setting http_hosts"
SECURITY: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
}
"""Nothing but what the page itself holds may run, load, or be sent to."""


class HttpServer:
    """Serves the pages on threads of its own."""

    def __init__(self, address: HttpAddress, pages: Routes, *, names: Collection[str] = ()) -> None:
        """
        Listen, but do not answer yet.

        Args:
            address: Where.
            pages: What is answered.
            names: Registered names under which clients address this server, in lower case, beside
                the machine's own.

        Raises:
            PlanInvalidError: the address cannot be had.

        """
        try:
            self._server = _Server(address, pages, {address.host.lower(), *names})
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InvalidInputError(f"http: cannot listen on {address}: {why}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            name="http",
            kwargs={"poll_interval": 0.2},
            daemon=True,
        )
        host, port = self._server.server_address[:2]
        self.address = HttpAddress(str(host), int(port))
        """Where it listens; the port is the real one even when 0 was asked for."""

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the accepting thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop listening; answers under way may end."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(REQUEST_S)
        self._server.server_close()


def is_addressed(host: str | None, names: Collection[str]) -> bool:
    """
    Return whether a ``Host`` header may name this server.

    A web site can point a name of its own at our address, and its pages may then read our answers
    (DNS rebinding). It cannot do so with an address, nor with a name that is no registered domain.

    Args:
        host: The header; None where there is none, which no browser does.
        names: Names that are ours, in lower case.

    """
    if host is None or ANY_NAME in names:
        return True
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    with suppress(ValueError):
        return bool(ip_address(name))
    if name and ("." not in name or name.endswith(LOCAL_NAMES)):
        return True
    return name in names or name in _machine()


@cache
def _machine() -> frozenset[str]:
    """Return this machine's names; looked up when first needed, which may take a while."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


class _Connections:
    """The open connections, oldest first; too many end the oldest."""

    def __init__(self) -> None:
        self._open: dict[socket.socket, str] = {}
        self._lock = threading.Lock()

    def admit(self, connection: socket.socket, client: str) -> None:
        """Add a connection, and end an older one where there is no room for both."""
        with self._lock:
            self._open[connection] = client
            count = Counter(self._open.values())
            if count[client] > CLIENT_CONNECTIONS_MAX:
                crowd = client
            elif len(self._open) > CONNECTIONS_MAX:
                crowd = count.most_common(1)[0][0]
            else:
                return
            oldest = next(c for c, whose in self._open.items() if whose == crowd)
            del self._open[oldest]
            with suppress(OSError):  # it has just ended by itself
                oldest.shutdown(socket.SHUT_RDWR)

    def forget(self, connection: socket.socket) -> None:
        """Drop a connection that ended."""
        with self._lock:
            self._open.pop(connection, None)


class _Stream(io.RawIOBase):
    """A connection's bytes; waiting for the client takes from one allowance for each request."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left_s = REQUEST_S

    def renew(self) -> None:
        """Begin with another request."""
        self._left_s = REQUEST_S

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any buffer
        count: int = self._timed(lambda: self._connection.recv_into(buffer))
        return count

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        self._timed(lambda: self._connection.sendall(data))
        return len(data)

    def _timed(self, wait: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
        if self._left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(self._left_s)
        begun = time.monotonic()
        try:
            return wait()
        finally:
            self._left_s -= time.monotonic() - begun


class _Server(ThreadingHTTPServer):
    """A bounded number of connections, each with a time limit."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: HttpAddress, pages: Routes, names: Collection[str]) -> None:
        self.pages = pages
        self.names = names
        self.slots = threading.BoundedSemaphore(PAGES_MAX)
        self._connections = _Connections()
        self._log = structlog.stdlib.get_logger(__name__)
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        self._connections.admit(request, str(client_address[0]))
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._connections.forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.forget(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        """Tell the log, not the client; a client that hung up is not worth a line."""
        del request
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            self._log.error("http_failed", client=str(client_address[0]), exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "reassigner"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"
    server: _Server

    def setup(self) -> None:
        """Read and write within the allowance."""
        self.connection = self.request
        self._stream = _Stream(self.request)
        self.rfile = io.BufferedReader(self._stream)
        self.wfile = cast("io.BufferedIOBase", self._stream)

    def handle_one_request(self) -> None:
        """Give the next request an allowance of its own."""
        self._stream.renew()
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer."""
        pages = self.server.pages
        if self.path.partition("?")[0] in PROBES:
            self._send(pages.answer(self.path))
        else:
            self._send(self._made(lambda: pages.answer(self.path)))

    do_HEAD = do_GET  # noqa: N815 - as the base names it

    def do_POST(self) -> None:
        """Take a form, if there is anything to change."""
        self.close_connection = True
        if not self.server.pages.takes_forms:
            self._refuse()
            return
        length = self.headers.get("Content-Length", "")
        if not is_number(length) or int(length) > BODY_MAX:
            self._send(text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {BODY_MAX} bytes"))
            return
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        client = str(self.client_address[0])
        self._send(self._made(lambda: self.server.pages.post(self.path, headers, body, client)))

    def _made(self, make: Callable[[], Answer]) -> Answer:
        """Make an answer to a client that addresses us, if not too many are being made."""
        path = self.path.partition("?")[0]
        if path not in ANY_HOST and not is_addressed(self.headers.get("Host"), self.server.names):
            return text(HTTPStatus.MISDIRECTED_REQUEST, UNKNOWN_NAME)
        if not self.server.slots.acquire(blocking=False):
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; ask again")
        try:
            return make()
        finally:
            self.server.slots.release()

    def _refuse(self) -> None:
        self.close_connection = True
        self._send(text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY), Allow="GET, HEAD")

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _refuse  # noqa: N815 - as above

    def _send(self, answer: Answer, **headers: str) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.location:
            self.send_header("Location", answer.location)
        for name, value in SECURITY.items():
            self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Requests are not worth a line; probes come every second."""
