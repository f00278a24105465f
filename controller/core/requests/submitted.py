"""
The life of ``/admin/reassignment_requests/request_*``: judged, accepted by entry, deleted.

A request is accepted in chunks, each of which may be repeated: an entry that has a spec of this
request, or was refused, is skipped. So a huge request does not delay a small one, and after a crash
the next daemon continues. The znode is deleted last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from controller.core import effects
from controller.core.model import (
    Instant,
    OutcomeKind,
    PartitionOutcome,
    Refusal,
    RefusalReason,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.reassignments.foreign_policy import waits_for_foreign
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Decision, Record
from controller.core.requests import acceptance, cancellation, records, submission_parts
from controller.core.requests.acceptance import Judgement
from controller.core.requests.entry_checks import PlanEntry, is_undecidable, refusal_of
from controller.core.requests.submissions import APPROVAL_REQUIRED, AcceptedEntry, Submission
from controller.core.topics import topic_configs
from controller.core.view import ClusterView

_SURE: Final = (
    records.SubmissionEndedRecord,
    records.SubmissionReliedRecord,
    records.JudgedRecord,
    records.AtomicCheckedRecord,
)
"""Records that check a znode's version, or need not."""
REQUEST_CONFIG_TIMER = "request_topic_configs"
CHUNK_MIN = 50
"""Entries of each request that are judged in a cycle, however many requests there are."""


def read_submissions(view: ClusterView) -> Decision:
    """Read the requests that are listed and not known yet, and their accepted entries."""
    session = view.requests_session
    wanted = session.unread - session.requested_submissions
    following: list[effects.Effect] = (
        [effects.ReadSubmissions(tuple(sorted(wanted)))] if wanted else []
    )
    begun = {s.request for s in session.submissions.values()} & view.requests.unlearned
    accepted = view.requests_leadership.accepted
    under_way = {name for name, known in accepted.items() if known.read is None}
    following += map(effects.ReadAccepted, sorted(begun - under_way))
    return Decision(effects=tuple(following))


def refuse_wholes(view: ClusterView) -> Decision:
    """
    Refuse every request whose entries do not matter: that needs no controller role.

    All while reassignments are disabled or the reassigner is quiesced, and those without an
    approval that has to be there.
    """
    if view.requests.is_choosing:
        return Decision()
    changes = chain.from_iterable(
        _whole_refused(view, s, *why)
        for s in view.requests_session.submissions.values()
        if (why := refused_as_whole(view, s)) is not None
    )
    return Decision(tuple(changes))


def refused_as_whole(view: ClusterView, submission: Submission) -> tuple[RefusalReason, str] | None:
    """Return why a request is refused whatever its entries are; None if they matter."""
    if view.disabled_because is not None:
        return RefusalReason.DISABLED, view.disabled_because
    if view.options.require_approval and not submission.options.approved:
        return RefusalReason.NOT_APPROVED, APPROVAL_REQUIRED
    return None


def _whole_refused(
    view: ClusterView, submission: Submission, reason: RefusalReason, detail: str
) -> list[Change]:
    request = submission.request
    if submission_parts.is_skipped(view, submission) or request in view.requests.unlearned:
        return []
    freed = submission_parts.name_freed(view, submission)
    if freed is not None:
        return freed
    if submission.unreadable is not None:
        return [submission_parts.unreadable(view, submission, submission.unreadable)]
    opened = submission_parts.opening(view, submission)
    if opened:
        return opened
    if submission.options.atomic:
        rest = "is disabled" if reason is RefusalReason.DISABLED else "is not approved"
        taken = submission_parts.take_back(view, request, f"all or nothing, and the rest {rest}")
        if taken:
            # That needs the role; without it the rest waits to be judged.
            return taken if view.tenure.held is not None else []
    settled = submission_parts.settled_of(view, request)
    left = sum(p not in settled for p in submission.entries)
    refusal = Refusal(
        request, "its entry" if left == 1 else f"all {left} entries", reason, detail, None, left
    )
    written: tuple[Record, ...] = (records.RefusalRecord((refusal,)),) if left else ()
    return [Change((*written, submission_parts.part_ended(submission)))]


def accept_submissions(view: ClusterView, now: Instant) -> Decision:
    """Judge the next entries of every request, by priority."""
    session = view.requests_session
    first_unread = min(session.unread, default=None)
    waiting = [
        s
        for s in session.submissions.values()
        # The later of two requests wins; accepted first, it would be replaced by the earlier one.
        if is_due(view, s) and (first_unread is None or s.name < first_unread)
    ]
    if not waiting or not view.requests_leadership.history_read:
        return Decision()
    refused = refuse_wholes(view).changes
    if not view.requests.is_choosing:
        # A cancellation ends what it selects, whatever forbids it.
        waiting = [s for s in waiting if refused_as_whole(view, s) is None]
    if not waiting:
        return Decision(refused)
    share = acceptance.cycle_share(view, view.options.acceptance_chunk)
    chunk = max(share // len(waiting), CHUNK_MIN)
    changes: list[Change] = []
    wanted = Judgement()
    taken: set[TopicPartition] = set()
    wholes: dict[RequestId, Judgement] = {}
    for submission in sorted(waiting, key=lambda s: -s.options.priority):
        judged = _accept(view, submission, chunk, wholes)
        changes += (_relying(c, submission) for c in _one_each(judged.changes, taken))
        wanted.unknown_topics |= judged.unknown_topics
        wanted.unknown_brokers |= judged.unknown_brokers
    following = wanted.reads(view, now, REQUEST_CONFIG_TIMER)
    return Decision((*refused, *changes), tuple(following))


def _one_each(changes: list[Change], taken: set[TopicPartition]) -> Iterator[Change]:
    """
    Yield the changes without partitions that another request accepts in this cycle.

    They are judged by the view before the cycle: the second one has to see the target of the first,
    or a later request for the present replicas would be done, and an earlier one would move them.
    """
    for change in changes:
        partition = change.partition
        takes = any(isinstance(r, SpecRecord | SpecEndedRecord) for r in change.records)
        refuses = any(isinstance(r, records.RefusalRecord) for r in change.records)
        if partition is None or refuses or not takes:
            yield change
        elif partition not in taken:
            taken.add(partition)
            yield change


def _relying(change: Change, submission: Submission) -> Change:
    """Make a change conditional on the znode that it was decided by."""
    if any(isinstance(r, _SURE) for r in change.records):
        return change
    relied = records.SubmissionReliedRecord(submission.name, submission.version)
    return replace(change, records=(*change.records, relied))


def is_due(view: ClusterView, submission: Submission) -> bool:
    """Return whether a request may be accepted now: a cancellation precedes what is older."""
    if submission_parts.is_skipped(view, submission):
        return False
    if not view.requests.is_choosing:
        return submission.unreadable is not None or not _lacks_parts(view, submission)
    return cancellation.is_selected(view, submission)


def _lacks_parts(view: ClusterView, submission: Submission) -> bool:
    """Return whether parts are missing of a request that is judged as a whole."""
    options = submission.options
    if not (options.atomic or options.approved):
        return False
    known = view.requests.by_id.get(submission.request)
    there = {s.name for s in view.requests_session.parts_of(submission.request)}
    there |= set(known.parts) if known is not None and not known.has_ended else set()
    return len(there) < options.parts


def _accept(  # noqa: C901, PLR0911 - one return per stage
    view: ClusterView, submission: Submission, chunk: int, wholes: dict[RequestId, Judgement]
) -> Judgement:
    """Judge the next of a part; ``wholes`` keeps what the parts of an atomic request share."""
    if submission.request in view.requests.unlearned:
        # Finished entries may have been moved again since: they must not be repeated.
        return Judgement(waits=True)
    freed = submission_parts.name_freed(view, submission)
    if freed is not None:
        return Judgement(freed)
    if submission.unreadable is not None:
        return Judgement([submission_parts.unreadable(view, submission, submission.unreadable)])
    surplus = submission_parts.surplus(view, submission)
    if surplus is not None:
        return Judgement([surplus])
    unverified = _verify(view, submission)
    if unverified is not None:
        return Judgement(unverified)
    judged = Judgement()
    if submission.options.atomic and not view.requests.is_choosing:
        whole = wholes.get(submission.request)
        if whole is None:
            whole = wholes[submission.request] = _judge_whole(view, submission.request)
            judged.changes += whole.changes
        if whole.waits:
            return whole
        if whole.refused:
            judged.changes += submission_parts.atomic_refused(view, submission, whole.refused)
            return judged
    opened = submission_parts.opening(view, submission)
    judged.changes += opened
    if opened:
        # They are known when its entries are judged, in a cycle that may follow at once.
        judged.unknown_topics |= topic_configs.unknown(view, islice(submission.entries, chunk))
        return judged
    _judge_chunk(view, submission, chunk, judged)
    return judged


def _verify(view: ClusterView, submission: Submission) -> list[Change] | None:
    """Return the verification of an approved request, or its refusal; None if it is verified."""
    if not submission.options.approved or view.requests.is_choosing:
        return None
    verified = submission_parts.verify(view, submission)
    if not isinstance(verified, str):
        return verified
    return _whole_refused(view, submission, RefusalReason.NOT_APPROVED, verified)


def _judge_chunk(view: ClusterView, submission: Submission, chunk: int, judged: Judgement) -> None:
    """Judge the next entries; with none left the znode is deleted."""
    first = view.requests_session.judged.get(submission.name, 0)
    settled = submission_parts.settled_of(view, submission.request)
    partitions = list(submission.entries)
    passed = first
    while passed < len(partitions) and partitions[passed] in settled:
        passed += 1
    for partition in partitions[passed : passed + chunk]:
        if partition not in settled:
            _judge(view, submission, partition, judged)
    judged.changes += [
        Change((records.RefusalRecord((r,)),), partition=r.partition) for r in judged.refused
    ]
    if passed == len(partitions):
        judged.changes.append(Change((submission_parts.part_ended(submission),)))
    elif passed > first:
        judged.changes.append(Change((records.JudgedRecord(submission.name, passed),)))


def _judge(
    view: ClusterView, submission: Submission, partition: TopicPartition, judged: Judgement
) -> None:
    """Accept or refuse one entry, or note the facts that are missing."""
    if view.requests.is_choosing and cancellation.is_selected(view, submission):
        request, target = submission.request, submission.entries[partition]
        cancelled = PartitionOutcome(
            request, partition, OutcomeKind.CANCELLED, "before it was accepted"
        )
        assignment = view.topics.known_assignment(partition)
        original = None if assignment is None else assignment.replicas
        counted = AcceptedEntry(partition, original, target)
        written = (
            records.PartitionOutcomeRecord(cancelled),
            records.AcceptedRecord(request, counted),
        )
        judged.changes.append(Change(written, partition=partition))
        return
    entry = _entry_of(submission, partition)
    if _is_good(view, entry, judged):
        judged.changes.append(acceptance.accept_entry(view, entry))


def _entry_of(submission: Submission, partition: TopicPartition) -> PlanEntry:
    return PlanEntry(
        submission.request,
        partition,
        submission.entries[partition],
        submission.log_dirs.get(partition, ()),
        submission.expected.get(partition),
    )


def _is_good(view: ClusterView, entry: PlanEntry, judged: Judgement) -> bool:
    """
    Return whether an entry can be accepted; note its refusal, or what has to be known first.

    Every fact that it is judged by is part of the ``AtomicCheck`` of an atomic request.
    """
    if is_undecidable(view, entry.partition):
        judged.waits = True
        return False
    refusal = (
        refusal_of(view, entry)
        or _other_route(view, entry)
        or acceptance.refused_for_foreign(view, entry)
    )
    if refusal is not None:
        judged.refused.append(refusal)
        return False
    if waits_for_foreign(view, entry.partition):
        judged.waits = True
        return False
    return judged.is_decidable(view, entry)


def _other_route(view: ClusterView, entry: PlanEntry) -> Refusal | None:
    running = view.reassignments.by_partition.get(entry.partition)
    if running is None or running.spec.route is not Route.LEGACY:
        return None
    why = f"it is being reassigned by /admin/reassign_partitions ({running.spec.request})"
    return entry.refusal(RefusalReason.OTHER_ROUTE, why)


# --- all or nothing ----------------------------------------------------------------------------


def _judge_whole(view: ClusterView, request: RequestId) -> Judgement:
    """Judge every entry that is not accepted yet, of every part, without accepting any."""
    judged = Judgement()
    topics = submission_parts.unjudged_topics(view, request)
    if topics is not None and not topics:
        return judged
    settled = submission_parts.settled_of(view, request)
    for part in view.requests_session.parts_of(request):
        if part.unreadable is not None:
            judged.refused.append(
                Refusal(request, part.name, RefusalReason.UNREADABLE, part.unreadable)
            )
        judged.refused += [
            Refusal(request, entry, RefusalReason.MALFORMED, reason)
            for entry, reason in submission_parts.malformed_in(part)
        ]
        for partition in part.entries:
            if partition not in settled and (topics is None or partition.topic in topics):
                _is_good(view, _entry_of(part, partition), judged)
    known = view.requests.by_id.get(request)
    if known is not None:
        judged.refused += known.refused
    if not (judged.waits or judged.refused):
        checked = records.AtomicCheckedRecord(request, submission_parts.check_of(view, request))
        judged.changes.append(Change((checked,)))
    return judged
