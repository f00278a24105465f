"""
The back-off of a partition after an alter request that was not carried out.

An alter request is never repeated unchanged: its preconditions may no longer hold. After the
back-off everything is decided again.
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
"""The back-off after an alter request that was refused, or not answered, in seconds."""
UNSENT_S: Final = 1.0
"""The back-off where no controller received the request: the role changes hands."""
UNDONE_S: Final = 60.0
"""The back-off after a step that another client took back and is likely to take back again."""
SEEN_S: Final = 10.0
"""How long an accepted alter request may take to appear in ZooKeeper, in seconds."""


def rest_of(phase: AwaitingController) -> float:
    """Return the back-off after an alter request that was not carried out, in seconds."""
    return UNSENT_S if phase.fate is AlterOutcome.UNSENT else REST_S


def resting(phase: Phase, now: Instant) -> Blocked | None:
    """Return that the partition backs off after its last alter request, and why."""
    match phase:
        case Pending(not_before=until) if until is not None and now < until:
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case AwaitingController() if phase.error and now < phase.since + rest_of(phase):
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case _:
            return None


def follow_answers(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Read what an answer invalidated; set the timer of the next look at alter requests."""
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
