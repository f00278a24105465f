"""
Cut a plan into waves, one request each, so that no disk overflows at any time.

A wave begins after the end of the previous one. The order within a wave is not known, so its peak
assumes that all copies arrive before any replica is deleted: the load before the wave plus all its
copies. Deleted replicas make room for the next wave: a broker keeps a deleted log for a while.

A disk is a broker, or a volume of a broker if the plan names log directories. Both are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's convention

from controller.core.model import count_text
from controller.errors import InvalidInputError
from controller.pipeline.cluster_frame import CollectedRows, dice, in_order
from controller.pipeline.planner import Planned, ReportProgress
from controller.pipeline.volume_table import PlacedDirectories

ASSIGNED: Final = "topic INT, partition INT, wave INT"
PASSES_MAX: Final = 50

ZNODE_BYTES_MAX: Final = 700_000
"""ZooKeeper's default limit of 1 MiB, less a margin for the options of the request."""
GROW: Final = 16

Amounts = Sequence[tuple[int, int]]
"""Disks, as indices, and the bytes that each gets or loses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLimits:
    """Limits of one wave; None: unlimited."""

    partitions: int = 1_000
    bytes_in: int | None = None
    """Into each broker."""
    bytes_out: int | None = None
    """Out of each broker: the bytes of its dropped replicas."""
    znode_bytes: int = ZNODE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Wave:
    """The load of one wave."""

    partitions: int
    size_in: Any
    """By disk."""
    size_out: Any
    peak: Any
    """Peak bytes of each disk during the wave."""

    def first(self, disks: int) -> Wave:
        """Return the load of the first disks alone."""
        return Wave(self.partitions, self.size_in[:disks], self.size_out[:disks], self.peak[:disks])


class Waves:
    """Waves under construction; a change goes into the first one with room for it."""

    def __init__(self, size: Any, room: Any, limits: WaveLimits) -> None:
        """Start with the bytes on each disk and its capacity; limits hold for volumes as well."""
        first = size.astype(np.int64)
        self._room: Final = room
        self._limits: Final = limits
        self._used = 0
        shape = (GROW, len(size))
        self._in, self._out = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._count = np.zeros(GROW, dtype=np.int64)
        self._bytes = np.zeros(GROW, dtype=np.int64)
        # Bytes of each disk at the peak of each wave.
        self._peak = np.repeat(first[None, :], GROW, axis=0)

    @property
    def count(self) -> int:
        """The number of waves."""
        return self._used

    def add(self, adding: Amounts, removing: Amounts, text: int) -> int | None:
        """
        Put a change into a wave; return it, counted from 0, or None if none has room at present.

        ``text`` are the bytes of the entry in the request's znode.
        """
        limits = self._limits
        if self._used + 1 >= len(self._count):
            self._grow()
        last = self._used + 1
        fits = (self._count[:last] < limits.partitions) & (
            (self._bytes[:last] + text <= limits.znode_bytes) | (self._count[:last] == 0)
        )
        for disk, size in adding:
            fits &= self._below(self._in[:last, disk], size, limits.bytes_in)
            # The replica stays after its wave, so every later peak must have room for it.
            later = np.maximum.accumulate(self._peak[:last, disk][::-1])[::-1]
            fits &= later + size <= self._room[disk]
        for disk, size in removing:
            fits &= self._below(self._out[:last, disk], size, limits.bytes_out)
        if not fits.any():
            return None
        wave = int(np.argmax(fits))
        self._count[wave] += 1
        self._bytes[wave] += text
        for disk, size in adding:
            self._in[wave, disk] += size
            self._peak[wave:, disk] += size
        for disk, size in removing:
            self._out[wave, disk] += size
            self._peak[wave + 1 :, disk] -= size
        self._used = max(self._used, wave + 1)
        return wave

    def _below(self, held: Any, size: int, limit: int | None) -> Any:
        """Return the waves in which a limit allows the replica; an empty wave takes any size."""
        if limit is None:
            return np.ones(len(held), dtype=bool)
        return (held + size <= limit) | (held == 0)

    def _grow(self) -> None:
        more = len(self._count)
        self._peak = np.vstack((self._peak, np.repeat(self._peak[-1:], more, axis=0)))
        self._in, self._out, self._count, self._bytes = (
            np.concatenate((held, np.zeros_like(held)))
            for held in (self._in, self._out, self._count, self._bytes)
        )

    def result(self) -> list[Wave]:
        """Return the waves."""
        return [
            Wave(int(self._count[n]), self._in[n].copy(), self._out[n].copy(), self._peak[n].copy())
            for n in range(self._used)
        ]


class Cutter:
    """Cut a plan into waves; the disks are the brokers and, if directories are placed, volumes."""

    def __init__(
        self,
        spark: Any,
        planned: Planned,
        limits: WaveLimits,
        progress: ReportProgress,
        placed: PlacedDirectories | None = None,
    ) -> None:
        self._planned: Final = planned
        self._progress: Final = progress
        self._placed: Final = placed
        brokers = planned.cluster.brokers
        self._first, self._room = planned.before[0], brokers.room
        self._names = [f"broker {broker}" for broker in brokers.ids]
        if placed is not None:
            table = placed.table
            self._first = np.concatenate((self._first, table.used_before))
            self._room = np.concatenate((self._room, table.limits))
            self._names += [table.name(n) for n in range(len(table.volumes))]
        self._waves: Final = Waves(self._first, self._room, limits)
        self._assigned: Final = CollectedRows(spark, ASSIGNED)
        self._lengths: Final = [len(name) + 60 for name in planned.cluster.topics]
        paths = () if placed is None else (p for ps in placed.table.paths for p in ps)
        self._replica_text: Final = 14 + max((len(path) + 3 for path in paths), default=0)

    def cut(self) -> tuple[Any, list[Wave]]:
        """
        Return topic, partition and wave of every change, and the waves.

        Raises:
            InvalidInputError: no tried order of the changes fits on the disks.

        """
        changed = self._planned.rows.where(F.col("after") != F.col("replicas")).select(
            "topic",
            "partition",
            "size",
            F.size("after").alias("replicas"),
            _amounts("after", "replicas").alias("adding"),
            _amounts("replicas", "after").alias("removing"),
        )
        if self._placed is not None:
            none = F.array().cast("array<struct<disk:int,size:bigint>>")
            changed = changed.join(self._placed.rows, ["topic", "partition"], "left").select(
                "topic",
                "partition",
                "size",
                "replicas",
                F.concat("adding", F.coalesce("arriving", none)).alias("adding"),
                F.concat("removing", F.coalesce("leaving", none)).alias("removing"),
            )
        # Changes that drop replicas from the fullest disks come first: they make room. Changes of
        # leaders alone come last.
        held = [float(f) for f in self._first / np.maximum(self._room, 1.0)]
        fullness = F.array(*(F.lit(round(f, 2)) for f in held))
        relief = F.coalesce(
            F.array_max(F.transform("removing", lambda x: F.get(fullness, x["disk"]))), F.lit(-1.0)
        )
        drawn = dice(self._planned.options.seed + 3, F.col("topic"), F.col("partition"))
        changed = changed.withColumn("relief", relief).withColumn("drawn", drawn).persist()
        left = changed
        for attempt in range(1, PASSES_MAX + 1):
            self._progress("cutting waves" if attempt == 1 else f"cutting waves, pass {attempt}")
            placed, deferred = self._pass(left)
            if not deferred:
                break
            if not placed:
                self._refuse(left)
            left = changed.join(self._assigned.table(), ["topic", "partition"], "left_anti")
        else:
            self._refuse(left)
        return self._assigned.table(), self._waves.result()

    def _pass(self, left: Any) -> tuple[int, int]:
        placed = deferred = 0
        for row in in_order(left, F.col("relief").desc(), "drawn", "topic", "partition"):
            text = self._lengths[row.topic] + self._replica_text * row.replicas
            wave = self._waves.add(row.adding, row.removing, text)
            if wave is None:
                deferred += 1
            else:
                placed += 1
                self._assigned.add(row.topic, row.partition, wave)
        return placed, deferred

    def _refuse(self, left: Any) -> None:
        unplaced = (row.adding for row in left.toLocalIterator())
        missing = wanting(self._waves.result(), self._first, self._room, unplaced)
        unfit = left.count()
        needs = ", ".join(
            f"{self._names[n]}: {size} bytes" for n, size in sorted(missing.items())[:10]
        )
        raise InvalidInputError(
            "the disks have no room for this plan in any order: into no wave "
            f"{'fits' if unfit == 1 else 'fit'} {count_text(unfit, 'partition')}. "
            f"Free or add space ({needs}), allow a higher fill, or move less"
        )


def _amounts(these: str, without: str) -> Any:
    """Return the brokers of one column that are not in another, with the bytes of the replica."""
    return F.transform(
        F.array_except(these, without), lambda b: F.struct(b.alias("disk"), F.col("size"))
    )


def wanting(
    waves: Sequence[Wave], first: Any, room: Any, left: Iterable[Amounts]
) -> dict[int, int]:
    """
    Return the missing bytes of disks for the changes that fit into no wave.

    ``first`` are the bytes on each disk before the first wave, ``left`` the disks that get a
    replica, of each change without a wave.
    """
    held = first.astype(np.float64)
    for wave in waves:
        held = held + wave.size_in - wave.size_out
    for adding in left:
        for disk, size in adding:
            held[disk] += size
    missing = held - room
    return {int(n): int(np.ceil(missing[n])) for n in np.flatnonzero(missing > 0)}
