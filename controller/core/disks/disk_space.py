"""
The space guard: a step that copies begins only where log directories keep ``min_free``.

A directory has room for a copy if this holds, with everything as of the last report::

    usable - reserved - growth * time  >=  min_free

``reserved`` are the bytes that copies still take, with those of this cycle and the new one;
``growth`` is what producers add to the directory and to these copies; ``time`` is the age of the
report and the time that the copies of the broker need at its throttle. ``disk_budget`` judges that
as steps are planned, and ``disk_reservations`` follows the copies; here, reports are folded in.

A dropped log frees nothing before a report shows it: brokers keep deleted logs for a while.

Where the free space of a directory falls below a floor nevertheless, as other logs grow, the copies
in progress are taken back that could fill it (``retarget``). They wait then like any other.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from controller.core import wakeups
from controller.core.disks.model import SAME_VOLUME_BYTES, BrokerDisk, DiskLedger
from controller.core.disks.records import LogDirsDescribed
from controller.core.model import (
    START,
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    LogDir,
    MinFree,
    TopicPartition,
)
from controller.core.view import ClusterView

REPORTS_VALID: Final = 3
"""A report is too old after so many ``size_refresh``."""
FLOOR_SHARE: Final = 0.5
"""The share of ``min_free`` that is the floor of a directory."""
NEARLY_DONE_SHARE: Final = 0.5
"""Below the floor, copies continue that together take less than this share of the free bytes."""


def is_guarded(view: ClusterView) -> bool:
    """Return whether copies leave space free."""
    return view.options.min_free is not None


def invalidate_disks(view: ClusterView) -> None:
    """Have disks measured now: something happened that the reports do not include."""
    if is_guarded(view):
        view.disks_process.queries.all_at = START
        wakeups.wake(view.due, wakeups.Trigger.DISKS_INVALIDATED)


# --- the directory that takes a copy -------------------------------------------------------------


def directory_for(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> str | None:
    """Return the directory that takes a copy; None: the broker chooses one of several."""
    disk = view.disks.brokers.get(broker)
    copy = None if disk is None else disk.copies.get(partition)
    if copy is not None and copy.directory is not None:
        return copy.directory
    reassignment = view.reassignments.by_partition.get(partition)
    named = None if reassignment is None else reassignment.spec.directory_of(broker)
    return named or (None if disk is None else disk.only)


def volume_of(directory: LogDir, directories: Iterable[LogDir]) -> tuple[str, ...]:
    """Return the directories that seem to share the volume of this one, with itself."""
    if directory.total is None or directory.usable is None:
        return (directory.path,)
    usable = directory.usable
    return tuple(
        d.path
        for d in directories
        if d is directory
        or (
            d.total == directory.total
            and d.usable is not None
            and abs(d.usable - usable) < SAME_VOLUME_BYTES
        )
    )


def report_gate(view: ClusterView, broker: BrokerId, now: Instant) -> Blocked | None:
    """
    Block a step until the free space of its broker is measured.

    A broker that refuses the query, for lack of a permission, is not guarded: that keeps no
    partition from moving. One that does not answer may have full disks.
    """
    ledger, epoch = view.disks, view.registration_of(broker)
    report, silence = ledger.known(broker).report, ledger.silence_of(broker, epoch)
    cause = "" if silence is None else f": {silence.why}"
    if report is None:
        if silence is not None and silence.is_refused:
            return None
        detail = f"the disks of broker {broker} are being measured{cause}"
        return Blocked(BlockedBy.DISK_UNKNOWN, detail)
    valid_s = REPORTS_VALID * view.options.size_refresh_s
    if epoch == report.epoch and now - report.at <= valid_s:
        return None
    detail = f"the disks of broker {broker} are being measured again{cause}"
    return Blocked(BlockedBy.DISK_UNKNOWN, detail)


def deleted_logs_gate(view: ClusterView, broker: BrokerId, now: Instant) -> Blocked | None:
    """Block a step while deleted logs may take space that the estimate of its broker omits."""
    ledger = view.disks
    disk = ledger.brokers.get(broker)
    if now >= ledger.unseen_until or disk is None:
        return None
    if not any(d.is_estimate for d in disk.directories):
        return None
    what = "reports no free space, and may still keep logs deleted before the takeover"
    detail = f"broker {broker} {what}"
    return Blocked(BlockedBy.DISK_UNKNOWN, detail)


def unguarded_brokers(view: ClusterView) -> dict[BrokerId, str]:
    """Return the live brokers whose free space is not known, and why."""
    ledger, found = view.disks, {}
    if not is_guarded(view):
        return {}
    for broker in sorted(view.cluster.brokers):
        disk = ledger.brokers.get(broker)
        if disk is None or disk.report is None:
            silence = ledger.silence_of(broker, view.registration_of(broker))
            if silence is not None and silence.is_refused:
                found[broker] = silence.why
        elif any(d.usable is None for d in disk.directories):
            found[broker] = "it does not report its free space, and disk_capacities omits it"
    return found


def reserved_in(disk: BrokerDisk, directory: LogDir) -> int:
    """Return the bytes that copies still take in a directory, or may take."""
    known = disk.reserved.get(directory.path)
    return disk.unplaced.bytes + (0 if known is None else known.bytes)


# --- copies to be taken back ---------------------------------------------------------------------


def has_no_room(view: ClusterView, broker: BrokerId, partition: TopicPartition) -> bool:
    """Return whether a copy in progress would fill a directory that fell below its floor."""
    disk = view.disks.brokers.get(broker)
    return disk is not None and partition in disk.without_room


def _without_room(disk: BrokerDisk, min_free: MinFree) -> Iterator[TopicPartition]:
    """Yield the copies that have no room, as of the report; those nearly done continue."""
    for directory in disk.directories:
        if disk.report is None or directory.usable is None:
            continue
        usable = directory.usable
        if directory.is_estimate:
            usable -= disk.still_kept(disk.report.at)
        if usable >= FLOOR_SHARE * min_free.of(directory.total):
            continue
        room = NEARLY_DONE_SHARE * usable
        for left, partition in disk.left_in(volume_of(directory, disk.directories)):
            room -= left
            if room < 0:
                yield partition


# --- what is folded into the view ----------------------------------------------------------------


def space_described(view: ClusterView, event: LogDirsDescribed) -> None:
    """Take the free space that a broker reported, and what its copies have by now."""
    ledger, min_free, replicas = view.disks, view.options.min_free, event.replicas
    disk = ledger.of(event.broker)
    held, placed = {}, {}
    for partition, copy in disk.copies.items():
        replica = replicas.get(partition)
        if copy.is_move:
            # The replica still is in the former directory.
            placed[partition] = copy.directory
            if replica is not None and replica.future == copy.directory:
                held[partition] = replica.future_size
        elif replica is not None and replica.directory is not None:
            held[partition], placed[partition] = replica.size, replica.directory
    directories = {p: path for p, path in placed.items() if path is not None}
    is_complete = disk.copies.keys() <= event.partitions
    disk.take_report(event.report, held, directories, is_complete=is_complete)
    if min_free is not None:
        disk.without_room = set(_without_room(disk, min_free))
        view.due.add(disk.without_room)


def forget_departed(ledger: DiskLedger, live: Container[BrokerId]) -> None:
    """Forget the brokers that are not live, except what copies still take there."""
    for broker, disk in list(ledger.brokers.items()):
        if broker not in live and not (disk.copies or disk.leaving):
            del ledger.brokers[broker]


def resize_copies(view: ClusterView) -> None:
    """Take the present sizes and growth of what is copied, and have copies that wait examined."""
    if not is_guarded(view):
        return
    ledger = view.disks
    wakeups.wake(view.due, wakeups.Trigger.DISKS_READ)
    for partition, brokers in ledger.receivers.items():
        size = view.disks_process.sizes.get(partition)
        growth = view.disks_process.growth.get(partition, 0.0)
        for broker in brokers:
            copy = ledger.brokers[broker].copies[partition]
            copy.size, copy.growth = copy.size if size is None else size, growth
    for disk in ledger.brokers.values():
        disk.recount()


# --- the order -----------------------------------------------------------------------------------


def fill_of_brokers(view: ClusterView) -> dict[BrokerId, float] | None:
    """Return how full the fullest directory of each broker is; None unless all are known."""
    if not is_guarded(view):
        return None
    filled: dict[BrokerId, float] = {}
    for broker in view.cluster.brokers:
        disk = view.disks.brokers.get(broker)
        good = () if disk is None else disk.directories
        if not good or any(d.usable is None or not d.total for d in good):
            return None
        filled[broker] = max(1 - (d.usable or 0) / (d.total or 1) for d in good)
    return filled
