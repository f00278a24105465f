"""
How long a partition rests after an order that was not made, and what is looked at meanwhile.

An order is never repeated as it was: what it stood on may be over. After its rest everything is
decided anew.
"""

from __future__ import annotations

from typing import Final

from controller.core.effects import Effect, ReadTopics, SetTimer
from controller.core.model import AlterOutcome, Blocked, BlockedBy, Instant
from controller.core.phases import AwaitingController, Pending, Phase
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

SEEN_TIMER: Final = "order_seen"
REST_S: Final = 5.0
"""How long a partition rests whose order was refused, or not answered."""
UNSENT_S: Final = 1.0
"""How long it rests where the order reached nobody: the role changes hands."""
UNDONE_S: Final = 60.0
"""How long a partition rests whose step others took back: whoever does so does it again."""
SEEN_S: Final = 10.0
"""How long an order that was accepted may take to be seen in ZooKeeper."""


def rest_of(phase: AwaitingController) -> float:
    """Return how long to rest after an order that was not made."""
    return UNSENT_S if phase.fate is AlterOutcome.UNSENT else REST_S


def resting(phase: Phase, now: Instant) -> Blocked | None:
    """Return that the last order was not made just now, and why."""
    match phase:
        case Pending(not_before=until) if until is not None and now < until:
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case AwaitingController() if phase.error and now < phase.since + rest_of(phase):
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case _:
            return None


def follow_answers(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Read what an answer put in doubt; ask for the time when an order is looked at again."""
    if not (due.timer or due.answered):
        return Decision()
    effects: list[Effect] = []
    stale = tuple(sorted(name for name, topic in view.topics.items() if topic.stale))
    if stale and due.answered:
        effects.append(ReadTopics(stale))
    times = [
        max(phase.since + (rest_of(phase) if phase.error else SEEN_S), now + UNSENT_S)
        for phase in (r.phase for r in view.reassignments.values())
        if isinstance(phase, AwaitingController) and phase.error is not None
    ]
    if times:
        effects.append(SetTimer(SEEN_TIMER, Instant(min(times))))
    return Decision(effects=tuple(effects))
