"""
One plan on disks that are almost full, and on large ones, at the same time on two clusters.

Two brokers exchange all their partitions under a throttle, while producers write. The small disks
have a tenth more than what they hold at the end, so each copy waits for the deletion of another
log, which a broker delays. The daemon and a broker are killed on the way, at the same times on both
clusters. The free space is sampled: a figure of a disk that was full would be worth nothing.
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
RECORD_BYTES: Final = 500_000
"""Of the records that fill the partitions."""
SPARE: Final = 1.1
"""The small disks, as a multiple of what they hold at the end."""
LARGE: Final = 4.0
MIN_FREE: Final = 0.02
"""The share of a disk that copies leave free."""
RECORDS_PER_S: Final = 50.0
PAYLOAD_BYTES: Final = 150
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
    rate: int
    """Bytes per second that a broker may copy."""
    delete_delay_s: int
    refresh_s: int
    """Interval at which free space is read."""

    @property
    def bytes(self) -> int:
        """The bytes of a topic, which is what one broker copies."""
        return self.partitions * self.records * RECORD_BYTES

    @property
    def least_s(self) -> float:
        """The time that the copies need at their throttle."""
        return self.bytes / self.rate

    def disk_mb(self, factor: float) -> int:
        """Return the size of a disk that has so many times what it holds at the end."""
        written = self.least_s * RECORDS_PER_S * PAYLOAD_BYTES
        return round(factor * (self.bytes + written) / MB)


LOADS: Final = {
    Extent.ORDINARY: Load(50, 4, 1_000_000, delete_delay_s=6, refresh_s=1),
    Extent.FULL: Load(100, 12, 600_000, delete_delay_s=60, refresh_s=10),
}


def cluster_options(load: Load, factor: float, protocol: str) -> ClusterOptions:
    """Return two brokers with one disk each, and a third that only votes for the offsets topic."""
    broker = BrokerOptions(
        inter_broker_protocol=protocol,
        disk_mb=load.disk_mb(factor),
        extra={
            "log.segment.delete.delay.ms": str(load.delete_delay_s * 1000),
            "log.segment.bytes": str(MB),
            "log.index.size.max.bytes": "65536",
        },
    )
    return ClusterOptions(brokers=2, broker=broker)


def seconds_of(load: Load, engine: str, factor: float) -> float:
    """Move the partitions on disks of this size; return how long it took."""
    with ExitStack() as stack:
        options = cluster_options(load, factor, ENGINES[engine])
        cluster = stack.enter_context(Cluster.running(options))
        topics = {f"from-{b}": load.partitions for b in (1, 2)}
        for broker, topic in enumerate(topics, 1):
            cluster.create_topic(topic, {n: [broker] for n in range(load.partitions)})
            fill(cluster, [(topic, n) for n in range(load.partitions)], load.records)
        daemon = Daemon(
            cluster.zookeeper_connect,
            cluster.directory / "daemon",
            *("--engine", engine, "--min-free", f"{MIN_FREE:.0%}"),
            *("--size-refresh", f"{load.refresh_s}", "--copy-refresh", f"{load.refresh_s}"),
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
        limit = MIN_FREE * load.disk_mb(factor) * MB
        least = min(disks.least_free.values())
        # A broker allocates segments and indexes ahead of what it reports.
        assert least > limit / 2, f"{least} bytes were free at least; the limit is {limit}"
    return took


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
    """Run the plan on both clusters, with each engine; nothing without the right to mount."""
    load = LOADS[extent]
    figures: list[Figure] = []
    for engine in ENGINES:
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(seconds_of, load, engine, f) for f in (LARGE, SPARE)]
        try:
            large, small = (run.result() for run in runs)
        except MountRefusedError as error:
            print(f"file systems of limited size need the right to mount: {error}", file=sys.stderr)
            break
        what = f"{engine} engine: {load.bytes // 1_000_000} MB each way"
        figures += [
            Figure(f"{what}, on disks with {LARGE:g} times what is needed", f"{large:.0f} s", 1),
            Figure(
                f"{what}, on disks with {SPARE:g} times what is needed",
                f"{small:.0f} s",
                1,
                ratio=f"{small / large:.2f} times that on large disks",
                spec=f"under {GOAL:g} times",
                is_met=small / large < GOAL,
            ),
        ]
    return figures
