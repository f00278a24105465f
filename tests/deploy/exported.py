"""The metrics that the daemon exports, and those that a Prometheus expression names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from controller.telemetry.metrics import Metrics
from docs.generate.metrics import described

SCRAPED: Final = frozenset({"job", "instance", "cluster"})
"""Labels that Prometheus adds; ``cluster`` only where its configuration names one."""
FOREIGN: Final = frozenset({"up", "kafka_controller_kafkacontroller_activecontrollercount"})
"""Metrics of others: Prometheus' own, and the brokers'."""
_SUFFIXES: Final = {"histogram": ("_bucket", "_sum", "_count")}
_VARIABLES: Final = {
    "$__rate_interval": "1m",
    "$job": "reassigner",
    "$cluster": ".*",
    "$request": "request_0000000000",
    "$broker": ".*",
}


def exported() -> Mapping[str, frozenset[str]]:
    """Return every series the daemon can have, with its labels."""
    series: dict[str, frozenset[str]] = {}
    for metric in described(Metrics()):
        labels = SCRAPED | set(metric.labels)
        if metric.type == "stateset":
            labels |= {metric.name}
        for suffix in _SUFFIXES.get(metric.type, ("",)):
            more = {"le"} if suffix == "_bucket" else set()
            series[metric.name + suffix] = frozenset(labels | more)
    return series


def filled_in(query: str) -> str:
    """Return a query of a dashboard with a value for each of its variables."""
    for name, value in _VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


def selectors(expression: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what an expression selects: the name of the series, and the labels it goes by."""
    promql: Any = pytest.importorskip("promql_parser", reason="in the dev extra: make setup")
    found: list[tuple[str, frozenset[str]]] = []

    def visit(node: object) -> None:
        if isinstance(node, promql.VectorSelector):
            labels = frozenset(matcher.name for matcher in node.matchers.matchers)
            found.append((node.name, labels))

    promql.walk(promql.parse(expression), visit)
    assert found, expression
    yield from found


def grouping_labels(expression: str) -> frozenset[str]:
    """Return the labels that an expression groups or matches by."""
    groups = re.findall(r"\b(?:by|on)\s*\(([^()]*)\)", expression)
    return frozenset(label.strip() for group in groups for label in group.split(","))
