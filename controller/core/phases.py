"""
The phases of one partition's reassignment and which may follow which.

The names A1..B8 are those of Kafka's ``KafkaController.onPartitionReassignment``. A step adds a few
replicas and drops a few. Where the dropped ones may leave at once, their exclusion rides on the
write of A1 (``Starting.excluded_at`` is set) and the phases are

    Pending -> Starting -> Stopping -> Syncing -> (next step) Starting ...  -> Ended

Where they have to stay until the new ones are in sync (``step_size = all``, or the gate says so):

    Pending -> Starting -> Syncing -> Shrinking -> Stopping -> (next step) Starting ... -> Ended

Where the target changes in flight, or is cancelled, the step turns round: from any phase in which
no replica was told to stop yet, a new ``Starting`` drops what is not wanted any more.

``Expanding`` is where a step stands that an earlier tenure, or another controller, left in the
topic znode: the epoch is bumped and everything is sent anew, whatever may have been sent before.

The delegated engine knows the begin and the end of a step only, as its controller does the rest:

    Pending -> Ordered -> Syncing -> (next step) Ordered ... -> Ended

Phases live in memory only. Fields exist where they mean something.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.core.model import AlterOutcome, BrokerId, Instant, LeaderEpoch, Replicas


@dataclass(frozen=True, slots=True)
class Pending:
    """Accepted; the topic znode says nothing of it yet (or the next step is not begun)."""

    not_before: Instant | None = None
    """Until when it rests because the cluster's controller did not do what it was told."""
    why: str = ""
    """What that controller answered."""


@dataclass(frozen=True, slots=True)
class Expanding:
    """A1 is due: the topic znode names the step, this tenure has not bumped the leader epoch."""


@dataclass(frozen=True, slots=True)
class AwaitingController:
    """Delegated: the cluster's controller was told; what it makes of it in ZooKeeper is awaited."""

    target: Replicas
    """What it was told, or where it leads back to where the order was to cancel."""
    since: Instant
    """When it was told, or answered: that may take long while there is no controller."""
    error: int | None = None
    """What it answered; None: nothing yet."""
    why: str = ""
    fate: AlterOutcome | None = None
    """What is known of the order; None: it is on its way."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A1 written and A2 sent: the leader's acknowledgement is awaited."""

    leader_epoch: LeaderEpoch
    excluded_at: LeaderEpoch | None
    """The epoch at which this tenure took the dropped replicas out of the ISR, if it did."""
    excluded: Replicas = ()
    """Which ones: nothing else may be deleted once the leader acknowledged that epoch."""


@dataclass(frozen=True, slots=True)
class Syncing:
    """The new replicas copy: the target within the ISR is awaited."""


@dataclass(frozen=True, slots=True)
class Shrinking:
    """B1..B4 written as one compare-and-set: the leader's acknowledgement is awaited."""

    excluded_at: LeaderEpoch
    excluded: Replicas = ()
    """As of ``Starting``."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """B4, B5: StopReplica is out to the dropped replicas; their acknowledgements are awaited."""

    waiting: frozenset[BrokerId]
    given_up: frozenset[BrokerId]
    """Dropped replicas that cannot acknowledge: they become orphans when the step ends."""
    deadline: Instant


@dataclass(frozen=True, slots=True)
class Ended:
    """B6..B8: the topic znode is final and the record is gone."""


Phase = Pending | AwaitingController | Expanding | Starting | Syncing | Shrinking | Stopping | Ended

LEGAL: Final[Mapping[type, frozenset[type]]] = {
    Pending: frozenset({Expanding, AwaitingController, Starting, Ended}),
    AwaitingController: frozenset({Pending, AwaitingController, Syncing, Ended}),
    Expanding: frozenset({Starting, Syncing, Shrinking}),
    Starting: frozenset({Syncing, Stopping, Starting}),
    Syncing: frozenset({Pending, AwaitingController, Starting, Shrinking, Ended}),
    Shrinking: frozenset({Stopping, Starting}),
    Stopping: frozenset({Pending, Starting, Syncing, Ended}),
    Ended: frozenset(),
}
"""
What may follow a phase.

``apply`` refuses anything else, tests cross it, the diagram is drawn from it.
"""

LABELS: Final[Mapping[type, str]] = {
    Pending: "pending",
    AwaitingController: "ordered",
    Expanding: "A1",
    Starting: "A2",
    Syncing: "A2-syncing",
    Shrinking: "B3",
    Stopping: "B5",
    Ended: "ended",
}
"""How logs, metrics, the status page and the documentation name the phases."""


def label_of(phase: Phase) -> str:
    """Return the phase's short name, a bounded set fit for a metric label."""
    return LABELS[type(phase)]
