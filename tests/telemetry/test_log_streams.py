"""Log lines that hold nobody up, whatever becomes of whoever reads them."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from controller.telemetry.log_streams import QueuedStream

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


def test_lines_come_in_their_order() -> None:
    """Each with its end."""
    stream = io.StringIO()
    handler = QueuedStream(stream)
    for text in "abc":
        handler.emit(record(text))
    handler.close()
    assert stream.getvalue() == "a\nb\nc\n"


def test_a_pipe_that_nobody_reads_holds_nobody_up(pipe: tuple[int, TextIO]) -> None:
    """What does not fit is counted, and told of when there is room again."""
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


def test_a_closed_stream_ends_nothing() -> None:
    """Whoever logs goes on."""
    stream = io.StringIO()
    handler = QueuedStream(stream)
    stream.close()
    handler.emit(record("a"))
    handler.flush()
    assert handler.dropped == 1
    handler.close()


@pytest.mark.parametrize("end", ["raise ValueError", "pass"])
def test_what_was_logged_last_is_written_however_the_process_ends(end: str) -> None:
    """A clean stop and an error that nobody foresaw."""
    program = (
        "import sys, structlog\n"
        "from controller.settings import LogFormat, LogLevel\n"
        "from controller.telemetry.logs import configure_logging\n"
        "configure_logging(LogFormat.JSON, LogLevel.INFO, sys.stderr)\n"
        "log = structlog.stdlib.get_logger('x')\n"
        "for n in range(500): log.info('line', n=n)\n"
        f"{end}\n"
    )
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stderr.count('"event": "line"') == 500


def test_a_process_whose_lines_nobody_reads_ends(pipe: tuple[int, TextIO]) -> None:
    """With its own exit code."""
    _, stream = pipe
    program = (
        "import logging, sys\n"
        "from controller.telemetry.log_streams import QueuedStream\n"
        "logging.getLogger().addHandler(QueuedStream(sys.stderr))\n"
        "for n in range(500): logging.warning('x' * 1000)\n"
        "raise SystemExit(3)\n"
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], stderr=stream, check=False, timeout=30, env=buffered
    )
    assert ended.returncode == 3
