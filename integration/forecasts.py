"""
``make forecasts``: how often the time of a plan is within the range that its preview forecast.

Random plans under random throttles, step sizes and limits on five brokers, some with a producer
that writes to the same partitions: each is previewed, then carried out. Prints a line for each, and
how many ranges held.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.rigs.cluster import Cluster
from integration.rigs.kafka_jars import classpath
from integration.rigs.operator_actions import plan_file
from integration.rigs.plans import Daemons, Targets, fill
from integration.rigs.processes import exit_on_sigterm
from integration.rigs.requests import await_outcome, reassigner
from integration.rigs.traffic import Traffic

HELD_SHARE: Final = 0.8
"""So many of the ranges have to hold."""
PARTITIONS: Final = 24
RECORDS: Final = (2, 24)
"""Records of half a megabyte in each partition, at least and at most."""
THROTTLES: Final = (None, 1, 2, 4, 8, 16)
"""Megabytes per second."""
MB: Final = 1_000_000
ANY_FACTOR: Final = "--allow-replication-factor-change"
ENDS_WITHIN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan that was previewed and carried out."""

    description: str
    low_s: float | None
    high_s: float | None
    actual_s: float

    @property
    def has_held(self) -> bool:
        """Whether the range contains the actual time."""
        if self.low_s is None or self.high_s is None:
            return False
        return self.low_s <= self.actual_s <= self.high_s

    def __str__(self) -> str:
        verdict = "held  " if self.has_held else "MISSED"
        return (
            f"{verdict} {self.low_s} to {self.high_s} s: {self.actual_s:.1f} s ({self.description})"
        )


class Campaign:
    """
    Previews and their plans.

    Args:
        cluster: Five brokers.
        topic: Its partitions move.
        directory: For plan files.
        seed: Decides what is drawn.
    """

    def __init__(self, cluster: Cluster, topic: str, directory: Path, seed: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._directory = directory
        self._dice = random.Random(seed)

    def prepare(self) -> None:
        """Fill the topic, and carry out two plans without a throttle: past copies to go by."""
        dice = self._dice
        for partition in range(PARTITIONS):
            fill(self._cluster, [(self._topic, partition)], dice.randint(*RECORDS))
        for _ in range(2):
            targets = self._targets(PARTITIONS // 2)
            self._execute(plan_file(self._directory, targets))

    def trial(self) -> Trial:
        """Draw a plan, preview it, and carry it out."""
        dice = self._dice
        targets = self._targets(dice.randint(1, 10))
        throttle = dice.choice(THROTTLES)
        options = [] if throttle is None else ["--throttle", str(throttle * MB)]
        options += dice.choice(([], ["--step-size", "all"], ["--step-size", "2"]))
        options += dice.choice(([], [], ["--max-partitions-in-flight", str(dice.randint(1, 3))]))
        rate = dice.choice((0, 0, MB // 10, MB // 2)) if throttle is None or throttle > 1 else 0
        file = plan_file(self._directory, targets)
        with self._traffic(rate):
            preview = reassigner(
                self._cluster, "execute", file, ANY_FACTOR, "--dry-run", "--json", *options
            )
            assert preview.code == 0, preview.stdout
            forecast = json.loads(preview.stdout)["forecast"]
            actual_s = self._execute(file, *options)
        seconds = forecast["seconds"] or {"low": None, "high": None}
        description = (
            f"{forecast['bytes'] / MB:.0f} MB in {forecast['steps']} steps, "
            f"{len(targets)} partitions, {rate / MB} MB/s produced, {' '.join(options)}"
        )
        return Trial(description, seconds["low"], seconds["high"], actual_s)

    def _targets(self, count: int) -> Targets:
        dice = self._dice
        brokers = sorted(self._cluster.brokers)
        return {
            (self._topic, partition): dice.sample(brokers, dice.randint(1, 3))
            for partition in dice.sample(range(PARTITIONS), count)
        }

    def _execute(self, file: str, *options: str) -> float:
        """Return the seconds from the submission of a plan to its outcome."""
        done = reassigner(self._cluster, "execute", file, ANY_FACTOR, "--json", *options)
        assert done.code == 0, done.stdout
        request = json.loads(done.stdout[done.stdout.index('{\n  "request"') :])["request"]
        summary = await_outcome(self._cluster, request, within_s=ENDS_WITHIN_S)
        assert summary["done"] == summary["total"], summary
        return float(summary["ended_ms"] - summary["submitted_ms"]) / 1000

    def _traffic(self, rate: int) -> AbstractContextManager[object]:
        """Return a producer to all partitions, in a context."""
        if not rate:
            return nullcontext()
        topics, per_s = {self._topic: PARTITIONS}, 50.0
        servers, payload = self._cluster.bootstrap_servers, int(rate / per_s)
        return Traffic(servers, topics, records_per_s=per_s, payload_bytes=payload)


def play(campaign: Campaign, count: int, say: Callable[[str], None]) -> list[Trial]:
    """Return so many trials."""
    trials: list[Trial] = []
    campaign.prepare()
    for number in range(1, count + 1):
        trials.append(campaign.trial())
        say(f"{number:3}  {trials[-1]}")
    return trials


def main() -> int:
    """Play a campaign; return 0 if enough ranges held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    exit_on_sigterm()
    classpath()
    with tempfile.TemporaryDirectory() as name, Cluster.running() as cluster:
        directory = Path(name)
        topic = cluster.create_topic("moved", placement())
        daemons = Daemons(cluster, directory)
        daemons.start("--tenure-linger", "5")
        try:
            campaign = Campaign(cluster, topic, directory, wanted.seed)
            trials = play(campaign, wanted.count, lambda line: print(line, flush=True))
        finally:
            daemons.close()
    held = sum(t.has_held for t in trials)
    print(f"{held} of {len(trials)} ranges held")
    return 0 if held >= HELD_SHARE * len(trials) else 1


def placement() -> dict[int, list[int]]:
    """Return two replicas of each partition, spread over five brokers."""
    return {n: [1 + n % 5, 1 + (n + 1) % 5] for n in range(PARTITIONS)}


if __name__ == "__main__":
    sys.exit(main())
