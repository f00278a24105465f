"""
Fold requests of operators, and their stored outcomes, into the view.

Submissions, cancellation, queue, kill switch, controls, outcomes: levels like all reads. They are
judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from controller.core.model import Instant, RequestId, TopicPartition
from controller.core.requests import fold, outcomes, records
from controller.core.requests.model import PlanNode, Request, kind_of
from controller.core.requests.submissions import LegacyPlan
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
    requests_session, requests = view.requests_session, view.requests
    match event:
        case records.SubmissionsListed(names=names):
            requests_session.submissions_listed = names
            for name in [n for n in requests_session.submissions if n not in names]:
                del requests_session.submissions[name]
                requests_session.judged.pop(name, None)
            requests_session.requested_submissions &= names
            requests_session.left_submissions &= names
        case records.SubmissionsRead(submissions=read):
            listed = requests_session.submissions_listed or frozenset()
            for name, submission in read.items():
                if submission is not None and name in listed:
                    requests_session.submissions[name] = submission
                    _invalidate_for_missing(view, submission.entries)
                else:
                    requests_session.requested_submissions.discard(name)
            requests_session.submissions = dict(sorted(requests_session.submissions.items()))
        case records.CancellationRead(cancellation=cancellation):
            requests_session.cancellation_read = True
            requests.cancellation_stale = False
            ended_already = (
                cancellation is not None and cancellation.czxid == requests.cancellation_ended
            )
            requests.cancellation = None if ended_already else cancellation
            # It may select entries of theirs that could not be refused.
            requests_session.left_submissions.clear()
        case records.KillSwitchRead(is_on=is_on):
            requests_session.kill_switch = is_on
            requests_session.left_submissions.clear()
        case records.QueueRead(plan=plan):
            _queue(view, plan)
        case records.HistoryRead():
            _history(view, event, now)
        case records.AcceptedRead():
            _take_accepted(view, event, now)
        case _:
            assert_never(event)


def _invalidate_for_missing(view: ClusterView, partitions: Iterable[TopicPartition]) -> None:
    """
    Have topics read again that lack requested partitions.

    They may have grown before the request was submitted: topics and requests are read concurrently.
    """
    topics = view.topics
    lacking = {
        p.topic
        for p in partitions
        if p.topic in topics.by_name and p.partition not in topics.by_name[p.topic].partitions
    }
    if not lacking:
        return
    view.role.read_generation += 1
    for name in lacking:
        topics.by_name[name].invalidate(view.role.read_generation)
    view.due.overtaken_topics |= lacking


def _queue(view: ClusterView, plan: LegacyPlan | None) -> None:
    requests = view.requests
    view.requests_session.queue_read = True
    known = requests.queue
    if plan is None:
        requests.queue = None
        return
    if plan.czxid == requests.queue_ended:
        return
    same = known is not None and plan.czxid == known.czxid
    if known is not None and same and plan.version <= known.version and not known.stale:
        return
    requests.queue = PlanNode.of(plan)


def _history(view: ClusterView, event: records.HistoryRead, now: Instant) -> None:
    view.requests_leadership.history_read = True
    oldest_first = sorted(event.ended.items(), key=lambda item: item[1].czxid)
    view.requests.ended = dict(oldest_first)
    for name, history in event.open.items():
        _open_history(view, name, history, now)
    for name in event.ended:
        _ended_elsewhere(view, name)


def _take_accepted(view: ClusterView, event: records.AcceptedRead, now: Instant) -> None:
    if event.request in view.requests.unlearned:
        view.requests.unlearned.discard(event.request)
        settled = view.requests.request_of(event.request, now).settled
        settled.update(entry.partition for entry in event.entries)
    if event.request in view.requests_session.requested_accepted:
        # Requested again where more of it turns up: another daemon accepted entries meanwhile.
        view.requests_session.requested_accepted.discard(event.request)
        if view.requests.cancellation is not None:
            view.requests.accepted[event.request] = event


def _ended_elsewhere(view: ClusterView, name: RequestId) -> None:
    """Mark a request as ended whose summary was written by another daemon or tenure."""
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
    request = view.requests.request_of(name, now)
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
        fold.add_part(request, part)
    for refusal in history.refused:
        fold.record_refusal(view, refusal, now)
    for ending in history.endings:
        fold.record_outcome(view, ending, now)
