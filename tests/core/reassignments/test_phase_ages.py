"""Since when a reassignment stands where it stands: no phase inherits the age of another one."""

from __future__ import annotations

from controller.core.blocked_reasons import BlockedReasons
from controller.core.core_settings import Options
from controller.core.model import (
    BlockedBy,
    ControllerEpoch,
    Instant,
    PartitionAssignment,
    TopicAssignment,
    ZkVersion,
)
from controller.core.pacing.records import AppliedThrottlesRead
from controller.core.reassignments.phases import Expanding, Pending, Phase, Syncing
from controller.core.reassignments.records import OrphansRead, SpecsRead
from controller.core.requests.records import HistoryRead
from controller.core.role.records import ControllerClaimed, Deposed, ShutdownRequested
from controller.core.topics.records import TopicsRead
from controller.telemetry.cluster_counts import is_stalled
from tests.core.builders import EPOCH, Driver, replicas, tp

LATER = Instant(1600.0)
"""When something happens to a step that began at 1000."""


def _copying(*waiting: int) -> Driver:
    driver = Driver(
        {tp(n): (0, 1, 2) for n in (0, *waiting)}, options=Options(max_partitions_in_flight=1)
    )
    driver.submit({tp(n): (3, 4, 5) for n in (0, *waiting)})
    assert _stands(driver) == (Syncing(), Instant(1000.0))
    driver.now = LATER
    return driver


def _stands(driver: Driver, number: int = 0) -> tuple[Phase, Instant]:
    reassignment = driver.view.reassignments.by_partition[tp(number)]
    return reassignment.phase, reassignment.phase_since


def _read(driver: Driver, assignment: PartitionAssignment) -> None:
    topic = driver.view.topics.by_name["t"]
    version = ZkVersion(topic.version + 1)
    driver.observe(TopicsRead({"t": TopicAssignment({0: assignment}, version, topic.czxid)}))


def test_a_step_that_a_controller_ended_after_us_waits_since_that_was_read() -> None:
    """The daemon is resigning: partitions are no longer examined, and none is stalled."""
    driver = _copying()
    driver.observe(ShutdownRequested())
    assert driver.view.tenure.resigning
    _read(driver, PartitionAssignment(replicas(0, 1, 2, 3)))
    assert _stands(driver) == (Pending(), LATER)
    reassignment = driver.view.reassignments.by_partition[tp()]
    blocked = BlockedReasons(driver.view, driver.now).of(reassignment)
    assert blocked is not None
    assert blocked.by is BlockedBy.DRAINING
    assert not is_stalled(reassignment, blocked, Instant(driver.now - 300.0))


def test_a_step_that_others_changed_is_taken_up_since_that_was_read() -> None:
    """Also where it was just as far before: it is another step."""
    driver = _copying()
    driver.observe(ShutdownRequested())
    for at in (LATER, Instant(LATER + 100.0)):
        driver.now = at
        adding = replicas(3) if at == LATER else replicas(3, 4)
        jump = PartitionAssignment(replicas(0, 1, 2, *adding), adding, replicas(0, 1, 2))
        _read(driver, jump)
        assert _stands(driver) == (Expanding(), at)


def test_the_end_of_a_tenure_begins_the_wait_of_what_was_in_flight() -> None:
    """A pending partition stays pending, also after the next claim."""
    driver = _copying(1)
    assert _stands(driver, 1) == (Pending(), Instant(1000.0))
    specs = {p: r.spec for p, r in driver.view.reassignments.by_partition.items()}
    driver.observe(Deposed("the session expired"))
    assert _stands(driver) == (Pending(), LATER)
    assert _stands(driver, 1) == (Pending(), Instant(1000.0))
    driver.now = Instant(LATER + 60.0)
    driver.observe(
        SpecsRead(specs, {}),
        OrphansRead(frozenset()),
        HistoryRead({}, {}),
        AppliedThrottlesRead({}),
    )
    driver.observe(ControllerClaimed(ControllerEpoch(EPOCH + 1)))
    assert _stands(driver) == (Expanding(), driver.now)
    assert _stands(driver, 1) == (Pending(), Instant(1000.0))
