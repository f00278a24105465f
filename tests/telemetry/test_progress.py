"""Requests have a place, a rate and an end; brokers have traffic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, Instant, RequestId, Route
from controller.core.requests.model import Request
from controller.telemetry.copies import Received
from controller.telemetry.copy_volumes import RequestVolume, Volumes
from controller.telemetry.progress import (
    SLOTS,
    SLOWEST,
    SPAN_MIN_S,
    ProgressTracker,
    Range,
    Rate,
    Sample,
    Samples,
    eta_of,
    rate_of,
)
from tests.telemetry.builders import a_view

NAME = RequestId("request_0000000001")


def a_request(open_: int = 1, total: int = 4) -> Request:
    """Return a request with so many partitions open."""
    return Request(Route.REQUEST, Instant(0.0), total=total, open=open_)


def noted(
    tracker: ProgressTracker, request: Request, *volumes: tuple[float, RequestVolume | None]
) -> ProgressTracker:
    """Note what was counted at these moments."""
    view = a_view(1).view
    view.requests.by_id[NAME] = request
    for at, volume in volumes:
        counted = Volumes({} if volume is None else {NAME: volume})
        tracker.add(view, counted, Instant(at))
    return tracker


def test_bytes_make_the_estimate() -> None:
    """A hundred bytes a second, a thousand to go."""
    request = a_request()
    course = [(n * 10.0, RequestVolume(n * 1000, 2000 - n * 100, 1)) for n in range(11)]
    found = noted(ProgressTracker(), request, *course).of(NAME, request)
    assert found.eta == pytest.approx(Range(10, 10))
    assert found.as_status() == {
        "slot": 0,
        "bytes": {"total": 11_000, "moved": 10_000, "remaining": 1000},
        "sizes_unknown": 0,
        "bytes_per_s": 100,
        "eta_s": [10, 10],
    }


def test_unknown_sizes_are_estimated_by_the_mean() -> None:
    """As many partitions again of unknown size take as long again."""
    request = a_request()
    course = [(n * 10.0, RequestVolume(n * 1000, 1000, 2, 2)) for n in range(11)]
    found = noted(ProgressTracker(), request, *course).of(NAME, request)
    assert found.eta == pytest.approx(Range(20, 20))


def test_without_bytes_partitions_make_the_estimate() -> None:
    """Empty partitions, or brokers that report no sizes."""
    request, tracker = a_request(open_=100, total=100), ProgressTracker()
    for n in range(11):
        request.open = 100 - n * 5
        noted(tracker, request, (n * 10.0, None))
    found = tracker.of(NAME, request)
    assert found.volume is None
    assert found.eta == pytest.approx(Range(100, 100))


def test_request_without_progress_has_no_estimate() -> None:
    """Nothing moved: nothing is guessed."""
    request = a_request()
    course = [(n * 10.0, RequestVolume(0, 1000, 1)) for n in range(11)]
    found = noted(ProgressTracker(), request, *course).of(NAME, request)
    assert found.rate is None
    assert found.as_status()["eta_s"] is None


def test_ended_partitions_without_a_size_do_not_lengthen_the_estimate() -> None:
    """The document counts them as unknown, of an ended request as well."""
    request = a_request()
    request.uncounted = 2
    course = [(n * 10.0, RequestVolume(n * 1000, 1000, 2, 1, 2)) for n in range(11)]
    found = noted(ProgressTracker(), request, *course).of(NAME, request)
    assert found.as_status()["sizes_unknown"] == 3
    assert found.eta == pytest.approx(Range(15, 15))
    request.open = 0
    found = noted(ProgressTracker(), request, (0.0, None)).of(NAME, request)
    assert found.as_status()["sizes_unknown"] == 2


def test_ended_request_keeps_its_bytes() -> None:
    """Without a rate."""
    request = a_request(open_=0)
    request.moved_bytes = 500
    found = noted(ProgressTracker(), request, (0.0, None)).of(NAME, request)
    assert found.as_status() == {
        "slot": None,
        "bytes": {"total": 500, "moved": 500, "remaining": 0},
        "sizes_unknown": 0,
        "bytes_per_s": None,
        "eta_s": None,
    }


def test_slots_are_few_and_reused() -> None:
    """An ended request keeps its slot until another needs it."""
    tracker, view = ProgressTracker(), a_view(1).view
    names = [RequestId(f"r{n}") for n in range(SLOTS + 1)]
    view.requests.by_id.update({n: a_request() for n in names})
    tracker.add(view, Volumes(), Instant(0.0))
    slots = [tracker.of(n, view.requests.by_id[n]).slot for n in names]
    assert slots == [*range(SLOTS), None]
    view.requests.by_id[names[3]].open = 0
    assert tracker.of(names[3], view.requests.by_id[names[3]]).slot == 3
    tracker.add(view, Volumes(), Instant(1.0))
    assert tracker.of(names[-1], view.requests.by_id[names[-1]]).slot == 3
    assert tracker.of(names[3], view.requests.by_id[names[3]]).slot is None


def test_traffic_is_counted_at_both_ends() -> None:
    """What one broker receives another serves."""
    tracker, view = ProgressTracker(), a_view(1, 4).view
    for n in range(11):
        tracker.count([Received(BrokerId(1), BrokerId(4), 500)], Instant(n * 10.0))
        tracker.add(view, Volumes(), Instant(n * 10.0))
    assert tracker.traffic[BrokerId(4)].received == 5500
    assert tracker.traffic[BrokerId(1)].served == 5500
    assert tracker.broker(BrokerId(4))["in_bytes_per_s"] == 50
    assert tracker.broker(BrokerId(1))["out_bytes_per_s"] == 50
    assert tracker.broker(BrokerId(1))["in_bytes_per_s"] == 0


def samples(*pairs: tuple[float, float]) -> Samples:
    """Return samples of these moments and totals."""
    made = Samples()
    for at, total in pairs:
        made.add(Instant(at), total)
    return made


def test_too_few_samples_have_no_rate() -> None:
    """Neither has a standstill."""
    assert samples().rate() is None
    assert samples((0, 0)).rate() is None
    assert samples((0, 0), (SPAN_MIN_S - 1, 1000)).rate() is None
    assert samples((0, 5), (60, 5), (120, 5)).rate() is None
    assert eta_of(None, 100) is None


def test_even_progress_has_a_narrow_range() -> None:
    """Slices that agree leave no doubt."""
    rate = samples(*((n * 10.0, n * 1000.0) for n in range(20))).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(100)
    assert rate.low == pytest.approx(100)
    assert rate.high == pytest.approx(100)
    assert eta_of(rate, 5000) == pytest.approx((50, 50))


def test_uneven_progress_has_a_wide_range() -> None:
    """What went now fast, now slowly, may end sooner or later."""
    totals = (0, 0, 3000, 3000, 6000, 6000, 9000)
    rate = samples(*((n * 10.0, float(total)) for n, total in enumerate(totals))).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(150)
    assert rate.low < 75
    assert rate.high > 225
    low, high = eta_of(rate, 1500) or Range(0, 0)
    assert low < 10 < high


def test_single_slice_has_a_wide_range() -> None:
    """Half and half as much again."""
    assert samples((0, 0), (10, 1000)).rate() == Rate(100, 50, 150)


def test_samples_before_the_window_are_dropped() -> None:
    """The rate is that of the last minutes."""
    fast = [(n * 10.0, n * 100_000.0) for n in range(10)]
    slow = [(90 + n * 10.0, 900_000 + n * 10.0) for n in range(1, 100)]
    rate = samples(*fast, *slow).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(1)


def test_falling_total_drops_earlier_samples() -> None:
    """A size that shrank is no negative rate."""
    rate = samples((0, 9_000), (10, 10_000), (20, 0), (30, 500), (40, 1000)).rate()
    assert rate is not None
    assert rate.mean == pytest.approx(50)


def test_nothing_remaining_ends_now() -> None:
    """Also where no rate is known."""
    assert eta_of(None, 0) == (0, 0)


@given(
    st.lists(st.tuples(st.floats(2, 30), st.integers(0, 10**12)), min_size=2, max_size=80),
    st.integers(1, 10**15),
)
def test_range_is_ordered_positive_and_bounded(
    steps: list[tuple[float, int]], remaining: int
) -> None:
    """Whatever was measured: low before high, both finite, and the mean's end between them."""
    at, total, kept = 0.0, 0, [Sample(Instant(0.0), 0)]
    for seconds, more in steps:
        at, total = at + seconds, total + more
        kept.append(Sample(Instant(at), total))
    rate = rate_of(kept)
    eta = eta_of(rate, remaining)
    if total == 0 or at < SPAN_MIN_S:
        assert eta is None
        return
    assert rate is not None
    assert eta is not None
    middle = remaining / rate.mean
    assert 0 < eta.low <= middle * (1 + 1e-9)
    assert middle <= eta.high * (1 + 1e-9)
    assert eta.high <= middle / SLOWEST * (1 + 1e-9)
