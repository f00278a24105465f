"""
Parts of a request: each submitted znode, opened once, ended when its entries are durable.

A request is one znode, or several that name it (``part_of``). Entries are judged in
``requests.submitted``.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.model import Refusal, RefusalReason, RequestId, TopicPartition
from controller.core.records import Change
from controller.core.requests import outcomes, records
from controller.core.requests.acceptance import refuse_malformed, summary_of_unreadable
from controller.core.requests.submissions import Submission
from controller.core.view import ClusterView


def settled_of(view: ClusterView, request: RequestId) -> set[TopicPartition]:
    """Return the partitions of a request that were accepted, refused or ended."""
    known = view.requests.by_id.get(request)
    return set() if known is None else known.settled


def settled_count(view: ClusterView, submission: Submission) -> int:
    """Return how many entries of a part are settled."""
    settled = settled_of(view, submission.request)
    return sum(p in settled for p in submission.entries)


def opening(view: ClusterView, submission: Submission) -> list[Change]:
    """Return the change that opens a part, once: its number of entries, then its malformed ones."""
    known = view.requests.by_id.get(submission.request)
    if known is not None and submission.name in known.parts:
        return refuse_malformed(view, submission.request, malformed_in(submission))
    return [Change((records.PartRecord(submission.request, part_of(submission)),))]


def part_of(submission: Submission) -> outcomes.Part:
    """Return what is kept of a submitted znode."""
    total = len(submission.entries) + len(submission.refused)
    return outcomes.Part(submission.name, total, submission.created_ms, submission.options)


def malformed_in(submission: Submission) -> Iterator[tuple[str, str]]:
    """Yield the malformed entries of a part, each with its reason."""
    where = "" if submission.request == submission.name else f" (in {submission.name})"
    return ((entry, f"{reason}{where}") for entry, reason in submission.refused)


def is_skipped(view: ClusterView, submission: Submission) -> bool:
    """Return whether a submitted znode is skipped for now."""
    return submission.name in view.requests_session.left_submissions or shares_name(
        view, submission
    )


def shares_name(view: ClusterView, submission: Submission) -> bool:
    """
    Return whether it only shares the name of a request that is still open, and has to wait.

    Names repeat where the parent znode was deleted and created again.
    """
    known = view.requests.by_id.get(submission.request)
    if known is None or known.has_ended:
        return False
    first = view.requests_session.submissions.get(submission.request, submission)
    return any(
        s.name in known.parts
        and s.created_ms != outcomes.UNKNOWN_MS
        and known.parts[s.name].created_ms not in {outcomes.UNKNOWN_MS, s.created_ms}
        for s in (submission, first)
    )


def name_freed(view: ClusterView, submission: Submission) -> list[Change] | None:
    """
    Return how the name of a request that has ended becomes free for a later one; None if it is.

    The former outcome is deleted: a name has one outcome. A part of the later one waits meanwhile.
    """
    request = submission.request
    if request not in view.requests.ended or request not in (
        view.requests_session.submissions_listed or ()
    ):
        return None
    if submission.name != request:
        return []
    # The znode's version is checked with it: otherwise we might delete the later one's own outcome.
    there = records.SubmissionReliedRecord(submission.name, submission.version)
    former = view.requests.ended[request]
    return [
        Change(
            (
                records.RequestOutcomeForgottenRecord(request, former.first, former.is_one_multi),
                there,
            )
        )
    ]


def unreadable(view: ClusterView, submission: Submission, why: str) -> Change:
    """Refuse a znode that cannot be decoded at all; its content is kept in the outcome."""
    request = RequestId(submission.name)
    known = view.requests.by_id.get(request)
    if known is not None and submission.name in known.parts:
        # It was readable when its acceptance began.
        return Change((records.SubmissionEndedRecord(submission.name, submission.version),))
    refusal = Refusal(request, "the whole node", RefusalReason.UNREADABLE, why)
    return _whole_refused(submission, refusal, submission.raw)


def _whole_refused(submission: Submission, refusal: Refusal, raw: bytes) -> Change:
    """End a znode with an outcome of its own only."""
    return Change(
        (
            records.SubmissionEndedRecord(submission.name, submission.version),
            records.RefusalRecord((refusal,)),
            records.RequestOutcomeRecord(summary_of_unreadable(refusal, raw)),
        )
    )


def is_surplus(view: ClusterView, submission: Submission) -> bool:
    """Return whether a part exceeds the number that its request announced."""
    if submission.request in view.requests.ended:
        return True
    known = view.requests.by_id.get(submission.request)
    if known is None or submission.name in known.parts or not known.parts:
        return False
    return len(known.parts) >= known.options.parts


def surplus(view: ClusterView, submission: Submission) -> Change:
    """Refuse a part in excess."""
    known = view.requests.by_id.get(submission.request)
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
