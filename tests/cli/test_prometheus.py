"""Rates from a Prometheus server: what is read, and what is said of answers that are none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from controller.cli.prometheus_rates import BYTES_IN, read_rates
from controller.errors import InvalidInputError


class Answering(HTTPServer):
    """Answers every question with the same words."""

    def __init__(self, status: int, body: str) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body = status, body
        self.requested: list[str] = []

    @property
    def url(self) -> str:
        """Where it listens, with a path in front of its API as proxies have it."""
        return f"http://127.0.0.1:{self.server_port}/prometheus/"


class Handler(BaseHTTPRequestHandler):
    """One question."""

    server: Answering

    def do_GET(self) -> None:
        """Answer."""
        self.server.requested.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@contextmanager
def answering(document: object, status: int = 200) -> Iterator[Answering]:
    """Run a server."""
    body = document if isinstance(document, str) else json.dumps(document)
    with Answering(status, body) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def vector(*series: tuple[dict[str, str], str]) -> dict[str, Any]:
    """Return the answer to an instant query."""
    result = [{"metric": labels, "value": [1767225600.0, value]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def test_rates_are_added_up_by_topic_and_partition() -> None:
    """Several brokers may report one topic; without a partition label the rate is that of all."""
    response = vector(
        ({"topic": "orders", "instance": "a"}, "10.5"),
        ({"topic": "orders", "instance": "b"}, "2"),
        ({"topic": "clicks", "partition": "3"}, "7"),
    )
    with answering(response) as server:
        assert read_rates(server.url, BYTES_IN) == {("orders", None): 12.5, ("clicks", 3): 7.0}
        (requested,) = server.requested
    split = urlsplit(requested)
    assert split.path == "/prometheus/api/v1/query"
    assert parse_qs(split.query) == {"query": [BYTES_IN]}


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        ({"status": "error", "error": "parse error at char 3"}, 400, "400: parse error at char 3"),
        ("<html>no such page</html>", 404, "404: <html>no such page"),
        ("<html>hello</html>", 200, "is not a Prometheus that answers"),
        ([], 200, "is not a Prometheus that answers queries"),
        ({"status": "success", "data": {"resultType": "scalar", "result": []}}, 200, "but scalar"),
        ({"status": "success", "data": None}, 200, "but something else"),
        (vector(), 200, "has no series; name another metric with --prometheus-query"),
        (vector(({"job": "kafka"}, "1")), 200, '1 of 1 series are wrong:\n  no label topic: {"me'),
        (vector(({"topic": "t"}, "NaN")), 200, "not a rate"),
        (vector(({"topic": "t"}, "-1")), 200, "not a rate"),
        (vector(({"topic": "t", "partition": "x"}, "1")), 200, "invalid literal"),
    ],
)
def test_an_invalid_response_is_reported_with_the_server(
    document: object, status: int, words: str
) -> None:
    """In Prometheus' own words where it has some."""
    with answering(document, status) as server, pytest.raises(InvalidInputError) as raised:
        read_rates(server.url, BYTES_IN)
    assert words in str(raised.value)
    assert str(raised.value).startswith(server.url)


def test_an_unreachable_server_is_reported() -> None:
    """Its port is closed again."""
    with answering({}) as server:
        url = server.url
    with pytest.raises(InvalidInputError, match="Connection refused"):
        read_rates(url, BYTES_IN)


def test_only_web_addresses_are_queried() -> None:
    """No file is read by this way."""
    with pytest.raises(InvalidInputError, match="--prometheus takes a URL such as"):
        read_rates("file:///etc/passwd", BYTES_IN)


def test_a_range_gives_the_mean_of_its_points() -> None:
    """The query is evaluated over the range, and series of one topic are added."""
    result = [
        {"metric": {"topic": "orders", "instance": "a"}, "values": [[1.0, "2"], [2.0, "4"]]},
        {"metric": {"topic": "orders", "instance": "b"}, "values": [[2.0, "10"]]},
    ]
    response = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    with answering(response) as server:
        assert read_rates(server.url, BYTES_IN, (0.0, 600.0)) == {("orders", None): 13.0}
        (requested,) = server.requested
    split = urlsplit(requested)
    assert split.path == "/prometheus/api/v1/query_range"
    assert parse_qs(split.query) == {
        "query": [BYTES_IN],
        "start": ["0.000"],
        "end": ["600.000"],
        "step": ["10.000"],
    }
