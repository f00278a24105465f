"""The probes fail with a reason."""

from __future__ import annotations

import pytest

from controller.telemetry.metrics import SessionStatus
from controller.web.routes import Health
from tests.telemetry.builders import FixedClock


def test_probes_fail_before_the_loop_runs() -> None:
    """Each with a reason."""
    health = Health(clock=FixedClock())
    assert health.why_dead() == "the loop does not run"
    assert health.why_unready() == "the ZooKeeper session is lost"


def test_cycling_loop_is_alive() -> None:
    """An idle loop cycles every second."""
    clock = FixedClock()
    health = Health(clock=clock)
    health.last_cycle = clock.now
    assert health.why_dead() is None


def test_stuck_loop_is_dead() -> None:
    """The reason says why the process should be restarted."""
    clock = FixedClock()
    health = Health(clock=clock)
    last = clock.now()
    health.last_cycle = lambda: last
    clock.go(61)
    assert health.why_dead() == "the loop has not completed a cycle for 61 s"


def test_ended_loop_is_dead() -> None:
    """However recent its last cycle was."""
    health = Health(clock=FixedClock())
    health.last_cycle = lambda: None
    assert health.why_dead() == "the loop does not run"


@pytest.mark.parametrize("state", [SessionStatus.SUSPENDED, SessionStatus.LOST])
def test_without_zookeeper_it_is_alive_but_not_ready(state: SessionStatus) -> None:
    """A restart would not bring ZooKeeper back."""
    clock = FixedClock()
    health = Health(clock=clock)
    health.last_cycle = clock.now
    health.session = lambda: state
    assert health.why_dead() is None
    assert health.why_unready() == f"the ZooKeeper session is {state.value}"


def test_connected_and_cycling_is_ready() -> None:
    """As leader or as standby."""
    clock = FixedClock()
    health = Health(clock=clock)
    health.last_cycle = clock.now
    health.session = lambda: SessionStatus.CONNECTED
    assert health.why_unready() is None


def test_daemon_that_waits_for_a_cluster_is_alive_and_not_ready() -> None:
    """It says what is missing."""
    clock = FixedClock()
    health = Health(clock=clock)
    health.last_cycle = clock.now
    health.session = lambda: SessionStatus.CONNECTED
    health.awaited = lambda: "/brokers/ids missing"
    assert health.why_dead() is None
    assert health.why_unready() == "/brokers/ids missing"
