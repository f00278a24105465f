"""
Changes that are required independently of loads.

Drained brokers, replaced brokers, other replication factors, and partitions that use fewer racks
than possible. Partitions are placed one after the other; new replicas go to the brokers with the
least bytes and replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from controller.pipeline.placement_ledger import Candidate, PlacementChange, PlacementLedger


class RequiredMoves:
    """Place the replicas of partitions that cannot stay unchanged."""

    def __init__(
        self, ledger: PlacementLedger, replaced: Mapping[int, int], replication_factor: int | None
    ) -> None:
        """Replace brokers, from index to index, and change the replication factor."""
        self._ledger: Final = ledger
        self._size: Final = np.maximum(np.array(ledger.sizes.target), 1.0)
        self._count: Final = np.maximum(np.array(ledger.counts.target), 1.0)
        self._replaced: Final = replaced
        self._replication_factor: Final = replication_factor
        self.problems: Final[Counter[str]] = Counter()
        """Compromises, with the number of partitions."""

    def place(
        self, topic: int, partition: int, size: int, replicas: tuple[int, ...]
    ) -> PlacementChange | None:
        """Return the change of a partition; None if it stays unchanged."""
        now = self._replace(Candidate(topic, partition, size, replicas, 0))
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
        return PlacementChange(topic, partition, size, replicas, after)

    def _replace(self, now: Candidate) -> Candidate:
        ledger = self._ledger
        for position, broker in enumerate(now.replicas):
            other = self._replaced.get(broker)
            if other is None or other in now.replicas:
                continue
            after = now._replace(position=position).moved_to(other)
            if self._racks(after) < self._racks(now.replicas):
                self.problems["replacing would lose a rack: placed elsewhere"] += 1
            elif ledger.size[other] + now.size > ledger.brokers.room[other]:
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
        mask = brokers.keeps & (ledger.size + now.size <= brokers.room)
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
        return self._ledger.size / self._size + self._ledger.count / self._count
