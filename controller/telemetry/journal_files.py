"""The files of a journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller.errors import InvalidInputError, errors_about

FILE_NAME: Final = "journal.jsonl"
"""The present file; rotated ones have a number after it."""


def lines_of_journal(directory: Path) -> Iterator[str]:
    """
    Yield the lines of a journal, the oldest first.

    Raises:
        InvalidInputError: there is no journal, or it cannot be read.
    """
    files = sorted(directory.glob(f"{FILE_NAME}*"), key=_age, reverse=True)
    if not files:
        raise InvalidInputError(f"{directory}: there is no {FILE_NAME}")
    for file in files:
        yield from _lines_of(file)


def _age(file: Path) -> int:
    """Return the number of a rotated file: the highest has the oldest lines."""
    number = file.suffix.removeprefix(".")
    return int(number) if number.isdigit() else 0


def _lines_of(file: Path) -> Iterator[str]:
    with errors_about(file), file.open(encoding="utf-8", errors="replace") as lines:
        yield from lines
