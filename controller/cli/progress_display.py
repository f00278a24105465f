"""
Progress of reassignments: live bars on a terminal, lines of text or JSON elsewhere.

A display gets the latest status and shows what changed. It reads nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.cli import status_text
from controller.cli.output import ids, print_line

BAR_WIDTH: Final = 24
NARROW_BAR_WIDTH: Final = 10
PARTITIONS_MAX: Final = 30
BROKERS_MAX: Final = 20


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
            for partition in status["in_flight"][:PARTITIONS_MAX]:
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
    """Return the bars and the lines below them."""
    parts: list[RenderableType] = []
    if total:
        whole = Table.grid(padding=(0, 1))
        whole.add_row(_bar(done, total), Text(headline))
        parts.append(whole)
    elif headline:
        parts.append(Text(headline))
    if status is not None:
        parts += [Text(line, style="yellow") for line in status_text.held_lines(status)]
        parts += [_requests(status), _brokers(status), _partitions(status), *_blocked(status)]
    return Group(*parts)


def _bar(done: float, total: int, width: int = BAR_WIDTH) -> ProgressBar:
    return ProgressBar(total=max(1, total), completed=done, width=width)


def _requests(status: Mapping[str, Any]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for request in status["requests"]:
        counts = request["partitions"]
        if request["state"] in {"in_flight", "waiting"}:
            ended = counts["done"] + counts["refused"] + counts["cancelled"]
            share = status_text.share_copied(request)
            bar = _bar(ended, counts["total"]) if share is None else _bar(share, 1)
            table.add_row(bar, Text(status_text.request_line(request)))
    return table


def _brokers(status: Mapping[str, Any]) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for head in ("broker", "in", "out"):
        table.add_column(head, no_wrap=True)
    for load in islice(status_text.broker_loads(status), BROKERS_MAX):
        table.add_row(str(load.broker), load.incoming, load.outgoing)
    return table if table.row_count else Text("")


def _partitions(status: Mapping[str, Any]) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for head in ("partition", "progress", "phase", "replicas", "isr", "leader"):
        table.add_column(head, no_wrap=True)
    table.add_column("state")
    for partition in status["in_flight"][:PARTITIONS_MAX]:
        now, target = ids(partition["replicas"]), ids(partition["target_replicas"])
        step, steps = partition["step"], partition["steps"]
        table.add_row(
            Text(f"{partition['topic']}-{partition['partition']}"),
            # A step in flight counts as half a step.
            _bar(max(0, step - 0.5), steps, NARROW_BAR_WIDTH),
            Text(f"{partition['phase']} {step}/{steps}", style=_style(partition)),
            f"{now} -> {target}",
            ids(partition["isr"]),
            str(partition["leader"]),
            Text(status_text.state_words(partition)),
        )
    more = len(status["in_flight"]) - PARTITIONS_MAX
    if more > 0:
        table.add_row(f"and {more} more")
    return table if table.row_count else Text("")


def _blocked(status: Mapping[str, Any]) -> Iterator[RenderableType]:
    for partition in status.get("waiting", ()):
        yield Text(status_text.waiting_line(partition), style="dim")
    for line in status_text.blocked_lines(status):
        yield Text(line, style="red" if line.startswith("stalled") else "")


def _style(partition: Mapping[str, Any]) -> str:
    return "red" if partition["stalled"] else ""


@contextmanager
def bars(console: Console) -> Iterator[Display]:
    """Open a live region on the terminal; its last state stays."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield Bars(live)


def json_lines() -> AbstractContextManager[Display]:
    """Open a display of JSON lines."""
    return nullcontext(JsonLines(print_line))


def display_of(*, is_terminal: bool, as_json: bool = False) -> DisplayOpener:
    """Return the display of a command that ends with one result: none with ``--json``."""
    if as_json:
        return lambda: nullcontext(Nothing())
    if is_terminal:
        return lambda: bars(Console())
    return lambda: nullcontext(Lines(print_line))
