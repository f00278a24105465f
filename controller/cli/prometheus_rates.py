"""
Rates of topics from a Prometheus server, for ``pipeline snapshot``.

Each query is answered with series that have the label ``topic``, and ``partition`` if it is known;
series with the same labels are added. A range query gives the mean over the range.
"""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from controller.errors import InvalidInputError

BYTES_IN: Final = (
    'sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesin_total{topic!=""}[1h]))'
)
"""The metrics have the names that the JMX exporter's rules for Kafka give them."""
BYTES_OUT: Final = (
    'sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesout_total{topic!=""}[1h]))'
)
"""What consumers fetch: Kafka counts the copies of followers elsewhere."""
WITHIN_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 512 << 20
SHOWN_MAX: Final = 5
SAID_MAX: Final = 300
POINTS: Final = 60
"""Evaluations of a query over a range."""

TopicRates = Mapping[tuple[str, int | None], float]
"""Bytes per second by topic and partition; None: of the whole topic."""

TimeRange = tuple[float, float]
"""Begin and end, in seconds since 1970."""


def read_rates(
    server: str,
    query: str,
    span: TimeRange | None = None,
    *,
    is_needed: bool = True,
    within_s: float = WITHIN_S,
) -> TopicRates:
    """
    Return the result of a PromQL query, in bytes per second by topic; with ``span`` the mean of it.

    Raises:
        InvalidInputError: the server does not answer, or its answer has no rates, if ``is_needed``.

    """
    if urlsplit(server).scheme not in {"http", "https"}:
        raise InvalidInputError(
            f"--prometheus takes a URL such as http://prometheus:9090: {server}"
        )
    asked = {"query": query}
    if span is not None:
        begin, end = span
        step = max(1.0, (end - begin) / POINTS)
        asked |= {"start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
    document = _response_to(server, "query" if span is None else "query_range", asked, within_s)
    data = document.get("data")
    found = data.get("result") if isinstance(data, dict) else None
    kind = data.get("resultType") if isinstance(data, dict) else None
    wanted = "vector" if span is None else "matrix"
    if kind != wanted or not isinstance(found, list):
        raise InvalidInputError(
            f"{server}: {query} is not a {wanted} but {kind or 'something else'}"
        )
    if not found and is_needed:
        raise InvalidInputError(
            f"{server}: {query} has no series; name another metric with --prometheus-query"
        )
    return _sum_of(found, f"{server}: {query}")


def _response_to(
    server: str, what: str, asked: Mapping[str, str], within_s: float
) -> Mapping[str, Any]:
    url = f"{server.rstrip('/')}/api/v1/{what}?{urlencode(asked)}"
    try:
        with urllib.request.urlopen(url, timeout=within_s) as response:  # noqa: S310 - checked above
            document = json.loads(response.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            said = _message_of(error)
        raise InvalidInputError(f"{server} answers {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InvalidInputError(f"{server} is not a Prometheus that answers: {reason}") from error
    if not isinstance(document, dict) or document.get("status") != "success":
        raise InvalidInputError(f"{server} is not a Prometheus that answers queries")
    return document


def _message_of(error: urllib.error.HTTPError) -> str:
    body = error.read(1 << 16).decode(errors="replace").strip()
    try:
        document = json.loads(body)
    except ValueError:
        return body[:SAID_MAX] or error.reason
    said = document.get("error") if isinstance(document, dict) else None
    return str(said or body)[:SAID_MAX]


def _sum_of(series: list[Any], about: str) -> TopicRates:
    found: dict[tuple[str, int | None], float] = {}
    problems: list[str] = []
    for row in series:
        try:
            key, rate = _parse_row(row)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            problems.append(f"  {error}: {json.dumps(row)[:SAID_MAX]}")
        else:
            found[key] = found.get(key, 0.0) + rate
    if problems:
        shown = "\n".join(problems[:SHOWN_MAX])
        raise InvalidInputError(
            f"{about}: {len(problems)} of {len(series)} series are wrong:\n{shown}"
        )
    return found


def _parse_row(row: Any) -> tuple[tuple[str, int | None], float]:  # noqa: ANN401 - JSON
    labels = row["metric"]
    values = [row["value"]] if "value" in row else row["values"]
    rates = [float(value) for _, value in values]
    if not labels.get("topic"):
        raise ValueError("no label topic")
    if not rates or not all(math.isfinite(rate) and rate >= 0 for rate in rates):
        raise ValueError("not a rate")
    partition = labels.get("partition")
    return (str(labels["topic"]), None if partition is None else int(partition)), sum(rates) / len(
        rates
    )
