"""What a plan is to achieve, and what it says in the end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.planning.placement import Racks, added_replicas, count_racks

Assignment = Mapping[TopicPartition, Replicas]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGoal:
    """What a plan is to achieve; what is not asked for stays as it is."""

    brokers: frozenset[BrokerId]
    """Those that may hold replicas; all others are emptied."""
    racks: Racks = field(default_factory=dict)
    """Of all brokers, those that are emptied too."""
    replication_factor: int | None = None
    """How many replicas every partition is to have, None as many as it has."""
    rebalance: bool = False
    """No broker is to have two replicas more than another, nor to lead two partitions more."""
    receivers: frozenset[BrokerId] = frozenset()
    """Brokers to be filled to an even share, the others only giving."""
    widest: bool = False
    """Spread every partition over as many racks as possible, not only over as many as now."""

    def factor_of(self, before: Replicas) -> int:
        """Return how many replicas a partition is to have."""
        return len(before) if self.replication_factor is None else self.replication_factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan, and how far it is from what no plan can do without."""

    before: Assignment
    after: Assignment
    copies_min: int
    """No plan that achieves the same copies fewer replicas."""
    notes: tuple[str, ...] = ()
    """What could not be achieved, and why."""

    @property
    def changed(self) -> dict[TopicPartition, Replicas]:
        """The partitions whose replicas or their order change."""
        return {p: after for p, after in self.after.items() if after != self.before[p]}

    @property
    def copies(self) -> int:
        """How many replicas are copied."""
        return sum(len(added_replicas(self.before[p], after)) for p, after in self.after.items())

    def copied_bytes(self, sizes: Mapping[TopicPartition, int]) -> int:
        """Return how many bytes are copied, as far as sizes are known."""
        return sum(
            sizes.get(p, 0) * len(added_replicas(self.before[p], after))
            for p, after in self.after.items()
        )


def replica_counts(
    assignment: Assignment, brokers: Collection[BrokerId] = ()
) -> dict[BrokerId, int]:
    """Return how many replicas each broker holds; those named appear in any case."""
    counts = dict.fromkeys(sorted(brokers), 0)
    for replicas in assignment.values():
        for broker in replicas:
            counts[broker] = counts.get(broker, 0) + 1
    return counts


def leader_counts(
    assignment: Assignment, brokers: Collection[BrokerId] = ()
) -> dict[BrokerId, int]:
    """Return of how many partitions each broker is the preferred leader."""
    firsts = {p: replicas[:1] for p, replicas in assignment.items()}
    return replica_counts(firsts, brokers)


def byte_counts(
    assignment: Assignment, sizes: Mapping[TopicPartition, int], brokers: Collection[BrokerId] = ()
) -> dict[BrokerId, int]:
    """Return how many bytes each broker holds, as far as sizes are known."""
    counts = dict.fromkeys(sorted(brokers), 0)
    for partition, replicas in assignment.items():
        for broker in replicas:
            counts[broker] = counts.get(broker, 0) + sizes.get(partition, 0)
    return counts


def rack_violations(assignment: Assignment, racks: Racks, brokers: Collection[BrokerId]) -> int:
    """Return how many partitions are spread over fewer racks than they could be."""
    reachable = count_racks(brokers, racks)
    return sum(
        count_racks(replicas, racks) < min(len(replicas), reachable)
        for replicas in assignment.values()
    )
