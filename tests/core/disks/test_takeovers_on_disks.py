"""What others had deleted just before a takeover takes space that an estimate omits."""

from __future__ import annotations

from controller.core.disks.model import KEPT_S
from controller.core.leadership.records import StatesRead
from controller.core.model import BlockedBy, BrokerId, ControllerEpoch
from controller.core.requests.records import LegacyPlanRead
from controller.core.role.records import ControllerClaimed, Deposed
from tests.core.builders import Driver, plan, tp
from tests.core.disks.test_disk_space import GB, after, guarded, one, reported, waits

SIZES = {tp(0): 50 * GB, tp(1): 50 * GB}
WHY = "broker 4 reports no free space, and may still keep logs deleted before the takeover"
UNSEEN = (BlockedBy.DISK_UNKNOWN, WHY)


def report(driver: Driver, *, is_estimate: bool) -> None:
    """Report much room on brokers 0 and 4."""
    room = one(500 * GB, is_estimate=is_estimate)
    driver.observe(*reported(driver, {0: room, 4: room}, SIZES))


def claim_again(driver: Driver) -> None:
    """Lose the role, and claim it with the states as they are."""
    states = dict(driver.view.leadership.states)
    driver.observe(Deposed("another controller"))
    driver.observe(ControllerClaimed(ControllerEpoch(driver.view.role.read_generation + 100)))
    driver.observe(StatesRead(states))


def test_copy_to_a_broker_with_an_estimate_waits_after_a_takeover() -> None:
    """The former daemon may have died right after it had a log deleted there."""
    driver = guarded([0])
    driver.submit({tp(0): [4]})
    report(driver, is_estimate=True)
    assert waits(driver) == UNSEEN
    after(driver, KEPT_S)
    report(driver, is_estimate=True)
    assert waits(driver) is None


def test_broker_that_reports_its_free_space_takes_copies_at_once() -> None:
    """The report includes deleted logs."""
    driver = guarded([0])
    driver.submit({tp(0): [4]})
    report(driver, is_estimate=False)
    assert waits(driver) is None


def test_daemon_that_has_led_for_long_waits_only_where_work_was_left() -> None:
    """Another controller may have completed a step, with the deletion, before the claim."""
    driver = guarded([0])
    after(driver, KEPT_S)
    claim_again(driver)
    driver.submit({tp(0): [4]})
    report(driver, is_estimate=True)
    assert waits(driver) is None
    claim_again(driver)
    assert driver.view.disks.unseen_until == driver.now + KEPT_S


def test_logs_that_a_tenure_had_deleted_count_in_the_next_one() -> None:
    """Brokers keep them, whoever is the controller."""
    driver = guarded([4], [1])
    after(driver, KEPT_S)
    claim_again(driver)
    driver.submit({tp(0): [0]})
    report(driver, is_estimate=True)
    driver.run(tp(0))
    claim_again(driver)
    after(driver, 1.0)
    driver.observe(LegacyPlanRead(plan({tp(1): [4]}, czxid=60)))
    driver.observe(*reported(driver, {4: one(109 * GB, is_estimate=True)}, SIZES))
    assert driver.view.disks.brokers[BrokerId(4)].still_kept(driver.now) == 50 * GB
    assert waits(driver, 1) == (
        BlockedBy.DISK_FULL,
        "broker 4, /data: 50 GB needed, 49 GB free above min_free (10 GB)",
    )


def test_deleted_log_of_unknown_size_stops_copies_for_its_delay() -> None:
    """A new daemon repeats the deletion that its predecessor died in, and measures only then."""
    driver = guarded([4], [1])
    after(driver, KEPT_S)
    claim_again(driver)
    driver.submit({tp(0): [0]})
    report(driver, is_estimate=True)
    driver.view.disks_process.sizes.clear()
    driver.run(tp(0))
    assert driver.view.disks.unseen_until == driver.now + KEPT_S
