"""Bytes, rates and times of a status, in words."""

from __future__ import annotations

from typing import Any

import pytest

from controller.cli.progress_display import Lines
from controller.cli.status_text import (
    ORPHANS_SHOWN,
    amount_words,
    broker_lines,
    copy_words,
    milestone,
    orphan_lines,
    pace_words,
    throttle_line,
)
from controller.units import show_duration
from tests.cli.builders import FakeCluster, Terminal, a_request, a_status

LOADS: list[dict[str, Any]] = [
    {
        "broker": 3,
        "incoming": 2,
        "outgoing": 0,
        "in_bytes_remaining": 3_000_000,
        "out_bytes_remaining": 0,
        "in_bytes_per_s": 50_000,
        "out_bytes_per_s": 0,
    },
    {"broker": 1, "incoming": 0, "outgoing": 2},
    {"broker": 2, "incoming": 0, "outgoing": 0},
]


def a_copy(moved: int | None, total: int | None = 1000, **parts: object) -> dict[str, Any]:
    """Return a request whose bytes are known."""
    volume = {"total": total, "moved": moved, "remaining": None}
    return {**a_request(in_flight=1), "bytes": volume, **parts}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (9e5, "10 days"),
    ],
)
def test_a_duration_has_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    """One of a unit is not enough: 90 minutes rather than 2 hours."""
    assert show_duration(seconds) == words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"eta_s": [200, 600]}, "3 min to 10 min left"),
        ({"eta_s": [40, 600]}, "up to 10 min left"),
        ({"eta_s": [60.2, 60.4]}, "60 s left"),
        ({"eta_s": None, "no_estimate": "it is paused"}, "no estimate: it is paused"),
        ({"bytes_per_s": None, "eta_s": None}, "rate unknown"),
        ({"bytes_per_s": 0, "eta_s": None}, "0 B/s"),
        ({"bytes_per_s": 50_000, "eta_s": [5, 10]}, "50 KB/s, under a minute left"),
        ({}, ""),
        ({"eta_s": 12}, ""),
    ],
)
def test_rate_and_estimate_are_shown_or_why_there_are_none(
    found: dict[str, Any], words: str
) -> None:
    """Unknown is not zero; a daemon of an earlier release says less."""
    assert pace_words(found) == words


def test_copy_is_described_with_what_is_unknown_of_it() -> None:
    """One that was found when the daemon took over has bytes that nobody read yet."""
    copy = {"broker": 4, "from": 1, "bytes": 5000, "total_bytes": 20_000, "bytes_per_s": 10}
    assert copy_words(copy) == "broker 1 to 4: 5 KB of 20 KB copied, 10 B/s"
    unread = {**copy, "bytes": None, "bytes_per_s": None, "inherited": True}
    assert copy_words(unread) == (
        "broker 1 to 4: bytes unknown, rate unknown (found when this daemon took over)"
    )


def test_throttles_in_force_are_listed_by_rate() -> None:
    """Nothing without any."""
    loads = [{"broker": b, "throttle_bytes_per_s": r} for b, r in ((1, 50), (2, 20), (3, 50))]
    assert list(throttle_line(a_status(broker_loads=[*loads, *LOADS]))) == [
        "throttle in force: 20 B/s on broker 2; 50 B/s on broker 1,3"
    ]
    assert list(throttle_line(a_status(broker_loads=LOADS))) == []


def test_a_rate_above_the_throttle_is_explained_once() -> None:
    """Kafka permits bursts, and the rate is an average of some time."""
    slow = {"broker": 1, "throttle_bytes_per_s": 150_000, "in_bytes_per_s": 585_000}
    status = a_status(broker_loads=[slow], total={"window_s": 30.0})
    (line,) = throttle_line(status)
    assert line == (
        "throttle in force: 150 KB/s on broker 1; rates may be above it for a while: Kafka "
        "enforces it on average over about 11 s, and they are averages of up to 30 s"
    )
    written: list[str] = []
    lines = Lines(written.append)
    for rate in (585_000, 100_000, 600_000):
        lines.show("", 0, 0, a_status(broker_loads=[{**slow, "in_bytes_per_s": rate}]))
    assert [line.partition(":")[0] for line in written if "in flight" not in line] == [
        "throttle in force",
        "rates may be above it for a while",
    ]


def test_a_request_shows_its_bytes_rate_and_estimated_end() -> None:
    """All three where they are known."""
    request = a_copy(250_000, 1_000_000, bytes_per_s=50_000, eta_s=[10, 20])
    words = "250 KB of 1 MB copied, 50 KB/s, under a minute left"
    assert amount_words(request) == words
    request |= {"bytes_since": "2026-01-02T03:04:05.000Z"}
    assert "copied, since 2026-01-02 03:04:05Z, when this daemon took over" in amount_words(request)


@pytest.mark.parametrize(
    "request_", [a_request(), {**a_request(), "bytes": None}, a_copy(5, None), a_copy(0, 0)]
)
def test_values_that_the_daemon_does_not_report_are_left_out(request_: dict[str, Any]) -> None:
    """A daemon that knows no sizes says nothing of them."""
    assert amount_words(request_) == ""
    assert milestone(request_) == 0


def test_a_milestone_comes_with_every_tenth() -> None:
    """Unknown is none of them."""
    shares = (None, 0.0, 0.099, 0.1, 0.999, 1.0)
    assert [milestone({"share": share}) for share in shares] == [0, 0, 0, 1, 9, 10]


def test_brokers_without_a_part_in_the_work_are_left_out() -> None:
    """The others by what is left and how fast it goes."""
    status = a_status(broker_loads=LOADS)
    assert list(broker_lines(status)) == [
        (3, "broker 3: in 2 (3 MB left, 50 KB/s), out 0"),
        (1, "broker 1: in 0, out 2"),
    ]
    assert list(broker_lines(a_status())) == []


def test_a_broker_says_what_is_blocked_and_what_is_removed() -> None:
    """Bytes to be removed are not sent."""
    row = {"broker": 4, "incoming": 2, "incoming_blocked": 1, "in_bytes_remaining": 3_000_000}
    row |= {"outgoing": 1, "out_bytes_remaining": 9_000_000, "out_bytes_per_s": 1000}
    row |= {"in_bytes_per_s": 0}
    assert list(broker_lines(a_status(broker_loads=[row]))) == [
        (4, "broker 4: in 2 (1 blocked, 3 MB left, 0 B/s), out 1 (1 KB/s), 9 MB to remove"),
    ]


def test_lines_are_repeated_only_at_milestones() -> None:
    """Each second has other numbers; not each is a line."""
    said: list[str] = []
    lines = Lines(said.append)
    for moved in (0, 10, 20, 150, 160):
        loads = [{**LOADS[0], "in_bytes_remaining": 3_000_000 - 1000 * moved}]
        request = a_copy(moved, share=moved / 1000)
        lines.show("", 0, 0, a_status(requests=[request], broker_loads=loads))
    assert [line.partition("; ")[2] for line in said if line.startswith("request")] == [
        "0 B of 1 KB copied",
        "150 B of 1 KB copied",
    ]
    assert len([line for line in said if line.startswith("broker 3")]) == 1


def test_watch_draws_bytes_and_brokers() -> None:
    """On a terminal, beside what was drawn before."""
    status = a_status(
        requests=[a_copy(500, eta_s=[60, 300])],
        partitions={"in_flight": 1, "waiting": 0},
        broker_loads=LOADS,
    )
    terminal = Terminal(
        FakeCluster(statuses=[status]), steps=[KeyboardInterrupt()], is_terminal=True
    )
    said = terminal.run("watch").stdout
    assert "500 B/1 KB" in said
    (received,) = (line for line in said.splitlines() if "3 MB" in line)
    assert received.split() == ["3", "2", "3", "MB", "50", "KB/s", "0", "B/s"]


def test_status_shows_bytes_and_brokers() -> None:
    """As watch does."""
    status = a_status(requests=[a_copy(500)], broker_loads=LOADS)
    said = Terminal(FakeCluster(statuses=[status])).run("status").stdout
    assert "; 500 B of 1 KB copied" in said
    assert "broker 1: in 0, out 2" in said


def test_orphans_are_named_with_what_to_do() -> None:
    """By broker, the first few; nothing has to be done about some. Older daemons report none."""
    orphan = {"topic": "t", "partition": 0, "broker": 5, "reason": "dead", "what_to_do": "this"}
    assert list(orphan_lines({})) == []
    (line,) = orphan_lines({"orphans": [orphan]})
    assert line == "broker 5 may still hold an old copy of t-0; what to do: this"
    alike = [{**orphan, "partition": n, "what_to_do": "nothing: it ends"} for n in range(11)]
    (line,) = orphan_lines({"orphans": alike})
    assert line == "broker 5 may still hold old copies of 11 partitions: it ends"
    rows = [{**orphan, "broker": b} for b in range(ORPHANS_SHOWN + 1)]
    many = list(orphan_lines({"orphans": rows, "orphans_total": ORPHANS_SHOWN + 200}))
    assert many[-1] == "and 200 more old copies: reassigner doctor --all-rows"
    assert len(many) == ORPHANS_SHOWN + 1


def test_evacuated_brokers_are_named_with_author_and_reason() -> None:
    """Also those to which leaderships return."""
    about = {"reason": "kernel", "by": "ann", "since_ms": 1_767_312_000_000, "live": True}
    rows = [{"broker": b, **about, "returning": b == 6} for b in (5, 6)]
    found = FakeCluster(statuses=[a_status(evacuations=rows)])
    printed = Terminal(found).run("status").stdout
    since = "since 2026-01-02 00:00:00Z by ann: kernel"
    assert f"broker 5: leaderships evacuated {since}\n" in printed
    assert f"broker 6: leaderships return, evacuated {since}\n" in printed
