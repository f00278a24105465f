"""
Fold events of brokers' log directories into the view.

The size of a partition is that of its leader's replica, which copies are made from, or that of the
last leader that reported. Until a leader did, it is that of a replica in sync.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from controller import kafka_errors
from controller.core import effects, wakeups
from controller.core.core_settings import EngineName
from controller.core.disks import disk_space, records
from controller.core.disks import placements as named
from controller.core.disks.model import GROWTH_AFTER_S, Silence, SizeReport
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView

APART_S: Final = 2.0
"""How far apart the reports of leader and follower may be that are compared, in seconds."""
PATIENCE_S: Final = 30.0
"""How long an entry waits for a broker that does not report its directories."""


def fold_event(view: ClusterView, event: records.DiskEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.LogDirEventsRead():
            view.leadership_process.notifications["log_dir_events"] = event.names
            view.due.log_dir_brokers |= event.brokers
            for broker in event.brokers:
                view.disks.of(broker).changed_at = now
        case records.LogDirsDescribed():
            _log_dirs_described(view, event, now)
        case records.LogDirsAltered():
            _log_dirs_altered(view, event, now)
        case _:
            assert_never(event)


def _log_dirs_described(view: ClusterView, event: records.LogDirsDescribed, now: Instant) -> None:
    # Sizes change slowly. Everything else that was said before the claim, or in an earlier
    # registration, proves nothing: another controller, or a restart, may have changed it since.
    ledger, held = view.disks, view.tenure.held
    disk = ledger.brokers.get(event.broker)
    if disk is not None and disk.awaited == event.broker_epoch:
        disk.awaited = None
    _take_sizes(view, event, now)
    disk_space.resize_copies(view)
    for broker, known in list(ledger.brokers.items()):
        if broker not in view.cluster.brokers and not (known.copies or known.leaving):
            del ledger.brokers[broker]
    is_outdated = held is not None and event.at < held.since
    if is_outdated or view.registration_of(event.broker) != event.broker_epoch:
        return
    _note_silence(view, event, now)
    if event.problem is None:
        _note_missing(view, event)
        _note_orphan_logs(view, event)
        disk_space.space_described(view, event)
    _take_placements(view, event, now)


# --- sizes and the progress of copies ------------------------------------------------------------


def size_wanted(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Note a new reassignment."""
    times = view.disks_process.queries
    if not times.new:
        times.new_since = now
    if partition not in view.disks_process.sizes:
        times.new[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.SIZE_WANTED)


def _take_sizes(view: ClusterView, event: records.LogDirsDescribed, now: Instant) -> None:
    ledger, broker = view.disks, event.broker
    for partition, placed in event.replicas.items():
        reassignment = view.reassignments.by_partition.get(partition)
        if reassignment is None or placed.directory is None:
            continue
        ledger.has_unsorted = ledger.has_unsorted or not reassignment.in_flight
        report = SizeReport(event.at, placed.size, broker)
        _take_copied(view, partition, report, now)
        if _is_the_size(view, partition, broker, placed.size):
            _take_size(view, partition, report)
            ledger.sizeless.pop(partition, None)
    ledger.measuring.discard(broker)
    # Sorted once, when all brokers answered: there may be very many.
    if ledger.has_unsorted and not ledger.measuring:
        ledger.has_unsorted = False
        wakeups.wake(view.due, wakeups.Trigger.PENDING_MEASURED)


def _is_the_size(view: ClusterView, partition: TopicPartition, broker: BrokerId, size: int) -> bool:
    """Return whether the size of a partition is that of its replica on a broker."""
    state, base = view.leadership.states.get(partition), view.disks_process.measured.get(partition)
    if state is not None:
        if broker == state.leader:
            return True
        is_former = base is not None and base.broker in state.isr and base.broker != broker
        return broker in state.isr and not is_former
    assignment = view.topics.known_assignment(partition)
    if assignment is not None and broker in assignment.adding_replicas:
        return False
    return base is None or base.broker == broker or size > view.disks_process.sizes[partition]


def _take_size(view: ClusterView, partition: TopicPartition, report: SizeReport) -> None:
    history = view.disks_process
    history.sizes[partition] = report.size
    base = history.measured.get(partition)
    if base is None or base.broker != report.broker:
        history.measured[partition] = report
    elif report.at - base.at >= GROWTH_AFTER_S:
        # Less than before: retention or compaction removed more than producers sent.
        history.growth[partition] = max(0, report.size - base.size) / (report.at - base.at)
        history.measured[partition] = report


def _note_missing(view: ClusterView, event: records.LogDirsDescribed) -> None:
    """Note of which partitions, whose size or progress is in question, a broker has no replica."""
    history, broker = view.disks_process, event.broker
    for partition in history.copied.keys() & event.partitions:
        if partition not in event.replicas:
            history.copied[partition].pop(broker, None)
    if view.options.min_free is None:
        return
    for partition in event.partitions - history.sizes.keys():
        assignment = view.topics.known_assignment(partition)
        has_replica = assignment is not None and broker in assignment.replicas
        is_missing = has_replica and partition not in event.replicas
        if is_missing and partition in view.reassignments.by_partition:
            view.disks.sizeless.setdefault(partition, set()).add(broker)


def _note_orphan_logs(view: ClusterView, event: records.LogDirsDescribed) -> None:
    # A log is gone if its broker, in its present registration, listed all its directories without
    # it. A failed directory lists nothing, and may have it.
    is_delegated = view.role.engine is EngineName.DELEGATED
    is_complete = not any(directory.is_failed for directory in event.dirs)
    for key, orphan in view.reassignments.orphans.items():
        broker, partition = key
        is_concerned = broker == event.broker and partition in event.partitions
        if not is_concerned or view.is_undeletable(orphan):
            continue
        view.reassignments_tenure.orphan_logs.pop(key, None)
        placed = event.replicas.get(partition)
        if placed is not None:
            view.reassignments_tenure.orphan_logs[key] = placed.directory or ""
        elif is_complete and is_delegated:
            view.due.gone_orphans.add(orphan)


def _take_copied(
    view: ClusterView, partition: TopicPartition, report: SizeReport, now: Instant
) -> None:
    """Note what a leader or an added replica has, and whether a copy made progress."""
    history = view.disks_process
    load = view.reassignments.by_partition[partition].load
    state = view.leadership.states.get(partition)
    if load is None or not load.incoming:
        history.copied.pop(partition, None)
        view.reassignments_tenure.whole_since.pop(partition, None)
        return
    is_added = report.broker in load.incoming
    if not is_added and (state is None or report.broker != state.leader):
        return
    known = history.copied.setdefault(partition, {})
    before = known.get(report.broker)
    known[report.broker] = report.after(before)
    if is_added and report.size > (0 if before is None else before.size):
        view.note_progress(partition, now)
    if state is None or state.leader not in known:
        return
    # Since when do the added replicas have all that the leader has?
    leader, added = known[state.leader], [known[b] for b in load.incoming if b in known]
    slack = APART_S * history.growth.get(partition, 0.0)
    are_all = len(added) == len(load.incoming)
    if are_all and any(abs(report.at - leader.at) > APART_S for report in added):
        return  # They are of different queries: the others follow.
    if are_all and all(report.size >= leader.size - slack for report in added):
        view.reassignments_tenure.whole_since.setdefault(partition, now)
    else:
        view.reassignments_tenure.whole_since.pop(partition, None)


def copies_replaced(
    view: ClusterView, partition: TopicPartition, incoming: Iterable[BrokerId]
) -> None:
    """Forget what the added replicas of an earlier step had."""
    known = view.disks_process.copied.get(partition)
    state = view.leadership.states.get(partition)
    if known is not None and state is not None:
        for broker in known.keys() - {*incoming, state.leader}:
            del known[broker]


def forget_size(view: ClusterView, partition: TopicPartition) -> None:
    """Forget what was known of a partition's size."""
    history = view.disks_process
    history.sizes.pop(partition, None)
    history.measured.pop(partition, None)
    history.growth.pop(partition, None)
    history.queries.new.pop(partition, None)
    history.copied.pop(partition, None)
    view.reassignments_tenure.whole_since.pop(partition, None)
    view.disks.sizeless.pop(partition, None)


# --- replicas in named directories ---------------------------------------------------------------


def _note_silence(view: ClusterView, event: records.LogDirsDescribed, now: Instant) -> None:
    """Note whether a broker describes its directories; wake the entries that wait for them."""
    ledger, broker = view.disks, event.broker
    disk, since = ledger.of(broker), ledger.named.get(broker)
    if event.problem is None:
        disk.silence = None
        ledger.named.pop(broker, None)
    else:
        former = ledger.silence_of(broker, event.broker_epoch)
        begun = now if former is None else former.since
        disk.silence = Silence(
            event.broker_epoch,
            begun,
            event.problem,
            is_refused=event.is_refused,
            is_lasting=since is not None and now - max(begun, since) >= PATIENCE_S,
        )
    if since is not None:
        wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_KNOWN)


def brokers_left(view: ClusterView, left: Iterable[BrokerId]) -> None:
    """Wake the entries that name directories of brokers which are not live any more."""
    for broker in left:
        if view.disks.named.pop(broker, None) is not None:
            wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_KNOWN)


def _take_placements(view: ClusterView, event: records.LogDirsDescribed, now: Instant) -> None:
    placements = view.disks.placements
    for partition in sorted({*placements.placing, *placements.left} & event.partitions):
        since = placements.since(partition)
        if event.broker not in disk_space.placing_brokers(view, partition):
            continue
        if event.problem is None and since is not None and event.at >= since:
            _take_report(view, partition, event, now)
        view.due.add((partition,))


def _take_report(
    view: ClusterView, partition: TopicPartition, event: records.LogDirsDescribed, now: Instant
) -> None:
    placements = view.disks.placements
    replica, placed = placements.of(event.broker, partition), event.replicas.get(partition)
    if replica.report is not None and event.at < replica.report.at:
        return
    replica.report = named.ReplicaReport(event.broker_epoch, event.at, placed)
    before = replica.move
    if partition in placements.left:
        disk_space.reserve(view, partition, now)
    if placed is None or placed.future is None:
        replica.move = None
        if before is not None:
            is_there = placed is not None and placed.directory == before.directory
            replica.restarts = 0 if is_there else replica.restarts + 1
        return
    if before is None or (before.directory, before.size) != (placed.future, placed.future_size):
        replica.move = named.DirectoryMove(placed.future, placed.future_size, event.at)
        if partition in placements.placing:
            view.note_progress(partition, now)


def record_placement_request(view: ClusterView, effect: effects.PlaceReplica, now: Instant) -> None:
    """Note that the directory of a replica is requested."""
    epoch = view.registration_of(effect.broker)
    if epoch is not None:
        replica = view.disks.placements.of(effect.broker, effect.partition)
        replica.request = named.PlacementRequest(epoch, effect.directory, now)


def _log_dirs_altered(view: ClusterView, event: records.LogDirsAltered, now: Instant) -> None:
    placements, epoch = view.disks.placements, event.broker_epoch
    for result in event.results:
        replica = placements.known(event.broker, result.partition, epoch)
        if replica.request is None or replica.request.directory != result.directory:
            continue
        replica = placements.of(event.broker, result.partition)
        replica.request = None
        view.due.add(p for p in (result.partition,) if p in view.reassignments.by_partition)
        if view.registration_of(event.broker) != epoch:
            continue
        why: str | None = None
        if result.error != kafka_errors.NONE and result.error not in named.NOT_THERE:
            why = result.why or named.ERRORS.get(result.error, f"error {result.error}")
        is_lost = result.error == named.NO_ANSWER
        replica.answer = named.PlacementAnswer(epoch, result.directory, now, why, is_lost=is_lost)


def reflect_phase(view: ClusterView, partition: TopicPartition, at: Instant) -> None:
    """Follow a reassignment into the phase ``Placing`` and out of it."""
    placements = view.disks.placements
    reassignment = view.reassignments.by_partition.get(partition)
    if reassignment is not None and isinstance(reassignment.phase, phases.Placing):
        if partition not in placements.placing:
            placements.placing[partition] = at
            placements.forget(partition, reassignment.spec.placed_brokers)
            wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_AWAITED)
        return
    placements.gated.pop(partition, None)
    if placements.placing.pop(partition, None) is not None and reassignment is not None:
        spec = reassignment.spec
        placements.forget(partition, {*spec.placed_brokers, *spec.unplaced})


def reflect_spec(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Have the replicas of a partition reported again: its directories may be others."""
    if partition in view.disks.placements.placing:
        view.disks.placements.placing[partition] = now
        wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_AWAITED)


def reflect_end(view: ClusterView, partition: TopicPartition, ended: Reassignment) -> None:
    """Forget the replicas of a reassignment that is gone."""
    placements = view.disks.placements
    placements.placing.pop(partition, None)
    placements.gated.pop(partition, None)
    placements.forget(partition, ended.spec.placed_brokers)


def reflect_blocked(view: ClusterView, partition: TopicPartition) -> None:
    """Have a partition examined again that waits for a directory."""
    view.disks.placements.gated[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.DIRECTORIES_AWAITED)


def examine_waiting(view: ClusterView) -> None:
    """Have the partitions examined that wait for directories; forget the others."""
    placements = view.disks.placements
    placements.gated = {p: None for p in placements.gated if p in view.reassignments.by_partition}
    view.due.add(placements.placing)
    view.due.add(placements.gated)
