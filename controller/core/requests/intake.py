"""
Fold requests of operators, and their stored outcomes, into the view.

Submissions, cancellation, queue, kill switch, controls, outcomes: levels like all reads. They are
judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from controller.core.model import Instant, LegacyPlan, RequestId, TopicPartition
from controller.core.requests import fold, outcomes, records
from controller.core.requests.model import PlanNode, Request, kind_of
from controller.core.view import ClusterView

Intake = (
    records.SubmissionsListed
    | records.SubmissionsRead
    | records.CancellationRead
    | records.KillSwitchRead
    | records.QueueRead
    | records.HistoryRead
    | records.AcceptedRead
)


def fold_request_read(view: ClusterView, event: Intake, now: Instant) -> None:  # noqa: C901 - one arm per event
    """Fold one event into the view."""
    session, intake = view.session, view.intake
    match event:
        case records.SubmissionsListed(names=names):
            session.submissions_listed = names
            for name in [n for n in session.submissions if n not in names]:
                del session.submissions[name]
                session.judged.pop(name, None)
            session.requested_submissions &= names
            session.left_submissions &= names
        case records.SubmissionsRead(submissions=read):
            listed = session.submissions_listed or frozenset()
            for name, submission in read.items():
                if submission is not None and name in listed:
                    session.submissions[name] = submission
                    _invalidate_for_missing(view, submission.entries)
                else:
                    session.requested_submissions.discard(name)
            session.submissions = dict(sorted(session.submissions.items()))
        case records.CancellationRead(cancellation=cancellation):
            session.cancellation_read = True
            intake.cancellation_stale = False
            ended_already = (
                cancellation is not None and cancellation.czxid == intake.cancellation_ended
            )
            intake.cancellation = None if ended_already else cancellation
            # It may select entries of theirs that could not be refused.
            session.left_submissions.clear()
        case records.KillSwitchRead(is_on=is_on):
            session.kill_switch = is_on
            session.left_submissions.clear()
        case records.QueueRead(plan=plan):
            _queue(view, plan)
        case records.HistoryRead():
            _history(view, event, now)
        case records.AcceptedRead():
            _accepted(view, event, now)
        case _:
            assert_never(event)


def _invalidate_for_missing(view: ClusterView, partitions: Iterable[TopicPartition]) -> None:
    """
    Have topics read again that lack requested partitions.

    They may have grown before the request was submitted: topics and requests are read concurrently.
    """
    session = view.session
    lacking = {
        p.topic
        for p in partitions
        if p.topic in session.topics and p.partition not in session.topics[p.topic].partitions
    }
    if not lacking:
        return
    view.cluster.read_generation += 1
    for name in lacking:
        session.topics[name].invalidate(view.cluster.read_generation)
    view.due.overtaken_topics |= lacking


def _queue(view: ClusterView, plan: LegacyPlan | None) -> None:
    intake = view.intake
    view.session.queue_read = True
    known = intake.queue
    if plan is None:
        intake.queue = None
        return
    if plan.czxid == intake.queue_ended:
        return
    same = known is not None and plan.czxid == known.czxid
    if known is not None and same and plan.version <= known.version and not known.stale:
        return
    intake.queue = PlanNode.of(plan)


def _history(view: ClusterView, event: records.HistoryRead, now: Instant) -> None:
    view.own_records.history_read = True
    oldest_first = sorted(event.ended.items(), key=lambda item: item[1].czxid)
    view.work.ended = dict(oldest_first)
    for name, history in event.open.items():
        _open_history(view, name, history, now)
    for name in event.ended:
        _ended_elsewhere(view, name)


def _accepted(view: ClusterView, event: records.AcceptedRead, now: Instant) -> None:
    if event.request in view.work.unlearned:
        view.work.unlearned.discard(event.request)
        settled = view.work.request_of(event.request, now).settled
        settled.update(entry.partition for entry in event.entries)
    if event.request in view.session.requested_accepted:
        # Requested again where more of it turns up: another daemon accepted entries meanwhile.
        view.session.requested_accepted.discard(event.request)
        if view.intake.cancellation is not None:
            view.intake.accepted[event.request] = event


def _ended_elsewhere(view: ClusterView, name: RequestId) -> None:
    """Mark a request as ended whose summary was written by another daemon or tenure."""
    request = view.work.requests.get(name)
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
    request = view.work.request_of(name, now)
    if request.has_ended or _is_outdated(request, history):
        return
    request.kind = kind_of(name)
    request.refused.clear()
    request.endings.clear()
    request.fates.clear()
    request.parts.clear()
    if request.kind == "request" and history.accepted > request.accepted:
        view.work.unlearned.add(name)
    request.accepted = history.accepted
    request.total = 0 if request.kind == "request" else history.accepted
    for part in history.parts.values():
        fold.add_part(request, part)
    for refusal in history.refused:
        fold.refused(view, refusal, now)
    for ending in history.endings:
        fold.ended(view, ending, now)
