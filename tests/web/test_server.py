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

from controller.errors import InvalidInputError
from controller.setting_values import HttpAddress
from controller.web import server as web_server
from controller.web.routes import Response, Routes
from controller.web.server import (
    ANY_NAME,
    CLIENT_CONNECTIONS_MAX,
    CONNECTIONS_MAX,
    PAGES_MAX,
    PROBES,
    HttpServer,
    is_addressed,
)
from tests.web.serving import ANYWHERE, WITHIN_S, Served, press


def test_nonsense_is_answered_without_insides(served: Served) -> None:
    """Neither a version nor a trace."""
    with socket.create_connection(served.server.address, timeout=5) as connection:
        connection.sendall(b"NONSENSE\r\n\r\n")
        answer = connection.recv(4096).decode()
    assert "Traceback" not in answer
    assert "Python" not in answer
    response, _ = served.ask("/healthz")
    assert response.headers["Server"].strip() == "reassigner"


def test_a_port_in_use_is_one_clear_sentence(served: Served) -> None:
    """The setting is named, and the reason."""
    with pytest.raises(
        InvalidInputError, match=r"http: cannot listen on 127\.0\.0\.1:\d+: Address"
    ):
        HttpServer(served.server.address, served.pages)


def test_a_host_that_is_not_ours_is_refused(served: Served) -> None:
    """TEST-NET-1 is nobody's address."""
    with pytest.raises(InvalidInputError, match="cannot listen"):
        HttpServer(HttpAddress("192.0.2.1", 8095), served.pages)


def test_the_real_port_is_known(served: Served) -> None:
    """Port 0 takes a free one; the CLI has to find it."""
    assert served.server.address.port > 0
    assert served.server.is_alive


def test_head_has_the_length_and_no_body(served: Served) -> None:
    """As the protocol wants it."""
    response, body = served.ask("/", "HEAD")
    assert response.status == HTTPStatus.OK
    assert int(response.headers["Content-Length"]) > 0
    assert body == ""


class Stuck:
    """Pages that take as long as the test wants, or are as large."""

    takes_forms = False

    def __init__(self, body: bytes = b"ok") -> None:
        self.making = threading.Semaphore(0)
        self.may_end = threading.Event()
        self._body = body

    def answer(self, path: str) -> Response:
        """Answer probes at once."""
        if path not in PROBES:
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
        server.close()


def begin(server: HttpServer, *, source: str = "127.0.0.1") -> socket.socket:
    """Begin a request that does not end."""
    connection = socket.create_connection(
        server.address, timeout=WITHIN_S, source_address=(source, 0)
    )
    connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
    return connection


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not ended a connection yet."""
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
    """From the probe's own address, as behind a proxy, or from many."""
    with serving(Stuck()) as server, ExitStack() as stack:
        for number in range(2 * CONNECTIONS_MAX):
            stack.enter_context(begin(server, source=sources[number % len(sources)]))
        for _ in range(5):
            assert probe(server, source=sources[0]) == HTTPStatus.OK


def test_a_request_that_trickles_in_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is of the whole request, not of each byte."""
    monkeypatch.setattr(web_server, "REQUEST_S", 0.5)
    with serving(Stuck()) as server, begin(server) as slow:
        begun = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - begun < WITHIN_S:
                slow.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() - begun < WITHIN_S / 2


def test_an_answer_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same deadline holds for taking the answer."""
    monkeypatch.setattr(web_server, "REQUEST_S", 0.5)
    pages = Stuck(b"x" * 50_000_000)
    pages.may_end.set()
    with serving(pages) as server, socket.create_connection(server.address, WITHIN_S) as lazy:
        lazy.sendall(b"GET / HTTP/1.1\r\n\r\n")
        time.sleep(1.0)
        read = 0
        with suppress(ConnectionError):
            while chunk := lazy.recv(1 << 20):
                read += len(chunk)
        assert read < 50_000_000


def test_a_crowd_from_one_address_ends_no_connection_of_others() -> None:
    """Its own oldest make room."""
    with serving(Stuck()) as server, ExitStack() as stack:
        other = stack.enter_context(begin(server, source="127.0.0.2"))
        crowd = [stack.enter_context(begin(server)) for _ in range(CLIENT_CONNECTIONS_MAX + 1)]
        assert probe(server) == HTTPStatus.OK
        assert not is_open(crowd[0])
        assert is_open(crowd[-1])
        assert is_open(other)


def test_pages_being_made_starve_no_probe() -> None:
    """So many are made at once; another is refused, a probe answered."""
    pages = Stuck()
    with serving(pages) as server, ExitStack() as stack:
        for number in range(PAGES_MAX):
            asking = socket.create_connection(
                server.address, WITHIN_S, source_address=(f"127.0.0.{1 + number % 4}", 0)
            )
            stack.enter_context(asking).sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert pages.making.acquire(timeout=WITHIN_S)
        more = stack.enter_context(socket.create_connection(server.address, WITHIN_S))
        more.sendall(b"GET / HTTP/1.1\r\n\r\n")
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
def test_only_our_own_names_address_us(host: str | None, *, is_ours: bool) -> None:
    """A site that leads a name of its own to our address is none of ours."""
    assert is_addressed(host, {"moves.example.com"}) is is_ours
    assert is_addressed(host, {ANY_NAME})


def test_pages_are_shown_only_to_those_who_address_us(steerable: Served) -> None:
    """Pages and forms need a name of ours; probes and Prometheus may use any name."""
    host = {"Host": "evil.example.com:8095"}
    for path in ("/", "/status", "/explain?partition=t-0"):
        assert steerable.ask(path, **host)[0].status == HTTPStatus.MISDIRECTED_REQUEST
    origin = {"Origin": "http://evil.example.com:8095"}
    response, body = press(steerable, "pause", **host, **origin)
    assert response.status == HTTPStatus.MISDIRECTED_REQUEST
    assert "http_hosts" in body
    assert steerable.steered == []
    for path in ("/healthz", "/metrics"):
        assert steerable.ask(path, **host)[0].status == HTTPStatus.OK
