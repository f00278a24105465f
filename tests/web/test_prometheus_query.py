"""The operator's query: its readings, and why there is none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from controller.core.model import Instant
from controller.core.pacing.model import Signal, SignalKind
from controller.web.prometheus_query import (
    EVERY_S,
    PrometheusQuery,
    QueryError,
    longest_range_s,
    samples_of,
    worst,
)

UNIX_S = 1_700_000_000.0
EXPRESSION = "histogram_quantile(0.99, rate(produce_seconds_bucket[30s]))"


@dataclass
class FixedClock:
    """A clock that is set by hand."""

    at: float = 1000.0

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(self.at)


def vector(*elements: tuple[str | None, float, str]) -> dict[str, Any]:
    """Return an answer with these brokers, time stamps and values."""
    result = [
        {"metric": {} if broker is None else {"broker": broker}, "value": [at, value]}
        for broker, at, value in elements
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


SCALAR = {"status": "success", "data": {"resultType": "scalar", "result": [UNIX_S, "0.25"]}}


@dataclass
class Prometheus:
    """What a small server answers, and what it was asked."""

    url: str = ""
    status: int = 200
    body: bytes = b"{}"
    requests: list[tuple[str, dict[str, list[str]], str | None]] = field(default_factory=list)


@contextmanager
def prometheus() -> Iterator[Prometheus]:
    """Run a server."""
    state = Prometheus()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            state.requests.append(
                (parts.path, parse_qs(parts.query), self.headers.get("Authorization"))
            )
            self.send_response(state.status)
            self.end_headers()
            self.wfile.write(state.body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        yield state
        server.shutdown()


def measured(query: PrometheusQuery) -> tuple[Signal, ...]:
    """Query once and return the readings."""
    query.measure()
    assert query._pending is not None
    query._pending.join(10)
    return query.take_readings()


def test_a_reading_is_as_old_as_its_time_stamp_and_begins_with_the_range() -> None:
    """Each broker has its own; what concerns none concerns all. The query is sent as it is."""
    clock = FixedClock()
    with prometheus() as server:
        server.body = json.dumps(
            vector(("3", UNIX_S - 2, "0.9"), (None, UNIX_S - 4, "0.4"), (None, UNIX_S - 4, "0.2"))
        ).encode()
        url = server.url.replace("//", "//kim:p%40ss@") + "/prefix/"
        query = PrometheusQuery(url, EXPRESSION, 0.5, clock, lambda: UNIX_S)
        of_broker, of_all = measured(query)
        assert measured_again(query, clock) == ()
    assert server.requests[0] == (
        "/prefix/api/v1/query",
        {"query": [EXPRESSION]},
        "Basic a2ltOnBAc3M=",
    )
    assert (of_broker.broker, of_broker.value) == (3, 0.9)
    assert (of_broker.since, of_broker.at) == (Instant(968), Instant(998))
    assert (of_all.broker, of_all.value) == (None, 0.4)
    assert (of_all.since, of_all.at) == (Instant(966), Instant(996))
    assert (of_broker.kind, of_broker.strain) == (SignalKind.QUERY, 1.8)
    assert query.problem == ""


def measured_again(query: PrometheusQuery, clock: FixedClock) -> tuple[Signal, ...]:
    """Query once more, when it is time to."""
    clock.at += EVERY_S
    return measured(query)


def test_a_query_is_not_sent_before_it_is_time() -> None:
    """Nor while one is under way."""
    with prometheus() as server:
        server.body = json.dumps(SCALAR).encode()
        query = PrometheusQuery(server.url, EXPRESSION, 0.5, FixedClock(), lambda: UNIX_S)
        (reading,) = measured(query)
        query.measure()
    assert (reading.broker, reading.value) == (None, 0.25)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (400, b'{"status": "error", "error": "parse error"}', "it answered 400: parse error"),
        (503, b"<html>", "it answered 503"),
        (200, b"<html>", "its answer is no JSON"),
        (200, b"[]", "its answer is not one of Prometheus' HTTP API"),
        (200, json.dumps(vector()).encode(), "its result is empty"),
        (200, json.dumps(vector(("1", 1.0, "NaN"))).encode(), "its result is not a number"),
        (
            200,
            b'{"data": {"resultType": "matrix", "result": []}}',
            "its result is a matrix, not a scalar or an instant vector",
        ),
    ],
)
def test_an_answer_without_a_value_is_a_problem(status: int, body: bytes, problem: str) -> None:
    """It lasts until there is a value again."""
    clock = FixedClock()
    with prometheus() as server:
        server.status, server.body = status, body
        query = PrometheusQuery(server.url, EXPRESSION, 0.5, clock, lambda: UNIX_S)
        assert measured(query) == ()
        assert query.problem.startswith(problem)
        server.status, server.body = 200, json.dumps(SCALAR).encode()
        assert len(measured_again(query, clock)) == 1
    assert query.problem == ""


def test_a_server_that_is_gone_is_a_problem() -> None:
    """The reason is that of the connection."""
    with prometheus() as server:
        url = server.url
    query = PrometheusQuery(url, EXPRESSION, 0.5, FixedClock())
    assert measured(query) == ()
    assert "refused" in query.problem


def test_values_that_are_no_numbers_are_left_out() -> None:
    """A label that is no id of a broker names none."""
    answer = vector(("1", 5.0, "NaN"), ("2", 5.0, "0.1"), ("kafka-3", 5.0, "0.3"))
    assert worst(samples_of(answer)) == {2: (2, 5.0, 0.1), None: (None, 5.0, 0.3)}
    with pytest.raises(QueryError):
        samples_of(None)


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("x", 0.0),
        ("rate(x[30s])", 30.0),
        ("rate(x[1m30s]) / rate(y[5m:15s])", 300.0),
        ("x[100ms]", 0.1),
        ('x{a="[b]"}', 0.0),
    ],
)
def test_the_longest_range_is_that_of_the_expression(expression: str, seconds: float) -> None:
    """Of a subquery it is the range, not the resolution."""
    assert longest_range_s(expression) == seconds
