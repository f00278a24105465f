"""
Lower bounds: the number of replicas that any plan with the same goal copies at least.

Each function states why no plan copies less. Plans report how far they are from the bound.
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
    Return the minimum number of copies of one partition.

    Only replicas on allowed brokers can stay. Each copy adds at most one replica and one rack.
    """
    stay = [broker for broker in before if broker in brokers]
    return max(
        0,
        replication_factor - len(stay),
        min(replication_factor, racks_min) - count_racks(stay, racks),
    )


def even_shares(current: Mapping[BrokerId, int], total: int) -> dict[BrokerId, int]:
    """
    Share ``total`` replicas among brokers so that their numbers differ by at most one.

    The brokers with the most replicas get the remainder: no other choice lets more replicas stay.

    Args:
        current: Replicas of each broker now, zero included.
        total: Planned replicas of all brokers together.

    """
    if not current:
        return {}
    share, rest = divmod(total, len(current))
    fullest = sorted(current, key=lambda broker: (-current[broker], broker))
    return {broker: share + (place < rest) for place, broker in enumerate(fullest)}


def copies_to_balance(current: Mapping[BrokerId, int], total: int) -> int:
    """
    Return the minimum number of copies after which brokers differ by at most one replica.

    A broker keeps at most its share of its replicas; the rest of the shares is copied.

    Args:
        current: Replicas of each allowed broker now, zero included.
        total: Planned replicas of all brokers together.

    """
    shares = even_shares(current, total)
    return total - sum(min(current[broker], share) for broker, share in shares.items())


def copies_to_fill(
    current: Mapping[BrokerId, int], total: int, receivers: Collection[BrokerId]
) -> int:
    """
    Return the minimum number of copies after which each receiver has its even share.

    Args:
        current: As for ``copies_to_balance``.
        total: As for ``copies_to_balance``.
        receivers: The brokers to fill; the share is rounded down.

    """
    share = total // len(current) if current else 0
    return sum(max(0, share - current[broker]) for broker in receivers)
