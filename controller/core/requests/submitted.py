"""
The life of ``/admin/reassignment_requests/request_*``: judged, accepted by entry, deleted.

A request is accepted in chunks, each of which may be repeated: an entry that has a spec of this
request, or was refused, is skipped. So a huge request does not delay a small one, and after a crash
the next daemon continues. The znode is deleted last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final

from controller.core.cycle import cycle_share
from controller.core.effects import Effect, ReadAccepted, ReadSubmissions
from controller.core.foreign import refusal_for_foreign, waits_for_foreign
from controller.core.model import (
    AcceptedEntry,
    Instant,
    OutcomeKind,
    PartitionOutcome,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.records import (
    AcceptedRecord,
    AtomicCheckedRecord,
    Change,
    Decision,
    JudgedRecord,
    PartitionOutcomeRecord,
    Record,
    RefusalRecord,
    SpecEndedRecord,
    SpecRecord,
    SubmissionEndedRecord,
    SubmissionReliedRecord,
)
from controller.core.requests.acceptance import (
    accept_entry,
    entry_text,
    is_unread,
    refusal_of,
    refused_as_disabled,
)
from controller.core.requests.atomic import (
    atomic_refused,
    check_of,
    parts_of,
    take_back,
    unjudged_topics,
)
from controller.core.requests.cancellation import is_choosing, is_selected
from controller.core.requests.submission_parts import (
    is_skipped,
    is_surplus,
    malformed_in,
    name_freed,
    opening,
    settled_count,
    settled_of,
    surplus,
    unreadable,
)
from controller.core.submissions import Submission
from controller.core.topic_configs import ask, unknown
from controller.core.view import ClusterView

_SURE: Final = (SubmissionEndedRecord, SubmissionReliedRecord, JudgedRecord, AtomicCheckedRecord)
"""Records that check a znode's version, or need not."""
REQUEST_CONFIG_TIMER = "request_topic_configs"
CHUNK_MIN = 50
"""Entries of each request that are judged in a cycle, however many requests there are."""


@dataclass(slots=True)
class _Judgement:
    """The decisions of a cycle about one submission."""

    changes: list[Change] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    unknown_topics: set[str] = field(default_factory=set)
    waits: bool = False
    """Whether an entry cannot be judged before a read."""


def read_submissions(view: ClusterView) -> Decision:
    """Read the requests that are listed and not known yet, and their accepted entries."""
    session = view.session
    listed = session.submissions_listed or frozenset()
    wanted = listed - session.submissions.keys() - session.asked_submissions
    effects: list[Effect] = [ReadSubmissions(tuple(sorted(wanted)))] if wanted else []
    begun = {s.request for s in session.submissions.values()} & view.work.unlearned
    effects += [ReadAccepted(request) for request in sorted(begun - session.asked_accepted)]
    return Decision(effects=tuple(effects))


def refuse_disabled(view: ClusterView) -> Decision:
    """Refuse every request while reassignments are disabled: that needs no controller role."""
    if not view.session.kill_switch or is_choosing(view):
        return Decision()
    changes = chain.from_iterable(
        _whole_refused(view, s) for s in view.session.submissions.values()
    )
    return Decision(tuple(changes))


def _whole_refused(view: ClusterView, submission: Submission) -> list[Change]:
    if is_skipped(view, submission) or submission.request in view.work.unlearned:
        return []
    freed = name_freed(view, submission)
    if freed is not None:
        return freed
    if submission.unreadable is not None:
        return [unreadable(view, submission, submission.unreadable)]
    opened = opening(view, submission)
    if opened:
        return opened
    if submission.options.atomic:
        taken = take_back(view, submission.request, "all or nothing, and the rest is disabled")
        if taken:
            # That needs the role; without it the rest waits to be judged.
            return taken if view.tenure.held is not None else []
    left = max(len(submission.entries) - settled_count(view, submission), 0)
    refusal = refused_as_disabled(submission.request, f"all {left} entries", None)
    records: tuple[Record, ...] = (RefusalRecord((_of(refusal, left),)),) if left else ()
    return [Change((*records, SubmissionEndedRecord(submission.name, submission.version)))]


def _of(refusal: Refusal, entries: int) -> Refusal:
    return Refusal(refusal.request, refusal.entry, refusal.reason, refusal.detail, None, entries)


def accept_submissions(view: ClusterView, now: Instant) -> Decision:
    """Judge the next entries of every request, by priority."""
    session = view.session
    unread = (session.submissions_listed or frozenset()) - session.submissions.keys()
    first_unread = min(unread, default=None)
    waiting = [
        s
        for s in session.submissions.values()
        # The later of two requests wins; accepted first, it would be replaced by the earlier one.
        if is_due(view, s) and (first_unread is None or s.name < first_unread)
    ]
    if not waiting or not view.own_records.history_read:
        return Decision()
    if session.kill_switch:
        return refuse_disabled(view)
    chunk = max(cycle_share(view, view.options.acceptance_chunk) // len(waiting), CHUNK_MIN)
    changes: list[Change] = []
    asked: set[str] = set()
    taken: set[TopicPartition] = set()
    wholes: dict[RequestId, _Judgement] = {}
    for submission in sorted(waiting, key=lambda s: -s.options.priority):
        judged = _accept(view, submission, chunk, wholes)
        changes += (_relying(c, submission) for c in _one_each(judged.changes, taken))
        asked |= judged.unknown_topics
    effects: list[Effect] = ask(view, asked, now, REQUEST_CONFIG_TIMER) if asked else []
    return Decision(tuple(changes), tuple(effects))


def _one_each(changes: list[Change], taken: set[TopicPartition]) -> Iterator[Change]:
    """
    Yield the changes without partitions that another request accepts in this cycle.

    They are judged by the view before the cycle: the second one has to see the target of the first,
    or a later request for the present replicas would be done, and an earlier one would move them.
    """
    for change in changes:
        partition = change.partition
        takes = partition is not None and any(
            isinstance(r, SpecRecord | SpecEndedRecord) for r in change.records
        )
        if partition is None or not takes or _is_refusal(change):
            yield change
        elif partition not in taken:
            taken.add(partition)
            yield change


def _relying(change: Change, submission: Submission) -> Change:
    """Make a change conditional on the znode that it was decided by."""
    if any(isinstance(r, _SURE) for r in change.records):
        return change
    relied = SubmissionReliedRecord(submission.name, submission.version)
    return replace(change, records=(*change.records, relied))


def _is_refusal(change: Change) -> bool:
    return any(isinstance(r, RefusalRecord) for r in change.records)


def is_due(view: ClusterView, submission: Submission) -> bool:
    """Return whether a request may be accepted now: a cancellation precedes what is older."""
    if is_skipped(view, submission):
        return False
    if not is_choosing(view):
        return submission.unreadable is not None or not _lacks_parts(view, submission)
    return is_selected(view, submission)


def _lacks_parts(view: ClusterView, submission: Submission) -> bool:
    """Return whether parts of an atomic request are missing, so that it cannot be judged."""
    options = submission.options
    if not options.atomic:
        return False
    known = view.work.requests.get(submission.request)
    there = {s.name for s in view.session.submissions.values() if s.request == submission.request}
    there |= set(known.parts) if known is not None and not known.has_ended else set()
    return len(there) < options.parts


def _accept(  # noqa: PLR0911 - one return per stage
    view: ClusterView, submission: Submission, chunk: int, wholes: dict[RequestId, _Judgement]
) -> _Judgement:
    """Judge the next of a part; ``wholes`` keeps what the parts of an atomic request share."""
    if submission.request in view.work.unlearned:
        # Finished entries may have been moved again since: they must not be repeated.
        return _Judgement(waits=True)
    freed = name_freed(view, submission)
    if freed is not None:
        return _Judgement(freed)
    if submission.unreadable is not None:
        return _Judgement([unreadable(view, submission, submission.unreadable)])
    if is_surplus(view, submission):
        return _Judgement([surplus(view, submission)])
    judged = _Judgement()
    if submission.options.atomic and not is_choosing(view):
        whole = wholes.get(submission.request)
        if whole is None:
            whole = wholes[submission.request] = _judge_whole(view, submission.request)
            judged.changes += whole.changes
        if whole.waits:
            return whole
        if whole.refused:
            judged.changes += atomic_refused(view, submission, whole.refused)
            return judged
    opened = opening(view, submission)
    judged.changes += opened
    if opened:
        # They are known when its entries are judged, in a cycle that may follow at once.
        judged.unknown_topics |= unknown(view, islice(submission.entries, chunk))
        return judged
    _judge_chunk(view, submission, chunk, judged)
    return judged


def _judge_chunk(view: ClusterView, submission: Submission, chunk: int, judged: _Judgement) -> None:
    """Judge the next entries; with none left the znode is deleted."""
    first = view.session.judged.get(submission.name, 0)
    settled = settled_of(view, submission.request)
    entries = list(submission.entries.items())
    passed = first
    while passed < len(entries) and entries[passed][0] in settled:
        passed += 1
    for partition, target in islice(entries, passed, passed + chunk):
        if partition in settled:
            continue
        _judge(view, submission, partition, target, judged)
    judged.changes += [
        Change((RefusalRecord((r,)),), partition=r.partition) for r in judged.refused
    ]
    if passed == len(entries):
        judged.changes.append(Change((SubmissionEndedRecord(submission.name, submission.version),)))
    elif passed > first:
        judged.changes.append(Change((JudgedRecord(submission.name, passed),)))


def _judge(
    view: ClusterView,
    submission: Submission,
    partition: TopicPartition,
    target: Replicas,
    judged: _Judgement,
) -> None:
    """Accept or refuse one entry, or note what has to be known first."""
    request = submission.request
    if is_choosing(view) and is_selected(view, submission):
        told = PartitionOutcome(request, partition, OutcomeKind.CANCELLED, "before it was accepted")
        assignment = view.session.known_assignment(partition)
        original = None if assignment is None else assignment.replicas
        counted = AcceptedEntry(partition, original, target)
        records = (PartitionOutcomeRecord(told), AcceptedRecord(request, counted))
        judged.changes.append(Change(records, partition=partition))
    elif _is_good(view, request, partition, target, judged):
        judged.changes.append(accept_entry(view, request, partition, target))


def _is_good(
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    judged: _Judgement,
) -> bool:
    """
    Return whether an entry can be accepted; note its refusal, or what has to be known first.

    Every fact that it is judged by is part of the ``AtomicCheck`` of an atomic request.
    """
    if is_unread(view, partition.topic):
        judged.waits = True
        return False
    refusal = (
        refusal_of(view, request, partition, target)
        or _other_route(view, request, partition, target)
        or refusal_for_foreign(view, request, partition, entry_text(partition, target))
    )
    if refusal is not None:
        judged.refused.append(refusal)
        return False
    if waits_for_foreign(view, partition):
        judged.waits = True
        return False
    if partition.topic not in view.session.configs:
        judged.unknown_topics.add(partition.topic)
        judged.waits = True
        return False
    return True


def _other_route(
    view: ClusterView, request: RequestId, partition: TopicPartition, target: Replicas
) -> Refusal | None:
    running = view.work.reassignments.get(partition)
    if running is None or running.spec.route is not Route.LEGACY:
        return None
    return Refusal(
        request,
        entry_text(partition, target),
        RefusalReason.OTHER_ROUTE,
        f"it is being reassigned by /admin/reassign_partitions ({running.spec.request})",
        partition,
    )


# --- all or nothing ----------------------------------------------------------------------------


def _judge_whole(view: ClusterView, request: RequestId) -> _Judgement:
    """Judge every entry that is not accepted yet, of every part, without accepting any."""
    judged = _Judgement()
    topics = unjudged_topics(view, request)
    if topics is not None and not topics:
        return judged
    settled = settled_of(view, request)
    for part in parts_of(view, request):
        if part.unreadable is not None:
            judged.refused.append(
                Refusal(request, part.name, RefusalReason.UNREADABLE, part.unreadable)
            )
        judged.refused += [
            Refusal(request, entry, RefusalReason.MALFORMED, reason)
            for entry, reason in malformed_in(part)
        ]
        for partition, target in part.entries.items():
            if partition not in settled and (topics is None or partition.topic in topics):
                _is_good(view, request, partition, target, judged)
    known = view.work.requests.get(request)
    if known is not None:
        judged.refused += known.refused
    if not (judged.waits or judged.refused):
        judged.changes.append(Change((AtomicCheckedRecord(request, check_of(view, request)),)))
    return judged
