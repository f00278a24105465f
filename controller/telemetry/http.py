"""
The HTTP server, on threads of its own; what it answers is ``pages``.

Bounded in connections and time, and without a word about its insides: what fails is logged here and
answered with a plain status.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import structlog

from controller.errors import PlanInvalidError
from controller.setting_values import HttpAddress
from controller.telemetry.pages import READ_ONLY, Answer, Pages, is_number, text
from controller.telemetry.steering import BODY_MAX

IDLE_S: Final = 10.0
"""A connection that says nothing for so long is closed."""
CONNECTIONS_MAX: Final = 32
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

    def __init__(self, address: HttpAddress, pages: Pages) -> None:
        """
        Listen, but do not answer yet.

        Raises:
            PlanInvalidError: the address cannot be had.

        """
        try:
            self._server = _Server(address, pages)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise PlanInvalidError(f"http: cannot listen on {address}: {why}") from error
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
            self._thread.join(IDLE_S)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A bounded number of connections, each with a time limit."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: HttpAddress, pages: Pages) -> None:
        self.pages = pages
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._log = structlog.stdlib.get_logger(__name__)
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base says
        """Tell the log, not the client; a client that hung up is not worth a line."""
        del request
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            self._log.error("http_failed", client=str(client_address[0]), exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    timeout = IDLE_S
    protocol_version = "HTTP/1.1"
    server_version = "reassigner"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"
    server: _Server

    def do_GET(self) -> None:
        """Answer."""
        self._send(self.server.pages.answer(self.path))

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self._send(self.server.pages.answer(self.path))

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
        self._send(self.server.pages.post(self.path, headers, body, client))

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
