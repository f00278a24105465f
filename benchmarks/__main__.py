"""
``make bench``: measure and print the table of ``benchmarks/README.md``.

A name after the command measures only that: ``python -m benchmarks reaction``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks import captures, in_flight, memory, reaction, scale, side_by_side
from benchmarks.figures import Figure, table
from integration.processes import exit_on_sigterm

BENCHMARKS: Final[Mapping[str, Callable[[], list[Figure]]]] = {
    "reaction": reaction.measure,
    "memory": memory.measure,
    "side-by-side": side_by_side.measure,
    "scale": scale.measure,
    "in-flight": in_flight.measure,
    "snapshot": captures.measure,
}


def main(names: list[str]) -> int:
    """Measure what is named, or everything; 1 when a name is unknown."""
    unknown = [n for n in names if n not in BENCHMARKS]
    if unknown:
        print(
            f"no such benchmark: {unknown[0]}; there are {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 1
    exit_on_sigterm()
    figures: list[Figure] = []
    for name in names or BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr)
        figures += BENCHMARKS[name]()
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
