"""
The reason for which each reassignment waits, also where no cycle has examined it yet.

A cycle notes why a partition is blocked (``Reassignment.blocked``). Beyond the limits, without the
role, or before an entry is accepted, single partitions are not examined: they share a common
reason, which is found here. For reporting only: no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.model import Blocked, BlockedBy, Instant, RequestId, TopicPartition
from controller.core.pacing import limits_in_force
from controller.core.pacing.operator_holds import request_hold, step_hold
from controller.core.reason_kinds import ReasonKind, kind_of
from controller.core.reassignments.gates import config_unknown, state_unknown
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.phases import Expanding, Pending
from controller.core.requests.drain_targets import undrained
from controller.core.requests.submissions import legacy_request_id
from controller.core.role import claims_and_resignations, eligibility
from controller.core.view import ClusterView


class BlockedReasons:
    """The reasons for which the reassignments of one view wait."""

    def __init__(self, view: ClusterView, now: Instant) -> None:
        """Find what blocks everything that is not in flight."""
        self._view = view
        self._now = now
        self._held: dict[RequestId, Blocked | None] = {}
        self.common = _common(view)
        """The reason common to all partitions without a step in flight; None if steps begin."""
        self._taken_up = _role_or_read(view)
        """The reason common to the steps in flight that a tenure takes up and did not examine."""

    def of(self, reassignment: Reassignment) -> Blocked | None:
        """Return what an accepted reassignment waits for; None when it makes progress or copies."""
        blocked = reassignment.blocked
        if not isinstance(reassignment.phase, Pending):
            if blocked is None and isinstance(reassignment.phase, Expanding):
                return self._taken_up
            return None if reassignment.is_copying else blocked
        held = self._hold(reassignment)
        if held is not None:
            return held
        # Beyond the limit, partitions are not examined again when this has ended.
        if blocked is None or kind_of(blocked.by) is not ReasonKind.OBSTACLE:
            return self.common or blocked
        return blocked

    def _hold(self, reassignment: Reassignment) -> Blocked | None:
        """Return an operator's hold on it; a claim would not change that."""
        spec = reassignment.spec
        if spec.rolls_back:
            return None
        if spec.request not in self._held:
            self._held[spec.request] = request_hold(self._view, spec.request, self._now)
        held = self._held[spec.request]
        is_disabled = self._view.disabled_because is not None
        if held is None and is_disabled and not reassignment.has_moved:
            return step_hold(self._view, reassignment, (), self._now)
        return held

    def blocked_entries(self) -> Iterator[tuple[TopicPartition, RequestId, Blocked]]:
        """Yield the entries of the plan and of drains that are not accepted yet, and why not."""
        view, legacy = self._view, self._view.requests.legacy
        # The view may change between two of them.
        for partition in () if legacy is None else tuple(legacy.entries):
            blocked = self._of_listed(partition)
            if legacy is not None and blocked is not None:
                yield partition, legacy_request_id(legacy.czxid), blocked
        request = view.pacing_process.controls.drains.request
        for partition, why in undrained(view, self._now):
            blocked = why or self.common
            if blocked is not None and partition not in view.reassignments.by_partition:
                yield partition, request, blocked

    def of_entry(self, partition: TopicPartition) -> Blocked | None:
        """Return why an entry of the plan or of drains is not accepted; None: it is, or is none."""
        listed = self._of_listed(partition)
        if listed is not None:
            return listed
        to_drain = undrained(self._view, self._now, (partition,))
        return next((why or self.common for _, why in to_drain), None)

    def _of_listed(self, partition: TopicPartition) -> Blocked | None:
        view = self._view
        entries = {} if view.requests.legacy is None else view.requests.legacy.entries
        if partition not in entries or partition in view.reassignments.by_partition:
            return None
        if view.tenure.held is None:
            return self.common
        topic = view.topics.by_name.get(partition.topic)
        if topic is None or topic.stale:
            return state_unknown(view, partition)
        if partition.topic not in view.topics.configs:
            return config_unknown(view, partition.topic)
        return None


def since_of(reassignment: Reassignment) -> Instant:
    """Return since when a reassignment has been waiting for its present reason."""
    noted = reassignment.blocked_since
    return reassignment.phase_since if noted is None else noted


def _common(view: ClusterView) -> Blocked | None:
    if not view.role.leading:
        # The leading daemon reports it.
        return None
    if view.tenure.held is None:
        return _role(view)
    held = claims_and_resignations.hold_of(view)
    if held is not None:
        return held
    cap = limits_in_force.in_flight_max(view)
    if view.pacing.in_flight >= cap:
        return Blocked(BlockedBy.LIMIT, limits_in_force.in_flight_text(cap))
    return None


def _role_or_read(view: ClusterView) -> Blocked | None:
    """Return what steps in flight wait for until the state of their partition is read."""
    if view.tenure.held is None or not view.is_native:
        return None
    unaccepted = None if view.tenure.accepted_by_broker else claims_and_resignations.hold_of(view)
    return unaccepted or Blocked(BlockedBy.STATE_UNKNOWN, "its state znode is being read")


def _role(view: ClusterView) -> Blocked:
    """Return why this daemon is not the controller."""
    reasons = eligibility.refusals(view)
    if reasons:
        return Blocked(BlockedBy.CONTROLLER_ROLE, reasons[0])
    held = claims_and_resignations.hold_of(view)
    if held is not None:
        return held
    if not view.is_warm:
        return Blocked(BlockedBy.CONTROLLER_ROLE, "the state of the cluster is being read")
    if not view.is_native:
        return Blocked(BlockedBy.CONTROLLER_ROLE, "the cluster's controller is being probed")
    return Blocked(BlockedBy.CONTROLLER_ROLE, "the controller role is being claimed")
