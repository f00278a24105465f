"""
The HTTP server: a thread for each connection, within limits of time and number.

Each request has a deadline for all that the client sends and reads. Where connections are too
many, the oldest are closed, so that a probe, which arrives in one packet, is always answered. The
number of pages made at a time has a limit of its own, which does not apply to probes. Errors are
logged here and answered with a plain status. See ``docs/decisions/0030``.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import urlsplit

import structlog

from controller.errors import InvalidInputError
from controller.server_tls import ServerTls
from controller.setting_values import HttpAddress
from controller.web.control_form import READ_ONLY
from controller.web.http_messages import POLICY, HttpRequest, Response, is_number, text
from controller.web.request_heads import HeadReader, problem_of
from controller.web.routes import Routes

REQUEST_S: Final = 10.0
"""Time for a client to send a request and to read the response, in all."""
CONNECTIONS_MAX: Final = 64
"""One more closes the oldest connection of the client that has the most."""
CLIENT_CONNECTIONS_MAX: Final = 24
"""For one client address; one more closes its oldest."""
PAGES_MAX: Final = 32
"""Responses made at a time, probes not counted."""
UNREAD_S: Final = 1.0
"""How long the rest of a refused request is awaited: closing before it arrives takes the answer."""
UNREAD_BYTES: Final = 64 * 1024
"""How much of that is read at a time."""
UNREAD_READS: Final = 64
POLL_S: Final = 0.2
"""Interval of the checks of deadlines."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
ANY_HOST: Final = frozenset({"/metrics"})
"""Served under any name: Prometheus addresses its targets as its configuration names them."""
LOCAL_NAMES: Final = (".localhost", ".local", ".internal", ".svc", ".home.arpa")
"""Suffixes that cannot be registered as domains."""
ANY_NAME: Final = "*"
UNKNOWN_NAME: Final = "this server does not go by that name; add it to the setting http_hosts"
SECURITY: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": POLICY,
}
"""Unless a response says otherwise."""


class HttpServer:
    """Serves the routes on threads of its own."""

    def __init__(
        self,
        address: HttpAddress,
        routes: Routes,
        *,
        names: Collection[str] = (),
        tls: ServerTls | None = None,
    ) -> None:
        """
        Bind and listen; requests are answered after ``start``.

        Args:
            address: Where to listen; port 0 takes a free port.
            routes: What is answered.
            names: Registered names of this server, in lower case, besides the machine's own.
            tls: For HTTPS; None: plain HTTP.

        Raises:
            InvalidInputError: the address is in use or does not belong to this machine.

        """
        try:
            self._server = _Server(address, routes, {address.host.lower(), *names}, tls)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InvalidInputError(f"http: cannot listen on {address}: {why}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="http", daemon=True
        )
        host, port = self._server.server_address[:2]
        self.address = HttpAddress(str(host), int(port))
        """The address in use, with the port that was taken for port 0."""

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the accepting thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop listening; responses under way may end."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(REQUEST_S)
        self._server.server_close()


def is_addressed(host: str | None, names: Collection[str]) -> bool:
    """
    Return whether a ``Host`` header may name this server.

    A web site can point a name of its own at our address, and its pages may then read our responses
    (DNS rebinding). It cannot do so with an address, nor with a name outside registered domains.

    Args:
        host: The header; None where there is none, which browsers never send.
        names: Names of this server, in lower case.

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
    """Return this machine's names; the lookup may take long and is made once, when needed."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


class _Connections:
    """The open connections, oldest first, each with its client address and deadline."""

    def __init__(self) -> None:
        self._clients: dict[socket.socket, str] = {}
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()

    def admit(self, connection: socket.socket, client: str) -> None:
        """Add a connection; close an older one if they are too many."""
        with self._lock:
            self._clients[connection] = client
            self._deadlines[connection] = time.monotonic() + REQUEST_S
            count = Counter(self._clients.values())
            if count[client] > CLIENT_CONNECTIONS_MAX:
                crowd = client
            elif len(self._clients) > CONNECTIONS_MAX:
                crowd = count.most_common(1)[0][0]
            else:
                return
            self._close(next(c for c, whose in self._clients.items() if whose == crowd))

    def renew(self, connection: socket.socket) -> None:
        """Give the next request of a connection its own deadline."""
        with self._lock:
            if connection in self._clients:
                self._deadlines[connection] = time.monotonic() + REQUEST_S

    @contextmanager
    def untimed(self, connection: socket.socket) -> Iterator[None]:
        """Exclude from a connection's time what the server itself needs to make a response."""
        begun = time.monotonic()
        with self._lock:
            deadline = self._deadlines.pop(connection, begun)
        yield
        with self._lock:
            if connection in self._clients:
                self._deadlines[connection] = deadline + time.monotonic() - begun

    def close_late(self) -> None:
        """Close the connections that are past their deadlines."""
        now = time.monotonic()
        with self._lock:
            for connection in [c for c, deadline in self._deadlines.items() if deadline <= now]:
                self._close(connection)

    def forget(self, connection: socket.socket) -> None:
        """Remove a connection that ended."""
        with self._lock:
            self._clients.pop(connection, None)
            self._deadlines.pop(connection, None)

    def _close(self, connection: socket.socket) -> None:
        """Wake the connection's thread, which then ends."""
        self._clients.pop(connection, None)
        self._deadlines.pop(connection, None)
        with suppress(OSError):  # the client closed it first
            # Of the socket below TLS: that of TLS would let the thread continue without it.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    """Accepts connections and enforces the limits."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        address: HttpAddress,
        routes: Routes,
        names: Collection[str],
        tls: ServerTls | None,
    ) -> None:
        self.routes = routes
        self.names = names
        self._tls = tls
        self.slots = threading.BoundedSemaphore(PAGES_MAX)
        self.connections = _Connections()
        self._log = structlog.stdlib.get_logger(__name__)
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), _Handler)

    def service_actions(self) -> None:
        self.connections.close_late()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; its own thread performs the TLS handshake."""
        connection, client_address = super().get_request()
        if self._tls is None:
            return connection, client_address
        try:
            return self._tls.context().wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            ), client_address
        except OSError:
            connection.close()
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        self.connections.admit(request, str(client_address[0]))
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self.connections.forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        try:
            if isinstance(request, ssl.SSLSocket):
                try:
                    request.do_handshake()
                except OSError:  # another protocol, another version, or a client that left
                    self.shutdown_request(request)
                    return
            super().process_request_thread(request, client_address)
        finally:
            self.connections.forget(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        """Log an error; a client that hung up is not logged."""
        del request
        error = sys.exception()
        if not isinstance(error, ConnectionError | ssl.SSLError):
            self._log.error("http_failed", client=str(client_address[0]), exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "reassigner"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"
    server: _Server

    def handle_one_request(self) -> None:
        self.server.connections.renew(self.connection)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the head of a request; refuse it where its end is in doubt."""
        connection, head = self.rfile, HeadReader(self.rfile)
        self.rfile = cast("BufferedReader", head)
        try:
            is_read = super().parse_request()
        finally:
            self.rfile = connection
        if not is_read:
            self._discard()
            return False
        problem = problem_of(self.command, self.headers)
        if not head.is_valid:
            problem = "a line of the head is not a header"
        if problem is not None:
            self.close_connection = True
            self._send(text(HTTPStatus.BAD_REQUEST, problem))
            self._discard()
        return problem is None

    def handle_expect_100(self) -> bool:
        """Let ``do_POST`` say whether a body is wanted."""
        return True

    def _discard(self) -> None:
        """Read what the client still sends, a while: else it may never see the answer."""
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(UNREAD_S)
            for _ in range(UNREAD_READS):
                if not self.connection.recv(UNREAD_BYTES):
                    return

    def do_GET(self) -> None:
        routes, request = self.server.routes, self._request()
        if request.name in PROBES:
            self._send(routes.answer(request))
        else:
            self._send(self._made(lambda: routes.answer(request)))

    do_HEAD = do_GET  # noqa: N815 - as the base names it

    def do_POST(self) -> None:
        self.close_connection = True
        routes, request = self.server.routes, self._request()
        if not routes.takes_forms:
            self._refuse()
            return
        length, most = self.headers.get("Content-Length", ""), routes.body_max(request)
        if not is_number(length) or int(length) > most:
            self._send(text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {most} bytes"))
            self._discard()
            return
        if self.headers.get("Expect"):
            super().handle_expect_100()
        body = self.rfile.read(int(length))
        if len(body) < int(length):  # closed by the client, or by the deadline
            return
        self._send(self._made(lambda: routes.post(replace(request, body=body))))

    def _request(self) -> HttpRequest:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return HttpRequest(self.path, headers, str(self.client_address[0]))

    def _made(self, make: Callable[[], Response]) -> Response:
        """Make a response if the ``Host`` header is accepted and not too many are being made."""
        path = self.path.partition("?")[0]
        if path not in ANY_HOST and not is_addressed(self.headers.get("Host"), self.server.names):
            return text(HTTPStatus.MISDIRECTED_REQUEST, UNKNOWN_NAME)
        if not self.server.slots.acquire(blocking=False):
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; ask again")
        try:
            with self.server.connections.untimed(self.connection):
                return make()
        finally:
            self.server.slots.release()

    def _refuse(self) -> None:
        self.close_connection = True
        self._send(text(HTTPStatus.METHOD_NOT_ALLOWED, READ_ONLY, Allow="GET, HEAD"))
        self._discard()

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _refuse  # noqa: N815 - as above

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        for name, value in {**SECURITY, **response.headers}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Do not log requests: probes arrive every second."""
