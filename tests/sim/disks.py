"""
Log directories of limited size, and the reports of their room; off by default.

A broker with such disks puts a new log where it has the fewest, as Kafka does, and keeps a deleted
log for a while. That no copy fills a directory is judged whenever one grows; what producers write
to a directory that a copy left enough room in is not the daemon's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from controller.core.disks.disk_ledger import DELETE_DELAY_S
from controller.core.disks.records import SizesRead
from controller.core.model import NO_BROKERS, BrokerDisks, BrokerId, Instant, LogDir, TopicPartition
from controller.reactor.ports import Inbox

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.fabric import Fabric
    from tests.sim.logs import Future, Log

RECORD_BYTES: Final = 1000
DESCRIBE_S: Final = (0.005, 0.1)
"""The time from a query until a broker reads its directories."""
ANSWER_S: Final = (0.001, 0.4)


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


class SimSizes:
    """Reports what the brokers hold; implements ``reactor.ports.Sizes``."""

    def __init__(self, fabric: Fabric, inbox: Inbox) -> None:
        self._fabric = fabric
        self._inbox = inbox

    def measure(
        self,
        partitions: Sequence[TopicPartition],
        *,
        whole: bool,
        brokers: frozenset[BrokerId] = NO_BROKERS,
    ) -> None:
        """Have each broker read its directories at its own time, and the answer arrive later."""
        wanted = dict.fromkeys(partitions)
        replicas: dict[TopicPartition, dict[BrokerId, int]] = {}
        placed: dict[TopicPartition, dict[BrokerId, str]] = {}
        found: dict[BrokerId, BrokerDisks] = {}
        errors: dict[BrokerId, str] = {}
        alive = [b for b in self._fabric.brokers.values() if b.is_alive]
        left = [b for b in alive if not brokers or b.id in brokers]
        disks = self._fabric.disks
        record_bytes = RECORD_BYTES if disks is None else disks.record_bytes

        def look(broker: SimBroker, at: float) -> None:
            if not broker.is_alive:
                errors[broker.id] = "it does not answer"
                return
            for partition, log in broker.logs.items():
                if partition in wanted and log.is_online:
                    replicas.setdefault(partition, {})[broker.id] = log.end * record_bytes
                    placed.setdefault(partition, {})[broker.id] = path_of(log.directory)
            dirs = tuple(self._described(broker, d, whole=whole) for d in broker.directories)
            found[broker.id] = BrokerDisks(broker.epoch, Instant(at), dirs)

        def answer() -> None:
            sizes = {p: max(held.values()) for p, held in replicas.items()}
            unmeasured = frozenset(wanted.keys() - sizes.keys())
            self._inbox.put(
                SizesRead(sizes, errors, replicas, unmeasured, found, placed, requested=brokers)
            )

        schedule = self._fabric.schedule

        def next_broker() -> None:
            if not left:
                schedule.call_between(*ANSWER_S, answer)
                return
            broker, at = left.pop(), schedule.now()

            def looked() -> None:
                look(broker, at)
                next_broker()

            schedule.call_between(*DESCRIBE_S, looked)

        next_broker()

    def _described(self, broker: SimBroker, directory: int, *, whole: bool) -> LogDir:
        disks = self._fabric.disks
        if directory in broker.offline_directories:
            return LogDir(path_of(directory), is_failed=True)
        if disks is None:
            return LogDir(path_of(directory))
        logs = sum(log.directory == directory for log in broker.logs.values())
        free = max(0, disks.free(broker, directory))
        return LogDir(path_of(directory), disks.size, free, logs if whole else None)


def path_of(directory: int) -> str:
    """Return the path of a directory, the same on every broker."""
    return f"/data/{directory}"
