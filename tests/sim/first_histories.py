"""
The histories of ``make test``: a few hundred of all kinds, each seed in one of them.

``python -m tests.sim.first_histories [--count N]`` plays ``N`` histories of the native engine, the
second half with brokers that ask, and some of the delegated one. Plots of both halves are drawn in
the same way: with ``ENOUGH`` histories each rule, fault and action has to occur in one or the
other. The exit code is the number of failures and of names that did not occur.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.sim import campaigns, delegated_campaigns, endpoint_campaigns

PER_DELEGATED: Final = 10
"""Native histories for each of the delegated engine."""
AGAIN: Final = {
    "native": "tests.sim.campaigns",
    "endpoint": "tests.sim.endpoint_campaigns",
    "delegated": "tests.sim.delegated_campaigns",
}
"""The programs that play one history of a kind again."""
History = tuple[str, int]
"""A kind and a seed."""


@dataclass(frozen=True, slots=True)
class Played:
    """One history that was played."""

    kind: str
    seed: int
    failure: str | None
    met: Counter[str] = field(default_factory=Counter)
    """Counts of the rules that were applied, and of what took effect."""


def histories(count: int) -> list[History]:
    """Return so many histories of the native engine, and their share of delegated ones."""
    half = count // 2
    return [
        *(("native", seed) for seed in range(half)),
        *(("endpoint", seed) for seed in range(half, count)),
        *(("delegated", seed) for seed in range(count // PER_DELEGATED)),
    ]


def native(seed: int) -> Played:
    """Play a history in which brokers write their ISR changes themselves."""
    played = campaigns.attempt(seed)
    return Played("native", seed, played.failure, played.met)


def endpoint(seed: int) -> Played:
    """Play a history in which brokers ask the daemon."""
    played = endpoint_campaigns.attempt(seed)
    return Played("endpoint", seed, played.failure, played.met)


def delegated(seed: int) -> Played:
    """Play a history of the delegated engine."""
    return Played("delegated", seed, delegated_campaigns.attempt(seed).failure)


KINDS: Final[Mapping[str, Callable[[int], Played]]] = {
    "native": native,
    "endpoint": endpoint,
    "delegated": delegated,
}


def attempt(history: History) -> Played:
    """Play a history; return any failure as text."""
    kind, seed = history
    return KINDS[kind](seed)


def main(arguments: list[str]) -> int:
    """Play histories, print the failures and what did not occur; return the number of both."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.first_histories")
    parser.add_argument("--count", type=int, default=campaigns.ENOUGH, help="how many native ones")
    count: int = parser.parse_args(arguments).count
    if os.environ.get("PYTHONHASHSEED") != "0":
        parser.error("PYTHONHASHSEED=0 is needed: a seed would not be the same history again")
    began, failed = time.monotonic(), 0
    met: Counter[str] = Counter()
    played: Counter[str] = Counter()
    for history in campaigns.campaign(attempt, histories(count)):
        played[history.kind] += 1
        met += history.met
        if history.failure is not None:
            failed += 1
            sys.stdout.write(
                f"{history.kind} seed {history.seed}: {history.failure}\n"
                f"again: PYTHONHASHSEED=0 python -m {AGAIN[history.kind]} --seed {history.seed}\n\n"
            )
            sys.stdout.flush()
        if failed >= campaigns.FAILURES_MAX:
            break
    lacking = campaigns.missing(met, played["native"] + played["endpoint"])
    lacking += endpoint_campaigns.missing(met, played["endpoint"])
    sys.stdout.writelines(f"not one of these histories met with: {name}\n" for name in lacking)
    kinds = ", ".join(f"{number} {kind}" for kind, number in played.items())
    took_s = time.monotonic() - began
    sys.stdout.write(f"histories: {kinds}, {failed} failed, {took_s:.0f} s\n")
    return min(failed + len(lacking), 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
