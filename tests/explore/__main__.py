"""Explore the shapes, or those whose names contain the arguments: ``make explore``."""

from __future__ import annotations

import argparse
import sys

from tests.explore.search import explore, scenario, stuck, summary
from tests.explore.shapes import ALL, SMALL


def main() -> int:
    """Explore, print the table, and the shortest history of the first violation of each shape."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of shapes; all by default")
    parser.add_argument("--small", action="store_true", help="only the smallest shapes")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="the most processor time for each shape"
    )
    given = parser.parse_args()
    shapes = SMALL if given.small else ALL
    wanted = [s for s in shapes if not given.names or any(n in s.name for n in given.names)]
    failed = False
    for shape in wanted:
        result = explore(shape, seconds=given.seconds)
        sys.stdout.write(f"{summary(result)}\n")
        sys.stdout.flush()
        lost = stuck(result) if result.is_complete else []
        if result.violation is not None:
            sys.stdout.write(f"{scenario(result)}\n")
        elif lost:
            sys.stdout.write(f"{scenario(result, lost[0])}\n    STUCK: no continuation ends\n")
        failed |= result.violation is not None or bool(lost)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
