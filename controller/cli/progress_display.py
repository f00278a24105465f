"""
Progress of reassignments: live bars on a terminal, lines of text or JSON elsewhere.

A display gets the latest status and shows what changed. It reads nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from controller.cli import status_text
from controller.cli.context import CommandContext
from controller.cli.output import print_line
from controller.cli.status_screen import status_screen
from controller.cli.terminal_tables import ROWS_MAX, Bar, Paragraph, Part
from controller.telemetry.advice import burst_words, throttle_words

Show = Callable[[str, int, int, Mapping[str, Any] | None], None]
"""
Show a headline, the numbers of ended and of all partitions, and the latest status.

The status is None if the daemon does not answer.
"""
Display = AbstractContextManager[Show]


class Lines:
    """Lines of text: one for each request, broker and partition that has changed."""

    def __init__(self, write: Callable[[str], None], *, verbose: bool = False) -> None:
        """Write lines with ``write``."""
        self._write = write
        self._verbose = verbose
        self._shown: dict[str, object] = {}

    def show(self, headline: str, done: int, total: int, status: Mapping[str, Any] | None) -> None:
        """Print the headline and the parts of the status that have changed."""
        del done, total
        if status is not None:
            for line in status_text.held_lines(status, counts=False):
                self._once(line, line)
            for request in status["requests"]:
                line = status_text.request_line(request)
                # Bytes change with every status: a line for each milestone is enough.
                lasting = line.partition(";")[0], status_text.milestone(request)
                self._once(f"request {request['id']}", line, lasting)
            busy = status_text.busy_brokers(status)
            for broker, line in status_text.broker_lines(status):
                self._once(f"broker {broker}", line, busy)
            throttle = throttle_words(status)
            if throttle:
                rates = {row.get("throttle_bytes_per_s") for row in status["broker_loads"]}
                self._once("throttle", f"throttle in force: {throttle}", rates)
                self._once("burst", burst_words(status), "is said")
            for partition in status["in_flight"][:ROWS_MAX]:
                line = status_text.partition_line(partition, verbose=self._verbose)
                self._once(status_text.name_of(partition), line)
            for line in status_text.blocked_lines(status):
                self._once(line.partition(":")[0], line)
        self._once("", headline or (status_text.work_line(status) if status is not None else ""))

    def _once(self, key: str, line: str, lasting: object = None) -> None:
        """Print a line unless it, or ``lasting`` in its place, is the same as the last time."""
        found = lasting or line
        if line and self._shown.get(key) != found:
            self._shown[key] = found
            self._write(line)


class JsonLines:
    """The status as one line of JSON, whenever it has changed."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """Write lines with ``write``."""
        self._write = write
        self._shown: Mapping[str, Any] | None = None

    def show(self, headline: str, done: int, total: int, status: Mapping[str, Any] | None) -> None:
        """Print the status, or without one the headline."""
        del done, total
        document = {"error": headline} if status is None else status
        lasting = {k: v for k, v in document.items() if k != "at"}
        if lasting != self._shown:
            self._shown = lasting
            self._write(json.dumps(document, separators=(",", ":")))


def parts_of(
    headline: str,
    done: int,
    total: int,
    status: Mapping[str, Any] | None,
    *,
    verbose: bool = False,
) -> Iterator[Part]:
    """Return the headline, with a bar if ``total`` is known, and the status below it."""
    if total:
        yield Bar(done / total, headline)
    elif headline:
        yield Paragraph(headline)
    if status is not None:
        yield from status_screen(status, verbose=verbose)


def json_lines() -> Display:
    """Open a display of JSON lines."""
    return nullcontext(JsonLines(print_line).show)


@contextmanager
def display_of(context: CommandContext) -> Iterator[Show]:
    """Open the display of a command that ends with one result; JSON shows no progress."""
    if context.as_json:
        yield lambda *_: None
    elif (screen := context.screen()) is not None:
        with screen.in_place() as show:
            yield lambda *numbers: show(parts_of(*numbers, verbose=context.verbose))
    else:
        yield Lines(print_line, verbose=context.verbose).show
