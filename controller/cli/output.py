"""
Exit codes and output of the commands: results on standard output, notes on standard error.

Scripts rely on the exit codes and on JSON; ``stock`` has those of Kafka's tool.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Final

import typer

from controller.errors import (
    ControllerError,
    NativeRefusedError,
    NotApprovedError,
    ReassignmentConflictError,
    errors_about,
)

NOTHING_WRITTEN: Final = "Nothing was written."


class Exit(IntEnum):
    """Exit codes of every command but ``stock``."""

    DONE = 0
    """Done; of a submission: accepted."""
    ERROR = 1
    """Error or wrong usage."""
    IN_PROGRESS = 2
    """In progress, or not accepted yet."""
    FINDINGS = 2
    """``doctor`` has findings that need attention."""
    REFUSED = 3
    """Refused, at least in part."""
    CANCELLED = 4


def exit_of(error: ControllerError) -> Exit:
    """Return the exit code of a command that ended with an error."""
    if isinstance(error, ReassignmentConflictError | NativeRefusedError | NotApprovedError):
        return Exit.REFUSED
    return Exit.ERROR


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


def write_json(path: Path, document: object, *, indent: int | None = None) -> None:
    """Write a document to a file that the user named."""
    with errors_about(path):
        path.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")
