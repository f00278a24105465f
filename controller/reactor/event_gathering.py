"""
How events gather between two busy turns.

In the thick of a large plan each event would else be a turn of its own, with a write to ZooKeeper
and a request to every broker; what comes in the meantime shares them. Whatever is not the course of
a plan, above all what people ask for, is not kept waiting.
"""

from __future__ import annotations

from typing import Final

from controller.core.events import (
    Event,
    IsrNotificationsRead,
    LeaderAndIsrAnswered,
    LegacyPlanRead,
    SizesRead,
    StateChanged,
    StatesRead,
    StopReplicaAnswered,
    TimerFired,
    TopicsRead,
    UpdateMetadataAnswered,
    WallClockRead,
)

GATHER_AFTER: Final = 8
"""Changes of a turn from which on it counts as busy: a small plan is never kept waiting."""
GATHER_S: Final = 0.05
"""How long they gather at most."""

_MAY_WAIT: Final = (
    StateChanged,
    StatesRead,
    TopicsRead,
    LeaderAndIsrAnswered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
    IsrNotificationsRead,
    LegacyPlanRead,
    SizesRead,
    TimerFired,
    WallClockRead,
)
"""What a plan under way is made of; the legacy plan is read again whenever it is written."""


def may_wait(event: Event) -> bool:
    """Return whether an event may wait for others."""
    return isinstance(event, _MAY_WAIT)
