"""
One plan on disks that are almost full, and on large ones, at the same time on two clusters.

Two brokers exchange all their partitions under a throttle, while producers write. The small disks
have a tenth more than what they hold at the end, so each copy waits for the deletion of another
log, which a broker delays. The daemon and a broker are killed on the way, at the same times on both
clusters. The free space is sampled: a figure of a disk that was full would be worth nothing.

No scheduler is faster than the disks allow. A broker that receives ``rate`` bytes per second drops
as many, and keeps each for ``delete_delay_s``; what it keeps and the copies in progress have to fit
into the slack: what is free at the begin, above ``min_free``. With at least one copy in progress, a
plan of so many ``bytes`` needs::

    delete_delay_s * (bytes / (slack - one partition) - 1)

seconds at least. The throttle is lower than that allows, so that the large disks are not faster
merely because they need not wait for deletions. Records are small and fetched singly: a throttle of
Kafka lets a whole response pass before it counts it.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Extent, Figure
from integration.rigs.cluster import Cluster, ClusterOptions
from integration.rigs.daemon_process import Daemon
from integration.rigs.plans import fill
from integration.rigs.requests import await_outcome, submit_request
from integration.rigs.servers import BrokerOptions
from integration.rigs.small_disks import DiskWatch, MountRefusedError
from integration.rigs.traffic import Traffic

MB: Final = 2**20
RECORD_BYTES: Final = 100_000
"""Of the records that fill the partitions."""
SEGMENT_BYTES: Final = 13_000
"""The files beside the records of a segment, and the rest of their last pages."""
SPARE: Final = 1.1
"""The small disks, as a multiple of what they hold at the end."""
LARGE: Final = 4.0
MIN_FREE: Final = 0.02
"""The share of a disk that copies leave free."""
RECORDS_PER_S: Final = 50.0
PAYLOAD_BYTES: Final = 150
PRODUCED_PER_S: Final = 16_500
"""Bytes per second that the producers add to each disk, as measured."""
GOAL: Final = 1.15
FAULTS: Final = {0.2: "daemon", 0.4: "broker", 0.7: "both"}
"""What is killed, by the share of the time that the copies need at their throttle."""
ENGINES: Final = {"native": "2.6", "delegated": "3.9"}
"""With the inter-broker protocol."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much is moved, and how fast."""

    partitions: int
    """Of each of two topics."""
    records: int
    """In each partition."""
    least_s: float
    """The time that the copies need at their throttle."""
    delete_delay_s: int
    size_refresh_s: int
    copy_refresh_s: int

    @property
    def bytes(self) -> int:
        """The bytes of a topic, which is what one broker copies."""
        return self.partitions * self.records * RECORD_BYTES

    @property
    def rate(self) -> int:
        """Bytes per second that a broker may copy."""
        return round(self.bytes / self.least_s)

    def disk_mb(self, factor: float) -> int:
        """Return the size of a disk that has so many times what it holds at the end."""
        segments = self.partitions * (self.records * RECORD_BYTES // MB + 2)
        written = self.least_s * PRODUCED_PER_S + segments * SEGMENT_BYTES
        return round(factor * (self.bytes + written) / MB)

    def bound_s(self, slack: float) -> float:
        """Return the least time of the plan with so many bytes free above ``min_free``."""
        room = max(slack - self.records * RECORD_BYTES, 1.0)
        return max(self.least_s, self.delete_delay_s * (self.bytes / room - 1))


LOADS: Final = {
    Extent.ORDINARY: Load(200, 10, 200.0, delete_delay_s=10, size_refresh_s=10, copy_refresh_s=2),
    Extent.FULL: Load(200, 30, 1200.0, delete_delay_s=60, size_refresh_s=60, copy_refresh_s=10),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured on one cluster."""

    took_s: float
    bound_s: float
    """The least time that these disks allow."""
    size: int
    """Bytes of each disk."""
    used: int
    """Bytes that the fuller disk holds at the end."""
    least_free: tuple[int, ...]
    """Bytes, by disk."""

    @property
    def fill(self) -> str:
        """The greatest fill of each disk."""
        return " and ".join(f"{1 - free / self.size:.1%}" for free in self.least_free)


def cluster_options(load: Load, factor: float, protocol: str) -> ClusterOptions:
    """Return two brokers with one disk each."""
    broker = BrokerOptions(
        inter_broker_protocol=protocol,
        disk_mb=load.disk_mb(factor),
        extra={
            "log.segment.delete.delay.ms": str(load.delete_delay_s * 1000),
            "log.segment.bytes": str(MB),
            "log.index.size.max.bytes": "65536",
            "replica.fetch.max.bytes": str(RECORD_BYTES),
            "replica.fetch.response.max.bytes": str(RECORD_BYTES),
        },
    )
    return ClusterOptions(brokers=2, broker=broker)


def measured(load: Load, engine: str, factor: float) -> Run:
    """Move the partitions on disks of this size."""
    with ExitStack() as stack:
        options = cluster_options(load, factor, ENGINES[engine])
        cluster = stack.enter_context(Cluster.running(options))
        topics = {f"from-{b}": load.partitions for b in (1, 2)}
        for broker, topic in enumerate(topics, 1):
            cluster.create_topic(topic, {n: [broker] for n in range(load.partitions)})
            partitions = [(topic, n) for n in range(load.partitions)]
            fill(cluster, partitions, load.records, RECORD_BYTES)
        daemon = Daemon(
            cluster.zookeeper_connect,
            cluster.directory / "daemon",
            *("--engine", engine, "--min-free", f"{MIN_FREE:.0%}"),
            *("--size-refresh", f"{load.size_refresh_s}"),
            *("--copy-refresh", f"{load.copy_refresh_s}"),
        )
        stack.callback(daemon.stop)
        daemon.start()
        directories = [d for broker in cluster.brokers.values() for d in broker.log_dirs]
        disks = stack.enter_context(DiskWatch(directories))
        traffic = stack.enter_context(
            Traffic(
                cluster.bootstrap_servers,
                topics,
                records_per_s=RECORDS_PER_S,
                payload_bytes=PAYLOAD_BYTES,
                give_up_after_s=300.0,
            )
        )
        size = load.disk_mb(factor) * MB
        slack = min(disks.free.values()) - MIN_FREE * size
        targets = {(t, n): [3 - b] for b, t in enumerate(topics, 1) for n in range(topics[t])}
        begun = time.monotonic()
        request = submit_request(cluster, targets, throttle=load.rate)
        for share, what in FAULTS.items():
            time.sleep(max(0.0, begun + share * load.least_s - time.monotonic()))
            kill(cluster, daemon, what)
        await_outcome(cluster, request, within_s=3 * load.least_s + 60)
        took = time.monotonic() - begun
        assert all(cluster.replicas(*p) == replicas for p, replicas in targets.items())
        traffic.stop()
        assert traffic.audited().is_clean
        least = min(disks.least_free.values())
        # A broker allocates segments and indexes ahead of what it reports.
        limit = MIN_FREE * size / 2
        assert least > limit, f"{least} bytes were free at least; the limit is {limit}"
        time.sleep(load.delete_delay_s + 5)
        used = size - min(disks.free.values())
        fills = tuple(disks.least_free.values())
    return Run(took, load.bound_s(slack), size, used, fills)


def kill(cluster: Cluster, daemon: Daemon, what: str) -> None:
    """Kill the daemon, a broker or both, and start them again."""
    if what in {"daemon", "both"}:
        daemon.kill()
    if what in {"broker", "both"}:
        cluster.brokers[2].kill()
        cluster.start_brokers(2)
    if what in {"daemon", "both"}:
        daemon.start()


def measure(extent: Extent) -> list[Figure]:
    """Run the plan on both clusters with both engines; nothing without the right to mount."""
    load = LOADS[extent]
    figures: list[Figure] = []
    for engine in ENGINES:
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(measured, load, engine, f) for f in (LARGE, SPARE)]
        try:
            large, small = (run.result() for run in runs)
        except MountRefusedError as error:
            print(f"file systems of limited size need the right to mount: {error}", file=sys.stderr)
            break
        what = f"{engine} engine: {load.bytes // 1_000_000} MB each way"
        ratio = small.took_s / large.took_s
        figures += [
            Figure(
                f"{what}, on disks with {LARGE:g} times what is needed", f"{large.took_s:.0f} s", 1
            ),
            Figure(
                f"{what}, on disks with {small.size / small.used:.2f} times what they hold at the "
                f"end; no scheduler needs less than {small.bound_s:.0f} s; at most "
                f"{small.fill} full",
                f"{small.took_s:.0f} s",
                1,
                ratio=f"{ratio:.2f} times that on large disks",
                spec=f"under {GOAL:g} times",
                of_goal=ratio / GOAL,
            ),
        ]
    return figures
