"""
Rules for the placement of one partition, shared by all planners.

A broker without a rack counts as a rack of its own. So without any racks, spreading over racks
requires only that replicas are on different brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

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


def placement_problems(
    replicas: Replicas, *, brokers: Collection[BrokerId], racks: Racks, racks_min: int = 0
) -> Iterator[str]:
    """
    Yield the problems of a placement.

    Args:
        replicas: The planned replicas.
        brokers: The brokers that may hold a replica.
        racks: Racks of all brokers.
        racks_min: Minimum number of racks, see ``wanted_racks``.

    """
    if not replicas:
        yield "it has no replica"
    if len(set(replicas)) < len(replicas):
        yield f"a broker appears twice in {_listed(replicas)}"
    strangers = [broker for broker in replicas if broker not in brokers]
    if strangers:
        yield f"broker {_listed(strangers)} is not to hold a replica"
    spread = count_racks(replicas, racks)
    if spread < racks_min:
        yield f"it is spread over {spread} racks instead of {racks_min}"


def added_replicas(before: Replicas, after: Replicas) -> Replicas:
    """Return the replicas that are copied."""
    return tuple(broker for broker in after if broker not in before)


def _listed(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, brokers))
