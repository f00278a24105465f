"""
What holds for the placement of one partition, whoever plans it.

A broker without a rack counts as a rack of its own. So, where no broker has one, spreading over
racks asks no more than that replicas are on different brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from controller.core.model import BrokerId, Replicas

Racks = Mapping[BrokerId, str | None]
"""The rack of each broker, as its registration says; one that is not named has none."""


def rack_of(broker: BrokerId, racks: Racks) -> str | BrokerId:
    """Return a broker's rack, or the broker itself where it has none."""
    return racks.get(broker) or broker


def count_racks(replicas: Iterable[BrokerId], racks: Racks) -> int:
    """Return over how many racks replicas are spread."""
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
    Return over how many racks a partition is to be spread at least.

    Never fewer than before, as far as the brokers and the replication factor allow.

    Args:
        before: The replicas as they are.
        replication_factor: How many there are to be.
        brokers: Those that may hold one.
        racks: Of all brokers.
        widest: As many racks as possible instead of as many as now.

    """
    reachable = min(replication_factor, count_racks(brokers, racks))
    return reachable if widest else min(reachable, count_racks(before, racks))


def placement_problems(
    replicas: Replicas, *, brokers: Collection[BrokerId], racks: Racks, racks_min: int = 0
) -> Iterator[str]:
    """
    Say what is wrong with where a partition's replicas are to be; nothing where all is well.

    Args:
        replicas: Where they are to be.
        brokers: Those that may hold one.
        racks: Of all brokers.
        racks_min: Over how many racks they have to be spread, see ``wanted_racks``.

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
    """Return the replicas that have to be copied."""
    return tuple(broker for broker in after if broker not in before)


def _listed(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, brokers))
