"""Fold events and records of the requests of operators into the view."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controller.core import wakeups
from controller.core.events import Event
from controller.core.model import Instant, LegacyPlan, PartitionOutcome, Refusal, Zxid
from controller.core.requests import outcomes, records
from controller.core.requests.intake import fold_request_read
from controller.core.requests.model import PlanNode, Request
from controller.core.requests.submissions import Cancellation
from controller.core.topics import topic_reads
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


def fold_event(view: ClusterView, event: records.RequestEvent, now: Instant) -> None:
    """Fold one event into the view."""
    match event:
        case records.LegacyPlanRead():
            _legacy_plan(view, event, now)
        case _:
            fold_request_read(view, event, now)
            topic_reads.read_requested(view, _requested_topics(event))


def fold_record(view: ClusterView, record: records.RequestRecord, now: Instant) -> None:
    """Fold one record into the view."""
    intake = view.intake
    match record:
        case records.LegacyEntryRecord():
            _legacy_entry(view, record)
        case records.LegacyPlanEndedRecord():
            if intake.legacy is not None:
                intake.legacy_ended = intake.legacy.czxid
            intake.legacy = None
        case _:
            fold_request_record(view, record, now)
            wakeups.wake_pending_requests(view)


def _requested_topics(event: Event) -> set[str]:
    """Return the topics that an operator's request is about."""
    match event:
        case records.SubmissionsRead(submissions=read):
            return {p.topic for s in read.values() if s is not None for p in s.entries}
        case records.QueueRead(plan=LegacyPlan(entries=entries)):
            return {p.topic for p in entries}
        case records.CancellationRead(cancellation=Cancellation() as named):
            return {*named.topics, *(p.topic for p in named.partitions)}
        case _:
            return set()


def _legacy_plan(view: ClusterView, event: records.LegacyPlanRead, now: Instant) -> None:
    tenure, intake = view.tenure, view.intake
    view.session.legacy_read = True
    last = Zxid(0) if event.plan is None else event.plan.czxid
    if last != intake.legacy_last:
        intake.legacy_came = None if intake.legacy_last is None or event.plan is None else now
        intake.legacy_last = last
    if not view.is_native:
        return
    plan, known = event.plan, intake.legacy
    if plan is not None and plan.czxid == intake.legacy_ended:
        return
    if (
        plan is not None
        and known is not None
        and plan.czxid == known.czxid
        and topic_reads.is_no_news(plan.version, known.version, stale=known.stale)
    ):
        return
    if known is not None and tenure.held is not None and tenure.legacy_confirmed:
        _edited(view, known, plan)
    tenure.legacy_confirmed = tenure.held is not None
    intake.legacy = None if plan is None else PlanNode.of(plan)
    view.due.add(view.work.legacy_reassignments())
    view.due.add(
        p for p in (known.entries if known is not None else ()) if p in view.work.reassignments
    )
    topic_reads.read_invalid(view, {p.topic for p in plan.entries} if plan is not None else ())
    wakeups.wake(view.due, wakeups.Trigger.PLAN_CHANGED)


def _edited(view: ClusterView, known: PlanNode, plan: LegacyPlan | None) -> None:
    """Note removed entries; only operators edit the znode while we are the controller."""
    work = view.work
    if plan is None or plan.czxid != known.czxid:
        again = {} if plan is None else plan.entries
        view.due.dropped.update(
            p
            for p in work.legacy_reassignments()
            if again.get(p) != work.reassignments[p].spec.target
        )
    else:
        view.due.dropped.update(p for p in known.entries if p not in plan.entries)


def _legacy_entry(view: ClusterView, record: records.LegacyEntryRecord) -> None:
    intake = view.intake
    if intake.legacy is None:
        return
    intake.legacy.log_dirs.pop(record.partition, None)
    if record.replicas is None:
        intake.legacy.entries.pop(record.partition, None)
    else:
        intake.legacy.entries[record.partition] = record.replicas
        if record.log_dirs:
            intake.legacy.log_dirs[record.partition] = record.log_dirs
    if record.partition in view.work.reassignments:
        view.due.add((record.partition,))


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
            session.requested_accepted.clear()
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
            wakeups.wake(view.due, wakeups.Trigger.OUTCOME_LEFT)
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
    view.session.requested_submissions.discard(name)


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
    wakeups.wake(view.due, wakeups.Trigger.ENTRY_REFUSED)


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
    if not view.tenure.pending_client_requests:  # else one of them may still be answered by it
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
