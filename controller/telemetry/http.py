"""
The HTTP server: ``/metrics``, ``/healthz``, ``/readyz``, ``/status``, ``/explain``, and ``/``.

Read only, bounded in connections and time, and without a word about its insides: what fails is
logged here and answered with a plain status. It reads the newest snapshot, and has the loop asked
about a single partition; it never touches the view.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

import structlog

from controller.errors import PlanInvalidError
from controller.settings import HttpAddress
from controller.telemetry.boards import StatusBoard
from controller.telemetry.health import Health
from controller.telemetry.metrics import Metrics
from controller.telemetry.page import render_page
from controller.znodes.paths import parse_topic_partition

IDLE_S: Final = 10.0
"""A connection that says nothing for so long is closed."""
CONNECTIONS_MAX: Final = 32
ANSWER_WITHIN_S: Final = 3.0
"""The loop looks at the board at least once a second, unless a turn takes longer."""
_STARTING: Final = "the daemon is starting"
_ASKED_HOW: Final = "ask for /explain?partition=TOPIC-NUMBER"
METRICS_TYPE: Final = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path answers."""

    status: HTTPStatus
    content_type: str
    body: bytes


def text(status: HTTPStatus, words: str) -> Answer:
    """Return a plain answer."""
    return Answer(status, "text/plain; charset=utf-8", f"{words}\n".encode())


class Pages:
    """The answer of each path; knows nothing of sockets."""

    def __init__(self, *, metrics: Metrics, board: StatusBoard, health: Health) -> None:
        """Answer from these."""
        self._metrics = metrics
        self._board = board
        self._health = health
        self._paths: Mapping[str, Callable[[], Answer]] = {
            "/": self.page,
            "/status": self.status,
            "/explain": lambda: text(HTTPStatus.BAD_REQUEST, _ASKED_HOW),
            "/metrics": self.metrics,
            "/healthz": self.healthz,
            "/readyz": self.readyz,
        }

    def answer(self, path: str) -> Answer:
        """Return the answer of a path, whatever follows its question mark."""
        name, _, query = path.partition("?")
        if name == "/explain" and query:
            return self.explain(query)
        found = self._paths.get(name)
        if found is None:
            return text(HTTPStatus.NOT_FOUND, f"not found; there are {' '.join(self._paths)}")
        return found()

    def explain(self, query: str) -> Answer:
        """What the daemon knows of one partition."""
        named = parse_qs(query).get("partition", [""])[0]
        partition = parse_topic_partition(named)
        if partition is None:
            return text(HTTPStatus.BAD_REQUEST, _ASKED_HOW)
        if self._board.latest is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        try:
            document = self._board.ask(partition).result(ANSWER_WITHIN_S)
        except TimeoutError:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, "the loop is busy; ask again")
        return _json(document)

    def healthz(self) -> Answer:
        """Whether the process is alive."""
        return _probe(self._health.why_dead())

    def readyz(self) -> Answer:
        """Whether it could do its work."""
        return _probe(self._why_unready())

    def metrics(self) -> Answer:
        """Prometheus' text format."""
        self._metrics.session_is(self._health.session)
        return Answer(HTTPStatus.OK, METRICS_TYPE, self._metrics.exposition())

    def status(self) -> Answer:
        """The status document."""
        document = self._document()
        if document is None:
            return text(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        return _json(document)

    def page(self) -> Answer:
        """The same for people."""
        body = render_page(self._document()).encode()
        return Answer(HTTPStatus.OK, "text/html; charset=utf-8", body)

    def _why_unready(self) -> str | None:
        """Before its first turn a daemon has nothing to show, whatever its session says."""
        reason = self._health.why_unready()
        if reason is None and self._board.latest is None:
            return _STARTING
        return reason

    def _document(self) -> Mapping[str, Any] | None:
        snapshot = self._board.latest
        if snapshot is None:
            return None
        unready = self._why_unready()
        return {
            **snapshot.status,
            "ready": unready is None,
            "unready_because": unready,
            "zookeeper": self._health.session.value,
        }


def _json(document: Mapping[str, Any]) -> Answer:
    body = json.dumps(document, indent=1).encode()
    return Answer(HTTPStatus.OK, "application/json", body + b"\n")


def _probe(reason: str | None) -> Answer:
    if reason is None:
        return text(HTTPStatus.OK, "ok")
    return text(HTTPStatus.SERVICE_UNAVAILABLE, reason)


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

    def _refuse(self) -> None:
        self.close_connection = True
        self._send(text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD"), Allow="GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _refuse  # noqa: N815 - as above

    def _send(self, answer: Answer, **headers: str) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Requests are not worth a line; probes come every second."""
