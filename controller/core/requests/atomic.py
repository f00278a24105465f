"""
Requests that are judged as a whole: atomic and approved ones.

If one entry of an atomic request is refused, accepted ones are taken back. Its parts are accepted
one after the other, so one of them may be refused after others were accepted and their znodes
deleted. None of it begins a step before the last is accepted (``pacing.holds``). It is accepted in
chunks, and is judged as a whole before each. The facts of that judgement are remembered: while they
hold, nothing is judged again.

An approved request is verified against its hash before any entry is accepted. All parts are opened
in one multi, each with the version of its znode that was verified. A later daemon cannot verify the
whole when some parts are gone; the version shows it that the rest is still what was approved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from controller.core import model
from controller.core.disks.log_dir_queries import directories_of
from controller.core.model import BrokerId, LogDirs, Replicas, RequestId, TopicPartition
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.orphans import left_where_it_stands
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests import acceptance, approvals, records, submission_parts
from controller.core.requests.records import AtomicCheck, TopicCheck
from controller.core.requests.submissions import Submission
from controller.core.view import ClusterView


def _take_back(
    view: ClusterView, partition: TopicPartition, running: Reassignment, because: str
) -> Change | None:
    """
    Take an accepted entry of a refused request back; None where that is under way.

    A step that another request began before this one replaced it is rolled back: a record that
    ended with a step in the topic znode would leave the step unattended.
    """
    spec, request = running.spec, running.spec.request
    if spec.rolls_back:
        return None
    if approvals.has_drifted(spec, view.topics.known_assignment(partition)):
        # It is refused for itself: the original replicas would undo what another client did.
        return None
    # Where that is stale, the end is written on the condition that the topic is unchanged.
    original, assignment = spec.original, view.topics.known_assignment(partition)
    is_there = assignment is None or assignment == model.PartitionAssignment(original or ())
    if assignment is not None and running.may_have_placed(assignment):
        is_there = False
    if original and (running.may_be_made or not is_there):
        back = spec.rolled_back(original, request)
        return Change((SpecRecord(partition, back),), partition=partition)
    entry = acceptance.entry_text(partition, spec.target)
    refusal = model.Refusal(
        request, entry, model.RefusalReason.ATOMIC, because, partition, was_accepted=True
    )
    ended = SpecEndedRecord(partition, spec.version, request, "refused", stands=True)
    left = left_where_it_stands(view, partition, running)
    return Change((*left, ended, records.RefusalRecord((refusal,))), partition=partition)


def take_back(view: ClusterView, request: RequestId, because: str) -> list[Change]:
    """Take back every accepted entry of a request, of any of its parts."""
    of_it = [
        (p, r) for p, r in view.reassignments.by_partition.items() if r.spec.request == request
    ]
    changes = (_take_back(view, partition, running, because) for partition, running in of_it)
    return [change for change in changes if change is not None]


def parts_of(view: ClusterView, request: RequestId) -> Iterator[Submission]:
    """Yield the parts of a request that are not completely accepted."""
    return (s for s in view.requests_session.submissions.values() if s.request == request)


def unjudged_topics(view: ClusterView, request: RequestId) -> Collection[str] | None:
    """
    Return the topics whose entries must be judged again; None: all that is left.

    Parts that were accepted meanwhile do not matter.
    """
    known = view.requests_session.atomic_checks.get(request)
    if known is None or not known.parts >= {_version_of(s) for s in parts_of(view, request)}:
        return None
    now = _check(view, request, known.parts, known.topics)
    if replace(now, topics=known.topics) != known:
        return None
    return {name for name, then in known.topics.items() if now.topics[name] != then}


def check_of(view: ClusterView, request: RequestId) -> AtomicCheck:
    """Return everything that the judgement of the request's entries depends on."""
    parts = list(parts_of(view, request))
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
    """Yield the log directories of the brokers for which entries name any."""
    named = (n for part in parts_of(view, request) for n in part.log_dirs.values())
    for broker in sorted({broker for log_dirs in named for broker, _ in log_dirs}):
        yield broker, directories_of(view, broker)


def _topic_check(view: ClusterView, name: str) -> TopicCheck | None:
    topic = view.topics.by_name.get(name)
    if topic is None or topic.stale or name in view.topics.unreadable:
        return None
    return TopicCheck(topic.czxid, topic.version, view.topics.configs.get(name))


def atomic_refused(
    view: ClusterView, submission: Submission, refused: list[model.Refusal]
) -> list[Change]:
    """
    Refuse a part of an atomic request: its own bad entries, and the others because of them.

    The part's znode is deleted only when each of its own is durable: a change may be decided again.
    """
    request, first = submission.request, refused[0]
    own = {r.partition: r for r in refused if r.partition is not None}
    because = f"all or nothing, and {first.entry} was refused: {first.detail}"
    changes = submission_parts.opening(view, submission)
    settled = submission_parts.settled_of(view, request)
    rest = 0
    for partition in submission.entries:
        if partition in own and partition not in settled:
            changes.append(Change((records.RefusalRecord((own[partition],)),), partition=partition))
        elif partition not in settled:
            rest += 1
    changes += take_back(view, request, because)
    if changes:
        return changes
    last: tuple[Record, ...] = ()
    if rest:
        others = model.Refusal(
            request, f"{rest} other entries", model.RefusalReason.ATOMIC, because, None, rest
        )
        last = (records.RefusalRecord((others,)),)
    return [Change((*last, records.SubmissionEndedRecord(submission.name, submission.version)))]


def verify(view: ClusterView, submission: Submission) -> list[Change] | str | None:
    """
    Verify a request that names an approval, of which this part is still there.

    Returns:
        The change that opens all its parts, for the first of them only; why it is not what was
        approved; None where this part was verified already.

    """
    known = view.requests.by_id.get(submission.request)
    parts = list(parts_of(view, submission.request))
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
