"""
Alter entries to the cluster's own controller: their preconditions and the back-off after them.

The gates are a function of these facts: while none of them changes, their result holds. Where one
changed before the request is sent, it is withdrawn and everything is decided again. For the same
reason a request that was not carried out is never repeated unchanged: after the back-off everything
is decided again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from controller.core import effects, model, wakeups
from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, TopicPartition
from controller.core.reassignments import phases
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist


class AlterPreconditions(NamedTuple):
    """The facts about one partition."""

    spec: model.ReassignmentSpec
    assignment: model.PartitionAssignment
    state: model.PartitionState
    settings: model.TopicConfig | None
    live: tuple[tuple[BrokerId, model.BrokerEpoch], ...]
    """Live brokers that have, had or are to have a replica, with their registrations."""


def preconditions_of(view: ClusterView, partition: TopicPartition) -> AlterPreconditions | None:
    """Return the facts; None where one is unknown, outdated, or of a former topic."""
    reassignment = view.reassignments.by_partition.get(partition)
    assignment, state = view.topics.assignment(partition), view.leadership.states.get(partition)
    if reassignment is None or assignment is None or state is None:
        return None
    # A former topic may be equal to the present one in all else.
    if view.is_of_former_topic(partition) or view.leadership.watched.get(partition) is not True:
        return None
    spec, settings = reassignment.spec, view.topics.configs.get(partition.topic)
    concerned = {*assignment.replicas, *spec.target, *(spec.original or ())}
    live = view.live(sorted(concerned), partition)
    epochs = tuple((b, view.cluster.brokers[b].epoch) for b in live)
    return AlterPreconditions(spec, assignment, state, settings, epochs)


# --- the back-off --------------------------------------------------------------------------------


BACKOFF_S: Final = 5.0
"""The back-off after an alter entry that was refused, or not answered, in seconds."""
UNSENT_S: Final = 1.0
"""The back-off where no controller received the request: the role changes hands."""
UNDONE_S: Final = 60.0
"""The back-off after a step that another client took back and is likely to take back again."""
SEEN_S: Final = 10.0
"""How long an accepted alter entry may take to appear in ZooKeeper, in seconds."""


def backoff_of(phase: phases.AwaitingController) -> float:
    """Return the back-off after an alter entry that was not carried out, in seconds."""
    return UNSENT_S if phase.fate is model.AlterOutcome.UNSENT else BACKOFF_S


def backing_off(phase: phases.Phase, now: Instant) -> Blocked | None:
    """Block the partition for the back-off after its last alter entry."""
    match phase:
        case phases.Pending(not_before=until) if until is not None and now < until:
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case phases.AwaitingController() if phase.error and now < phase.since + backoff_of(phase):
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case _:
            return None


def follow_answers(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Set the timer of the next look at alter entries."""
    reassignments = view.reassignments.by_partition.values() if due.timer or due.answered else ()
    times = [
        max(phase.since + (backoff_of(phase) if phase.error else SEEN_S), now + UNSENT_S)
        for phase in (r.phase for r in reassignments)
        if isinstance(phase, phases.AwaitingController) and phase.error is not None
    ]
    if not times:
        return Decision()
    return Decision(effects=(effects.SetTimer(wakeups.ALTER_SEEN_TIMER, Instant(min(times))),))
