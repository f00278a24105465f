"""Forecasts of accepted requests, and the rates of past copies that they are made of."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.model import BrokerId, Instant
from controller.planning.forecast import Rates
from controller.telemetry.copy_rates import PERIODS_KEPT, CopyRates
from controller.telemetry.journal import FILE_NAME
from controller.telemetry.request_forecasts import YOUNG_S, RequestForecasts
from controller.telemetry.timelines import Timelines, replay
from tests.core.builders import tp
from tests.telemetry.builders import REQUEST, ViewBuilder, a_view, partition_state, run_to_end

MB = 1_000_000
THREE = BrokerId(3)


def test_overlapping_copies_are_one_period() -> None:
    """Two of 50 MB within ten seconds, then one of 50 MB in ten."""
    rates = CopyRates()
    rates.add(THREE, 0.0, 8.0, 50 * MB)
    rates.add(THREE, 2.0, 10.0, 50 * MB)
    rates.add(THREE, 20.0, 30.0, 50 * MB)
    assert rates.rates() == {THREE: Rates(5 * MB, 10 * MB)}
    assert rates.as_status() == [
        {"broker": 3, "low_bytes_per_s": 5 * MB, "high_bytes_per_s": 10 * MB}
    ]


def test_unusual_rates_do_not_count() -> None:
    """A tenth of the bytes was received slower, and a tenth faster, than the range says."""
    rates = CopyRates()
    for n, seconds in enumerate((100.0, 1.0, *(10.0,) * 18)):
        rates.add(THREE, 1000.0 * n, 1000.0 * n + seconds, 100 * MB)
    assert rates.rates() == {THREE: Rates(10 * MB, 10 * MB)}


def test_few_bytes_give_no_rate_and_old_periods_are_forgotten() -> None:
    """The time of small copies is that of their steps."""
    rates = CopyRates()
    rates.add(THREE, 0.0, 8.0, 50)
    assert rates.rates() == {}
    for n in range(1, PERIODS_KEPT + 2):
        rates.add(THREE, 100.0 * n, 100.0 * n + n, 10 * MB)
    assert 2 * MB < rates.rates()[THREE].high <= 5 * MB


def test_the_journal_restores_rates(tmp_path: Path) -> None:
    """Of whole copies without a throttle; lines of earlier releases do not tell."""
    line = {
        "v": 1,
        "at": "2026-01-02T03:04:05.000Z",
        "kind": "copied",
        "replica": 3,
        "seconds": 5.0,
        "bytes": 100 * MB,
        "throttled": False,
    }
    others = [{**line, "throttled": True}, {**line, "bytes": None}, {**line, "kind": "copying"}]
    earlier = {k: v for k, v in line.items() if k != "throttled"}
    lines = [json.dumps(x, separators=(",", ":")) for x in (earlier, *others, line)]
    (tmp_path / FILE_NAME).write_text("\n".join(lines) + "\n")
    rates = CopyRates()
    replay(tmp_path, Timelines(), rates)
    assert rates.rates() == {THREE: Rates(20 * MB, 20 * MB)}


@pytest.fixture
def accepted() -> ViewBuilder:
    """Give a request that was accepted 5 s ago: 100 MB from 1 to 3."""
    built = a_view(1, 2, 3).with_partition(tp(), (1, 2), state=partition_state(1, (1, 2)))
    built.with_reassignment(tp(), (1, 3), original=(1, 2), since=995.0)
    built.view.work.sizes[tp()] = 100 * MB
    return built


def forecasts() -> RequestForecasts:
    """Return forecasts that are computed at once, with one past copy."""
    rates = CopyRates()
    rates.add(THREE, 0.0, 10.0, 100 * MB)
    return RequestForecasts(rates, run=lambda compute: compute())


def test_a_request_is_forecast_once(accepted: ViewBuilder) -> None:
    """When its sizes are known; what happens later changes nothing."""
    found = forecasts()
    del accepted.view.work.sizes[tp()]
    run_to_end(found.consider(accepted.view, Instant(1000.0)))
    assert found.of(REQUEST) is None
    accepted.view.work.sizes[tp()] = 100 * MB
    run_to_end(found.consider(accepted.view, Instant(1000.0)))
    first = found.of(REQUEST)
    assert first is not None
    assert (first["steps"], first["bytes"], first["basis"]) == (2, 100 * MB, ["past_copies"])
    assert 5 < first["low_s"] < 10 < first["high_s"] < 25
    accepted.view.work.sizes[tp()] = 900 * MB
    run_to_end(found.consider(accepted.view, Instant(1001.0)))
    assert found.of(REQUEST) == first
    del accepted.view.work.requests[REQUEST]
    run_to_end(found.consider(accepted.view, Instant(1002.0)))
    assert found.of(REQUEST) is None


def test_a_request_in_progress_is_not_forecast(accepted: ViewBuilder) -> None:
    """Another daemon made its forecast, or there was none."""
    found = forecasts()
    run_to_end(found.consider(accepted.view, Instant(996.0 + YOUNG_S)))
    assert found.of(REQUEST) is None


def test_moves_between_directories_are_not_forecast(accepted: ViewBuilder) -> None:
    """Those of new replicas in named directories are; where present ones are is not known."""
    held = accepted.view.work.reassignments[tp()]
    known = held.spec
    for named, is_forecast in ((BrokerId(1), False), (THREE, True)):
        held.spec = replace(known, log_dirs=((named, "/b"),))
        found = forecasts()
        run_to_end(found.consider(accepted.view, Instant(1000.0)))
        assert (found.of(REQUEST) is not None) is is_forecast


def test_without_anything_to_go_by_there_is_none(accepted: ViewBuilder) -> None:
    """A standby makes none either."""
    found = RequestForecasts(CopyRates(), run=lambda compute: compute())
    run_to_end(found.consider(accepted.view, Instant(1000.0)))
    assert found.of(REQUEST) is None
    accepted.view.role.leading = False
    known = forecasts()
    run_to_end(known.consider(accepted.view, Instant(1000.0)))
    assert known.of(REQUEST) is None


def test_forecasts_are_computed_on_a_thread(accepted: ViewBuilder) -> None:
    """The loop does not wait for them."""
    rates = CopyRates()
    rates.add(THREE, 0.0, 10.0, 100 * MB)
    found = RequestForecasts(rates)
    run_to_end(found.consider(accepted.view, Instant(1000.0)))
    deadline = time.monotonic() + 10
    while found.of(REQUEST) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found.of(REQUEST) is not None
