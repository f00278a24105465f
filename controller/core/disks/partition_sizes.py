"""
Partition sizes: the growth and the progress of copies that reports of brokers show.

The size of a partition is that of its leader's replica, which copies are made from, or that of the
last leader that reported. Until a leader did, it is that of a replica in sync.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from controller.core import wakeups
from controller.core.disks.model import SizeReport
from controller.core.disks.records import LogDirsDescribed
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.options import EngineName
from controller.core.pacing import throttle_settings
from controller.core.view import ClusterView

GROWTH_AFTER_S: Final = 5.0
"""Two sizes that are closer in time give no rate."""
APART_S: Final = 2.0
"""How far apart the reports of leader and follower may be that are compared, in seconds."""


# --- what is folded into the view --------------------------------------------------------------


def size_wanted(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Note a new reassignment."""
    times = view.disks_process.queries
    if not times.new:
        times.new_since = now
    if partition not in view.disks_process.sizes:
        times.new[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.SIZE_WANTED)


def sizes_described(view: ClusterView, event: LogDirsDescribed, now: Instant) -> None:
    """Take sizes as a broker reported them, the growth since, and the progress of copies."""
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


def note_missing(view: ClusterView, event: LogDirsDescribed) -> None:
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


def has_no_log(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether each broker with a replica is live and reported that it has no log."""
    assignment = view.topics.known_assignment(partition)
    without = view.disks.sizeless.get(partition, set())
    replicas = () if assignment is None else assignment.replicas
    return bool(replicas) and all(r in without and r in view.cluster.brokers for r in replicas)


def note_orphan_logs(view: ClusterView, event: LogDirsDescribed) -> None:
    """
    Note where the logs of orphans stand, and which are gone.

    A log is gone if its broker, in its present registration, listed all its directories without it.
    A failed directory lists nothing, and may have it.
    """
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
    before, known[report.broker] = known.get(report.broker), report
    if is_added and report.size > (0 if before is None else before.size):
        view.note_progress(partition, now)
    if state is None or state.leader not in known:
        return
    added = [known[b] for b in load.incoming if b in known]
    if len(added) == len(load.incoming):
        _note_whole(view, partition, known[state.leader], added, now)
    else:
        view.reassignments_tenure.whole_since.pop(partition, None)


def _note_whole(
    view: ClusterView,
    partition: TopicPartition,
    leader: SizeReport,
    added: Iterable[SizeReport],
    now: Instant,
) -> None:
    """Note since when the added replicas have all that the leader has."""
    slack = APART_S * view.disks_process.growth.get(partition, 0.0)
    if any(abs(report.at - leader.at) > APART_S for report in added):
        return  # They are of different queries: the others follow.
    if all(report.size >= leader.size - slack for report in added):
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


# --- throttles that copies cannot keep up with -------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlowThrottle:
    """A broker whose throttle is below the produce rate of what it copies or serves."""

    broker: BrokerId
    receives: bool
    """Whether it receives the copies; else it serves them."""
    rate: int
    """Bytes per second that the throttle allows."""
    growth: float
    """Bytes per second that producers add."""

    def __str__(self) -> str:
        does = "receives copies" if self.receives else "serves copies"
        return (
            f"broker {self.broker} {does} at {self.rate} bytes/s by its throttle, while producers "
            f"send {self.growth:.0f} bytes/s to the same partitions: they may never be in sync"
        )


def slow_throttles(
    view: ClusterView, in_flight: Iterable[TopicPartition]
) -> tuple[SlowThrottle, ...]:
    """
    Return the throttles below the produce rate of the partitions copied under them.

    Args:
        view: Everything known.
        in_flight: The partitions with a step in flight.

    """
    history, reassignments = view.disks_process, view.reassignments
    if not view.pacing_process.applied_throttles and not view.pacing_leadership.kept_throttles:
        return ()
    grown: dict[tuple[BrokerId, bool], float] = {}
    for partition in in_flight:
        growth = history.growth.get(partition)
        reassignment = reassignments.by_partition.get(partition)
        load = None if reassignment is None else reassignment.load
        if load is None or growth is None:
            continue
        for broker in load.incoming:
            grown[broker, True] = grown.get((broker, True), 0.0) + growth
            if load.outgoing is not None:
                grown[load.outgoing, False] = grown.get((load.outgoing, False), 0.0) + growth
    slow = []
    for (broker, receives), growth in sorted(grown.items()):
        key = throttle_settings.FOLLOWER_RATE if receives else throttle_settings.LEADER_RATE
        rate = throttle_rate(view, broker, key)
        if rate is not None and growth > rate:
            slow.append(SlowThrottle(broker, receives, rate, growth))
    return tuple(slow)


def throttle_rate(view: ClusterView, broker: BrokerId, key: str) -> int | None:
    """Return a broker's throttle in bytes per second; None where it has none."""
    config = view.pacing_leadership.entity_configs.get(throttle_settings.broker_entity(broker))
    text = config.values.get(key, "") if isinstance(config, throttle_settings.EntityConfig) else ""
    return int(text) if text.isascii() and text.isdigit() else None
