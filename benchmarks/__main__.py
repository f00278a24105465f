"""
``make bench``: measure and print the tables of ``benchmarks/README.md``, and what goals are missed.

A name after the command measures only that: ``python -m benchmarks reaction``. ``--full`` has more
rounds and the largest shapes, and takes far longer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks import (
    captures,
    full_disks,
    governed_plans,
    in_flight,
    leader_pauses,
    memory,
    reaction,
    scale,
    side_by_side,
)
from benchmarks.figures import Extent, Figure, machine, table, verdicts
from integration.rigs.processes import exit_on_sigterm

BENCHMARKS: Final[Mapping[str, Callable[[Extent], list[Figure]]]] = {
    "reaction": reaction.measure,
    "memory": memory.measure,
    "side-by-side": side_by_side.measure,
    "side-by-side-asked": side_by_side.measure_requested,
    "leader-pause": leader_pauses.measure,
    "scale": scale.measure,
    "in-flight": in_flight.measure,
    "snapshot": captures.measure,
    "full-disks": full_disks.measure,
    "governor": governed_plans.measure,
}
FULL: Final = "--full"
HELP: Final = frozenset({"-h", "--help"})


def main(names: list[str]) -> int:
    """Measure what is named, or everything; 1 when a name is unknown."""
    if not HELP.isdisjoint(names):
        print(f"{__doc__}\nThere are {', '.join(BENCHMARKS)}.")
        return 0
    extent = Extent.FULL if FULL in names else Extent.ORDINARY
    names = [n for n in names if n != FULL]
    unknown = [n for n in names if n not in BENCHMARKS]
    if unknown:
        print(
            f"no such benchmark: {unknown[0]}; there are {', '.join(BENCHMARKS)}", file=sys.stderr
        )
        return 1
    exit_on_sigterm()
    print(machine(), flush=True)
    found: list[Figure] = []
    for name in names or BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr)
        started = time.monotonic()
        figures = BENCHMARKS[name](extent)
        print(f"measuring {name} took {time.monotonic() - started:.0f} s", file=sys.stderr)
        # At once: what took an hour to measure is not lost with what goes wrong after it.
        command = f"python -m benchmarks {name}" + (f" {FULL}" if extent is Extent.FULL else "")
        print(f"\n`{command}`:\n\n{table(figures)}", flush=True)
        found += figures
    print(f"\n{verdicts(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
