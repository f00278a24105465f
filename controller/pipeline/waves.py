"""
A plan cut into waves, one request each, so that no disk overflows at any moment.

A wave begins when the one before has ended. Within a wave nothing is assumed of the order: every
copy that comes is counted before any that leaves is gone. So the peak of a wave is what stands
before it and all that it brings; what it drops makes room in the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

ZNODE_BYTES_MAX: Final = 700_000
"""See ``cli.submissions``: ZooKeeper's limit, less room for what goes around."""
GROW: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLimits:
    """What one wave may bring; None is no limit."""

    partitions: int = 1_000
    bytes_in: int | None = None
    """Into each broker."""
    bytes_out: int | None = None
    """Out of each broker: what its replicas that are dropped hold."""
    znode_bytes: int = ZNODE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Wave:
    """What one wave comes to."""

    partitions: int
    size_in: Any
    """By broker."""
    size_out: Any
    peak: Any
    """The most that each broker holds while it is under way."""


class Waves:
    """Waves being filled; the first that has room for a change takes it."""

    def __init__(self, size: Any, room: Any, limits: WaveLimits) -> None:
        """
        Begin without a wave.

        Args:
            size: Bytes on each broker before anything begins.
            room: Bytes each broker may hold.
            limits: Of each wave.

        """
        self._first: Final = size.astype(np.int64)
        self._room: Final = room
        self._limits: Final = limits
        self._used = 0
        shape = (GROW, len(size))
        self._in, self._out = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._count = np.zeros(GROW, dtype=np.int64)
        self._bytes = np.zeros(GROW, dtype=np.int64)
        # What is held at the peak of each wave.
        self._peak = np.repeat(self._first[None, :], GROW, axis=0)

    @property
    def count(self) -> int:
        """How many waves there are."""
        return self._used

    def add(
        self, size: int, adding: Sequence[int], removing: Sequence[int], text: int
    ) -> int | None:
        """
        Put a change into a wave.

        Args:
            size: Bytes of one replica.
            adding: Brokers that get one.
            removing: Brokers that lose theirs.
            text: How many bytes of a znode it takes.

        Returns:
            The wave, from 0 on; None if no wave has room for it as things stand.

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
            # It stays from its wave on: every later peak has to have room for it.
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
        """Whether a limit allows one more; a larger replica has a wave for itself."""
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
    Return how many more bytes brokers would need to have for what found no wave.

    Args:
        waves: What could be placed.
        first: Bytes on each broker before anything begins.
        room: Bytes each broker may hold.
        left: Size and added brokers of each change that found none.

    """
    held = first.astype(np.float64)
    for wave in waves:
        held = held + wave.size_in - wave.size_out
    for size, adding in left:
        for broker in adding:
            held[broker] += size
    missing = held - room
    return {int(n): int(np.ceil(missing[n])) for n in np.flatnonzero(missing > 0)}
