"""
Histories that judge one mutant: the first that fails is enough.

``python -m tests.mutants.histories "native 0" "delegated 7"`` plays these two and prints the name
of each before. ``--record FILE`` records which lines each of them executes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.mutants import time_limits
from tests.mutants.executions import IMPORT, Recorder
from tests.sim import first_histories

FAILURE_MAX: Final = 200
"""The characters of a failure that are printed; a replay of the history shows the rest."""


def names(count: int) -> list[str]:
    """Return the names of so many histories of the native engine, and of what goes with them."""
    return [f"{kind} {seed}" for kind, seed in first_histories.histories(count)]


def main(arguments: list[str]) -> int:
    """Play histories until one fails; return 1 if one did."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.histories")
    parser.add_argument("names", nargs="*", help="a kind and a seed each")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--module", action="append", help="the path of a module to record")
    chosen = parser.parse_args(arguments)
    recorder = Recorder(chosen.record, chosen.module) if chosen.record else None
    try:
        for name in chosen.names:
            time_limits.begin()
            sys.stdout.write(f"{name}\n")
            sys.stdout.flush()
            if recorder is not None:
                recorder.enter(name)
            failure = _failure(name)
            if recorder is not None:
                recorder.enter(IMPORT)
            if failure is not None:
                sys.stdout.write(failure.partition("\n")[0][:FAILURE_MAX] + "\n")
                return 1
    finally:
        if recorder is not None:
            recorder.close()
    return 0


def _failure(name: str) -> str | None:
    kind, seed = name.split()
    return first_histories.attempt((kind, int(seed))).failure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
