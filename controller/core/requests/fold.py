"""
Fold requests of operators, and their stored outcomes, into the view.

Submissions, plans, cancellation, kill switch, outcomes: levels like all reads. They are judged
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, assert_never

from controller.core import wakeups
from controller.core.model import (
    Instant,
    PartitionOutcome,
    Refusal,
    RequestId,
    TopicPartition,
    Zxid,
)
from controller.core.requests import outcomes, records
from controller.core.requests.model import PlanNode, Request, kind_of
from controller.core.requests.submissions import Cancellation, LegacyPlan, Submission
from controller.core.topics import fold as topic_fold
from controller.core.topics.model import is_no_news
from controller.core.view import ClusterView

REQUESTS_KEPT: Final = 200
"""Ended requests whose counts stay in memory; their outcomes are in ZooKeeper."""

SHORT_CYCLES: Final = 10
"""Cycles within which a new request is read, its settings are asked for, and it is begun."""


def fold_event(view: ClusterView, event: records.RequestEvent, now: Instant) -> None:  # noqa: C901 - one arm per event
    """Fold one event into the view."""
    session, requests = view.requests_session, view.requests
    match event:
        case records.LegacyPlanRead(plan=plan):
            _legacy_plan_read(view, plan, now)
        case records.SubmissionsListed(names=names):
            if names - (session.submissions_listed or frozenset()):
                session.short_cycles = SHORT_CYCLES
            session.submissions_listed = names
            for name in [n for n in session.submissions if n not in names]:
                del session.submissions[name]
                session.judged.pop(name, None)
            session.requested_submissions &= names
            session.left_submissions &= names
        case records.SubmissionsRead(submissions=read):
            _submissions_read(view, read.items())
        case records.CancellationRead(cancellation=cancellation):
            session.cancellation_read = True
            requests.cancellation_stale = False
            has_ended = (
                cancellation is not None and cancellation.czxid == requests.cancellation_ended
            )
            requests.cancellation = None if has_ended else cancellation
            # It may select entries of theirs that could not be refused.
            session.left_submissions.clear()
        case records.KillSwitchRead(is_on=is_on):
            session.kill_switch = is_on
            session.left_submissions.clear()
        case records.QueueRead(plan=plan):
            _queue_read(view, plan)
        case records.HistoryRead():
            _history_read(view, event, now)
        case records.AcceptedRead():
            _accepted_read(view, event, now)
        case _:
            assert_never(event)
    topic_fold.read_requested(view, _requested_topics(event))


def _requested_topics(event: records.RequestEvent) -> set[str]:
    """Return the topics that an operator's request is about, except those of a legacy plan."""
    match event:
        case records.SubmissionsRead(submissions=read):
            return {p.topic for s in read.values() if s is not None for p in s.entries}
        case records.QueueRead(plan=LegacyPlan(entries=entries)):
            return {p.topic for p in entries}
        case records.CancellationRead(cancellation=Cancellation() as named):
            return {*named.topics, *(p.topic for p in named.partitions)}
        case _:
            return set()


def fold_record(view: ClusterView, record: records.RequestRecord, now: Instant) -> None:
    """Fold one record into the view."""
    match record:
        case records.LegacyEntryRecord():
            _legacy_entry(view, record)
        case records.LegacyPlanEndedRecord():
            if view.requests.legacy is not None:
                view.requests.legacy_ended = view.requests.legacy.czxid
            view.requests.legacy = None
        case _:
            wakeups.submissions_concerned(view)
            wakeups.wake_pending_requests(view)
            _fold_request_record(view, record, now)


def _fold_request_record(  # noqa: C901, PLR0912 - one arm per record
    view: ClusterView, record: records.RequestLedgerRecord, now: Instant
) -> None:
    session, requests = view.requests_session, view.requests
    match record:
        case records.RefusalRecord(refusals=refusals):
            for refusal in refusals:
                _record_refusal(view, refusal, now)
        case records.PartitionOutcomeRecord(ending=ending):
            _record_outcome(view, ending, now)
        case records.PartRecord(request=name, part=part):
            requests.request_of(name, now).add_part(part)
            if kind_of(name) == "drain":
                wakeups.wake(view.due, wakeups.Trigger.DRAIN_OPENED)
        case records.AcceptedRecord(request=name, entry=entry):
            request = requests.request_of(name, now)
            request.settled.add(entry.partition)
            request.accepted += 1
            if request.kind != "request":
                request.total += 1
            if name in view.requests_leadership.accepted:
                view.requests_leadership.accepted[name].since.append(entry)
        case records.SubmissionEndedRecord(name=name):
            forget_submission(view, name)
            if session.submissions_listed is not None:
                session.submissions_listed -= {name}
        case records.CancellationEndedRecord():
            _cancellation_ended(view)
        case records.QueueEntryEndedRecord(partition=partition):
            if requests.queue is not None:
                requests.queue.entries.pop(partition, None)
                requests.queue.log_dirs.pop(partition, None)
        case records.QueueEndedRecord():
            if requests.queue is not None:
                requests.queue_ended = requests.queue.czxid
            requests.queue = None
        case records.RequestOutcomeRecord(summary=summary):
            _record_summary(view, summary, now)
        case records.RequestOutcomeForgottenRecord():
            _outcome_forgotten(view, record)
        case records.JudgedRecord(name=name, count=count):
            session.judged[name] = count
        case records.AtomicCheckedRecord(request=name, grounds=grounds):
            session.atomic_checks[name] = grounds


# --- plans ---------------------------------------------------------------------------------------


def _legacy_plan_read(view: ClusterView, plan: LegacyPlan | None, now: Instant) -> None:
    tenure, requests = view.tenure, view.requests
    view.requests_session.legacy_read = True
    last = Zxid(0) if plan is None else plan.czxid
    if last != requests.legacy_last:
        requests.legacy_came = None if requests.legacy_last is None or plan is None else now
        requests.legacy_last = last
    if not view.is_native:
        return
    known = requests.legacy
    if plan is not None and plan.czxid == requests.legacy_ended:
        return
    if (
        plan is not None
        and known is not None
        and plan.czxid == known.czxid
        and is_no_news(plan.version, known.version, stale=known.stale)
    ):
        return
    if known is not None and tenure.held is not None and view.requests_tenure.legacy_confirmed:
        _note_removed_entries(view, known, plan)
    view.requests_tenure.legacy_confirmed = tenure.held is not None
    requests.legacy = None if plan is None else PlanNode.of(plan)
    view.due.add(view.reassignments.legacy_reassignments())
    former = () if known is None else known.entries
    view.due.add(p for p in former if p in view.reassignments.by_partition)
    topic_fold.read_invalid(view, {p.topic for p in plan.entries} if plan is not None else ())
    wakeups.wake(view.due, wakeups.Trigger.PLAN_CHANGED)


def _note_removed_entries(view: ClusterView, known: PlanNode, plan: LegacyPlan | None) -> None:
    """Note removed entries; only operators edit the znode while we are the controller."""
    reassignments = view.reassignments
    if plan is None or plan.czxid != known.czxid:
        again = {} if plan is None else plan.entries
        view.due.dropped.update(
            p
            for p in reassignments.legacy_reassignments()
            if again.get(p) != reassignments.by_partition[p].spec.target
        )
    else:
        view.due.dropped.update(p for p in known.entries if p not in plan.entries)


def _legacy_entry(view: ClusterView, record: records.LegacyEntryRecord) -> None:
    legacy, partition = view.requests.legacy, record.partition
    if legacy is None:
        return
    legacy.log_dirs.pop(partition, None)
    if record.replicas is None:
        legacy.entries.pop(partition, None)
    else:
        legacy.entries[partition] = record.replicas
        if record.log_dirs:
            legacy.log_dirs[partition] = record.log_dirs
    if partition in view.reassignments.by_partition:
        view.due.add((partition,))


def _queue_read(view: ClusterView, plan: LegacyPlan | None) -> None:
    requests = view.requests
    view.requests_session.queue_read = True
    known = requests.queue
    if plan is None:
        requests.queue = None
    elif plan.czxid != requests.queue_ended and (
        known is None or known.stale or plan.czxid != known.czxid or plan.version > known.version
    ):
        requests.queue = PlanNode.of(plan)


# --- submissions ---------------------------------------------------------------------------------


def _submissions_read(view: ClusterView, read: Iterable[tuple[str, Submission | None]]) -> None:
    session = view.requests_session
    for name, submission in read:
        if submission is not None and name in (session.submissions_listed or ()):
            session.submissions[name] = submission
            _invalidate_for_missing(view, submission.entries)
        else:
            session.requested_submissions.discard(name)
    session.submissions = dict(sorted(session.submissions.items()))


def _invalidate_for_missing(view: ClusterView, partitions: Iterable[TopicPartition]) -> None:
    """
    Have topics read again that lack requested partitions.

    They may have grown before the request was submitted: topics and requests are read concurrently.
    """
    topics = view.topics.by_name
    lacking = {
        p.topic
        for p in partitions
        if p.topic in topics and p.partition not in topics[p.topic].partitions
    }
    if not lacking:
        return
    view.role.read_generation += 1
    for name in lacking:
        topics[name].invalidate(view.role.read_generation)
    view.due.overtaken_topics |= lacking


def forget_submission(view: ClusterView, name: str) -> None:
    """Forget what was read of a submitted znode: it was deleted or changed."""
    view.requests_session.submissions.pop(name, None)
    view.requests_session.judged.pop(name, None)
    view.requests_session.requested_submissions.discard(name)


# --- outcomes ------------------------------------------------------------------------------------


def _record_refusal(view: ClusterView, refusal: Refusal, now: Instant) -> None:
    request = view.requests.request_of(refusal.request, now)
    request.refused.append(refusal)
    if request.kind != "request" and not refusal.was_accepted:
        request.total += refusal.entries
    if refusal.partition is not None:
        request.settled.add(refusal.partition)
    wakeups.wake(view.due, wakeups.Trigger.ENTRY_REFUSED)


def _record_outcome(view: ClusterView, ending: PartitionOutcome, now: Instant) -> None:
    """Note the outcome of a partition that did not reach its target."""
    request = view.requests.request_of(ending.request, now)
    if request.kind == "cancel" and ending.partition not in request.endings:
        request.total += 1
    request.count_outcome(ending)
    request.settled.add(ending.partition)


def _record_summary(view: ClusterView, summary: outcomes.Summary, now: Instant) -> None:
    request = view.requests.request_of(summary.request, now)
    request.has_ended = True
    if not view.calls.pending_client_requests:  # else one of them may still be answered by it
        request.settled.clear()
    view.requests_session.atomic_checks.pop(summary.request, None)
    _forget_endings(view, request)
    # Its content is read from ZooKeeper when it is forgotten.
    kept = outcomes.EndedHistory((), Zxid(0), request.undoes)
    view.requests.ended[summary.request] = kept
    # Keep the counts of the newest ended requests only.
    known = view.requests.by_id
    if len(known) > REQUESTS_KEPT:
        over = [name for name, request in known.items() if request.has_ended]
        for name in over[: len(known) - REQUESTS_KEPT]:
            del known[name]


def _outcome_forgotten(view: ClusterView, record: records.RequestOutcomeForgottenRecord) -> None:
    requests, name = view.requests, record.request
    if not record.is_last:
        known, gone = requests.ended[name], len(record.children)
        requests.ended[name] = replace(known, children=known.children[gone:])
        wakeups.wake(view.due, wakeups.Trigger.OUTCOME_LEFT)
        return
    requests.ended.pop(name, None)
    if name in requests.by_id and requests.by_id[name].has_ended:
        del requests.by_id[name]


def _cancellation_ended(view: ClusterView) -> None:
    requests = view.requests
    if requests.cancellation is not None:
        requests.cancellation_ended = requests.cancellation.czxid
    requests.cancellation = None
    for request in requests.by_id.values():
        _forget_endings(view, request)
    kept = view.requests_leadership
    # What was accepted since a read began is kept until its answer.
    kept.accepted = {name: known for name, known in kept.accepted.items() if known.read is None}


def _forget_endings(view: ClusterView, request: Request) -> None:
    """Keep only counts by kind of outcome; a cancellation needs the single outcomes."""
    if request.has_ended and view.requests.cancellation is None:
        request.endings.clear()


def _accepted_read(view: ClusterView, event: records.AcceptedRead, now: Instant) -> None:
    if event.request in view.requests.unlearned:
        view.requests.unlearned.discard(event.request)
        settled = view.requests.request_of(event.request, now).settled
        settled.update(entry.partition for entry in event.entries)
    accepted = view.requests_leadership.accepted
    if event.request in accepted and view.requests.cancellation is not None:
        accepted[event.request].read = event
    else:
        accepted.pop(event.request, None)


def _history_read(view: ClusterView, event: records.HistoryRead, now: Instant) -> None:
    view.requests_leadership.history_read = True
    oldest_first = sorted(event.ended.items(), key=lambda item: item[1].czxid)
    view.requests.ended = dict(oldest_first)
    for name, history in event.open.items():
        _open_history(view, name, history, now)
    for name in event.ended:
        # Another daemon or tenure wrote its summary.
        request = view.requests.by_id.get(name)
        if request is not None and not request.open:
            request.has_ended = True
            request.settled.clear()


def _is_outdated(request: Request, history: outcomes.OpenHistory) -> bool:
    """Return whether a read is from before our last write: rows are never deleted."""
    if history.accepted != request.accepted:
        return history.accepted < request.accepted
    lacks_endings = len(history.endings) < len(request.endings)
    return lacks_endings or len(history.refused) < len(request.refused)


def _open_history(
    view: ClusterView, name: RequestId, history: outcomes.OpenHistory, now: Instant
) -> None:
    """Count what is kept of a request again: it may be known in part."""
    request = view.requests.request_of(name, now, is_inherited=True)
    if request.has_ended or _is_outdated(request, history):
        return
    request.kind = kind_of(name)
    request.refused.clear()
    request.endings.clear()
    request.fates.clear()
    request.parts.clear()
    if request.kind == "request" and history.accepted > request.accepted:
        view.requests.unlearned.add(name)
    request.accepted = history.accepted
    request.total = 0 if request.kind == "request" else history.accepted
    for part in history.parts.values():
        request.add_part(part)
    for refusal in history.refused:
        _record_refusal(view, refusal, now)
    for ending in history.endings:
        _record_outcome(view, ending, now)
