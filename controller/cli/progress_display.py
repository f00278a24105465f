"""
Progress of reassignments: live bars on a terminal, lines of text or JSON elsewhere.

A display gets the latest status and shows what changed. It reads nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from controller.cli import status_text
from controller.cli.options import ROWS_MAX
from controller.cli.output import print_line
from controller.cli.status_screen import status_screen
from controller.cli.tables import Screen, bar, paragraph


class Display(Protocol):
    """A view of progress."""

    def show(self, headline: str, done: int, total: int, status: Mapping[str, Any] | None) -> None:
        """Show the latest numbers; ``status`` is None if the daemon does not answer."""
        ...


DisplayOpener = Callable[[], AbstractContextManager[Display]]


class Lines:
    """Lines of text: one for each request, broker and partition that has changed."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """Write lines with ``write``."""
        self._write = write
        self._shown: dict[str, object] = {}

    def show(self, headline: str, done: int, total: int, status: Mapping[str, Any] | None) -> None:
        """Print the headline and the parts of the status that have changed."""
        del done, total
        if status is not None:
            for line in status_text.held_lines(status):
                self._once(line, line)
            for request in status["requests"]:
                line = status_text.request_line(request)
                # Bytes change with every status: a line for each milestone is enough.
                lasting = line.partition(";")[0], status_text.milestone(request)
                self._once(f"request {request['id']}", line, lasting)
            busy = status_text.busy_brokers(status)
            for load in status_text.broker_loads(status):
                self._once(f"broker {load.broker}", str(load), busy)
            for partition in status["in_flight"][:ROWS_MAX]:
                name = f"{partition['topic']}-{partition['partition']}"
                self._once(name, status_text.partition_line(partition))
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


class Nothing:
    """No progress: the command prints one document at the end."""

    def show(self, headline: str, done: int, total: int, status: Mapping[str, Any] | None) -> None:
        """Show nothing."""


class Bars:
    """Bars on a terminal: for the whole, each request and each partition in flight."""

    def __init__(self, live: Live) -> None:
        """Draw in a live region of the terminal."""
        self._live = live

    def show(self, headline: str, done: int, total: int, status: Mapping[str, Any] | None) -> None:
        """Draw the latest numbers."""
        self._live.update(draw(headline, done, total, status), refresh=True)


def draw(headline: str, done: int, total: int, status: Mapping[str, Any] | None) -> RenderableType:
    """Return the headline, with a bar if ``total`` is known, and the status below it."""
    parts: list[RenderableType] = []
    if total:
        whole = Table.grid(padding=(0, 2, 0, 0))
        whole.add_row(bar(done / total), Text(headline))
        parts.append(whole)
    elif headline:
        parts.append(paragraph(headline))
    if status is not None:
        parts.append(status_screen(status))
    return Group(*parts)


@contextmanager
def bars(console: Console) -> Iterator[Display]:
    """Open a live region on the terminal; its last state stays."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield Bars(live)


def json_lines() -> AbstractContextManager[Display]:
    """Open a display of JSON lines."""
    return nullcontext(JsonLines(print_line))


def display_of(screen: Screen | None, *, as_json: bool = False) -> DisplayOpener:
    """
    Return the display of a command that ends with one result.

    Args:
        screen: The terminal, None without one.
        as_json: Whether the result is JSON, which shows no progress.

    """
    if as_json:
        return lambda: nullcontext(Nothing())
    if screen is not None:
        return lambda: bars(screen.console)
    return lambda: nullcontext(Lines(print_line))
