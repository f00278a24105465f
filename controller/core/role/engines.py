"""
Engines: the two ways to change the replicas of a partition.

With the native one, also before one is chosen, the daemon is the cluster's controller while there
is work. With the delegated one a broker stays the controller and carries out steps; the tenure is
the leadership of the daemon. Everything else is shared: requests, steps, limits, throttles,
cancellations, records, recovery.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from controller.core import effects
from controller.core.deletions import topic_deletions
from controller.core.leadership import cluster_loading, duties, preferred_elections
from controller.core.model import Instant, TopicPartition
from controller.core.pacing.budget import Budget
from controller.core.reassignments import delegated
from controller.core.reassignments.orphans import announce_departures, delete_orphans, record_lost
from controller.core.records import Change, Decision
from controller.core.role import eligibility
from controller.core.topics import topic_repair
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

PROBE_AGAIN_S: Final = 2.0

RACE_S: Final = 1.0
"""How long after a plan appeared the cluster's controller may not have begun it, in seconds."""


def refusals(view: ClusterView) -> tuple[str, ...]:
    """Return every reason against working here with the engine."""
    if view.is_native:
        return eligibility.native_refusals(view)
    return eligibility.delegated_refusals(view)


def begin(view: ClusterView, now: Instant) -> tuple[effects.Effect, ...]:
    """
    Begin a tenure: claim the role, at once where a plan just appeared.

    The cluster's controller would carry out the whole plan. One that begins a plan delays no
    requests, so nothing is lost by interrupting it.

    Where the role is delegated, the controller is known to support AlterPartitionReassignments
    before that.
    """
    if view.is_native:
        came = view.requests.legacy_came
        return (effects.ClaimController(at_once=came is not None and now < came + RACE_S),)
    if view.role.delegable:
        return (effects.BeginTenure(),)
    again = effects.SetTimer("probe", Instant(now + PROBE_AGAIN_S))
    return (again,) if view.tenure.probing else (effects.ProbeReassignments(), again)


def duties_before(view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
    """
    Return what precedes the partitions in a cycle: reads of states; with the role, brokers.

    No state is read, and so none written, before a broker accepted an UpdateMetadata of this
    tenure: the write could not be delivered.
    """
    if not view.is_native:
        return [cluster_loading.seed(view, due, now)]
    opened = cluster_loading.channels(view, due)
    if not view.tenure.accepted_by_broker:
        return [opened]
    return [
        opened,
        cluster_loading.seed(view, due, now),
        topic_repair.assign_ids(view, due),
        cluster_loading.send_reads(view, due),
        cluster_loading.inform_joined(view, due),
        topic_repair.repair_placements(view, due.partitions),
    ]


def duties_after(view: ClusterView, due: Worklist, now: Instant, budget: Budget) -> list[Decision]:
    """Return what follows everything else in a cycle."""
    if view.is_native:
        return _native_after(view, due, now, budget)
    return _delegated_after(view, due, now)


def _native_after(view: ClusterView, due: Worklist, now: Instant, budget: Budget) -> list[Decision]:
    """Hold elections, handle notifications, delete orphans and topics."""
    parts = [cluster_loading.follow_watches(view, due)]
    if due.elections:
        parts.append(preferred_elections.hold_elections(view, now, budget))
    if due.timer or due.claimed:
        parts.append(preferred_elections.balance_leaders(view, now))
    return [
        *parts,
        cluster_loading.follow_notifications(view, due),
        announce_departures(view, due),
        # A missing state is created by ourselves.
        cluster_loading.read_missing(view, due, view.leadership.unreadable, now),
        delete_orphans(view, due),
        topic_deletions.delete_topics(view, due, now),
    ]


def _delegated_after(view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
    """Read watched states, and from time to time the rest of the cluster."""
    missing = chain(view.leadership.stateless, view.leadership.unreadable)
    return [
        cluster_loading.follow_watched(view, due),
        cluster_loading.poll_states(view, due, now),
        cluster_loading.read_missing(view, due, missing, now),
        preferred_elections.request_elections(view, now) if due.elections else Decision(),
        delegated.follow_answers(view, due, now),
        record_lost(view, due, now),
    ]


def repair(view: ClusterView, partition: TopicPartition, bounced: duties.Brokers) -> Change | None:
    """
    Return the change that adapts a partition's state to the live brokers.

    None where the cluster's controller does it, or where a duty creates the first state.
    """
    if not view.is_native:
        return None
    if partition in view.leadership.stateless and (
        topic_repair.is_misplaced(view, partition)
        or topic_repair.is_id_awaited(view, partition.topic)
    ):
        return None  # ``repair_placements`` creates it, or it is examined with its id.
    return duties.repair(view, partition, bounced)
