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
        """
        Start without waves.

        Args:
            size: Bytes on each disk before the first wave.
            room: Capacity of each disk.
            limits: Limits of each wave; those of brokers hold for their volumes as well.

        """
        self._first: Final = size.astype(np.int64)
        self._room: Final = room
        self._limits: Final = limits
        self._used = 0
        shape = (GROW, len(size))
        self._in, self._out = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._count = np.zeros(GROW, dtype=np.int64)
        self._bytes = np.zeros(GROW, dtype=np.int64)
        # Bytes of each disk at the peak of each wave.
        self._peak = np.repeat(self._first[None, :], GROW, axis=0)

    @property
    def count(self) -> int:
        """The number of waves."""
        return self._used

    def add(self, adding: Amounts, removing: Amounts, text: int) -> int | None:
        """
        Put a change into a wave.

        Args:
            adding: Disks that get a replica.
            removing: Disks that lose their replica.
            text: Bytes of the entry in the request's znode.

        Returns:
            The wave, counted from 0; None if no wave has room at present.

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
        empty = np.zeros((more, len(self._first)), dtype=np.int64)
        self._in, self._out = np.vstack((self._in, empty)), np.vstack((self._out, empty))
        self._peak = np.vstack((self._peak, np.repeat(self._peak[-1:], more, axis=0)))
        self._count = np.concatenate((self._count, np.zeros(more, dtype=np.int64)))
        self._bytes = np.concatenate((self._bytes, np.zeros(more, dtype=np.int64)))

    def result(self) -> list[Wave]:
        """Return the waves."""
        return [
            Wave(int(self._count[n]), self._in[n].copy(), self._out[n].copy(), self._peak[n].copy())
            for n in range(self._used)
        ]


def wanting(
    waves: Sequence[Wave],
    first: Any,
    room: Any,
    left: Iterable[Amounts],
) -> dict[int, int]:
    """
    Return the missing bytes of disks for the changes that fit into no wave.

    Args:
        waves: The waves so far.
        first: Bytes on each disk before the first wave.
        room: Capacity of each disk.
        left: The disks that get a replica, of each change without a wave.

    """
    held = first.astype(np.float64)
    for wave in waves:
        held = held + wave.size_in - wave.size_out
    for adding in left:
        for disk, size in adding:
            held[disk] += size
    missing = held - room
    return {int(n): int(np.ceil(missing[n])) for n in np.flatnonzero(missing > 0)}
