"""The HTTP server keeps its limits whatever its clients do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection
from typing import cast

import pytest
from structlog.testing import capture_logs

from controller.errors import InvalidInputError
from controller.setting_values import HttpAddress
from controller.web import http_server as web_server
from controller.web.http_messages import HttpRequest, Response
from controller.web.http_server import (
    ANY_NAME,
    CLIENT_CONNECTIONS_MAX,
    CONNECTIONS_MAX,
    PAGES_MAX,
    PROBES,
    HttpServer,
    is_addressed,
)
from controller.web.routes import Routes
from tests.web.serving import ANYWHERE, WITHIN_S, Served, press


def test_malformed_request_reveals_nothing(served: Served) -> None:
    """Neither a version nor a traceback."""
    with socket.create_connection(served.server.address, timeout=5) as connection:
        connection.sendall(b"NONSENSE\r\n\r\n")
        answer = connection.recv(4096).decode()
    assert "Traceback" not in answer
    assert "Python" not in answer
    response, _ = served.fetch("/healthz")
    assert response.headers["Server"].strip() == "reassigner"


def test_port_in_use_is_reported_with_the_setting(served: Served) -> None:
    """The setting is named, and the reason."""
    with pytest.raises(
        InvalidInputError, match=r"http: cannot listen on 127\.0\.0\.1:\d+: Address"
    ):
        HttpServer(served.server.address, served.routes)


def test_foreign_address_is_refused(served: Served) -> None:
    """TEST-NET-1 is assigned to no machine."""
    with pytest.raises(InvalidInputError, match="cannot listen"):
        HttpServer(HttpAddress("192.0.2.1", 8095), served.routes)


def test_the_real_port_is_known(served: Served) -> None:
    """For port 0."""
    assert served.server.address.port > 0
    assert served.server.is_alive


def test_head_has_the_length_and_no_body(served: Served) -> None:
    """As HTTP requires."""
    response, body = served.fetch("/", "HEAD")
    assert response.status == HTTPStatus.OK
    assert int(response.headers["Content-Length"]) > 0
    assert body == ""


class Stuck:
    """Routes that answer when the test allows it, with a body of any size."""

    takes_forms = False

    def __init__(self, body: bytes = b"ok") -> None:
        self.making = threading.Semaphore(0)
        self.may_end = threading.Event()
        self._body = body

    def answer(self, request: HttpRequest) -> Response:
        """Answer probes at once."""
        if request.name not in PROBES:
            self.making.release()
            assert self.may_end.wait(WITHIN_S)
        return Response(HTTPStatus.OK, "text/plain", self._body)


@contextmanager
def serving(pages: Stuck) -> Iterator[HttpServer]:
    """Serve these pages."""
    server = HttpServer(ANYWHERE, cast("Routes", pages))
    server.start()
    try:
        yield server
    finally:
        pages.may_end.set()
        server.stop()


def begin(server: HttpServer, *, source: str = "127.0.0.1") -> socket.socket:
    """Begin a request that does not end."""
    connection = socket.create_connection(
        server.address, timeout=WITHIN_S, source_address=(source, 0)
    )
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
    return connection


def is_open(connection: socket.socket) -> bool:
    """Return whether the server has not closed a connection."""
    connection.settimeout(0.2)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def probe(server: HttpServer, *, source: str = "127.0.0.1") -> int:
    """Return the status of a probe."""
    connection = HTTPConnection(*server.address, timeout=WITHIN_S, source_address=(source, 0))
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("sources", [["127.0.0.1"], [f"127.0.0.{n}" for n in range(1, 9)]])
def test_slow_clients_starve_no_probe(sources: list[str]) -> None:
    """From the probe's own address, as behind a proxy, or from many addresses."""
    with serving(Stuck()) as server, ExitStack() as stack:
        for number in range(2 * CONNECTIONS_MAX):
            stack.enter_context(begin(server, source=sources[number % len(sources)]))
        for _ in range(5):
            assert probe(server, source=sources[0]) == HTTPStatus.OK


class Broken(Stuck):
    """Routes with a defect."""

    def answer(self, request: HttpRequest) -> Response:
        """Fail as the operating system would."""
        raise OSError(request.name)


def test_defect_is_logged_and_reveals_nothing() -> None:
    """Also one that looks like an error of the connection; the next page is answered."""
    with capture_logs() as logs, serving(Broken()) as server:
        for _ in range(2):
            connection = HTTPConnection(*server.address, timeout=WITHIN_S)
            connection.request("GET", "/secret")
            response = connection.getresponse()
            assert response.status == HTTPStatus.INTERNAL_SERVER_ERROR
            assert b"secret" not in response.read()
            connection.close()
    assert [line["event"] for line in logs] == ["http_failed"] * 2


def test_connections_hold_no_threads() -> None:
    """Only pages do, while they are made."""
    with serving(Stuck()) as server, ExitStack() as stack:
        before = threading.active_count()
        for _ in range(CLIENT_CONNECTIONS_MAX - 1):
            stack.enter_context(begin(server))
        assert probe(server) == HTTPStatus.OK
        # Threads of earlier tests may end meanwhile.
        assert threading.active_count() <= before


def test_trickling_request_is_closed_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is for the whole request, not for each byte."""
    monkeypatch.setattr(web_server, "REQUEST_S", 0.5)
    with serving(Stuck()) as server, begin(server) as slow:
        begun = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - begun < WITHIN_S:
                slow.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() - begun < WITHIN_S / 2


def test_unread_response_is_closed_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline includes reading the response."""
    monkeypatch.setattr(web_server, "REQUEST_S", 0.5)
    pages = Stuck(b"x" * 50_000_000)
    pages.may_end.set()
    with serving(pages) as server, socket.create_connection(server.address, WITHIN_S) as lazy:
        lazy.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.0)
        read = 0
        with suppress(ConnectionError):
            while chunk := lazy.recv(1 << 20):
                read += len(chunk)
        assert read < 50_000_000


def test_crowd_from_one_address_closes_its_own_oldest() -> None:
    """Connections of other addresses stay."""
    with serving(Stuck()) as server, ExitStack() as stack:
        other = stack.enter_context(begin(server, source="127.0.0.2"))
        crowd = [stack.enter_context(begin(server)) for _ in range(CLIENT_CONNECTIONS_MAX + 1)]
        assert probe(server) == HTTPStatus.OK
        assert not is_open(crowd[0])
        assert is_open(crowd[-1])
        assert is_open(other)


def test_pages_being_made_starve_no_probe() -> None:
    """Beyond the limit a page is refused, a probe is answered."""
    pages = Stuck()
    with serving(pages) as server, ExitStack() as stack:
        for number in range(PAGES_MAX):
            requesting = socket.create_connection(
                server.address, WITHIN_S, source_address=(f"127.0.0.{1 + number % 4}", 0)
            )
            stack.enter_context(requesting).sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert pages.making.acquire(timeout=WITHIN_S)
        more = stack.enter_context(socket.create_connection(server.address, WITHIN_S))
        more.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 503 " in more.recv(100)
        assert probe(server) == HTTPStatus.OK


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        (None, True),
        ("127.0.0.1:8095", True),
        ("[::1]:8095", True),
        ("192.0.2.7", True),
        ("localhost:8095", True),
        ("reassigner", True),
        ("reassigner-0.reassigner.kafka.svc.cluster.local:8095", True),
        ("Moves.Example.com:8095", True),
        ("moves.example.com.", True),
        ("evil.example.com:8095", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_only_names_of_this_server_are_accepted(host: str | None, *, is_ours: bool) -> None:
    """A site may point a name of its own at our address."""
    assert is_addressed(host, {"moves.example.com"}) is is_ours
    assert is_addressed(host, {ANY_NAME})


def test_pages_need_a_name_of_this_server(steerable: Served) -> None:
    """Probes and /metrics are served under any name."""
    host = {"Host": "evil.example.com:8095"}
    for path in ("/", "/status", "/explain?partition=t-0"):
        assert steerable.fetch(path, **host)[0].status == HTTPStatus.MISDIRECTED_REQUEST
    origin = {"Origin": "http://evil.example.com:8095"}
    response, body = press(steerable, "pause", **host, **origin)
    assert response.status == HTTPStatus.MISDIRECTED_REQUEST
    assert "http_hosts" in body
    assert steerable.steered == []
    for path in ("/healthz", "/metrics"):
        assert steerable.fetch(path, **host)[0].status == HTTPStatus.OK


def test_time_to_make_a_response_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form may wait for ZooKeeper longer than a client may take."""
    monkeypatch.setattr(web_server, "REQUEST_S", 2.0)
    routes = Stuck()
    with serving(routes) as server, socket.create_connection(server.address, WITHIN_S) as waiting:
        waiting.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(3.0)
        routes.may_end.set()
        assert b" 200 " in waiting.recv(100)


def test_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of the next request starts with the end of the last response."""
    monkeypatch.setattr(web_server, "REQUEST_S", 2.0)
    with serving(Stuck()) as server, socket.create_connection(server.address, WITHIN_S) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while chunk := idle.recv(1000):
            received += chunk
        assert received.startswith(b"HTTP/1.1 200 ")
        assert received.endswith(b"ok")
