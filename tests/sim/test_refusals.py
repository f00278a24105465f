"""What the daemon cannot do as it was asked is told of, ends, and lets go of the role."""

from __future__ import annotations

import json
from typing import Final

import pytest

from controller.core.model import TopicPartition
from controller.core.options import Options
from controller.znodes import paths
from tests.sim.histories import reactors
from tests.sim.world import World
from tests.sim.zookeeper import NOBODY, Make

P: Final = TopicPartition("t", 0)


@pytest.fixture
def world() -> World:
    """Return a cluster with a daemon that has nothing to do."""
    world = World(1)
    world.create_topic("t", {n: [1, 2] for n in range(3)})
    world.settle()
    world.add_daemon(reactors(Options()))
    world.run_for(5.0)
    return world


def holds_role(world: World) -> bool:
    """Whether the daemon is the controller."""
    return world.daemons[0].store.claim is not None


@pytest.mark.parametrize("path", [paths.submissions_path(), paths.LEGACY_PLAN, paths.QUEUE])
def test_a_plan_with_very_many_malformed_entries_ends(world: World, path: str) -> None:
    """Its refusals are more than a multi may hold."""
    entry = {"topic": "orders.eu", "partition": 0, "replicas": [1, 2, 3], "log_dirs": ["/d"]}
    rows = [entry | {"partition": n} for n in range(6000)]
    data = json.dumps({"version": 1, "partitions": rows}, separators=(",", ":")).encode()
    world.zookeeper.ensure(paths.REQUESTS)
    is_request = path == paths.submissions_path()
    (made,) = world.zookeeper.transact(NOBODY, [Make(path, data, sequential=is_request)])
    world.run_for(120.0)
    assert world.zookeeper.get(made) is None
    assert not holds_role(world)
