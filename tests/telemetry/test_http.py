"""Tests of ``controller.telemetry.http``, over the loopback interface."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from typing import Final, cast
from urllib.parse import urlencode

import pytest

from controller.core.model import RequestId
from controller.core.view import ClusterView
from controller.errors import InvalidInputError, ReassignmentConflictError
from controller.setting_values import HttpAddress
from controller.telemetry import http
from controller.telemetry.health import Health
from controller.telemetry.http import (
    ANY_NAME,
    CLIENT_CONNECTIONS_MAX,
    CONNECTIONS_MAX,
    PAGES_MAX,
    PROBES,
    HttpServer,
    is_addressed,
)
from controller.telemetry.metrics import Metrics, SessionState
from controller.telemetry.page_actions import BODY_MAX, CLIENTS_MAX, FORM, Actions
from controller.telemetry.routes import Answer, Routes
from controller.telemetry.status_publisher import StatusPublisher
from tests.core.builders import tp
from tests.telemetry.builders import FixedClock, a_view

ANYWHERE = HttpAddress("127.0.0.1", 0)
WITHIN_S: Final = 10.0


TOKEN = "correct horse battery staple"  # noqa: S105 - of nothing


class Steered:
    """Keeps what was to be done."""

    def __init__(self, done: list[tuple[str, str | None]]) -> None:
        """Keep it there."""
        self._done = done

    def pause(self, request: RequestId | None) -> None:
        """Keep a pause."""
        self._done.append(("pause", request))

    def resume(self, request: RequestId | None) -> None:
        """Keep a resumption."""
        self._done.append(("resume", request))

    def cancel(self, request: RequestId | None) -> None:
        """Refuse."""
        raise ReassignmentConflictError(f"another <cancel> is being carried out, not {request}")


class Served:
    """A server and what it answers from."""

    def __init__(self, *, token: str | None = None) -> None:
        """Listen on a free port; with a token things can be changed."""
        self.clock = FixedClock()
        self.health = Health(clock=self.clock)
        self.board = StatusPublisher(
            clock=self.clock, wall=self.clock.wall, engine="native", stalled_after_s=300.0
        )
        self.steered: list[tuple[str, str | None]] = []
        self.told: list[tuple[str, str, str, str]] = []
        desk = None
        if token is not None:
            desk = Actions(token, Steered(self.steered), self.clock, lambda *t: self.told.append(t))
        self.pages = Routes(
            metrics=Metrics(),
            board=self.board,
            health=self.health,
            wall=self.clock.wall,
            desk=desk,
        )
        self.server = HttpServer(ANYWHERE, self.pages)

    def is_running(self) -> None:
        """Let the loop turn and ZooKeeper be connected."""
        self.health.watch_loop(self.clock.now)
        self.health.watch_session(lambda: SessionState.CONNECTED)
        self.board.tend(a_view(1).view)

    @contextmanager
    def turning(self, view: ClusterView) -> Iterator[None]:
        """Let the loop look at the board now and then."""
        stopping = threading.Event()

        def turn() -> None:
            while not stopping.wait(0.01):
                self.board.tend(view)

        loop = threading.Thread(target=turn)
        loop.start()
        try:
            yield
        finally:
            stopping.set()
            loop.join()

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        body: str | None = None,
        source: str = "",
        **headers: str,
    ) -> tuple[HTTPResponse, str]:
        """Return an answer and its body, asked from a local address."""
        origin = (source, 0) if source else None
        connection = HTTPConnection(*self.server.address, timeout=5, source_address=origin)
        try:
            connection.request(
                method, path, body, {k.replace("_", "-"): v for k, v in headers.items()}
            )
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
    with served.turning(a_view(1).with_reassignment(tp(), (4,)).view):
        response, body = served.ask("/explain?partition=t-0")
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


# --- clients that are slow, many or strange ----------------------------------------------------


class Stuck:
    """Pages that take as long as the test wants, or are as large."""

    takes_forms = False

    def __init__(self, body: bytes = b"ok") -> None:
        self.making = threading.Semaphore(0)
        self.may_end = threading.Event()
        self._body = body

    def answer(self, path: str) -> Answer:
        """Answer probes at once."""
        if path not in PROBES:
            self.making.release()
            assert self.may_end.wait(WITHIN_S)
        return Answer(HTTPStatus.OK, "text/plain", self._body)


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
    monkeypatch.setattr(http, "REQUEST_S", 0.5)
    with serving(Stuck()) as server, begin(server) as slow:
        begun = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - begun < WITHIN_S:
                slow.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() - begun < WITHIN_S / 2


def test_an_answer_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same deadline holds for taking the answer."""
    monkeypatch.setattr(http, "REQUEST_S", 0.5)
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


# --- pages -------------------------------------------------------------------------------------


def test_partitions_are_filtered_by_the_address(served: Served) -> None:
    """Topic, phase, broker, request and page; nonsense selects nothing in particular."""
    built = a_view(1, 2, 3, 4)
    for number in range(120):
        built.with_partition(tp(number), (1, 2)).with_reassignment(tp(number), (1, 3))
    served.is_running()
    with served.turning(built.view):
        pages = {
            query: served.ask(f"/?{query}")[1]
            for query in ("page=2", "page=99", "topic=zzz", "phase=pending&broker=3", "broker=4")
        }
        odd = served.ask("/?broker=%F0%9F%98%80&page=-3&phase=%3Cb%3E&topic=")[1]
    assert "120 partitions, page 2 of 3" in pages["page=2"]
    assert "t-50<" in pages["page=2"]
    assert "t-49<" not in pages["page=2"]
    assert "120 partitions, page 3 of 3" in pages["page=99"]
    assert "0 partitions" in pages["topic=zzz"]
    assert "120 partitions" in pages["phase=pending&amp;broker=3".replace("&amp;", "&")]
    assert "0 partitions" in pages["broker=4"]
    assert "<b>" not in odd


def test_page_is_shown_while_the_loop_is_busy(served: Served) -> None:
    """Without the table, which only the loop can make."""
    served.is_running()
    _, body = served.ask("/")
    assert "The loop is busy" in body


def test_nothing_may_run_load_or_frame_the_page(served: Served) -> None:
    """What slipped through the escaping would still do nothing."""
    response, _ = served.ask("/")
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_history_of_an_unknown_request_is_not_found(served: Served) -> None:
    """And its name is escaped."""
    response, body = served.ask("/history?request=%3Cscript%3E")
    assert response.status == HTTPStatus.NOT_FOUND
    assert "&lt;script&gt;" in body
    assert "<script" not in body


# --- forms -------------------------------------------------------------------------------------


@pytest.fixture
def steerable() -> Iterator[Served]:
    """Return a server with a token."""
    found = Served(token=TOKEN)
    found.server.start()
    found.is_running()
    yield found
    found.server.close()


def press(
    served: Served,
    action: str,
    token: str = TOKEN,
    request: str = "r",
    source: str = "",
    **headers: str,
) -> tuple[HTTPResponse, str]:
    """Send a form."""
    form = urlencode({"action": action, "request": request, "token": token})
    headers = {"Content_Type": FORM, **headers}
    return served.ask("/control", "POST", body=form, source=source, **headers)


def test_without_a_token_there_is_nothing_to_press(served: Served) -> None:
    """Neither a link, nor a form, nor an answer to one."""
    served.is_running()
    assert "/control" not in served.ask("/")[1]
    assert served.ask("/control?action=pause")[0].status == HTTPStatus.NOT_FOUND
    assert press(served, "pause")[0].status == HTTPStatus.METHOD_NOT_ALLOWED
    assert served.steered == []


def test_form_with_the_token_is_carried_out(steerable: Served) -> None:
    """For one request, or for everything; afterwards the overview is shown."""
    assert "/control?action=pause" in steerable.ask("/")[1]
    page = steerable.ask("/control?action=pause&request=r")[1]
    assert 'method="post"' in page
    assert "http-equiv" not in page
    response, _ = press(steerable, "pause")
    assert (response.status, response.headers["Location"]) == (HTTPStatus.SEE_OTHER, "/")
    press(steerable, "resume", request="")
    assert steerable.steered == [("pause", "r"), ("resume", None)]
    assert steerable.told[0] == ("pause", "r", "127.0.0.1", "done")


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "\u00fc" * 30])
def test_wrong_token_changes_nothing(steerable: Served, token: str) -> None:
    """And is told."""
    response, body = press(steerable, "pause", token)
    assert response.status == HTTPStatus.FORBIDDEN
    assert "wrong token" in body
    assert steerable.steered == []
    assert steerable.told == [("pause", "r", "127.0.0.1", "wrong token")]


def test_a_client_is_locked_out_after_too_many_wrong_tokens(steerable: Served) -> None:
    """For a minute; guessing takes for ever, and keeps no other client from its work."""
    for _ in range(10):
        press(steerable, "pause", "wrong")
    assert "too many wrong tokens" in press(steerable, "pause")[1]
    assert press(steerable, "pause", source="127.0.0.2")[0].status == HTTPStatus.SEE_OTHER
    steerable.clock.go(61)
    assert press(steerable, "pause")[0].status == HTTPStatus.SEE_OTHER


def test_wrong_tokens_of_so_many_clients_are_remembered() -> None:
    """Memory is bounded; the client that was wrong last is not forgotten."""
    desk = Actions(TOKEN, Steered([]), FixedClock(), lambda *_: None)
    body = urlencode({"action": "pause", "token": "wrong"}).encode()
    headers = {"content-type": FORM}
    for number in range(CLIENTS_MAX * 2):
        desk.take(headers, body, f"client {number}")
        desk.take(headers, body, "persistent")
    assert len(desk._wrong) == CLIENTS_MAX
    assert "too many" in desk.take(headers, body, "persistent").html


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_form_of_another_site_is_refused(steerable: Served, headers: dict[str, str]) -> None:
    """Even with the token."""
    response, _ = press(steerable, "pause", **headers)
    assert response.status == HTTPStatus.FORBIDDEN
    assert steerable.steered == []


def test_form_of_our_own_page_is_taken(steerable: Served) -> None:
    """As browsers send it."""
    host = "{}:{}".format(*steerable.server.address)
    response, _ = press(steerable, "pause", Origin=f"http://{host}", Sec_Fetch_Site="same-origin")
    assert response.status == HTTPStatus.SEE_OTHER


def test_what_cannot_be_done_is_said(steerable: Served) -> None:
    """With the form, to try again; escaped."""
    response, body = press(steerable, "cancel")
    assert response.status == HTTPStatus.CONFLICT
    assert "another &lt;cancel&gt; is being carried out" in body
    assert TOKEN not in body


def test_what_is_no_form_is_refused(steerable: Served) -> None:
    """Another type, another action, too much, or no length at all."""
    assert press(steerable, "pause", Content_Type="text/plain")[0].status == 415
    assert press(steerable, "shutdown")[0].status == HTTPStatus.BAD_REQUEST
    long = steerable.ask("/control", "POST", body="x" * (BODY_MAX + 1), Content_Type=FORM)
    assert long[0].status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    odd = steerable.ask("/control", "POST", Content_Type=FORM, Content_Length="ten")
    assert odd[0].status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert steerable.ask("/control?action=x")[0].status == HTTPStatus.NOT_FOUND
    assert steerable.ask("/status", "POST", body="", Content_Type=FORM)[0].status == 405
    assert steerable.steered == []
