"""
The requests of operators as last read: plan, queue, cancellation and controls.

It outlives sessions: a znode that was carried out is recognised when it is read again
(``legacy_ended``, ``queue_ended``, ``cancellation_ended``). Submitted requests are part of the
session.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core import events, submissions
from controller.core.cached_znodes import PlanNode
from controller.core.controls import Controls
from controller.core.model import Instant, RequestId, Zxid


@dataclass(slots=True)
class IntakeState:
    """The znodes by which operators steer the daemon."""

    # the legacy plan
    legacy: PlanNode | None = None
    legacy_ended: Zxid | None = None
    legacy_last: Zxid | None = None
    """The plan at the last look, also in an earlier session; 0: there was none."""
    legacy_came: Instant | None = None
    """When that plan appeared; None: it existed at the first look."""

    # the queue
    queue: PlanNode | None = None
    queue_ended: Zxid | None = None

    # cancellation
    cancellation: submissions.Cancellation | None = None
    cancellation_stale: bool = False
    """
    The write of its end was rejected because the znode was changed or deleted; it is read again.
    """
    cancellation_ended: Zxid | None = None
    accepted: dict[RequestId, events.AcceptedRead] = field(default_factory=dict)
    """The original replicas of a request's partitions, for one that is to be undone as a whole."""

    # controls
    controls: Controls = field(default_factory=Controls)
    controls_known: bool = False
    """Whether all controls were ever decoded, also in an earlier session."""
