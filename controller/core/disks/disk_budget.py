"""
The room on disks in one cycle: which copies may begin, counted down as steps are planned.

Where the broker chooses the directory, every directory that it could choose must have room. Where
the room is short, few copies begin at a time: copies that share a throttle all end late, and only a
copy that has ended frees space elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.core.disks.disk_space import (
    deleted_logs_gate,
    directory_for,
    report_gate,
    volume_of,
)
from controller.core.disks.log_dir_queries import ROOM_REFRESH_S
from controller.core.disks.model import DELETE_DELAY_S, BrokerDisk
from controller.core.disks.partition_sizes import has_no_log, throttle_rate
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
from controller.core.pacing.throttle_settings import FOLLOWER_RATE
from controller.core.view import ClusterView

UNTHROTTLED_RATE: Final = 10_000_000
"""Bytes per second that a broker without a throttle copies at least: a bound for the time."""
COPY_TIME_MAX_S: Final = 86_400.0
"""The longest time for which growth is reserved; reports correct it meanwhile."""
SHORT_S: Final = 3 * DELETE_DELAY_S
"""
The room is short if it is less than what a broker copies in this time, at its throttle.

What many copies drop at once is free at once, after the delay of deletions: until then, the broker
may have no room. Where it begins them one after the other in time, it frees as much as it copies.
"""
BUSY_S: Final = 2.5 * ROOM_REFRESH_S
"""
Where the room is short, copies in progress that last for so long are enough.

The next report shows their progress, and others may begin, before these have ended.
"""
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
    good = disk.directories
    if any(d.logs is None for d in good):
        return dict.fromkeys((d.path for d in good), 0)
    deleted = len(disk.deletions) + disk.leaving
    return {
        d.path: sum(max(0, _count(d) - deleted - _count(o)) for o in good if o is not d)
        for d in good
    }


def _count(directory: LogDir) -> int:
    return directory.logs or 0


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
    """Whether its copies make progress."""
    rate: int
    """Bytes per second that it copies at least."""
    age_s: float
    """The age of its report."""
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

        Args:
            size: Bytes of the copy.
            growth: Bytes per second that producers add to it.
            path: The directory that takes it; None: the broker chooses.
            is_new: Whether the broker has no log of it yet, which could be in any directory.

        """
        time_s = self.age_s + min((self.left + size) / self.rate, COPY_TIME_MAX_S)
        for room in self.rooms:
            if path is None:
                may_take = room.after <= self.placed or not is_new
            else:
                may_take = room.path == path
            if not may_take or room.free is None:
                continue
            if room.free - (room.growth + growth) * time_s < size:
                return room
        return None


class DiskBudget:
    """The room on disks in one cycle, counted down as steps are planned."""

    def __init__(self, view: ClusterView, now: Instant, min_free: MinFree) -> None:
        """Begin with the ledger; a broker is added up with its first copy."""
        self._view = view
        self._now = now
        self._min_free = min_free
        self._brokers: dict[BrokerId, _BrokerRoom] = {}
        self.lacking: set[BrokerId] = set()
        """Brokers without room for a step of this cycle."""

    def gate(self, partition: TopicPartition, adding: Replicas) -> Blocked | None:
        """Return why the disks of the added replicas cannot take the copies now."""
        history, reassignments = self._view.disks_process, self._view.reassignments
        size = history.sizes.get(partition)
        if size is None:
            if has_no_log(self._view, partition):
                return None
            return Blocked(BlockedBy.DISK_UNKNOWN, "its size is not measured yet")
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
                return _no_room(broker, known, room, size, growth, self._min_free)
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
        rate = throttle_rate(view, broker, FOLLOWER_RATE) or UNTHROTTLED_RATE
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


def _no_room(  # noqa: PLR0913, PLR0917 - the facts of one copy
    broker: BrokerId,
    known: _BrokerRoom,
    room: _Room,
    size: int,
    growth: float,
    min_free: MinFree,
) -> Blocked:
    time_s = known.age_s + min((known.left + size) / known.rate, COPY_TIME_MAX_S)
    free = max(0.0, (room.free or 0.0) - (room.growth + growth) * time_s)
    detail = f"{_show(size)} needed, {_show(free)} free above min_free ({min_free})"
    return Blocked(BlockedBy.DISK_FULL, f"broker {broker}, {room.path}: {detail}")


def _show(amount: float) -> str:
    return f"{amount / GB:.3g} GB"
