"""
The life of ``/admin/cancel_reassignment_in_progress``: selected, reversed, followed to the end.

First everything it selects is reversed, in chunks: what has not begun ends, what has begun gets its
original replicas as target, in the same multi as its legacy entry. Meanwhile nothing new is
accepted, so that later requests are not cancelled with it. Nor is anything older left out: requests
and plans are read after the cancellation and delivered before it (``ports.Store.read``), and each
of them has to be known. The completion of the selection is recorded; then the ordinary steps lead
back, and when the last one ends the znode is deleted. What clients add meanwhile replaces the
selection in the znode (``znodes.cancellations.joined``): it selects what is there by then, also a
newer reassignment of a partition that was selected before.

Skipped are partitions without known original replicas, and those that would go offline (KIP-236):
no original replica in the ISR while a new replica lives.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from itertools import islice
from typing import Final

from controller.core import model, options
from controller.core.model import Instant, RequestId, Route, TopicPartition
from controller.core.reassignments import gates, orphans
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Decision, Record
from controller.core.requests import (
    approvals,
    legacy_plan,
    outcomes,
    records,
    submission_parts,
    undo,
)
from controller.core.requests.submissions import (
    AcceptedEntry,
    Cancellation,
    CancelScope,
    Submission,
)
from controller.core.view import ClusterView

CHUNK: Final = 2000
"""Partitions reversed in one cycle."""


def is_choosing(view: ClusterView) -> bool:
    """Return whether a cancellation exists whose selection is not complete."""
    cancellation = view.requests.cancellation
    return cancellation is not None and not _is_chosen(view, cancellation)


def _is_chosen(view: ClusterView, cancellation: Cancellation) -> bool:
    known = view.requests.by_id.get(cancellation.request)
    return known is not None and str(cancellation.version) in known.parts


def is_selected(view: ClusterView, submission: Submission) -> bool:
    """Return whether the cancellation selects a request that was not accepted yet."""
    cancellation = view.requests.cancellation
    if cancellation is None or submission.czxid > cancellation.written:
        return False
    if submission_parts.is_skipped(view, submission):
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
    if cancellation.unreadable is not None:
        return Decision((_unreadable(cancellation, cancellation.unreadable),))
    if not _is_chosen(view, cancellation):
        return _choose(view, cancellation, now)
    if _is_under_way(view, cancellation):
        return Decision()
    return Decision((_end_cancellation(view, cancellation, now),))


def _is_under_way(view: ClusterView, cancellation: Cancellation) -> bool:
    """Return whether any rollback is still in progress."""
    # Finished entries are moved back as a request of their own.
    own = view.requests.by_id.get(cancellation.request)
    return cancellation.request in view.reassignments.rolling_back or (
        own is not None and own.open > 0
    )


# --- choosing ----------------------------------------------------------------------------------


def _choose(view: ClusterView, cancellation: Cancellation, now: Instant) -> Decision:
    """Reverse the next selected reassignments; with none left, record the complete selection."""
    changes: list[Change] = []
    is_complete = True
    is_adopted = view.options.foreign_moves is options.ForeignMoves.ADOPT
    for partition, reassignment in view.reassignments.by_partition.items():
        if len(changes) >= CHUNK:
            return Decision(tuple(changes))
        if not _selects(cancellation, partition, reassignment, is_adopted=is_adopted):
            continue
        reversed_ = _reverse(view, cancellation, partition, reassignment)
        if isinstance(reversed_, Change):
            changes.append(reversed_)
        elif reversed_ is NotReversed.NOT_YET:
            is_complete = False
    changes += _remove_from_queue(view, cancellation)
    if any(
        is_selected(view, s) for s in view.requests_session.submissions.values()
    ) or not _is_all_known(view):
        is_complete = False
    undone, effects = undo.undo_finished(view, cancellation, CHUNK, now)
    changes += undone
    if changes or effects or not is_complete or undo.lacks_accepted(view, cancellation):
        return Decision(tuple(changes), effects)
    wish = undo.options_of(view, cancellation)
    part = outcomes.Part(str(cancellation.version), 0, cancellation.created_ms, wish)
    return Decision((Change((records.PartRecord(cancellation.request, part),)),))


def _is_all_known(view: ClusterView) -> bool:
    """Return whether everything that may be selected was read, accepted or adopted."""
    if (
        view.requests_session.submissions_listed or frozenset()
    ) - view.requests_session.submissions.keys():
        return False
    if view.requests.queue is not None and view.requests.queue.stale:
        return False
    if view.tenure.held is not None and view.reassignments_tenure.may_have_foreign:
        return False
    legacy = view.requests.legacy
    return legacy is None or (not legacy.stale and legacy_plan.is_judged(view))


def needs_the_role(view: ClusterView) -> bool:
    """Return whether a cancellation may affect anything; else it needs no role."""
    cancellation = view.requests.cancellation
    if cancellation is None or cancellation.unreadable is not None:
        return False
    if (
        view.reassignments.by_partition
        or view.requests.legacy is not None
        or view.requests.queue is not None
    ):
        return True
    if cancellation.scope is CancelScope.ALL or view.requests_session.submissions_listed:
        return True
    return any(
        assignment.is_reassigning
        and (name in cancellation.topics or TopicPartition(name, n) in cancellation.partitions)
        for name, topic in view.topics.by_name.items()
        for n, assignment in topic.partitions.items()
    )


def _selects(
    cancellation: Cancellation,
    partition: TopicPartition,
    reassignment: Reassignment,
    *,
    is_adopted: bool,
) -> bool:
    spec = reassignment.spec
    if spec.cancelled_by is not None or spec.request == cancellation.request:
        return False
    named = partition in cancellation.partitions or partition.topic in cancellation.topics
    if spec.route is Route.LEGACY and spec.request > f"legacy-{cancellation.written:016x}":
        return False
    if spec.route is Route.FOREIGN:
        # A foreign reassignment is not in "everything", only where it is named or adopted.
        return named or (cancellation.is_everything and is_adopted)
    return cancellation.is_everything or named or spec.request in cancellation.requests


class NotReversed(Enum):
    """The reason for which a selected reassignment is not reversed in this cycle."""

    NEEDLESS = auto()
    """It is skipped and was before, is refused, or its partition does not exist any more."""
    NOT_YET = auto()
    """It cannot be judged before a read."""


def _reverse(  # noqa: C901, PLR0911 - one return per case
    view: ClusterView,
    cancellation: Cancellation,
    partition: TopicPartition,
    reassignment: Reassignment,
) -> Change | NotReversed:
    """Reverse one reassignment, or return why there is no change."""
    requests = view.requests
    known = view.requests.by_id.get(cancellation.request)
    was_skipped = known is not None and partition in known.endings
    if gates.is_deleted(view, partition):
        return NotReversed.NEEDLESS
    if requests.legacy is not None and requests.legacy.stale:
        # Its entry is written with it, which would be rejected until the znode is read again.
        return NotReversed.NOT_YET
    assignment = view.topics.assignment(partition)
    if assignment is None:
        return NotReversed.NOT_YET
    spec = reassignment.spec
    if approvals.has_drifted(spec, assignment):
        # It is refused instead: the original replicas would undo what another client did.
        return NotReversed.NEEDLESS
    if spec.original is None:
        why = "its former replicas are unknown"
        return (
            NotReversed.NEEDLESS
            if was_skipped
            else undo.skip_partition(cancellation, partition, why)
        )
    has_begun = reassignment.in_flight or reassignment.may_be_made
    has_begun = has_begun or reassignment.may_have_placed(assignment)
    if not has_begun and assignment == model.PartitionAssignment(spec.original):
        return _end_unbegun(view, cancellation, partition, reassignment)
    state = view.leadership.states.get(partition)
    if state is None:
        return NotReversed.NOT_YET
    others = [r for r in assignment.replicas if r not in spec.original]
    if not any(r in state.isr for r in spec.original) and view.live(others, partition):
        why = "no original replica is in sync: it would go offline"
        return (
            NotReversed.NEEDLESS
            if was_skipped
            else undo.skip_partition(cancellation, partition, why)
        )
    czxid = view.topics.by_name[partition.topic].czxid
    back = replace(spec.rolled_back(spec.original, cancellation.request), topic_czxid=czxid)
    if spec.route is Route.FOREIGN:
        back = replace(back, route=Route.REQUEST, request=cancellation.request)
    written: tuple[Record, ...] = (SpecRecord(partition, back),)
    if requests.legacy is not None and partition in requests.legacy.entries:
        # Otherwise a Kafka controller that takes over would start it again.
        written += (records.LegacyEntryRecord(partition, spec.original),)
    return Change(written, partition=partition)


def _end_unbegun(
    view: ClusterView,
    cancellation: Cancellation,
    partition: TopicPartition,
    reassignment: Reassignment,
) -> Change:
    """End a reassignment that has not begun."""
    spec = reassignment.spec
    outcome = model.PartitionOutcome(
        spec.request, partition, model.OutcomeKind.CANCELLED, by=cancellation.request
    )
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
    """Remove selected entries from the queue."""
    queue = view.requests.queue
    if queue is None or queue.stale or queue.czxid > cancellation.written:
        return []
    name = RequestId(f"queue-{queue.czxid:016x}")
    is_whole = cancellation.is_everything or name in cancellation.requests
    return [
        Change(
            (
                records.QueueEntryEndedRecord(partition),
                records.PartitionOutcomeRecord(
                    model.PartitionOutcome(
                        name, partition, model.OutcomeKind.CANCELLED, by=cancellation.request
                    )
                ),
                records.AcceptedRecord(name, AcceptedEntry(partition, None, target)),
            ),
            partition=partition,
        )
        for partition, target in islice(queue.entries.items(), CHUNK)
        if is_whole
        or partition in cancellation.partitions
        or partition.topic in cancellation.topics
    ]


# --- the end -----------------------------------------------------------------------------------


def _unreadable(cancellation: Cancellation, why: str) -> Change:
    refusal = model.Refusal(
        cancellation.request, "the whole node", model.RefusalReason.UNREADABLE, why
    )
    summary = outcomes.Summary(
        request=cancellation.request,
        kind="cancel",
        total=1,
        done=0,
        refused=(refusal,),
        submitted_ms=cancellation.created_ms,
        raw=cancellation.raw,
    )
    return Change(
        (
            records.CancellationEndedRecord(cancellation.version),
            records.RefusalRecord((refusal,)),
            records.RequestOutcomeRecord(summary),
        )
    )


def _end_cancellation(view: ClusterView, cancellation: Cancellation, now: Instant) -> Change:
    """Record the outcome of the cancellation and delete its znode."""
    name = cancellation.request
    fates: dict[model.OutcomeKind, int] = {}
    for request in view.requests.by_id.values():
        for ending in request.endings.values():
            if name in {ending.by, ending.request}:
                fates[ending.fate] = fates.get(ending.fate, 0) + 1
    known = view.requests.by_id.get(name)
    undone = 0 if known is None else known.done
    unix_s = view.pacing_process.unix_s(now)
    summary = outcomes.Summary(
        request=name,
        kind="cancel",
        total=sum(fates.values()) + undone,
        done=undone
        + fates.get(model.OutcomeKind.CANCELLED, 0)
        + fates.get(model.OutcomeKind.ROLLED_BACK, 0),
        fates=fates,
        reason=cancellation.reason,
        requested_by=cancellation.requested_by,
        submitted_ms=cancellation.created_ms,
        ended_ms=0 if unix_s is None else int(unix_s * 1000),
    )
    return Change(
        (
            records.CancellationEndedRecord(cancellation.version),
            records.RequestOutcomeRecord(summary),
        )
    )
