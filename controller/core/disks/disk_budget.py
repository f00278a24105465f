"""
The room on disks in one cycle: which copies may begin, counted down as steps are planned.

Where the broker chooses the directory, every directory that it could choose must have room. Where
the room is short, few copies begin at a time: copies that share a throttle all end late, and only a
copy that has ended frees space elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from controller.core.disks.disk_space import (
    deleted_logs_gate,
    directory_for,
    report_gate,
)
from controller.core.disks.log_dir_queries import ROOM_REFRESH_S
from controller.core.disks.log_volumes import DELETE_DELAY_S, volume_of
from controller.core.disks.model import BrokerDisk
from controller.core.model import (
    GB,
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    LogDir,
    MinFree,
    Replicas,
    TopicPartition,
)
from controller.core.pacing import throttle_settings
from controller.core.view import ClusterView

UNTHROTTLED_RATE: Final = 10_000_000
"""Bytes per second that a broker without a throttle copies at least: a bound for the time."""
COPY_TIME_MAX_S: Final = 86_400.0
"""The longest time for which growth is reserved; reports correct it meanwhile."""
SHORT_S: Final = 3 * DELETE_DELAY_S
"""
The room is short if it is less than what a broker copies in this time, at its throttle.

What many copies drop is free after the delay of deletions only: until then, the broker may have no
room. Where it begins them one after the other, it frees as much as it copies.
"""
BUSY_S: Final = 2.5 * ROOM_REFRESH_S
"""Where the room is short, copies that last so long are enough: others begin by the next report."""
SPARE_PLACEMENTS: Final = 1
"""Logs that others may create on a broker after it counted them."""
FRESH_S: Final = 1.0
"""
The age of a count until which there are none: a copy would otherwise wait for ever.

That is where the directory with the fewest logs has one less than a full one. Should another log
come first nevertheless, the copy is taken back before the directory is full.
"""


def placements_before(disk: BrokerDisk) -> dict[str, int]:
    """
    Return how many new logs a broker places elsewhere before it chooses each directory.

    It chooses the one with the fewest logs. Every new log raises a directory that has fewer, and
    every deleted log lowers one. Where logs are not counted, any directory may be next.
    """
    counts = {d.path: d.logs for d in disk.directories}
    known = [count for count in counts.values() if count is not None]
    if len(known) < len(counts):
        return dict.fromkeys(counts, 0)
    deleted = len(disk.deletions) + disk.leaving
    return {
        path: sum(max(0, (count or 0) - deleted - other) for other in known)
        for path, count in counts.items()
    }


@dataclass(slots=True)
class _Room:
    """The room in one directory, counted down in one cycle."""

    path: str
    volume: tuple[str, ...]
    """The directories that share its volume."""
    free: float | None
    """Bytes above ``min_free`` without what copies take; None where they are unknown."""
    growth: float
    """Bytes per second that producers add, to copies as well."""
    after: int
    """Logs that the broker places elsewhere before."""


@dataclass(slots=True)
class _BrokerRoom:
    """The room of one broker in one cycle."""

    rooms: tuple[_Room, ...]
    unknown: Blocked | None
    """Why the room has to be measured first."""
    left: int
    """Bytes that its copies still take."""
    under_way: float
    """Bytes that those in progress still have to copy, at its rate since the report."""
    is_copying: bool
    rate: int
    """Bytes per second that it copies at least."""
    age_s: float
    placed: int
    """Logs that the broker may place before the next one."""

    def take(self, size: int, growth: float, path: str | None) -> None:
        """Count a copy that begins in this cycle, in a directory or wherever the broker puts it."""
        self.left += size
        self.under_way += size
        self.is_copying = True
        self.placed += path is None
        for room in self.rooms:
            if path is None or path in room.volume:
                room.growth += growth
                if room.free is not None:
                    room.free -= size

    @property
    def is_busy(self) -> bool:
        """Whether the copies in progress are enough where the room is short."""
        return self.is_copying and self.under_way >= self.rate * BUSY_S

    def is_short(self, size: int, path: str | None) -> bool:
        """Return whether a copy leaves little room in a directory that may take it."""
        spare = size + self.rate * SHORT_S
        return any(
            room.free is not None and room.free < spare
            for room in self.rooms
            if path is None or room.path == path
        )

    def full(self, size: int, growth: float, path: str | None, *, is_new: bool) -> _Room | None:
        """
        Return a directory that may take a copy and has no room for it.

        Where ``path`` is None the broker chooses; ``is_new``: it has no log of the partition yet,
        which could be in any directory.
        """
        for room in self.rooms:
            if path is None:
                may_take = room.after <= self.placed or not is_new
            else:
                may_take = room.path == path
            if may_take and room.free is not None and self.free_after(room, size, growth) < size:
                return room
        return None

    def free_after(self, room: _Room, size: int, growth: float) -> float:
        """Return the free bytes of a directory, less its growth while such a copy takes place."""
        time_s = self.age_s + min((self.left + size) / self.rate, COPY_TIME_MAX_S)
        return (room.free or 0.0) - (room.growth + growth) * time_s


class DiskBudget:
    """The room on disks in one cycle, counted down as steps are planned."""

    def __init__(self, view: ClusterView, now: Instant, min_free: MinFree) -> None:
        self._view = view
        self._now = now
        self._min_free = min_free
        self._brokers: dict[BrokerId, _BrokerRoom] = {}
        self.lacking: set[BrokerId] = set()

    def gate(self, partition: TopicPartition, adding: Replicas) -> Blocked | None:
        """Return why the disks of the added replicas cannot take the copies now."""
        history, reassignments = self._view.disks_process, self._view.reassignments
        size = history.sizes.get(partition)
        if size is None:
            unknown = Blocked(BlockedBy.DISK_UNKNOWN, "its size is not measured yet")
            return None if _has_no_log(self._view, partition) else unknown
        growth = history.growth.get(partition, 0.0)
        for broker in adding:
            known = self._brokers.get(broker) or self._of(broker)
            if known.unknown is not None:
                return known.unknown
            path = directory_for(self._view, broker, partition)
            is_new = not reassignments.orphans or (broker, partition) not in reassignments.orphans
            room = known.full(size, growth, path, is_new=is_new)
            if room is not None:
                self.lacking.add(broker)
                free = max(0.0, known.free_after(room, size, growth))
                detail = f"{_show(size)} needed, {_show(free)} free above min_free"
                detail = f"broker {broker}, {room.path}: {detail} ({self._min_free})"
                return Blocked(BlockedBy.DISK_FULL, detail)
            if known.is_busy and known.is_short(size, path):
                self.lacking.add(broker)
                detail = f"broker {broker} has little room, and copies in progress: they end first"
                return Blocked(BlockedBy.DISK_FULL, detail)
        return None

    def take(self, partition: TopicPartition, adding: Replicas) -> None:
        """Count a step that begins in this cycle."""
        history = self._view.disks_process
        size, growth = history.sizes.get(partition, 0), history.growth.get(partition, 0.0)
        for broker in adding:
            known = self._brokers.get(broker) or self._of(broker)
            known.take(size, growth, directory_for(self._view, broker, partition))

    def _of(self, broker: BrokerId) -> _BrokerRoom:
        view, now = self._view, self._now
        disk = view.disks.known(broker)
        after = placements_before(disk)
        report = disk.report
        rooms = tuple(self._room(disk, d, after[d.path]) for d in disk.directories)
        sums = (disk.unplaced, *disk.reserved.values())
        rate = throttle_rate(view, broker, throttle_settings.FOLLOWER_RATE) or UNTHROTTLED_RATE
        age_s = 0.0 if report is None else max(0.0, now - report.at)
        unknown = report_gate(view, broker, now)
        if unknown is None:
            unknown = deleted_logs_gate(view, broker, now)
            if unknown is not None:
                self.lacking.add(broker)
        known = self._brokers[broker] = _BrokerRoom(
            rooms,
            unknown,
            left=sum(s.bytes for s in sums),
            under_way=max(0.0, sum(c.left for c in disk.copies.values()) - rate * age_s),
            is_copying=disk.is_copying,
            rate=rate,
            age_s=age_s,
            placed=disk.placed_since
            + (0 if now <= disk.counted_at + FRESH_S else SPARE_PLACEMENTS),
        )
        return known

    def _room(self, disk: BrokerDisk, directory: LogDir, after: int) -> _Room:
        volume = volume_of(directory, disk.directories)
        growth = max(disk.growth.get(path, 0.0) for path in volume) + disk.unplaced.growth
        taken = disk.unplaced.bytes
        for path in volume:
            known = disk.reserved.get(path)
            if known is not None:
                taken, growth = taken + known.bytes, growth + known.growth
        if directory.usable is None:
            return _Room(directory.path, volume, None, growth, after)
        if directory.is_estimate:
            taken += disk.still_kept(self._now)
        free = directory.usable - taken - self._min_free.of(directory.total)
        return _Room(directory.path, volume, free, growth, after)


def _show(amount: float) -> str:
    return f"{amount / GB:.3g} GB"


def _has_no_log(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether each broker with a replica is live and reported that it has no log."""
    assignment = view.topics.known_assignment(partition)
    without = view.disks.sizeless.get(partition, set())
    replicas = () if assignment is None else assignment.replicas
    return bool(replicas) and all(r in without and r in view.cluster.brokers for r in replicas)


# --- throttles that copies cannot keep up with ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlowThrottle:
    """A broker whose throttle is below the produce rate of what it copies or serves."""

    broker: BrokerId
    receives: bool
    """Whether it receives the copies; else it serves them."""
    rate: int
    growth: float

    def __str__(self) -> str:
        does = "receives copies" if self.receives else "serves copies"
        return (
            f"broker {self.broker} {does} at {self.rate} bytes/s by its throttle, while producers "
            f"send {self.growth:.0f} bytes/s to the same partitions: they may never be in sync"
        )


def slow_throttles(
    view: ClusterView, in_flight: Iterable[TopicPartition]
) -> tuple[SlowThrottle, ...]:
    """Return the throttles below the produce rate of the partitions copied under them."""
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
