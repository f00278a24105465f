"""
Reads that the loop requests: those of one round together, and those after a rejected write.

After a rejected write the core itself requests topics and partition states
(``core.role.invalidation.invalidate``); the other znodes are read from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from controller.core.effects import ReadPurpose, ReadStates, ReadTopics
from controller.core.model import TopicPartition
from controller.core.view import ClusterView
from controller.reactor.ports import Operation, Store, ZnodeFamily
from controller.znodes import paths

LOST_MAX: Final = 10
"""Consecutive rejections of a write that may still be lost races."""

OWN_RECORDS: Final = (
    ZnodeFamily.SPECS,
    ZnodeFamily.ORPHANS,
    ZnodeFamily.HISTORY,
    ZnodeFamily.APPLIED_THROTTLES,
)
"""Znodes without watches, as only the leading daemon writes them."""

CANCELLABLE: Final = (
    ZnodeFamily.SUBMISSIONS,
    ZnodeFamily.LEGACY_PLAN,
    ZnodeFamily.QUEUE,
    ZnodeFamily.CONTROLS,
)
"""Znodes that a cancellation may refer to. A store reads them after it, but reports them first."""

_ROOTS: Final = {
    paths.REASSIGNMENTS: ZnodeFamily.SPECS,
    paths.ORPHANS: ZnodeFamily.ORPHANS,
    paths.PRODUCER_IDS: ZnodeFamily.PRODUCER_IDS,
    paths.DELETIONS: ZnodeFamily.DELETIONS,
    paths.PREFERRED_ELECTION: ZnodeFamily.PREFERRED_ELECTION,
    paths.LEGACY_PLAN: ZnodeFamily.LEGACY_PLAN,
    paths.REQUESTS: ZnodeFamily.SUBMISSIONS,
    paths.CANCEL: ZnodeFamily.CANCELLATION,
    paths.QUEUE: ZnodeFamily.QUEUE,
    paths.CONTROLS: ZnodeFamily.CONTROLS,
    paths.OUTCOMES: ZnodeFamily.HISTORY,
    paths.APPLIED_THROTTLES: ZnodeFamily.APPLIED_THROTTLES,
}
"""The znode to read for a path that is one of these or below it."""


def reread_own_records(store: Store) -> None:
    """Read the daemon's records: another daemon or an unconfirmed write may have changed them."""
    for znode in OWN_RECORDS:
        store.read(znode)


def reread_stale(store: Store, view: ClusterView) -> None:
    """Read the plans that a rejected write marked as stale."""
    requests = view.requests
    if requests.legacy is not None and requests.legacy.stale:
        store.read(ZnodeFamily.LEGACY_PLAN)
    if requests.queue is not None and requests.queue.stale:
        store.read(ZnodeFamily.QUEUE)


def reread_concerned(store: Store, path: str) -> None:
    """Read the znodes that a rejected operation wrote or checked."""
    for root, znode in _ROOTS.items():
        if path == root or path.startswith(f"{root}/"):
            store.read(znode)
    entity = paths.parse_entity(path.removeprefix(paths.CONFIGS))
    if entity is not None:
        store.read_entity_configs((entity,))


class RaceCounts:
    """
    Lost races by path, since the last successful write to it.

    A few in a row are common. A path that is rejected ``LOST_MAX`` times has another cause that
    reading it does not reveal. It is left until the next retry, so that it does not keep the loop
    busy.
    """

    def __init__(self) -> None:
        self._lost: Counter[str] = Counter()
        self._stubborn: set[str] = set()

    def is_stubborn(self, path: str) -> bool:
        """Count a lost race; return whether the path has lost too many."""
        self._lost[path] += 1
        if self._lost[path] < LOST_MAX:
            return False
        self._stubborn.add(path)
        return True

    def reset_counts(self, operations: Iterable[Operation]) -> None:
        """Reset the counts of the paths that were written."""
        if self._lost:
            for operation in operations:
                self._lost.pop(operation.path, None)

    def take_stubborn(self) -> set[str]:
        """Return the paths that were left, and reset all counts."""
        stubborn, self._stubborn = self._stubborn, set()
        self._lost.clear()
        return stubborn


class Reads:
    """
    Collects the reads of topics and partition states of one round, then requests them together.

    Every partition requests its own state when its step is sent. A request each would be a round
    trip each, one after the other, and delay every other change of the cluster.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._topics: dict[str, None] = {}
        self._watched: dict[TopicPartition, None] = {}
        self._once: dict[TopicPartition, None] = {}

    def add(self, effect: ReadStates | ReadTopics) -> None:
        """Add the topics or states of an effect."""
        if isinstance(effect, ReadTopics):
            self._topics.update(dict.fromkeys(effect.topics))
        elif effect.purpose is ReadPurpose.WATCH:
            self._watched.update(dict.fromkeys(effect.partitions))
        else:
            self._once.update(dict.fromkeys(effect.partitions))

    def send(self, read_generation: int) -> None:
        """
        Request everything: topics first, so that a state is never older than its topic.

        A state that is to be watched is read only once, with the watch. ``read_generation`` counts
        invalidations: a read of an older generation may be stale.
        """
        if self._topics:
            self._store.read_topics(tuple(self._topics), read_generation=read_generation)
        once = tuple(p for p in self._once if p not in self._watched)
        for wanted, watch in ((tuple(self._watched), True), (once, False)):
            if wanted:
                self._store.read_states(wanted, watch=watch, read_generation=read_generation)
        for requested in (self._topics, self._once, self._watched):
            requested.clear()
