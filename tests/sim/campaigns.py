"""
Play many seeded histories on every processor of the machine.

``python -m tests.sim.campaigns [--seed N] [--count N]`` plays ``count`` histories from ``seed`` on.
A failure prints the seed, its plot, the events of the cluster, the violated rule and the writes
just before it; ``make sim SEED=n`` plays it again. The summary counts how often each rule was
applied, each fault took effect and each action was done; with ``ENOUGH`` histories none of the
counts may be zero.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tests.sim.faults import Weights
from tests.sim.histories import play
from tests.sim.operators import Actions
from tests.sim.plots import plot_of
from tests.sim.rules import Rule
from tests.sim.world import World

REQUESTING: Final = frozenset({Rule.LOGS_HAVE_IDS, "broker_shut_down", "log_lost_behind_cut"})
"""Names that occur only in histories in which brokers ask (``endpoint_campaigns``)."""
FAILURES_MAX: Final = 20
"""The number of failures that ends a campaign."""
ENOUGH: Final = 300
"""The number of histories in which every name has to occur."""
EVERYTHING: Final = (
    *(rule for rule in Rule if rule not in REQUESTING),
    *(name for name in Weights.__slots__ if name not in REQUESTING),
    "commit_broken_inside",
    "commit_interrupted_inside",
    *Actions.__slots__,
)
"""Rules to apply, faults to take effect and actions to be done."""
RARE: Final = frozenset(
    {
        Rule.ONLY_ATOMIC_ROLLS_ITSELF_BACK,
        Rule.NAMED_BY_CANCELLATION,
        "configs_unknown",
        "records_refused",
        "requests_refused",
    }
)
"""Names that occur in one of a hundred histories or fewer: expected in ten times as many."""
COLLECTED_EVERY: Final = 100_000
"""Objects between two collections of garbage."""
CHUNK: Final = 10
"""Seeds that a process takes at once."""

Seed = TypeVar("Seed")
History = TypeVar("History")


@dataclass(frozen=True, slots=True)
class Played:
    """One history that was played."""

    seed: int
    plot: str
    events: int
    checks: int
    failure: str | None = None
    met: Counter[str] = field(default_factory=Counter)
    """Counts of the rules that were applied, faults that took effect and actions that were done."""


def attempt(seed: int) -> Played:
    """Play a history; return any failure as text."""
    plot = plot_of(seed)
    world = World(seed, has_kafka_controllers=plot.has_kafka_controllers)
    failure = None
    try:
        play(seed, plot, world)
    except Exception as error:  # noqa: BLE001 - any error of any kind fails the seed
        failure = failure_text(error, world)
    judge = world.invariants.judge
    met = world.fabric.struck + Counter({r: n for r, n in judge.applied.items() if r is not None})
    return Played(seed, plot.name, world.schedule.events, judge.checks, failure, met)


def failure_text(error: Exception, world: World) -> str:
    """Return the error of a history, and the actions and faults before it."""
    done = "\n".join(f"  {at:9.3f} {what}" for at, what in world.fabric.chronicle)
    return f"{type(error).__name__}: {error}\nwhat was done:\n{done}"


def campaign(attempted: Callable[[Seed], History], seeds: Sequence[Seed]) -> Iterator[History]:
    """Play histories on all processors; yield them in the order of the seeds."""
    processes = min(os.cpu_count() or 1, len(seeds))
    if processes <= 1:
        yield from map(attempted, seeds)
        return
    # Collections of garbage find little in histories, and took a tenth of their time.
    every = (COLLECTED_EVERY,)
    with ProcessPoolExecutor(processes, initializer=gc.set_threshold, initargs=every) as pool:
        yield from pool.map(attempted, seeds, chunksize=min(CHUNK, 1 + len(seeds) // processes))


def seeds_of(program: str, arguments: list[str]) -> range:
    """Return the seeds that a campaign's command names; end the program where it is misused."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    chosen = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        parser.error("PYTHONHASHSEED=0 is needed: a seed would not be the same history again")
    return range(chosen.seed, chosen.seed + chosen.count)


def missing(met: Counter[str], played: int) -> list[str]:
    """Return the names that did not occur in a campaign and should have."""
    demanded = [n for n in EVERYTHING if played >= (10 * ENOUGH if n in RARE else ENOUGH)]
    return [name for name in demanded if not met[name]]


def main(arguments: list[str]) -> int:
    """Play histories, print the failures and the counts of all; return how many failed."""
    seeds = seeds_of("tests.sim.campaigns", arguments)
    began = time.monotonic()
    played = events = checks = failed = 0
    met: Counter[str] = Counter()
    for history in campaign(attempt, seeds):
        played += 1
        events += history.events
        checks += history.checks
        met += history.met
        if len(seeds) == 1 or history.failure is not None:
            sys.stdout.write(f"seed {history.seed}: {history.plot}\n")
        if history.failure is not None:
            failed += 1
            sys.stdout.write(f"{history.failure}\nagain: make sim SEED={history.seed}\n\n")
            sys.stdout.flush()
        if failed >= FAILURES_MAX:
            break
    lacking = missing(met, played)
    if played >= ENOUGH:
        sys.stdout.writelines(f"{met[name]:10} {name}\n" for name in EVERYTHING)
        sys.stdout.writelines(f"not one of {played} histories met with: {n}\n" for n in lacking)
    sys.stdout.write(
        f"{played} histories, {failed} failed, {events} events, {checks} checks, "
        f"{time.monotonic() - began:.0f} s\n"
    )
    return min(failed + len(lacking), 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
