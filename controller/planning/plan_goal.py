"""The goal of a plan, the finished plan, and its loads by broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.planning.placement import Racks, added_replicas, count_racks

Assignment = Mapping[TopicPartition, Replicas]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGoal:
    """The goal of a plan. Whatever it does not mention stays unchanged."""

    brokers: frozenset[BrokerId]
    """The brokers that may hold replicas; all others are emptied."""
    racks: Racks = field(default_factory=dict)
    """Racks of all brokers, emptied ones included."""
    replication_factor: int | None = None
    """Planned number of replicas of every partition; None: unchanged."""
    rebalance: bool = False
    """Even out the replicas and the leaderships of brokers to a difference of at most one."""
    receivers: frozenset[BrokerId] = frozenset()
    """Brokers to fill to an even share; the others only give."""
    widest: bool = False
    """Spread every partition over as many racks as possible, not only as many as now."""

    def factor_of(self, before: Replicas) -> int:
        """Return the planned number of replicas of a partition."""
        return len(before) if self.replication_factor is None else self.replication_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan, and the minimum number of copies of any plan with the same goal."""

    before: Assignment
    after: Assignment
    copies_min: int
    """No plan with the same goal copies fewer replicas."""
    notes: tuple[str, ...] = ()
    """The parts of the goal that could not be reached, with the reason."""

    @property
    def changed(self) -> dict[TopicPartition, Replicas]:
        """The partitions whose replicas or their order change."""
        return {p: after for p, after in self.after.items() if after != self.before[p]}

    @property
    def copies(self) -> int:
        """The number of replicas to copy."""
        return sum(len(added_replicas(self.before[p], after)) for p, after in self.after.items())

    def copied_bytes(self, sizes: Mapping[TopicPartition, int]) -> int:
        """Return the bytes to copy, as far as sizes are known."""
        return sum(
            sizes.get(p, 0) * len(added_replicas(self.before[p], after))
            for p, after in self.after.items()
        )


def replica_counts(
    assignment: Assignment, brokers: Collection[BrokerId] = ()
) -> dict[BrokerId, int]:
    """Return the number of replicas of each broker; ``brokers`` are listed even with none."""
    counts = dict.fromkeys(sorted(brokers), 0)
    for replicas in assignment.values():
        for broker in replicas:
            counts[broker] = counts.get(broker, 0) + 1
    return counts


def leader_counts(
    assignment: Assignment, brokers: Collection[BrokerId] = ()
) -> dict[BrokerId, int]:
    """Return the number of partitions with each broker as preferred leader."""
    firsts = {p: replicas[:1] for p, replicas in assignment.items()}
    return replica_counts(firsts, brokers)


def byte_counts(
    assignment: Assignment, sizes: Mapping[TopicPartition, int], brokers: Collection[BrokerId] = ()
) -> dict[BrokerId, int]:
    """Return the bytes of each broker, as far as sizes are known."""
    counts = dict.fromkeys(sorted(brokers), 0)
    for partition, replicas in assignment.items():
        for broker in replicas:
            counts[broker] = counts.get(broker, 0) + sizes.get(partition, 0)
    return counts


def rack_violations(assignment: Assignment, racks: Racks, brokers: Collection[BrokerId]) -> int:
    """Return the number of partitions that use fewer racks than possible."""
    reachable = count_racks(brokers, racks)
    return sum(
        count_racks(replicas, racks) < min(len(replicas), reachable)
        for replicas in assignment.values()
    )
