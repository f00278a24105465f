"""
Events: facts in the past tense, each a plain value; the sum of what the subjects define.

A read carries the present content of a znode, never a difference. An answer of a broker carries
what was sent, so that it is matched without callbacks. No event holds a client, a future or a
function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from controller.core.calls.records import CallEvent
from controller.core.cluster.records import ClusterEvent
from controller.core.deletions.records import DeletionEvent
from controller.core.disks.records import DiskEvent
from controller.core.leadership.records import LeadershipEvent
from controller.core.pacing.records import PacingEvent
from controller.core.reassignments.records import ReassignmentEvent
from controller.core.record_kinds import Fact
from controller.core.requests.records import RequestEvent
from controller.core.role.records import RoleEvent
from controller.core.topics.records import TopicEvent
from controller.core.worklist import Flags


@dataclass(frozen=True, slots=True)
class TimerFired(Fact):
    """A timer set with ``SetTimer`` fired."""

    wakes: ClassVar[Flags] = ()

    name: str


Event = (
    ClusterEvent
    | TopicEvent
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
