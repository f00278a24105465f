"""
Events and records: the sums of what the subjects define in their own ``records``.

An event is a fact in the past tense, a plain value. A read carries the present content of a znode,
never a difference. An answer of a broker carries what was sent, so that it is matched without
callbacks. No event holds a client, a future or a function.

A record is a durable change of a znode, or volatile and accompanies one.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.core import model
from controller.core.bases import Fact
from controller.core.calls.records import CallEvent, CallRecord
from controller.core.deletions.records import DeletionEvent, DeletionRecord
from controller.core.disks.records import DiskEvent
from controller.core.effects import Effect
from controller.core.leadership.records import LeadershipEvent, LeadershipRecord
from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.records import PacingEvent, PacingRecord
from controller.core.reassignments.records import ReassignmentEvent, ReassignmentRecord
from controller.core.requests.records import RequestEvent, RequestRecord
from controller.core.role.records import RoleEvent, RoleRecord
from controller.core.topics.records import TopicEvent, TopicRecord

Record = (
    TopicRecord
    | DeletionRecord
    | LeadershipRecord
    | RoleRecord
    | ReassignmentRecord
    | RequestRecord
    | PacingRecord
    | CallRecord
)


@dataclass(frozen=True, slots=True)
class Change:
    """Records that become durable together, and the effects that may follow only then."""

    records: tuple[Record, ...]
    effects: tuple[Effect, ...] = ()
    partition: TopicPartition | None = None
    """The partition that is changed: it is examined again when the write is rejected."""
    bounced: frozenset[BrokerId] = model.NO_BROKERS
    """Brokers whose bounce the change handles; they are kept if it is not written."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of one cycle: changes to commit, and effects that need no write first."""

    changes: tuple[Change, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class TimerFired(Fact, wakes=()):
    """A timer set with ``SetTimer`` fired."""

    name: str


Event = (
    TopicEvent
    | DeletionEvent
    | LeadershipEvent
    | RoleEvent
    | ReassignmentEvent
    | RequestEvent
    | PacingEvent
    | DiskEvent
    | CallEvent
    | TimerFired
)
