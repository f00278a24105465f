"""What the daemon cannot do as it was asked is told of, ends, and lets go of the role."""

from __future__ import annotations

import json
from typing import Final

import pytest

from controller.core.histories import Summary
from controller.core.model import BrokerId, TopicPartition
from controller.core.options import Options
from controller.core.records import Change
from controller.core.submissions import RequestOptions
from controller.core.view import ClusterView
from controller.reactor.ports import WriteError
from controller.znodes import paths
from controller.znodes.outcomes import decode_outcome
from controller.znodes.requests import encode_submission
from tests.sim.histories import SilentObserver, reactors
from tests.sim.world import World
from tests.sim.zookeeper import NOBODY, Make, Put

P: Final = TopicPartition("t", 0)


class Refusals(SilentObserver):
    """Keeps the changes that ZooKeeper refused."""

    def __init__(self) -> None:
        """Begin with none."""
        self.refused: list[tuple[Change, WriteError]] = []

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """Keep one."""
        del view
        self.refused.append((change, error))


@pytest.fixture
def refusals() -> Refusals:
    """Return what counts the refusals of the daemon's writes."""
    return Refusals()


@pytest.fixture
def world(refusals: Refusals) -> World:
    """Return a cluster with a daemon that has nothing to do."""
    world = World(1)
    world.create_topic("t", {n: [1, 2] for n in range(3)})
    world.settle()
    world.add_daemon(reactors(Options(), refusals))
    world.run_for(5.0)
    return world


def holds_role(world: World) -> bool:
    """Whether the daemon is the controller."""
    return world.daemons[0].store.claim is not None


def test_a_request_that_its_client_corrects_is_carried_out_as_corrected(
    world: World, refusals: Refusals
) -> None:
    """Nobody is told of the change of its data: the first write by the old ones is refused."""
    wanted = RequestOptions(atomic=True, parts=2)
    request = world.submit_request({P: [1, 3]}, wanted)
    world.run_for(3.0)
    corrected = encode_submission({P: (BrokerId(1), BrokerId(4))}, wanted)
    world.zookeeper.transact(NOBODY, [Put(paths.submission_path(request), corrected)])
    world.run_for(3.0)
    second = RequestOptions(part_of=request, atomic=True, parts=2)
    world.submit_request({TopicPartition("t", 1): [1, 3]}, second)
    world.run_for(60.0)
    assert not world.zookeeper.children(paths.REQUESTS)
    assert world.assignment(P).replicas == (1, 4)
    assert len(refusals.refused) < 5


@pytest.mark.parametrize("restarts", [True, False])
def test_a_name_that_comes_again_is_a_request_of_its_own(
    world: World, refusals: Refusals, *, restarts: bool
) -> None:
    """Operators that make the directory anew begin its numbers again."""
    first = world.submit_request({P: [1, 3]})
    world.run_for(60.0)
    assert world.assignment(P).replicas == (1, 3)
    world.zookeeper.remove_tree(paths.REQUESTS)
    world.run_for(5.0)
    if restarts:
        world.daemons[0].stop()
        world.add_daemon(reactors(Options(), refusals))
        world.run_for(30.0)
    assert world.submit_request({P: [1, 4]}) == first
    world.run_for(60.0)
    assert world.assignment(P).replicas == (1, 4)
    assert len(refusals.refused) < 5
    kept = world.zookeeper.get(paths.outcome_path(first))
    assert kept is not None
    outcome = decode_outcome(kept.data)
    assert isinstance(outcome, Summary)
    assert (outcome.total, outcome.done) == (1, 1)


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
