"""
The kinds of reasons for which partitions wait, and the state of one that waits for none.

They are values: what shows a status needs them, and no decision.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, assert_never

from controller.core.model import BlockedBy

COPYING: Final = "copying"
"""
The state of a partition whose new replicas are not in sync yet and that has no other obstacle.
"""


class ReasonKind(Enum):
    """What has to happen before a partition with a reason continues."""

    IN_TURN = auto()
    """Limits and wishes of operators: a partition with such a reason is not stalled."""
    PASSING = auto()
    """The daemon itself ends it soon: a throttle is written, sizes are measured."""
    OBSTACLE = auto()
    """Something else has to change: a partition that waits for it too long is stalled."""


def kind_of(by: BlockedBy) -> ReasonKind:
    """Return the kind of a reason."""
    match by:
        case (
            BlockedBy.LIMIT
            | BlockedBy.LEADER_MOVES
            | BlockedBy.DRAINING
            | BlockedBy.KILL_SWITCH
            | BlockedBy.PAUSED
            | BlockedBy.WINDOW
            | BlockedBy.INCOMPLETE
        ):
            return ReasonKind.IN_TURN
        case BlockedBy.THROTTLE | BlockedBy.DISK_UNKNOWN:
            return ReasonKind.PASSING
        case (
            BlockedBy.CONFIG_UNKNOWN
            | BlockedBy.STATE_UNKNOWN
            | BlockedBy.NO_LEADER
            | BlockedBy.REPLICA_NOT_IN_ISR
            | BlockedBy.BROKER_DEAD
            | BlockedBy.MIN_ISR
            | BlockedBy.LEADER_ACK
            | BlockedBy.STOP_REPLICA_ACK
            | BlockedBy.TOPIC_DELETION
            | BlockedBy.DISK_FULL
            | BlockedBy.LOG_DIR
            | BlockedBy.CLUSTER_HEALTH
            | BlockedBy.CONTROLLER_ROLE
            | BlockedBy.CONTROLLER_ANSWER
            | BlockedBy.WRITE_REFUSED
            | BlockedBy.FOREIGN_MOVES
            | BlockedBy.NO_TARGET
        ):
            return ReasonKind.OBSTACLE
        case unknown:
            assert_never(unknown)


IN_TURN: Final = frozenset(by for by in BlockedBy if kind_of(by) is ReasonKind.IN_TURN)
PATIENT: Final = IN_TURN | {
    BlockedBy.STATE_UNKNOWN,
    BlockedBy.LEADER_ACK,
    BlockedBy.STOP_REPLICA_ACK,
    BlockedBy.TOPIC_DELETION,
    BlockedBy.THROTTLE,
    BlockedBy.DISK_UNKNOWN,
    BlockedBy.LOG_DIR,
    BlockedBy.CONTROLLER_ROLE,
    BlockedBy.CONTROLLER_ANSWER,
}
"""Reasons that end by themselves or by design: only a stall makes them worth attention."""
BLOCKING: Final = frozenset(BlockedBy) - PATIENT
"""Reasons that need an operator, or a broker's return."""
LASTING: Final = BLOCKING | IN_TURN - {
    BlockedBy.LIMIT,
    BlockedBy.LEADER_MOVES,
}
"""Reasons without a known end: there is no estimate of what waits for them."""
