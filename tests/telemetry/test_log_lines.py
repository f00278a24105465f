"""Tests of ``controller.telemetry.logs``: in full, and where there are very many counted."""

from __future__ import annotations

from controller.telemetry.log_events import LINES_MAX, Level, LogEvent, info, warning
from controller.telemetry.logs import WINDOW_S, LogLines
from tests.telemetry.builders import FixedClock, RecordedLog


class Written:
    """Lines, what they were written to, and the clock they go by."""

    def __init__(self) -> None:
        """Begin with an empty log."""
        self.log, self.clock = RecordedLog(), FixedClock()
        self.lines = LogLines(self.log, self.clock)

    def phases(self, count: int, phase: str = "A2") -> None:
        """Write that so many partitions came into a phase."""
        for n in range(count):
            self.lines.write(info("phase", partition=n, phase=phase))


def test_a_few_lines_of_a_kind_are_written_in_full() -> None:
    """A plan of a few partitions is logged partition by partition, without a line "more"."""
    written = Written()
    written.phases(LINES_MAX)
    written.clock.go(WINDOW_S)
    written.lines.tend()
    assert [fields["partition"] for _, _, fields in written.log.lines] == list(range(LINES_MAX))


def test_further_lines_are_counted() -> None:
    """Without a count."""
    written = Written()
    written.phases(LINES_MAX + 500)
    written.clock.go(WINDOW_S / 2)
    written.lines.tend()
    assert len(written.log.lines) == LINES_MAX
    written.clock.go(WINDOW_S / 2)
    written.lines.tend()
    written.lines.tend()
    assert written.log.lines[LINES_MAX:] == [
        ("info", "phase_more", {"count": 500, "phase": "A2", "each": "in the journal"})
    ]


def test_each_phase_has_a_limit_of_its_own() -> None:
    """Ten thousand that start do not hide the first that ends."""
    written = Written()
    written.phases(10_000, "A2")
    written.phases(1, "ended")
    assert written.log.lines[-1] == ("info", "phase", {"partition": 0, "phase": "ended"})


def test_new_window_starts_at_zero() -> None:
    """Later events are logged in full, after any number of earlier ones."""
    written = Written()
    written.phases(LINES_MAX + 1)
    written.clock.go(WINDOW_S)
    written.lines.tend()
    written.phases(1, "A2")
    assert [name for _, name, _ in written.log.lines[LINES_MAX:]] == ["phase_more", "phase"]


def test_the_count_has_the_level_of_its_kind() -> None:
    """A filter by level drops both or neither."""
    written = Written()
    for n in range(LINES_MAX + 1):
        written.lines.write(warning("refused", partition=n))
        written.lines.write(LogEvent("waits", Level.DEBUG, {"partition": n}))
    written.lines.flush()
    assert written.log.lines[2 * LINES_MAX :] == [
        ("warning", "refused_more", {"count": 1, "each": "in the journal"}),
        ("debug", "waits_more", {"count": 1}),
    ]


def test_flush_logs_the_remaining_counts() -> None:
    """Once."""
    written = Written()
    written.phases(LINES_MAX + 3)
    written.lines.flush()
    written.lines.flush()
    assert [f["count"] for f in written.log.named("phase_more")] == [3]
