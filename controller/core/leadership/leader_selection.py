"""
Leader selection: the three algorithms of a controller.

They are those of KAFKA-42 (``PartitionLeaderElectionAlgorithms`` in Kafka). Each returns the
broker, or None when no choice is safe.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.core.model import BrokerId, Replicas

IsLive = Callable[[BrokerId], bool]


def offline_leader(
    assigned: Replicas, isr: Replicas, is_live: IsLive, *, unclean: bool
) -> BrokerId | None:
    """
    Select a leader for a partition whose leader is not live.

    The first assigned replica that is live and in the ISR; if there is none, the first live
    assigned one, but only where the topic permits an unclean election.
    """
    for replica in assigned:
        if replica in isr and is_live(replica):
            return replica
    if unclean:
        return next((r for r in assigned if is_live(r)), None)
    return None


def reassigned_leader(target: Replicas, isr: Replicas, is_live: IsLive) -> BrokerId | None:
    """Select the first target replica that is live and in the ISR."""
    return next((r for r in target if r in isr and is_live(r)), None)


def preferred_leader(assigned: Replicas, isr: Replicas, is_live: IsLive) -> BrokerId | None:
    """Select the first assigned replica, if it is live and in the ISR."""
    if assigned and assigned[0] in isr and is_live(assigned[0]):
        return assigned[0]
    return None
