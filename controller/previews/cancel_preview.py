"""
The partitions and requests that a cancellation would select.

The rules are those of the daemon (``core.requests.cancellation``), which decides. A cancellation
that selects nothing is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from controller.core import model
from controller.core.pacing.controls import Drain, Evacuation
from controller.core.requests.submissions import (
    Cancellation,
    CancelScope,
    legacy_request_id,
    queue_request_id,
)
from controller.errors import InvalidInputError
from controller.previews.entries import Entry, read_entries
from controller.previews.holds import since_words
from controller.units import names_text

if TYPE_CHECKING:
    from controller.zk.operator_client import OperatorClient

BATCH: Final = 1000
"""Records that are read at a time until one is selected."""


@dataclass(frozen=True, slots=True)
class CancelPreview:
    """The selection of a cancellation; without ``is_whole`` perhaps only the first of each kind."""

    in_progress: tuple[model.TopicPartition, ...] = ()
    """Accepted, queued or foreign partitions that do not roll back yet."""
    submissions: tuple[str, ...] = ()
    """Submitted requests that are not accepted yet."""
    finished: tuple[model.TopicPartition, ...] = ()
    """Partitions at their target, which would be moved back."""
    drained: Mapping[model.BrokerId, Drain] = field(default_factory=dict)
    """Brokers that would not be drained any longer."""
    evacuated: Mapping[model.BrokerId, Evacuation] = field(default_factory=dict)
    """Brokers that stay evacuated, though leaderships of what is selected would be back."""
    scope: CancelScope = CancelScope.IN_FLIGHT

    def __bool__(self) -> bool:
        return bool(self.in_progress or self.submissions or self.finished or self.drained)

    @property
    def selections(self) -> Mapping[str, Sequence[object]]:
        """What it selects, by what would happen to it."""
        verb = self.scope.verb
        return {
            f"{verb}, in progress or waiting": self.in_progress,
            f"{verb}, not accepted yet": self.submissions,
            "move back, finished already": self.finished,
            "drain no longer": self.drain_texts(),
        }

    def drain_texts(self) -> list[str]:
        """Describe the drains that it ends: all of them share one request."""
        drains = self.drained.items()
        return [f"broker {b}, drained since {since_words(about)}" for b, about in drains]

    def evacuation_texts(self) -> list[str]:
        """Name the brokers that stay evacuated, with the command that ends it."""
        return [
            f"broker {b} stays evacuated (since {since_words(about)}): "
            f"`reassigner leaders --return {b}` brings its leaderships back and ends that"
            for b, about in self.evacuated.items()
        ]

    def lines(self) -> Iterator[str]:
        """Describe what would happen, one line for each kind of selection."""
        for what, found in self.selections.items():
            if found:
                yield f"would {what}: {len(found)} ({names_text(found)})"
        yield from self.evacuation_texts()


def cancel_preview(
    operator: OperatorClient, wanted: Cancellation, *, is_whole: bool
) -> CancelPreview:
    """
    Find what a cancellation would select: everything, or only whether there is anything.

    Raises:
        InvalidInputError: a request is not known.

    """
    submitted = {s.name: s.request for s in operator.requests.open_submissions()}
    kept = operator.outcomes.ended_requests()
    in_progress = dict.fromkeys(_in_progress(operator, wanted, is_whole=is_whole))
    in_progress |= dict.fromkeys(_planned_partitions(operator, wanted))
    in_progress |= dict.fromkeys(_foreign(operator, wanted, in_progress))
    drains = operator.requests.controls().drains
    drained = drains.brokers if _names_request(wanted, drains.request) else {}
    known = {*kept, *submitted.values(), *((drains.request,) if drained else ())}
    unknown = sorted(wanted.requests - known)
    if unknown and not in_progress:
        named = model.request_text(*unknown)
        raise InvalidInputError(f"{named} is not known; see `reassigner list`")
    finished: list[model.TopicPartition] = []
    if wanted.scope is CancelScope.ALL and (is_whole or not in_progress):
        for request in _moved_back(wanted, kept):
            finished += _finished_partitions(operator, wanted, request)
    evacuations = operator.requests.evacuations()
    concerned = evacuations.former.keys() & {*in_progress, *finished}
    return CancelPreview(
        tuple(in_progress),
        tuple(n for n, r in submitted.items() if _names_request(wanted, r)),
        tuple(dict.fromkeys(finished)),
        dict(sorted(drained.items())),
        dict(sorted(evacuations.brokers.items())) if concerned else {},
        wanted.scope,
    )


def entries_back(
    operator: OperatorClient, wanted: Cancellation, preview: CancelPreview
) -> list[Entry]:
    """Return the entries that move finished partitions back, as a plan would have them."""
    finished = frozenset(preview.finished)
    originals = {
        entry.partition: entry.original
        for request in sorted(wanted.requests)
        for entry in operator.outcomes.accepted_entries(request)
        if entry.partition in finished and entry.original is not None
    }
    return read_entries(operator, originals)


def _in_progress(
    operator: OperatorClient, wanted: Cancellation, *, is_whole: bool
) -> Iterator[model.TopicPartition]:
    """Yield partitions with a record that is not cancelled; only one without ``is_whole``."""
    running = operator.requests.cancellation()
    topics = None
    if not wanted.is_everything and not wanted.requests:
        topics = wanted.topics | {p.topic for p in wanted.partitions}
    recorded = operator.partitions.reassigned_partitions(topics)
    for start in range(0, len(recorded), BATCH):
        specs = operator.partitions.specs(recorded[start : start + BATCH])
        for partition, spec in specs.items():
            if not isinstance(spec, model.ReassignmentSpec) or spec.rolls_back:
                continue
            if running is not None and spec.request == running.request:
                # Finished before; the running cancellation moves it back.
                continue
            if _selects(wanted, spec.request, partition):
                yield partition
                if not is_whole:
                    return


def _planned_partitions(
    operator: OperatorClient, wanted: Cancellation
) -> Iterator[model.TopicPartition]:
    """Yield entries of the queue, and of a legacy plan that are not accepted yet."""
    queue, plan = operator.requests.queue(), operator.requests.plan()
    if queue is not None:
        name = queue_request_id(queue.czxid)
        yield from (p for p in queue.entries if _selects(wanted, name, p))
    if plan is not None:
        name = legacy_request_id(plan.czxid)
        chosen = [p for p in plan.entries if _selects(wanted, name, p)]
        recorded = operator.partitions.specs(chosen)
        yield from (p for p in chosen if recorded[p] is None)


def _foreign(
    operator: OperatorClient, wanted: Cancellation, known: Iterable[model.TopicPartition]
) -> Iterator[model.TopicPartition]:
    """Yield foreign reassignments, which are cancelled only by the name of topic or partition."""
    named = wanted.topics | {p.topic for p in wanted.partitions}
    reassigning = [
        model.TopicPartition(topic, number)
        for topic, found in operator.partitions.topics(named).items()
        if isinstance(found, model.TopicAssignment)
        for number, assignment in found.partitions.items()
        if assignment.is_reassigning
    ]
    chosen = [p for p in reassigning if wanted.names(p) and p not in set(known)]
    recorded = operator.partitions.specs(chosen)
    yield from (p for p in chosen if recorded[p] is None)


def _moved_back(
    wanted: Cancellation, kept: Mapping[model.RequestId, bool]
) -> Iterator[model.RequestId]:
    """Yield the requests whose finished partitions are moved back."""
    for request, has_ended in kept.items():
        if wanted.requests:
            is_selected = request in wanted.requests
        else:
            is_own = not request.startswith("cancel-")
            is_selected = is_own and not (wanted.is_everything and has_ended)
        if is_selected:
            yield request


def _finished_partitions(
    operator: OperatorClient, wanted: Cancellation, request: model.RequestId
) -> Iterator[model.TopicPartition]:
    """Yield the partitions of a request that are still at their target."""
    history = operator.outcomes.history_of(request)
    others = {e.partition for e in history.endings} if history is not None else set()
    is_narrow = bool(wanted.topics or wanted.partitions)
    accepted = {
        e.partition: e
        for e in operator.outcomes.accepted_entries(request)
        if e.partition not in others and not (is_narrow and not wanted.names(e.partition))
    }
    assignments = operator.partitions.assignments(accepted)
    recorded = operator.partitions.specs(accepted)
    for partition, entry in accepted.items():
        is_moved = entry.original is not None and entry.original != entry.target
        is_at_target = assignments[partition] == model.PartitionAssignment(entry.target)
        if recorded[partition] is None and is_moved and is_at_target:
            yield partition


def _selects(
    wanted: Cancellation, request: model.RequestId, partition: model.TopicPartition
) -> bool:
    return _names_request(wanted, request) or wanted.names(partition)


def _names_request(wanted: Cancellation, request: model.RequestId) -> bool:
    return wanted.is_everything or request in wanted.requests
