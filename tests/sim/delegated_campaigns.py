"""
Many seeded histories of the delegated engine at once, on every processor of the machine.

``python -m tests.sim.delegated_campaigns [--seed N] [--count N]`` plays ``count`` histories from
``seed`` on. A failure prints the seed, its plot, what was done, and the rule that was broken.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Final

from tests.sim.campaigns import campaign, failure_text, seeds_of
from tests.sim.delegated_histories import play, plot_of
from tests.sim.lost_logs import LostLogs
from tests.sim.world import World

NOTABLE: Final = 300
"""The number of histories in which a dead broker's drop has to occur at least once."""


@dataclass(frozen=True, slots=True)
class Played:
    """One history that was played."""

    seed: int
    drops: int
    """Drops of dead brokers' replicas that a daemon saw."""
    failure: str | None = None


def attempt(seed: int) -> Played:
    """Play a history; whatever goes wrong becomes text."""
    world = World(seed)
    lost = LostLogs(world)
    failure = None
    try:
        play(seed, world=world, lost=lost)
    except Exception as error:  # noqa: BLE001 - any error of any kind fails the seed
        failure = f"{plot_of(seed).name}\n{failure_text(error, world)}"
    return Played(seed, lost.seen, failure)


def main(arguments: list[str]) -> int:
    """Play histories, print the failures, return how many failed."""
    seeds = seeds_of("tests.sim.delegated_campaigns", arguments)
    began, failed, drops = time.monotonic(), 0, 0
    for history in campaign(attempt, seeds):
        drops += history.drops
        if history.failure is not None:
            failed += 1
            sys.stdout.write(f"seed {history.seed}: {history.failure}\n\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{len(seeds)} histories of the delegated engine, {failed} failed, {drops} dead brokers' "
        f"drops seen, {time.monotonic() - began:.0f} s\n"
    )
    if len(seeds) >= NOTABLE and not drops:
        sys.stdout.write("no drop of a dead broker's replica was seen: the rule judged nothing\n")
        failed += 1
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
