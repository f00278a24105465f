"""
The moves of a plan: required ones, then a sample in bulk, then the fine tuning of what is left.

Required are the changes of drained and replaced brokers, of replication factors, and of partitions
that use fewer racks than possible. Partitions are placed one after the other; new replicas go to
the brokers with the least bytes and replicas.

In bulk, only brokers above the bands of bytes *and* replicas give, and only brokers below both
take, so that every copy serves both loads. Candidates are judged one after the other by the
remaining differences, so nothing overshoots. The candidates of fine tuning grow with the number of
brokers, not of partitions: from every broker some of each size class, and more of the smallest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from controller.pipeline.placement_ledger import IN, Candidate, PlacementChange, PlacementLedger
from controller.planning.load_goals import BYTES_IN

CANDIDATES_PER_MOVE: Final = 3.0
"""Candidates for each replica to move: some have no useful target."""
MARGIN: Final = 0.006
"""As a fraction of the width of the band."""
PEERS_MAX: Final = 12
"""Brokers considered as the other side of a move when evening out bytes."""
FITS_MAX: Final = 6
"""Best replicas considered between two brokers: the target may not be allowed for some."""
TRIED_MAX: Final = 100
"""Small replicas of one broker considered."""

NOTHING: Final = np.zeros(0, dtype=bool)


class RequiredMoves:
    """Place the replicas of partitions that cannot stay unchanged."""

    def __init__(
        self, ledger: PlacementLedger, replaced: Mapping[int, int], replication_factor: int | None
    ) -> None:
        """Replace brokers, from index to index, and change the replication factor."""
        self._ledger: Final = ledger
        self._size: Final = np.maximum(np.array(ledger.sizes.target), 1.0)
        self._count: Final = np.maximum(np.array(ledger.counts.target), 1.0)
        if ledger.traffic is not None:
            self._rate: Final = np.maximum(np.array(ledger.traffic.bands[IN].target), 1.0)
        self._replaced: Final = replaced
        self._replication_factor: Final = replication_factor
        self.problems: Final[Counter[str]] = Counter()
        """Compromises, with the number of partitions."""

    def place(self, partition: Candidate) -> PlacementChange | None:
        """Return the change of a partition; None if it stays unchanged."""
        now, replicas = self._replace(partition), partition.replicas
        wanted = self._replication_factor or len(replicas)
        while len(now.replicas) > wanted:
            now = self._drop(now)
        for position, broker in enumerate(now.replicas):
            if not self._ledger.brokers.keeps[broker]:
                now = self._put(now._replace(position=position))
        while len(now.replicas) < wanted:
            more = self._put(now._replace(position=len(now.replicas)))
            if more.replicas == now.replicas:
                break
            now = more
        after = self._spread(now).replicas
        if after == replicas:
            return None
        return PlacementChange(*partition[:3], replicas, after)

    def _replace(self, now: Candidate) -> Candidate:
        ledger = self._ledger
        for position, broker in enumerate(now.replicas):
            other = self._replaced.get(broker)
            if other is None or other in now.replicas:
                continue
            after = now._replace(position=position).moved_to(other)
            if self._racks(after) < self._racks(now.replicas):
                self.problems["replacing would lose a rack: placed elsewhere"] += 1
            elif not ledger.has_room(now._replace(position=position))[other]:
                self.problems["the replacement has no room: placed elsewhere"] += 1
            else:
                now = self._shifted(now, after)
        return now

    def _drop(self, now: Candidate) -> Candidate:
        """Drop a replica: on an emptied broker, in a shared rack, or on the fullest broker."""
        brokers, placed = self._ledger.brokers, now.replicas
        racks, fullness = [int(brokers.rack[b]) for b in placed], self._fullness()

        def cost(n: int) -> tuple[bool, bool, float, int]:
            stays = bool(brokers.keeps[placed[n]])
            # On a tie the leader stays: dropping it costs an election.
            return stays, racks.count(racks[n]) == 1, -float(fullness[placed[n]]), -n

        position = min(range(len(placed)), key=cost)
        return self._shifted(now, placed[:position] + placed[position + 1 :])

    def _put(self, now: Candidate) -> Candidate:
        """Put the replica of a position, or an additional one, on the emptiest possible broker."""
        ledger = self._ledger
        mask = ledger.may_take(now)
        if not mask.any():
            mask = self._second_best(now)
            if not mask.any():
                self.problems["no broker has room for a replica"] += 1
                return now
        concentration = ledger.by_topic[now.topic] / max(1, ledger.cap[now.topic])
        fullness = self._fullness() + now.size / self._size + 0.05 * concentration
        return self._shifted(now, now.moved_to(int(np.argmin(np.where(mask, fullness, np.inf)))))

    def _second_best(self, now: Candidate) -> Any:
        """Ignore the limit on the topic's concentration, then the spread over racks too."""
        ledger, brokers = self._ledger, self._ledger.brokers
        mask = brokers.keeps & ledger.has_room(now)
        mask[list(now.replicas)] = False
        others = [int(brokers.rack[b]) for n, b in enumerate(now.replicas) if n != now.position]
        spread = mask & ~np.isin(brokers.rack, others)
        if spread.any():
            self.problems["a broker gets more replicas of a topic than any broker had"] += 1
            return spread
        if mask.any():
            self.problems["too few racks for one replica in each"] += 1
        return mask

    def _spread(self, now: Candidate) -> Candidate:
        """Spread replicas over as many racks as possible; those on the fullest brokers move."""
        ledger, brokers = self._ledger, self._ledger.brokers
        while self._racks(now.replicas) < min(len(now.replicas), ledger.racks):
            racks, fullness = [int(brokers.rack[b]) for b in now.replicas], self._fullness()
            shared = [n for n in range(len(racks)) if racks.count(racks[n]) > 1]
            for position in sorted(shared, key=[-fullness[b] for b in now.replicas].__getitem__):
                now = now._replace(position=position)
                mask = ledger.may_take(now) & ~np.isin(brokers.rack, racks)
                if mask.any():
                    break
            else:
                self.problems["no broker of an unused rack has room"] += 1
                return now
            taker = int(np.argmin(np.where(mask, fullness, np.inf)))
            now = self._shifted(now, now.moved_to(taker))
        return now

    def _shifted(self, now: Candidate, after: tuple[int, ...]) -> Candidate:
        return now._replace(replicas=self._ledger.shift(now, after).after)

    def _racks(self, placed: Sequence[int]) -> int:
        return len({int(self._ledger.brokers.rack[b]) for b in placed})

    def _fullness(self) -> Any:
        """Return how full each broker is, relative to its targets."""
        found = self._ledger.size / self._size + self._ledger.count / self._count
        if self._ledger.traffic is None or not self._ledger.goals[BYTES_IN].is_on:
            return found
        return found + self._ledger.traffic.load[IN] / self._rate


class BulkMoves:
    """The amounts that brokers still give and take, and the choice of targets."""

    def __init__(self, ledger: PlacementLedger) -> None:
        self._ledger: Final = ledger
        sizes, counts = ledger.flows(of_size=True), ledger.flows(of_size=False)
        self.give_size, self.give_count = _both(sizes[0], counts[0])
        self.take_size, self.take_count = _both(sizes[1], counts[1])
        self._given = np.maximum(self.give_count, 1.0), np.maximum(self.give_size, 1.0)
        self._taken = np.maximum(self.take_count, 1.0), np.maximum(self.take_size, 1.0)
        total = ledger.by_topic.sum(axis=1)
        self.fair: Final = total / max(1, int(np.count_nonzero(ledger.brokers.keeps)))

    def is_done(self) -> bool:
        """Return whether no broker can give, or none can take."""
        return not (self.give_count >= 1).any() or not (self.take_count >= 1).any()

    def chances(self) -> Any:
        """
        Return the probability that a replica is a candidate, by topic and broker.

        Each broker has a level in units of a topic's fair share on a broker: of a topic at twice
        the level, half of the replicas are candidates. The level is chosen so that there are enough
        candidates.
        """
        wanted = self.give_count * CANDIDATES_PER_MOVE
        held = self._ledger.by_topic
        high = np.where(self.fair > 0, held.max(axis=1) / np.maximum(self.fair, 1e-9), 0).max()
        levels = np.full(held.shape[1], np.inf)
        for broker in np.flatnonzero(self.give_count >= 1).tolist():
            low, up = 0.0, float(high)
            for _ in range(30):
                level = (low + up) / 2
                offered = np.maximum(held[:, broker] - level * self.fair, 0).sum()
                low, up = (level, up) if offered > wanted[broker] else (low, level)
            levels[broker] = low
        return 1.0 - levels[None, :] * self.fair[:, None] / np.maximum(held, 1)

    def judge(self, candidate: Candidate) -> PlacementChange | None:
        """Return the change that moves a candidate; None if it stays."""
        giver, size = candidate.replicas[candidate.position], candidate.size
        if self.give_count[giver] < 1 or self.give_size[giver] < size:
            return None
        if not self._keeps_pace(giver, size):
            return None
        mask = self._ledger.may_take(candidate)
        mask &= (self.take_count >= 1) & (self.take_size >= size)
        takers = np.flatnonzero(mask)
        if not len(takers):
            return None
        lack = np.maximum(
            self.fair[candidate.topic] - self._ledger.by_topic[candidate.topic, takers], 0.02
        )
        left_count = self.take_count[takers] / self._taken[0][takers]
        left_size = self.take_size[takers] / self._taken[1][takers]
        score = lack * left_count * left_size * self._fit(takers, size)
        taker = int(takers[np.argmax(score)])
        self.give_count[giver] -= 1
        self.give_size[giver] -= size
        self.take_count[taker] -= 1
        self.take_size[taker] -= size
        return self._ledger.move(candidate, taker)

    def _keeps_pace(self, giver: int, size: int) -> bool:
        """Return whether this size keeps the remaining bytes and replicas in proportion."""
        per_replica = self.give_size[giver] / self.give_count[giver]
        first = self._given[1][giver] / self._given[0][giver]
        if per_replica > first * 1.1:
            return bool(size >= first * 0.5)
        return bool(per_replica >= first * 0.9 or size <= first)

    def _fit(self, takers: Any, size: int) -> Any:
        """Return how well this size matches each taker's lack per replica; the best is 1."""
        ratio = self.take_size[takers] / self.take_count[takers] / max(1.0, float(size))
        first = self._taken[1][takers] / self._taken[0][takers] / max(1.0, float(size))
        behind = ratio / first
        is_small = first > 1.0
        return np.where(is_small, 1.0 / behind**4, behind**4)


def _both(sizes: Any, counts: Any) -> tuple[Any, Any]:
    """Return the bytes and whole replicas of the brokers that exchange both."""
    both = (sizes > 0) & (counts >= 1)
    return np.where(both, sizes, 0.0), np.where(both, np.floor(counts), 0.0)


class FineTuning:
    """Bring replicas and bytes of all brokers into their bands with a pool of candidates."""

    def __init__(self, ledger: PlacementLedger, candidates: Iterable[Candidate]) -> None:
        """Group the pool by broker and sort it by size."""
        self._ledger: Final = ledger
        sizes, counts = ledger.sizes, ledger.counts
        self._size_low, self._size_high = np.array(sizes.low), np.array(sizes.high)
        self._size_target = np.array(sizes.target)
        # Bytes are brought this far inside the edge of the band, as evening out the replicas
        # afterwards moves a few bytes.
        self._margin = MARGIN * (self._size_high - self._size_low)
        self._count_low, self._count_high = np.array(counts.low), np.array(counts.high)
        self._count_target = np.array(counts.target)
        by_giver: dict[int, list[Candidate]] = {}
        for candidate in candidates:
            by_giver.setdefault(candidate.replicas[candidate.position], []).append(candidate)
        for found in by_giver.values():
            found.sort(key=lambda o: (o.size, o.topic, o.partition))
        self._candidates: Final = by_giver
        self._sizes: Final = {b: np.array([o.size for o in f]) for b, f in by_giver.items()}
        self._left: Final = {b: np.ones(len(f), dtype=bool) for b, f in by_giver.items()}
        self._group: Final = np.zeros(len(ledger.brokers.ids), dtype=np.int64)
        for number, group in enumerate(ledger.groups(), start=1):
            self._group[list(group)] = number

    def changes(self) -> Iterator[PlacementChange]:
        """
        Yield the changes.

        The smallest replicas leave brokers above the band of replicas; a few of suitable size bring
        the bytes into the band; then the smallest bring the last numbers of replicas into theirs.
        """
        count, size, none = self._ledger.count, self._ledger.size, np.zeros_like(self._count_low)
        give, take = self._give_small, self._take_small
        yield from _until_stuck(count, none, self._count_high, give, take)
        yield from _until_stuck(
            size, self._size_low, self._size_high, self._give_fitting, self._take_fitting
        )
        yield from _until_stuck(count, self._count_low, self._count_high, give, take)

    # --- replicas ------------------------------------------------------------------------------

    def _give_small(self, giver: int) -> PlacementChange | None:
        ledger = self._ledger
        need = (ledger.count - self._count_target) / np.maximum(self._count_target, 1)
        for n in self._untaken(giver):
            candidate = self._candidates[giver][n]
            mask = ledger.may_take(candidate) & (ledger.count + 1 <= self._count_high)
            mask &= (ledger.size + candidate.size <= self._size_high) | (
                ledger.size > self._size_high
            )
            if mask.any():
                return self._book(giver, n, int(np.argmin(np.where(mask, need, np.inf))))
        return None

    def _take_small(self, taker: int) -> PlacementChange | None:
        ledger = self._ledger
        spare = (ledger.count - self._count_target) / np.maximum(self._count_target, 1)
        spare[ledger.count - 1 < self._count_low] = -np.inf
        for giver in self._highest(spare, taker, len(spare)):
            for n in self._untaken(giver)[:TRIED_MAX]:
                candidate = self._candidates[giver][n]
                if ledger.size[giver] - candidate.size < self._size_low[giver]:
                    continue
                if ledger.may_take(candidate)[taker]:
                    return self._book(giver, n, taker)
        return None

    # --- bytes ---------------------------------------------------------------------------------

    def _give_fitting(self, giver: int) -> PlacementChange | None:
        under = (self._size_target - self._ledger.size) / np.maximum(self._size_target, 1)
        return self._best_fit([giver], self._highest(under, giver, PEERS_MAX), giver)

    def _take_fitting(self, taker: int) -> PlacementChange | None:
        over = (self._ledger.size - self._size_target) / np.maximum(self._size_target, 1)
        return self._best_fit(self._highest(over, taker, PEERS_MAX), [taker], taker)

    def _highest(self, value: Any, broker: int, how_many: int) -> list[int]:
        """Return the brokers of the same group with the highest values above minus infinity."""
        value = np.where(self._group == self._group[broker], value, -np.inf)
        value[broker] = -np.inf
        highest = np.argsort(-value, kind="stable")[:how_many]
        return [int(b) for b in highest if value[b] > -np.inf]

    def _best_fit(self, givers: list[int], takers: list[int], focus: int) -> PlacementChange | None:
        """Choose the replica with the largest gain per cost."""
        ranked: list[tuple[float, int, int, int]] = []
        for giver in givers:
            left = self._untaken(giver)
            if not left:
                continue
            sizes = self._sizes[giver][left]
            for taker in takers:
                score = self._gain(giver, taker, sizes, focus)
                ranked += [
                    (-float(score[n]), giver, left[n], taker)
                    for n in np.argsort(-score, kind="stable")[:FITS_MAX].tolist()
                    if score[n] > 0
                ]
        for _, giver, n, taker in sorted(ranked):
            if self._ledger.may_take(self._candidates[giver][n])[taker]:
                return self._book(giver, n, taker)
        return None

    def _gain(self, giver: int, taker: int, sizes: Any, focus: int) -> Any:
        """Return the reduction of bytes outside the bands per byte and replica moved."""
        ledger = self._ledger
        left, got = ledger.size[giver], ledger.size[taker]
        before = self._outside(giver, left, focus) + self._outside(taker, got, focus)
        after = self._outside(giver, left - sizes, focus)
        after = after + self._outside(taker, got + sizes, focus)
        typical = float(ledger.size.sum()) / max(1, int(ledger.count.sum()))
        cost = sizes + typical
        if ledger.count[giver] - 1 < self._count_low[giver]:
            cost = cost + typical
        if ledger.count[taker] + 1 > self._count_high[taker]:
            if not self._untaken(taker):
                return np.full(len(sizes), -1.0)  # the taker has no candidate to give in exchange
            cost = cost + typical
        return (before - after) / cost

    def _outside(self, broker: int, size: Any, focus: int) -> Any:
        margin = self._margin[broker] if broker == focus else 0.0
        over = np.maximum(size - (self._size_high[broker] - margin), 0)
        return over + np.maximum(self._size_low[broker] + margin - size, 0)

    # --- the pool ------------------------------------------------------------------------------

    def _untaken(self, giver: int) -> list[int]:
        """Return the candidates of a broker that have not moved, the smallest first."""
        found: list[int] = np.flatnonzero(self._left.get(giver, NOTHING)).tolist()
        return found

    def _book(self, giver: int, n: int, taker: int) -> PlacementChange:
        self._left[giver][n] = False
        return self._ledger.move(self._candidates[giver][n], taker)


def _until_stuck(
    load: Any,
    low: Any,
    high: Any,
    give: Callable[[int], PlacementChange | None],
    take: Callable[[int], PlacementChange | None],
) -> Iterator[PlacementChange]:
    """Yield a change for the broker furthest outside the band, until no broker has one."""
    stuck: set[tuple[int, bool]] = set()
    while True:
        outside = [(float(v), b, True) for b, v in enumerate(load - high) if v > 0]
        outside += [(float(v), b, False) for b, v in enumerate(low - load) if v > 0]
        for _, broker, gives in sorted(outside, key=lambda found: (-found[0], found[1])):
            if (broker, gives) in stuck:
                continue
            change = give(broker) if gives else take(broker)
            if change is not None:
                yield change
                break
            stuck.add((broker, gives))
        else:
            return
