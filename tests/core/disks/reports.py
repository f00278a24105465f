"""Reports of brokers about their log directories."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.core.disks.records import LogDirsDescribed
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    Instant,
    LogDir,
    PlacedReplica,
    TopicPartition,
)
from controller.core.view import ClusterView

ROOMY = (LogDir("/data", 10**15, 10**15),)


def report(
    broker: int,
    sizes: Mapping[TopicPartition, int],
    *,
    at: float = 0.0,
    epoch: int = 0,
    queried: Collection[TopicPartition] = (),
    dirs: tuple[LogDir, ...] = ROOMY,
) -> LogDirsDescribed:
    """Return what a broker says that has these replicas, of those it was queried about."""
    replicas = {p: PlacedReplica(dirs[0].path, size) for p, size in sizes.items()}
    return LogDirsDescribed(
        BrokerId(broker),
        BrokerEpoch(epoch),
        Instant(at),
        frozenset({*sizes, *queried}),
        dirs,
        replicas,
    )


def reports(
    view: ClusterView, sizes: Mapping[TopicPartition, Mapping[int, int]], at: Instant
) -> list[LogDirsDescribed]:
    """Return what live brokers say that have these replicas, by partition and broker."""
    brokers = sorted({broker for held in sizes.values() for broker in held})
    return [
        report(
            broker,
            {p: held[broker] for p, held in sizes.items() if broker in held},
            at=at,
            epoch=view.cluster.brokers[BrokerId(broker)].epoch,
            queried=sizes,
        )
        for broker in brokers
    ]
