"""Submissions in the simulation are read as they were written."""

from __future__ import annotations

from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.controls import Controls, Limits, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.requests.records import (
    CancellationRead,
    KillSwitchRead,
    QueueRead,
    SubmissionsListed,
    SubmissionsRead,
)
from controller.core.requests.submissions import CancelScope, RequestOptions
from controller.reactor.ports import ZnodeFamily
from tests.sim.builders import Recorder
from tests.sim.schedule import BEGAN_AT_UNIX_S
from tests.sim.store import SimStore
from tests.sim.world import World

P = TopicPartition("t", 0)
WATCHED = (
    ZnodeFamily.SUBMISSIONS,
    ZnodeFamily.CANCELLATION,
    ZnodeFamily.KILL_SWITCH,
    ZnodeFamily.QUEUE,
    ZnodeFamily.CONTROLS,
)


def a_world() -> tuple[World, SimStore, Recorder]:
    """Return a world, and a store that watches the operators' znodes."""
    world, inbox = World(1, brokers=3), Recorder()
    store = SimStore(
        world.zookeeper, world.schedule, inbox, controller_id=BrokerId(1000000), competes=False
    )
    for znode in WATCHED:
        store.read(znode)
    world.run_for(1.0)
    return world, store, inbox


def test_requests_and_their_parts_are_read() -> None:
    """Each has the time of its creation."""
    world, store, inbox = a_world()
    request = world.submit_request({P: [1, 2]}, RequestOptions(reason="drain", parts=2))
    part = RequestOptions(part_of=request, parts=2)
    assert world.submit_request({P: [2, 3]}, part) == request
    world.run_for(1.0)
    names = sorted(inbox.of(SubmissionsListed)[-1].names)
    assert names == ["request_0000000000", "request_0000000001"]
    store.read_submissions(names)
    world.run_for(1.0)
    first, second = inbox.of(SubmissionsRead)[-1].submissions.values()
    assert first is not None
    assert second is not None
    assert (first.entries, first.options.reason) == ({P: (1, 2)}, "drain")
    assert first.created_ms == 1000 * BEGAN_AT_UNIX_S + 1000
    assert first.request == second.request == request


def test_cancellation_queue_and_kill_switch_are_read() -> None:
    """A second cancellation that selects all that the first one does changes it."""
    world, _, inbox = a_world()
    world.cancel(topics=["t"])
    world.submit_queue({P: [1, 2]})
    world.disable()
    world.run_for(1.0)
    selected = inbox.of(CancellationRead)[-1].cancellation
    assert selected is not None
    assert (selected.topics, selected.scope) == (frozenset({"t"}), CancelScope.IN_FLIGHT)
    queue = inbox.of(QueueRead)[-1].plan
    assert queue is not None
    assert queue.entries == {P: (1, 2)}
    assert inbox.of(KillSwitchRead)[-1].is_on
    assert world.cancel()
    assert not world.cancel(topics=["t"], scope=CancelScope.ALL), "it selects less, and differently"
    world.enable()
    world.run_for(1.0)
    everything = inbox.of(CancellationRead)[-1].cancellation
    assert everything is not None
    assert everything.is_everything
    assert everything.version == 1
    assert not inbox.of(KillSwitchRead)[-1].is_on


def test_controls_are_read() -> None:
    """The last write counts."""
    world, _, inbox = a_world()
    world.pause(Pauses(Pause("storm")))
    world.pause(Pauses())
    world.limit(Limits(max_partitions_in_flight=3))
    world.throttle(5)
    world.run_for(1.0)
    expected = Controls(Pauses(), Limits(max_partitions_in_flight=3), 5)
    assert inbox.of(ControlsRead)[-1].controls == expected
