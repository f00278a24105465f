"""Tests of ``controller.telemetry.http``, over the loopback interface."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse

import pytest

from controller.errors import PlanInvalidError
from controller.settings import HttpAddress
from controller.telemetry.boards import StatusBoard
from controller.telemetry.health import Health
from controller.telemetry.http import HttpServer, Pages
from controller.telemetry.metrics import Metrics, SessionState
from tests.core.builders import tp
from tests.telemetry.builders import FixedClock, a_view

ANYWHERE = HttpAddress("127.0.0.1", 0)


class Served:
    """A server and what it answers from."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.clock = FixedClock()
        self.health = Health(clock=self.clock)
        self.board = StatusBoard(
            clock=self.clock, wall=self.clock.wall, engine="native", stalled_after_s=300.0
        )
        self.pages = Pages(metrics=Metrics(), board=self.board, health=self.health)
        self.server = HttpServer(ANYWHERE, self.pages)

    def is_running(self) -> None:
        """Let the loop turn and ZooKeeper be connected."""
        self.health.watch_loop(self.clock.now)
        self.health.watch_session(lambda: SessionState.CONNECTED)
        self.board.tend(a_view(1).view)

    def ask(self, path: str, method: str = "GET") -> tuple[HTTPResponse, str]:
        """Return an answer and its body."""
        connection = HTTPConnection(*self.server.address, timeout=5)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response, response.read().decode()
        finally:
            connection.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a server that answers."""
    found = Served()
    found.server.start()
    yield found
    found.server.close()


def test_probes_of_a_running_daemon_say_ok(served: Served) -> None:
    """200 on both."""
    served.is_running()
    for path in ("/healthz", "/readyz"):
        response, body = served.ask(path)
        assert (response.status, body) == (HTTPStatus.OK, "ok\n")


def test_probes_fail_with_a_reason(served: Served) -> None:
    """503, and what is wrong in words."""
    response, body = served.ask("/readyz")
    assert response.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert body == "the ZooKeeper session is lost\n"
    response, body = served.ask("/healthz")
    assert (response.status, body) == (503, "the loop does not run\n")


def test_a_daemon_is_not_ready_before_it_has_a_status(served: Served) -> None:
    """Who waits for readiness asks for the status next."""
    served.health.watch_loop(served.clock.now)
    served.health.watch_session(lambda: SessionState.CONNECTED)
    response, body = served.ask("/readyz")
    assert (response.status, body) == (503, "the daemon is starting\n")
    served.is_running()
    assert served.ask("/readyz")[0].status == HTTPStatus.OK


def test_one_partition_is_explained_by_the_loop(served: Served) -> None:
    """The loop answers, on its own thread, the next time it looks at the board."""
    served.is_running()
    view = a_view(1).with_reassignment(tp(), (4,)).view
    stopping = threading.Event()

    def turn() -> None:
        while not stopping.wait(0.01):
            served.board.tend(view)

    loop = threading.Thread(target=turn)
    loop.start()
    try:
        response, body = served.ask("/explain?partition=t-0")
    finally:
        stopping.set()
        loop.join()
    assert response.status == HTTPStatus.OK
    assert json.loads(body)["reassignment"]["target_replicas"] == [4]


@pytest.mark.parametrize("query", ["", "?", "?partition=t", "?partition=", "?topic=t"])
def test_a_question_without_a_partition_is_told_how_to_ask(served: Served, query: str) -> None:
    """400, and the right way."""
    response, body = served.ask(f"/explain{query}")
    assert response.status == HTTPStatus.BAD_REQUEST
    assert "/explain?partition=TOPIC-NUMBER" in body


def test_nothing_is_explained_before_the_first_turn(served: Served) -> None:
    """Nobody would answer."""
    assert served.ask("/explain?partition=t-0")[0].status == HTTPStatus.SERVICE_UNAVAILABLE


def test_the_status_is_the_newest_snapshot_with_the_health(served: Served) -> None:
    """Role and work from the loop, readiness from here."""
    served.is_running()
    response, body = served.ask("/status?pretty")
    assert response.headers["Content-Type"] == "application/json"
    document = json.loads(body)
    assert document["role"] == "leader"
    assert (document["ready"], document["unready_because"]) == (True, None)
    assert document["zookeeper"] == "connected"


def test_the_status_before_the_first_turn_is_unavailable(served: Served) -> None:
    """Nothing is invented."""
    response, _ = served.ask("/status")
    assert response.status == HTTPStatus.SERVICE_UNAVAILABLE


def test_metrics_can_be_scraped_and_know_the_session(served: Served) -> None:
    """Prometheus' content type, and a gauge from the health."""
    served.is_running()
    response, body = served.ask("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    line = 'reassigner_zookeeper_session{reassigner_zookeeper_session="connected"} 1.0'
    assert line in body


def test_the_page_is_html(served: Served) -> None:
    """Before and after the first turn."""
    for _ in range(2):
        response, body = served.ask("/")
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert body.startswith("<!doctype html>")
        served.is_running()


def test_head_has_the_length_and_no_body(served: Served) -> None:
    """As the protocol wants it."""
    response, body = served.ask("/", "HEAD")
    assert response.status == HTTPStatus.OK
    assert int(response.headers["Content-Length"]) > 0
    assert body == ""


def test_unknown_paths_are_not_found(served: Served) -> None:
    """404 with what there is."""
    response, body = served.ask("/etc/passwd")
    assert response.status == HTTPStatus.NOT_FOUND
    assert "/status" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(served: Served, method: str) -> None:
    """405 names what is allowed."""
    response, _ = served.ask("/status", method)
    assert response.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert response.headers["Allow"] == "GET, HEAD"


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
    with pytest.raises(PlanInvalidError, match=r"http: cannot listen on 127\.0\.0\.1:\d+: Address"):
        HttpServer(served.server.address, served.pages)


def test_a_host_that_is_not_ours_is_refused(served: Served) -> None:
    """TEST-NET-1 is nobody's address."""
    with pytest.raises(PlanInvalidError, match="cannot listen"):
        HttpServer(HttpAddress("192.0.2.1", 8095), served.pages)


def test_the_real_port_is_known(served: Served) -> None:
    """Port 0 takes a free one; the CLI has to find it."""
    assert served.server.address.port > 0
    assert served.server.is_alive
