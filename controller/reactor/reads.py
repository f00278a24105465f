"""
What is read again when a write was refused, or when records of ours may have changed.

Whoever was faster left something behind that we do not know yet. Topics and states are not here:
the core asks for those itself (``core.controllership.invalidation.invalidate``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from controller.core.effects import ReadPurpose, ReadStates, ReadTopics
from controller.core.model import TopicPartition
from controller.core.view import ClusterView
from controller.reactor.ports import Operation, Store, Znode
from controller.znodes import paths

LOST_MAX: Final = 10
"""Refusals of a write in a row that still may be races."""

OWN_RECORDS: Final = (Znode.GOALS, Znode.ORPHANS, Znode.HISTORY, Znode.LEASES)
"""Nobody watches them, as only the leading daemon writes them."""

CANCELLABLE: Final = (Znode.SUBMISSIONS, Znode.LEGACY_PLAN, Znode.QUEUE)
"""What a cancellation may mean: a store reads them after it, and tells of them before."""

_ROOTS: Final = {
    paths.GOALS: Znode.GOALS,
    paths.ORPHANS: Znode.ORPHANS,
    paths.PREFERRED_ELECTION: Znode.PREFERRED_ELECTION,
    paths.LEGACY_PLAN: Znode.LEGACY_PLAN,
    paths.REQUESTS: Znode.SUBMISSIONS,
    paths.CANCEL: Znode.CANCELLATION,
    paths.QUEUE: Znode.QUEUE,
    paths.OUTCOMES: Znode.HISTORY,
    paths.LEASES: Znode.LEASES,
}
"""What a path is about, by where it stands: there or below."""


def reread_own_records(store: Store) -> None:
    """Read our records: another daemon, or a write of unknown fate, may have changed them."""
    for znode in OWN_RECORDS:
        store.read(znode)


def reread_stale(store: Store, view: ClusterView) -> None:
    """Read the plans again that a refused write left in doubt: nothing else would."""
    if view.legacy is not None and view.legacy.stale:
        store.read(Znode.LEGACY_PLAN)
    if view.queue is not None and view.queue.stale:
        store.read(Znode.QUEUE)


def reread_concerned(store: Store, path: str) -> None:
    """Read whatever a refused operation was about."""
    for root, znode in _ROOTS.items():
        if path == root or path.startswith(f"{root}/"):
            store.read(znode)
    entity = paths.parse_entity(path.removeprefix(paths.CONFIGS))
    if entity is not None:
        store.read_entity_configs((entity,))


class RaceCounts:
    """
    How often somebody was faster, by path, since a write of ours to it succeeded.

    That happens a few times in a row. What is refused again and again is not a race but something
    that reading it does not tell us: it is left for a while, else we would do nothing besides.
    """

    def __init__(self) -> None:
        """Begin with no race lost."""
        self._lost: Counter[str] = Counter()
        self._stubborn: set[str] = set()

    def is_stubborn(self, path: str) -> bool:
        """Count a race lost; True where too many were."""
        self._lost[path] += 1
        if self._lost[path] < LOST_MAX:
            return False
        self._stubborn.add(path)
        return True

    def written(self, operations: Iterable[Operation]) -> None:
        """Forget the races for what was written."""
        if self._lost:
            for operation in operations:
                self._lost.pop(operation.path, None)

    def take_stubborn(self) -> set[str]:
        """Return what was left, to be read again; all races are counted anew."""
        stubborn, self._stubborn = self._stubborn, set()
        self._lost.clear()
        return stubborn


class Reads:
    """Collects, then asks."""

    def __init__(self, store: Store) -> None:
        """Begin with nothing to read."""
        self._store = store
        self._topics: dict[str, None] = {}
        self._watched: dict[TopicPartition, None] = {}
        self._once: dict[TopicPartition, None] = {}

    def add(self, effect: ReadStates | ReadTopics) -> None:
        """Have it read with the rest."""
        if isinstance(effect, ReadTopics):
            self._topics.update(dict.fromkeys(effect.topics))
        elif effect.purpose is ReadPurpose.WATCH:
            self._watched.update(dict.fromkeys(effect.partitions))
        else:
            self._once.update(dict.fromkeys(effect.partitions))

    def send(self, read_generation: int) -> None:
        """
        Ask for everything: topics first, so that a state is never older than its topic.

        What is to be watched is not read without a watch besides: one answer serves both.

        Args:
            read_generation: How many doubts the loop had so far.

        """
        if self._topics:
            self._store.read_topics(tuple(self._topics), read_generation=read_generation)
        once = tuple(p for p in self._once if p not in self._watched)
        for wanted, watch in ((tuple(self._watched), True), (once, False)):
            if wanted:
                self._store.read_states(wanted, watch=watch, read_generation=read_generation)
        for asked in (self._topics, self._once, self._watched):
            asked.clear()
