"""
The ledger of disks: what brokers reported of their log directories, and what copies still take.

A broker has one report, the last one, whatever it was queried for: its directories, their free
space, and whether they failed. It proves nothing of a later registration.

Every copy of a step in flight reserves the bytes that were not copied when its broker last reported
its free space. A copy that ends keeps its reservation until a later report, which then includes it:
what was reported before the end shows too much room.

Invariant: ``BrokerDisk.reserved`` and ``unplaced`` equal a recount over the copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple

from controller.core.bases import Ledger, Lifetime
from controller.core.disks.log_volumes import DELETE_DELAY_S
from controller.core.disks.placements import Placements
from controller.core.model import (
    START,
    BrokerDisks,
    BrokerEpoch,
    BrokerId,
    Instant,
    LogDir,
    TopicPartition,
)

NEVER: Final = Instant(-math.inf)
GROWTH_AFTER_S: Final = 5.0
"""Two reports that are closer in time give no rate."""
SPEED_AFTER_S: Final = 2.0
"""The time between two reports from which the speed of a copy is measured, in seconds."""
GROWTH_HALVES_S: Final = 60.0
"""A rate that is not seen again halves in this time: producers send in bursts."""
KEPT_S: Final = DELETE_DELAY_S + 5.0
"""How long its bytes count: the broker begins to delete with the delay, or learned of it later."""


class SizeReport(NamedTuple):
    """The bytes of a replica as its broker reported them."""

    at: Instant
    size: int
    broker: BrokerId
    bytes_per_s: float | None = None
    """How fast it grew since the report before; None: that is not known."""

    def after(self, before: SizeReport | None) -> SizeReport:
        """Return this report with how fast the replica grew."""
        if before is None:
            return self
        elapsed = self.at - before.at
        if elapsed < SPEED_AFTER_S:
            return self._replace(bytes_per_s=before.bytes_per_s)
        return self._replace(bytes_per_s=max(0, self.size - before.size) / elapsed)


@dataclass(slots=True)
class QueryTimes:
    """When brokers are queried next, by purpose."""

    all_at: Instant = START
    copies_at: Instant = START
    room_at: Instant = START
    """When brokers without room may be queried again."""
    counts_at: Instant = START
    """When they may be queried for all their logs again."""
    new: dict[TopicPartition, None] = field(default_factory=dict)
    """Reassignments whose size was never queried."""
    new_since: Instant = START
    """When the first of them came."""
    new_queried_at: Instant = START
    """When sizes of new ones, or of all, were last queried."""

    def new_queried(self, partitions: Iterable[TopicPartition], now: Instant) -> None:
        """Note that the sizes of partitions were queried."""
        self.new_queried_at = now
        for partition in partitions:
            self.new.pop(partition, None)


@dataclass(frozen=True, slots=True)
class Silence:
    """A registration of a broker that does not describe its log directories."""

    epoch: BrokerEpoch
    since: Instant
    why: str
    is_refused: bool = False
    """Whether it answered so: it has no report to give."""
    is_lasting: bool = False
    """Whether no entry to be accepted waits for it any longer."""


@dataclass(slots=True)
class Copy:
    """A copy that takes space on a broker."""

    size: int
    """Bytes of the whole copy, as far as they are known."""
    growth: float = 0.0
    """Bytes per second that producers add to it."""
    held: int = 0
    """Bytes of it that the broker's last report of its free space includes."""
    directory: str | None = None
    """The directory that takes it; None: any that ``directory_for`` names."""
    is_move: bool = False
    """Whether the broker copies from another of its directories."""
    ended: Instant | None = None
    """When the daemon knew that it ended."""

    @property
    def left(self) -> int:
        """Bytes that it takes beyond the last report."""
        return max(0, self.size - self.held)


@dataclass(slots=True)
class Reserved:
    """What copies take: bytes now, and bytes per second of their producers."""

    bytes: int = 0
    growth: float = 0.0

    def add(self, copy: Copy) -> None:
        """Count a copy."""
        self.bytes += copy.left
        self.growth += copy.growth


@dataclass(slots=True)
class _Base:
    """The report from which the growth of directories is counted."""

    at: Instant
    usable: Mapping[str, int]
    copied: dict[str, int] = field(default_factory=dict)
    """Bytes of copies that arrived since, by directory."""


@dataclass(slots=True)
class BrokerDisk:
    """One broker's log directories and the copies that it receives."""

    report: BrokerDisks | None = None
    silence: Silence | None = None
    """Why the last query brought no report; None: it did."""
    awaited: BrokerEpoch | None = None
    """The registration that has not answered a query yet."""
    looked_at: Instant = NEVER
    """When it was last queried about named directories."""
    changed_at: Instant = NEVER
    """When it last notified that a directory failed: earlier reports do not show that."""
    directories: tuple[LogDir, ...] = ()
    """The directories of the report that have not failed."""
    only: str | None = None
    """The directory that takes every copy; None where there are several, or none is known."""
    copies: dict[TopicPartition, Copy] = field(default_factory=dict)
    without_room: set[TopicPartition] = field(default_factory=set)
    """Copies that would fill a directory which fell below its floor."""
    ended: list[tuple[TopicPartition, Copy]] = field(default_factory=list)
    """Copies that ended after the report, or whose end it may not include."""
    dropped: list[tuple[Instant, int]] = field(default_factory=list)
    """When logs were deleted, and their bytes: for reports that are estimates."""
    reserved: dict[str, Reserved] = field(default_factory=dict)
    """By directory, of the copies whose directory is known."""
    unplaced: Reserved = field(default_factory=Reserved)
    """Of the copies whose directory is not known."""
    growth: dict[str, float] = field(default_factory=dict)
    """Bytes per second by which a directory fills without the copies."""
    counted_at: Instant = NEVER
    """When the broker was last queried for all its logs."""
    placed_since: int = 0
    """Copies that the broker places after it counted its logs."""
    deletions: list[Instant] = field(default_factory=list)
    """When the broker deleted logs that its last count may contain."""
    leaving: int = 0
    """Replicas that steps in flight drop: their logs may be deleted before a new one is placed."""
    is_copying: bool = False
    """Whether a copy made progress in the last report, or began since."""
    stirred: Instant = NEVER
    """When something last happened that may free space soon."""
    base: _Base | None = None

    # --- copies ----------------------------------------------------------------------------------

    def begin(self, partition: TopicPartition, copy: Copy) -> None:
        """Reserve the space of a copy."""
        self.copies[partition] = copy
        self.placed_since += copy.directory is None
        self.is_copying = True
        self.sum_of(copy.directory).add(copy)

    def end(self, partition: TopicPartition, at: Instant) -> None:
        """Keep the reservation of a copy that ended until a later report."""
        copy = self.copies.pop(partition)
        self.without_room.discard(partition)
        copy.ended = self.stirred = at
        self.ended.append((partition, copy))

    def sum_of(self, directory: str | None) -> Reserved:
        """Return the sum in which a copy into this directory counts."""
        if directory is None:
            return self.unplaced
        return self.reserved.setdefault(directory, Reserved())

    def recount(self) -> None:
        """Count all copies again: sizes or directories changed."""
        self.reserved, self.unplaced = {}, Reserved()
        for copy in self.every_copy():
            self.sum_of(copy.directory).add(copy)

    def every_copy(self) -> Iterator[Copy]:
        """Yield the copies that reserve space."""
        yield from self.copies.values()
        yield from (copy for _, copy in self.ended)

    # --- reports ---------------------------------------------------------------------------------

    def take_report(
        self,
        report: BrokerDisks,
        held: Mapping[TopicPartition, int],
        placed: Mapping[TopicPartition, str],
        *,
        is_complete: bool = True,
    ) -> None:
        """
        Take a report; an older one than the last is ignored.

        The bytes ``held`` by replicas and the directories where they are ``placed`` are of the same
        answer. One that is not about every copy in progress (``is_complete``) gives no growth: what
        arrived of the others would be taken for that of producers.
        """
        if self.report is not None and report.at < self.report.at:
            return
        if self.report is None or self.report.epoch != report.epoch:
            # The broker counts the delay of what it was about to delete anew.
            self.stirred = max(self.stirred, report.at)
            self.dropped = [(max(at, report.at), size) for at, size in self.dropped]
        copied: dict[str, int] = {}
        good = [d.path for d in report.dirs if not d.is_failed]
        self.only = good[0] if len(good) == 1 else None
        for partition, copy in self.copies.items():
            copy.directory = placed.get(partition, self.only or copy.directory)
            bytes_held = held.get(partition, copy.held)
            if copy.directory is not None:
                arrived = copied.get(copy.directory, 0) + max(0, bytes_held - copy.held)
                copied[copy.directory] = arrived
            copy.held = bytes_held
        # An answer that omits copies does not show that they stand still.
        self.is_copying = any(copied.values()) or (self.is_copying and not is_complete)
        included = [c for _, c in self.ended if c.ended is not None and c.ended <= report.at]
        for copy in included:
            if copy.directory is not None:
                copied[copy.directory] = copied.get(copy.directory, 0) + copy.left
        self.ended = [(p, c) for p, c in self.ended if c.ended is None or c.ended > report.at]
        self.dropped = [(at, b) for at, b in self.dropped if report.at < at + KEPT_S]
        self._measure_growth(report, copied, is_complete=is_complete)
        for copy in included:
            # Its producers write here from now on, which only the next reports show.
            everywhere = (d.path for d in self.directories)
            for path in everywhere if copy.directory is None else (copy.directory,):
                self.growth[path] = self.growth.get(path, 0.0) + copy.growth
        self._take_counts(report)
        self.recount()

    def _take_counts(self, report: BrokerDisks) -> None:
        """Keep the former numbers of logs where this answer has none; count again where it has."""
        if any(d.logs is None for d in report.dirs):
            known = {} if self.report is None else {d.path: d for d in self.report.dirs}
            report = replace(report, dirs=tuple(_with_former(d, known) for d in report.dirs))
        else:
            self.counted_at = report.at
            self.deletions = [at for at in self.deletions if at > report.at]
            self.placed_since = sum(c.directory is None for c in self.every_copy())
        self.report = report
        self.directories = tuple(d for d in report.dirs if not d.is_failed)

    def _measure_growth(
        self, report: BrokerDisks, copied: Mapping[str, int], *, is_complete: bool
    ) -> None:
        usable = {d.path: d.usable for d in report.dirs if d.usable is not None}
        base = self.base
        if base is None:
            self.base = _Base(report.at, usable)
            return
        for path, arrived in copied.items():
            base.copied[path] = base.copied.get(path, 0) + arrived
        elapsed = report.at - base.at
        if elapsed < GROWTH_AFTER_S or not is_complete:
            return
        kept = 0.5 ** (elapsed / GROWTH_HALVES_S)
        for path, free in usable.items():
            if path in base.usable:
                filled = base.usable[path] - free - base.copied.get(path, 0)
                self.growth[path] = max(filled / elapsed, kept * self.growth.get(path, 0.0), 0.0)
        self.base = _Base(report.at, usable)

    # --- questions -------------------------------------------------------------------------------

    def still_kept(self, now: Instant) -> int:
        """Return the bytes of deleted logs that an estimate does not contain."""
        at = NEVER if self.report is None else self.report.at
        return sum(b for since, b in self.dropped if since <= at and now < since + KEPT_S)


def _with_former(found: LogDir, known: Mapping[str, LogDir]) -> LogDir:
    """Return a directory with what a named answer leaves out, as it was in an earlier one."""
    former = known.get(found.path)
    if former is None or found.logs is not None or found.is_failed:
        return found
    return replace(found, logs=former.logs)


@dataclass(slots=True)
class DiskLedger(Ledger):
    """The disks of all brokers in one tenure."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    brokers: dict[BrokerId, BrokerDisk] = field(default_factory=dict)
    receivers: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    """The brokers that receive a copy of a partition."""
    leavers: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    """The brokers that the step in flight of a partition drops."""
    sizeless: dict[TopicPartition, set[BrokerId]] = field(default_factory=dict)
    """Of partitions without a known size, the brokers that reported no replica of them."""
    measuring: set[BrokerId] = field(default_factory=set)
    """Brokers that have not answered the last query for sizes."""
    has_unsorted: bool = False
    """Whether the size of a pending reassignment was reported since they were sorted."""
    named: dict[BrokerId, Instant] = field(default_factory=dict)
    """Brokers whose directories entries name that wait for a report, and since when they do."""
    orphans_at: Instant = START
    """When brokers are queried next for the logs of orphans."""
    placements: Placements = field(default_factory=Placements)
    unseen_until: Instant = NEVER
    """
    Until when brokers may keep logs whose deletion, or size, this daemon did not see.

    It concerns reports that are estimates: they omit such logs.
    """

    def successor(self) -> DiskLedger:
        """Return the ledger of the next tenure: brokers keep deleted logs for a while."""
        kept = {b: BrokerDisk(dropped=d.dropped) for b, d in self.brokers.items() if d.dropped}
        return DiskLedger(kept, unseen_until=self.unseen_until)

    def silence_of(self, broker: BrokerId, epoch: BrokerEpoch | None) -> Silence | None:
        """Return why this registration of a broker does not describe its directories."""
        silence = self.known(broker).silence
        return silence if silence is not None and silence.epoch == epoch else None

    def dirs_of(self, broker: BrokerId, epoch: BrokerEpoch | None) -> Mapping[str, bool] | None:
        """Return the directories of a broker, and whether each has failed; None: not known."""
        disk = self.known(broker)
        report = disk.report
        if report is None or report.epoch != epoch or report.at < disk.changed_at:
            return None
        return {directory.path: directory.is_failed for directory in report.dirs}

    def known(self, broker: BrokerId) -> BrokerDisk:
        """Return a broker's entry, not to be changed; an empty one if there is none."""
        return self.brokers.get(broker) or BrokerDisk()

    def mark_queried(self, brokers: Iterable[BrokerId], now: Instant) -> None:
        """Note that brokers were queried about named directories."""
        for broker in brokers:
            self.of(broker).looked_at = now

    def of(self, broker: BrokerId) -> BrokerDisk:
        """Return a broker's entry, made if there is none."""
        return self.brokers.get(broker) or self.brokers.setdefault(broker, BrokerDisk())


@dataclass(slots=True)
class DiskHistory(Ledger):
    """The sizes of partitions and of copies in progress, and when brokers are queried again."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    """Bytes on disk, as far as brokers reported them."""
    measured: dict[TopicPartition, SizeReport] = field(default_factory=dict)
    """The report from which growth is counted."""
    growth: dict[TopicPartition, float] = field(default_factory=dict)
    """Bytes per second by which a partition grew between two reports: the producers' rate."""
    copied: dict[TopicPartition, dict[BrokerId, SizeReport]] = field(default_factory=dict)
    """What the leader and the added replicas of a step in flight have, as they last reported."""
    queries: QueryTimes = field(default_factory=QueryTimes)
