"""
Many seeded histories at once, on every processor of the machine.

``python -m tests.sim.campaigns [--seed N] [--count N]`` plays ``count`` histories from ``seed`` on.
A failure prints the seed, its plot, what was done to the cluster, and the rule that was broken with
what happened just before; ``make sim SEED=n`` plays it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.sim.histories import play
from tests.sim.plots import plot_of
from tests.sim.world import World

FAILURES_MAX: Final = 20
"""After so many a campaign is over: there is enough to look at."""
CHUNK: Final = 10
"""Seeds a process takes at once."""


@dataclass(frozen=True, slots=True)
class Played:
    """One history that was played."""

    seed: int
    plot: str
    events: int
    checks: int
    failure: str | None = None


def attempt(seed: int) -> Played:
    """Play a history; whatever goes wrong becomes text."""
    plot = plot_of(seed)
    world = World(seed, has_kafka_controllers=plot.has_kafka_controllers)
    failure = None
    try:
        play(seed, plot, world)
    except Exception as error:  # noqa: BLE001 - any error of any kind fails the seed
        done = "\n".join(f"  {at:9.3f} {what}" for at, what in world.fabric.chronicle)
        failure = f"{type(error).__name__}: {error}\nwhat was done:\n{done}"
    checks = world.invariants.judge.checks
    return Played(seed, plot.name, world.schedule.events, checks, failure)


def campaign(seeds: range) -> Iterator[Played]:
    """Play all of them, as many at a time as there are processors; in the order of the seeds."""
    processes = min(os.cpu_count() or 1, len(seeds))
    if processes <= 1:
        yield from map(attempt, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(attempt, seeds, chunksize=min(CHUNK, 1 + len(seeds) // processes))


def main(arguments: list[str]) -> int:
    """Play histories, tell of the failed ones and, in the end, of all; return how many failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.campaigns")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    chosen = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        parser.error("PYTHONHASHSEED=0 is needed: a seed would not be the same history again")
    began = time.monotonic()
    played = events = checks = failed = 0
    for history in campaign(range(chosen.seed, chosen.seed + chosen.count)):
        played += 1
        events += history.events
        checks += history.checks
        if chosen.count == 1 or history.failure is not None:
            sys.stdout.write(f"seed {history.seed}: {history.plot}\n")
        if history.failure is not None:
            failed += 1
            sys.stdout.write(f"{history.failure}\nagain: make sim SEED={history.seed}\n\n")
            sys.stdout.flush()
        if failed >= FAILURES_MAX:
            break
    sys.stdout.write(
        f"{played} histories, {failed} failed, {events} events, {checks} checks, "
        f"{time.monotonic() - began:.0f} s\n"
    )
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
