"""
Cut a plan into waves, one request each, so that no disk overflows at any time.

A wave begins after the end of the previous one. The order within a wave is not known, so its peak
assumes that all copies arrive before any replica is deleted: the load before the wave plus all its
copies. Deleted replicas make room for the next wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

ZNODE_BYTES_MAX: Final = 700_000
"""ZooKeeper's default limit of 1 MiB, less a margin for the options of the request."""
GROW: Final = 16


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
    """By broker."""
    size_out: Any
    peak: Any
    """Peak bytes of each broker during the wave."""


class Waves:
    """Waves under construction; a change goes into the first one with room for it."""

    def __init__(self, size: Any, room: Any, limits: WaveLimits) -> None:
        """
        Start without waves.

        Args:
            size: Bytes on each broker before the first wave.
            room: Capacity of each broker.
            limits: Limits of each wave.

        """
        self._first: Final = size.astype(np.int64)
        self._room: Final = room
        self._limits: Final = limits
        self._used = 0
        shape = (GROW, len(size))
        self._in, self._out = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._count = np.zeros(GROW, dtype=np.int64)
        self._bytes = np.zeros(GROW, dtype=np.int64)
        # Bytes of each broker at the peak of each wave.
        self._peak = np.repeat(self._first[None, :], GROW, axis=0)

    @property
    def count(self) -> int:
        """The number of waves."""
        return self._used

    def add(
        self, size: int, adding: Sequence[int], removing: Sequence[int], text: int
    ) -> int | None:
        """
        Put a change into a wave.

        Args:
            size: Bytes of one replica.
            adding: Brokers that get a replica.
            removing: Brokers that lose their replica.
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
        for broker in adding:
            fits &= self._below(self._in[:last, broker], size, limits.bytes_in)
            # The replica stays after its wave, so every later peak must have room for it.
            later = np.maximum.accumulate(self._peak[:last, broker][::-1])[::-1]
            fits &= later + size <= self._room[broker]
        for broker in removing:
            fits &= self._below(self._out[:last, broker], size, limits.bytes_out)
        if not fits.any():
            return None
        wave = int(np.argmax(fits))
        self._count[wave] += 1
        self._bytes[wave] += text
        for broker in adding:
            self._in[wave, broker] += size
            self._peak[wave:, broker] += size
        for broker in removing:
            self._out[wave, broker] += size
            self._peak[wave + 1 :, broker] -= size
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
    left: Iterable[tuple[int, Sequence[int]]],
) -> dict[int, int]:
    """
    Return the missing bytes of brokers for the changes that fit into no wave.

    Args:
        waves: The waves so far.
        first: Bytes on each broker before the first wave.
        room: Capacity of each broker.
        left: Size and added brokers of each change without a wave.

    """
    held = first.astype(np.float64)
    for wave in waves:
        held = held + wave.size_in - wave.size_out
    for size, adding in left:
        for broker in adding:
            held[broker] += size
    missing = held - room
    return {int(n): int(np.ceil(missing[n])) for n in np.flatnonzero(missing > 0)}
