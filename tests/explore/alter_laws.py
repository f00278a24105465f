"""
The laws of the delegated engine: what a daemon may ask of Kafka's controller.

The controller deletes what an entry omits of the replicas being added, whatever the ISR is, and it
may carry an entry out late. So an entry is judged as it is handed over, by what the daemon knows;
and no request may be left that is carried out when the reassignment has no record any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.explore import production as p
from tests.explore.control_laws import is_paused
from tests.explore.system import PARTITION, Shape, System

RECORD = p.paths.reassignment_path(PARTITION)


def replicas_max(shape: Shape) -> int:
    """Return how many replicas may serve or copy."""
    return max(len(shape.before), len(shape.target)) + (shape.options.step_size or 99)


def entries_handed(system: System, number: int, entries: Any) -> Iterator[str]:
    """Judge entries as a daemon hands them over; one that ended meanwhile knew the same."""
    daemon = system.daemons[number]
    view: Any = None if daemon is None else daemon.reactor.view
    if view is None:
        return
    for partition, target, cancels in entries:
        stored, state = view.topics.assignment(partition), view.leadership.states.get(partition)
        if stored is None or state is None:
            yield f"an entry for {target} is handed over, and its partition is not known"
            continue
        if view.is_of_former_topic(partition):
            yield f"an entry for {target} is of a former topic"
        if is_paused(view) and not (stored.is_reassigning or cancels):
            yield f"everything is paused, and an entry for {target} is handed over"
        kept = {*stored.origin_replicas, *(() if cancels else target)}
        gone, isr = set(stored.replicas) - kept, set(state.isr)
        if gone and not kept & isr:
            yield f"an entry for {target} deletes {gone}, the ISR is {state.isr}"
        leaving = set() if cancels else isr - set(target)
        floor = min(system.shape.min_isr, len(system.shape.target))
        if leaving and isr >= set(target) and len(target) < floor:
            yield f"an entry drops {leaving} at once: {target} is below min.insync.replicas"
        if not cancels and len(kept) > max(replicas_max(system.shape), len(stored.replicas)):
            yield f"an entry for {target} makes {len(kept)} replicas: {stored}"


def step_begun(system: System, before: Any, after: Any) -> Iterator[str]:
    """Judge what Kafka's controller writes to a topic znode."""
    if not after.is_reassigning or after.target_replicas == before.target_replicas:
        return
    if system.zookeeper.get(RECORD) is None:
        yield f"a request of a reassignment that ended makes {before} {after}"
