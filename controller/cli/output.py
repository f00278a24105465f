"""Output of the commands: results on standard output, notes on standard error, lists of names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import typer

NAMES_MAX: Final = 10
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


def ids(replicas: Iterable[int]) -> str:
    """Format broker ids as Kafka's tools do: ``1,2,3``."""
    return ",".join(map(str, replicas))


def listed(names: Iterable[object]) -> str:
    """List names; after the first ``NAMES_MAX``, give only the number of the others."""
    found = [str(name) for name in names]
    more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
    return ", ".join(found[:NAMES_MAX]) + more
