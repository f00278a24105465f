"""
The operator's own latency: the value of a Prometheus query, with the objective that it is held to.

The result is a scalar or an instant vector. Of a vector, an element with the label ``broker`` is
that of the broker with this id; the worst of the others is that of every broker. A reading is as
old as the time stamp that Prometheus gives it, and begins as long before as the longest range of
the query. No answer, an error, an empty result and NaN are no reading; the reason is reported.
"""

from __future__ import annotations

import base64
import json
import math
import re
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from controller.core.model import BrokerId, Instant
from controller.core.pacing.model import Signal, SignalKind
from controller.errors import TransientError
from controller.reactor.ports import Clock

EVERY_S: Final = 5.0
TIMEOUT_S: Final = 4.0
ANSWER_MAX: Final = 1_000_000
"""Bytes of an answer: some thousand brokers."""
SHOWN_MAX: Final = 200
"""Characters of an error of Prometheus."""

_RANGE: Final = re.compile(r"\[((?:\d+(?:ms|[smhdwy]))+)")
_PART: Final = re.compile(r"(\d+)(ms|[smhdwy])")
_UNITS: Final = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
    "y": 31_536_000.0,
}


class QueryError(TransientError):
    """There is no reading; the text says why."""


class Sample(NamedTuple):
    """One value of the result."""

    broker: BrokerId | None
    unix_s: float
    value: float


@dataclass(slots=True)
class PrometheusQuery:
    """Queries on a thread of its own for each query; implements ``latencies.LatencyQuery``."""

    url: str
    """The server, with its path prefix; a user and a password in it are sent as credentials."""
    expression: str
    objective: float
    """In the unit of the result."""
    clock: Clock
    unix_s: Callable[[], float] = time.time
    problem: str = ""
    _pending: threading.Thread | None = None
    _due: float = -math.inf
    _found: deque[Signal] = field(default_factory=deque)
    _newest: dict[BrokerId | None, float] = field(default_factory=dict)
    """The time stamp of the last reading of each broker: an old one is not repeated."""

    def measure(self) -> None:
        """Query again, unless that is under way or the last one was just before."""
        now = self.clock.now()
        if now < self._due or (self._pending is not None and self._pending.is_alive()):
            return
        self._due = now + EVERY_S
        self._pending = threading.Thread(target=self._query, name="prometheus query", daemon=True)
        self._pending.start()

    def take_readings(self) -> tuple[Signal, ...]:
        """Return what arrived since the last call."""
        return tuple(self._found.popleft() for _ in range(len(self._found)))

    def _query(self) -> None:
        try:
            samples = samples_of(self._answer())
        except QueryError as error:
            self.problem = str(error)
            return
        self._found.extend(self._readings(samples))
        self.problem = ""

    def _answer(self) -> object:
        parts = urlsplit(self.url)
        netloc = parts.netloc.rpartition("@")[2]
        query = urlencode({"query": self.expression})
        path = f"{parts.path.rstrip('/')}/api/v1/query"
        headers = {"Accept": "application/json", "User-Agent": "kafka-reassigner"}
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        url = f"{parts.scheme}://{netloc}{path}?{query}"
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https: see settings
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - as above
                content = response.read(ANSWER_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise QueryError(f"it answered {error.code}{_error_of(error)}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise QueryError(f"no answer: {getattr(error, 'reason', error)}") from error
        if len(content) > ANSWER_MAX:
            raise QueryError(f"its answer is larger than {ANSWER_MAX} bytes")
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise QueryError(f"its answer is no JSON: {error}") from error

    def _readings(self, samples: list[Sample]) -> Iterator[Signal]:
        now, unix_s, range_s = self.clock.now(), self.unix_s(), longest_range_s(self.expression)
        for broker, sample in worst(samples).items():
            if sample.unix_s <= self._newest.get(broker, -math.inf):
                continue
            self._newest[broker] = sample.unix_s
            at = Instant(now - max(0.0, unix_s - sample.unix_s))
            of = "" if broker is None else f" for broker {broker}"
            yield Signal(
                kind=SignalKind.QUERY,
                value=sample.value,
                objective=self.objective,
                since=Instant(at - range_s),
                at=at,
                evidence=f"governor_query is {sample.value:g}{of}",
                broker=broker,
            )


def _error_of(error: urllib.error.HTTPError) -> str:
    """Return what Prometheus says of an error."""
    try:
        document = json.loads(error.read(10_000))
        return f": {str(document['error'])[:SHOWN_MAX]}"
    except (OSError, HTTPException, ValueError, RecursionError, KeyError, TypeError):
        return ""


def samples_of(answer: object) -> list[Sample]:
    """
    Return the values of an answer of Prometheus' HTTP API.

    Raises:
        QueryError: it has none, or is no such answer.
    """
    try:
        data: Any = answer["data"]  # type: ignore[index] # a wrong type is an error of the answer
        kind, result = data["resultType"], data["result"]
        if kind == "scalar":
            rows: list[tuple[BrokerId | None, Any]] = [(None, result)]
        elif kind == "vector":
            rows = [(_broker_of(element["metric"]), element["value"]) for element in result]
        else:
            raise QueryError(f"its result is a {kind}, not a scalar or an instant vector")
        samples = [Sample(broker, float(at), float(text)) for broker, (at, text) in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise QueryError("its answer is not one of Prometheus' HTTP API") from error
    if not samples:
        raise QueryError("its result is empty")
    usable = [s for s in samples if math.isfinite(s.value) and math.isfinite(s.unix_s)]
    if not usable:
        raise QueryError("its result is not a number")
    return usable


def _broker_of(labels: dict[str, str]) -> BrokerId | None:
    label = labels.get("broker", "")
    return BrokerId(int(label)) if label.isascii() and label.isdigit() else None


def worst(samples: list[Sample]) -> dict[BrokerId | None, Sample]:
    """Return the greatest value of each broker, and of those without one."""
    found: dict[BrokerId | None, Sample] = {}
    for sample in samples:
        before = found.get(sample.broker)
        if before is None or sample.value > before.value:
            found[sample.broker] = sample
    return found


def longest_range_s(expression: str) -> float:
    """Return the longest range of an expression, as 60 of ``rate(x[1m])``; 0 without one."""
    ranges = (
        sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(text))
        for text in _RANGE.findall(expression)
    )
    return max(ranges, default=0.0)
