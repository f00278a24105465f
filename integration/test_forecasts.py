"""Previews on real brokers: plans end within the ranges of time that were forecast."""

from __future__ import annotations

from pathlib import Path

from integration.conftest import MakeTopic
from integration.forecasts import HELD_SHARE, Campaign, placement, play, scores
from integration.rigs.cluster import Cluster
from integration.rigs.plans import Daemons

TRIALS = 5


def test_most_plans_end_within_the_range_of_their_preview(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """And the daemon journals a forecast of those that last long enough to be measured."""
    topic = make_topic(placement())
    daemon = daemons.start("--tenure-linger", "5")
    trials = play(Campaign(cluster, topic, tmp_path, seed=7), TRIALS, print)
    assert sum(t.has_held for t in trials) >= HELD_SHARE * TRIALS, list(map(str, trials))
    assert scores(daemon)
