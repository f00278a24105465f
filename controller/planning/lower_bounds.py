"""
What no plan can do without: how many replicas any plan with the same end has to copy.

Each function states why nothing less is possible; a planner is judged by its distance from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.core.model import BrokerId, Replicas
from controller.planning.placement import Racks, count_racks


def copies_of_partition(
    before: Replicas,
    *,
    replication_factor: int,
    brokers: Collection[BrokerId],
    racks: Racks,
    racks_min: int = 0,
) -> int:
    """
    Return how many replicas of one partition have to be copied, whatever else is wished.

    Only those that are where they may be can stay. Each that is copied makes at most one more
    replica and adds at most one rack.
    """
    stay = [broker for broker in before if broker in brokers]
    return max(
        0,
        replication_factor - len(stay),
        min(replication_factor, racks_min) - count_racks(stay, racks),
    )


def even_shares(current: Mapping[BrokerId, int], total: int) -> dict[BrokerId, int]:
    """
    Share ``total`` replicas among brokers, none with two more than another.

    Where it does not come out even, those that hold the most get one more: no other choice lets
    more replicas stay.

    Args:
        current: How many replicas each broker holds now, zero included.
        total: How many there are to be on all of them.

    """
    if not current:
        return {}
    share, rest = divmod(total, len(current))
    fullest = sorted(current, key=lambda broker: (-current[broker], broker))
    return {broker: share + (place < rest) for place, broker in enumerate(fullest)}


def copies_to_balance(current: Mapping[BrokerId, int], total: int) -> int:
    """
    Return how many replicas have to be copied until no broker has two more than another.

    A broker keeps at most its share of what it holds; all else that is to be there is copied.

    Args:
        current: How many replicas each broker that may hold one holds now, zero included.
        total: How many there are to be on all of them.

    """
    shares = even_shares(current, total)
    return total - sum(min(current[broker], share) for broker, share in shares.items())


def copies_to_fill(
    current: Mapping[BrokerId, int], total: int, receivers: Collection[BrokerId]
) -> int:
    """
    Return how many replicas have to be copied until each receiver has its even share.

    Args:
        current: As for ``copies_to_balance``.
        total: As for ``copies_to_balance``.
        receivers: The brokers that are to be filled; the share is rounded down.

    """
    share = total // len(current) if current else 0
    return sum(max(0, share - current[broker]) for broker in receivers)
