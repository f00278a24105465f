"""
Fold durable records about requests into the view: their entries, options and outcomes.

The counterpart of ``requests.intake``, which folds in the same data as read from ZooKeeper.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controller.core import wakeups
from controller.core.model import Instant, PartitionOutcome, Refusal, Zxid
from controller.core.requests import outcomes, records
from controller.core.requests.model import Request
from controller.core.view import ClusterView

REQUESTS_KEPT: Final = 200
"""Ended requests whose counts stay in memory; their outcomes are in ZooKeeper."""

RequestRecord = (
    records.RefusalRecord
    | records.PartitionOutcomeRecord
    | records.PartRecord
    | records.AcceptedRecord
    | records.SubmissionReliedRecord
    | records.SubmissionEndedRecord
    | records.CancellationEndedRecord
    | records.QueueEntryEndedRecord
    | records.QueueEndedRecord
    | records.RequestOutcomeRecord
    | records.RequestOutcomeForgottenRecord
    | records.JudgedRecord
    | records.AtomicCheckedRecord
)


def fold_request_record(view: ClusterView, record: RequestRecord, now: Instant) -> None:  # noqa: C901, PLR0912 - one arm per record
    """Fold one record about requests into the view."""
    session, work, intake = view.session, view.work, view.intake
    wakeups.submissions_concerned(view)
    match record:
        case records.RefusalRecord(refusals=refusals):
            for refusal in refusals:
                refused(view, refusal, now)
        case records.PartitionOutcomeRecord(ending=ending):
            ended(view, ending, now)
        case records.PartRecord(request=name, part=part):
            request = view.work.request_of(name, now)
            add_part(request, part)
        case records.AcceptedRecord(request=name, entry=entry):
            request = view.work.request_of(name, now)
            request.settled.add(entry.partition)
            request.accepted += 1
            if request.kind != "request":
                request.total += 1
        case records.SubmissionEndedRecord(name=name):
            forget_submission(view, name)
            if session.submissions_listed is not None:
                session.submissions_listed -= {name}
        case records.CancellationEndedRecord():
            if intake.cancellation is not None:
                intake.cancellation_ended = intake.cancellation.czxid
            intake.cancellation = None
            for request in work.requests.values():
                _forget_endings(view, request)
            intake.accepted.clear()
            session.asked_accepted.clear()
        case records.QueueEntryEndedRecord(partition=partition):
            if intake.queue is not None:
                intake.queue.entries.pop(partition, None)
                intake.queue.log_dirs.pop(partition, None)
        case records.QueueEndedRecord():
            if intake.queue is not None:
                intake.queue_ended = intake.queue.czxid
            intake.queue = None
        case records.RequestOutcomeRecord(summary=summary):
            _concluded(view, summary, now)
        case records.RequestOutcomeForgottenRecord(request=name, is_last=False):
            known, gone = work.ended[name], len(record.children)
            work.ended[name] = replace(known, children=known.children[gone:])
            wakeups.wake(view.due, wakeups.Finding.OUTCOME_LEFT)
        case records.RequestOutcomeForgottenRecord(request=name):
            work.ended.pop(name, None)
            if name in work.requests and work.requests[name].has_ended:
                del work.requests[name]
        case records.JudgedRecord(name=name, count=count):
            session.judged[name] = count
        case records.AtomicCheckedRecord(request=name, grounds=grounds):
            session.atomic_checks[name] = grounds


def forget_submission(view: ClusterView, name: str) -> None:
    """Forget what was read of a submitted znode: it was deleted or changed."""
    view.session.submissions.pop(name, None)
    view.session.judged.pop(name, None)
    view.session.asked_submissions.discard(name)


def add_part(request: Request, part: outcomes.Part) -> None:
    """
    Note a part and count its entries, once.

    The last part by number defines the request's options, in whatever order parts are read: of a
    cancellation it defines how finished partitions are moved back.
    """
    if part.name not in request.parts and request.kind == "request":
        request.total += part.total
    request.parts[part.name] = part
    last = max(request.parts, key=lambda name: (len(name), name))
    request.options = request.parts[last].options


def refused(view: ClusterView, refusal: Refusal, now: Instant) -> None:
    """Note a refused entry."""
    request = view.work.request_of(refusal.request, now)
    request.refused.append(refusal)
    if request.kind != "request" and not refusal.was_accepted:
        request.total += refusal.entries
    if refusal.partition is not None:
        request.settled.add(refusal.partition)
    wakeups.wake(view.due, wakeups.Finding.ENTRY_REFUSED)


def ended(view: ClusterView, ending: PartitionOutcome, now: Instant) -> None:
    """Note the outcome of a partition that did not reach its target."""
    request = view.work.request_of(ending.request, now)
    if request.kind == "cancel" and ending.partition not in request.endings:
        request.total += 1
    request.ended(ending)
    request.settled.add(ending.partition)


def _concluded(view: ClusterView, summary: outcomes.Summary, now: Instant) -> None:
    request = view.work.request_of(summary.request, now)
    request.has_ended = True
    if not view.tenure.client_asks:  # else one of them may still be answered by it
        request.settled.clear()
    view.session.atomic_checks.pop(summary.request, None)
    _forget_endings(view, request)
    # Its content is read from ZooKeeper when it is forgotten.
    view.work.ended[summary.request] = outcomes.EndedHistory((), Zxid(0))
    _forget_old_requests(view)


def _forget_endings(view: ClusterView, request: Request) -> None:
    """Keep only counts by kind of outcome; a cancellation needs the single outcomes."""
    if request.has_ended and view.intake.cancellation is None:
        request.endings.clear()


def _forget_old_requests(view: ClusterView) -> None:
    """Keep the counts of the newest ended requests only."""
    work = view.work
    if len(work.requests) <= REQUESTS_KEPT:
        return
    over = [name for name, request in work.requests.items() if request.has_ended]
    for name in over[: len(work.requests) - REQUESTS_KEPT]:
        del work.requests[name]
