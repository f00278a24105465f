"""
Spend a budget of copied bytes where it evens out the disks of brokers most.

The measure is the sum of the squared deviations from an even fill, weighted with the sizes of
disks. So many bytes serve it best if the fullest brokers come down to one level and the emptiest
ones up to another: the plan is cut at these levels. Brokers that can only exchange replicas with
each other have their own levels, the same distance apart. Then the largest replicas that fit move,
so that the plan has few of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from controller.core.model import BrokerId, TopicPartition
from controller.core.topics.replica_choice import Racks, rack_of
from controller.planning.quotas import crossing
from controller.planning.volume_room import (
    DiskCluster,
    MovableReplica,
    ReplicaMove,
    VolumePlan,
    VolumeRoom,
)

TOLERANCE: Final = 0.05
"""Brokers within this deviation from an even fill, as a fraction of it, are even enough."""
ROUNDS_MAX: Final = 6
TRIED_MAX: Final = 300
"""Replicas without a place that a broker tries in a row."""


@dataclass(frozen=True, slots=True)
class BrokerFill:
    """The disks of one broker together."""

    total: int
    used: int

    @property
    def share(self) -> float:
        """The used share."""
        return self.used / max(1, self.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPlan(VolumePlan):
    """The moves that a budget pays for."""

    budget: int
    bytes_wanted: int
    """What any plan copies to bring all brokers within the tolerance."""
    fullest_before: float
    """The used share of the fullest broker, relative to an even fill."""
    fullest_after: float
    fullest_bound: float
    """No plan that copies so many bytes comes below this."""

    def document(self) -> dict[str, Any]:
        """Return the figures for ``--json``."""
        return {
            "budget": self.budget,
            "bytes_wanted": self.bytes_wanted,
            "fullest_to_even": [round(self.fullest_before, 4), round(self.fullest_after, 4)],
            "fullest_to_even_bound": round(self.fullest_bound, 4),
            **VolumePlan.document(self),
        }


def amounts_to_give(
    cluster: DiskCluster, factors: Collection[int], budget: int, tolerance: float = TOLERANCE
) -> dict[BrokerId, float]:
    """
    Return the bytes that each broker is to give.

    Args:
        cluster: The volumes.
        factors: The replication factors that partitions have.
        budget: Bytes to copy at most.
        tolerance: The deviation from an even fill that is even enough, as a fraction of it.

    """
    fills = _fills(cluster.room(), cluster.takers)
    groups = _groups(fills, cluster.racks, factors)
    gives, _ = shares_of(fills, groups, min(budget, _least_bytes(fills, groups, tolerance)))
    return {broker: amount for broker, amount in gives.items() if amount >= 1}


def spend(
    cluster: DiskCluster,
    candidates: Mapping[BrokerId, Sequence[MovableReplica]],
    factors: Collection[int],
    budget: int,
    tolerance: float = TOLERANCE,
) -> BudgetPlan:
    """
    Plan the moves that a budget pays for.

    ``candidates`` are replicas of the brokers that are to give; the other arguments are those of
    ``amounts_to_give``.
    """
    room = cluster.room()
    before = _fills(room, cluster.takers)
    groups = _groups(before, cluster.racks, factors)
    held = {b: sorted(rs, key=lambda r: (-r.size, r)) for b, rs in candidates.items()}
    moves: list[ReplicaMove] = []
    for _ in range(ROUNDS_MAX):
        left = budget - sum(move.replica.size for move in moves)
        fills = _fills(room, cluster.takers)
        gives, takes = shares_of(fills, groups, min(left, _least_bytes(fills, groups, tolerance)))
        found = list(_moved(room, held, gives, takes))
        if not found:
            break
        moves += found
        moved = {move.replica.partition for move in moves}
        held = {b: [r for r in rs if r.partition not in moved] for b, rs in held.items()}
    left = budget - sum(move.replica.size for move in moves)
    moves += _coarse_moves(room, held, _edges(before, groups, tolerance), left)
    even = _even(before.values())
    return BudgetPlan(
        moves=tuple(moves),
        log_dirs=room.log_dirs(moves),
        volumes=room.changes(),
        budget=budget,
        bytes_wanted=ceil(_least_bytes(before, groups, tolerance)),
        fullest_before=_fullest(before.values()) / even,
        fullest_after=_fullest(_fills(room, cluster.takers).values()) / even,
        fullest_bound=_level(before, budget) / even,
    )


def _fills(room: VolumeRoom, brokers: Collection[BrokerId]) -> dict[BrokerId, BrokerFill]:
    """Return the disks of each broker together."""
    fills: dict[BrokerId, BrokerFill] = {}
    for volume in room.volumes:
        if volume.broker in brokers:
            known = fills.get(volume.broker, BrokerFill(0, 0))
            fills[volume.broker] = BrokerFill(known.total + volume.total, known.used + volume.used)
    return dict(sorted(fills.items()))


def _groups(
    brokers: Iterable[BrokerId], racks: Racks, factors: Collection[int]
) -> list[list[BrokerId]]:
    """Return the brokers that exchange replicas: those of each rack if each has one of all."""
    by_rack: dict[str | BrokerId, list[BrokerId]] = {}
    for broker in brokers:
        by_rack.setdefault(rack_of(broker, racks), []).append(broker)
    if set(factors) == {len(by_rack)}:
        return list(by_rack.values())
    return [list(brokers)]


def _moved(
    room: VolumeRoom,
    held: Mapping[BrokerId, Sequence[MovableReplica]],
    gives: dict[BrokerId, float],
    takes: dict[BrokerId, float],
) -> Iterator[ReplicaMove]:
    """Move replicas from brokers that give to brokers that take, the largest first."""
    moved: set[TopicPartition] = set()
    for giver in sorted(gives, key=lambda b: (-gives[b], b)):
        failed = 0
        for replica in held.get(giver, ()):
            if not 0 < replica.size <= gives[giver] or replica.partition in moved:
                continue
            places = room.places(replica, keeps_topics=True)
            best = next((m for m in places if takes.get(m.target, 0.0) >= replica.size), None)
            if best is None:
                failed += 1
                if failed > TRIED_MAX:
                    break
                continue
            failed = 0
            room.apply(best)
            moved.add(replica.partition)
            gives[giver] -= replica.size
            takes[best.target] -= replica.size
            yield best


def _coarse_moves(
    room: VolumeRoom,
    held: Mapping[BrokerId, Sequence[MovableReplica]],
    edges: Mapping[BrokerId, tuple[float, float]],
    left: int,
) -> Iterator[ReplicaMove]:
    """
    Move replicas that are larger than what their broker or the target lacks to its level.

    Each serves a broker outside the tolerance, and the target stays emptier than the source. The
    fullest broker gives first; one that found no place does not try again.
    """
    moved: set[TopicPartition] = set()
    givers = set(held)
    while givers:
        fills = _fills(room, edges)
        giver = max(givers, key=lambda b: (fills[b].share, -b))
        move = _coarse_move(
            room, [r for r in held[giver] if r.partition not in moved], fills, edges, left
        )
        if move is None:
            givers.remove(giver)
            continue
        room.apply(move)
        moved.add(move.replica.partition)
        left -= move.replica.size
        yield move


def _coarse_move(
    room: VolumeRoom,
    held: Iterable[MovableReplica],
    fills: Mapping[BrokerId, BrokerFill],
    edges: Mapping[BrokerId, tuple[float, float]],
    left: int,
) -> ReplicaMove | None:
    """Return the move of the largest of some replicas of one broker that has a place."""
    failed = 0
    for replica in held:
        if not 0 < replica.size <= left:
            continue
        source = room.broker_of(replica)
        fill, high = fills[source], edges[source][1]
        after = (fill.used - replica.frees) / max(1, fill.total)
        for move in room.places(replica, keeps_topics=True):
            target, low = fills[move.target], edges[move.target][0]
            share = (target.used + replica.size) / max(1, target.total)
            if share <= after and (fill.share > high or target.share < low):
                return move
        failed += 1
        if failed > TRIED_MAX:
            break
    return None


def _edges(
    fills: Mapping[BrokerId, BrokerFill], groups: Sequence[Sequence[BrokerId]], tolerance: float
) -> dict[BrokerId, tuple[float, float]]:
    """Return the shares between which each broker is even enough."""
    found: dict[BrokerId, tuple[float, float]] = {}
    for group in groups:
        even = _even(fills[b] for b in group)
        found |= dict.fromkeys(group, (even * (1 - tolerance), even * (1 + tolerance)))
    return found


# --- levels --------------------------------------------------------------------------------------


def shares_of(
    fills: Mapping[BrokerId, BrokerFill], groups: Sequence[Sequence[BrokerId]], amount: float
) -> tuple[dict[BrokerId, float], dict[BrokerId, float]]:
    """
    Divide an amount of bytes among the brokers so that the groups become as even as possible.

    Return the bytes that each broker gives, and those that it takes.
    """
    gives: dict[BrokerId, float] = {}
    takes: dict[BrokerId, float] = {}

    def levels(gap: float) -> list[tuple[float, float]]:
        return [_levels([fills[b] for b in group], gap) for group in groups]

    def moved(gap: float) -> float:
        return sum(
            _above((fills[b] for b in group), high)
            for group, (_, high) in zip(groups, levels(gap), strict=True)
        )

    # The nearer the levels, the more bytes move.
    gap = crossing(_fullest(fills.values()), lambda wide: moved(wide) > amount)
    for group, (low, high) in zip(groups, levels(gap), strict=True):
        for broker in group:
            fill = fills[broker]
            gives[broker] = max(0.0, fill.used - high * fill.total)
            takes[broker] = max(0.0, low * fill.total - fill.used)
    return gives, takes


def _levels(fills: Sequence[BrokerFill], gap: float) -> tuple[float, float]:
    """Return the two levels with this gap for which as much is above as below."""
    low = crossing(_fullest(fills), lambda low: _above(fills, low + gap) > _below(fills, low))
    return low, low + gap


def _level(fills: Mapping[BrokerId, BrokerFill], budget: int) -> float:
    """Return the level to which so many bytes bring the fullest brokers at best."""
    found = crossing(_fullest(fills.values()), lambda level: _above(fills.values(), level) > budget)
    return max(found, _even(fills.values()))


def _least_bytes(
    fills: Mapping[BrokerId, BrokerFill], groups: Sequence[Sequence[BrokerId]], tolerance: float
) -> float:
    """Return the least bytes to move that bring every broker within the tolerance."""
    least = 0.0
    for group in groups:
        found = [fills[b] for b in group]
        mean = _even(found)
        above = _above(found, mean * (1 + tolerance))
        least += max(above, _below(found, mean * (1 - tolerance)))
    return least


def _fullest(fills: Iterable[BrokerFill]) -> float:
    return max((fill.share for fill in fills), default=0.0)


def _even(fills: Iterable[BrokerFill]) -> float:
    """Return the used share of all brokers together."""
    found = list(fills)
    return max(1, sum(f.used for f in found)) / max(1, sum(f.total for f in found))


def _above(fills: Iterable[BrokerFill], level: float) -> float:
    return sum(max(0.0, fill.used - level * fill.total) for fill in fills)


def _below(fills: Iterable[BrokerFill], level: float) -> float:
    return sum(max(0.0, level * fill.total - fill.used) for fill in fills)
