"""
Bring a broker or one of its volumes under a mark with the fewest bytes.

The replicas that leave have to free what is above the mark, and each needs a place. With few
replicas, all choices are tried. With many, the largest ones that are needed go first, and one of
matching size ends the plan: it copies less than one small replica more than is above the mark. No
volume that takes a replica ends above the mark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Final

from controller.core.model import BrokerId
from controller.errors import InvalidInputError
from controller.planning.volume_room import (
    DiskCluster,
    MovableReplica,
    ReplicaMove,
    VolumePlan,
    VolumeRoom,
)

TRIED_MAX: Final = 20_000
"""Moves that are tried for few replicas."""
FEW: Final = 24
"""Replicas up to which other choices than the first one are tried."""
LAST_MAX: Final = 64
"""Replicas that are tried as the last one: those that free just as much as is needed, or more."""
STEP: Final = 0.01
"""The marks that are tried if one cannot be reached."""


@dataclass(frozen=True, slots=True)
class ReliefGoal:
    """What is to be relieved."""

    broker: BrokerId
    path: str | None
    """A log directory, whose volume is relieved; None: all volumes of the broker together."""
    mark: float
    """The used share to come below."""

    @property
    def name(self) -> str:
        """The broker or the directory in messages."""
        return f"broker {self.broker}" + (f", {self.path}" if self.path else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relief(VolumePlan):
    """The plan that relieves a broker or a volume."""

    goal: ReliefGoal
    bytes_above: int
    """What has to leave to be below the mark."""
    is_least: bool
    """Whether no other plan copies fewer bytes."""
    fill_before: float
    fill_after: float

    def document(self) -> dict[str, Any]:
        """Return the figures for ``--json``."""
        return {
            "relieved": {"broker": self.goal.broker, "log_dir": self.goal.path},
            "below": self.goal.mark,
            "bytes_above": self.bytes_above,
            "is_least": self.is_least,
            "fill": [round(self.fill_before, 6), round(self.fill_after, 6)],
            **VolumePlan.document(self),
        }


def volumes_to_relieve(cluster: DiskCluster, goal: ReliefGoal) -> list[int]:
    """
    Return the volumes that a goal names, by index.

    Raises:
        InvalidInputError: the broker or the directory is not among those of known size.

    """
    of_broker = [n for n, v in enumerate(cluster.volumes) if v.broker == goal.broker]
    if not of_broker:
        raise InvalidInputError(
            f"the size of the log directories of broker {goal.broker} is unknown: the broker did "
            f"not report it, and disk_capacities does not name it"
        )
    if goal.path is None:
        return of_broker
    found = [n for n in of_broker if goal.path in cluster.volumes[n].paths]
    if not found:
        paths = sorted(path for n in of_broker for path in cluster.volumes[n].paths)
        raise InvalidInputError(
            f"broker {goal.broker} has no log directory {goal.path}; it has {', '.join(paths)}"
        )
    return found


def relieve(cluster: DiskCluster, held: Sequence[MovableReplica], goal: ReliefGoal) -> Relief:
    """
    Plan to bring a broker, or the volume of a log directory, below a mark.

    Args:
        cluster: The volumes and the rules.
        held: The replicas on these volumes that may move.
        goal: What is relieved, and its mark.

    Raises:
        InvalidInputError: the mark cannot be reached.

    """
    volumes = volumes_to_relieve(cluster, goal)
    relief = _Relieving(cluster, held, volumes, is_volume=goal.path is not None)
    found = relief.search(goal.mark)
    room = cluster.room(goal.mark)
    before, above = room.fill(volumes), _above(room, volumes, goal.mark)
    if found is None:
        raise InvalidInputError(relief.refusal(goal, before, above))
    chosen, is_least = found
    # The smallest first: they free the first bytes soonest.
    moves = tuple(sorted(chosen, key=lambda move: move.replica))
    for move in moves:
        room.apply(move)
    return Relief(
        moves=moves,
        log_dirs=room.log_dirs(moves),
        volumes=room.changes(),
        goal=goal,
        bytes_above=above,
        is_least=is_least,
        fill_before=before,
        fill_after=room.fill(volumes),
    )


def _above(room: VolumeRoom, volumes: Sequence[int], mark: float) -> int:
    """Return the bytes that have to leave volumes so that they are less full than the mark."""
    held = [room.volumes[n] for n in volumes]
    above = sum(v.used for v in held) - mark * sum(v.total for v in held)
    return floor(above) + 1 if above >= 0 else 0


@dataclass(frozen=True, slots=True)
class _Relieving:
    cluster: DiskCluster
    held: Sequence[MovableReplica]
    volumes: Sequence[int]
    is_volume: bool
    """Whether replicas may go to other volumes of the broker."""

    def search(self, mark: float) -> tuple[tuple[ReplicaMove, ...], bool] | None:
        """Return the moves for a mark, and whether no others copy less; None: there are none."""
        room = self.cluster.room(mark)
        above = _above(room, self.volumes, mark)
        return _Search(room, self.held, above, stays_on_broker=self.is_volume).moves()

    def refusal(self, goal: ReliefGoal, fill: float, above: int) -> str:
        """Return why a mark cannot be reached, and which one can."""
        why = "no broker below that has room for its replicas"
        movable = sum(replica.frees for replica in self.held)
        if movable < above:
            why = f"{above} bytes are above that, and its replicas that may move have {movable}"
        least = self._least_mark(floor(goal.mark / STEP), ceil(fill / STEP))
        hint = (
            "No replica can leave it: add space or a broker"
            if least is None
            else f"The lowest mark that can be reached is {least}%: --below {least}%"
        )
        return (
            f"{goal.name} is {fill:.1%} full and cannot come below {100 * goal.mark:g}%: "
            f"{why}. {hint}"
        )

    def _least_mark(self, low: int, high: int) -> int | None:
        """Return the lowest percentage above one of which the other is full that is reached."""
        if high - low <= 1 or self.search((high - 1) * STEP) is None:
            return None
        high -= 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.search(middle * STEP) is None else (low, middle)
        return high


class _Search:
    """The search for the replicas that leave."""

    def __init__(
        self, room: VolumeRoom, held: Sequence[MovableReplica], above: int, *, stays_on_broker: bool
    ) -> None:
        self._room: Final = room
        self._above: Final = above
        self._stays: Final = stays_on_broker
        self._largest_first: Final = sorted(
            (r for r in held if r.frees > 0), key=lambda r: (-r.frees, r)
        )
        self._best: tuple[int, tuple[ReplicaMove, ...]] | None = None
        self._tried = 0

    def moves(self) -> tuple[tuple[ReplicaMove, ...], bool] | None:
        """Return the moves, and whether no others copy less; None if the mark is not reached."""
        above = self._above
        if above <= 0:
            return (), True
        self._choose()
        if len(self._largest_first) <= FEW and (self._best is None or self._best[0] > above):
            behind = 0
            left: list[int] = []
            for replica in reversed(self._largest_first):
                behind += replica.frees
                left.append(behind)
            self._try(0, above, 0, [], left[::-1])
        if self._best is None:
            return None
        cost, moves = self._best
        is_tight = cost <= above and all(r.size >= r.frees for r in self._largest_first)
        is_searched = len(self._largest_first) <= FEW and self._tried < TRIED_MAX
        return moves, is_tight or is_searched

    def _places(self, replica: MovableReplica) -> list[ReplicaMove]:
        return self._room.places(replica, stays_on_broker=self._stays)

    def _note(self, cost: int, moves: Sequence[ReplicaMove]) -> None:
        if self._best is None or cost < self._best[0]:
            self._best = cost, tuple(moves)

    def _choose(self) -> None:
        """Take the largest replicas that are needed; try at each point which one could be last."""
        smallest_first = self._largest_first[::-1]
        free = [replica.frees for replica in smallest_first]
        moves: list[ReplicaMove] = []
        left, cost = self._above, 0
        while True:
            end = bisect_left(free, left)
            for replica in smallest_first[end : end + LAST_MAX]:
                if self._best is not None and cost + replica.size >= self._best[0]:
                    continue
                last = self._places(replica)[:1]
                if last:
                    self._note(cost + replica.size, (*moves, *last))
                    break
            taken = False
            while end > 0 and not taken:
                end -= 1
                place = self._places(smallest_first[end])[:1]
                replica = smallest_first.pop(end)
                del free[end]
                if place:
                    self._room.apply(place[0])
                    moves.append(place[0])
                    left, cost, taken = left - replica.frees, cost + replica.size, True
            if not taken:
                break
        for move in moves:
            self._room.apply(move, -1)

    def _try(
        self, n: int, left: int, cost: int, moves: list[ReplicaMove], behind: Sequence[int]
    ) -> None:
        """Try every choice among the replicas from the n-th on; ``behind`` are their sums."""
        if left <= 0:
            self._note(cost, moves)
            return
        if n == len(behind) or behind[n] < left or self._tried >= TRIED_MAX:
            return
        replica = self._largest_first[n]
        if self._best is None or cost + replica.size < self._best[0]:
            for move in self._places(replica):
                self._tried += 1
                self._room.apply(move)
                self._try(n + 1, left - replica.frees, cost + replica.size, [*moves, move], behind)
                self._room.apply(move, -1)
        self._try(n + 1, left, cost, moves, behind)
