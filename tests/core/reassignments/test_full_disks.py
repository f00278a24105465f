"""Copies that would fill a disk are taken back before they are in sync, and wait for room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.core_settings import EngineName, Options
from controller.core.disks.model import KEPT_S
from controller.core.model import (
    BlockedBy,
    BrokerId,
    MinFree,
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    Route,
    TopicAssignment,
    ZkVersion,
    Zxid,
)
from controller.core.reassignments.phases import Stopping
from controller.core.reassignments.records import PhaseRecord
from controller.core.reassignments.step_start import NO_ROOM
from controller.core.role.records import BrokersRead
from controller.core.topics.records import TopicsRead
from tests.core.builders import Driver, broker, replicas, tp
from tests.core.disks.test_disk_space import GB, after, dirs, one, reported, waits
from tests.core.reassignments.delegated_rigs import DelegatedDriver
from tests.core.requests.test_submitted import submission, submit

SIZES = {tp(n): 50 * GB for n in range(3)}
FULL = (BlockedBy.DISK_FULL, "broker 4, /data: 50 GB needed, 0 GB free above min_free (10 GB)")


def guarded(
    *assignments: tuple[int, ...],
    engine: EngineName = EngineName.NATIVE,
    step_size: int | None = 1,
    min_isr: int = 1,
) -> Driver:
    """Return a cluster whose disks are guarded; a directory's floor is 5 GB."""
    kind = DelegatedDriver if engine is EngineName.DELEGATED else Driver
    options = Options(
        engine=engine,
        min_free=MinFree(bytes=10 * GB),
        step_size=step_size,
        config_refresh_s=1000.0,
    )
    entries = {tp(n): ids for n, ids in enumerate(assignments)}
    return kind(entries, options=options, min_isr=min_isr)


def copying(driver: Driver, targets: dict[int, list[int]], *receivers: int) -> None:
    """Begin steps that copy to these brokers, each with much room on one disk."""
    submit(driver, submission("request_0000000000", {tp(n): ids for n, ids in targets.items()}))
    driver.observe(*reported(driver, {b: one(500 * GB) for b in receivers}, SIZES))
    assert all(driver.view.reassignments.by_partition[tp(n)].in_flight for n in targets)


def fill(driver: Driver, usable: int, held: dict[int, int], broker: int = 4) -> None:
    """Report that other logs fill the disk of a broker, and what it holds of the copies."""
    after(driver, 1.0)
    copies = {tp(n): {broker: size} for n, size in held.items()}
    driver.observe(*reported(driver, {broker: one(usable)}, SIZES, copies))


def at(driver: Driver, n: int = 0) -> PartitionAssignment | None:
    """Return the entry of the topic znode."""
    return driver.view.topics.assignment(tp(n))


def causes(driver: Driver) -> list[str]:
    """Return the causes of the phase changes."""
    return [r.cause for c in driver.changes for r in c.records if isinstance(r, PhaseRecord)]


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
@pytest.mark.parametrize("step_size", [1, None])
def test_copy_into_a_directory_below_its_floor_is_taken_back_and_waits(
    engine: EngineName, step_size: int | None
) -> None:
    """The partition keeps its replicas; with room again the same step begins again."""
    driver = guarded((0, 1, 2), engine=engine, step_size=step_size)
    copying(driver, {0: [0, 1, 4]}, 4)
    fill(driver, 4 * GB, {0: 20 * GB})
    assert at(driver) == PartitionAssignment(replicas(0, 1, 2))
    assert waits(driver) == FULL
    assert NO_ROOM in causes(driver)
    assert driver.view.leadership.states[tp()].isr == replicas(0, 1, 2)
    fill(driver, 500 * GB, {})
    assert waits(driver) is None
    driver.run(tp())
    assert at(driver) == PartitionAssignment(replicas(0, 1, 4))


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
def test_copy_continues_down_to_the_floor(engine: EngineName) -> None:
    """Between ``min_free`` and the floor, nothing new begins and nothing is lost."""
    driver = guarded((0,), (1,), engine=engine)
    copying(driver, {0: [4]}, 4)
    fill(driver, 5 * GB, {0: 20 * GB})
    assert waits(driver) is None
    assert NO_ROOM not in causes(driver)


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
def test_replica_in_the_isr_is_never_taken_back(engine: EngineName) -> None:
    """Its copy is a good one; the step continues with the other."""
    driver = guarded((0, 1), engine=engine, step_size=2, min_isr=2)
    copying(driver, {0: [4, 5]}, 4, 5)
    driver.change_isr(tp(), replicas(0, 1, 4))
    fill(driver, 1 * GB, {0: 20 * GB})
    assert NO_ROOM not in causes(driver)
    driver.run(tp())
    assert at(driver) == PartitionAssignment(replicas(4, 5))


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
def test_only_the_copy_without_room_is_taken_back(engine: EngineName) -> None:
    """The other one of the step is completed, and what it does not replace stays."""
    driver = guarded((0, 1), engine=engine, step_size=2)
    copying(driver, {0: [4, 5]}, 4, 5)
    fill(driver, 4 * GB, {0: 20 * GB})
    found = at(driver)
    assert found is not None
    assert found.target_replicas == replicas(0, 1, 5)
    driver.catch_up(tp(), 5)
    found = at(driver)
    assert found is not None
    assert {0, 5} <= set(found.replicas) <= {0, 1, 5}
    assert waits(driver) == FULL
    fill(driver, 500 * GB, {})
    driver.run(tp())
    assert at(driver) == PartitionAssignment(replicas(4, 5))


def test_copies_that_are_nearly_done_continue() -> None:
    """Together they take less than half of the free bytes; the others are taken back."""
    driver = guarded((0,), (1,), (2,))
    copying(driver, {0: [4], 1: [4], 2: [4]}, 4)
    fill(driver, 4 * GB, {0: 49 * GB, 1: 48 * GB, 2: 49 * GB})
    assert [waits(driver, n) is None for n in range(3)] == [True, False, True]


def test_directories_of_one_volume_count_together() -> None:
    """What a copy writes into one is missing in the other."""
    driver = guarded((0,))
    submit(driver, submission("request_0000000000", {tp(): [4]}))
    driver.observe(*reported(driver, {4: dirs(3, 9, usable=(100 * GB, 100 * GB))}, SIZES))
    assert waits(driver) is None
    after(driver, 1.0)
    held, placed = {tp(): {4: 20 * GB}}, {tp(): {4: "/data/0"}}
    driver.observe(*reported(driver, {4: dirs(4, 9, usable=(4 * GB, 100 * GB))}, {}, held, placed))
    assert NO_ROOM in causes(driver)


def test_full_directory_without_a_copy_takes_none_back() -> None:
    """The broker put the copy into another one."""
    driver = guarded((0,))
    submit(driver, submission("request_0000000000", {tp(): [4]}))
    driver.observe(*reported(driver, {4: dirs(3, 9, usable=(100 * GB, 90 * GB))}, SIZES))
    after(driver, 1.0)
    held, placed = {tp(): {4: 20 * GB}}, {tp(): {4: "/data/0"}}
    driver.observe(*reported(driver, {4: dirs(4, 9, usable=(100 * GB, GB))}, {}, held, placed))
    assert NO_ROOM not in causes(driver)


def test_deletion_of_the_copy_is_awaited_before_it_begins_again() -> None:
    """The leader acknowledges the exclusion first, as for every drop."""
    driver = guarded((0, 1))
    copying(driver, {0: [0, 4]}, 4)
    driver.acknowledges = False
    fill(driver, 4 * GB, {0: 20 * GB})
    assert at(driver) == PartitionAssignment(replicas(0, 1, 4), replicas(4), replicas(4))
    driver.acknowledge(tp(), [BrokerId(0), BrokerId(1)])
    driver.settle()
    assert isinstance(driver.view.reassignments.by_partition[tp()].phase, Stopping)
    fill(driver, 500 * GB, {})
    assert at(driver) == PartitionAssignment(replicas(0, 1, 4), replicas(4), replicas(4))


def test_tenure_that_finds_a_copy_taken_back_ends_that_step() -> None:
    """A daemon that restarts reads it in the topic znode, and measures again."""
    driver = guarded((0, 1))
    copying(driver, {0: [0, 4]}, 4)
    driver.acknowledges = False
    fill(driver, 4 * GB, {0: 20 * GB})
    driver.acknowledges = True
    driver.restart()
    assert at(driver) == PartitionAssignment(replicas(0, 1))
    assert not driver.view.reassignments.by_partition[tp()].in_flight
    fill(driver, 4 * GB, {})
    assert waits(driver) == FULL


def test_replica_that_the_step_removes_stays_with_the_copy_taken_back() -> None:
    """It lags, and no good copy would be lost; but nothing replaces it now."""
    driver = guarded((0, 1, 2), step_size=None)
    copying(driver, {0: [0, 1, 4]}, 4)
    driver.change_isr(tp(), replicas(0, 1))
    fill(driver, 4 * GB, {0: 20 * GB})
    assert at(driver) == PartitionAssignment(replicas(0, 1, 2))


BACK = replace(
    ReassignmentSpec(
        replicas(4, 1, 2), replicas(4, 1, 2), RequestId("request_0000000000"), Route.REQUEST
    ),
    cancelled_by=RequestId("cancel-0000000000000064"),
    abandoned=frozenset(replicas(5)),
)


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
def test_copy_of_a_rollback_waits_for_room_and_is_taken_back(engine: EngineName) -> None:
    """It would fill the disk like any other; the replicas that are there stay meanwhile."""
    driver = guarded((5, 1, 2), engine=engine)
    driver.adopt({tp(): BACK})
    fill(driver, 30 * GB, {})
    blocked = waits(driver)
    assert blocked is not None
    assert blocked[0] is BlockedBy.DISK_FULL
    fill(driver, 500 * GB, {})
    assert waits(driver) is None
    fill(driver, 4 * GB, {0: 20 * GB})
    assert waits(driver) == FULL
    assert at(driver) == PartitionAssignment(replicas(5, 1, 2))
    fill(driver, 500 * GB, {})
    driver.run(tp())
    assert at(driver) == PartitionAssignment(replicas(4, 1, 2))


def test_cancellation_of_a_step_without_room_is_a_rollback() -> None:
    """The copy is not wanted any more: its disk has no say."""
    spec = replace(BACK, original=replicas(5, 1, 2), target=replicas(4, 1, 2), cancelled_by=None)
    driver = guarded((5, 1, 2))
    driver.adopt({tp(): spec})
    fill(driver, 500 * GB, {})
    assert waits(driver) is None
    driver.acknowledges = False
    fill(driver, 4 * GB, {0: 20 * GB})
    back = replace(spec, target=replicas(5, 1, 2), cancelled_by=BACK.cancelled_by)
    driver.acknowledges = True
    driver.adopt({tp(): back})
    assert at(driver) == PartitionAssignment(replicas(5, 1, 2))
    assert tp() not in driver.view.reassignments.by_partition


def test_foreign_reassignment_continues() -> None:
    """Only the topic znode records it: without the step it would be lost."""
    step = PartitionAssignment(replicas(0, 4), replicas(4))
    driver = guarded((0,))
    driver.fold(TopicsRead({"t": TopicAssignment({0: step}, ZkVersion(1), Zxid(9))}))
    driver.adopt({})
    fill(driver, 500 * GB, {})
    fill(driver, GB, {0: 20 * GB})
    assert driver.view.disks.brokers[BrokerId(4)].without_room == {tp()}
    assert at(driver) == step


@pytest.mark.parametrize("engine", [EngineName.NATIVE, EngineName.DELEGATED])
def test_deleted_log_of_a_broker_without_free_space_counts_for_its_delay(
    engine: EngineName,
) -> None:
    """It is not listed any more, whoever asked the broker to delete it."""
    driver = guarded((4,), engine=engine)
    copying(driver, {0: [0]}, 0)
    driver.observe(*reported(driver, {4: one(60 * GB, is_estimate=True)}, SIZES))
    driver.run(tp())
    after(driver, 1.0)
    driver.observe(*reported(driver, {4: one(110 * GB, is_estimate=True)}, SIZES))
    disk = driver.view.disks.brokers[BrokerId(4)]
    assert disk.still_kept(driver.now) == 50 * GB
    after(driver, KEPT_S)
    assert disk.still_kept(driver.now) == 0


def test_broker_that_registers_again_counts_its_delay_anew() -> None:
    """It finds what it was about to delete, and deletes that after the delay."""
    driver = guarded((4,))
    copying(driver, {0: [0]}, 0)
    driver.observe(*reported(driver, {4: one(60 * GB, is_estimate=True)}, SIZES))
    driver.run(tp())
    after(driver, KEPT_S - 5)
    registered = {BrokerId(b): broker(b) for b in range(7)}
    driver.observe(BrokersRead({**registered, BrokerId(4): broker(4, epoch=200)}))
    driver.observe(*reported(driver, {4: one(110 * GB, is_estimate=True)}, SIZES))
    disk = driver.view.disks.brokers[BrokerId(4)]
    after(driver, KEPT_S - 5)
    assert disk.still_kept(driver.now) == 50 * GB
