"""The rates of past copies, which forecasts are made of."""

from __future__ import annotations

import json
from pathlib import Path

from controller.core.model import BrokerId
from controller.planning.forecast import Rates
from controller.telemetry.copy_rates import PERIODS_KEPT, CopyRates
from controller.telemetry.journal import FILE_NAME
from controller.telemetry.timelines import Timelines, replay

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
