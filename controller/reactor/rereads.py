"""
What is read again when a write was refused, or when records of ours may have changed.

Whoever was faster left something behind that we do not know yet. Topics and states are not here:
the core asks for those itself (``core.doubts.invalidate``).
"""

from __future__ import annotations

from typing import Final

from controller.core.view import ClusterView
from controller.reactor.ports import Store, Znode
from controller.znodes import paths

OWN_RECORDS: Final = (Znode.GOALS, Znode.ORPHANS, Znode.HISTORY, Znode.LEASES)
"""Nobody watches them, as only the leading daemon writes them."""

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
