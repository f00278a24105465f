"""No copy fills a disk: reservations, the directories that a broker may choose, reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from controller.core.core_settings import Options
from controller.core.disks.disk_budget import FRESH_S, placements_before
from controller.core.disks.disk_space import unguarded_brokers
from controller.core.disks.model import GROWTH_AFTER_S, KEPT_S, Reserved
from controller.core.disks.records import LogDirsDescribed
from controller.core.model import (
    BlockedBy,
    BrokerId,
    Instant,
    LogDir,
    MinFree,
    PlacedReplica,
    TopicPartition,
)
from controller.core.requests.records import LegacyPlanRead
from controller.core.role.records import BrokersRead, Deposed
from tests.core.builders import Driver, broker, plan, replicas, tp
from tests.core.disks.modelled_disks import ModelledDisks
from tests.core.disks.reports import ROOMY, report

GB = 10**9
MIN_FREE = MinFree(bytes=10 * GB)


def guarded(*assignments: Iterable[int], min_free: MinFree = MIN_FREE) -> Driver:
    """Return a cluster whose disks are guarded, with one topic on brokers 0 to 6."""
    entries = {tp(n): tuple(ids) for n, ids in enumerate(assignments)}
    return Driver(entries, options=Options(min_free=min_free, config_refresh_s=1000.0))


def reported(
    driver: Driver,
    dirs: Mapping[int, list[LogDir]],
    sizes: Mapping[TopicPartition, int] | None = None,
    held: Mapping[TopicPartition, Mapping[int, int]] | None = None,
    placed: Mapping[TopicPartition, Mapping[int, str]] | None = None,
    **silent: str,
) -> list[LogDirsDescribed]:
    """
    Return reports of brokers that are queried now.

    Args:
        driver: The cluster.
        dirs: Their directories by broker; there is room on those that only report sizes.
        sizes: Bytes of partitions, which their leaders report.
        held: Bytes of other replicas.
        placed: Their directories, where it is not the first of the broker.
        silent: Brokers that do not answer: ``b4="why"``.

    """
    problems = {int(name[1:]): why for name, why in silent.items()}
    rows = {p: dict(by) for p, by in (held or {}).items()}
    for partition, size in (sizes or {}).items():
        state = driver.view.leadership.states.get(partition)
        if state is not None and state.leader not in problems:
            rows.setdefault(partition, {}).setdefault(state.leader, size)
    found = []
    for number in sorted({*dirs, *problems, *(b for by in rows.values() for b in by)}):
        named = dict(placed or {})
        paths = {p: by[number] for p, by in named.items() if number in by}
        mine = tuple(dirs.get(number, ROOMY))
        held_here = {
            p: PlacedReplica(paths.get(p, mine[0].path), by[number])
            for p, by in rows.items()
            if number in by
        }
        event = LogDirsDescribed(
            BrokerId(number), driver.epoch(BrokerId(number)), driver.now, frozenset(rows)
        )
        if number in problems:
            found.append(replace(event, problem=problems[number]))
        else:
            found.append(replace(event, dirs=mine, replicas=held_here))
    return found


def without_logs(driver: Driver, *brokers: int) -> list[LogDirsDescribed]:
    """Return reports of brokers that have no log of partition 0."""
    return [
        report(b, {}, at=driver.now, epoch=driver.epoch(BrokerId(b)), queried={tp()})
        for b in brokers
    ]


def one(usable: int, total: int = 1000 * GB, **fields: bool) -> list[LogDir]:
    """Return the only directory of a broker."""
    return [LogDir("/data", total, usable, **fields)]


def waits(driver: Driver, n: int = 0) -> tuple[BlockedBy, str] | None:
    """Return what a partition waits for, None for one with a step in flight."""
    reassignment = driver.view.reassignments.by_partition[tp(n)]
    if reassignment.in_flight:
        return None
    assert reassignment.blocked is not None
    return reassignment.blocked.by, reassignment.blocked.detail


def after(driver: Driver, seconds: float) -> None:
    """Let time pass."""
    driver.now = Instant(driver.now + seconds)


def test_step_waits_until_size_and_free_space_are_measured() -> None:
    """Nothing is known at the begin of a tenure: a copy could fill a disk at once."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    assert waits(driver) == (BlockedBy.DISK_UNKNOWN, "its size is not measured yet")
    driver.observe(*reported(driver, {}, {tp(): 50 * GB}))
    assert waits(driver) == (BlockedBy.DISK_UNKNOWN, "the disks of broker 4 are being measured")
    driver.observe(*reported(driver, {4: one(100 * GB)}))
    assert waits(driver) is None


def test_copy_without_room_waits_for_the_report_that_shows_it() -> None:
    """The reason names broker, directory, the need and the room above ``min_free``."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: one(40 * GB)}, {tp(): 50 * GB}))
    assert waits(driver) == (
        BlockedBy.DISK_FULL,
        "broker 4, /data: 50 GB needed, 30 GB free above min_free (10 GB)",
    )
    driver.observe(*reported(driver, {4: one(60 * GB)}))
    assert waits(driver) is None


def test_copies_of_one_cycle_share_the_room() -> None:
    """Each alone has room, both together have not."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    driver.observe(*reported(driver, {4: one(100 * GB)}, {tp(0): 50 * GB, tp(1): 50 * GB}))
    assert waits(driver, 0) is None
    assert waits(driver, 1) == (
        BlockedBy.DISK_FULL,
        "broker 4, /data: 50 GB needed, 40 GB free above min_free (10 GB)",
    )


@pytest.mark.parametrize("progress", [True, False])
def test_few_copies_begin_where_the_room_is_short(*, progress: bool) -> None:
    """Those in progress end first, unless they make no progress: each may wait for a leader."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): GB, tp(1): GB}
    driver.observe(*reported(driver, {4: one(12 * GB + GB // 2)}, sizes))
    assert waits(driver, 0) is None
    detail = "broker 4 has little room, and copies in progress: they end first"
    assert waits(driver, 1) == (BlockedBy.DISK_FULL, detail)
    after(driver, 10.0)
    copied = GB // 10 if progress else 0
    usable = 12 * GB + GB // 2 - copied
    driver.observe(*reported(driver, {4: one(usable)}, sizes, {tp(0): {4: copied}}))
    assert waits(driver, 1) == ((BlockedBy.DISK_FULL, detail) if progress else None)


def test_only_what_is_not_copied_at_the_report_is_reserved() -> None:
    """The free space of that report includes the rest."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    driver.observe(*reported(driver, {4: one(100 * GB)}, sizes))
    after(driver, 3.0)
    driver.observe(*reported(driver, {4: one(70 * GB)}, sizes, {tp(0): {4: 30 * GB}}))
    assert waits(driver, 1) is not None
    driver.observe(*reported(driver, {4: one(90 * GB)}, sizes, {tp(0): {4: 30 * GB}}))
    assert waits(driver, 1) is None


def test_copy_that_ended_stays_reserved_until_a_later_report() -> None:
    """The report before shows room that the copy took since."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    driver.observe(*reported(driver, {4: one(100 * GB)}, sizes))
    earlier = reported(driver, {4: one(100 * GB)}, sizes)
    after(driver, 5.0)
    driver.run(tp(0))
    assert waits(driver, 1) is not None
    driver.observe(*earlier)
    assert waits(driver, 1) is not None
    driver.observe(*reported(driver, {4: one(61 * GB)}, sizes))
    assert waits(driver, 1) is None


def test_report_from_before_the_claim_is_not_used() -> None:
    """Another controller may have copied meanwhile."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    early = reported(driver, {4: one(100 * GB)}, {tp(): GB})
    driver.observe(*(replace(event, at=Instant(event.at - 1)) for event in early))
    assert waits(driver) == (BlockedBy.DISK_UNKNOWN, "the disks of broker 4 are being measured")


def test_log_that_was_missing_before_the_claim_may_be_there() -> None:
    """Another controller may have had it made meanwhile, with any size."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: one(100 * GB)}))
    early = (replace(e, at=Instant(e.at - 1)) for e in without_logs(driver, 0))
    driver.observe(*early)
    assert waits(driver) == (BlockedBy.DISK_UNKNOWN, "its size is not measured yet")
    driver.observe(*without_logs(driver, 0))
    assert waits(driver) is None


def test_old_report_and_report_of_a_former_registration_are_measured_again() -> None:
    """Directories fail and disks are replaced while a broker is down."""
    driver = guarded([0], [1])
    driver.submit({tp(): [4], tp(1): [4]})
    driver.observe(*reported(driver, {4: one(100 * GB)}, {tp(): GB}))
    driver.fold(BrokersRead({**driver.view.cluster.brokers, BrokerId(4): broker(4, 500)}))
    driver.observe(*reported(driver, {}, {tp(1): GB}))
    assert waits(driver, 1) == (
        BlockedBy.DISK_UNKNOWN,
        "the disks of broker 4 are being measured again",
    )
    driver.observe(*reported(driver, {4: one(100 * GB)}))
    assert waits(driver, 1) is None


def test_broker_that_refuses_to_answer_is_not_guarded_and_named() -> None:
    """The daemon may lack the permission: partitions are moved as before."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    answers = reported(driver, {}, {tp(): GB}, b4="not authorized")
    driver.observe(*(replace(a, is_refused=a.problem is not None) for a in answers))
    assert waits(driver) is None
    assert unguarded_brokers(driver.view) == {BrokerId(4): "not authorized"}


def test_broker_that_does_not_answer_is_waited_for() -> None:
    """One that starts refuses connections for a while; its disks may be full."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {}, {tp(): GB}, b4="connection refused"))
    assert waits(driver) == (
        BlockedBy.DISK_UNKNOWN,
        "the disks of broker 4 are being measured: connection refused",
    )
    assert unguarded_brokers(driver.view) == {}
    driver.observe(*reported(driver, {4: one(100 * GB)}))
    assert waits(driver) is None


def test_broker_without_free_space_in_its_report_is_not_guarded_and_named() -> None:
    """Brokers before 3.3 do not report it."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: [LogDir("/data")]}, {tp(): GB}))
    assert waits(driver) is None
    assert list(unguarded_brokers(driver.view)) == [BrokerId(4)]


def test_partition_that_no_broker_reports_is_not_guarded() -> None:
    """There is nothing to measure where every replica is unreadable."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: one(100 * GB)}), *without_logs(driver, 0))
    assert waits(driver) is None


def test_partition_of_a_silent_broker_waits_for_its_size() -> None:
    """It has a log, which is not small because its broker does not say how large."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    silent = reported(driver, {4: one(100 * GB)}, b0="it does not answer")
    driver.observe(*silent, *without_logs(driver, 1))
    assert waits(driver) == (BlockedBy.DISK_UNKNOWN, "its size is not measured yet")


def test_copy_in_progress_is_not_taken_for_the_log() -> None:
    """While the leader is silent, the room that the copy still takes stays reserved."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    driver.observe(*reported(driver, {4: one(100 * GB)}, sizes))
    assert [waits(driver, n) is None for n in range(2)] == [True, False]
    after(driver, 3.0)
    held = {tp(0): {4: GB}, tp(1): {1: 50 * GB}}
    driver.observe(
        *reported(driver, {4: one(99 * GB)}, {tp(0): GB, tp(1): 50 * GB}, held, b0="no answer")
    )
    assert driver.view.disks_process.sizes[tp(0)] == 50 * GB
    assert waits(driver, 1) is not None


def test_growth_of_the_directory_is_reserved_for_the_time_of_the_copy() -> None:
    """Producers write 1 GB/s: 50 GB take 5000 s at the assumed rate."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: one(1000 * GB)}))
    after(driver, 10.0)
    driver.observe(*reported(driver, {4: one(999 * GB)}))
    driver.observe(*reported(driver, {}, {tp(): 50 * GB}))
    assert driver.view.disks.brokers[BrokerId(4)].growth == {"/data": GB / 10}
    assert waits(driver) is None
    other = guarded([0])
    other.submit({tp(): [4]})
    other.observe(*reported(other, {4: one(1000 * GB)}))
    after(other, 10.0)
    other.observe(*reported(other, {4: one(990 * GB)}))
    other.observe(*reported(other, {}, {tp(): 50 * GB}))
    blocked = waits(other)
    assert blocked is not None
    assert blocked[0] is BlockedBy.DISK_FULL


def test_what_copies_write_is_not_growth() -> None:
    """Otherwise a copy would delay the next."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    driver.observe(*reported(driver, {4: one(100 * GB)}, {tp(): 50 * GB}))
    after(driver, GROWTH_AFTER_S)
    driver.observe(*reported(driver, {4: one(70 * GB)}, {tp(): 50 * GB}, {tp(): {4: 30 * GB}}))
    disk = driver.view.disks.brokers[BrokerId(4)]
    assert disk.growth == {"/data": 0.0}
    driver.run(tp())
    after(driver, GROWTH_AFTER_S)
    driver.observe(*reported(driver, {4: one(50 * GB)}))
    assert disk.growth == {"/data": 0.0}
    assert disk.reserved == {}


def dirs(*logs: int | None, usable: tuple[int, ...] = ()) -> list[LogDir]:
    """Return directories with these numbers of logs, each on a disk of its own."""
    free = usable or tuple((100 + 10 * n) * GB for n in range(len(logs)))
    return [LogDir(f"/data/{n}", 1000 * GB, free[n], count) for n, count in enumerate(logs)]


@pytest.mark.parametrize(
    ("logs", "placed", "chosen"),
    [
        ((5, 9), 0, [0]),
        ((5, 6), 0, [0, 1]),
        ((5, 9), 3, [0, 1]),
        ((5, 9), 2, [0]),
        ((5, 5, 7), 2, [0, 1]),
        ((5, 5, 7), 3, [0, 1, 2]),
        ((5, None), 0, [0, 1]),
    ],
)
def test_every_directory_that_the_broker_could_choose_counts(
    logs: tuple[int | None, ...], placed: int, chosen: list[int]
) -> None:
    """A broker fills up the directory with the fewest logs; one log may be of others."""
    driver = guarded([0])
    driver.observe(*reported(driver, {4: dirs(*logs)}))
    disk = driver.view.disks.brokers[BrokerId(4)]
    may_take = [p for p, after in placements_before(disk).items() if after <= placed + 1]
    assert may_take == [f"/data/{n}" for n in chosen]


def test_copy_waits_for_room_in_each_directory_that_may_take_it() -> None:
    """The fuller disk has fewer logs."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    full = reported(driver, {4: dirs(3, 9, usable=(20 * GB, 500 * GB))}, {tp(): 50 * GB})
    driver.observe(*full)
    assert waits(driver) == (
        BlockedBy.DISK_FULL,
        "broker 4, /data/0: 50 GB needed, 10 GB free above min_free (10 GB)",
    )
    driver.observe(*reported(driver, {4: dirs(9, 3, usable=(20 * GB, 500 * GB))}))
    assert waits(driver) is None


def test_directory_with_one_log_more_counts_unless_the_logs_were_just_counted() -> None:
    """Others may create a log meanwhile; but a full directory may have one more for ever."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    after(driver, FRESH_S + 0.1)
    counted = dirs(4, 3, usable=(20 * GB, 500 * GB))
    late = reported(driver, {4: counted}, sizes)
    after(driver, FRESH_S + 0.1)
    driver.observe(*late)
    assert waits(driver) == (
        BlockedBy.DISK_FULL,
        "broker 4, /data/0: 50 GB needed, 10 GB free above min_free (10 GB)",
    )
    driver.observe(*reported(driver, {4: counted}, sizes))
    assert waits(driver) is None
    driver.observe(LegacyPlanRead(plan({tp(1): [4]}, czxid=60)))
    assert waits(driver, 1) is not None, "the first copy may be the log that comes before"


def test_answer_without_counts_does_not_make_them_fresh() -> None:
    """It names some partitions only; the counts are those of the answer before."""
    driver = guarded([0])
    driver.submit({tp(0): [4]})
    driver.observe(*reported(driver, {4: dirs(4, 3, usable=(20 * GB, 20 * GB))}, {tp(0): 50 * GB}))
    after(driver, FRESH_S + 0.1)
    driver.observe(*reported(driver, {4: dirs(None, None, usable=(20 * GB, 500 * GB))}))
    assert waits(driver) is not None
    driver.observe(*reported(driver, {4: dirs(4, 3, usable=(20 * GB, 500 * GB))}))
    assert waits(driver) is None


def test_directory_of_a_copy_is_known_from_its_report() -> None:
    """Before, it is reserved in every directory."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    driver.observe(*reported(driver, {4: dirs(3, 3, usable=(100 * GB, 101 * GB))}, sizes))
    assert waits(driver, 0) is None
    assert waits(driver, 1) is not None
    disk = driver.view.disks.brokers[BrokerId(4)]
    assert disk.unplaced == Reserved(50 * GB, 0.0)
    again = dirs(4, 2, usable=(100 * GB, 101 * GB))
    held, placed = {tp(0): {4: 0}}, {tp(0): {4: "/data/0"}}
    driver.observe(*reported(driver, {4: again}, sizes, held, placed))
    assert waits(driver, 1) is None
    assert disk.reserved == {"/data/0": Reserved(50 * GB, 0.0)}


def test_directories_of_one_volume_share_its_room() -> None:
    """Their free space is the same."""
    driver = guarded([0], [1])
    driver.submit({tp(0): [4], tp(1): [4]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    here = dirs(3, 9, usable=(100 * GB, 100 * GB))
    driver.observe(*reported(driver, {4: here}, sizes))
    after(driver, 1.0)
    again = dirs(9, 3, usable=(100 * GB, 100 * GB))
    held, placed = {tp(0): {4: 0}}, {tp(0): {4: "/data/0"}}
    driver.observe(*reported(driver, {4: again}, sizes, held, placed))
    assert waits(driver, 1) is not None


def test_failed_directory_takes_no_copy() -> None:
    """Its free space does not count either way."""
    driver = guarded([0])
    driver.submit({tp(): [4]})
    found = [LogDir("/data/0", is_failed=True), LogDir("/data/1", 1000 * GB, 100 * GB, 3)]
    driver.observe(*reported(driver, {4: found}, {tp(): 50 * GB}))
    assert waits(driver) is None
    assert unguarded_brokers(driver.view) == {}


def test_deleted_log_counts_in_an_estimate_until_the_delay_has_passed() -> None:
    """It is not listed, and its bytes are still there."""
    driver = guarded([4], [1])
    after(driver, KEPT_S)
    driver.submit({tp(0): [0]})
    sizes = {tp(0): 50 * GB, tp(1): 50 * GB}
    driver.observe(
        *reported(driver, {0: one(500 * GB), 4: one(60 * GB, is_estimate=True)}, sizes),
    )
    driver.run(tp(0))
    driver.observe(LegacyPlanRead(plan({tp(1): [4]}, czxid=60)))
    after(driver, 11.0)
    driver.observe(*reported(driver, {4: one(109 * GB, is_estimate=True)}, sizes))
    assert waits(driver, 1) == (
        BlockedBy.DISK_FULL,
        "broker 4, /data: 50 GB needed, 49 GB free above min_free (10 GB)",
    )
    after(driver, KEPT_S - 10)
    driver.observe(*reported(driver, {4: one(109 * GB, is_estimate=True)}, sizes))
    assert waits(driver, 1) is None


def test_min_free_is_bytes_or_a_share_of_the_volume() -> None:
    """Whatever the volume has."""
    assert MinFree(bytes=7).of(None) == 7
    assert MinFree(share=0.02).of(1000) == 20
    texts = [str(MinFree(bytes=7)), str(MinFree(bytes=10 * GB)), str(MinFree(share=0.025))]
    assert texts == ["7 bytes", "10 GB", "2.5%"]


def test_replica_that_left_the_isr_does_not_give_the_size() -> None:
    """The former leader is back with an empty disk, and answers before the present one does."""
    driver = guarded([0, 1, 2])
    full = reported(driver, {4: one(50 * GB)})
    driver.observe(*full)
    driver.submit({tp(0): [1, 2, 4]})
    driver.observe(*reported(driver, {0: one(500 * GB)}, held={tp(0): {0: 100 * GB}}), *full)
    assert waits(driver) is not None
    live = dict(driver.view.cluster.brokers)
    del live[BrokerId(0)]
    driver.observe(BrokersRead(live))
    after(driver, 30)
    driver.observe(BrokersRead({**live, BrokerId(0): broker(0, 900)}))
    after(driver, 1)
    driver.observe(*reported(driver, {0: one(500 * GB)}, held={tp(0): {0: 0}}))
    driver.observe(*reported(driver, {4: one(50 * GB)}))
    assert driver.view.disks_process.sizes[tp(0)] == 100 * GB
    assert waits(driver) is not None


def test_largest_replica_gives_the_size_while_no_state_is_known() -> None:
    """Before a claim the daemon does not know who lags."""
    driver = guarded([0, 1, 2])
    driver.submit({tp(0): [0, 1, 4]})
    driver.observe(Deposed("another controller"))
    after(driver, 10)
    for replica, size in ((2, 1), (0, 100), (1, 99)):
        held = {tp(0): {replica: size * GB}}
        driver.observe(*reported(driver, {replica: one(500 * GB)}, held=held))
    assert driver.view.disks_process.sizes[tp(0)] == 100 * GB


def test_without_min_free_nothing_is_reserved_and_nothing_waits() -> None:
    """The guard is off."""
    driver = Driver({tp(): [0]}, options=Options())
    driver.submit({tp(): [4]})
    assert waits(driver) is None
    disks = driver.view.disks.brokers.values()
    assert not any(disk.copies or disk.ended or disk.reserved for disk in disks)


def test_rollback_is_guarded_and_a_drop_is_not() -> None:
    """A copy that leads back would fill the disk as well; a drop frees space."""
    driver = guarded([0, 1])
    driver.submit({tp(): [0]})
    assert tp() not in driver.view.reassignments.by_partition
    assert driver.passed(tp())[-1] == replicas(0)


@pytest.mark.parametrize("seed", [*range(25), 174])
def test_no_copy_takes_a_modelled_disk_below_the_reserve(seed: int) -> None:
    """Whatever begins, ends and is reported: producers write what was measured."""
    disks = ModelledDisks(seed, min_free=40_000_000, producers=bool(seed % 3))
    disks.begin()
    for _ in range(120):
        disks.tick()


@pytest.mark.parametrize("seed", range(8))
def test_ledger_equals_a_recount(seed: int) -> None:
    """The sums are kept up to date copy by copy."""
    disks = ModelledDisks(seed, min_free=0)
    disks.begin()
    for _ in range(60):
        disks.tick()
        for disk in disks.driver.view.disks.brokers.values():
            sums = dict(disk.reserved), disk.unplaced
            disk.recount()
            assert {k: v for k, v in sums[0].items() if v.bytes or v.growth} == {
                k: v for k, v in disk.reserved.items() if v.bytes or v.growth
            }
            assert sums[1] == disk.unplaced


def test_plans_end_on_modelled_disks_with_room() -> None:
    """Waiting for room is not for ever."""
    ended = 0
    for seed in range(5):
        disks = ModelledDisks(seed, min_free=0, producers=False)
        for directories in disks.brokers.values():
            for directory in directories:
                directory.size *= 5
        disks.begin()
        for _ in range(150):
            disks.tick()
        ended += not disks.driver.view.reassignments.by_partition
    assert ended == 5
