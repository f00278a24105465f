"""
The facts about the controller role that outlive a tenure: leadership, engine, time of claims.

It lasts as long as the process. ``retry_claim_at``, ``rejected_by_brokers``, the times of topic
deletions and of orphans are what one tenure leaves to the decision about the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core import events, options
from controller.core.model import Instant, Replicas
from controller.core.reassignments import START


@dataclass(slots=True)
class RoleState:
    """The leadership of this daemon, its engine, and the grounds for the next claim."""

    leading: bool = False
    stopping: bool = False
    engine: options.EngineName | None = None
    """The engine at work; None before it is chosen."""
    engine_why: str | None = None
    delegable: bool = False
    """Whether the cluster's controller supports AlterPartitionReassignments."""
    undelegable: str | None = None
    """Why the cluster's controller does not support it; None where it may."""
    retry_claim_at: Instant = START
    rejected_by_brokers: str | None = None
    """The reason for which brokers refused the last tenure, until one accepts a request."""
    deletions_since: dict[str, Instant] = field(default_factory=dict)
    """
    Since when each topic deletion has been pending.

    The time of our tenures does not count for those that are not in ``yielded``.
    """
    held_up_since: Instant = START
    """Since when consecutive deletions have delayed a claim."""
    yielded: frozenset[str] = frozenset()
    """Deletions for which a broker already had the role for their time."""
    orphans_after: Instant = START
    """Orphans alone are no reason to claim before this time."""
    orphans_retry_s: float = 0.0
    """The back-off after the last tenure that led to that time, in seconds."""
    orphans_left: dict[events.Orphan, Replicas] = field(default_factory=dict)
    """
    Orphans that the last tenure left although their brokers were live, with the ISRs it saw.

    Each with all brokers seen in the ISR of a partition with a leader since brokers last came or
    went.
    """
