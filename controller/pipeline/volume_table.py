"""
The volumes of all brokers, by index, and the log directories that take new replicas.

Arrays by volume: nothing here grows with the number of replicas. A broker of which a directory has
an unknown size has no volumes here: nothing is planned for its directories. Failed directories are
left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from controller.errors import InvalidInputError
from controller.pipeline.snapshot_tables import Tables
from controller.planning.volumes import Volume

ANY: Final = "any"
"""The name of no certain directory in a plan, as in Kafka's tool."""
LISTED: Final = 10


def listed_brokers(ids: Sequence[int]) -> str:
    """Name the first brokers, and count the others."""
    more = f" and {len(ids) - LISTED} more" if len(ids) > LISTED else ""
    return ", ".join(map(str, ids[:LISTED])) + more


@dataclass(frozen=True, slots=True)
class DirectoryFill:
    """The bytes of one volume before, during and after a plan."""

    broker: int
    log_dirs: tuple[str, ...]
    total_bytes: int
    bytes_before: int
    bytes_after: int
    peak_bytes: int

    def text(self) -> str:
        """Describe it."""
        total = max(1, self.total_bytes)
        return (
            f"broker {self.broker}, {', '.join(self.log_dirs)}: "
            f"{self.bytes_before / total:.1%} full before, {self.bytes_after / total:.1%} after"
        )


@dataclass(slots=True)
class VolumeTable:
    """The volumes of all brokers; ``used`` changes with the plan."""

    ids: tuple[int, ...]
    """The ids of the brokers."""
    volumes: tuple[Volume, ...]
    broker: tuple[int, ...]
    """The index of each volume's broker."""
    paths: tuple[tuple[str, ...], ...]
    """The directories of each volume."""
    fill: float
    unknown: frozenset[int]
    """Indices of the brokers with a directory of unknown size."""
    used: Any
    """Bytes on each volume after the plan."""
    taken: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Bytes that directories got, by volume and path: the directories of a volume share them."""

    @property
    def used_before(self) -> Any:
        """Return the bytes on each volume before the plan."""
        return np.array([volume.used for volume in self.volumes], dtype=np.int64)

    @property
    def limits(self) -> Any:
        """Return the usable bytes of each volume."""
        return np.array([volume.total * self.fill for volume in self.volumes])

    def name(self, volume: int) -> str:
        """Return the name of a volume in messages."""
        return f"broker {self.ids[self.broker[volume]]}, {self.paths[volume][0]}"

    def take(self, volume: int, size: int) -> str:
        """Return the directory of a volume that takes a replica."""
        path = min(self.paths[volume], key=lambda p: (self.taken[volume, p], p))
        self.taken[volume, path] += size
        return path

    def fills(self, peak: Any) -> tuple[DirectoryFill, ...]:
        """Return the fill of each volume."""
        return tuple(
            DirectoryFill(
                self.ids[self.broker[n]],
                self.paths[n],
                volume.total,
                volume.used,
                int(self.used[n]),
                int(max(volume.used, peak[n])),
            )
            for n, volume in enumerate(self.volumes)
        )


@dataclass(frozen=True, slots=True)
class PlacedDirectories:
    """The directories of a plan's new replicas, and those that the dropped ones leave."""

    table: VolumeTable
    rows: Any
    """
    topic, partition; ``arriving`` and ``leaving``: volumes with bytes; ``log_dirs`` and
    ``old_dirs``: directories by broker.
    """
    notes: tuple[str, ...]


class DirectoryPlacement:
    """
    Choose directories for new replicas: the one with the most free share after the choices so far.

    The replicas are to come largest first. ``missing`` has those for which no directory has room.
    """

    def __init__(self, table: VolumeTable) -> None:
        self._table: Final = table
        self._limits: Final = table.limits.tolist()
        self._volumes: Final[dict[int, list[int]]] = {}
        for n, broker in enumerate(table.broker):
            self._volumes.setdefault(broker, []).append(n)
        self.missing: Final[list[str]] = []

    def place(self, what: str, size: int, broker: int) -> tuple[int, str] | None:
        """
        Return the volume and the directory for a replica.

        None if the directories of the broker are not known, or no directory has room. ``what``
        names the partition.
        """
        table = self._table
        volumes = self._volumes.get(broker)
        if not volumes:
            return None
        free = {n: self._limits[n] - float(table.used[n]) - size for n in volumes}
        best = max(volumes, key=lambda n: (free[n] / max(1.0, self._limits[n]), -n))
        if free[best] < 0:
            # The share is of unequal volumes: a larger one may have the bytes.
            best = max(volumes, key=lambda n: (free[n], -n))
        if free[best] < 0:
            self.missing.append(f"{what}: {table.name(best)} lacks {-free[best]:.0f} bytes")
            return None
        table.used[best] += size
        # With one directory there is nothing to choose.
        several = len(volumes) > 1 or len(table.paths[best]) > 1
        return best, table.take(best, size) if several else ANY

    def check(self) -> None:
        """
        Refuse a plan that would overflow a directory.

        Raises:
            InvalidInputError: replicas have no directory.

        """
        if self.missing:
            more = len(self.missing) - LISTED
            listed = self.missing[:LISTED] + ([f"and {more} more"] if more > 0 else [])
            raise InvalidInputError(
                f"no log directory has room for {len(self.missing)} of the new replicas:\n  "
                + "\n  ".join(listed)
                + "\nFree or add space, even out the directories first (--balance-dirs), allow a "
                "higher fill, or move less"
            )


def load_volumes(tables: Tables, ids: Sequence[int], fill: float) -> VolumeTable:
    """
    Return the volumes of a snapshot.

    Raises:
        InvalidInputError: the snapshot has no log directories.

    """
    if tables.log_dirs is None:
        raise InvalidInputError(
            "the snapshot has no log directories: it was made from files or by an older version"
        )
    index = {broker: n for n, broker in enumerate(ids)}
    good = tables.log_dirs.where("is_failed IS NOT TRUE").orderBy("broker", "log_dir").collect()
    unknown = {index[r.broker] for r in good if None in (r.total_bytes, r.usable_bytes)}
    groups: dict[tuple[int, str], list[Any]] = {}
    for row in good:
        if index[row.broker] not in unknown:
            groups.setdefault((index[row.broker], row.volume or row.log_dir), []).append(row)
    volumes = tuple(
        Volume(name, rows[0].total_bytes, rows[0].total_bytes - min(r.usable_bytes for r in rows))
        for (_, name), rows in groups.items()
    )
    paths = tuple(tuple(row.log_dir for row in rows) for rows in groups.values())
    used = np.array([volume.used for volume in volumes], dtype=np.int64)
    owners = tuple(broker for broker, _ in groups)
    return VolumeTable(tuple(ids), volumes, owners, paths, fill, frozenset(unknown), used)
