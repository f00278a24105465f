"""
Histories in which brokers ask the daemon as their controller, many at once.

``python -m tests.sim.endpoint_campaigns --count N [--seed FIRST]`` plays the plots of the native
engine on brokers of protocol 2.7 or later: leaders ask for ISR changes, brokers for a controlled
shutdown and for producer ids, and clients for topics and partitions. The exit code is the number of
failures.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from controller.core.core_settings import EngineName
from tests.sim.campaigns import FAILURES_MAX, REQUESTING, campaign, failure_text, seeds_of
from tests.sim.endpoint_rules import EndpointRule
from tests.sim.histories import play
from tests.sim.plots import Plot, plot_of
from tests.sim.topic_rules import TopicRule
from tests.sim.world import World

NOTABLE: Final = (
    *EndpointRule,
    *TopicRule,
    *sorted(REQUESTING),
    "shut_down_cleanly",
    "request_forgotten",
    "client_satisfied",
    "topic_without_id",
    "topic_id_learnt",
    "creation_completed_by_another_daemon",
    "creation_completed_by_another_broker",
)
"""Names that have to occur in a campaign, besides those of the network."""
OF_NETWORK: Final = ("answer_lost", "request_doubled", "old_address")
"""Lost answers, requests that arrive twice, and those to a daemon without the role."""
NAMES: Final = (*NOTABLE, *OF_NETWORK)
ENOUGH: Final = 150
"""The number of histories in which every name has to occur."""
SELDOM: Final = frozenset({"creation_completed_by_another_daemon"})
"""A name that occurs in one of forty histories: expected in ten times as many."""
SHUT_DOWN_WEIGHT: Final = 4
CUT_WEIGHT: Final = 4
"""Of logs that are lost while requests of leaders are held up."""
CLIENT_REQUESTS_EVERY_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Played:
    """One history that was played."""

    seed: int
    failure: str | None = None
    met: Counter[str] = field(default_factory=Counter)
    """Counts of the rules that were applied, and of what took effect."""


def endpoint_plot_of(seed: int) -> Plot:
    """Return the plot of a seed, with brokers that shut down where brokers fail at all."""
    plot = plot_of(seed)
    weights = plot.weights
    if weights.broker_killed:
        weights = replace(
            weights, broker_shut_down=SHUT_DOWN_WEIGHT, log_lost_behind_cut=CUT_WEIGHT
        )
    options = replace(plot.options, engine=EngineName.NATIVE)
    return replace(
        plot,
        name=f"{plot.name}, brokers ask",
        weights=weights,
        options=options,
        client_requests_every_s=CLIENT_REQUESTS_EVERY_S,
    )


def endpoint_world(seed: int, plot: Plot) -> World:
    """Return the world of a seed: its brokers ask in a version that the seed decides."""
    world = World(seed, has_kafka_controllers=plot.has_kafka_controllers, has_endpoint=True)
    world.fabric.alter_partition_version = Random(f"alter partition {seed}").choice((0, 1, 2, 3))
    world.fabric.ids_sent_from = Random(f"topic ids {seed}").choice((0.0, 0.0, 2.0))
    return world


def attempt(seed: int) -> Played:
    """Play a history; return any failure as text."""
    plot = endpoint_plot_of(seed)
    world = endpoint_world(seed, plot)
    failure = None
    try:
        play(seed, plot, world)
    except Exception as error:  # noqa: BLE001 - any error of any kind fails the seed
        failure = f"{plot.name}\n{failure_text(error, world)}"
    applied: Counter[str] = Counter()
    judge, endpoint, topics = (
        world.invariants.judge,
        world.invariants.endpoint,
        world.invariants.topics,
    )
    for rules in (judge, endpoint, topics):
        applied.update({str(r): n for r, n in (rules.applied if rules else {}).items()})
    return Played(seed, failure, world.fabric.struck + applied)


def missing(met: Counter[str], played: int) -> list[str]:
    """Return the names that did not occur in a campaign and should have."""
    demanded = [n for n in NAMES if played >= (10 * ENOUGH if n in SELDOM else ENOUGH)]
    return [name for name in demanded if not met[name]]


def main(arguments: list[str]) -> int:
    """Play histories, print the failures and counts, return how many failed."""
    seeds = seeds_of("tests.sim.endpoint_campaigns", arguments)
    began, failed, played = time.monotonic(), 0, 0
    met: Counter[str] = Counter()
    for history in campaign(attempt, seeds):
        played += 1
        met += history.met
        if history.failure is not None:
            failed += 1
            sys.stdout.write(f"seed {history.seed}: {history.failure}\n\n")
            sys.stdout.flush()
        if failed >= FAILURES_MAX:
            break
    sys.stdout.writelines(f"{met[name]:10} {name}\n" for name in NAMES)
    lacking = missing(met, played)
    sys.stdout.writelines(f"not one of {played} histories met with: {n}\n" for n in lacking)
    took_s = time.monotonic() - began
    sys.stdout.write(f"{played} histories with asking brokers, {failed} failed, {took_s:.0f} s\n")
    return min(failed + len(lacking), 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
