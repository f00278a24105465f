"""
Explore the shapes, or those whose names contain the arguments: ``make explore``.

With ``--mutants``, change one rule at a time instead, and say how many changes are found.
"""

from __future__ import annotations

import argparse
import sys

from tests.explore import table
from tests.explore.mutants import EQUIVALENT, FINDINGS, MUTANTS, Showing
from tests.explore.shapes import ALL, SMALL


def main() -> int:
    """Explore, print the table, and the shortest history of the first violation of each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names; all by default")
    parser.add_argument("--small", action="store_true", help="only the smallest shapes")
    parser.add_argument("--mutants", action="store_true", help="change one rule at a time")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes explore at once")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="the most processor time for each shape"
    )
    given = parser.parse_args()
    if given.mutants:
        return _mutants(given)
    shapes = SMALL if given.small else ALL
    names = _named([shape.name for shape in shapes], given.names)
    if given.markdown:
        _print(table.heading())
    failed = False
    for row in table.rows(names, given.seconds, given.jobs):
        _print(table.markdown_of(row) if given.markdown else table.text_of(row))
        if row.story:
            _print(row.story)
            failed = True
    return int(failed)


def _mutants(given: argparse.Namespace) -> int:
    names = _named([mutant.name for mutant in (*MUTANTS, *FINDINGS, *EQUIVALENT)], given.names)
    shown: dict[str, Showing] = {}
    for name, how in table.mutants_shown(names, given.seconds, given.jobs):
        shown[name] = how
        found = how.not_found if how.law is None else f"{how.steps} steps: {how.shape}: {how.law}"
        _print(f"{how.seconds:6.1f} s  {name}: {found}")
    _print(table.verdict(shown))
    return int(not table.is_as_expected(shown))


def _named(names: list[str], parts: list[str]) -> list[str]:
    return [name for name in names if not parts or any(part in name for part in parts)]


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
