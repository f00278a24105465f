"""Fold events and records of the requests of operators into the view."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controller.core import wakeups
from controller.core.events import Event
from controller.core.model import Instant, PartitionOutcome, Refusal, Zxid
from controller.core.requests import outcomes, records
from controller.core.requests.intake import fold_request_read
from controller.core.requests.model import PlanNode, Request
from controller.core.requests.submissions import Cancellation, LegacyPlan
from controller.core.topics import fold as topic_fold
from controller.core.topics.model import is_no_news
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
            topic_fold.read_requested(view, _requested_topics(event))


def fold_record(view: ClusterView, record: records.RequestRecord, now: Instant) -> None:
    """Fold one record into the view."""
    requests = view.requests
    match record:
        case records.LegacyEntryRecord():
            _legacy_entry(view, record)
        case records.LegacyPlanEndedRecord():
            if requests.legacy is not None:
                requests.legacy_ended = requests.legacy.czxid
            requests.legacy = None
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
    tenure, requests = view.tenure, view.requests
    view.requests_session.legacy_read = True
    last = Zxid(0) if event.plan is None else event.plan.czxid
    if last != requests.legacy_last:
        requests.legacy_came = None if requests.legacy_last is None or event.plan is None else now
        requests.legacy_last = last
    if not view.is_native:
        return
    plan, known = event.plan, requests.legacy
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
    view.due.add(
        p
        for p in (known.entries if known is not None else ())
        if p in view.reassignments.by_partition
    )
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
    requests = view.requests
    if requests.legacy is None:
        return
    requests.legacy.log_dirs.pop(record.partition, None)
    if record.replicas is None:
        requests.legacy.entries.pop(record.partition, None)
    else:
        requests.legacy.entries[record.partition] = record.replicas
        if record.log_dirs:
            requests.legacy.log_dirs[record.partition] = record.log_dirs
    if record.partition in view.reassignments.by_partition:
        view.due.add((record.partition,))


def fold_request_record(view: ClusterView, record: RequestRecord, now: Instant) -> None:  # noqa: C901, PLR0912 - one arm per record
    """Fold one record about requests into the view."""
    requests_session, requests = view.requests_session, view.requests
    wakeups.submissions_concerned(view)
    match record:
        case records.RefusalRecord(refusals=refusals):
            for refusal in refusals:
                record_refusal(view, refusal, now)
        case records.PartitionOutcomeRecord(ending=ending):
            record_outcome(view, ending, now)
        case records.PartRecord(request=name, part=part):
            request = view.requests.request_of(name, now)
            add_part(request, part)
        case records.AcceptedRecord(request=name, entry=entry):
            request = view.requests.request_of(name, now)
            request.settled.add(entry.partition)
            request.accepted += 1
            if request.kind != "request":
                request.total += 1
        case records.SubmissionEndedRecord(name=name):
            forget_submission(view, name)
            if requests_session.submissions_listed is not None:
                requests_session.submissions_listed -= {name}
        case records.CancellationEndedRecord():
            if requests.cancellation is not None:
                requests.cancellation_ended = requests.cancellation.czxid
            requests.cancellation = None
            for request in requests.by_id.values():
                _forget_endings(view, request)
            requests.accepted.clear()
            requests_session.requested_accepted.clear()
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
        case records.RequestOutcomeForgottenRecord(request=name, is_last=False):
            known, gone = requests.ended[name], len(record.children)
            requests.ended[name] = replace(known, children=known.children[gone:])
            wakeups.wake(view.due, wakeups.Trigger.OUTCOME_LEFT)
        case records.RequestOutcomeForgottenRecord(request=name):
            requests.ended.pop(name, None)
            if name in requests.by_id and requests.by_id[name].has_ended:
                del requests.by_id[name]
        case records.JudgedRecord(name=name, count=count):
            requests_session.judged[name] = count
        case records.AtomicCheckedRecord(request=name, grounds=grounds):
            requests_session.atomic_checks[name] = grounds


def forget_submission(view: ClusterView, name: str) -> None:
    """Forget what was read of a submitted znode: it was deleted or changed."""
    view.requests_session.submissions.pop(name, None)
    view.requests_session.judged.pop(name, None)
    view.requests_session.requested_submissions.discard(name)


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


def record_refusal(view: ClusterView, refusal: Refusal, now: Instant) -> None:
    """Note a refused entry."""
    request = view.requests.request_of(refusal.request, now)
    request.refused.append(refusal)
    if request.kind != "request" and not refusal.was_accepted:
        request.total += refusal.entries
    if refusal.partition is not None:
        request.settled.add(refusal.partition)
    wakeups.wake(view.due, wakeups.Trigger.ENTRY_REFUSED)


def record_outcome(view: ClusterView, ending: PartitionOutcome, now: Instant) -> None:
    """Note the outcome of a partition that did not reach its target."""
    request = view.requests.request_of(ending.request, now)
    if request.kind == "cancel" and ending.partition not in request.endings:
        request.total += 1
    request.ended(ending)
    request.settled.add(ending.partition)


def _record_summary(view: ClusterView, summary: outcomes.Summary, now: Instant) -> None:
    request = view.requests.request_of(summary.request, now)
    request.has_ended = True
    if not view.calls.pending_client_requests:  # else one of them may still be answered by it
        request.settled.clear()
    view.requests_session.atomic_checks.pop(summary.request, None)
    _forget_endings(view, request)
    # Its content is read from ZooKeeper when it is forgotten.
    view.requests.ended[summary.request] = outcomes.EndedHistory((), Zxid(0))
    _forget_old_requests(view)


def _forget_endings(view: ClusterView, request: Request) -> None:
    """Keep only counts by kind of outcome; a cancellation needs the single outcomes."""
    if request.has_ended and view.requests.cancellation is None:
        request.endings.clear()


def _forget_old_requests(view: ClusterView) -> None:
    """Keep the counts of the newest ended requests only."""
    requests = view.requests
    if len(requests.by_id) <= REQUESTS_KEPT:
        return
    over = [name for name, request in requests.by_id.items() if request.has_ended]
    for name in over[: len(requests.by_id) - REQUESTS_KEPT]:
        del requests.by_id[name]
