"""
The life of ``/admin/cancel_reassignment_in_progress``: selected, reversed, followed to the end.

First everything it selects is reversed, in chunks: what has not begun ends, what has begun gets its
original replicas as target, in the same multi as its legacy entry. Meanwhile nothing new is
accepted, so that later requests are not cancelled with it. Nor is anything older left out: requests
and plans are read after the cancellation and delivered before it (``ports.Store.read``), and each
of them has to be known. The completion of the selection is recorded; then the ordinary steps lead
back, and when the last one ends the znode is deleted. What clients add meanwhile replaces the
selection in the znode (``znodes.cancellations.combine``): it selects what is there by then, also a
newer reassignment of a partition that was selected before.

A cancellation of the request of drains, or of everything, ends the drains before that.

Skipped are partitions without known original replicas, and those that would go offline (KIP-236):
no original replica in the ISR while a new replica lives.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import Enum, auto
from itertools import islice
from typing import Final

from controller.core import core_settings, model
from controller.core.model import Instant, RequestId, Route, TopicPartition
from controller.core.pacing.controls import Drains
from controller.core.pacing.records import DrainsEndedRecord
from controller.core.reassignments import gates, orphans
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Decision, Record
from controller.core.requests import legacy_plan_and_queue, outcomes, records, undo
from controller.core.requests.acceptance import refuse_unreadable
from controller.core.requests.completion import unix_ms
from controller.core.requests.submission_parts import is_skipped
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    CancelScope,
    Submission,
    has_drifted,
    legacy_request_id,
    queue_request_id,
)
from controller.core.view import ClusterView

CHUNK: Final = 2000
"""Partitions reversed in one cycle."""


def is_selected(view: ClusterView, submission: Submission) -> bool:
    """Return whether the cancellation selects a request that was not accepted yet."""
    cancellation = view.requests.cancellation
    if cancellation is None or submission.czxid > cancellation.written:
        return False
    if is_skipped(view, submission):
        return False
    return cancellation.is_everything or submission.request in cancellation.requests


def follow_cancellation(view: ClusterView, now: Instant) -> Decision:
    """Return what a cancellation wants next."""
    cancellation = view.requests.cancellation
    if (
        cancellation is None
        or view.requests.cancellation_stale
        or not view.requests_leadership.history_read
    ):
        return Decision()
    request = cancellation.request
    if cancellation.unreadable is not None:
        ended = records.CancellationEndedRecord(cancellation.version)
        refused = refuse_unreadable(
            ended, request, cancellation.unreadable, cancellation.raw, cancellation.created_ms
        )
        return Decision((refused,))
    if not view.requests.is_chosen(cancellation):
        return _choose(view, cancellation, now)
    # Finished entries are moved back as a request of their own.
    own = view.requests.by_id.get(request)
    if request in view.reassignments.rolling_back or (own is not None and own.open > 0):
        return Decision()
    return Decision((_end_cancellation(view, cancellation, now),))


# --- choosing ----------------------------------------------------------------------------------


def _choose(view: ClusterView, cancellation: Cancellation, now: Instant) -> Decision:
    """Reverse the next selected reassignments; with none left, record the complete selection."""
    if selects_drains(cancellation, view.pacing_process.controls.drains):
        # First, or they would repeat what is reversed.
        return Decision(tuple(end_drains(view)))
    changes: list[Change] = []
    is_complete, request = True, cancellation.request
    for partition, reassignment in view.reassignments.by_partition.items():
        if len(changes) >= CHUNK:
            return Decision(tuple(changes))
        if not _selects(view, cancellation, partition, reassignment):
            continue
        reversed_ = reverse(view, request, partition, reassignment)
        if isinstance(reversed_, str):
            reversed_ = _skip(view, cancellation, partition, reversed_)
        if isinstance(reversed_, Change):
            changes.append(reversed_)
        elif reversed_ is NotReversed.NOT_YET:
            is_complete = False
    changes += _remove_from_queue(view, cancellation)
    is_unaccepted = any(is_selected(view, s) for s in view.requests_session.submissions.values())
    if is_unaccepted or not _is_all_known(view):
        is_complete = False
    undone, effects, is_read = undo.undo_finished(view, cancellation, CHUNK, now)
    changes += undone
    if changes or effects or not (is_complete and is_read):
        return Decision(tuple(changes), effects)
    wish = undo.options_of(view, cancellation)
    part = outcomes.Part(
        str(cancellation.version),
        0,
        cancellation.created_ms,
        wish,
        cancels=_cancelled_entries(view, request),
        undoes=undo.undone_entries(view, cancellation),
    )
    return Decision((Change((records.PartRecord(cancellation.request, part),)),))


def _cancelled_entries(view: ClusterView, name: RequestId) -> dict[RequestId, int]:
    """Count the entries of each request that a cancellation ended, or leads back."""
    ended = (e for request in view.requests.by_id.values() for e in request.endings.values())
    found = Counter(e.request for e in ended if e.by == name)
    specs = (running.spec for running in view.reassignments.by_partition.values())
    found.update(s.request for s in specs if s.cancelled_by == name != s.request)
    return dict(found)


def _is_all_known(view: ClusterView) -> bool:
    """Return whether everything that may be selected was read, accepted or adopted."""
    if view.requests_session.unread:
        return False
    if view.requests.queue is not None and view.requests.queue.stale:
        return False
    if view.tenure.held is not None and view.reassignments_tenure.may_have_foreign:
        return False
    legacy = view.requests.legacy
    return legacy is None or (not legacy.stale and legacy_plan_and_queue.is_judged(view))


def selects_drains(cancellation: Cancellation, drains: Drains) -> bool:
    """Return whether a cancellation ends the drains: one of everything, or of their request."""
    is_older = bool(drains.brokers) and drains.czxid <= cancellation.written
    return is_older and (cancellation.is_everything or drains.request in cancellation.requests)


def end_drains(view: ClusterView) -> list[Change]:
    """Return the end of all drains; nothing while they are read again."""
    drains = view.pacing_process.controls.drains
    if not drains.brokers or view.pacing_session.drains_stale:
        return []
    return [Change((DrainsEndedRecord(drains.version),))]


def needs_the_role(view: ClusterView) -> bool:
    """Return whether a cancellation may affect anything; else it needs no role."""
    cancellation = view.requests.cancellation
    if cancellation is None or cancellation.unreadable is not None:
        return False
    requests = view.requests
    if view.reassignments.by_partition or requests.legacy is not None or requests.queue is not None:
        return True
    if cancellation.scope is CancelScope.ALL or view.requests_session.submissions_listed:
        return True
    return any(a.is_reassigning and cancellation.names(p) for p, a in view.topics.assignments())


def _selects(
    view: ClusterView,
    cancellation: Cancellation,
    partition: TopicPartition,
    reassignment: Reassignment,
) -> bool:
    spec = reassignment.spec
    if spec.cancelled_by is not None or spec.request == cancellation.request:
        return False
    named = cancellation.names(partition)
    if spec.route is Route.LEGACY and spec.request > legacy_request_id(cancellation.written):
        return False
    if spec.route is Route.FOREIGN:
        # A foreign reassignment is not in "everything", only where it is named or adopted.
        is_adopted = view.options.foreign_moves is core_settings.ForeignMoves.ADOPT
        return named or (cancellation.is_everything and is_adopted)
    return cancellation.is_everything or named or spec.request in cancellation.requests


class NotReversed(Enum):
    """The reason for which a selected reassignment is not reversed in this cycle."""

    NEEDLESS = auto()
    """It is skipped and was before, is refused, or its partition does not exist any more."""
    NOT_YET = auto()
    """It cannot be judged before a read."""


def reverse(  # noqa: C901, PLR0911 - one return per case
    view: ClusterView,
    by: RequestId,
    partition: TopicPartition,
    reassignment: Reassignment,
) -> Change | NotReversed | str:
    """Reverse one reassignment, or return why there is no change: a text if it cannot be."""
    legacy = view.requests.legacy
    if gates.is_deleted(view, partition):
        return NotReversed.NEEDLESS
    if legacy is not None and legacy.stale:
        # Its entry is written with it, which would be rejected until the znode is read again.
        return NotReversed.NOT_YET
    assignment = view.topics.assignment(partition)
    if assignment is None:
        return NotReversed.NOT_YET
    spec = reassignment.spec
    if has_drifted(spec, assignment):
        # It is refused instead: the original replicas would undo what another client did.
        return NotReversed.NEEDLESS
    if spec.original is None:
        return "its former replicas are unknown"
    if is_unbegun(reassignment, assignment):
        return end_unbegun(view, by, partition, reassignment)
    state = view.leadership.states.get(partition)
    if state is None:
        return NotReversed.NOT_YET
    others = [r for r in assignment.replicas if r not in spec.original]
    if not any(r in state.isr for r in spec.original) and view.live(others, partition):
        return "no original replica is in sync: it would go offline"
    czxid = view.topics.by_name[partition.topic].czxid
    back = replace(spec.rolled_back(spec.original, by), topic_czxid=czxid)
    if spec.route is Route.FOREIGN:
        back = replace(back, route=Route.REQUEST, request=by)
    written: tuple[Record, ...] = (SpecRecord(partition, back),)
    if legacy is not None and partition in legacy.entries:
        # Otherwise a Kafka controller that takes over would start it again.
        written += (records.LegacyEntryRecord(partition, spec.original),)
    return Change(written, partition=partition)


def _skip(
    view: ClusterView, cancellation: Cancellation, partition: TopicPartition, why: str
) -> Change | NotReversed:
    known = view.requests.by_id.get(cancellation.request)
    if known is not None and partition in known.endings:
        return NotReversed.NEEDLESS
    return undo.skip_partition(cancellation, partition, why)


def is_unbegun(reassignment: Reassignment, assignment: model.PartitionAssignment) -> bool:
    """Return whether nothing of a reassignment was carried out, or may still be."""
    has_begun = reassignment.in_flight or reassignment.may_be_made
    has_begun = has_begun or reassignment.may_have_placed(assignment)
    original = reassignment.spec.original
    return not has_begun and assignment == model.PartitionAssignment(original or ())


def end_unbegun(
    view: ClusterView,
    by: RequestId | None,
    partition: TopicPartition,
    reassignment: Reassignment,
    why: str = "",
) -> Change:
    """End a reassignment that has not begun: its partition stays where it is."""
    spec = reassignment.spec
    outcome = model.PartitionOutcome(spec.request, partition, model.OutcomeKind.CANCELLED, why, by)
    written: tuple[Record, ...] = (
        *orphans.left_where_it_stands(view, partition, reassignment),
        SpecEndedRecord(
            partition, spec.version, spec.request, model.OutcomeKind.CANCELLED, stands=True
        ),
        records.PartitionOutcomeRecord(outcome),
    )
    if view.requests.legacy is not None and partition in view.requests.legacy.entries:
        written += (records.LegacyEntryRecord(partition, None),)
    return Change(written, partition=partition)


def _remove_from_queue(view: ClusterView, cancellation: Cancellation) -> list[Change]:
    queue = view.requests.queue
    if queue is None or queue.stale or queue.czxid > cancellation.written:
        return []
    name = queue_request_id(queue.czxid)
    is_whole = cancellation.is_everything or name in cancellation.requests
    changes = []
    for partition, target in islice(queue.entries.items(), CHUNK):
        if is_whole or cancellation.names(partition):
            outcome = model.PartitionOutcome(
                name, partition, model.OutcomeKind.CANCELLED, by=cancellation.request
            )
            written = (
                records.QueueEntryEndedRecord(partition),
                records.PartitionOutcomeRecord(outcome),
                records.AcceptedRecord(name, AcceptedEntry(partition, None, target)),
            )
            changes.append(Change(written, partition=partition))
    return changes


# --- the end -----------------------------------------------------------------------------------


def _end_cancellation(view: ClusterView, cancellation: Cancellation, now: Instant) -> Change:
    """Record the outcome of the cancellation and delete its znode."""
    name = cancellation.request
    fates = Counter(
        ending.fate
        for request in view.requests.by_id.values()
        for ending in request.endings.values()
        if name in {ending.by, ending.request}
    )
    known = view.requests.by_id.get(name)
    undone = 0 if known is None else known.done
    summary = outcomes.Summary(
        request=name,
        kind="cancel",
        total=fates.total() + undone,
        done=undone + fates[model.OutcomeKind.CANCELLED] + fates[model.OutcomeKind.ROLLED_BACK],
        fates=dict(fates),
        reason=cancellation.reason,
        requested_by=cancellation.requested_by,
        submitted_ms=cancellation.created_ms,
        ended_ms=unix_ms(view, now),
    )
    ended = records.CancellationEndedRecord(cancellation.version)
    return Change((ended, records.RequestOutcomeRecord(summary)))
