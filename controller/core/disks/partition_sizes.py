"""
Partition sizes: when to request them, and the growth and progress they show.

New reassignments soon, all of them from time to time, and those being copied more often: the bytes
of their new replicas show their progress. Only the space guard waits for an unknown size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.core import effects, wakeups
from controller.core.disks import records
from controller.core.model import NO_BROKERS, BrokerId, Instant, TopicPartition
from controller.core.options import EngineName
from controller.core.pacing import applied_throttles
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

SOON_S: Final = 1.0
"""The delay in which new partitions are collected: requests are accepted in chunks."""
GUARDED_SOON_S: Final = 0.1
"""The time between two such requests where steps wait for sizes; the first has no delay."""
FEW: Final = 1_000
"""Of so many new partitions only the brokers are queried that have replicas, or are to."""
GROWTH_AFTER_S: Final = 5.0
"""Two sizes that are closer in time give no rate."""
ROOM_REFRESH_S: Final = 2.0
"""Interval at which brokers without room for a copy are queried."""
STIRRED_S: Final = 120.0
"""
After so long without a copy or a deletion, such a broker is queried once per ``copy_refresh``.

That is twice the time for which brokers keep a deleted log, unless they are configured otherwise.
"""
APART_S: Final = 2.0
"""How far apart the reports of leader and follower may be that are compared, in seconds."""


def follow_sizes(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Request the sizes of the partitions in work."""
    work = view.work
    if not (due.sizes or due.timer) or not view.role.leading or not view.reassignments.by_partition:
        return Decision()
    is_guarded = view.options.min_free is not None
    soon = Instant(work.sizes_requested_at + GUARDED_SOON_S)
    if not is_guarded:
        soon = Instant(work.unmeasured_since + SOON_S)
    refresh = Instant(now + view.options.size_refresh_s)
    if now >= work.measure_at:
        effect = effects.MeasureSizes(tuple(view.reassignments.by_partition), whole=is_guarded)
        return Decision(effects=(effect, effects.SetTimer(wakeups.SIZES_TIMER, refresh)))
    following: list[effects.Effect] = []
    copying = _copying(view) if now >= work.copies_at else ()
    if copying:
        following.append(effects.MeasureSizes(copying, copies=True))
    if work.unmeasured and now >= soon:
        of = _brokers_of_new(view)
        following.append(effects.MeasureSizes(tuple(work.unmeasured), brokers=of))
    at = min(soon, work.measure_at) if work.unmeasured and now < soon else work.measure_at
    later = Instant(now + view.options.copy_refresh_s)
    at = min(at, work.copies_at if now < work.copies_at else later)
    return Decision(effects=(*following, effects.SetTimer(wakeups.SIZES_TIMER, at)))


def _brokers_of_new(view: ClusterView) -> frozenset[BrokerId]:
    """Return the brokers of the replicas of new partitions, none where all are to be queried."""
    if len(view.work.unmeasured) > FEW:
        return NO_BROKERS
    found: set[BrokerId] = set()
    for partition in view.work.unmeasured:
        assignment = view.topics.assignment(partition)
        reassignment = view.reassignments.by_partition.get(partition)
        if assignment is None or reassignment is None:
            return NO_BROKERS
        found.update(assignment.replicas, reassignment.spec.target)
    return frozenset(found)


def measure_room(view: ClusterView, lacking: frozenset[BrokerId], now: Instant) -> Decision:
    """
    Query the brokers whose disks have no room for a copy: one may begin as soon as there is.

    Args:
        view: Everything known.
        lacking: The brokers that a step of this cycle could not be given.
        now: The present instant.

    """
    work, disks = view.work, view.tenure.disks.brokers
    every = min(ROOM_REFRESH_S, view.options.copy_refresh_s)
    # Logs are counted less often: a broker with several directories lists all of them for that.
    whole = now >= work.counts_at
    requested = frozenset(
        b for b in lacking if whole or (b in disks and now < disks[b].stirred + STIRRED_S)
    )
    if now < work.room_at or not requested:
        at = work.room_at if requested else work.counts_at
        return Decision(effects=(effects.SetTimer(wakeups.ROOM_TIMER, at),))
    copied = dict.fromkeys(p for b in requested if b in disks for p in disks[b].copies)
    effect = effects.MeasureSizes(tuple(copied), copies=True, whole=whole, brokers=requested)
    return Decision(effects=(effect, effects.SetTimer(wakeups.ROOM_TIMER, Instant(now + every))))


def _copying(view: ClusterView) -> tuple[TopicPartition, ...]:
    """Return the partitions whose step in flight copies something, those of others included."""
    if not view.pacing.in_flight and not view.requests.foreign_count:
        return ()
    assigned = (
        (p, r, view.topics.known_assignment(p))
        for p, r in view.reassignments.by_partition.items()
        if r.in_flight
    )
    return tuple(p for p, r, known in assigned if known is not None and r.receivers(known))


# --- what is folded into the view --------------------------------------------------------------


def size_wanted(view: ClusterView, partition: TopicPartition, now: Instant) -> None:
    """Note a new reassignment."""
    work = view.work
    if not work.unmeasured:
        work.unmeasured_since = now
    if partition not in work.sizes:
        work.unmeasured[partition] = None
    wakeups.wake(view.due, wakeups.Trigger.SIZE_WANTED)


def record_size_request(view: ClusterView, effect: effects.MeasureSizes, now: Instant) -> None:
    """Note that sizes were requested."""
    work = view.work
    if effect.orphans:
        view.reassignments_tenure.orphans_requested_at = now
        return
    if effect.copies and effect.brokers:
        work.room_at = Instant(now + min(ROOM_REFRESH_S, view.options.copy_refresh_s))
        if effect.whole:
            work.counts_at = Instant(now + view.options.copy_refresh_s)
        return
    if effect.copies:
        work.copies_at = Instant(now + view.options.copy_refresh_s)
        return
    if now >= work.measure_at:
        work.measure_at = Instant(now + view.options.size_refresh_s)
        work.copies_at = Instant(now + view.options.copy_refresh_s)
    work.sizes_requested_at = now
    for partition in effect.partitions:
        work.unmeasured.pop(partition, None)


def sizes_read(view: ClusterView, event: records.SizesRead, now: Instant) -> None:
    """Take sizes as reported and the growth since; forget those of ended reassignments."""
    work, reassignments = view.work, view.reassignments
    _note_orphan_logs(view, event)
    # An answer may wait for those of other brokers: its age would distort the growth.
    measured_at = max((report.at for report in event.disks.values()), default=now)
    for partition in [p for p in work.sizes if p not in reassignments.by_partition]:
        forget_size(view, partition)
    for partition in event.sizes:
        reassignment = reassignments.by_partition.get(partition)
        if reassignment is None:
            continue
        if not reassignment.in_flight:
            wakeups.wake(view.due, wakeups.Trigger.PENDING_MEASURED)
        _note_copied(view, partition, event, now)
        size = _size_of(view, partition, event)
        if size is None:
            continue
        work.sizes[partition] = size
        at, before = work.measured.setdefault(partition, (measured_at, size))
        if measured_at - at >= GROWTH_AFTER_S:
            # Less than before: retention or compaction removed more than producers sent.
            work.growth[partition] = max(0, size - before) / (measured_at - at)
            work.measured[partition] = (measured_at, size)


def _note_orphan_logs(view: ClusterView, event: records.SizesRead) -> None:
    """
    Note where the logs of orphans stand, and which are gone.

    A log is gone if its broker, in its present registration, listed all its directories without it.
    A failed directory lists nothing, and may have it.
    """
    is_delegated = view.role.engine is EngineName.DELEGATED
    for key, orphan in view.reassignments.orphans.items():
        broker, partition = key
        disks, registered = event.disks.get(broker), view.cluster.brokers.get(broker)
        if disks is None or registered is None or disks.epoch != registered.epoch:
            continue
        if broker in event.errors or view.is_undeletable(orphan):
            continue
        is_detailed = partition in event.replicas or partition in event.unmeasured
        if not is_detailed:
            continue
        view.reassignments_tenure.orphan_logs.pop(key, None)
        if broker in event.replicas.get(partition, {}):
            paths = [directory.path for directory in disks.dirs]
            listed = event.placed.get(partition, {}).get(broker)
            view.reassignments_tenure.orphan_logs[key] = listed or (
                paths[0] if len(paths) == 1 else ""
            )
        elif not any(directory.is_failed for directory in disks.dirs) and is_delegated:
            view.due.gone_orphans.add(orphan)


def _size_of(view: ClusterView, partition: TopicPartition, event: records.SizesRead) -> int | None:
    """
    Return the size as reported; None if no broker with the whole log reported it.

    A copy in progress has less than the log. Where not all brokers with the whole log answered, the
    size is at least the former one: a log does not shrink because its leader is silent.
    """
    known = view.work.sizes.get(partition)
    state, assignment = (
        view.leadership.states.get(partition),
        view.topics.known_assignment(partition),
    )
    whole = state.isr if state is not None else ()
    if state is None and assignment is not None:
        whole = tuple(r for r in assignment.replicas if r not in assignment.adding_replicas)
    held = event.replicas.get(partition)
    if held is None:
        answered = [r for r in whole if has_answered(view, event, r)]
    else:
        answered = [r for r in whole if r in held]
    if not answered:
        return known
    size = event.sizes[partition]
    return size if len(answered) == len(whole) else max(size, known or 0)


def has_answered(view: ClusterView, event: records.SizesRead, broker: BrokerId) -> bool:
    """Return whether a broker is live and reported what it has."""
    is_requested = not event.requested or broker in event.requested
    return is_requested and broker in view.cluster.brokers and broker not in event.errors


def _note_copied(
    view: ClusterView, partition: TopicPartition, event: records.SizesRead, now: Instant
) -> None:
    """Note that a copy made progress where the added replicas hold more bytes than before."""
    work = view.work
    load, held = view.reassignments.by_partition[partition].load, event.replicas.get(partition, {})
    if load is not None and event.requested and not event.requested.issuperset(load.incoming):
        return
    if load is None or not load.incoming or not held:
        work.copied.pop(partition, None)
        view.reassignments_tenure.whole_since.pop(partition, None)
        return
    copied = sum(held.get(broker, 0) for broker in load.incoming)
    if copied > work.copied.get(partition, 0):
        view.note_progress(partition, now)
    work.copied[partition] = copied
    _note_whole(view, partition, load.incoming, held, now)


def _note_whole(
    view: ClusterView,
    partition: TopicPartition,
    incoming: Collection[BrokerId],
    held: Mapping[BrokerId, int],
    now: Instant,
) -> None:
    """Note since when the added replicas have all that the leader has, if it reported as well."""
    state = view.leadership.states.get(partition)
    whole = None if state is None else held.get(state.leader)
    if whole is None:
        return
    slack = view.work.growth.get(partition, 0.0) * APART_S
    if all(held.get(broker, -1) >= whole - slack for broker in incoming):
        view.reassignments_tenure.whole_since.setdefault(partition, now)
    else:
        view.reassignments_tenure.whole_since.pop(partition, None)


def forget_size(view: ClusterView, partition: TopicPartition) -> None:
    """Forget what was known of a partition's size."""
    work = view.work
    work.sizes.pop(partition, None)
    work.measured.pop(partition, None)
    work.growth.pop(partition, None)
    work.unmeasured.pop(partition, None)
    work.copied.pop(partition, None)
    view.reassignments_tenure.whole_since.pop(partition, None)


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
    work, reassignments = view.work, view.reassignments
    if not view.pacing_process.applied_throttles and not view.pacing_leadership.kept_throttles:
        return ()
    grown: dict[tuple[BrokerId, bool], float] = {}
    for partition in in_flight:
        growth = work.growth.get(partition)
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
        key = applied_throttles.FOLLOWER_RATE if receives else applied_throttles.LEADER_RATE
        rate = throttle_rate(view, broker, key)
        if rate is not None and growth > rate:
            slow.append(SlowThrottle(broker, receives, rate, growth))
    return tuple(slow)


def throttle_rate(view: ClusterView, broker: BrokerId, key: str) -> int | None:
    """Return a broker's throttle in bytes per second; None where it has none."""
    config = view.pacing_leadership.entity_configs.get(applied_throttles.broker_entity(broker))
    text = config.values.get(key, "") if isinstance(config, applied_throttles.EntityConfig) else ""
    return int(text) if text.isascii() and text.isdigit() else None
