"""
Rules for the placement of one partition, shared by all planners.

A broker without a rack counts as a rack of its own. So without any racks, spreading over racks
requires only that replicas are on different brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from controller.core.model import BrokerId, Replicas

Racks = Mapping[BrokerId, str | None]
"""The rack of each broker according to its registration; a missing broker has none."""


def rack_of(broker: BrokerId, racks: Racks) -> str | BrokerId:
    """Return a broker's rack, or the broker itself if it has none."""
    return racks.get(broker) or broker


def count_racks(replicas: Iterable[BrokerId], racks: Racks) -> int:
    """Return the number of racks of some replicas."""
    return len({rack_of(broker, racks) for broker in replicas})


def wanted_racks(
    before: Replicas,
    replication_factor: int,
    brokers: Collection[BrokerId],
    racks: Racks,
    *,
    widest: bool = False,
) -> int:
    """
    Return the minimum number of racks of a partition.

    As many as now, as far as the brokers and the replication factor allow.

    Args:
        before: The current replicas.
        replication_factor: Planned number of replicas.
        brokers: The brokers that may hold a replica.
        racks: Racks of all brokers.
        widest: Require as many racks as possible instead of as many as now.

    """
    reachable = min(replication_factor, count_racks(brokers, racks))
    return reachable if widest else min(reachable, count_racks(before, racks))


def added_replicas(before: Replicas, after: Replicas) -> Replicas:
    """Return the replicas that are copied."""
    return tuple(broker for broker in after if broker not in before)
