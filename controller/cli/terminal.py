"""Draw on a terminal: one style, as wide as the terminal, with a limited number of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.cli.terminal_tables import (
    Bar,
    Cell,
    Column,
    Fields,
    Listing,
    Name,
    Paragraph,
    Part,
    Words,
)
from controller.units import percent

NAME_MIN: Final = 12
FOLD_MIN: Final = 30
"""Columns that a name and folded text have at least."""
GAP: Final = 2
BAR_WIDTH: Final = 10
_Row = TypeVar("_Row")


class RowsConsole(Console):
    """A terminal on which tables have all rows, or their first ones."""

    all_rows: bool = False


@dataclass(frozen=True)
class Screen:
    """A terminal."""

    console: RowsConsole
    errors: RowsConsole
    """Standard error, for notes that are no result."""

    def print(self, *parts: Part) -> None:
        """Print parts one below the other."""
        if parts:
            self.console.print(*map(drawn, parts), sep="\n")

    def note(self, *parts: Part) -> None:
        """Print notes one below the other."""
        if parts:
            self.errors.print(*map(drawn, parts), sep="\n")

    @contextmanager
    def in_place(self) -> Iterator[Callable[[Iterable[Part]], None]]:
        """Draw parts in the place of the former ones; the last ones stay."""
        with Live(console=self.console, auto_refresh=False, transient=False) as live:
            yield lambda parts: live.update(Group(*map(drawn, parts)), refresh=True)


def screen_of(environ: Mapping[str, str], *, all_rows: bool) -> Screen:
    """
    Return the terminal of this process.

    ``COLUMNS`` sets the width, a ``NO_COLOR`` that is not empty forbids colours.
    """
    columns = environ.get("COLUMNS", "")
    is_given = columns.isascii() and columns.isdecimal() and int(columns) > 0

    def opened(*, stderr: bool) -> RowsConsole:
        console = RowsConsole(
            stderr=stderr,
            width=int(columns) if is_given else None,
            no_color=bool(environ.get("NO_COLOR")),
            highlight=False,
            markup=False,
            emoji=False,
        )
        console.all_rows = all_rows
        return console

    return Screen(opened(stderr=False), opened(stderr=True))


def drawn(part: Part) -> RenderableType:  # noqa: PLR0911 - one return per kind
    """Return what rich draws for a part."""
    match part:
        case str():
            return part
        case Words(text=text, style=style, then=others):
            line = Text(text, style) if not others else Text().append(text, style)
            for other in others:
                line.append(other.text, other.style)
            return line
        case Name():
            return _DrawnName(part)
        case Bar(share=share, words=words):
            return _beside(_bar(share), words) if words else _bar(share)
        case Paragraph(text=text, style=style):
            return _paragraph(text, style)
        case Fields(rows=rows, indent=indent):
            return _fields(rows, indent)
        case Listing():
            return _DrawnListing(part)


def _bar(share: float | None) -> Table:
    drawn_share = min(1.0, max(0.0, share or 0.0))
    words = "?" if share is None else f"{percent(drawn_share)}%"
    grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column(width=BAR_WIDTH)
    grid.add_column(width=4, justify="right")
    bar = ProgressBar(
        1, drawn_share, width=BAR_WIDTH, complete_style="cyan", finished_style="green"
    )
    grid.add_row(bar, Text(words))
    return grid


def _beside(first: RenderableType, words: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_row(first, Text(words))
    return grid


def _paragraph(text: str, style: str) -> Table:
    head, *rest = text.splitlines() or [""]
    grid = Table.grid(padding=0)
    grid.add_column(overflow="fold")
    grid.add_row(Text(head, style))
    for line in rest:
        grid.add_row(Text(line, style))
    return grid


def _fields(rows: Iterable[tuple[str, Cell]], indent: int) -> Padding:
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), drawn(value))
    return Padding(grid, (0, 0, 0, indent))


# --- names and tables ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _DrawnName:
    """Draws a name."""

    name: Name

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return how narrow and how wide it can be."""
        width = len(self.name.text)
        return Measurement(min(width, NAME_MIN), width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw it on one line."""
        mark = "..." if options.ascii_only else "…"
        short = shorten(self.name.text, options.max_width, mark)
        yield Text(short, self.name.style, no_wrap=True)


def shorten(text: str, width: int, mark: str = "…") -> str:
    """Cut the middle out of a text that is longer than ``width``: its end often has a number."""
    if len(text) <= width:
        return text
    kept = max(0, width - len(mark))
    tail = kept // 2
    return text[: kept - tail] + mark + (text[-tail:] if tail else "")


@dataclass(frozen=True)
class _DrawnListing:
    """Draws a table."""

    table: Listing[Any]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw the title, the head, the rows, and the number of rows that are left out."""
        table = self.table
        if not table.rows:
            return
        shows_all = isinstance(console, RowsConsole) and console.all_rows
        rows = list(table.rows if shows_all else table.rows[: table.rows_max])
        cells = {column: [column.cell(row) for row in rows] for column in table.columns}
        # A column that is empty in every row is left out.
        filled = {c: found for c, found in cells.items() if not all(map(_is_empty, found))}
        wanted = {
            column: max(
                len(column.head),
                *(console.measure(drawn(f), options=options).maximum for f in found),
            )
            for column, found in filled.items()
        }
        shown = _fitting_columns(wanted, options.max_width)
        names = {c for c in shown if any(isinstance(cell, Name) for cell in filled[c])}
        widths, gap = _fit_widths([wanted[c] for c in shown], shown, names, options.max_width)
        grid = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
        grid.show_header = any(column.head for column in shown)
        for column, width in zip(shown, widths, strict=True):
            grid.add_column(
                column.head,
                justify="right" if column.is_number else "left",
                no_wrap=not column.folds,
                overflow="fold",
                width=width,
            )
        for row in zip(*(filled[column] for column in shown), strict=True):
            grid.add_row(*map(drawn, row))
        if table.title:
            yield Text(table.title, table.style)
        yield grid
        left_out = len(table.rows) - len(rows)
        if left_out:
            yield Text(f"... and {left_out} more (--all-rows shows them)", "dim")
        yield from (drawn(note) for note in map(table.note, rows) if note is not None)


def _fitting_columns(wanted: Mapping[Column[_Row], int], width: int) -> list[Column[_Row]]:
    """Return the columns without the last extra ones, as many as do not fit."""
    shown = list(wanted)

    def needed() -> int:
        folded = (min(wanted[c], 2 * FOLD_MIN) if c.folds else wanted[c] for c in shown)
        return sum(folded) + GAP * (len(shown) - 1)

    for column in reversed(list(wanted)):
        if column.is_extra and needed() > width:
            shown.remove(column)
    return shown


def _fit_widths(
    wanted: Sequence[int],
    columns: Sequence[Column[_Row]],
    names: Collection[Column[_Row]],
    width: int,
) -> tuple[list[int], int]:
    """
    Return the widths of columns, and the gap between them.

    Where the terminal is too narrow, folded text gets narrower first, then names, then the gaps,
    then both again.
    """
    widths = list(wanted)
    elastic = {
        number: FOLD_MIN if column.folds else NAME_MIN
        for number, column in enumerate(columns)
        if column.folds or column in names
    }
    least = [min(needed, elastic.get(number, needed)) for number, needed in enumerate(widths)]
    gap = GAP if sum(least) + GAP * (len(widths) - 1) <= width else 1
    excess = sum(widths) + gap * (len(widths) - 1) - width
    by_need = sorted(elastic, key=elastic.__getitem__, reverse=True)
    for scale in (1, 2):
        for number in by_need:
            cut = max(0, min(excess, widths[number] - elastic[number] // scale))
            widths[number] -= cut
            excess -= cut
    return widths, gap


def _is_empty(cell: Cell) -> bool:
    return isinstance(cell, str | Words | Name) and not cell
