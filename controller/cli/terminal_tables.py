"""
What a command shows on a terminal: texts, bars and tables.

Only a terminal gets them, and ``terminal`` draws them. Pipes and files get lines of text, so a
command that describes its tables does not import what draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

ROWS_MAX: Final = 30
"""Rows of a table on a terminal, unless all are requested."""
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Words:
    """Text in a style, and after it perhaps text in other styles."""

    text: str
    style: str = ""
    then: tuple[Words, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is any text."""
        return bool(self.text)


@dataclass(frozen=True)
class Name:
    """A name that is shortened in the middle where it does not fit."""

    text: str
    style: str = ""

    def __bool__(self) -> bool:
        """Return whether there is a name."""
        return bool(self.text)


@dataclass(frozen=True)
class Bar:
    """A bar with the share in percent, None if it is unknown, and perhaps words beside it."""

    share: float | None
    words: str = ""


Cell = str | Words | Name | Bar


@dataclass(frozen=True)
class Paragraph:
    """Text that is folded between words, its further lines indented."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Fields:
    """Names with their values; long values are folded beside the name."""

    rows: Iterable[tuple[str, Cell]]
    indent: int = 0


@dataclass(frozen=True)
class Column(Generic[_Row]):
    """One column: its head, and its cell in each row."""

    head: str
    cell: Callable[[_Row], Cell]
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
    """The largest number of rows, unless the terminal shows all."""
    note: Callable[[_Row], Paragraph | None] = lambda _: None
    """What is printed below the table about a row."""


Part = Cell | Paragraph | Fields | Listing[Any]
"""What stands on lines of its own."""


def number_text(value: object, show: Callable[[Any], str] = str) -> str:
    """Return a number for a cell, which stays empty for zero or an unknown number."""
    return show(value) if isinstance(value, int | float) and value else ""
