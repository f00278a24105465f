"""Requests that cannot be carried out are reported, end, and do not keep the role."""

from __future__ import annotations

import json
from typing import Final

import pytest

from controller.core.core_settings import Options
from controller.core.model import BrokerId, RefusalReason, RequestId, TopicPartition
from controller.core.records import Change
from controller.core.requests.outcomes import Summary
from controller.core.requests.submissions import CancelScope, RequestOptions
from controller.core.view import ClusterView
from controller.reactor.ports import WriteError
from controller.znodes import paths
from controller.znodes.histories import decode_outcome
from controller.znodes.plans import encode_submission
from tests.sim.histories import SilentObserver, is_finished, reactors
from tests.sim.store_faults import Refusal
from tests.sim.world import World
from tests.sim.zookeeper import NO_SESSION, Make, Put

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
    """Return the observer of the daemon's refused writes."""
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


def has_throttles(world: World) -> bool:
    """Return whether throttles are applied: copies are in progress."""
    return bool(world.zookeeper.children(paths.APPLIED_THROTTLES))


def holds_role(world: World) -> bool:
    """Return whether the daemon is the controller."""
    return world.daemons[0].store.claim is not None


def test_a_request_that_its_client_corrects_is_carried_out_as_corrected(
    world: World, refusals: Refusals
) -> None:
    """The change of its data has no event: the first write with the old version is refused."""
    wanted = RequestOptions(atomic=True, parts=2)
    request = world.submit_request({P: [1, 3]}, wanted)
    world.run_for(3.0)
    corrected = encode_submission({P: (BrokerId(1), BrokerId(4))}, wanted)
    world.zookeeper.transact(NO_SESSION, [Put(paths.submission_path(request), corrected)])
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


@pytest.mark.parametrize("path", [paths.NEW_SUBMISSION, paths.LEGACY_PLAN, paths.QUEUE])
def test_a_plan_with_very_many_malformed_entries_ends(world: World, path: str) -> None:
    """Its refusals are more than a multi may hold."""
    entry = {"topic": "orders.eu", "partition": 0, "replicas": [1, 2, 3], "log_dirs": ["/d"]}
    rows = [entry | {"partition": n} for n in range(6000)]
    data = json.dumps({"version": 1, "partitions": rows}, separators=(",", ":")).encode()
    world.zookeeper.ensure(paths.REQUESTS)
    is_request = path == paths.NEW_SUBMISSION
    (made,) = world.zookeeper.transact(NO_SESSION, [Make(path, data, sequential=is_request)])
    world.run_for(120.0)
    assert world.zookeeper.get(made) is None
    assert not holds_role(world)


def outcome_of(world: World, request: RequestId) -> Summary | None:
    """Return the outcome of a request; None if it has not ended."""
    kept = world.zookeeper.get(paths.outcome_path(request))
    outcome = None if kept is None else decode_outcome(kept.data)
    assert not isinstance(outcome, str)
    return outcome


def test_a_request_that_zookeeper_does_not_show_is_refused(world: World) -> None:
    """The outcome has the reason, and no other request waits."""
    hidden = world.submit_request({P: [1, 4]})
    world.zookeeper.hide(paths.submission_path(hidden))
    other = world.submit_request({P: [1, 3]})
    world.run_for(60.0)
    refused, done = outcome_of(world, hidden), outcome_of(world, other)
    assert refused is not None
    assert [r.reason for r in refused.refused] == [RefusalReason.UNREADABLE]
    assert done is not None
    assert done.done == 1
    assert world.assignment(P).replicas == (1, 3)
    assert not world.zookeeper.children(paths.REQUESTS)


def test_a_request_that_cannot_be_deleted_holds_nothing_up(
    world: World, refusals: Refusals
) -> None:
    """Other requests and cancellations end, the role is given back; the deletion is retried."""
    daemon = world.daemons[0]
    stuck = world.submit_request({P: [1, 4]})
    path = paths.submission_path(stuck)
    world.zookeeper.hide(path)
    daemon.store.faults.refuse(Refusal(path, WriteError.NO_AUTH, is_once=False))
    other = world.submit_request({P: [1, 3]})
    world.run_for(60.0)
    done = outcome_of(world, other)
    assert done is not None
    assert done.done == 1
    world.cancel()
    world.run_for(60.0)
    assert world.zookeeper.get(paths.CANCEL) is None
    assert not holds_role(world)
    world.run_for(600.0)
    assert world.zookeeper.get(path) is not None
    assert len(refusals.refused) < 20
    daemon.store.faults.refuse(None)
    world.run_for(90.0)
    assert world.zookeeper.get(path) is None
    assert outcome_of(world, stuck) is not None


@pytest.mark.parametrize(
    ("requested", "below"),
    [
        ("request", paths.REQUESTS),
        ("request", paths.OUTCOMES),
        ("request", paths.APPLIED_THROTTLES),
        ("request", paths.TOPIC_CONFIGS),
        ("request", paths.BROKER_CONFIGS),
        ("queue", paths.QUEUE),
        ("cancellation", paths.CANCEL),
        ("cancellation", paths.OUTCOMES),
        ("cancellation", paths.APPLIED_THROTTLES),
        ("request", paths.CONTROLLER),
    ],
)
def test_what_zookeeper_refuses_once_is_tried_again(
    world: World, requested: str, below: str
) -> None:
    """The daemon retries by itself, as no event follows."""
    refusal = Refusal(below, WriteError.OTHER, is_once=True, name="refused")
    store, entries = world.daemons[0].store, {TopicPartition("t", n): [3, 4] for n in range(3)}
    if requested != "cancellation":
        store.faults.refuse(refusal)
    if requested == "queue":
        world.submit_queue(entries)
    else:
        world.submit_request(entries, RequestOptions(throttle=5_000_000))
    if requested == "cancellation":
        world.run_until(lambda: has_throttles(world), within_s=5.0)
        store.faults.refuse(refusal)
        world.cancel(scope=CancelScope.ALL)
    world.run_until(lambda: is_finished(world), within_s=60.0)
    assert world.fabric.struck["refused"] == 1
