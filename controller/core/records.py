"""
Records: one per durable change of a znode, and volatile ones that accompany them.

Each subject defines its own. ``record_kinds`` has what a record says of itself beside its class.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.core import model
from controller.core.calls.records import CallRecord
from controller.core.deletions.records import DeletionRecord
from controller.core.effects import Effect
from controller.core.leadership.records import LeadershipRecord
from controller.core.model import BrokerId, TopicPartition
from controller.core.pacing.records import PacingRecord
from controller.core.reassignments.records import ReassignmentRecord
from controller.core.requests.records import RequestRecord
from controller.core.role.records import RoleRecord
from controller.core.topics.records import TopicRecord

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
