"""
The facts about the cluster that outlive a session: its brokers, and what was seen or done before.

A new session reads ``brokers`` again and compares: a broker that restarted meanwhile is noticed.
The two counters only grow, so that an answer to an old read or request is recognised.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core import model
from controller.core.model import BrokerId, Instant, Replicas, TopicPartition
from controller.core.reassignments import START


@dataclass(slots=True)
class ClusterHistory:
    """The brokers, and the history that no read shows again."""

    brokers: dict[BrokerId, model.LiveBroker] = field(default_factory=dict)
    read_generation: int = 0
    """
    How often cached reads were invalidated, by a claim or a rejected write.

    A read carries the generation in which it began, so that an answer that was under way at an
    invalidation is recognised.
    """
    config_question: model.ConfigQuestion = model.NEVER_ASKED
    """The newest request for settings."""
    before: dict[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas of a partition before another client began to change them."""
    departed: dict[tuple[BrokerId, TopicPartition], Instant] = field(default_factory=dict)
    """Replicas that another controller removed from an assignment, and when that was seen."""
    notifications: dict[str, tuple[str, ...]] = field(default_factory=dict)
    round_at: Instant = START
    """When the next round reads states that others change."""
    round_from: int = 0
    missing_at: Instant = START
    """When missing or unreadable states of reassignments may be read again."""
    preferred_at: Instant = START
    balanced_at: Instant = START
    """When the balance of leaderships was last checked."""
    wall: tuple[Instant, float] | None = None
    """An instant and the wall clock's reading at it, in seconds since 1970."""

    def unix_s(self, now: Instant) -> float | None:
        """Return the wall clock's reading at an instant; None until it was read."""
        if self.wall is None:
            return None
        at, unix_s = self.wall
        return unix_s + (now - at)
