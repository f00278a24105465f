"""Tests of ``controller.telemetry.logs``."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, TextIO, get_args

import pytest
import structlog

from controller.settings import LogFormat
from controller.telemetry.log_events import LINES_MAX, Level, LogEvent, info, warning
from controller.telemetry.logs import LIBRARIES, WINDOW_S, LogLines, QueuedStream, configure_logging
from tests.telemetry.builders import FixedClock, RecordedLog


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Return a stream for log lines, and give the process its own logging back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in LIBRARIES}
    yield io.StringIO()
    for handler in root.handlers:
        if isinstance(handler, QueuedStream):
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.reset_defaults()


def written() -> None:
    """Wait until what was logged is in the stream."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return what loggers of these tests wrote, as JSON; threads of others may have logged, too."""
    written()
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if line["logger"].endswith(".test")]


def test_a_line_is_one_json_object(stream: io.StringIO) -> None:
    """Event, fields, level, logger and time."""
    configure_logging("json", "info", stream)
    structlog.stdlib.get_logger("controller.test").info("phase", topic="t", isr=[1, 2])
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "phase",
        "topic": "t",
        "isr": [1, 2],
        "level": "info",
        "logger": "controller.test",
    }


def test_lines_below_the_level_are_not_written(stream: io.StringIO) -> None:
    """Debug only where it was asked for."""
    configure_logging("json", "info", stream)
    structlog.stdlib.get_logger("controller.test").debug("blocked")
    assert lines(stream) == []
    configure_logging("json", "debug", stream)
    structlog.stdlib.get_logger("controller.test").debug("blocked")
    assert [line["event"] for line in lines(stream)] == ["blocked"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_log_warnings_only(stream: io.StringIO, library: str) -> None:
    """In our format."""
    configure_logging("json", "debug", stream)
    logging.getLogger(f"{library}.test").info("connecting to %s", "zk")
    logging.getLogger(f"{library}.test").warning("lost %s", "zk")
    (line,) = lines(stream)
    assert (line["event"], line["level"]) == ("lost zk", "warning")


def test_an_exception_stays_one_line_of_json(stream: io.StringIO) -> None:
    """A trace is a field, so that collectors keep it together."""
    configure_logging("json", "info", stream)
    structlog.stdlib.get_logger("controller.test").error("http_failed", exc_info=ValueError("bad"))
    (line,) = lines(stream)
    assert line["exception"][0]["exc_type"] == "ValueError"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


@pytest.mark.parametrize("kind", [io.StringIO, Screen])
def test_lines_are_for_people_on_a_terminal(kind: type[io.StringIO]) -> None:
    """And JSON for programs elsewhere, unless the setting says otherwise."""
    stream = kind()
    configure_logging("auto", "info", stream)
    structlog.stdlib.get_logger("controller.test").info("begun", topic="t")
    written()
    line = next(line for line in stream.getvalue().splitlines() if "begun" in line)
    assert line.startswith("{") is (kind is io.StringIO)


@pytest.mark.parametrize("log_format", get_args(LogFormat))
def test_a_trace_shows_no_local_variable(stream: io.StringIO, log_format: LogFormat) -> None:
    """They hold passwords while a connection is made."""
    configure_logging(log_format, "info", stream)

    def log_in(password: str) -> None:
        raise ValueError(f"refused after {len(password)} characters")

    try:
        log_in(f"hunter{2}")
    except ValueError:
        structlog.stdlib.get_logger("controller.test").exception("crashed")
    written()
    assert "refused after 7 characters" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_console_format_is_aligned_text(stream: io.StringIO) -> None:
    """Without colours if there is no terminal."""
    configure_logging("console", "info", stream)
    structlog.stdlib.get_logger("controller.test").info("phase", topic="t")
    written()
    printed = stream.getvalue()
    assert "phase" in printed
    assert "topic=t" in printed
    assert "\x1b" not in printed


def test_configuring_twice_does_not_double_the_lines(stream: io.StringIO) -> None:
    """The last configuration holds."""
    for _ in range(2):
        configure_logging("json", "info", stream)
    logging.getLogger("controller.other.test").warning("once")
    assert len(lines(stream)) == 1


LINE = "x" * 1000
QUEUE_MAX = 50
PIPE_LINES = 200
"""More than a pipe and the queue take."""


def record(text: str) -> logging.LogRecord:
    """Return what a logger hands over."""
    return logging.makeLogRecord({"msg": text, "levelno": logging.INFO, "levelname": "INFO"})


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """Return the end of a pipe that is to be read, and the one that is written to."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        yield reading, stream
    os.close(reading)


def test_lines_are_written_in_order() -> None:
    """Each with its end."""
    stream = io.StringIO()
    handler = QueuedStream(stream)
    for text in "abc":
        handler.emit(record(text))
    handler.close()
    assert stream.getvalue() == "a\nb\nc\n"


def test_unread_pipe_delays_no_logging(pipe: tuple[int, TextIO]) -> None:
    """Dropped lines are counted and logged later."""
    reading, stream = pipe
    handler = QueuedStream(stream, queue_max=QUEUE_MAX)
    for _ in range(PIPE_LINES):
        handler.emit(record(LINE))
    lost = handler.dropped
    assert lost > 0
    read = bytearray()
    while b"log_dropped" not in read:
        read += os.read(reading, 1 << 16)
    handler.close()
    stream.close()
    while more := os.read(reading, 1 << 16):
        read += more
    lines = read.decode().splitlines()
    assert lines.count(LINE) + lost == PIPE_LINES


def test_closed_stream_raises_nothing() -> None:
    """The logging thread continues."""
    stream = io.StringIO()
    handler = QueuedStream(stream)
    stream.close()
    handler.emit(record("a"))
    handler.flush()
    assert handler.dropped == 1
    handler.close()


@pytest.mark.parametrize("end", ["raise ValueError", "pass"])
def test_last_lines_are_written_however_the_process_ends(end: str) -> None:
    """After a clean stop and after an unexpected error."""
    program = (
        "import sys, structlog\n"
        "from controller.telemetry.logs import configure_logging\n"
        'configure_logging("json", "info", sys.stderr)\n'
        "log = structlog.stdlib.get_logger('x')\n"
        "for n in range(500): log.info('line', n=n)\n"
        f"{end}\n"
    )
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stderr.count('"event": "line"') == 500


def test_process_with_an_unread_pipe_ends(pipe: tuple[int, TextIO]) -> None:
    """With its own exit code."""
    _, stream = pipe
    program = (
        "import logging, sys\n"
        "from controller.telemetry.logs import QueuedStream\n"
        "logging.getLogger().addHandler(QueuedStream(sys.stderr))\n"
        "for n in range(500): logging.warning('x' * 1000)\n"
        "raise SystemExit(3)\n"
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], stderr=stream, check=False, timeout=30, env=buffered
    )
    assert ended.returncode == 3


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
