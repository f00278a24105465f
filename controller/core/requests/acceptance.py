"""
Acceptance of a plan's entries: the checks of ``PartitionReassignedListener`` and our own.

An entry is accepted (it becomes a durable spec), refused with a reason an operator can act on,
found done already, or waits until the topic's settings are known. Valid entries are accepted
although others are refused. The listener's checks are in KAFKA-42.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from controller.core import model
from controller.core.disks import log_dir_queries
from controller.core.model import BrokerId, LogDirs, Replicas, RequestId, Route, TopicPartition
from controller.core.reassignments.gates import ids
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests import approvals, outcomes, records
from controller.core.requests.model import PlanNode, kind_of
from controller.core.requests.submissions import AcceptedEntry
from controller.core.view import ClusterView

SHARES = 10
"""The share of a long cycle that is left while it delays other requests."""


def legacy_request_id(czxid: model.Zxid) -> RequestId:
    """Return the id of the request that a legacy znode stands for: its czxid is unique."""
    return RequestId(f"legacy-{czxid:016x}")


SPECS_PATH: Final = "/admin/reassignments"
"""The prefix by which unreadable records are named."""
DISABLED: Final = "reassignments are disabled: /admin/reassign_cancel exists"
"""The reason for which an entry is refused while the kill switch is on."""


@dataclass(slots=True)
class Acceptance:
    """The result of judging a plan."""

    changes: list[Change] = field(default_factory=list)
    unknown_topics: dict[str, None] = field(default_factory=dict)
    """Topics whose settings must be known before their entries can be judged."""
    unknown_brokers: set[BrokerId] = field(default_factory=set)
    """Brokers whose log directories must be known before."""
    is_complete: bool = True
    """Whether every entry was judged."""


def entry_text(partition: TopicPartition, replicas: Replicas) -> str:
    """Format an entry for operators."""
    return f"{partition} -> [{ids(replicas)}]"


def refusal_of(  # noqa: PLR0911 - one return per reason
    view: ClusterView, request: RequestId, partition: TopicPartition, target: Replicas
) -> model.Refusal | None:
    """Return why an entry is refused, None when it is valid or cannot be judged yet."""
    topics = view.topics

    def refuse(reason: model.RefusalReason, detail: str) -> model.Refusal:
        return model.Refusal(request, entry_text(partition, target), reason, detail, partition)

    topic = topics.by_name.get(partition.topic)
    assignment = topic.partitions.get(partition.partition) if topic else None
    record = f"{SPECS_PATH}/{partition.topic}/{partition.partition}"
    why = topics.unreadable.get(partition.topic) or view.reassignments.unreadable_specs.get(record)
    if why is not None:
        return refuse(model.RefusalReason.UNREADABLE, f"one of its znodes cannot be decoded: {why}")
    if assignment is None:
        what = "partition" if topic else "topic"
        return refuse(model.RefusalReason.UNKNOWN_PARTITION, f"the {what} does not exist")
    if partition.topic in (view.deletions_session.markers or ()):
        return refuse(model.RefusalReason.TOPIC_BEING_DELETED, "the topic is queued for deletion")
    if not target:
        return refuse(model.RefusalReason.EMPTY_REPLICAS, "the replica list is empty")
    if len(set(target)) != len(target):
        return refuse(model.RefusalReason.DUPLICATE_REPLICAS, "a broker is listed twice")
    origin = assignment.replicas
    dead = tuple(r for r in target if r not in origin and r not in view.cluster.brokers)
    if dead:
        return refuse(
            model.RefusalReason.UNKNOWN_BROKER,
            f"broker {ids(dead)} is not live and not a replica yet",
        )
    config = topics.configs.get(partition.topic)
    if config is not None and len(target) < min(config.min_insync_replicas, len(origin)):
        return refuse(
            model.RefusalReason.BELOW_MIN_ISR,
            f"{len(target)} replicas are fewer than min.insync.replicas "
            f"({config.min_insync_replicas}): producers would fail",
        )
    return None


def refuse_malformed(
    view: ClusterView, request: RequestId, refused: Iterable[tuple[str, str]]
) -> list[Change]:
    """
    Refuse malformed entries, as far as their refusals are not durable yet.

    Each in a change of its own, as there may be more of them than a multi can hold.
    """
    refusals = [
        model.Refusal(request, entry, model.RefusalReason.MALFORMED, reason)
        for entry, reason in refused
    ]
    known = view.requests.by_id.get(request)
    if refusals and known is not None:
        # Counted: several may have the same text.
        refusals = list((Counter(refusals) - Counter(known.refused)).elements())
    return [Change((records.RefusalRecord((refusal,)),)) for refusal in refusals]


def refused_as_disabled(
    request: RequestId, entry: str, partition: TopicPartition | None
) -> model.Refusal:
    """Return the refusal of an entry that is submitted while reassignments are disabled."""
    return model.Refusal(
        request,
        entry,
        model.RefusalReason.DISABLED,
        DISABLED,
        partition,
    )


def refused_as_drifted(
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    expected: Replicas | None,
) -> model.Refusal | None:
    """Return why an entry that ``refusal_of`` accepts is not what was approved; None if it is."""
    assignment = view.topics.known_assignment(partition)
    if expected is None or assignment is None:
        return None
    running = view.reassignments.by_partition.get(partition)
    spec = model.ReassignmentSpec(target, None, request, Route.REQUEST, expected=expected)
    if approvals.has_drifted(spec, assignment):
        detail = approvals.drift_text(expected, assignment)
    elif running is not None and (running.in_flight or running.may_be_made):
        detail = f"it is being reassigned by {running.spec.request}"
    else:
        return None
    return model.Refusal(
        request,
        entry_text(partition, target),
        model.RefusalReason.DRIFTED,
        detail,
        partition,
    )


def refused_for_directories(
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    log_dirs: LogDirs,
) -> model.Refusal | None:
    """Return why replicas cannot be in the directories that an entry names, as far as known."""
    problem = log_dir_queries.problem_of(view, log_dirs)
    if problem is None:
        return None
    return model.Refusal(
        request, entry_text(partition, target), model.RefusalReason.LOG_DIR, problem, partition
    )


def refused_without_approval(
    view: ClusterView, request: RequestId, entry: str, partition: TopicPartition | None
) -> model.Refusal | None:
    """Return the refusal of an entry that is not part of an approved plan, where it has to be."""
    if not view.options.require_approval:
        return None
    return model.Refusal(
        request, entry, model.RefusalReason.NOT_APPROVED, approvals.REQUIRED, partition
    )


def is_undecidable(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Return whether a read of the topic, or the end of a record of a former topic, comes first.

    That record would be taken for a reassignment of the present topic, by this route or another.
    """
    if view.is_of_former_topic(partition):
        return True
    topic = partition.topic
    known = view.topics.by_name.get(topic)
    awaits_read = topic in (view.topics.listed or ()) if known is None else known.stale
    return awaits_read and topic not in view.topics.unreadable


def accept_legacy(view: ClusterView, plan: PlanNode) -> Acceptance:
    """Judge the entries of ``/admin/reassign_partitions`` that are not accepted yet."""
    request = legacy_request_id(plan.czxid)
    outcome = Acceptance()
    if plan.unreadable is not None:
        refusal = model.Refusal(
            request, "the whole node", model.RefusalReason.UNREADABLE, plan.unreadable
        )
        outcome.changes.append(
            Change(
                (
                    records.LegacyPlanEndedRecord(plan.version),
                    records.RefusalRecord((refusal,)),
                    records.RequestOutcomeRecord(summary_of_unreadable(refusal, plan.raw)),
                )
            )
        )
        return outcome
    outcome.changes += refuse_malformed(view, request, plan.refused)
    chunk = cycle_share(view, view.options.acceptance_chunk)
    for partition, target in plan.entries.items():
        if len(outcome.changes) >= chunk:
            outcome.is_complete = False
            break
        _judge(view, request, partition, target, outcome)
    return outcome


def is_taken(view: ClusterView, partition: TopicPartition, target: Replicas) -> bool:
    """
    Return whether an entry of the plan is recorded as it is listed.

    A Kafka controller that rewrites the plan omits the directories, which then stay as recorded.
    """
    known = view.reassignments.by_partition.get(partition)
    if known is None or known.spec.route is not Route.LEGACY or known.spec.target != target:
        return False
    legacy = view.requests.legacy
    named = () if legacy is None else legacy.log_dirs.get(partition, ())
    if named not in {(), known.spec.log_dirs} and not known.spec.rolls_back:
        return False
    return not view.is_of_former_topic(partition)


def _judge(
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    outcome: Acceptance,
) -> None:
    if is_taken(view, partition, target):
        return
    running, legacy = view.reassignments.by_partition.get(partition), view.requests.legacy
    log_dirs = () if legacy is None else legacy.log_dirs.get(partition, ())
    if is_undecidable(view, partition):
        outcome.is_complete = False
        return
    refusal = refusal_of(view, request, partition, target) or refused_for_directories(
        view, request, partition, target, log_dirs
    )
    if refusal is None:
        refusal = refused_without_approval(view, request, entry_text(partition, target), partition)
    if refusal is None and view.requests_session.kill_switch and running is None:
        refusal = refused_as_disabled(request, entry_text(partition, target), partition)
    if refusal is None and running is not None and running.spec.route is Route.REQUEST:
        refusal = model.Refusal(
            request,
            entry_text(partition, target),
            model.RefusalReason.OTHER_ROUTE,
            f"it is being reassigned by request {running.spec.request}",
            partition,
        )
    if refusal is not None:
        outcome.changes.append(
            Change(
                (records.LegacyEntryRecord(partition, None), records.RefusalRecord((refusal,))),
                partition=partition,
            )
        )
        return
    if partition.topic not in view.topics.configs:
        outcome.unknown_topics[partition.topic] = None
        outcome.is_complete = False
        return
    unknown = log_dir_queries.unknown_brokers(view, log_dirs)
    if unknown:
        outcome.unknown_brokers |= unknown
        outcome.is_complete = False
        return
    outcome.changes.append(
        accept_entry(view, request, partition, target, Route.LEGACY, log_dirs=log_dirs)
    )


def accept_entry(  # noqa: PLR0913 - the parts of an entry
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    route: Route = Route.REQUEST,
    *,
    expected: Replicas | None = None,
    log_dirs: LogDirs = (),
) -> Change:
    """
    Return the acceptance of an entry; one that is at its target already is done.

    Args:
        view: Everything known.
        request: The request of the entry.
        partition: The partition of the entry.
        target: Its target replicas.
        route: The route of the request.
        expected: The replicas that an approved entry names.
        log_dirs: The log directories that it names: it is done when the replicas are there.

    """
    assignment = view.topics.by_name[partition.topic].partitions[partition.partition]
    running = view.reassignments.by_partition.get(partition)
    unplaced = None if running is None else running.spec.unplaced_by(log_dirs)
    spec = replace(
        spec_of(view, request, partition, target, route),
        expected=expected,
        log_dirs=log_dirs,
        unplaced=unplaced or model.NO_BROKERS,
    )
    if (
        log_dirs
        or not is_there(view, partition, assignment, target)
        or partition in view.reassignments.by_partition
    ):
        return Change(acceptance_records(view, partition, spec), partition=partition)
    done = found_done(partition, spec)
    if route is Route.LEGACY:
        done = (records.LegacyEntryRecord(partition, None), *done)
    return Change(done, partition=partition)


def is_there(
    view: ClusterView,
    partition: TopicPartition,
    assignment: model.PartitionAssignment,
    target: Replicas,
) -> bool:
    """Return whether a partition is at its target and has no step in flight."""
    running = view.reassignments.by_partition.get(partition)
    idle = not assignment.is_reassigning and (running is None or not running.in_flight)
    return idle and assignment.replicas == target


def spec_of(
    view: ClusterView,
    request: RequestId,
    partition: TopicPartition,
    target: Replicas,
    route: Route,
) -> model.ReassignmentSpec:
    """Return the spec of an accepted entry; one in flight keeps its original replicas."""
    topic = view.topics.by_name[partition.topic]
    assignment = topic.partitions[partition.partition]
    running = view.reassignments.by_partition.get(partition)
    version = None if running is None else running.spec.version
    if running is None or _has_ended(running, assignment):
        original = original_of(view, partition, assignment)
        if route is Route.LEGACY and view.requests.legacy is not None:
            original = _original_of_entry(
                view, partition, target, original, view.requests.legacy.czxid
            )
        return model.ReassignmentSpec(
            target, original, request, route, version, topic_czxid=topic.czxid
        )
    before = running.spec
    original = before.original
    if original is None:
        original = original_of(view, partition, assignment)
    named = before.abandoned | frozenset(before.target)
    left = named - frozenset(target) - frozenset(original or ()) or model.NO_BROKERS
    return model.ReassignmentSpec(
        target, original, request, route, version, abandoned=left, topic_czxid=topic.czxid
    )


def _has_ended(running: Reassignment, assignment: model.PartitionAssignment) -> bool:
    """Return whether a foreign reassignment has ended and was not examined since."""
    return running.spec.route is Route.FOREIGN and not assignment.is_reassigning


def acceptance_records(
    view: ClusterView, partition: TopicPartition, spec: model.ReassignmentSpec
) -> tuple[Record, ...]:
    """Return the records of an accepted entry; a replaced request gets an outcome."""
    written: tuple[Record, ...] = (
        SpecRecord(partition, spec),
        records.AcceptedRecord(spec.request, AcceptedEntry(partition, spec.original, spec.target)),
    )
    running = view.reassignments.by_partition.get(partition)
    if running is None or running.spec.request == spec.request:
        return written if running is None else written[:1]
    if running.spec.route is Route.FOREIGN:
        return written
    superseded = model.PartitionOutcome(
        running.spec.request, partition, model.OutcomeKind.SUPERSEDED, by=spec.request
    )
    return (*written, records.PartitionOutcomeRecord(superseded))


def summary_of_unreadable(refusal: model.Refusal, raw: bytes) -> outcomes.Summary:
    """Return the outcome of a znode that could not be decoded at all."""
    return outcomes.Summary(
        request=refusal.request,
        kind=kind_of(refusal.request),
        total=refusal.entries,
        done=0,
        refused=(refusal,),
        raw=raw,
    )


def found_done(partition: TopicPartition, spec: model.ReassignmentSpec) -> tuple[Record, ...]:
    """Return the end of an entry that is at its target already; its row counts it."""
    there = AcceptedEntry(partition, spec.target, spec.target)
    return (
        SpecEndedRecord(partition, None, spec.request, "done"),
        records.AcceptedRecord(spec.request, there),
    )


def original_of(
    view: ClusterView, partition: TopicPartition, assignment: model.PartitionAssignment
) -> Replicas | None:
    """
    Return the replicas to roll back to, in order, or None when they are unknown.

    Where another client has begun already, the former replicas we saw are taken if they equal the
    set that the topic znode proves (RS without AR). For Kafka 2.3, which records nothing, see
    ``_original_of_entry``.
    """
    if not assignment.is_reassigning:
        return assignment.replicas
    proven = assignment.origin_replicas
    seen = view.reassignments.before.get(partition)
    if seen is not None and set(seen) == set(proven):
        return seen
    return proven or None


def _original_of_entry(
    view: ClusterView,
    partition: TopicPartition,
    target: Replicas,
    original: Replicas | None,
    plan: model.Zxid,
) -> Replicas | None:
    """
    Return the replicas of a partition before the plan that lists it, None when unknown.

    A controller of Kafka 2.3 that began an entry wrote the former replicas and those of the entry
    together, unmarked, after the plan appeared. What we saw before that proves which were the
    former.
    """
    topic = view.topics.by_name[partition.topic]
    written = topic.unmarked.get(partition.partition)
    if written is None or original is None or not set(target) <= set(original):
        return original
    is_older = 0 < written < plan
    seen = view.reassignments.before.get(partition)
    if seen is not None and not is_older and set(seen) | set(target) == set(original):
        return seen
    return None if written > plan else original


def cycle_share(view: ClusterView, most: int) -> int:
    """
    Reduce a per-cycle limit while other requests wait to be accepted.

    Long cycles have more throughput; a single request, or one that was accepted long ago, waits
    for no cycle.
    """
    unread = (
        view.requests_session.submissions_listed or frozenset()
    ) - view.requests_session.submissions.keys()
    named = (
        n
        for n in view.requests_session.submissions
        if n not in view.requests_session.left_submissions
    )
    requesting = len({view.requests_session.submissions[name].request for name in named}) + bool(
        unread
    )
    if (
        view.requests.legacy is not None
        and len(view.requests.legacy.entries) > view.reassignments.other_routes
    ):
        requesting += 1
    return most if requesting <= 1 else max(most // SHARES, 1)
