"""
Engines: the two ways to change the replicas of a partition.

Everything else is shared: requests, steps, limits, throttles, cancellations, records, recovery.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain
from typing import Final, Protocol

from controller.core import effects, options
from controller.core.deletions import topic_deletions
from controller.core.leadership import cluster_loading, duties, preferred_elections
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.pacing.budget import Budget
from controller.core.reassignments import alter_entries
from controller.core.reassignments.orphans import announce_departures, delete_orphans, record_lost
from controller.core.records import Change, Decision
from controller.core.role import eligibility
from controller.core.topics import topic_repair
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

PROBE_TIMER: Final = "probe"
PROBE_AGAIN_S: Final = 2.0

RACE_S: Final = 1.0
"""How long after a plan appeared the cluster's controller may not have begun it, in seconds."""


class Engine(Protocol):
    """The interface of an engine."""

    name: options.EngineName

    def refusals(self, view: ClusterView) -> tuple[str, ...]:
        """Return every reason against working here."""
        ...

    def begin(self, view: ClusterView, now: Instant) -> tuple[effects.Effect, ...]:
        """Return what begins a tenure."""
        ...

    def duties(self, view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
        """Return what precedes the partitions in a cycle."""
        ...

    def chores(
        self, view: ClusterView, due: Worklist, now: Instant, budget: Budget
    ) -> list[Decision]:
        """Return what follows everything else."""
        ...

    def repair(
        self, view: ClusterView, partition: TopicPartition, bounced: Collection[BrokerId]
    ) -> Change | None:
        """Return the change that adapts a partition's state to the live brokers."""
        ...


class NativeEngine:
    """The daemon is the cluster's controller while there is work."""

    name = options.EngineName.NATIVE

    def refusals(self, view: ClusterView) -> tuple[str, ...]:
        """Return every reason against being this cluster's controller."""
        return eligibility.native_refusals(view)

    def begin(self, view: ClusterView, now: Instant) -> tuple[effects.Effect, ...]:
        """
        Claim the role, at once where a plan just appeared.

        The cluster's controller would carry out the whole plan. One that begins a plan delays no
        requests, so nothing is lost by interrupting it.
        """
        came = view.requests.legacy_came
        return (effects.ClaimController(at_once=came is not None and now < came + RACE_S),)

    def duties(self, view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
        """
        Send the live brokers and what the controller found; brokers before partitions.

        No state is read, and so none written, before a broker accepted an UpdateMetadata of this
        tenure: the write could not be delivered.
        """
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

    def chores(
        self, view: ClusterView, due: Worklist, now: Instant, budget: Budget
    ) -> list[Decision]:
        """Hold elections, handle notifications, delete orphans and topics."""
        parts = [cluster_loading.follow_watches(view, due)]
        if due.elections:
            parts.append(preferred_elections.hold_elections(view, now, budget))
        if due.timer or due.claimed:
            parts.append(preferred_elections.balance_leaders(view, now))
        parts += [cluster_loading.follow_notifications(view, due), announce_departures(view, due)]
        # A missing state is created by ourselves.
        parts.append(cluster_loading.read_missing(view, due, view.leadership.unreadable, now))
        return [*parts, delete_orphans(view, due), topic_deletions.delete_topics(view, due, now)]

    def repair(
        self, view: ClusterView, partition: TopicPartition, bounced: Collection[BrokerId]
    ) -> Change | None:
        """Elect leaders, and take dead brokers out of the ISR."""
        if partition in view.leadership.stateless and (
            topic_repair.is_misplaced(view, partition)
            or topic_repair.is_id_awaited(view, partition.topic)
        ):
            return None  # ``repair_placements`` creates it, or it is examined with its id.
        return duties.repair(view, partition, bounced)


class DelegatedEngine:
    """A broker stays the controller and carries out steps; the tenure is our leadership."""

    name = options.EngineName.DELEGATED

    def refusals(self, view: ClusterView) -> tuple[str, ...]:
        """Return every reason against delegating to this cluster's controller."""
        return eligibility.delegated_refusals(view)

    def begin(self, view: ClusterView, now: Instant) -> tuple[effects.Effect, ...]:
        """Begin the tenure once the controller is known to support AlterPartitionReassignments."""
        if view.role.delegable:
            return (effects.BeginTenure(),)
        again = effects.SetTimer(PROBE_TIMER, Instant(now + PROBE_AGAIN_S))
        return (again,) if view.tenure.probing else (effects.ProbeReassignments(), again)

    def duties(self, view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
        """Read states; no broker is sent any."""
        return [cluster_loading.seed(view, due, now)]

    def chores(
        self, view: ClusterView, due: Worklist, now: Instant, budget: Budget
    ) -> list[Decision]:
        """Read watched states, and from time to time the rest of the cluster."""
        del budget
        elected = preferred_elections.request_elections(view, now) if due.elections else Decision()
        answers = alter_entries.follow_answers(view, due, now)
        missing = chain(view.leadership.stateless, view.leadership.unreadable)
        read = [
            cluster_loading.poll_states(view, due, now),
            cluster_loading.read_missing(view, due, missing, now),
        ]
        lost = record_lost(view, due, now)
        return [cluster_loading.follow_watched(view, due), *read, elected, answers, lost]

    def repair(
        self, view: ClusterView, partition: TopicPartition, bounced: Collection[BrokerId]
    ) -> Change | None:
        """Return None: the cluster's controller does it."""
        del view, partition, bounced
        return None


ENGINES: Final[Mapping[options.EngineName, Engine]] = {
    options.EngineName.NATIVE: NativeEngine(),
    options.EngineName.DELEGATED: DelegatedEngine(),
}


def engine_of(view: ClusterView) -> Engine:
    """Return the engine at work; before one is chosen, the native one."""
    return ENGINES[view.role.engine or options.EngineName.NATIVE]
