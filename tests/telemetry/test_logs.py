"""Tests of ``controller.telemetry.logs``."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from controller.settings import LogFormat, LogLevel
from controller.telemetry.log_streams import QueuedStream
from controller.telemetry.logs import LIBRARIES, configure_logging


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
    """Return what was written as JSON."""
    written()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object(stream: io.StringIO) -> None:
    """Event, fields, level, logger and time."""
    configure_logging(LogFormat.JSON, LogLevel.INFO, stream)
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
    configure_logging(LogFormat.JSON, LogLevel.INFO, stream)
    structlog.stdlib.get_logger("controller.test").debug("blocked")
    assert lines(stream) == []
    configure_logging(LogFormat.JSON, LogLevel.DEBUG, stream)
    structlog.stdlib.get_logger("controller.test").debug("blocked")
    assert [line["event"] for line in lines(stream)] == ["blocked"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_speak_only_of_trouble(stream: io.StringIO, library: str) -> None:
    """Their warnings come in our form; their chatter does not come."""
    configure_logging(LogFormat.JSON, LogLevel.DEBUG, stream)
    logging.getLogger(f"{library}.client").info("connecting to %s", "zk")
    logging.getLogger(f"{library}.client").warning("lost %s", "zk")
    (line,) = lines(stream)
    assert (line["event"], line["level"]) == ("lost zk", "warning")


def test_an_exception_stays_one_line_of_json(stream: io.StringIO) -> None:
    """A trace is a field, so that collectors keep it together."""
    configure_logging(LogFormat.JSON, LogLevel.INFO, stream)
    structlog.stdlib.get_logger("controller.test").error("http_failed", exc_info=ValueError("bad"))
    (line,) = lines(stream)
    assert line["exception"][0]["exc_type"] == "ValueError"


def test_the_console_form_is_for_people(stream: io.StringIO) -> None:
    """Aligned text, without colours where there is no terminal."""
    configure_logging(LogFormat.CONSOLE, LogLevel.INFO, stream)
    structlog.stdlib.get_logger("controller.test").info("phase", topic="t")
    written()
    told = stream.getvalue()
    assert "phase" in told
    assert "topic=t" in told
    assert "\x1b" not in told


def test_configuring_twice_does_not_double_the_lines(stream: io.StringIO) -> None:
    """The last configuration holds."""
    for _ in range(2):
        configure_logging(LogFormat.JSON, LogLevel.INFO, stream)
    logging.getLogger("controller.other").warning("once")
    assert len(lines(stream)) == 1
