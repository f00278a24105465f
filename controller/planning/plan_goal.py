"""
The goal of a plan of ``generate``, the rules of placement, and the finished plan with its bounds.

A broker without a rack counts as a rack of its own. So without any racks, spreading over racks
requires only that replicas are on different brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from controller.core.model import BrokerId, Replicas, TopicPartition
from controller.core.topics.replica_choice import Racks, rack_of

Assignment = Mapping[TopicPartition, Replicas]


def count_racks(replicas: Iterable[BrokerId], racks: Racks) -> int:
    """Return the number of racks of some replicas."""
    return len({rack_of(broker, racks) for broker in replicas})


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
    fixed: frozenset[TopicPartition] = frozenset()
    """Partitions that count as loads of their brokers and stay as they are."""
    widest: bool = False
    """Spread every partition over as many racks as possible, not only as many as now."""

    def factor_of(self, before: Replicas) -> int:
        """Return the planned number of replicas of a partition."""
        return len(before) if self.replication_factor is None else self.replication_factor

    def racks_min(self, before: Replicas) -> int:
        """Return the minimum number of racks of a partition, as far as brokers and factor allow."""
        reachable = min(self.factor_of(before), count_racks(self.brokers, self.racks))
        return reachable if self.widest else min(reachable, count_racks(before, self.racks))


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
        return self.copied_bytes(dict.fromkeys(self.after, 1))

    def copied_bytes(self, sizes: Mapping[TopicPartition, int]) -> int:
        """Return the bytes to copy, as far as sizes are known."""
        return sum(
            sizes.get(p, 0) * len(set(after) - set(self.before[p]))
            for p, after in self.after.items()
        )


def broker_loads(
    assignment: Assignment,
    brokers: Collection[BrokerId] = (),
    sizes: Mapping[TopicPartition, int] | None = None,
) -> dict[BrokerId, int]:
    """
    Return the number of replicas of each broker, or with ``sizes`` their bytes as far as known.

    ``brokers`` are listed even with none.
    """
    loads = dict.fromkeys(sorted(brokers), 0)
    for partition, replicas in assignment.items():
        for broker in replicas:
            amount = 1 if sizes is None else sizes.get(partition, 0)
            loads[broker] = loads.get(broker, 0) + amount
    return loads


def leader_counts(
    assignment: Assignment, brokers: Collection[BrokerId] = ()
) -> dict[BrokerId, int]:
    """Return the number of partitions with each broker as preferred leader."""
    return broker_loads({p: replicas[:1] for p, replicas in assignment.items()}, brokers)


def rack_violations(assignment: Assignment, racks: Racks, brokers: Collection[BrokerId]) -> int:
    """Return the number of partitions that use fewer racks than possible."""
    reachable = count_racks(brokers, racks)
    return sum(
        count_racks(replicas, racks) < min(len(replicas), reachable)
        for replicas in assignment.values()
    )


# --- lower bounds: each function states why no plan copies less ----------------------------------


def copies_of_partition(before: Replicas, goal: PlanGoal) -> int:
    """
    Return the minimum number of copies of one partition.

    Only replicas on allowed brokers can stay. Each copy adds at most one replica and one rack.
    """
    stay = [broker for broker in before if broker in goal.brokers]
    lacking_racks = goal.racks_min(before) - count_racks(stay, goal.racks)
    return max(0, goal.factor_of(before) - len(stay), lacking_racks)


def even_shares(current: Mapping[BrokerId, int], total: int) -> dict[BrokerId, int]:
    """
    Share ``total`` replicas among brokers so that their numbers differ by at most one.

    The brokers that have the most replicas now get the remainder: no other choice lets more
    replicas stay.
    """
    share, rest = divmod(total, len(current))
    fullest = sorted(current, key=lambda broker: (-current[broker], broker))
    return {broker: share + (place < rest) for place, broker in enumerate(fullest)}


def copies_min(before: Assignment, goal: PlanGoal, *, is_even: bool = True) -> int:
    """
    Return the minimum number of copies of any plan with this goal.

    What a broker lacks to its share is copied to it; to fill brokers, shares are rounded down.
    Where the shares cannot be reached, ``is_even`` is false, and only the rest of the goal counts.
    """
    loads = broker_loads(before, goal.brokers)
    movable = {p: replicas for p, replicas in before.items() if p not in goal.fixed}
    total = sum(map(goal.factor_of, movable.values()))
    total += sum(b in goal.brokers for p in goal.fixed for b in before[p])
    if goal.rebalance:
        shares = even_shares({broker: loads[broker] for broker in goal.brokers}, total)
    else:
        shares = dict.fromkeys(goal.receivers, total // len(goal.brokers))
    forced = sum(copies_of_partition(replicas, goal) for replicas in movable.values())
    if not is_even:
        return forced
    return max(forced, sum(max(0, share - loads[b]) for b, share in shares.items()))
