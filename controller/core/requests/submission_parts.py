"""
Parts of a request: each submitted znode, opened once, ended when its entries are durable.

A request is one znode, or several that name it (``part_of``). Entries are judged in
``requests.submitted``; atomic and approved requests are judged as a whole.

If one entry of an atomic request is refused, accepted ones are taken back. Its parts are accepted
one after the other, so one of them may be refused after others were accepted and their znodes
deleted. None of it begins a step before the last is accepted (``pacing.operator_holds``). It is
accepted in chunks, and is judged as a whole before each. The facts of that judgement are
remembered: while they hold, nothing is judged again.

An approved request is verified against its hash before any entry is accepted. All parts are opened
in one multi, each with the version of its znode that was verified. A later daemon cannot verify the
whole when some parts are gone; the version shows it that the rest is still what was approved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from controller.core import model
from controller.core.disks.known_directories import directories_of
from controller.core.model import (
    BrokerId,
    LogDirs,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    TopicPartition,
    count_text,
)
from controller.core.pacing.drained_replicas import drained_brokers
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.orphans import left_where_it_stands
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests import outcomes, records, submissions
from controller.core.requests.acceptance import (
    end_as_refused,
    refuse_malformed,
    refuse_unreadable,
)
from controller.core.requests.entry_checks import PlanEntry
from controller.core.requests.records import AtomicCheck, TopicCheck
from controller.core.requests.submissions import Submission
from controller.core.view import ClusterView


def settled_of(view: ClusterView, request: RequestId) -> set[TopicPartition]:
    """Return the partitions of a request that were accepted, refused or ended."""
    known = view.requests.by_id.get(request)
    return set() if known is None else known.settled


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


def part_ended(submission: Submission) -> records.SubmissionEndedRecord:
    """Return the deletion of a submitted znode."""
    return records.SubmissionEndedRecord(submission.name, submission.version)


def malformed_in(submission: Submission) -> Iterator[tuple[str, str]]:
    """Yield the malformed entries of a part, each with its reason."""
    where = "" if submission.request == submission.name else f" (in {submission.name})"
    return ((entry, f"{reason}{where}") for entry, reason in submission.refused)


def is_skipped(view: ClusterView, submission: Submission) -> bool:
    """Return whether a submitted znode is skipped for now."""
    is_left = submission.name in view.requests_session.left_submissions
    return is_left or shares_name(view, submission)


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
    former = view.requests.ended.get(request)
    if former is None or request not in (view.requests_session.submissions_listed or ()):
        return None
    if submission.name != request:
        return []
    # The znode's version is checked with it: otherwise we might delete the later one's own outcome.
    there = records.SubmissionReliedRecord(submission.name, submission.version)
    gone = records.RequestOutcomeForgottenRecord(request, former.first, former.is_one_multi)
    return [Change((gone, there))]


def unreadable(view: ClusterView, submission: Submission, why: str) -> Change:
    """Refuse a znode that cannot be decoded at all; its content is kept in the outcome."""
    request = RequestId(submission.name)
    known = view.requests.by_id.get(request)
    if known is not None and submission.name in known.parts:
        # It was readable when its acceptance began.
        return Change((part_ended(submission),))
    return refuse_unreadable(part_ended(submission), request, why, submission.raw)


def surplus(view: ClusterView, submission: Submission) -> Change | None:
    """Refuse a part that exceeds the number that its request announced; None: it does not."""
    known = view.requests.by_id.get(submission.request)
    if submission.request not in view.requests.ended and (
        known is None
        or submission.name in known.parts
        or not known.parts
        or len(known.parts) < known.options.parts
    ):
        return None
    count = "all its parts" if known is None else f"{known.options.parts} parts"
    entries = len(submission.entries) + len(submission.refused)
    refusal = Refusal(
        RequestId(submission.name),
        "its entry" if entries == 1 else f"all {entries} entries",
        RefusalReason.TOO_MANY_PARTS,
        f"{submission.request} has {count}, this is one more",
        None,
        entries,
    )
    return end_as_refused(part_ended(submission), refusal)


# --- all or nothing ------------------------------------------------------------------------------


def take_back(view: ClusterView, request: RequestId, because: str) -> list[Change]:
    """Take back every accepted entry of a request, of any of its parts."""
    of_it = [
        (p, r) for p, r in view.reassignments.by_partition.items() if r.spec.request == request
    ]
    changes = (_take_back(view, partition, running, because) for partition, running in of_it)
    return [change for change in changes if change is not None]


def _take_back(
    view: ClusterView, partition: TopicPartition, running: Reassignment, because: str
) -> Change | None:
    """
    Take an accepted entry of a refused request back; None where that is under way.

    A step that another request began before this one replaced it is rolled back: a record that
    ended with a step in the topic znode would leave the step unattended.
    """
    spec, request = running.spec, running.spec.request
    # Where that is stale, the end is written on the condition that the topic is unchanged.
    original, assignment = spec.original, view.topics.known_assignment(partition)
    if spec.rolls_back or submissions.has_drifted(spec, assignment):
        # A drift is refused for itself: the original replicas would undo what another client did.
        return None
    is_there = assignment is None or (
        assignment == model.PartitionAssignment(original or ())
        and not running.may_have_placed(assignment)
    )
    if original and (running.may_be_made or not is_there):
        back = spec.rolled_back(original, request)
        return Change((SpecRecord(partition, back),), partition=partition)
    entry = PlanEntry(request, partition, spec.target)
    refusal = entry.refusal(RefusalReason.ATOMIC, because, was_accepted=True)
    ended = SpecEndedRecord(partition, spec.version, request, "refused", stands=True)
    left = left_where_it_stands(view, partition, running)
    return Change((*left, ended, records.RefusalRecord((refusal,))), partition=partition)


def unjudged_topics(view: ClusterView, request: RequestId) -> Collection[str] | None:
    """
    Return the topics whose entries must be judged again; None: all that is left.

    Parts that were accepted meanwhile do not matter.
    """
    known = view.requests_session.atomic_checks.get(request)
    parts = {_version_of(s) for s in view.requests_session.parts_of(request)}
    if known is None or not known.parts >= parts:
        return None
    now = _check(view, request, known.parts, known.topics)
    if replace(now, topics=known.topics) != known:
        return None
    return {name for name, then in known.topics.items() if now.topics[name] != then}


def check_of(view: ClusterView, request: RequestId) -> AtomicCheck:
    """Return everything that the judgement of the request's entries depends on."""
    parts = view.requests_session.parts_of(request)
    topics = dict.fromkeys(p.topic for part in parts for p in part.entries)
    return _check(view, request, frozenset(map(_version_of, parts)), topics)


def _version_of(part: Submission) -> tuple[str, model.Zxid, model.ZkVersion]:
    return part.name, part.czxid, part.version


def _check(
    view: ClusterView,
    request: RequestId,
    parts: frozenset[tuple[str, model.Zxid, model.ZkVersion]],
    topics: Iterable[str],
) -> AtomicCheck:
    known = view.requests.by_id.get(request)
    return AtomicCheck(
        parts=parts,
        refused=0 if known is None else len(known.refused),
        brokers=frozenset(view.cluster.brokers),
        drained=drained_brokers(view),
        deletions=view.deletions_session.markers,
        unreadable_specs=frozenset(view.reassignments.unreadable_specs),
        engine=view.role.engine,
        other_routes=view.reassignments.other_routes,
        topics={name: _topic_check(view, name) for name in topics},
        log_dirs=tuple(_reported_dirs(view, request)),
    )


def _reported_dirs(
    view: ClusterView, request: RequestId
) -> Iterator[tuple[BrokerId, Mapping[str, bool] | None]]:
    parts = view.requests_session.parts_of(request)
    named = (named for part in parts for named in part.log_dirs.values())
    for broker in sorted({broker for log_dirs in named for broker, _ in log_dirs}):
        yield broker, directories_of(view, broker)


def _topic_check(view: ClusterView, name: str) -> TopicCheck | None:
    topic = view.topics.by_name.get(name)
    if topic is None or topic.stale or name in view.topics.unreadable:
        return None
    return TopicCheck(topic.czxid, topic.version, view.topics.configs.get(name))


def atomic_refused(
    view: ClusterView, submission: Submission, refused: list[Refusal]
) -> list[Change]:
    """
    Refuse a part of an atomic request: its own bad entries, and the others because of them.

    The part's znode is deleted only when each of its own is durable: a change may be decided again.
    """
    request, first = submission.request, refused[0]
    own = {r.partition: r for r in refused if r.partition is not None}
    because = f"all or nothing, and {first.entry} was refused: {first.detail}"
    settled = settled_of(view, request)
    left = [p for p in submission.entries if p not in settled]
    changes = [
        *opening(view, submission),
        *(Change((records.RefusalRecord((own[p],)),), partition=p) for p in left if p in own),
        *take_back(view, request, because),
    ]
    if changes:
        return changes
    last: tuple[Record, ...] = ()
    if left:
        others = Refusal(
            request,
            count_text(len(left), "other entry", "other entries"),
            RefusalReason.ATOMIC,
            because,
            None,
            len(left),
        )
        last = (records.RefusalRecord((others,)),)
    return [Change((*last, part_ended(submission)))]


# --- approvals -----------------------------------------------------------------------------------


def verify(view: ClusterView, submission: Submission) -> list[Change] | str | None:
    """
    Verify a request that names an approval, of which this part is still there.

    Return the change that opens all its parts, for the first of them only; why it is not what was
    approved; None where this part was verified already.
    """
    known = view.requests.by_id.get(submission.request)
    parts = view.requests_session.parts_of(submission.request)
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
        opened = replace(part_of(part), approved_version=part.version)
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
        own = part.options
        if (own.approved, own.approved_by) != (options.approved, options.approved_by):
            return "its parts name different approvals"
        if not entries.keys().isdisjoint(part.entries):
            return "its parts name the same partitions"
        entries |= part.entries
        expected |= part.expected
        log_dirs |= part.log_dirs
    found = submissions.plan_hash(entries, expected, log_dirs)
    if found != options.approved:
        return f"its entries have the hash {found}, and {options.approved} was approved"
    if entries.keys() != expected.keys():
        return "its entries do not name the replicas that they were approved for"
    return None
