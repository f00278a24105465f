"""Brokers without room for a copy are queried often, about the copies that they receive."""

from __future__ import annotations

from controller.core.core_settings import Options
from controller.core.disks.disk_budget import BUSY_S, UNTHROTTLED_RATE
from controller.core.disks.log_dir_queries import ROOM_REFRESH_S, STIRRED_S
from controller.core.disks.model import GROWTH_AFTER_S
from controller.core.effects import DescribeLogDirs, DescribePurpose
from controller.core.model import BlockedBy, BrokerId
from controller.core.records import TimerFired
from controller.core.wakeups import ROOM_TIMER
from tests.core.builders import Driver, tp
from tests.core.disks.test_disk_space import (
    GB,
    MIN_FREE,
    after,
    guarded,
    one,
    reported,
    waits,
    without_logs,
)

FOUR = frozenset({BrokerId(4)})


def room_queries(driver: Driver) -> list[DescribeLogDirs]:
    """Return the queries of brokers without room since the last call."""
    queries = [e for e in driver.sent if isinstance(e, DescribeLogDirs)]
    found = [q for q in queries if q.purpose is DescribePurpose.ROOM]
    driver.sent.clear()
    return found


def a_full_disk() -> Driver:
    """Return a cluster where broker 4 receives partition 0, and partition 1 waits for room."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    driver.observe(*reported(driver, {4: one(100 * GB)}, sizes))
    assert waits(driver, 0) is None
    assert waits(driver, 1) is not None
    return driver


def test_broker_without_room_is_queried_about_its_copies_every_two_seconds() -> None:
    """The room of a deleted log is used as soon as there is a report of it."""
    driver = a_full_disk()
    (first,) = room_queries(driver)
    # The copy begins in the same cycle.
    assert (first.partitions, first.brokers, first.is_whole) == ((), FOUR, True)
    after(driver, ROOM_REFRESH_S / 2)
    driver.observe(TimerFired(ROOM_TIMER))
    assert room_queries(driver) == []
    after(driver, ROOM_REFRESH_S / 2)
    driver.observe(TimerFired(ROOM_TIMER))
    (second,) = room_queries(driver)
    assert (second.partitions, second.brokers, second.is_whole) == ((tp(0),), FOUR, False)


def test_logs_are_counted_once_per_copy_refresh() -> None:
    """A broker with several directories lists all its logs for that."""
    driver = a_full_disk()
    wholes = []
    for _ in range(10):
        wholes += [q.is_whole for q in room_queries(driver)]
        after(driver, ROOM_REFRESH_S)
        driver.observe(TimerFired(ROOM_TIMER))
    assert wholes == [True, *[False] * 4, True, *[False] * 4]


def test_broker_where_nothing_happens_is_queried_once_per_copy_refresh() -> None:
    """A plan that does not fit may wait for days."""
    driver = guarded([0])
    driver.submit({tp(0): [4]})
    driver.observe(*reported(driver, {4: one(40 * GB)}, {tp(0): 50 * GB}))
    assert len(room_queries(driver)) == 1
    after(driver, STIRRED_S)
    driver.observe(TimerFired(ROOM_TIMER))
    (query,) = room_queries(driver)
    assert query.is_whole
    after(driver, ROOM_REFRESH_S)
    driver.observe(TimerFired(ROOM_TIMER))
    assert room_queries(driver) == []


def test_next_copy_begins_where_the_room_is_short_before_the_last_one_ends() -> None:
    """Its broker never waits for the daemon."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): GB, tp(1): GB}
    driver.observe(*reported(driver, {4: one(12 * GB + GB // 2)}, sizes))
    left = int(BUSY_S * UNTHROTTLED_RATE) + 2 * UNTHROTTLED_RATE
    after(driver, 10.0)
    usable = 12 * GB + GB // 2 - (GB - left)
    driver.observe(*reported(driver, {4: one(usable)}, sizes, {tp(0): {4: GB - left}}))
    assert waits(driver, 1) is not None
    after(driver, 2.5)
    driver.observe(TimerFired(ROOM_TIMER))
    assert waits(driver, 1) is None


def test_copies_that_ended_keep_no_other_from_beginning() -> None:
    """Their room stays reserved until a report, but the broker copies nothing any more."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): GB, tp(1): GB}
    driver.observe(*reported(driver, {4: one(12 * GB + GB // 2)}, sizes))
    assert waits(driver, 1) is not None
    driver.run(tp(0))
    assert waits(driver, 1) is None


def test_broker_that_was_not_queried_did_not_answer() -> None:
    """It may have a log that is not reported yet."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: one(100 * GB)}), *without_logs(driver, 4))
    assert waits(driver) == (BlockedBy.DISK_UNKNOWN, "its size is not measured yet")


def test_answer_about_some_copies_gives_no_growth() -> None:
    """What the others copied would be taken for what producers write."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    sizes = {tp(): 50 * GB}
    driver.observe(*reported(driver, {4: one(100 * GB)}, sizes))
    disk = driver.view.disks.brokers[BrokerId(4)]
    after(driver, GROWTH_AFTER_S)
    driver.observe(*reported(driver, {4: one(80 * GB)}))
    assert disk.growth == {}
    after(driver, GROWTH_AFTER_S)
    driver.observe(*reported(driver, {4: one(70 * GB)}, sizes, {tp(): {4: 30 * GB}}))
    assert disk.growth == {"/data": 0.0}


def test_answer_about_other_partitions_does_not_show_that_copies_stand_still() -> None:
    """Where the room is short, no other copy begins because of it."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes, room = {tp(0): GB, tp(1): GB}, {4: one(12 * GB + GB // 2)}
    driver.observe(*reported(driver, room, sizes))
    assert waits(driver, 1) is not None
    after(driver, 1.0)
    driver.observe(*reported(driver, room))
    assert waits(driver, 1) is not None
    driver.observe(*reported(driver, room, sizes, {tp(0): {4: 0}}))
    assert waits(driver, 1) is None


def test_answer_of_some_receivers_is_no_progress() -> None:
    """The bytes of the others would be missing, and seem to arrive with the next answer."""
    driver = Driver({tp(): [0]}, options=Options(min_free=MIN_FREE, step_size=None))
    driver.submit({tp(): [4, 5]})
    sizes, room = {tp(): 50 * GB}, {4: one(100 * GB), 5: one(100 * GB)}
    driver.observe(*reported(driver, room, sizes))
    driver.observe(*reported(driver, room, sizes, {tp(): {4: GB, 5: GB}}))
    since = driver.view.reassignments_tenure.progress_at
    after(driver, 5.0)
    driver.observe(*reported(driver, {4: one(100 * GB)}, sizes, {tp(): {4: GB}}))
    assert driver.view.reassignments_tenure.progress_at == since
    driver.observe(*reported(driver, room, sizes, {tp(): {4: GB, 5: GB}}))
    assert driver.view.reassignments_tenure.progress_at == since


def test_report_without_waiting_copies_queries_nothing_more() -> None:
    """Only where a copy waits for room is a broker queried so often."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: one(100 * GB)}, {tp(): 50 * GB}))
    driver.observe(TimerFired(ROOM_TIMER), *reported(driver, {0: one(GB)}))
    assert room_queries(driver) == []
