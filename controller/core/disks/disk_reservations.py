"""
The space that copies and moves in progress reserve, and the logs that brokers are to delete.

A copy reserves from the begin of its step on, and for as long as the broker may continue it. The
gate that looks at these reservations is in ``disk_budget``, the reports in ``disk_space``.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.core import wakeups
from controller.core.disks.disk_space import directory_for
from controller.core.disks.model import KEPT_S, Copy, DiskLedger
from controller.core.model import (
    NO_BROKERS,
    BrokerId,
    Instant,
    Replicas,
    TopicPartition,
)
from controller.core.options import EngineName
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import AwaitingController, Placing
from controller.core.view import ClusterView


def new_copy(view: ClusterView, partition: TopicPartition, broker: BrokerId) -> Copy:
    """Return a copy that begins."""
    history = view.disks_process
    reassignment = view.reassignments.by_partition.get(partition)
    return Copy(
        history.sizes.get(partition, 0),
        history.growth.get(partition, 0.0),
        directory=directory_for(view, broker, partition),
        is_move=reassignment is not None and isinstance(reassignment.phase, Placing),
    )


def receivers_of(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> Replicas:
    """Return the brokers to which the step in flight copies, or that move a replica."""
    assignment = view.topics.known_assignment(partition)
    if assignment is None:
        return ()
    if isinstance(reassignment.phase, Placing):
        return tuple(b for b, _ in reassignment.phase.moving)
    return reassignment.receivers(assignment)


def reserve(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Reserve the space of the step in flight, and keep that of copies that ended."""
    if view.options.min_free is None:
        return
    ledger = view.disks
    reassignment = view.reassignments.by_partition.get(partition)
    after: Replicas = ()
    leaving: Replicas = ()
    if reassignment is not None and reassignment.in_flight:
        after = receivers_of(view, partition, reassignment)
        leaving = _leavers_of(view, partition, reassignment)
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
            ledger.of(broker).begin(partition, new_copy(view, partition, broker))
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
    """
    Return those of the brokers that may continue a move which no phase has them make any more.

    A later target ends the phase ``Placing``, but not the moves: a broker continues until it is
    asked to stop, in that phase again, or drops the replica.
    """
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


def _leavers_of(
    view: ClusterView, partition: TopicPartition, reassignment: Reassignment
) -> Replicas:
    """Return the brokers that the step in flight drops."""
    assignment = view.topics.known_assignment(partition)
    if assignment is None:
        return ()
    if isinstance(reassignment.phase, AwaitingController):
        target = reassignment.phase.target
        return tuple(r for r in assignment.replicas if r not in target)
    return assignment.removing_replicas


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
        disk = ledger.of(broker)
        disk.leaving -= 1
        disk.stirred = now
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

    That may have been another daemon, before this one led, or where work is left another
    controller, before the claim.
    """
    last = now if view.reassignments.by_partition else view.role.leading_since
    until = max(view.disks.unseen_until, Instant(last + KEPT_S))
    view.disks.unseen_until = until
