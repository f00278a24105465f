"""
What a cancellation would call off, so that one that concerns nothing is never written.

It follows the rules by which the daemon chooses (``core.requests.cancellation``); the daemon
has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.cli.ports import OperatorPort
from controller.core.model import (
    PartitionAssignment,
    ReassignmentSpec,
    RequestId,
    TopicAssignment,
    TopicPartition,
)
from controller.core.requests.acceptance import legacy_request_id
from controller.core.requests.queue import queue_request_id
from controller.core.submissions import Cancellation, CancelScope
from controller.errors import InvalidInputError

LOOKED_AT: Final = 1000
"""Records read at once while something that matches is looked for."""


@dataclass(frozen=True, slots=True)
class CancelPreview:
    """What a cancellation would call off; perhaps only the first of each, where that is enough."""

    in_progress: tuple[TopicPartition, ...] = ()
    """Accepted, queued or begun by others, and not on their way back yet."""
    submissions: tuple[str, ...] = ()
    """Submitted requests that were not accepted yet."""
    finished: tuple[TopicPartition, ...] = ()
    """Reached their target, and would be moved back."""

    def __bool__(self) -> bool:
        return bool(self.in_progress or self.submissions or self.finished)


def cancel_preview(
    operator: OperatorPort, wanted: Cancellation, *, is_whole: bool
) -> CancelPreview:
    """
    Find what a cancellation would call off.

    Args:
        operator: Where to look.
        wanted: The cancellation.
        is_whole: Whether all of it is of interest, or only whether there is anything.

    Raises:
        PlanInvalidError: a request is named that nothing is known of.

    """
    submitted = {
        s.name: s.request
        for s in operator.read_submissions(operator.submission_names()).values()
        if s is not None
    }
    kept = operator.request_ids()
    in_progress = dict.fromkeys(_in_progress(operator, wanted, is_whole=is_whole))
    in_progress |= dict.fromkeys(_planned(operator, wanted))
    in_progress |= dict.fromkeys(_begun_by_others(operator, wanted, in_progress))
    unknown = sorted(wanted.requests - set(kept) - set(submitted.values()))
    if unknown and not in_progress:
        raise InvalidInputError(
            f"nothing is known of request {', '.join(unknown)}; see `reassigner list`"
        )
    finished: list[TopicPartition] = []
    if wanted.scope is CancelScope.ALL and (is_whole or not in_progress):
        for request in _undone_whole(wanted, kept):
            finished += _finished(operator, wanted, request)
    return CancelPreview(
        tuple(in_progress),
        tuple(n for n, r in submitted.items() if wanted.is_everything or r in wanted.requests),
        tuple(dict.fromkeys(finished)),
    )


def _in_progress(
    operator: OperatorPort, wanted: Cancellation, *, is_whole: bool
) -> Iterator[TopicPartition]:
    """Yield partitions with a record that leads on, not back; where that is enough only one."""
    running = operator.read_cancellation()
    topics = None
    if not wanted.is_everything and not wanted.requests:
        topics = wanted.topics | {p.topic for p in wanted.partitions}
    recorded = operator.reassigned_partitions(topics)
    for start in range(0, len(recorded), LOOKED_AT):
        specs = operator.read_specs(recorded[start : start + LOOKED_AT])
        for partition, spec in specs.items():
            if not isinstance(spec, ReassignmentSpec) or spec.rolls_back:
                continue
            if running is not None and spec.request == running.request:
                # Finished before, and on its way back by the cancellation that runs.
                continue
            if _selects(wanted, spec.request, partition):
                yield partition
                if not is_whole:
                    return


def _planned(operator: OperatorPort, wanted: Cancellation) -> Iterator[TopicPartition]:
    """Yield entries of the queue, and of a plan by the legacy route that nobody accepted yet."""
    queue, plan = operator.read_queue(), operator.read_plan()
    if queue is not None:
        name = queue_request_id(queue.czxid)
        yield from (p for p in queue.entries if _selects(wanted, name, p))
    if plan is not None:
        name = legacy_request_id(plan.czxid)
        chosen = [p for p in plan.entries if _selects(wanted, name, p)]
        recorded = operator.read_specs(chosen)
        yield from (p for p in chosen if recorded[p] is None)


def _begun_by_others(
    operator: OperatorPort, wanted: Cancellation, known: Iterable[TopicPartition]
) -> Iterator[TopicPartition]:
    """Yield what others began through Kafka's API: it is called off only where it is named."""
    named = wanted.topics | {p.topic for p in wanted.partitions}
    reassigning = [
        TopicPartition(topic, number)
        for topic, found in operator.read_topics(named).items()
        if isinstance(found, TopicAssignment)
        for number, assignment in found.partitions.items()
        if assignment.is_reassigning
    ]
    chosen = [p for p in reassigning if _names(wanted, p) and p not in set(known)]
    recorded = operator.read_specs(chosen)
    yield from (p for p in chosen if recorded[p] is None)


def _undone_whole(wanted: Cancellation, kept: Mapping[RequestId, bool]) -> Iterator[RequestId]:
    """Yield the requests whose finished part is undone as well."""
    for request, has_ended in kept.items():
        if wanted.requests:
            is_meant = request in wanted.requests
        else:
            is_own = not request.startswith("cancel-")
            is_meant = is_own and not (wanted.is_everything and has_ended)
        if is_meant:
            yield request


def _finished(
    operator: OperatorPort, wanted: Cancellation, request: RequestId
) -> Iterator[TopicPartition]:
    """Yield what a request finished and what stands there still."""
    history = operator.read_history([request]).get(request)
    otherwise = {e.partition for e in history.endings} if history is not None else set()
    is_narrow = bool(wanted.topics or wanted.partitions)
    accepted = {
        e.partition: e
        for e in operator.read_accepted(request)
        if e.partition not in otherwise and not (is_narrow and not _names(wanted, e.partition))
    }
    topics = operator.read_topics(p.topic for p in accepted)
    recorded = operator.read_specs(accepted)
    for partition, entry in accepted.items():
        topic = topics.get(partition.topic)
        if recorded[partition] is not None or not isinstance(topic, TopicAssignment):
            continue
        there = topic.partitions.get(partition.partition)
        is_back = entry.original is None or entry.original == entry.target
        if there == PartitionAssignment(entry.target) and not is_back:
            yield partition


def _selects(wanted: Cancellation, request: RequestId, partition: TopicPartition) -> bool:
    return wanted.is_everything or request in wanted.requests or _names(wanted, partition)


def _names(wanted: Cancellation, partition: TopicPartition) -> bool:
    return partition.topic in wanted.topics or partition in wanted.partitions
