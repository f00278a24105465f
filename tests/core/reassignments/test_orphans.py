"""Logs that others may have left are recorded as orphans where a reassignment ends."""

from __future__ import annotations

import pytest

from controller.core.core_settings import LegacyMode, Options
from controller.core.effects import SendStopReplica
from controller.core.model import BrokerId, ReassignmentSpec, RequestId, Route, ZkVersion, Zxid
from controller.core.pacing.controls import Controls, Pause, Pauses
from controller.core.pacing.records import ControlsRead
from controller.core.requests.records import CancellationRead, LegacyPlanRead
from controller.core.requests.submissions import Cancellation, LegacyPlan
from controller.core.role.records import BrokersRead
from controller.core.view import ClusterView
from tests.core.builders import Driver, broker, plan, replicas, tp

CZXID = 50
LEGACY = RequestId(f"legacy-{CZXID:016x}")
REQUEST = RequestId("request_0000000000")
MIRROR = Options(legacy_mode=LegacyMode.MIRROR)
"""What waits stays listed, so an operator can take it out."""


def moved_by_another(at: tuple[int, ...], spec: ReassignmentSpec) -> Driver:
    """Return a paused cluster in which another controller moved a partition of ours; 1 is dead."""
    driver = Driver({tp(): at}, brokers=range(2, 7), options=MIRROR)
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    driver.adopt({tp(): spec})
    return driver


def orphans(view: ClusterView) -> list[BrokerId]:
    """Return the brokers of which records say that they may have a log."""
    return sorted(broker for broker, partition in view.reassignments.orphans if partition == tp())


def legacy_goal() -> ReassignmentSpec:
    """Return the record of a plan's entry that another controller superseded."""
    return ReassignmentSpec(replicas(2, 3, 4), replicas(1, 3), LEGACY, Route.LEGACY, ZkVersion(0))


def drop(driver: Driver) -> None:
    """Take the entry out of the plan."""
    listed = plan({tp(): (2, 3, 4)}, CZXID)
    driver.observe(LegacyPlanRead(listed))
    assert tp() in driver.view.reassignments.by_partition
    assert driver.view.requests.legacy is not None
    version = ZkVersion(driver.view.requests.legacy.version + 1)
    driver.observe(LegacyPlanRead(LegacyPlan({}, version, listed.czxid)))
    assert driver.view.reassignments.by_partition == {}


def test_an_entry_that_is_removed_leaves_no_log_unrecorded() -> None:
    """A Kafka controller dropped an original on a dead broker, which our record alone proves."""
    driver = moved_by_another((5, 3), legacy_goal())
    drop(driver)
    assert orphans(driver.view) == [1]
    driver.observe(BrokersRead({BrokerId(b): broker(b) for b in range(1, 7)}))
    driver.acknowledge(tp(), driver.view.leadership.states[tp()].isr)
    driver.settle()
    deleted = [e for e in driver.sent if isinstance(e, SendStopReplica) and e.delete]
    assert [(e.partition, e.broker) for e in deleted] == [(tp(), 1)]
    assert orphans(driver.view) == []


def test_a_record_of_this_tenure_alone_leaves_no_orphan() -> None:
    """Replicas that this tenure dropped were recorded when it dropped them."""
    driver = Driver({tp(): (1, 3)}, options=MIRROR)
    driver.observe(ControlsRead(Controls(pauses=Pauses(everything=Pause("lunch")))))
    drop(driver)
    assert orphans(driver.view) == []


@pytest.mark.parametrize("abandoned", [(5,), (1, 5)])
def test_a_cancellation_before_the_first_step_leaves_no_log_unrecorded(
    abandoned: tuple[int, ...],
) -> None:
    """Replicas of an earlier target may be left where another controller led the partition back."""
    spec = ReassignmentSpec(
        replicas(2, 4),
        replicas(2, 3),
        REQUEST,
        Route.REQUEST,
        ZkVersion(1),
        abandoned=frozenset(replicas(*abandoned)),
    )
    driver = moved_by_another((2, 3), spec)
    driver.observe(LegacyPlanRead(None))
    driver.acknowledges = False
    driver.observe(CancellationRead(Cancellation(ZkVersion(0), Zxid(100), 0)))
    assert driver.view.reassignments.by_partition == {}
    assert driver.history[tp()] == []
    assert orphans(driver.view) == list(abandoned)
