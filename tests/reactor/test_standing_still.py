"""A daemon that is paused in the middle of a cycle, for longer than its session lasts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from controller.core.model import Instant, TopicPartition
from controller.core.pacing.records import WallClockRead
from controller.core.view import ClusterView
from controller.reactor.loop import Reactor
from controller.reactor.ports import Clock
from integration.rigs.failpoints import Failpoint
from tests.sim.daemons import DaemonLoop, Ports, SimDaemon
from tests.sim.histories import reactors
from tests.sim.shapes import OPTIONS
from tests.sim.world import World

A_MINUTE_S = 60.0
WITHIN_S = 60.0


class _Stopped:
    """A process that is stopped at a boundary and continues a minute later."""

    def __init__(self, failpoint: Failpoint) -> None:
        self.daemon: SimDaemon
        self.sent: int | None = None
        """The number of requests handed over when it was paused; None before that."""
        self._boundary = failpoint
        self._clock: Clock

    def build(self, ports: Ports) -> DaemonLoop:
        """Build a loop that does not see the time pass while it is stopped."""
        self._clock = ports.clock
        return reactors(OPTIONS)(replace(ports, clock=self, reached=self.reached))

    def reached(self, failpoints: Collection[Failpoint]) -> None:
        """Pause the daemon at the chosen instant."""
        if self.sent is None and self._boundary in failpoints:
            self.sent = self.daemon.channels.sent

    def now(self) -> Instant:
        """Return the time, which advanced without the process."""
        return Instant(self._clock.now() + (0.0 if self.sent is None else A_MINUTE_S))


def test_the_role_is_given_up_with_a_session_that_may_be_over() -> None:
    """ZooKeeper is silent for the session's time-out: another controller may be in charge."""
    world = World(1)
    world.create_topic("t", {0: [1, 2, 3]}, min_insync_replicas=2)
    world.producer.start()
    world.settle()
    daemon = world.add_daemon(reactors(OPTIONS))
    world.submit_plan({TopicPartition("t", 0): [5, 4, 3]})
    world.run_until(lambda: _view(daemon).tenure.held is not None, within_s=WITHIN_S)
    daemon.store.session.suspend()
    world.run_for(daemon.store.timeout_s - 1.0)
    assert _view(daemon).tenure.held is not None
    world.run_for(2.0)
    daemon.put(WallClockRead(0.0))  # as its host does now and then
    world.run_for(0.1)
    sent = daemon.channels.sent
    assert _view(daemon).tenure.held is None
    world.run_for(10.0)
    assert daemon.channels.sent == sent


def _view(daemon: SimDaemon) -> ClusterView:
    assert isinstance(daemon.loop, Reactor)
    return daemon.loop.view


@pytest.mark.parametrize(
    "failpoint",
    [Failpoint.A1_WRITTEN, Failpoint.A2_LEADER_NOTIFIED, Failpoint.EXCLUSION_ACKNOWLEDGED],
)
def test_nothing_more_is_sent_in_the_turn_in_which_the_daemon_stood_still(
    failpoint: Failpoint,
) -> None:
    """Brokers may not know the next controller epoch yet, so no request may follow the pause."""
    world = World(1)
    world.create_topic("t", {0: [1, 2, 3]}, min_insync_replicas=2)
    world.producer.start()
    world.settle()
    stopped = _Stopped(failpoint)
    stopped.daemon = world.add_daemon(stopped.build)
    world.run_for(3.0)
    for kafka in world.kafka_controllers.values():
        kafka.stands = False
    world.remove_controller()
    world.submit_plan({TopicPartition("t", 0): [5, 4, 3]})
    world.run_until(lambda: stopped.sent is not None, within_s=WITHIN_S)
    assert stopped.daemon.channels.sent == stopped.sent
