"""
Rates at which topics are written, from a Prometheus server.

One instant query of its HTTP API. Each series has the label ``topic``, and ``partition`` if it is
known. Series with the same labels ``topic`` and ``partition`` are added.
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

QUERY: Final = 'sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesin_total{topic!=""}[1h]))'
"""The metric has the name that the JMX exporter's rules for Kafka give it."""
WITHIN_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 512 << 20
SHOWN_MAX: Final = 5
SAID_MAX: Final = 300

Rates = Mapping[tuple[str, int | None], float]
"""Bytes per second by topic and partition; None: of the whole topic."""


def read_rates(server: str, query: str = QUERY, *, within_s: float = WITHIN_S) -> Rates:
    """
    Query a Prometheus server.

    Args:
        server: Its URL, with the path before ``/api/v1``.
        query: PromQL that yields a vector with the label ``topic``, in bytes per second.
        within_s: The timeout in seconds.

    Raises:
        InvalidInputError: the server does not answer, or not with such a vector.

    """
    if urlsplit(server).scheme not in {"http", "https"}:
        raise InvalidInputError(
            f"--prometheus takes a URL such as http://prometheus:9090: {server}"
        )
    document = _response_to(server, query, within_s)
    data = document.get("data")
    found = data.get("result") if isinstance(data, dict) else None
    kind = data.get("resultType") if isinstance(data, dict) else None
    if kind != "vector" or not isinstance(found, list):
        raise InvalidInputError(f"{server}: {query} is not a vector but {kind or 'something else'}")
    if not found:
        raise InvalidInputError(
            f"{server}: {query} has no series; name another metric with --prometheus-query"
        )
    return _sum_of(found, f"{server}: {query}")


def _response_to(server: str, query: str, within_s: float) -> Mapping[str, Any]:
    url = f"{server.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
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
    """Return Prometheus' own message about an error."""
    body = error.read(1 << 16).decode(errors="replace").strip()
    try:
        document = json.loads(body)
    except ValueError:
        return body[:SAID_MAX] or error.reason
    said = document.get("error") if isinstance(document, dict) else None
    return str(said or body)[:SAID_MAX]


def _sum_of(series: list[Any], about: str) -> Rates:
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
    labels, rate = row["metric"], float(row["value"][1])
    if not labels.get("topic"):
        raise ValueError("no label topic")
    if not math.isfinite(rate) or rate < 0:
        raise ValueError("not a rate")
    partition = labels.get("partition")
    return (str(labels["topic"]), None if partition is None else int(partition)), rate
