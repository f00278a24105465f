"""
What a cancellation of scope ``all`` moves back though it was finished.

The outcomes tell where each partition was. Where several of the requests moved one, it goes back
past all of them at once: an entry is undone where it led to the place the next one began at. What
stands nowhere an entry led to was moved by somebody else since, and stays.

The way back is a request of its own, as gentle as the strictest of those it undoes: their throttle,
step size and number in flight hold for it. Their windows do not: who calls a move off does not want
to wait for the night.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from controller.core.effects import Effect, ReadAccepted
from controller.core.histories import Part
from controller.core.model import (
    AcceptedEntry,
    Ending,
    Fate,
    Goal,
    Instant,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.pace.limits import own_throttle
from controller.core.records import (
    AcceptedRecord,
    Change,
    EndingRecord,
    GoalRecord,
    PartRecord,
)
from controller.core.requests.acceptance import refusal_of
from controller.core.requests.topic_configs import ask
from controller.core.submissions import Cancellation, CancelScope, RequestOptions, StepSize
from controller.core.view import ClusterView

UNDO_PART: Final = str(2**31 - 1)
"""The part that tells how the way back is gone: a version that no cancel znode will have."""


def skipped(cancellation: Cancellation, partition: TopicPartition, why: str) -> Change:
    """Record that a partition is not led back, and why."""
    told = Ending(cancellation.request, partition, Fate.SKIPPED, why)
    return Change((EndingRecord(told),), partition=partition)


def lacks_accepted(view: ClusterView, cancellation: Cancellation) -> bool:
    """Whether it was not read yet where the partitions of a request were."""
    return any(name not in view.accepted for name in _whole_requests(view, cancellation))


def wish_of(view: ClusterView, cancellation: Cancellation) -> RequestOptions:
    """Return how a cancellation wants what it moves back to be moved."""
    known = view.requests.get(cancellation.request)
    options = RequestOptions() if known is None else known.options
    return replace(options, reason=cancellation.reason, requested_by=cancellation.requested_by)


def undo_finished(
    view: ClusterView, cancellation: Cancellation, chunk: int, now: Instant
) -> tuple[list[Change], tuple[Effect, ...]]:
    """
    Give what was finished its original replicas as a new target, a chunk at a time.

    Return the changes, and the questions that have to be answered before it is complete.
    """
    names = _whole_requests(view, cancellation)
    unread = [name for name in names if name not in view.accepted]
    if unread:
        asked = view.asked_accepted
        return [], tuple(ReadAccepted(name) for name in unread if name not in asked)
    known = view.requests.get(cancellation.request)
    done = known.settled if known is not None else frozenset()
    changes: list[Change] = []
    unknown: set[str] = set()
    for partition, entries in _by_partition(view, cancellation, names, done).items():
        if len(changes) >= chunk:
            break
        change = _undo(view, cancellation, partition, entries, unknown)
        if change is not None:
            changes.append(change)
    if changes and (known is None or UNDO_PART not in known.parts):
        changes = [_opened(view, cancellation, names)]
    return changes, tuple(ask(view, unknown, now))


def _whole_requests(view: ClusterView, cancellation: Cancellation) -> tuple[RequestId, ...]:
    """Return the requests of which the finished part is to be undone as well."""
    if cancellation.scope is not CancelScope.ALL:
        return ()
    if cancellation.requests:
        return tuple(sorted(r for r in cancellation.requests if r in _with_history(view)))
    if not cancellation.is_everything:
        return tuple(sorted(_with_history(view)))
    return tuple(
        sorted(
            name
            for name, request in view.requests.items()
            if not request.has_ended and request.kind in {"request", "queue", "legacy"}
        )
    )


def _with_history(view: ClusterView) -> set[RequestId]:
    return set(view.ended) | {
        name for name, request in view.requests.items() if request.kind != "cancel"
    }


def _opened(view: ClusterView, cancellation: Cancellation, names: Iterable[RequestId]) -> Change:
    """Record how the way back is gone, before its first step is."""
    asked = {n: view.accepted[n].options for n in names if view.accepted[n].entries}
    wishes = asked.values()
    throttles = [t for n, w in asked.items() if (t := own_throttle(view, n, w)) is not None]
    limits = [w.max_partitions_in_flight for w in wishes if w.max_partitions_in_flight is not None]
    options = replace(
        wish_of(view, cancellation),
        throttle=min(throttles, default=None),
        step_size=_smallest(view, [w.step_size for w in wishes]),
        max_partitions_in_flight=min(limits, default=None),
    )
    part = Part(UNDO_PART, 0, cancellation.created_ms, options)
    return Change((PartRecord(cancellation.request, part),))


def _smallest(view: ClusterView, sizes: list[StepSize | None]) -> StepSize | None:
    """Return the most careful of step sizes, None where all leave it to the daemon's."""
    turned, own = view.controls.limits.step_size, view.options.step_size
    default: StepSize = turned or own or "all"
    if all(size is None for size in sizes):
        return None
    meant = [size or default for size in sizes]
    return min((size for size in meant if size != "all"), default="all")


Past = tuple[RequestId, AcceptedEntry]


def _by_partition(
    view: ClusterView,
    cancellation: Cancellation,
    names: Iterable[RequestId],
    done: Collection[TopicPartition],
) -> dict[TopicPartition, list[Past]]:
    """Return what moved each partition that is meant and not done, as far as it came to its end."""
    found: dict[TopicPartition, list[Past]] = {}
    for name in names:
        request, read = view.requests.get(name), view.accepted[name]
        for entry in reversed(read.entries):
            if entry.partition in done:
                continue
            if request is not None and entry.partition in request.endings:
                continue
            if entry.partition not in read.elsewhere and _names(cancellation, entry.partition):
                found.setdefault(entry.partition, []).append((name, entry))
    return found


def _names(cancellation: Cancellation, partition: TopicPartition) -> bool:
    if cancellation.is_everything or not (cancellation.topics or cancellation.partitions):
        return True
    return partition in cancellation.partitions or partition.topic in cancellation.topics


def _undo(  # noqa: PLR0911 - one return per case
    view: ClusterView,
    cancellation: Cancellation,
    partition: TopicPartition,
    entries: list[Past],
    unknown: set[str],
) -> Change | None:
    """
    Return the way back of a finished partition, a reason not to go it, None: nothing to do.

    Where the partition was is judged as any target that is asked for: brokers, the topic and its
    settings may have changed since. A topic whose settings decide and are not known is added to
    ``unknown``.
    """
    topic = view.topics.get(partition.topic)
    if partition in view.reassignments or topic is None or topic.stale:
        return None
    assignment = topic.partitions.get(partition.partition)
    if assignment is None:
        return None
    now = assignment.replicas
    undone = list(_chain(now, entries))
    if not undone and any(entry.original == now for _, entry in entries):
        return None
    if assignment.is_reassigning or not undone:
        since = ", ".join(name for name, _ in entries)
        return skipped(cancellation, partition, f"it was moved again since {since}")
    original = undone[-1].original
    if original is None:
        return skipped(cancellation, partition, "nobody knows where it was before")
    if original == now:
        return None
    refusal = refusal_of(view, cancellation.request, partition, original)
    if refusal is not None:
        return skipped(cancellation, partition, refusal.detail)
    if partition.topic not in view.configs:
        unknown.add(partition.topic)
        return None
    goal = Goal(original, now, cancellation.request, Route.REQUEST)
    there = AcceptedEntry(partition, now, original)
    return Change(
        (GoalRecord(partition, goal), AcceptedRecord(cancellation.request, there)),
        partition=partition,
    )


def _chain(now: Replicas, entries: list[Past]) -> Iterator[AcceptedEntry]:
    """Yield the entries that led to where a partition is, each to where the one before it began."""
    left = [entry for _, entry in entries]
    place: Replicas | None = now
    while place is not None:
        last = next((e for e in left if e.target == place and e.original != place), None)
        if last is None:
            return
        yield last
        left.remove(last)
        place = last.original
