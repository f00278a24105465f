"""
Log directories of limited size; off by default.

A broker with such disks puts a new log where it has the fewest, as Kafka does, and keeps a deleted
log for a while. That no copy fills a directory is judged whenever one grows; what producers write
to a directory that a copy left enough room in is not the daemon's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from controller.core.disks.log_volumes import DELETE_DELAY_S
from controller.core.model import BrokerId, LogDir

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.fabric import Fabric
    from tests.sim.logs import Future, Log

RECORD_BYTES: Final = 1000


class DiskFullError(AssertionError):
    """A log directory holds more than its size: a real one would have failed."""


class SimDisks:
    """The directories of all brokers, each of the same size."""

    def __init__(self, fabric: Fabric, size: int, record_bytes: int = RECORD_BYTES) -> None:
        """Limit every directory; what is there already counts."""
        self._fabric = fabric
        self.size = size
        self.record_bytes = record_bytes
        self.others: dict[tuple[BrokerId, int], int] = {}
        """Bytes of other logs, by broker and directory."""
        self.least_free = size
        """The least free bytes that a copy left."""
        self._deleted: list[tuple[float, BrokerId, int, int]] = []
        fabric.disks = self

    def deleted(self, broker: BrokerId, log: Log) -> None:
        """Keep the bytes of a deleted log for a while."""
        until = self._fabric.schedule.now() + DELETE_DELAY_S
        self._deleted.append((until, broker, log.directory, log.end * self.record_bytes))

    def free(self, broker: SimBroker, directory: int) -> int:
        """Return the free bytes of a directory."""
        now = self._fabric.schedule.now()
        self._deleted = [d for d in self._deleted if d[0] > now]
        here = (broker.id, directory)
        kept = sum(size for _, b, d, size in self._deleted if (b, d) == here)
        logs = [log for log in broker.logs.values() if log.directory == directory]
        used = sum(log.end for log in logs) * self.record_bytes
        futures = [f.end for f in broker.futures.values() if f.directory == directory]
        used += sum(futures) * self.record_bytes
        return self.size - kept - self.others.get(here, 0) - used

    def copied(self, broker: SimBroker, log: Log | Future) -> None:
        """
        Judge the directory of a log that is being copied.

        Raises:
            DiskFullError: it holds more than its size.

        """
        free = self.free(broker, log.directory)
        self.least_free = min(self.least_free, free)
        if free < 0:
            raise DiskFullError(f"broker {broker.id}, directory {log.directory}: {free} bytes free")

    @staticmethod
    def chosen(broker: SimBroker, good: Sequence[int]) -> int:
        """Return the directory that takes a new log: the one with the fewest."""
        return min(good, key=lambda d: sum(log.directory == d for log in broker.logs.values()))


def described(fabric: Fabric, broker: SimBroker, *, is_whole: bool) -> tuple[LogDir, ...]:
    """Return the directories of a broker as it describes them now."""
    disks, found = fabric.disks, []
    for directory in broker.directories:
        path = path_of(directory)
        if directory in broker.offline_directories:
            found.append(LogDir(path, is_failed=True))
        elif disks is None:
            found.append(LogDir(path))
        else:
            logs = sum(log.directory == directory for log in broker.logs.values())
            free = max(0, disks.free(broker, directory))
            found.append(LogDir(path, disks.size, free, logs if is_whole else None))
    return tuple(found)


def path_of(directory: int) -> str:
    """Return the path of a directory, the same on every broker."""
    return f"/data/{directory}"
