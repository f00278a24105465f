"""
Undo finished entries for a cancellation of scope ``all``.

Outcomes record the original replicas of each partition. Where several of the requests moved a
partition, it is moved back past all of them at once: an entry is undone if it led to the replicas
at which the next one began. A partition with replicas that no entry led to was moved by another
client since, and stays.

The rollback is a request of its own, with the throttle and the window of the cancellation. Where it
names no throttle, the strictest of the requests applies, as do the smallest of their step sizes and
numbers in flight. Their windows do not: who cancels does not want to wait for the night.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from controller.core import effects, model
from controller.core.model import Instant, Replicas, RequestId, Route, TopicPartition
from controller.core.pacing.limits_in_force import own_throttle
from controller.core.reassignments.records import SpecRecord
from controller.core.records import Change
from controller.core.requests import outcomes, records
from controller.core.requests.entry_checks import PlanEntry, refusal_of
from controller.core.requests.model import kind_of
from controller.core.requests.submissions import (
    AUTO,
    AcceptedEntry,
    Cancellation,
    CancelScope,
    RequestOptions,
    StepSize,
    Throttle,
)
from controller.core.topics import topic_configs
from controller.core.view import ClusterView

UNDO_PART: Final = str(2**31 - 1)
"""The part with the options of the rollback: a version that no cancel znode will have."""


def skip_partition(cancellation: Cancellation, partition: TopicPartition, why: str) -> Change:
    """Record that a partition is not rolled back, and why."""
    outcome = model.PartitionOutcome(
        cancellation.request, partition, model.OutcomeKind.SKIPPED, why
    )
    return Change((records.PartitionOutcomeRecord(outcome),), partition=partition)


def options_of(view: ClusterView, cancellation: Cancellation) -> RequestOptions:
    """Return the options with which a cancellation moves partitions back."""
    known = view.requests.by_id.get(cancellation.request)
    options = RequestOptions() if known is None else known.options
    return replace(options, reason=cancellation.reason, requested_by=cancellation.requested_by)


def undo_finished(
    view: ClusterView, cancellation: Cancellation, chunk: int, now: Instant
) -> tuple[list[Change], tuple[effects.Effect, ...], bool]:
    """
    Give finished partitions their original replicas as a new target, in chunks.

    Return the changes, what to read before the selection is complete, and whether each partition
    could be judged: the original replicas of each request are read, and no topic has to be read
    again.
    """
    names = _whole_requests(view, cancellation)
    accepted = view.requests_leadership.accepted
    needed = (*names, cancellation.request) if names else ()
    if any(name not in accepted or accepted[name].read is None for name in needed):
        reads = tuple(effects.ReadAccepted(name) for name in needed if name not in accepted)
        return [], reads, False
    known = view.requests.by_id.get(cancellation.request)
    skipped_before = known.endings if known is not None else {}
    changes: list[Change] = []
    unknown: set[str] = set()
    is_judged = True
    for partition, entries in _by_partition(view, cancellation, names).items():
        if len(changes) >= chunk:
            break
        topic = view.topics.by_name.get(partition.topic)
        if topic is not None and topic.stale:
            is_judged = False
            continue
        change = _undo(view, cancellation, partition, entries, unknown)
        if change is None:
            continue
        is_skip = all(isinstance(r, records.PartitionOutcomeRecord) for r in change.records)
        if not (is_skip and partition in skipped_before):
            changes.append(change)
    if changes and (known is None or UNDO_PART not in known.parts):
        changes = [_open_rollback(view, cancellation, names)]
    return changes, tuple(topic_configs.request_configs(view, unknown, now)), is_judged


def undone_entries(view: ClusterView, cancellation: Cancellation) -> dict[RequestId, int]:
    """Count the entries of each request that a cancellation moves back, when it selected all."""
    names = _whole_requests(view, cancellation)
    if not names:
        return {}
    accepted = view.requests_leadership.accepted
    own = {e.partition: e for e in accepted[cancellation.request].in_order()}
    found: Counter[RequestId] = Counter()
    for partition, entries in _entries_of(view, names, lambda p: p in own).items():
        present = own[partition].original
        found.update({name for name, _ in _chain(present, entries)})
    return dict(found)


def _whole_requests(view: ClusterView, cancellation: Cancellation) -> tuple[RequestId, ...]:
    """Return the requests whose finished entries are to be undone as well."""
    known = view.requests.by_id
    if cancellation.scope is not CancelScope.ALL:
        return ()
    if cancellation.is_everything:
        kinds = {"request", "queue", "legacy", "drain"}
        return tuple(sorted(n for n, r in known.items() if not r.has_ended and r.kind in kinds))
    past = {*view.requests.ended, *(n for n, r in known.items() if r.kind != "cancel")}
    return tuple(sorted(past & cancellation.requests if cancellation.requests else past))


def _open_rollback(
    view: ClusterView, cancellation: Cancellation, names: Iterable[RequestId]
) -> Change:
    accepted = view.requests_leadership.accepted
    reads = {n: read for n in names if (read := accepted[n].read) is not None and read.entries}
    requested = {name: read.options for name, read in reads.items()}
    wishes = requested.values()
    throttles = [t for n, w in requested.items() if (t := own_throttle(view, n, w)) is not None]
    limits = [w.max_partitions_in_flight for w in wishes if w.max_partitions_in_flight is not None]
    options = replace(
        options_of(view, cancellation),
        throttle=cancellation.throttle or _strictest(throttles),
        window=cancellation.window,
        step_size=_smallest(view, [w.step_size for w in wishes]),
        max_partitions_in_flight=min(limits, default=None),
    )
    part = outcomes.Part(UNDO_PART, 0, cancellation.created_ms, options)
    return Change((records.PartRecord(cancellation.request, part),))


def _strictest(throttles: Iterable[Throttle]) -> Throttle | None:
    """Return the lowest fixed throttle, or ``AUTO`` where it is the only one."""
    fixed = [t for t in throttles if t != AUTO]
    return min(fixed, default=AUTO if AUTO in throttles else None)


def _smallest(view: ClusterView, sizes: list[StepSize | None]) -> StepSize | None:
    """Return the smallest step size, None where all leave it to the daemon's."""
    if all(size is None for size in sizes):
        return None
    live, own = view.pacing_process.controls.limits.step_size, view.options.step_size
    default: StepSize = live or own or "all"
    meant = (size or default for size in sizes)
    return min((size for size in meant if size != "all"), default="all")


Past = tuple[RequestId, AcceptedEntry]


def _by_partition(
    view: ClusterView, cancellation: Cancellation, names: Iterable[RequestId]
) -> dict[TopicPartition, list[Past]]:
    """Return the finished entries of each selected partition that is idle."""
    selects_all = not (cancellation.topics or cancellation.partitions)

    def is_selected(partition: TopicPartition) -> bool:
        is_idle = partition not in view.reassignments.by_partition
        return is_idle and (selects_all or cancellation.names(partition))

    return _entries_of(view, names, is_selected)


def _entries_of(
    view: ClusterView, names: Iterable[RequestId], is_selected: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, list[Past]]:
    """Return the finished entries of requests, the latest first, by partition."""
    found: dict[TopicPartition, list[Past]] = {}
    for name in names:
        request, accepted = view.requests.by_id.get(name), view.requests_leadership.accepted[name]
        endings = {} if request is None else request.endings
        elsewhere = frozenset() if accepted.read is None else accepted.read.elsewhere
        if kind_of(name) == "drain":
            # A later entry of the partition may have reached its target.
            endings, elsewhere = {}, frozenset()
        for entry in reversed(accepted.in_order()):
            partition = entry.partition
            if not is_selected(partition) or partition in endings:
                continue
            if partition not in elsewhere:
                found.setdefault(partition, []).append((name, entry))
    return found


def _undo(  # noqa: C901, PLR0911 - one return per case
    view: ClusterView,
    cancellation: Cancellation,
    partition: TopicPartition,
    entries: list[Past],
    unknown: set[str],
) -> Change | None:
    """
    Return the rollback of a finished partition, a reason to skip it, or None: nothing to do.

    The original replicas are checked as any other target is: brokers, the topic and its settings
    may have changed since. A topic whose settings decide and are unknown is added to ``unknown``.
    """
    topic = view.topics.by_name.get(partition.topic)
    if topic is None:
        return None
    assignment = topic.partitions.get(partition.partition)
    if assignment is None:
        return None
    # An entry that was recorded before the topic was created is of a former one of its name.
    entries = [
        (name, e) for name, e in entries if e.recorded_in is None or topic.czxid <= e.recorded_in
    ]
    if not entries:
        return skip_partition(cancellation, partition, "the topic was deleted and created again")
    now = assignment.replicas
    undone = list(_chain(now, entries))
    if not undone and any(entry.original == now for _, entry in entries):
        return None
    if assignment.is_reassigning or not undone:
        since = ", ".join(name for name, _ in entries)
        return skip_partition(cancellation, partition, f"it was moved again since {since}")
    original = undone[-1][1].original
    if original is None:
        return skip_partition(cancellation, partition, "its former replicas are unknown")
    if original == now:
        return None
    if view.quiesce is not None:
        return skip_partition(cancellation, partition, str(view.quiesce))
    refusal = refusal_of(view, PlanEntry(cancellation.request, partition, original))
    if refusal is not None:
        return skip_partition(cancellation, partition, refusal.detail)
    if partition.topic not in view.topics.configs:
        unknown.add(partition.topic)
        return None
    spec = model.ReassignmentSpec(
        original, now, cancellation.request, Route.REQUEST, topic_czxid=topic.czxid
    )
    there = AcceptedEntry(partition, now, original)
    written = (SpecRecord(partition, spec), records.AcceptedRecord(cancellation.request, there))
    return Change(written, partition=partition)


def _chain(now: Replicas | None, entries: Iterable[Past]) -> Iterator[Past]:
    """Yield the entries that led to the present replicas, each to those the one before began at."""
    left, place = list(entries), now
    while place is not None:
        last = next((p for p in left if p[1].target == place and p[1].original != place), None)
        if last is None:
            return
        yield last
        left.remove(last)
        place = last[1].original
