"""The hash of a plan covers what an entry can choose."""

from __future__ import annotations

from controller.core.model import BrokerId
from controller.core.requests.submissions import plan_hash
from tests.core.builders import replicas, tp

PLAN = {tp(0): replicas(2, 3), tp(1): replicas(1)}
THERE = {tp(0): replicas(1, 2), tp(1): replicas(2)}


def test_directories_are_part_of_the_hash_of_a_plan_that_names_any() -> None:
    """Another directory is another plan; a plan without any keeps the hash of earlier versions."""
    named = {tp(0): ((BrokerId(3), "/data/1"),)}
    other = {tp(0): ((BrokerId(3), "/data/2"),)}
    hashes = {plan_hash(PLAN, THERE, dirs) for dirs in ({}, named, other)}
    assert len(hashes) == 3
    assert plan_hash(PLAN, THERE) == plan_hash(PLAN, THERE, {})
