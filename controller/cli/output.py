"""Output of the commands: results on standard output, notes on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import typer

NOTHING_WRITTEN: Final = "Nothing was written."


def print_line(line: str) -> None:
    """Print a line of the result."""
    typer.echo(line)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of the result."""
    for line in lines:
        print_line(line)


def print_note(line: str) -> None:
    """Print a note that is not part of the result, on standard error."""
    typer.echo(line, err=True)


def print_json(document: object) -> None:
    """Print a result as JSON."""
    typer.echo(json.dumps(document, indent=2))
