"""
The phases of one partition's reassignment, and the transitions between them.

The names A1 to B8 are those of Kafka's ``KafkaController.onPartitionReassignment``. A step adds a
few replicas and drops a few. Where the dropped replicas may leave at once, the write of A1 excludes
them (``Starting.excluded_at`` is set) and the phases are

    Pending -> Starting -> Stopping -> Syncing -> (next step) Starting ...  -> Ended

Where they must stay until the new ones are in sync (``step_size = all``, or the gate requires it):

    Pending -> Starting -> Syncing -> Shrinking -> Stopping -> (next step) Starting ... -> Ended

Where the target changes in flight, or the reassignment is cancelled, the step is retargeted: from
any phase before StopReplica is sent, a new ``Starting`` drops the replicas that the target does not
contain.

``Expanding`` is a step that an earlier tenure, or another controller, left in the topic znode: the
leader epoch is bumped and all requests are sent again, whatever was sent before.

The delegated engine sees only the begin and the end of a step, as the cluster's controller does the
rest:

    Pending -> AwaitingController -> Syncing -> (next step) AwaitingController ... -> Ended

An entry that names log directories ends in ``Placing``: the topic znode is at the target, and each
named replica that is elsewhere is moved by its own broker.

A reset puts a reassignment where the topic znode says it is: when a tenure begins or ends, and when
another controller changed the replicas that the phase was decided on. Phases exist in memory only,
and every change of one passes ``legal_phase``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from controller.core.model import (
    AlterOutcome,
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    LeaderEpoch,
    LogDirs,
    Replicas,
)
from controller.errors import InvariantError


@dataclass(frozen=True, slots=True)
class Pending:
    """Accepted; the topic znode does not contain the next step yet."""

    not_before: Instant | None = None
    """The end of the back-off after the cluster's controller did not carry out a request."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Expanding:
    """A1 is due: the topic znode contains a step that this tenure has not begun."""


@dataclass(frozen=True, slots=True)
class AwaitingController:
    """Delegated: an alter entry was sent, and the controller's change in ZooKeeper is awaited."""

    target: Replicas
    """The target of the request; of a request that cancels, the replicas it leads back to."""
    since: Instant
    """The time of the request or of its answer; without a controller an answer may take long."""
    error: int | None = None
    """The error code of the answer; None before the answer."""
    why: str = ""
    fate: AlterOutcome | None = None
    """The outcome of the request as far as known; None while it is under way."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A1 is written and A2 sent; the leader's acknowledgement is awaited."""

    leader_epoch: LeaderEpoch
    excluded_at: LeaderEpoch | None
    """The epoch at which this tenure took the dropped replicas out of the ISR, or None."""
    excluded: Replicas = ()
    """The excluded replicas; only these may be deleted once the leader acknowledged that epoch."""
    is_led_anew: bool = False
    """Whether the same write moved the leader: the new one has handled no fetch of theirs."""


@dataclass(frozen=True, slots=True)
class Syncing:
    """The new replicas copy; the target within the ISR is awaited."""


@dataclass(frozen=True, slots=True)
class Shrinking:
    """B1 to B4 are written as one compare-and-set; the leader's acknowledgement is awaited."""

    excluded_at: LeaderEpoch
    excluded: Replicas = ()
    is_led_anew: bool = False
    """As in ``Starting``."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """B4, B5: StopReplica was sent to the dropped replicas; their acknowledgements are awaited."""

    waiting: frozenset[BrokerId]
    given_up: frozenset[BrokerId]
    """Dropped replicas that cannot acknowledge; they become orphans when the step ends."""
    deadline: Instant
    deletes: bool = True
    """Whether the deletion was sent; before that, replicas only stop fetching (B4)."""


@dataclass(frozen=True, slots=True)
class Placing:
    """The topic znode is at the target; named replicas are not known to be in their directories."""

    moving: LogDirs = ()
    """The brokers whose replicas may be moving, each with the directory that takes them."""


@dataclass(frozen=True, slots=True)
class Ended:
    """B6 to B8: the topic znode is final and the record is deleted."""


Phase = (
    Pending
    | AwaitingController
    | Expanding
    | Starting
    | Syncing
    | Shrinking
    | Stopping
    | Placing
    | Ended
)

LEGAL: Final[Mapping[type, frozenset[type]]] = {
    Pending: frozenset({Expanding, AwaitingController, Starting, Syncing, Placing, Ended}),
    AwaitingController: frozenset({Pending, AwaitingController, Syncing, Placing, Ended}),
    Expanding: frozenset({Starting, Syncing, Shrinking}),
    Starting: frozenset({Syncing, Stopping, Starting}),
    Syncing: frozenset({Pending, AwaitingController, Starting, Shrinking, Placing, Ended}),
    Shrinking: frozenset({Stopping, Starting}),
    Stopping: frozenset({Pending, Starting, Syncing, Stopping, Placing, Ended}),
    Placing: frozenset({Pending, AwaitingController, Placing, Ended}),
    Ended: frozenset(),
}
"""The transitions that decisions make."""

RESETS: Final[Mapping[type, frozenset[type]]] = {
    **dict.fromkeys(LEGAL, frozenset({Pending, Expanding})),
    AwaitingController: frozenset({Pending}),
    Ended: frozenset(),
}
"""The transitions of a reset. Only the native engine resets within a tenure."""

UPDATES: Final[Mapping[type, frozenset[type]]] = {
    phase: frozenset({phase} if phase in {AwaitingController, Stopping} else ()) for phase in LEGAL
}
"""The phases whose fields answers of brokers change."""


class PhaseCause(Enum):
    """The cause of a change of phase, which decides what may follow."""

    STEP = auto()
    """A decision."""
    RESET = auto()
    """The topic znode."""
    UPDATE = auto()
    """An answer of a broker: the phase stays, with its age."""


TRANSITIONS: Final[Mapping[PhaseCause, Mapping[type, frozenset[type]]]] = {
    PhaseCause.STEP: LEGAL,
    PhaseCause.RESET: RESETS,
    PhaseCause.UPDATE: UPDATES,
}
"""Every legal change of a phase; tests cover each pair, and the diagram is drawn from it."""

LABELS: Final[Mapping[type, str]] = {
    Pending: "pending",
    AwaitingController: "ordered",
    Expanding: "A1",
    Starting: "A2",
    Syncing: "A2-syncing",
    Shrinking: "B3",
    Stopping: "B5",
    Placing: "placing",
    Ended: "ended",
}
"""The names of the phases in logs, metrics, the status page and the documentation."""


def label_of(phase: Phase) -> str:
    """Return the short name of a phase, from a bounded set fit for a metric label."""
    return LABELS[type(phase)]


def legal_phase(before: Phase, after: Phase, change: PhaseCause, where: object) -> Phase:
    """
    Return the phase to enter after the present one; ``where`` is the partition, for the error.

    Raises:
        InvariantError: ``after`` may not follow ``before``.

    """
    if type(after) not in TRANSITIONS[change][type(before)]:
        raise InvariantError(
            f"{where}: {label_of(before)} cannot be followed by {label_of(after)} ({change.name})"
        )
    return after


# --- the back-off after alter entries ------------------------------------------------------------
# A request that was not carried out is never repeated unchanged: after the back-off everything is
# decided again.


BACKOFF_S: Final = 5.0
"""The back-off after an alter entry that was refused, or not answered, in seconds."""
UNSENT_S: Final = 1.0
"""The back-off where no controller received the request: the role changes hands."""
UNDONE_S: Final = 60.0
"""The back-off after a step that another client took back and is likely to take back again."""
ELECTION_S: Final = 5.0
"""How long the cluster's controller may take to elect a leader before it is requested again."""
SEEN_S: Final = 10.0
"""How long an accepted alter entry may take to appear in ZooKeeper, in seconds."""


def backoff_of(phase: AwaitingController) -> float:
    """Return the back-off after an alter entry that was not carried out, in seconds."""
    return UNSENT_S if phase.fate is AlterOutcome.UNSENT else BACKOFF_S


def backing_off(phase: Phase, now: Instant) -> Blocked | None:
    """Block the partition for the back-off after its last alter entry."""
    match phase:
        case Pending(not_before=until) if until is not None and now < until:
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case AwaitingController() if phase.error and now < phase.since + backoff_of(phase):
            return Blocked(BlockedBy.CONTROLLER_ANSWER, phase.why)
        case _:
            return None
