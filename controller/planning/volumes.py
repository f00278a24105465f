"""
The volumes of one broker: which log directories share one, and how to even them out.

A directory is as full as its volume. From the volumes outside the band, the replicas move that
bring them nearer to it for the least bytes. Pure: the same volumes and replicas have the same
moves, in whichever order they are given.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, NamedTuple

from controller.core.disks.log_volumes import SAME_VOLUME_BYTES
from controller.core.model import LogDir
from controller.planning.quotas import Band, band

WORTH: Final = 8
"""How many bytes are copied at most to come one byte nearer to a band that cannot be reached."""
SEARCHED_MAX: Final = 20_000
"""How many placements are all tried."""
EXCHANGED_MAX: Final = 64
"""How many of the smallest replicas of a volume are tried in an exchange."""


def volume_names(
    dirs: Iterable[LogDir], held: Mapping[str, int], *, separate: Collection[str] = ()
) -> dict[str, str]:
    """
    Return the volume of each directory, named after the first directory on it.

    Directories share a volume if they report the same size and the same free space, unless they
    hold more (the bytes of replicas in ``held``) than a volume of this size could, or are known to
    be ``separate``.
    """
    groups: list[list[LogDir]] = []
    for directory in sorted(dirs, key=lambda d: (d.total or 0, d.usable or 0, d.path)):
        if groups and directory.path not in separate and _is_shared(groups[-1], directory, held):
            groups[-1].append(directory)
        else:
            groups.append([directory])
    return {d.path: min(d.path for d in group) for group in groups for d in group}


def _is_shared(group: Sequence[LogDir], directory: LogDir, held: Mapping[str, int]) -> bool:
    last = group[-1]
    if last.usable is None or directory.usable is None or directory.total is None:
        return False
    if last.is_estimate or directory.is_estimate or last.total != directory.total:
        return False
    bytes_held = sum(held.get(d.path, 0) for d in (*group, directory))
    used = directory.total - directory.usable
    return (
        directory.usable - last.usable < SAME_VOLUME_BYTES and bytes_held < used + SAME_VOLUME_BYTES
    )


# --- balance -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Volume:
    """One volume of a broker."""

    name: str
    total: int
    used: int
    """Bytes of everything on it."""


class HeldLog(NamedTuple):
    """A replica on a volume. The order is that in which equal ones are preferred."""

    size: int
    topic: str
    partition: int


class VolumeMove(NamedTuple):
    """A replica that moves to another volume, both as indices."""

    log: HeldLog
    source: int
    target: int


@dataclass(slots=True)
class Balance:
    """The moves of one broker, in an order in which no volume overflows."""

    within: Band
    before: list[int]
    after: list[int]
    steps: list[tuple[VolumeMove, ...]] = field(default_factory=list)
    """Each brings the volumes nearer to the band; an exchange of two replicas is one step."""

    def distance(self) -> float:
        """Return the bytes outside the band, summed over the volumes."""
        return self.within.excess(self.after) + self.within.lack(self.after)

    @property
    def cost(self) -> int:
        """Return the bytes that are copied."""
        return sum(map(_cost, self.steps))

    def rating(self) -> tuple[bool, float]:
        """Return what is less for a better plan: in the band first, then with fewer bytes."""
        distance = self.distance()
        return distance > 0, self.cost + WORTH * distance


def balance(
    volumes: Sequence[Volume], logs: Iterable[tuple[int, HeldLog]], *, tolerance: float, fill: float
) -> Balance:
    """
    Return the moves that even out the volumes of a broker.

    The moves bring all volumes into the band, or, if that fails, as near to it as is worth the
    bytes. A replica moves at most once. For few replicas, no other moves are better. ``logs`` are
    the replicas, with the index of the volume that has them; ``tolerance`` is a fraction of the
    mean fill, ``fill`` the usable fraction of a volume.
    """
    used = [volume.used for volume in volumes]
    limits = [volume.total * fill for volume in volumes]
    mean = sum(used) / max(1, sum(volume.total for volume in volumes))
    plan = Balance(band([mean * v.total for v in volumes], limits, tolerance), used, list(used))
    held = sorted(logs, key=lambda found: found[1])
    if plan.distance() > 0:
        if len(volumes) ** len(held) <= SEARCHED_MAX:
            _search(plan, held[::-1], limits)
        else:
            _approach(plan, held, limits)
    return plan


# --- few replicas: the best of all placements ----------------------------------------------------


def _search(plan: Balance, held: Sequence[tuple[int, HeldLog]], limits: Sequence[float]) -> None:
    """Try every placement; the steps of the best one belong together."""
    best = plan.rating()
    moves: list[VolumeMove] = []
    now = Balance(plan.within, plan.before, list(plan.before))

    def place(n: int) -> None:
        nonlocal best
        if (False, float(now.cost)) >= best:
            return
        if n == len(held):
            rating = now.rating()
            ordered = _safe_order(plan.before, tuple(moves), limits) if rating < best else None
            if ordered is not None:
                best, plan.steps, plan.after = rating, [ordered], list(now.after)
            return
        home, log = held[n]
        place(n + 1)
        for volume in range(len(limits)):
            if volume != home:
                moves.append(VolumeMove(log, home, volume))
                now.steps = [tuple(moves)]
                now.after[home] -= log.size
                now.after[volume] += log.size
                place(n + 1)
                now.after[home] += log.size
                now.after[volume] -= log.size
                moves.pop()
                now.steps = [tuple(moves)]

    place(0)


def _safe_order(
    before: Sequence[int], moves: tuple[VolumeMove, ...], limits: Sequence[float]
) -> tuple[VolumeMove, ...] | None:
    """Return the moves in an order in which no volume overflows; None if there is none."""
    failed: set[frozenset[VolumeMove]] = set()

    def order(
        done: tuple[VolumeMove, ...], left: frozenset[VolumeMove]
    ) -> tuple[VolumeMove, ...] | None:
        if not left:
            return done
        if left in failed:
            return None
        for move in moves:
            if move in left and _replay(before, [(*done, move)], limits) is not None:
                found = order((*done, move), left - {move})
                if found is not None:
                    return found
        failed.add(left)
        return None

    return order((), frozenset(moves))


# --- many replicas: one step after the other -----------------------------------------------------


def _approach(plan: Balance, held: Iterable[tuple[int, HeldLog]], limits: Sequence[float]) -> None:
    """Take the step that comes nearer by the most per byte copied, until none does."""
    free: list[list[HeldLog]] = [[] for _ in limits]
    for volume, log in held:
        free[volume].append(log)
    while plan.distance() > 0:
        best = _best(_moves(plan, free, limits))
        if best is None or best.gain < best.cost:
            best = _best(filter(None, (best, _best(_exchanges(plan, free, limits)))))
        if best is None:
            break
        plan.steps.append(best.moves)
        for log, source, target in best.moves:
            plan.after[source] -= log.size
            plan.after[target] += log.size
            free[source].remove(log)
    _prune(plan, limits)


def _prune(plan: Balance, limits: Sequence[float]) -> None:
    """Leave out steps that later ones made needless, the largest first."""
    for step in sorted(plan.steps, key=_cost, reverse=True):
        others = [s for s in plan.steps if s is not step]
        after = _replay(plan.before, others, limits)
        if after is not None:
            without = Balance(plan.within, plan.before, after, others)
            if without.rating() <= plan.rating():
                plan.steps, plan.after = others, after
                _prune(plan, limits)
                return


def _cost(step: Iterable[VolumeMove]) -> int:
    return sum(move.log.size for move in step)


class _Step(NamedTuple):
    gain: float
    cost: int
    moves: tuple[VolumeMove, ...]


def _best(steps: Iterable[_Step]) -> _Step | None:
    return max(steps, key=lambda s: (s.gain / s.cost, s.gain), default=None)


def _moves(
    plan: Balance, free: Sequence[Sequence[HeldLog]], limits: Sequence[float]
) -> Iterator[_Step]:
    """Yield moves that come nearer to the band, among them the best one."""
    for source, target, ends in _pairs(plan):
        for log in _around(free[source], ends):
            gain = _gain(plan, source, target, log.size)
            if gain > 0 and plan.after[target] + log.size <= limits[target]:
                yield _Step(gain, log.size, (VolumeMove(log, source, target),))


def _exchanges(
    plan: Balance, free: Sequence[Sequence[HeldLog]], limits: Sequence[float]
) -> Iterator[_Step]:
    """Yield exchanges of a replica for a smaller one that come nearer to the band."""
    for source, target, ends in _pairs(plan):
        room, back = (limits[n] - plan.after[n] for n in (target, source))
        for other in free[target][:EXCHANGED_MAX]:
            for log in _around(free[source], [end + other.size for end in ends]):
                net = log.size - other.size
                gain = _gain(plan, source, target, net)
                there, here = VolumeMove(log, source, target), VolumeMove(other, target, source)
                # The first log of an exchange arrives before anything has left.
                if gain > 0 and log.size <= room:
                    yield _Step(gain, log.size + other.size, (there, here))
                elif gain > 0 and other.size <= back and net <= room:
                    yield _Step(gain, log.size + other.size, (here, there))


def _pairs(plan: Balance) -> Iterator[tuple[int, int, Sequence[float]]]:
    """Yield the volumes between which bytes can usefully move, and the best amounts."""
    used, within = plan.after, plan.within
    for source, target in permutations(range(len(used)), 2):
        if _gain(plan, source, target, 1) > 0:
            # Between two of these amounts, the gain per byte has no maximum.
            yield (
                source,
                target,
                (
                    used[source] - within.high[source],
                    used[source] - within.low[source],
                    within.low[target] - used[target],
                    within.high[target] - used[target],
                ),
            )


def _gain(plan: Balance, source: int, target: int, size: int) -> float:
    """Return by how many bytes a move comes nearer to the band."""
    used, within = plan.after, plan.within

    def distance(n: int, held: int) -> float:
        return max(0.0, held - within.high[n], within.low[n] - held)

    return (
        distance(source, used[source])
        - distance(source, used[source] - size)
        + distance(target, used[target])
        - distance(target, used[target] + size)
    )


def _around(logs: Sequence[HeldLog], ends: Sequence[float]) -> Iterator[HeldLog]:
    """Yield the replicas next to each size: the largest below and the smallest above."""
    for end in ends:
        n = bisect_left(logs, (end,))
        if n > 0:
            yield logs[n - 1]
        if n < len(logs):
            yield logs[n]


def _replay(
    before: Sequence[int], steps: Iterable[tuple[VolumeMove, ...]], limits: Sequence[float]
) -> list[int] | None:
    """Return the bytes on each volume after some steps; None if one would overflow."""
    used = list(before)
    for log, source, target in (move for step in steps for move in step):
        used[target] += log.size
        if used[target] > limits[target]:
            return None
        used[source] -= log.size
    return used
