"""Rates for a snapshot, asked of a real Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli.prometheus_rates import BYTES_IN, BYTES_OUT, read_rates
from controller.errors import InvalidInputError
from integration.rigs.prometheus import PROGRAM, Prometheus

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Return the URL of one that scrapes nothing."""
    prometheus = Prometheus(tmp_path / "prometheus", [])
    prometheus.start()
    yield f"http://{prometheus.port.address}"
    prometheus.stop()
    prometheus.port.close()


def test_rates_come_from_a_vector_by_topic(server: str) -> None:
    """As a rule of the operator's own would name it."""
    query = 'label_replace(vector(1.5), "topic", "orders", "", "")'
    assert read_rates(server, query) == {("orders", None): 1.5}


def test_it_understands_the_query_that_is_sent_by_default(server: str) -> None:
    """It has no such series, and the error names the query; bytes out may be missing."""
    with pytest.raises(InvalidInputError, match=r"bytesin_total.* has no series"):
        read_rates(server, BYTES_IN)
    assert read_rates(server, BYTES_OUT, is_needed=False) == {}


def test_a_range_is_answered_with_its_mean(server: str) -> None:
    """A query over the last ten minutes, at sixty points."""
    query = 'label_replace(vector(time()), "topic", "orders", "", "")'
    now = time.time()
    (rate,) = read_rates(server, query, (now - 600, now)).values()
    assert rate == pytest.approx(now - 300, abs=2)


def test_errors_of_prometheus_are_reported_in_its_words(server: str) -> None:
    """Not as a number of HTTP alone."""
    with pytest.raises(InvalidInputError, match=r"answers 400: .*parse error"):
        read_rates(server, "rate(")
