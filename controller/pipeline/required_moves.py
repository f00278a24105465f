"""
Changes that are required independently of loads.

Drained brokers, replaced brokers, other replication factors, and partitions that use fewer racks
than possible. Partitions are placed one after the other; new replicas go to the brokers with the
least bytes and replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from controller.pipeline.placement_ledger import PlacementChange, PlacementLedger
from controller.planning.quotas import Band


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredMove:
    """The required changes."""

    replaced: Mapping[int, int] = field(default_factory=dict)
    """Index of a replaced broker -> index of its replacement."""
    replication_factor: int | None = None


class RequiredMoves:
    """Place the replicas of partitions that cannot stay unchanged."""

    def __init__(
        self, ledger: PlacementLedger, sizes: Band, counts: Band, required: RequiredMove
    ) -> None:
        """Aim at the targets of these bands."""
        self._ledger: Final = ledger
        self._size: Final = np.maximum(np.array(sizes.target), 1.0)
        self._count: Final = np.maximum(np.array(counts.target), 1.0)
        self._required: Final = required
        self.problems: Final[Counter[str]] = Counter()
        """Compromises, with the number of partitions."""

    def place(
        self, topic: int, partition: int, size: int, replicas: tuple[int, ...]
    ) -> PlacementChange | None:
        """Return the change of a partition; None if it stays unchanged."""
        placed = self._replaced(topic, size, list(replicas))
        wanted = self._required.replication_factor or len(replicas)
        while len(placed) > wanted:
            self._drop(topic, size, placed)
        for position, broker in enumerate(tuple(placed)):
            if not self._ledger.brokers.keeps[broker]:
                self._put(topic, size, placed, position)
        while len(placed) < wanted:
            if not self._put(topic, size, placed, len(placed)):
                break
        self._spread(topic, size, placed)
        if tuple(placed) == replicas:
            return None
        return PlacementChange(topic, partition, size, replicas, tuple(placed))

    def _replaced(self, topic: int, size: int, placed: list[int]) -> list[int]:
        ledger = self._ledger
        for position, broker in enumerate(tuple(placed)):
            other = self._required.replaced.get(broker)
            if other is None or other in placed:
                continue
            after = [*placed[:position], other, *placed[position + 1 :]]
            if self._racks(after) < self._racks(placed):
                self.problems["replacing would lose a rack: placed elsewhere"] += 1
                continue
            if ledger.size[other] + size > ledger.brokers.room[other]:
                self.problems["the replacement has no room: placed elsewhere"] += 1
                continue
            ledger.shift(topic, size, placed, after)
            placed = after
        return placed

    def _drop(self, topic: int, size: int, placed: list[int]) -> None:
        """Drop a replica: on an emptied broker, in a shared rack, or on the fullest broker."""
        brokers = self._ledger.brokers
        racks = [int(brokers.rack[b]) for b in placed]

        def cost(n: int) -> tuple[bool, bool, float, int]:
            stays = bool(brokers.keeps[placed[n]])
            # On a tie the leader stays: dropping it costs an election.
            return stays, racks.count(racks[n]) == 1, -self._fullness(placed[n]), -n

        position = min(range(len(placed)), key=cost)
        after = [b for n, b in enumerate(placed) if n != position]
        self._ledger.shift(topic, size, placed, after)
        placed[:] = after

    def _put(self, topic: int, size: int, placed: list[int], position: int) -> bool:
        """Put the replica of a position, or an additional one, on the emptiest possible broker."""
        ledger = self._ledger
        mask = ledger.may_take(topic, size, placed, position)
        if not mask.any():
            mask = self._second_best(size, placed, position)
            if not mask.any():
                self.problems["no broker has room for a replica"] += 1
                return False
        need = ledger.size / self._size + ledger.count / self._count
        need = need + size / self._size + 0.05 * ledger.by_topic[topic] / max(1, ledger.cap[topic])
        taker = int(np.argmin(np.where(mask, need, np.inf)))
        after = [*placed[:position], taker, *placed[position + 1 :]]
        ledger.shift(topic, size, placed, after)
        placed[:] = after
        return True

    def _second_best(self, size: int, placed: Sequence[int], position: int) -> np.ndarray:
        """Ignore the limit on the topic's concentration, then the spread over racks too."""
        ledger, brokers = self._ledger, self._ledger.brokers
        mask = brokers.keeps & (ledger.size + size <= brokers.room)
        mask[list(placed)] = False
        others = [int(brokers.rack[b]) for n, b in enumerate(placed) if n != position]
        spread = mask & ~np.isin(brokers.rack, others)
        if spread.any():
            self.problems["a broker gets more replicas of a topic than any broker had"] += 1
            return spread
        if mask.any():
            self.problems["too few racks for one replica in each"] += 1
        return mask

    def _spread(self, topic: int, size: int, placed: list[int]) -> None:
        """Spread replicas over as many racks as possible; those on the fullest brokers move."""
        ledger, brokers = self._ledger, self._ledger.brokers
        while self._racks(placed) < min(len(placed), ledger.racks):
            racks = [int(brokers.rack[b]) for b in placed]
            shared = [n for n in range(len(placed)) if racks.count(racks[n]) > 1]
            shared.sort(key=lambda n: (-self._fullness(placed[n]), n))
            for position in shared:
                mask = ledger.may_take(topic, size, placed, position)
                mask &= ~np.isin(brokers.rack, racks)
                if mask.any():
                    break
            else:
                self.problems["no broker of an unused rack has room"] += 1
                return
            need = ledger.size / self._size + ledger.count / self._count
            taker = int(np.argmin(np.where(mask, need, np.inf)))
            after = [*placed[:position], taker, *placed[position + 1 :]]
            ledger.shift(topic, size, placed, after)
            placed[:] = after

    def _racks(self, placed: Sequence[int]) -> int:
        return len({int(self._ledger.brokers.rack[b]) for b in placed})

    def _fullness(self, broker: int) -> float:
        ledger = self._ledger
        return float(
            ledger.size[broker] / self._size[broker] + ledger.count[broker] / self._count[broker]
        )
