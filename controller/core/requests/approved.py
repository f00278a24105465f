"""
Approved requests: verified as a whole against their hash before any entry is accepted.

All parts are opened in one multi, each with the version of its znode that was verified. Parts are
accepted one after the other, and a later daemon cannot verify the whole when some of them are gone;
the version shows it that the rest is still what was approved.
"""

from __future__ import annotations

from dataclasses import replace

from controller.core.model import LogDirs, Replicas, TopicPartition
from controller.core.records import Change, Record
from controller.core.requests import approvals, atomic, records, submission_parts
from controller.core.requests.submissions import Submission
from controller.core.view import ClusterView


def verify(view: ClusterView, submission: Submission) -> list[Change] | str | None:
    """
    Verify a request that names an approval, of which this part is still there.

    Returns:
        The change that opens all its parts, for the first of them only; why it is not what was
        approved; None where this part was verified already.

    """
    known = view.requests.by_id.get(submission.request)
    parts = list(atomic.parts_of(view, submission.request))
    if known is None or not known.parts or known.has_ended:
        mismatch = _mismatch(submission, parts)
        return mismatch or ([_opening(parts)] if submission.name == parts[0].name else [])
    part = known.parts.get(submission.name)
    if part is None or part.approved_version is None:
        # Its refusal has begun; of a request of several parts, others may be gone.
        mismatch = _mismatch(submission, parts) if len(parts) == submission.options.parts else None
        return mismatch or "another part of the request is not what was approved"
    if part.approved_version != submission.version:
        return "it was changed after its approval was verified"
    return None


def _opening(parts: list[Submission]) -> Change:
    written: list[Record] = []
    for part in parts:
        opened = replace(submission_parts.part_of(part), approved_version=part.version)
        written += (
            records.PartRecord(part.request, opened),
            records.SubmissionReliedRecord(part.name, part.version),
        )
    return Change(tuple(written))


def _mismatch(submission: Submission, parts: list[Submission]) -> str | None:
    """Return how the entries of all parts differ from what was approved."""
    options = submission.options
    if len(parts) != options.parts:
        return f"it has {len(parts)} parts, and {options.parts} were announced"
    entries: dict[TopicPartition, Replicas] = {}
    expected: dict[TopicPartition, Replicas] = {}
    log_dirs: dict[TopicPartition, LogDirs] = {}
    for part in parts:
        if (part.options.approved, part.options.approved_by) != (
            options.approved,
            options.approved_by,
        ):
            return "its parts name different approvals"
        if not entries.keys().isdisjoint(part.entries):
            return "its parts name the same partitions"
        entries |= part.entries
        expected |= part.expected
        log_dirs |= part.log_dirs
    found = approvals.plan_hash(entries, expected, log_dirs)
    if found != options.approved:
        return f"its entries have the hash {found}, and {options.approved} was approved"
    if entries.keys() != expected.keys():
        return "its entries do not name the replicas that they were approved for"
    return None
