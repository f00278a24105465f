"""
The life of ``/admin/reassignment_requests/request_*``: judged, entry by entry durable, deleted.

A request is accepted in chunks, each of which may be repeated: an entry that has a goal of this
request, or was refused, is passed over. So a huge request does not hold up a small one, and a
daemon that dies in between is followed by one that goes on. The znode goes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from controller.core.acceptance import (
    accepted,
    disabled,
    entry_text,
    found_done,
    goal_of,
    is_there,
    is_unread,
    refusal_of,
    summary_of_unreadable,
)
from controller.core.cancelling import is_choosing, is_selected
from controller.core.effects import Effect, ReadSubmissions
from controller.core.foreign import others_have_it, waits_for_others
from controller.core.histories import Part
from controller.core.model import (
    Ending,
    Fate,
    Instant,
    PartitionAssignment,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
)
from controller.core.records import (
    Change,
    Decision,
    EndingRecord,
    GoalEndedRecord,
    GoalRecord,
    JudgedRecord,
    OutcomeRecord,
    PartRecord,
    Record,
    RefusalRecord,
    SubmissionEndedRecord,
)
from controller.core.submissions import Submission
from controller.core.topic_configs import ask
from controller.core.view import ClusterView

REQUEST_CONFIG_TIMER = "request_topic_configs"
CHUNK_MIN = 50
"""Entries of each request that are looked at in a turn, however many requests there are."""


@dataclass(slots=True)
class _Judgement:
    """What a turn decides about one submission."""

    changes: list[Change] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    unknown_topics: set[str] = field(default_factory=set)
    waits: bool = False
    """Whether an entry cannot be judged before something is read."""


def learn_submissions(view: ClusterView) -> Decision:
    """Read the requests that are listed and not known yet."""
    listed = view.submissions_listed or frozenset()
    wanted = listed - view.submissions.keys() - view.asked_submissions
    return Decision(effects=(ReadSubmissions(tuple(sorted(wanted))),) if wanted else ())


def refuse_disabled(view: ClusterView) -> Decision:
    """Refuse every request while reassignments are disabled: that needs no controller's role."""
    if not view.kill_switch or is_choosing(view):
        return Decision()
    return Decision(tuple(_whole_refused(view, s) for s in view.submissions.values()))


def _whole_refused(view: ClusterView, submission: Submission) -> Change:
    if submission.unreadable is not None:
        return _unreadable(submission, submission.unreadable)
    left = max(len(submission.entries) - _settled_count(view, submission), 0)
    refusal = disabled(submission.request, f"all {left} entries", None)
    records: tuple[Record, ...] = (*_part(view, submission),)
    if left:
        records += (RefusalRecord((_of(refusal, left),)),)
    return Change((*records, SubmissionEndedRecord(submission.name, submission.version)))


def _of(refusal: Refusal, entries: int) -> Refusal:
    return Refusal(refusal.request, refusal.entry, refusal.reason, refusal.detail, None, entries)


def accept_submissions(view: ClusterView, now: Instant) -> Decision:
    """Judge the next entries of every request, the most urgent requests first."""
    waiting = [s for s in view.submissions.values() if is_due(view, s)]
    if not waiting or not view.history_read:
        return Decision()
    if view.kill_switch:
        return refuse_disabled(view)
    chunk = max(view.options.acceptance_chunk // len(waiting), CHUNK_MIN)
    changes: list[Change] = []
    unknown: set[str] = set()
    taken: set[TopicPartition] = set()
    for submission in sorted(waiting, key=lambda s: -s.options.priority):
        judged = _accept(view, submission, chunk)
        changes += _one_each(judged.changes, taken)
        unknown |= judged.unknown_topics
    effects: list[Effect] = ask(view, unknown, now, REQUEST_CONFIG_TIMER) if unknown else []
    return Decision(tuple(changes), tuple(effects))


def _one_each(changes: list[Change], taken: set[TopicPartition]) -> Iterator[Change]:
    """
    Yield the changes but for partitions that another request takes in this turn.

    They are judged by what is before the turn: the second one has to see what the first one wants,
    or a later request for where the partition is now would be done, and an earlier one move it.
    """
    for change in changes:
        partition = change.partition
        takes = partition is not None and any(
            isinstance(r, GoalRecord | GoalEndedRecord) for r in change.records
        )
        if partition is None or not takes or _is_refusal(change):
            yield change
        elif partition not in taken:
            taken.add(partition)
            yield change


def _is_refusal(change: Change) -> bool:
    return any(isinstance(r, RefusalRecord) for r in change.records)


def is_due(view: ClusterView, submission: Submission) -> bool:
    """Whether a request may be accepted now: a cancellation goes first over what was before it."""
    if not is_choosing(view):
        return submission.unreadable is not None or not _lacks_parts(view, submission)
    return is_selected(view, submission)


def _lacks_parts(view: ClusterView, submission: Submission) -> bool:
    """Whether the other parts of an atomic request are not all there to be judged."""
    options = submission.options
    if not options.atomic:
        return False
    known = view.requests.get(submission.request)
    there = {s.name for s in view.submissions.values() if s.request == submission.request}
    there |= set(known.parts) if known is not None else set()
    return len(there) < options.parts


def _accept(view: ClusterView, submission: Submission, chunk: int) -> _Judgement:
    if submission.unreadable is not None:
        return _Judgement([_unreadable(submission, submission.unreadable)])
    if _is_surplus(view, submission):
        return _Judgement([_surplus(view, submission)])
    judged = _Judgement()
    if submission.options.atomic and not is_choosing(view):
        rejected = _judge_whole(view, submission.request)
        if rejected.waits:
            return rejected
        if rejected.refused:
            judged.changes += _atomic_refused(view, submission, rejected.refused)
            return judged
    part = _part(view, submission)
    if part:
        judged.changes.append(Change(part))
        return judged
    _judge_chunk(view, submission, chunk, judged)
    return judged


def _judge_chunk(view: ClusterView, submission: Submission, chunk: int, judged: _Judgement) -> None:
    """Judge the next entries; with none left the znode goes."""
    first = view.judged.get(submission.name, 0)
    settled = _settled(view, submission.request)
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


def _settled(view: ClusterView, request: RequestId) -> set[TopicPartition]:
    known = view.requests.get(request)
    return set() if known is None else known.settled


def _settled_count(view: ClusterView, submission: Submission) -> int:
    settled = _settled(view, submission.request)
    return sum(p in settled for p in submission.entries)


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
        told = Ending(request, partition, Fate.CANCELLED, "before it was accepted")
        judged.changes.append(Change((EndingRecord(told),), partition=partition))
        return
    if is_unread(view, partition.topic):
        judged.waits = True
        return
    refusal = (
        refusal_of(view, request, partition, target)
        or _other_route(view, request, partition, target)
        or others_have_it(view, request, partition, entry_text(partition, target))
    )
    if refusal is not None:
        judged.refused.append(refusal)
        return
    if waits_for_others(view, partition):
        judged.waits = True
        return
    if partition.topic not in view.configs:
        judged.unknown_topics.add(partition.topic)
        judged.waits = True
        return
    judged.changes.append(take(view, request, partition, target))


def take(
    view: ClusterView, request: RequestId, partition: TopicPartition, target: Replicas
) -> Change:
    """Return the acceptance of an entry of a request or of the queue."""
    assignment = view.topics[partition.topic].partitions[partition.partition]
    goal = goal_of(view, request, partition, target, Route.REQUEST)
    if is_there(view, partition, assignment, target) and partition not in view.reassignments:
        return Change(found_done(partition, goal), partition=partition)
    return Change(accepted(view, partition, goal), partition=partition)


def _other_route(
    view: ClusterView, request: RequestId, partition: TopicPartition, target: Replicas
) -> Refusal | None:
    running = view.reassignments.get(partition)
    if running is None or running.goal.route is not Route.LEGACY:
        return None
    return Refusal(
        request,
        entry_text(partition, target),
        RefusalReason.OTHER_ROUTE,
        f"it is being moved by /admin/reassign_partitions ({running.goal.request})",
        partition,
    )


# --- whole requests ----------------------------------------------------------------------------


def _part(view: ClusterView, submission: Submission) -> tuple[Record, ...]:
    """Return the records that open a part, once: how much it is, and what is malformed in it."""
    known = view.requests.get(submission.request)
    if known is not None and submission.name in known.parts:
        return ()
    total = len(submission.entries) + len(submission.refused)
    part = Part(submission.name, total, submission.created_ms, submission.options)
    refusals = tuple(
        Refusal(submission.request, entry, RefusalReason.MALFORMED, reason)
        for entry, reason in submission.refused
    )
    opened = PartRecord(submission.request, part)
    return (opened, RefusalRecord(refusals)) if refusals else (opened,)


def _unreadable(submission: Submission, why: str) -> Change:
    request = RequestId(submission.name)
    refusal = Refusal(request, "the whole node", RefusalReason.UNREADABLE, why)
    return Change(
        (
            SubmissionEndedRecord(submission.name, submission.version),
            RefusalRecord((refusal,)),
            OutcomeRecord(summary_of_unreadable(refusal, submission.raw)),
        )
    )


def _is_surplus(view: ClusterView, submission: Submission) -> bool:
    """Whether a part comes after all that its request said it has."""
    known = view.requests.get(submission.request)
    if known is None or submission.name in known.parts or not known.parts:
        return False
    return known.has_ended or len(known.parts) >= known.options.parts


def _surplus(view: ClusterView, submission: Submission) -> Change:
    known = view.requests[submission.request]
    entries = len(submission.entries) + len(submission.refused)
    refusal = Refusal(
        RequestId(submission.name),
        f"all {entries} entries",
        RefusalReason.TOO_MANY_PARTS,
        f"{submission.request} has {known.options.parts} parts, this is one more",
        None,
        entries,
    )
    return Change(
        (
            SubmissionEndedRecord(submission.name, submission.version),
            RefusalRecord((refusal,)),
            OutcomeRecord(summary_of_unreadable(refusal, b"")),
        )
    )


# --- all or nothing ----------------------------------------------------------------------------


def _parts_of(view: ClusterView, request: RequestId) -> Iterator[Submission]:
    return (s for s in view.submissions.values() if s.request == request)


def _judge_whole(view: ClusterView, request: RequestId) -> _Judgement:
    """Judge every entry that is not accepted yet, of every part, without accepting any."""
    judged = _Judgement()
    settled = _settled(view, request)
    for part in _parts_of(view, request):
        if part.unreadable is not None:
            judged.refused.append(
                Refusal(request, part.name, RefusalReason.UNREADABLE, part.unreadable)
            )
        judged.refused += [
            Refusal(request, entry, RefusalReason.MALFORMED, reason)
            for entry, reason in part.refused
        ]
        for partition, target in part.entries.items():
            if partition not in settled:
                _judge(view, part, partition, target, judged)
    known = view.requests.get(request)
    if known is not None:
        judged.refused += known.refused
    judged.changes.clear()
    return judged


def _taken_back(
    view: ClusterView, partition: TopicPartition, request: RequestId, because: str
) -> Change | None:
    """
    Take an accepted entry of a refused request back; None where that is under way.

    What another request had begun when this one took it over is led back: a record that ended with
    a step in the topic znode would leave that to nobody.
    """
    goal = view.reassignments[partition].goal
    if goal.rolls_back:
        return None
    original, assignment = goal.original, view.assignment(partition)
    if original and assignment is not None and assignment != PartitionAssignment(original):
        back = replace(
            goal,
            target=original,
            cancelled_by=request,
            abandoned=(goal.abandoned | frozenset(goal.target)) - frozenset(original),
        )
        return Change((GoalRecord(partition, back),), partition=partition)
    entry = entry_text(partition, goal.target)
    refusal = Refusal(request, entry, RefusalReason.ATOMIC, because, partition)
    ended = GoalEndedRecord(partition, goal.version, request, "refused")
    return Change((ended, RefusalRecord((refusal,))), partition=partition)


def _atomic_refused(
    view: ClusterView, submission: Submission, refused: list[Refusal]
) -> list[Change]:
    """
    Refuse a part of an atomic request: its own bad entries, and the others because of them.

    The part goes only when each of its own is durable: a change may be decided anew.
    """
    request, first = submission.request, refused[0]
    own = {r.partition: r for r in refused if r.partition is not None}
    because = f"all or nothing, and {first.entry} was refused: {first.detail}"
    changes = []
    running = {p for p, r in view.reassignments.items() if r.goal.request == request}
    settled = _settled(view, request)
    rest = 0
    for partition in submission.entries:
        if partition in own and partition not in settled:
            changes.append(Change((RefusalRecord((own[partition],)),), partition=partition))
        elif partition in running:
            taken_back = _taken_back(view, partition, request, because)
            if taken_back is not None:
                changes.append(taken_back)
        elif partition not in settled:
            rest += 1
    if changes:
        return changes
    last: tuple[Record, ...] = _part(view, submission)
    if rest:
        others = Refusal(
            request, f"{rest} other entries", RefusalReason.ATOMIC, because, None, rest
        )
        last += (RefusalRecord((others,)),)
    return [Change((*last, SubmissionEndedRecord(submission.name, submission.version)))]
