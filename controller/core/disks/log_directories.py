"""
Log directories that entries name: what reports and answers of brokers show of them (KIP-113).

An entry is refused whose directories cannot be used; it waits until their brokers reported them.
In the phase ``Placing``, it is noted where brokers have the replicas. ``log_dir_queries`` has when
brokers are queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controller import kafka_errors
from controller.core import effects, wakeups
from controller.core.disks import disk_reservations
from controller.core.disks import placements as named
from controller.core.disks.model import Silence
from controller.core.disks.records import LogDirsAltered, LogDirsDescribed
from controller.core.model import BrokerId, Instant, LogDirs, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.model import Reassignment
from controller.core.view import ClusterView

PATIENCE_S: Final = 30.0
"""How long an entry waits for a broker that does not report its directories."""


def directories_of(view: ClusterView, broker: BrokerId) -> Mapping[str, bool] | None:
    """Return the directories of a live broker, and whether each failed; None: not known."""
    return view.disks.dirs_of(broker, view.registration_of(broker))


# --- entries to be accepted ----------------------------------------------------------------------


def unknown_brokers(view: ClusterView, log_dirs: LogDirs) -> set[BrokerId]:
    """Return the live brokers whose directories have to be known to judge these."""
    return {
        broker
        for broker, _ in log_dirs
        if broker in view.cluster.brokers
        and directories_of(view, broker) is None
        and _lasting_silence(view, broker) is None
    }


def problem_of(view: ClusterView, log_dirs: LogDirs) -> str | None:
    """Return why replicas cannot be in these directories, as far as it is known."""
    for broker, path in log_dirs:
        if broker not in view.cluster.brokers:
            return f"broker {broker} is not live, so its log directory {path} cannot be used"
        known, why = directories_of(view, broker), _lasting_silence(view, broker)
        if known is not None:
            if path not in known:
                return f"broker {broker} has no log directory {path}"
            if known[path]:
                return f"log directory {path} of broker {broker} is offline"
        elif why is not None:
            return f"broker {broker} does not report its log directories: {why}"
    return None


def _lasting_silence(view: ClusterView, broker: BrokerId) -> str | None:
    silence = view.disks.silence_of(broker, view.registration_of(broker))
    return silence.why if silence is not None and silence.is_lasting else None


# --- what is folded into the view ----------------------------------------------------------------


def entries_concerned(view: ClusterView, event: LogDirsDescribed, now: Instant) -> None:
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


def placements_described(view: ClusterView, event: LogDirsDescribed, now: Instant) -> None:
    """Note where a broker has the replicas that are to be in named directories."""
    placements = view.disks.placements
    for partition in sorted({*placements.placing, *placements.left} & event.partitions):
        since = placements.since(partition)
        if event.broker not in disk_reservations.placing_brokers(view, partition):
            continue
        if event.problem is None and since is not None and event.at >= since:
            _take_report(view, partition, event, now)
        view.due.add((partition,))


def _take_report(
    view: ClusterView, partition: TopicPartition, event: LogDirsDescribed, now: Instant
) -> None:
    placements = view.disks.placements
    replica, placed = placements.of(event.broker, partition), event.replicas.get(partition)
    if replica.report is not None and event.at < replica.report.at:
        return
    replica.report = named.ReplicaReport(event.broker_epoch, event.at, placed)
    before = replica.move
    if partition in placements.left:
        disk_reservations.reserve(view, partition, now)
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


def log_dirs_altered(view: ClusterView, event: LogDirsAltered, now: Instant) -> None:
    """Take the answers about directories of replicas."""
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
