"""
Targets of partitions on drained brokers, and why a partition is given none.

A partition is given a target without the drained brokers. ``drains`` accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from controller.core.disks import known_directories
from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Instant,
    LogDirs,
    Replicas,
    RequestId,
    TopicPartition,
    count_text,
    ids,
)
from controller.core.pacing.drained_replicas import (
    drained_brokers,
    needs_a_target,
    replicas_to_be,
)
from controller.core.pacing.operator_holds import request_hold
from controller.core.reassignments import foreign_policy
from controller.core.requests.entry_checks import PlanEntry, is_undecidable, refusal_of
from controller.core.requests.model import is_cancelled
from controller.core.topics.replica_choice import PlannedLoads, moved_off
from controller.core.view import ClusterView


def hold_of(view: ClusterView, now: Instant) -> Blocked | None:
    """Return what keeps the drains from giving any partition a target."""
    if view.disabled_because is not None:
        return Blocked(BlockedBy.KILL_SWITCH, view.disabled_because)
    drains = view.pacing_process.controls.drains
    unapproved = sorted(b for b, drain in drains.brokers.items() if not drain.approved_by)
    if view.options.require_approval and unapproved:
        return Blocked(BlockedBy.NO_TARGET, unapproved_text(unapproved))
    return request_hold(view, drains.request, now)


def undrained(
    view: ClusterView, now: Instant, partitions: Iterable[TopicPartition] | None = None
) -> Iterator[tuple[TopicPartition, Blocked | None]]:
    """
    Yield the partitions that no reassignment leads off the drained brokers, and why not.

    Of these ``partitions``, or of all; None: it is given a target as soon as the role is held.
    """
    to_drain = view.pacing_session.to_drain
    wanted = [p for p in (to_drain if partitions is None else partitions) if p in to_drain]
    held, drains = (hold_of(view, now), DrainTargets(view)) if wanted else (None, None)
    for partition in wanted:
        if drains is not None and needs_a_target(view, partition):
            yield partition, held or drains.obstacle_of(partition)


def targets(view: ClusterView) -> Iterator[tuple[TopicPartition, Replicas]]:
    """Yield the partitions that can be given a target now, each with that target."""
    return ((entry.partition, entry.target) for entry in DrainTargets(view).entries())


class DrainTargets:
    """The targets of partitions on drained brokers, and the facts that they depend on."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._request = view.pacing_process.controls.drains.request
        self._drained = drained_brokers(view)
        leaving = self._drained | view.leadership.shutting_down.keys()
        self._receiving = sorted(view.cluster.brokers.keys() - leaving)
        """The brokers that may get replicas."""
        self._racks = {b.id: b.rack for b in view.cluster.brokers.values()}

    def due(self) -> Iterator[TopicPartition]:
        """Yield the partitions that can be given a target now."""
        for partition in self._view.pacing_session.to_drain:
            if needs_a_target(self._view, partition) and self.obstacle_of(partition) is None:
                yield partition

    def entries(self) -> Iterator[PlanEntry]:
        """Yield the entries of these partitions, each with regard to those before."""
        loads: PlannedLoads | None = None
        for partition in self.due():
            if not is_undecidable(self._view, partition):
                loads = loads or _loads_of(self._view)
                entry = self._entry_of(partition, loads)
                if entry is not None:
                    yield entry

    def obstacle_of(self, partition: TopicPartition) -> Blocked | None:
        """Return why a partition on a drained broker is given no target; None: it can be."""
        view = self._view
        left_by = self._left_alone_by(partition)
        if left_by is not None:
            detail = f"{left_by} cancelled its reassignment; a drain that is stopped and begun anew"
            return Blocked(BlockedBy.NO_TARGET, f"{detail} repeats it")
        if view.is_to_be_deleted(partition.topic):
            return Blocked(
                BlockedBy.TOPIC_DELETION, f"topic deletion is pending: {partition.topic}"
            )
        if foreign_policy.waits_for_foreign(view, partition):
            return Blocked(BlockedBy.FOREIGN_MOVES, "it has a foreign reassignment")
        foreign = foreign_policy.refusal_for_foreign(view, self._request, partition, str(partition))
        if foreign is not None:
            return Blocked(BlockedBy.FOREIGN_MOVES, foreign.detail)
        entry = self._entry_of(partition, PlannedLoads())
        if entry is None:
            replicas, others = replicas_to_be(view, partition) or (), len(self._receiving)
            return Blocked(BlockedBy.NO_TARGET, no_target_text(len(replicas), others))
        refusal = refusal_of(view, entry)
        return None if refusal is None else Blocked(BlockedBy.NO_TARGET, refusal.detail)

    def _left_alone_by(self, partition: TopicPartition) -> RequestId | None:
        """Return the cancellation that took a partition out of the drain."""
        running = self._view.reassignments.by_partition.get(partition)
        if running is not None and running.spec.rolls_back:
            return running.spec.cancelled_by if running.spec.request == self._request else None
        known = self._view.requests.by_id.get(self._request)
        ending = None if known is None else known.endings.get(partition)
        return ending.by if ending is not None and is_cancelled(ending) else None

    def _entry_of(self, partition: TopicPartition, loads: PlannedLoads) -> PlanEntry | None:
        """Return the entry with another target, and count that; None: there are too few brokers."""
        view = self._view
        replicas = replicas_to_be(view, partition) or ()
        assignment = view.topics.known_assignment(partition)
        present = () if assignment is None else assignment.replicas
        leaving = self._drained.intersection(replicas)
        if not leaving:  # It was to go to brokers that are dead now.
            alive = {*present, *view.cluster.brokers}
            leaving = frozenset(r for r in replicas if r not in alive)
        size = view.disks_process.sizes.get(partition, 0)
        loads.count(partition, replicas, size, -1)
        allowed = [b for b in self._receiving if view.is_live(b, partition)]
        # A reassignment that is replaced took replicas from brokers on purpose.
        others = [b for b in allowed if b not in present]
        move_off = partial(moved_off, partition, replicas, leaving, racks=self._racks, loads=loads)
        target = move_off(allowed=others) or move_off(allowed=allowed)
        loads.count(partition, target or replicas, size)
        if target is None:
            return None
        return PlanEntry(self._request, partition, target, self._named_dirs(partition, target))

    def _named_dirs(self, partition: TopicPartition, target: Replicas) -> LogDirs:
        """Return the directories that a replaced reassignment names for replicas that stay."""
        running = self._view.reassignments.by_partition.get(partition)
        if running is None or self._view.is_of_former_topic(partition):
            return ()
        named = (place for place in running.spec.log_dirs if place[0] in target)
        return tuple(p for p in named if known_directories.problem_of(self._view, (p,)) is None)


def unapproved_text(brokers: list[BrokerId]) -> str:
    """Describe that nobody approved the drains of brokers."""
    return (
        f"require_approval is set, and nobody approved the drain of broker {ids(brokers)}: "
        f"`reassigner drain {' '.join(map(str, brokers))} --approved-by NAME`"
    )


def no_target_text(replicas: int, others: int) -> str:
    """Describe that there are too few brokers for the replicas of a partition."""
    are = "broker is" if others == 1 else "brokers are"
    return f"it has {count_text(replicas, 'replica')}, and {others} {are} live and not drained"


def _loads_of(view: ClusterView) -> PlannedLoads:
    """Count the replicas of all partitions, where they are to be."""
    loads, sizes = PlannedLoads(), view.disks_process.sizes
    for partition in view.topics.partitions():
        replicas: Replicas = replicas_to_be(view, partition) or ()
        loads.count(partition, replicas, sizes.get(partition, 0))
    return loads
