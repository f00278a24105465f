"""The rates of copies in progress, and those of past copies."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from controller.core.core_settings import Options
from controller.core.model import BrokerId, Instant, RequestId
from controller.planning.forecast import Rates
from controller.telemetry.journal_files import FILE_NAME
from controller.telemetry.rates import (
    PERIODS_KEPT,
    SPAN_MIN_S,
    CopyRates,
    MeasuredCopy,
    MeasuredRates,
    Reading,
    rates_of,
    window_s,
)
from controller.telemetry.timelines import Past, replay
from tests.core.builders import tp

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
    past = Past()
    replay(tmp_path, past)
    assert past.rates.rates() == {THREE: Rates(20 * MB, 20 * MB)}


W = 30.0
REQUEST = RequestId("r")


def copy(
    number: int,
    *readings: tuple[float, int],
    to: int = 4,
    size: int | None = None,
    ended: float | None = None,
) -> MeasuredCopy:
    """Return a copy of a partition from broker 1, as its broker reported it."""
    made = MeasuredCopy(tp(number), BrokerId(to), REQUEST, BrokerId(1), size)
    for at, held in readings:
        made.readings.add(Reading(Instant(at), held), W)
    made.ended = None if ended is None else Instant(ended)
    return made


def rates(now: float, *copies: MeasuredCopy) -> MeasuredRates:
    """Return the rates of these copies at an instant."""
    return rates_of(copies, Instant(now), W)


def test_window_has_several_readings() -> None:
    """Whatever the interval at which brokers are queried."""
    assert window_s(Options(copy_refresh_s=1.0)) == 30.0
    assert window_s(Options(copy_refresh_s=60.0)) == 180.0


def test_rates_of_brokers_requests_and_all_are_the_sums_of_those_of_copies() -> None:
    """There is no other source of a rate."""
    found = rates(60, copy(0, (0, 0), (60, 600)), copy(1, (0, 0), (60, 1200), to=5))
    assert found.copies == {(tp(0), 4): 10.0, (tp(1), 5): 20.0}
    assert found.received == {4: 10.0, 5: 20.0}
    assert found.served == {1: 30.0}
    assert found.requests == {REQUEST: 30.0}
    assert found.total == 30.0


def test_what_was_never_read_twice_is_unknown_and_what_does_not_exist_is_zero() -> None:
    """Neither is taken for the other, while there is no other copy to go by."""
    found = rates(60, copy(0, (50, 0)))
    assert found.copies == {(tp(0), 4): None}
    assert (found.received, found.estimated) == ({4: None}, set())
    assert found.total is None
    assert rates(60).total == 0


def test_rate_is_that_of_the_window() -> None:
    """What was long ago does not count, and a copy that stands still has the rate 0."""
    assert rates(90, copy(0, (0, 0), (50, 9000), (60, 9000), (90, 9300))).total == 10
    assert rates(99, copy(0, (0, 0), (60, 600), (75, 600), (98, 600))).total == 0


def test_copy_gains_after_its_last_reading_as_before_but_not_beyond_its_size() -> None:
    """Else the rates of brokers that were queried at different moments would not add up."""
    assert rates(68, copy(0, (0, 0), (60, 600))).total == 10
    assert rates(68, copy(0, (0, 0), (60, 600), size=640)).total == round(260 / 30)


def test_reading_that_is_too_old_gives_no_rate() -> None:
    """The broker may have died: the rate of another copy does not stand in for it."""
    dead, other = copy(0, (0, 0), (60, 600)), copy(1, (0, 0), (90, 1800))
    assert rates(89, dead, other).copies == {(tp(0), 4): 10, (tp(1), 4): 20}
    found = rates(91, dead, other)
    assert (found.copies[tp(0), BrokerId(4)], found.received) == (None, {4: 20})
    assert rates(91, dead).total is None


def test_short_time_gives_no_rate() -> None:
    """The first seconds say little."""
    assert rates(SPAN_MIN_S - 1, copy(0, (0, 0), (4, 400))).total is None
    assert rates(SPAN_MIN_S, copy(0, (0, 0), (5, 500))).total == 100


def test_young_copy_has_the_rate_of_its_own_time_and_everything_rises_with_it() -> None:
    """What a screen shows of a broker is what it shows of the copies, at each instant."""
    found = rates(60, copy(0, (0, 0), (60, 600)), copy(1, (50, 0), (60, 300), to=5))
    assert found.copies == {(tp(0), 4): 10, (tp(1), 5): 30}
    assert found.received == {4: 10, 5: 30}
    assert found.total == 40
    assert found.pace == 20.0


def test_copy_that_ended_counts_for_the_pace_alone_as_long_as_the_window_includes_it() -> None:
    """It is copied no longer; estimates expect others like it."""
    older = copy(0, (0, 0), (60, 600))
    short = copy(1, (50, 0), (52, 900), ended=52)
    found = rates(60, older, short)
    assert (found.total, found.pace) == (10, 40.0)
    assert found.copies == {(tp(0), 4): 10}
    assert rates(82.5, older, short).pace == 10.0


def test_copy_that_was_not_measured_has_the_mean_rate_of_copies_to_its_broker() -> None:
    """Many copies that are shorter than the interval of the reports are all like that."""
    ended = [copy(n, (50 + n, 0), (52 + n, 200 * n), ended=52 + n) for n in (1, 2)]
    fast = copy(3, (40, 0), (60, 20_000), to=5)
    found = rates(60, *ended, fast, copy(4, (58, 0)), copy(5, (59, 0)), copy(6, (59, 0), to=6))
    mean, any_ = (200 + 400) // 4, round(20_600 / 24)
    assert found.copies == {
        (tp(3), 5): 1000,
        (tp(4), 4): mean,
        (tp(5), 4): mean,
        (tp(6), 6): any_,
    }
    assert found.estimated == {(tp(4), 4), (tp(5), 4), (tp(6), 6)}
    assert found.total == 1000 + 2 * mean + any_
    assert found.received == {5: 1000, 4: 2 * mean, 6: any_}


def test_pace_begins_with_the_first_copy_after_a_rest() -> None:
    """Nobody has to wait for the whole length of the window."""
    found = rates(110, copy(0, (100, 0), (110, 300)), copy(1, (101, 0), (110, 900), to=5))
    assert found.copies == {(tp(0), 4): 30, (tp(1), 5): 100}
    assert found.pace == 120.0


def test_size_that_shrank_gives_no_rate_until_it_is_read_again() -> None:
    """The broker deleted old segments, or began again."""
    assert rates(60, copy(0, (0, 0), (50, 900), (60, 100))).total is None
    assert rates(70, copy(0, (0, 0), (50, 900), (60, 100), (70, 400))).total == 30


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),
            st.lists(st.tuples(st.floats(0.1, 20), st.integers(0, 10**9)), max_size=8),
            st.integers(4, 6),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_rates_add_up_and_are_never_negative(
    found: list[tuple[float, list[tuple[float, int]], int, bool]],
) -> None:
    """Whatever was read: what brokers receive is what they serve, and what all requests copy."""
    copies = []
    for number, (begun, gains, to, has_ended) in enumerate(found):
        at, held, readings = begun, 0, [(begun, 0)]
        for seconds, more in gains:
            at, held = at + seconds, held + more
            readings.append((at, held))
        copies.append(copy(number, *readings, to=to, ended=at if has_ended else None))
    measured = rates(260.0, *copies)
    own = measured.copies.values()
    known = [rate for rate in own if rate is not None]
    assert all(rate >= 0 for rate in known)
    sums = (measured.received, measured.served, measured.requests)
    for found_sums in sums:
        assert sum(rate or 0 for rate in found_sums.values()) == sum(known)
    assert measured.total == (sum(known) if known or not own else None)
