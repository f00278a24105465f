"""
What a submitted znode is to its request: opened once, ended when each of its entries is durable.

A request is one znode, or several that name it (``part_of``). Entries are judged in ``requests``.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.model import Refusal, RefusalReason, RequestId, TopicPartition
from controller.core.outcomes import UNKNOWN_MS, Part
from controller.core.records import (
    Change,
    PartRecord,
    RefusalRecord,
    RequestOutcomeForgottenRecord,
    RequestOutcomeRecord,
    SubmissionEndedRecord,
    SubmissionReliedRecord,
)
from controller.core.requests.acceptance import malformed, summary_of_unreadable
from controller.core.submissions import Submission
from controller.core.view import ClusterView


def settled_of(view: ClusterView, request: RequestId) -> set[TopicPartition]:
    """Return the partitions of a request that were accepted, refused or ended."""
    known = view.requests.get(request)
    return set() if known is None else known.settled


def settled_count(view: ClusterView, submission: Submission) -> int:
    """Return how many entries of a part are settled."""
    settled = settled_of(view, submission.request)
    return sum(p in settled for p in submission.entries)


def opening(view: ClusterView, submission: Submission) -> list[Change]:
    """Return what opens a part, once: how much it is, and then what is malformed in it."""
    known = view.requests.get(submission.request)
    if known is not None and submission.name in known.parts:
        return malformed(view, submission.request, malformed_in(submission))
    total = len(submission.entries) + len(submission.refused)
    part = Part(submission.name, total, submission.created_ms, submission.options)
    return [Change((PartRecord(submission.request, part),))]


def malformed_in(submission: Submission) -> Iterator[tuple[str, str]]:
    """Yield what is malformed in a part, and why; of several parts, in which one it is."""
    where = "" if submission.request == submission.name else f" (in {submission.name})"
    return ((entry, f"{reason}{where}") for entry, reason in submission.refused)


def is_left_alone(view: ClusterView, submission: Submission) -> bool:
    """Whether nothing is decided of a submitted znode for now: it is another's, or cannot go."""
    return submission.name in view.left_submissions or is_another(view, submission)


def is_another(view: ClusterView, submission: Submission) -> bool:
    """
    Whether it only has the name of a request that is still open: it waits until that has ended.

    Names come again where somebody made their directory anew.
    """
    known = view.requests.get(submission.request)
    if known is None or known.has_ended:
        return False
    first = view.submissions.get(submission.request, submission)
    return any(
        s.name in known.parts
        and s.created_ms != UNKNOWN_MS
        and known.parts[s.name].created_ms not in {UNKNOWN_MS, s.created_ms}
        for s in (submission, first)
    )


def name_freed(view: ClusterView, submission: Submission) -> list[Change] | None:
    """
    Return how the name of a request that has ended becomes free for a later one; None if it is.

    What is kept of the former goes: there is one outcome by a name. A part of it waits meanwhile.
    """
    request = submission.request
    if request not in view.ended or request not in (view.submissions_listed or ()):
        return None
    if submission.name != request:
        return []
    # The znode's version is checked with it: had we taken it away, that would be its own outcome.
    there = SubmissionReliedRecord(submission.name, submission.version)
    former = view.ended[request]
    return [
        Change((RequestOutcomeForgottenRecord(request, former.first, former.is_one_multi), there))
    ]


def unreadable(view: ClusterView, submission: Submission, why: str) -> Change:
    """Refuse a znode of which nothing is understood; its content is kept in the outcome."""
    request = RequestId(submission.name)
    known = view.requests.get(request)
    if known is not None and submission.name in known.parts:
        # It was understood when it began to be accepted.
        return Change((SubmissionEndedRecord(submission.name, submission.version),))
    refusal = Refusal(request, "the whole node", RefusalReason.UNREADABLE, why)
    return _whole_refused(submission, refusal, submission.raw)


def _whole_refused(submission: Submission, refusal: Refusal, raw: bytes) -> Change:
    """End a znode with nothing but an outcome of its own."""
    return Change(
        (
            SubmissionEndedRecord(submission.name, submission.version),
            RefusalRecord((refusal,)),
            RequestOutcomeRecord(summary_of_unreadable(refusal, raw)),
        )
    )


def is_surplus(view: ClusterView, submission: Submission) -> bool:
    """Whether a part comes after all that its request said it has."""
    if submission.request in view.ended:
        return True
    known = view.requests.get(submission.request)
    if known is None or submission.name in known.parts or not known.parts:
        return False
    return len(known.parts) >= known.options.parts


def surplus(view: ClusterView, submission: Submission) -> Change:
    """Refuse a part that is one too many."""
    known = view.requests.get(submission.request)
    count = "all its parts" if known is None else f"{known.options.parts} parts"
    entries = len(submission.entries) + len(submission.refused)
    refusal = Refusal(
        RequestId(submission.name),
        f"all {entries} entries",
        RefusalReason.TOO_MANY_PARTS,
        f"{submission.request} has {count}, this is one more",
        None,
        entries,
    )
    return _whole_refused(submission, refusal, b"")
