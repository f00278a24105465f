"""
The topic of the produce probe: its settings, its brokers, and the replicas of its partitions.

Each broker that keeps replicas of other topics leads one partition, whose follower is the next of
these brokers. A partition is added for a broker that has no replica of the topic, as one that is
new. Nothing is ever moved for the probe: plans, drains and elections treat its topic as any other,
and a partition counts for the broker that leads it. So a drain takes the topic off its broker, and
the topic does not return as long as the broker is drained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from controller.core.model import BrokerId, PartitionAssignment, Replicas
from controller.core.pacing.drained_replicas import drained_brokers, replicas_to_be
from controller.core.view import ClusterView

PROBE_TOPIC: Final = "__reassigner_probe"
SETTINGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    # A broker that is down is no reason for the probe to fail.
    "min.insync.replicas": "1",
    "retention.bytes": "1048576",
    "retention.ms": "600000",
    "segment.bytes": "1048576",
    "segment.index.bytes": "65536",
    # Its records are worth nothing: any replica may lead.
    "unclean.leader.election.enable": "true",
}
"""A partition takes some 3 MB of a disk: brokers delete what is too old every five minutes."""
MOST_PER_BROKER: Final = 8
"""Partitions for each of its brokers: each drain of a broker adds one when it has ended."""


def probe_hosts(view: ClusterView) -> frozenset[BrokerId]:
    """
    Return the live brokers on which the topic may have replicas.

    A broker that keeps no replica of another topic when all reassignments have ended is being
    emptied, or is not in use yet. Where there is none, the first partitions show it.
    """
    unseen = set(view.cluster.brokers.keys() - drained_brokers(view))
    hosts = frozenset(unseen)
    for partition in view.topics.partitions():
        if partition.topic != PROBE_TOPIC:
            unseen.difference_update(replicas_to_be(view, partition) or ())
        if not unseen:
            break
    return hosts - unseen


def first_replicas(hosts: Collection[BrokerId]) -> tuple[Replicas, ...]:
    """Return the replicas of the new topic's partitions, one partition for each host."""
    return tuple(_replicas_led_by(broker, hosts) for broker in sorted(hosts))


def missing_replicas(
    present: Mapping[int, PartitionAssignment], hosts: Collection[BrokerId]
) -> tuple[Replicas, ...]:
    """Return the replicas of the partitions to add: one for each host without a replica."""
    used = {r for assignment in present.values() for r in assignment.replicas}
    without = sorted(b for b in hosts if b not in used)
    if len(present) + len(without) > MOST_PER_BROKER * len(hosts):
        return ()
    return tuple(_replicas_led_by(broker, hosts) for broker in without)


def _replicas_led_by(broker: BrokerId, hosts: Collection[BrokerId]) -> Replicas:
    """Return the broker and the next one, the first after the last."""
    following = min((b for b in hosts if b > broker), default=min(hosts))
    return (broker,) if following == broker else (broker, following)
