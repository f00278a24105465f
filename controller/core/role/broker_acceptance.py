"""Whether brokers accept the requests of this tenure, and what is lost with their channels."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from controller.core.deletions import fold as deletion_fold
from controller.core.leadership.broker_responses import LASTING, is_current, is_refused
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.gates import ids
from controller.core.reassignments.model import Reassignment
from controller.core.role import records
from controller.core.view import ClusterView

WHOLE_S: Final = 45.0
"""
How long an added replica has the whole log before its leader has to have sent a request.

Longer than ``controller.socket.timeout.ms``, 30 s: the leader may have sent its request to a
former controller first, which hangs.
"""
CUT_OFF_S: Final = 120.0
"""The same of a leader that sent a request before in this tenure, and none since."""
UNMEASURED_S: Final = 900.0
"""
The same where brokers do not report sizes, from the begin of the copy on; not of leaders that sent
a request before.
"""

ACCEPTANCE_PATIENCE_S: Final = 30.0
"""How long a tenure may last without a broker that accepts an UpdateMetadata, in seconds."""


def update_metadata_answered(view: ClusterView, event: records.UpdateMetadataAnswered) -> None:
    """
    Note whether a broker accepts the requests of this tenure.

    A broker that refused requests before gets all of them again: refused ones are not resent.
    """
    if not is_current(view, event) or is_refused(view, event.error, event.broker):
        return
    if view.tenure.refusers.pop(event.broker, None) is not None and view.tenure.accepted_by_broker:
        requests_lost(view, set(), {event.broker})
        view.due.joined.add(event.broker)
        view.due.elsewhere.add(event.broker)
    view.tenure.accepted_by_broker = True
    if not _is_refused_by_most(view):
        view.role.rejected_by_brokers = None


def requests_lost(
    view: ClusterView, gone: AbstractSet[BrokerId], elsewhere: AbstractSet[BrokerId]
) -> None:
    """
    Note that what was queued or under way for brokers is lost with their channels.

    Args:
        view: Everything known.
        gone: Brokers whose registration ended.
        elsewhere: Brokers whose channel is opened again.

    """
    deletion_fold.brokers_moved(view, gone, elsewhere)
    reassignments_tenure, lost = view.reassignments_tenure, gone | elsewhere
    reassignments_tenure.orphans_tried = {
        o for o in reassignments_tenure.orphans_tried if o.broker not in lost
    }


def refusal_by_brokers(view: ClusterView, now: Instant) -> str | None:
    """
    Return why a tenure has no effect because brokers refuse its requests, None if it has.

    Most refuse them, or none has accepted any for a while. Holding the role nevertheless would
    leave the cluster without a controller.
    """
    tenure = view.tenure
    if _is_refused_by_most(view):
        refused = sorted(b for b in tenure.refusers if b in view.cluster.brokers)
        reasons = sorted({LASTING[tenure.refusers[b]] for b in refused})
        return (
            f"{len(refused)} of {len(view.cluster.brokers)} live brokers refuse our requests as "
            f"the controller: {', '.join(reasons)}"
        )
    if (
        tenure.held is None
        or tenure.accepted_by_broker
        or now < tenure.held.since + ACCEPTANCE_PATIENCE_S
    ):
        return None
    return (
        f"none of {len(view.cluster.brokers)} live brokers accepted an UpdateMetadata within "
        f"{ACCEPTANCE_PATIENCE_S:.0f} s of the claim"
    )


def _is_refused_by_most(view: ClusterView) -> bool:
    return 2 * sum(b in view.cluster.brokers for b in view.tenure.refusers) > len(
        view.cluster.brokers
    )


def reassignments_probed(view: ClusterView, event: records.ReassignmentsProbed) -> None:
    """Note whether the cluster's controller supports AlterPartitionReassignments."""
    view.tenure.probing = False
    view.role.delegable = event.problem is None
    view.role.undelegable = event.problem if event.is_final else None


def silent_leaders(view: ClusterView, now: Instant) -> frozenset[BrokerId]:
    """Return the leaders that should have requested an ISR change, and sent nothing."""
    if view.options.endpoint is None or view.tenure.held is None:
        return frozenset()
    return frozenset(
        leader
        for partition, reassignment in view.reassignments.by_partition.items()
        if isinstance(reassignment.phase, phases.Syncing)
        and (leader := _requesting_leader(view, partition)) is not None
        and _is_overdue(view, partition, reassignment, view.calls.heard.get(leader), now)
    )


def unreached_reason(view: ClusterView, leaders: frozenset[BrokerId]) -> str:
    """Return the reason for which the role is given back."""
    own = view.options.endpoint
    where = "" if own is None else f" at {own.endpoints[0].host}:{own.endpoints[0].port}"
    return (
        f"broker {ids(sorted(leaders))} sent no request to the controller endpoint{where}, "
        "although an added replica has the whole log: it cannot change the ISR of what it leads"
    )


def _requesting_leader(view: ClusterView, partition: TopicPartition) -> BrokerId | None:
    """Return the live leader of a partition, if it sends the controller ISR changes."""
    state = view.leadership.states.get(partition)
    broker = None if state is None else view.cluster.brokers.get(state.leader)
    return broker.id if broker is not None and broker.has_features else None


def _is_overdue(
    view: ClusterView,
    partition: TopicPartition,
    reassignment: Reassignment,
    heard: Instant | None,
    now: Instant,
) -> bool:
    if partition not in view.disks_process.copied:
        return heard is None and now >= reassignment.phase_since + UNMEASURED_S
    since = view.reassignments_tenure.whole_since.get(partition)
    if since is None:
        return False
    if heard is None:
        return now >= since + WHOLE_S
    return heard < since and now >= since + CUT_OFF_S
