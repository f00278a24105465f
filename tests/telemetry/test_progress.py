"""Requests have a place, a rate and an end; brokers have traffic."""

from __future__ import annotations

from controller.core.model import BrokerId, Instant, RequestId, Route
from controller.core.requests.model import Request
from controller.telemetry.copies import Received
from controller.telemetry.progress import SLOTS, ProgressTracker, RequestVolume, Volumes
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
    assert found["eta_s"] == [10, 10]
    assert found == {
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
    assert found["eta_s"] == [20, 20]


def test_without_bytes_partitions_make_the_estimate() -> None:
    """Empty partitions, or brokers that report no sizes."""
    request, tracker = a_request(open_=100, total=100), ProgressTracker()
    for n in range(11):
        request.open = 100 - n * 5
        noted(tracker, request, (n * 10.0, None))
    found = tracker.of(NAME, request)
    assert found["bytes"] is None
    assert found["eta_s"] == [100, 100]


def test_request_without_progress_has_no_estimate() -> None:
    """Nothing moved: nothing is guessed."""
    request = a_request()
    course = [(n * 10.0, RequestVolume(0, 1000, 1)) for n in range(11)]
    found = noted(ProgressTracker(), request, *course).of(NAME, request)
    assert found["bytes_per_s"] is None
    assert found["eta_s"] is None


def test_ended_partitions_without_a_size_do_not_lengthen_the_estimate() -> None:
    """The document counts them as unknown, of an ended request as well."""
    request = a_request()
    request.uncounted = 2
    course = [(n * 10.0, RequestVolume(n * 1000, 1000, 2, 1, 2)) for n in range(11)]
    found = noted(ProgressTracker(), request, *course).of(NAME, request)
    assert found["sizes_unknown"] == 3
    assert found["eta_s"] == [15, 15]
    request.open = 0
    found = noted(ProgressTracker(), request, (0.0, None)).of(NAME, request)
    assert found["sizes_unknown"] == 2


def test_ended_request_keeps_its_bytes() -> None:
    """Without a rate."""
    request = a_request(open_=0)
    request.moved_bytes = 500
    found = noted(ProgressTracker(), request, (0.0, None)).of(NAME, request)
    assert found == {
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
    slots = [tracker.of(n, view.requests.by_id[n])["slot"] for n in names]
    assert slots == [*range(SLOTS), None]
    view.requests.by_id[names[3]].open = 0
    assert tracker.of(names[3], view.requests.by_id[names[3]])["slot"] == 3
    tracker.add(view, Volumes(), Instant(1.0))
    assert tracker.of(names[-1], view.requests.by_id[names[-1]])["slot"] == 3
    assert tracker.of(names[3], view.requests.by_id[names[3]])["slot"] is None


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
