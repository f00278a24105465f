"""Previews on real brokers: plans end within the ranges of time that were forecast."""

from __future__ import annotations

import json
from pathlib import Path

from integration.conftest import MakeTopic
from integration.forecasts import HELD_SHARE, Campaign, placement, play
from integration.rigs.cluster import Cluster
from integration.rigs.operator_actions import plan_file
from integration.rigs.plans import Daemons, fill
from integration.rigs.requests import reassigner

TRIALS = 5


def test_most_plans_end_within_the_range_of_their_preview(
    cluster: Cluster, make_topic: MakeTopic, daemons: Daemons, tmp_path: Path
) -> None:
    """Under random throttles, limits and producers."""
    topic = make_topic(placement())
    daemons.start("--tenure-linger", "5")
    trials = play(Campaign(cluster, topic, tmp_path, seed=7), TRIALS, print)
    assert sum(t.has_held for t in trials) >= HELD_SHARE * TRIALS, list(map(str, trials))


def test_a_preview_knows_what_brokers_hold(
    cluster: Cluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Sizes, volumes and leaders; no time without a daemon and a throttle."""
    topic = make_topic({0: (1, 2), 1: (2, 3)})
    fill(cluster, [(topic, 0)])
    targets = {(topic, 0): (2, 4), (topic, 1): (3, 2)}
    preview = reassigner(cluster, "execute", plan_file(tmp_path, targets), "--dry-run", "--json")
    assert preview.code == 0, preview.stdout
    forecast = json.loads(preview.stdout)["forecast"]
    assert 5_000_000 <= forecast["bytes"] < 6_000_000
    assert (forecast["copies"], forecast["steps"], forecast["leaders_moved"]) == (1, 3, 1)
    assert forecast["seconds"] is None
    one, four = forecast["directories"]
    assert (one["broker"], four["broker"]) == (1, 4)
    assert one["bytes_dropped"] == four["bytes_in"] == forecast["bytes"]
    assert Path(four["path"]) in cluster.brokers[4].log_dirs
    assert four["peak_bytes"] == four["used_bytes"] + forecast["bytes"] <= four["total_bytes"]
