"""
Brokers with log directories of limited size, beside a driver of the core.

They choose directories as Kafka does, copy at a rate, keep deleted logs for a while, and let
producers write; reports are delivered late and in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from controller.core.core_settings import Options
from controller.core.disks.disk_budget import UNTHROTTLED_RATE
from controller.core.disks.log_volumes import DELETE_DELAY_S
from controller.core.disks.records import LogDirsDescribed
from controller.core.model import (
    BrokerId,
    Instant,
    LogDir,
    MinFree,
    PlacedReplica,
    TopicPartition,
)
from tests.core.builders import Driver, tp

MB = 1_000_000
COPY_RATE = 2 * UNTHROTTLED_RATE
LATE_S = 5.0
"""What the begin and the end of a copy take beside its bytes."""


@dataclass
class Directory:
    """One log directory on a volume of its own."""

    path: str
    size: int
    other: int = 0
    """Bytes of logs that are not reassigned."""
    growth: int = 0
    """Bytes per second that producers add to those."""
    logs: dict[TopicPartition, int] = field(default_factory=dict)
    extra_logs: int = 0
    deleted: list[tuple[float, int]] = field(default_factory=list)
    has_copied: bool = False
    produced: int = 0
    """Bytes of producers since it last copied."""

    def free(self, now: float) -> int:
        """Return the free bytes."""
        kept = sum(b for at, b in self.deleted if now < at + DELETE_DELAY_S)
        return self.size - self.other - sum(self.logs.values()) - kept


class ModelledDisks:
    """Brokers with disks, and the daemon's core that moves partitions between them."""

    def __init__(self, seed: int, *, min_free: int, producers: bool = True) -> None:
        """Draw a cluster and a plan."""
        self.random = random = Random(seed)
        self.brokers = {
            BrokerId(b): [
                Directory(f"/data/{n}", random.randint(300, 1500) * MB)
                for n in range(random.randint(1, 3))
            ]
            for b in range(5)
        }
        self.sizes: dict[TopicPartition, int] = {}
        self.rates: dict[TopicPartition, int] = {}
        assignments, self.targets = {}, {}
        for n in range(random.randint(2, 12)):
            partition = tp(n)
            assignments[partition] = random.sample(range(5), random.randint(1, 3))
            self.targets[partition] = random.sample(range(5), len(assignments[partition]))
            self.sizes[partition] = random.randint(1, 250) * MB
            self.rates[partition] = random.choice([0, MB // 10, MB // 2]) if producers else 0
        self.driver = Driver(
            assignments,
            brokers=range(5),
            options=Options(
                min_free=MinFree(bytes=min_free), step_size=random.choice([1, 2, None])
            ),
        )
        for partition, replicas in assignments.items():
            for broker in replicas:
                directory = self.chosen(BrokerId(broker))
                directory.logs[partition] = self.sizes[partition]
                directory.size = max(directory.size, self.used(directory) + min_free + 50 * MB)
        for directories in self.brokers.values():
            for directory in directories:
                directory.growth = random.choice([0, MB // 5]) if producers else 0
                directory.extra_logs = random.randint(0, 3)
                room = directory.free(0) - min_free
                directory.other += int(room * random.choice([0, 0.3, 0.8]))
        self.min_free = min_free
        self.under_way: list[tuple[float, list[LogDirsDescribed]]] = []

    @staticmethod
    def used(directory: Directory) -> int:
        """Return the bytes of the logs of a directory."""
        return directory.other + sum(directory.logs.values())

    def chosen(self, broker: BrokerId) -> Directory:
        """Return the directory that a broker chooses for a new log: the fewest logs."""
        directories = self.brokers[broker]
        fewest = min(len(d.logs) + d.extra_logs for d in directories)
        return self.random.choice([d for d in directories if len(d.logs) + d.extra_logs == fewest])

    @property
    def now(self) -> float:
        """The present instant."""
        return self.driver.now

    def report(self, *, whole: bool = True) -> list[LogDirsDescribed]:
        """Return what brokers say now."""
        return [
            LogDirsDescribed(
                broker,
                self.driver.epoch(broker),
                self.driver.now,
                self.sizes.keys(),
                tuple(
                    LogDir(
                        d.path,
                        d.size,
                        d.free(self.now),
                        len(d.logs) + d.extra_logs if whole else None,
                    )
                    for d in directories
                ),
                {p: PlacedReplica(d.path, size) for d in directories for p, size in d.logs.items()},
            )
            for broker, directories in self.brokers.items()
        ]

    def begin(self) -> None:
        """Let what producers write be measured, then submit the plan."""
        for _ in range(2):
            self.driver.observe(*self.report())
            self.pass_time(6.0)
        self.driver.submit(self.targets)
        self.driver.view.disks_process.growth.update(self.rates)
        self.driver.observe(*self.report())

    def pass_time(self, seconds: float) -> None:
        """Let producers write and brokers copy."""
        self.driver.now = Instant(self.now + seconds)
        before = dict(self.sizes)
        for partition in self.sizes:
            self.sizes[partition] += int(self.rates[partition] * seconds)
        for directories in self.brokers.values():
            copying = {}
            for directory in directories:
                directory.other += int(directory.growth * seconds)
                directory.produced += int(directory.growth * seconds)
                for partition in list(directory.logs):
                    if directory.logs[partition] >= before[partition]:
                        directory.produced += self.sizes[partition] - directory.logs[partition]
                        directory.logs[partition] = self.sizes[partition]
                    else:
                        copying[partition] = directory
            for n, (partition, directory) in enumerate(copying.items()):
                share = int(COPY_RATE * seconds / (len(copying) - n))
                left = self.sizes[partition] - directory.logs[partition]
                directory.logs[partition] += min(left, share)
                directory.has_copied, directory.produced = True, 0
        self.follow_all()

    def follow_all(self) -> None:
        """Create and delete logs, as the topic znode says."""
        for number, assignment in self.driver.view.topics.by_name["t"].partitions.items():
            self.follow(tp(number), assignment.replicas)

    def follow(self, partition: TopicPartition, replicas: tuple[BrokerId, ...]) -> None:
        """Create and delete the logs of a partition."""
        for broker, directories in self.brokers.items():
            here = [d for d in directories if partition in d.logs]
            if broker in replicas and not here:
                directory = self.chosen(broker)
                directory.logs[partition] = 0
                directory.has_copied, directory.produced = True, 0
            if broker not in replicas:
                for directory in here:
                    directory.deleted.append((self.now, directory.logs.pop(partition)))

    def tick(self) -> None:
        """Let a second pass: copies proceed and end, reports are made and arrive."""
        self.pass_time(1.0)
        for partition in self.targets:
            if partition not in self.driver.view.reassignments.by_partition:
                continue
            assignment = self.driver.view.topics.by_name["t"].partitions[partition.partition]
            held = {
                b: d.logs[partition]
                for b, directories in self.brokers.items()
                for d in directories
                if partition in d.logs
            }
            done = [
                b for b in assignment.target_replicas if held.get(b, 0) >= self.sizes[partition]
            ]
            isr = self.driver.view.leadership.states[partition].isr
            if any(b not in isr for b in done):
                self.driver.catch_up(partition, *done)
        self.follow_all()
        if self.random.random() < 0.3:
            whole = self.random.random() < 0.4
            arrives = self.now + self.random.choice([0, 0, 1, 3])
            self.under_way.append((arrives, self.report(whole=whole)))
        for arrives, events in list(self.under_way):
            if arrives <= self.now:
                self.under_way.remove((arrives, events))
                self.driver.observe(*events)
        self.follow_all()
        self.judge()

    def judge(self) -> None:
        """No copy takes a directory below the reserve; what producers add later may."""
        for broker, directories in self.brokers.items():
            for directory in directories:
                if directory.has_copied:
                    rate = sum(self.rates[p] for p in directory.logs) + directory.growth
                    later = directory.produced + LATE_S * rate
                    assert directory.free(self.now) >= self.min_free - later, (broker, directory)
