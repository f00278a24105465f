"""
Tables for a terminal: one style, as wide as the terminal, with a limited number of rows.

Only a terminal gets them. Pipes and files get lines of text, whatever the width.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.cli.options import ROWS_MAX
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

    def print(self, *parts: RenderableType) -> None:
        """Print parts one below the other."""
        if parts:
            self.console.print(*parts, sep="\n")

    def note(self, *parts: RenderableType) -> None:
        """Print notes one below the other."""
        if parts:
            self.errors.print(*parts, sep="\n")


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


class Name:
    """A name that is shortened in the middle where it does not fit."""

    def __init__(self, text: str, style: str = "") -> None:
        """Show ``text``."""
        self._text = text
        self._style = style

    def __bool__(self) -> bool:
        """Return whether there is a name."""
        return bool(self._text)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return how narrow and how wide it can be."""
        return Measurement(min(len(self._text), NAME_MIN), len(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw it on one line."""
        mark = "..." if options.ascii_only else "…"
        yield Text(shorten(self._text, options.max_width, mark), self._style, no_wrap=True)


def shorten(text: str, width: int, mark: str = "…") -> str:
    """Cut the middle out of a text that is longer than ``width``: its end often has a number."""
    if len(text) <= width:
        return text
    kept = max(0, width - len(mark))
    tail = kept // 2
    return text[: kept - tail] + mark + (text[-tail:] if tail else "")


@dataclass(frozen=True)
class Column(Generic[_Row]):
    """One column: its head, and its cell in each row."""

    head: str
    cell: Callable[[_Row], RenderableType]
    is_number: bool = False
    """Aligned to the right."""
    folds: bool = False
    """Takes the rest of the width and as many lines as it needs."""
    is_extra: bool = False
    """Left out where not all columns fit."""


@dataclass(frozen=True, kw_only=True)
class Listing(Generic[_Row]):
    """A table that chooses its columns by the width of the terminal; nothing without rows."""

    columns: Sequence[Column[_Row]]
    rows: Sequence[_Row]
    """The most important first."""
    title: str = ""
    style: str = "bold"
    """The style of the title."""
    rows_max: int = ROWS_MAX
    """The largest number of rows, unless the console shows all."""
    note: Callable[[_Row], RenderableType | None] = lambda _: None
    """What is printed below the table about a row."""

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw the title, the head, the rows, and the number of rows that are left out."""
        if not self.rows:
            return
        shows_all = isinstance(console, RowsConsole) and console.all_rows
        rows = list(self.rows if shows_all else self.rows[: self.rows_max])
        cells = {column: [column.cell(row) for row in rows] for column in self.columns}
        # A column that is empty in every row is left out.
        filled = {c: found for c, found in cells.items() if not all(map(_is_empty, found))}
        wanted = {
            column: max(
                len(column.head), *(console.measure(f, options=options).maximum for f in found)
            )
            for column, found in filled.items()
        }
        shown = _fitting_columns(wanted, options.max_width)
        names = {c for c in shown if any(isinstance(cell, Name) for cell in filled[c])}
        widths, gap = _fit_widths([wanted[c] for c in shown], shown, names, options.max_width)
        drawn = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
        drawn.show_header = any(column.head for column in shown)
        for column, width in zip(shown, widths, strict=True):
            drawn.add_column(
                column.head,
                justify="right" if column.is_number else "left",
                no_wrap=not column.folds,
                overflow="fold",
                width=width,
            )
        for row in zip(*(filled[column] for column in shown), strict=True):
            drawn.add_row(*row)
        if self.title:
            yield Text(self.title, self.style)
        yield drawn
        left_out = len(self.rows) - len(rows)
        if left_out:
            yield Text(f"... and {left_out} more (--all-rows shows them)", "dim")
        yield from (note for note in map(self.note, rows) if note is not None)


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


def _is_empty(cell: RenderableType) -> bool:
    return isinstance(cell, str | Text | Name) and not cell


def fields(rows: Iterable[tuple[str, RenderableType]], indent: int = 0) -> RenderableType:
    """Return names with their values; long values are folded beside the name."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), value)
    return Padding(grid, (0, 0, 0, indent))


def paragraph(text: str, style: str = "") -> RenderableType:
    """Return text that is folded between words, its further lines indented."""
    head, *rest = text.splitlines() or [""]
    grid = Table.grid(padding=0)
    grid.add_column(overflow="fold")
    grid.add_row(Text(head, style))
    for line in rest:
        grid.add_row(Text(line, style))
    return grid


def bar(share: float | None) -> RenderableType:
    """Return a bar with the share in percent; None: it is unknown."""
    drawn_share = min(1.0, max(0.0, share or 0.0))
    words = "?" if share is None else f"{percent(drawn_share)}%"
    drawn = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    drawn.add_column(width=BAR_WIDTH)
    drawn.add_column(width=4, justify="right")
    drawn.add_row(ProgressBar(1, drawn_share, width=BAR_WIDTH), Text(words))
    return drawn


def number_text(value: object, show: Callable[[Any], str] = str) -> str:
    """Return a number for a cell, which stays empty for zero or an unknown number."""
    return show(value) if isinstance(value, int | float) and value else ""
