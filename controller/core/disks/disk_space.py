"""
The space guard: a step that copies begins only where log directories keep ``min_free``.

A directory has room for a copy if this holds, with everything as of the last report::

    usable - reserved - growth * time  >=  min_free

``reserved`` are the bytes that copies still take, with those of this cycle and the new one;
``growth`` is what producers add to the directory and to these copies; ``time`` is the age of the
report and the time that the copies of the broker need at its throttle. ``disk_budget`` judges that
as steps are planned.

A copy reserves from the begin of its step on, and for as long as the broker may continue it. A
dropped log frees nothing before a report shows it: brokers keep deleted logs for a while.

Where the free space of a directory falls below a floor nevertheless, as other logs grow, the copies
in progress are taken back that could fill it (``step_start``). They wait then like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from controller.core import wakeups
from controller.core.core_settings import EngineName
from controller.core.disks.log_volumes import volume_of
from controller.core.disks.model import KEPT_S, BrokerDisk, Copy, DiskLedger
from controller.core.disks.records import LogDirsDescribed
from controller.core.model import (
    NO_BROKERS,
    START,
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    LogDir,
    MinFree,
    Replicas,
    TopicPartition,
)
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import AwaitingController, Placing
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


def report_gate(view: ClusterView, broker: BrokerId, now: Instant) -> Blocked | None:
    """
    Block a step until the free space of its broker is measured.

    A broker that refuses the query, for lack of a permission, is not guarded: that keeps no
    partition from moving. One that does not answer may have full disks.
    """
    ledger, epoch = view.disks, view.registration_of(broker)
    report, silence = ledger.known(broker).report, ledger.silence_of(broker, epoch)
    valid_s = REPORTS_VALID * view.options.size_refresh_s
    if report is None and silence is not None and silence.is_refused:
        return None
    if report is not None and epoch == report.epoch and now - report.at <= valid_s:
        return None
    again = "" if report is None else " again"
    cause = "" if silence is None else f": {silence.why}"
    detail = f"the disks of broker {broker} are being measured{again}{cause}"
    return Blocked(BlockedBy.DISK_UNKNOWN, detail)


def deleted_logs_gate(view: ClusterView, broker: BrokerId, now: Instant) -> Blocked | None:
    """Block a step while deleted logs may take space that the estimate of its broker omits."""
    disk = view.disks.known(broker)
    if now >= view.disks.unseen_until or not any(d.is_estimate for d in disk.directories):
        return None
    what = "reports no free space, and may still keep logs deleted before the takeover"
    return Blocked(BlockedBy.DISK_UNKNOWN, f"broker {broker} {what}")


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
        volume = volume_of(directory, disk.directories)
        copies = ((c.left, p) for p, c in disk.copies.items() if c.directory in volume)
        for left, partition in sorted(copies):
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


# --- reservations of copies and moves ------------------------------------------------------------


def _new_copy(view: ClusterView, partition: TopicPartition, broker: BrokerId) -> Copy:
    history = view.disks_process
    reassignment = view.reassignments.by_partition.get(partition)
    return Copy(
        history.sizes.get(partition, 0),
        history.growth.get(partition, 0.0),
        directory=directory_for(view, broker, partition),
        is_move=reassignment is not None and isinstance(reassignment.phase, Placing),
    )


def reserve(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Reserve the space of the step in flight, and keep that of copies that ended."""
    if view.options.min_free is None:
        return
    ledger = view.disks
    reassignment = view.reassignments.by_partition.get(partition)
    after, leaving = _changing_brokers(view, partition, reassignment)
    if view.role.engine is EngineName.DELEGATED:
        _note_dropped(view, partition, now)
    _count_leavers(ledger, partition, leaving, now)
    before = ledger.receivers.get(partition, ())
    after += _left_moving(view, partition, set(before).difference(after), now)
    other = _moved_elsewhere(ledger, partition, reassignment)
    if before == after and not other:
        return
    for broker in before:
        if broker not in after or broker in other:
            ledger.of(broker).end(partition, now)
    for broker in after:
        if broker not in before or broker in other:
            ledger.of(broker).begin(partition, _new_copy(view, partition, broker))
    if after:
        ledger.receivers[partition] = after
    else:
        del ledger.receivers[partition]


def moving_brokers(view: ClusterView, partition: TopicPartition) -> Replicas:
    """Return the brokers that may move a replica from one of their directories to another."""
    disks = view.disks
    receivers = disks.receivers.get(partition, ())
    return tuple(b for b in receivers if disks.brokers[b].copies[partition].is_move)


def _left_moving(
    view: ClusterView, partition: TopicPartition, brokers: Collection[BrokerId], now: Instant
) -> Replicas:
    # A later target ends the phase ``Placing``, but not the moves: a broker continues until it is
    # asked to stop, in that phase again, or drops the replica.
    placements = view.disks.placements
    assignment = view.topics.known_assignment(partition)
    left: Replicas = ()
    if brokers and assignment is not None and partition in view.reassignments.by_partition:
        left = tuple(
            b
            for b in moving_brokers(view, partition)
            if b in brokers
            and b in assignment.replicas
            and placements.known(b, partition, view.registration_of(b)).may_move
        )
    if not left:
        placements.left.pop(partition, None)
    elif partition not in placements.left:
        placements.left[partition] = now
        wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_AWAITED)
    return left


def placing_brokers(view: ClusterView, partition: TopicPartition) -> set[BrokerId]:
    """Return the brokers that are to report where they have a replica, or may move it."""
    found = set(moving_brokers(view, partition))
    if partition in view.disks.placements.placing:
        found.update(view.reassignments.by_partition[partition].spec.placed_brokers)
    return found


def _moved_elsewhere(
    ledger: DiskLedger, partition: TopicPartition, reassignment: Reassignment | None
) -> frozenset[BrokerId]:
    """Return the brokers whose move is to another directory than the one that is reserved."""
    if reassignment is None or not isinstance(reassignment.phase, Placing):
        return NO_BROKERS
    known = ledger.receivers.get(partition, ())
    return frozenset(
        b
        for b, path in reassignment.phase.moving
        if b in known and ledger.of(b).copies[partition].directory not in {None, path}
    )


def _changing_brokers(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment | None
) -> tuple[Replicas, Replicas]:
    """Return the brokers that the step in flight has copy or move a replica; those it drops."""
    assignment = view.topics.known_assignment(partition)
    if assignment is None or reassignment is None or not reassignment.in_flight:
        return (), ()
    leaving, phase = assignment.removing_replicas, reassignment.phase
    if isinstance(phase, Placing):
        return tuple(b for b, _ in phase.moving), leaving
    if isinstance(phase, AwaitingController):
        leaving = tuple(r for r in assignment.replicas if r not in phase.target)
    return reassignment.receivers(assignment), leaving


def _note_dropped(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Note the logs that Kafka's controller had brokers delete: they do not answer us."""
    assignment = view.topics.known_assignment(partition)
    for broker in view.disks.leavers.get(partition, ()):
        if assignment is not None and broker not in assignment.replicas:
            log_dropped(view, broker, partition, now)


def _count_leavers(
    ledger: DiskLedger, partition: TopicPartition, leaving: Replicas, now: Instant
) -> None:
    before = ledger.leavers.get(partition, ())
    if before == leaving:
        return
    for broker in before:
        ledger.of(broker).leaving -= 1
        ledger.of(broker).stirred = now
    for broker in leaving:
        ledger.of(broker).leaving += 1
    if leaving:
        ledger.leavers[partition] = leaving
    else:
        del ledger.leavers[partition]


def log_dropped(
    view: ClusterView, broker: BrokerId, partition: TopicPartition, now: Instant
) -> None:
    """Note that a broker deleted a log, whose bytes it keeps for a while."""
    if view.options.min_free is None:
        return
    ledger = view.disks
    disk, size = ledger.of(broker), view.disks_process.sizes.get(partition)
    disk.deletions.append(now)
    disk.stirred = now
    if disk.directories and not any(d.is_estimate for d in disk.directories):
        return
    if size is None:
        ledger.unseen_until = Instant(now + KEPT_S)
    else:
        disk.dropped.append((now, size))


def miss_deletions(view: ClusterView, now: Instant) -> None:
    """
    Note at a claim until when logs may take space that others had deleted.

    That may have been another daemon before this one led or, where work is left, another controller
    before the claim.
    """
    last = now if view.reassignments.by_partition else view.role.leading_since
    view.disks.unseen_until = max(view.disks.unseen_until, Instant(last + KEPT_S))
