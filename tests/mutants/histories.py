"""
Histories that judge one mutant: the first that fails is enough.

``python -m tests.mutants.histories --count 300`` plays so many, and one history of the delegated
engine for each five of them; it prints each seed before it is played.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from tests.sim import campaigns, delegated_campaigns

PER_DELEGATED: Final = 5
"""Native histories for each of the delegated engine, as in ``make unit``."""


def main(arguments: list[str]) -> int:
    """Play histories until one fails; return 1 if one did."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.histories")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--delegated-first", action="store_true")
    parser.add_argument("--first", default="", help="seeds that killed others, played first")
    chosen = parser.parse_args(arguments)
    first = [int(seed) for seed in chosen.first.split(",") if seed]
    native = [*first, *(n for n in range(chosen.count) if n not in first)]
    plays = [("native", seed) for seed in native]
    others = [("delegated", seed) for seed in range(chosen.count // PER_DELEGATED)]
    for engine, seed in [*others, *plays] if chosen.delegated_first else [*plays, *others]:
        sys.stdout.write(f"{engine} {seed}\n")
        sys.stdout.flush()
        attempt = campaigns.attempt if engine == "native" else delegated_campaigns.attempt
        failure = attempt(seed).failure
        if failure is not None:
            sys.stdout.write(failure.partition("\n")[0] + "\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
