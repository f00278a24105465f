"""
Acceptance of entries: the checks of ``PartitionReassignedListener`` and our own.

An entry is accepted (it becomes a durable spec), refused with a reason an operator can act on,
found done already, or waits until the topic's settings are known. Valid entries are accepted
although others are refused. The listener's checks are in KAFKA-42.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from controller.core import effects, model
from controller.core.disks import known_directories, log_dir_queries
from controller.core.model import (
    BrokerId,
    Instant,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
    entry_text,
)
from controller.core.reassignments.foreign_policy import refusal_for_foreign
from controller.core.reassignments.partition_context import elects_leader
from controller.core.reassignments.records import DONE, SpecEndedRecord, SpecRecord
from controller.core.records import Change, Record
from controller.core.requests import records, submissions
from controller.core.requests.entry_checks import PlanEntry
from controller.core.requests.model import kind_of
from controller.core.requests.outcomes import Summary
from controller.core.requests.submissions import AcceptedEntry
from controller.core.topics import topic_configs
from controller.core.view import ClusterView

SHARES: Final = 10
"""The share of a long cycle that is left while it delays other requests."""


@dataclass(slots=True)
class Judgement:
    """The decisions of a cycle about entries, and what has to be read before others."""

    changes: list[Change] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    unknown_topics: set[str] = field(default_factory=set)
    """Topics whose settings must be known first."""
    unknown_brokers: set[BrokerId] = field(default_factory=set)
    """Brokers whose log directories must be known first."""
    waits: bool = False
    """Whether an entry cannot be judged before a read."""

    def is_decidable(self, view: ClusterView, entry: PlanEntry) -> bool:
        """Return whether a valid entry can be accepted; else note what has to be known first."""
        if entry.partition.topic not in view.topics.configs:
            self.unknown_topics.add(entry.partition.topic)
        elif unknown := known_directories.unknown_brokers(view, entry.log_dirs):
            self.unknown_brokers |= unknown
        else:
            return True
        self.waits = True
        return False

    def reads(self, view: ClusterView, now: Instant, timer: str) -> list[effects.Effect]:
        """Return the requests for what has to be known."""
        return [
            *topic_configs.request_configs(view, self.unknown_topics, now, timer),
            *log_dir_queries.query_named(view, self.unknown_brokers, now),
        ]


def refuse_malformed(
    view: ClusterView, request: RequestId, refused: Iterable[tuple[str, str]]
) -> list[Change]:
    """
    Refuse malformed entries, as far as their refusals are not durable yet.

    Each in a change of its own, as there may be more of them than a multi can hold.
    """
    refusals = [Refusal(request, e, RefusalReason.MALFORMED, why) for e, why in refused]
    known = view.requests.by_id.get(request)
    if refusals and known is not None:
        # Counted: several may have the same text.
        refusals = list((Counter(refusals) - Counter(known.refused)).elements())
    return [Change((records.RefusalRecord((refusal,)),)) for refusal in refusals]


def refused_without_approval(view: ClusterView, entry: PlanEntry) -> Refusal | None:
    """Return the refusal of an entry that is not part of an approved plan, where it has to be."""
    if not view.options.require_approval:
        return None
    return entry.refusal(RefusalReason.NOT_APPROVED, submissions.APPROVAL_REQUIRED)


def refused_for_foreign(view: ClusterView, entry: PlanEntry) -> Refusal | None:
    """Return the refusal of an entry while foreign reassignments exist, under ``refuse``."""
    if not view.requests.foreign_count:
        return None
    text = entry_text(entry.partition, entry.target)
    return refusal_for_foreign(view, entry.request, entry.partition, text)


def refuse_unreadable(
    ended: Record, request: RequestId, why: str, raw: bytes, submitted_ms: int = 0
) -> Change:
    """Refuse a znode that cannot be decoded at all; its content is kept in the outcome."""
    refusal = Refusal(request, "the whole node", RefusalReason.UNREADABLE, why)
    return end_as_refused(ended, refusal, raw, submitted_ms)


def end_as_refused(
    ended: Record, refusal: Refusal, raw: bytes = b"", submitted_ms: int = 0
) -> Change:
    """End a znode with an outcome of its own only."""
    summary = Summary(
        request=refusal.request,
        kind=kind_of(refusal.request),
        total=refusal.entries,
        done=0,
        refused=(refusal,),
        submitted_ms=submitted_ms,
        raw=raw,
    )
    written = (ended, records.RefusalRecord((refusal,)), records.RequestOutcomeRecord(summary))
    return Change(written)


def accept_entry(view: ClusterView, entry: PlanEntry) -> Change:
    """Return the acceptance of an entry; one that is at its target already is done."""
    partition, target, spec = entry.partition, entry.target, spec_of(view, entry)
    assignment = view.topics.by_name[partition.topic].partitions[partition.partition]
    is_there = not assignment.is_reassigning and assignment.replicas == target
    # Its leader may be elsewhere.
    is_there = is_there and not elects_leader(view, spec)
    if entry.log_dirs or partition in view.reassignments.by_partition or not is_there:
        return Change(_acceptance_records(view, partition, spec), partition=partition)
    # Its row counts it.
    done: tuple[Record, ...] = (
        SpecEndedRecord(partition, None, spec.request, DONE),
        records.AcceptedRecord(spec.request, AcceptedEntry(partition, target, target)),
    )
    if entry.route is Route.LEGACY:
        done = (records.LegacyEntryRecord(partition, None), *done)
    return Change(done, partition=partition)


def spec_of(view: ClusterView, entry: PlanEntry) -> model.ReassignmentSpec:
    """Return the spec of an accepted entry; one in flight keeps its original replicas."""
    topic = view.topics.by_name[entry.partition.topic]
    assignment = topic.partitions[entry.partition.partition]
    running = view.reassignments.by_partition.get(entry.partition)
    before = None if running is None else running.spec
    abandoned = model.NO_BROKERS
    is_idle = not assignment.is_reassigning
    if before is None or (before.route is Route.FOREIGN and is_idle):
        # The foreign one has ended and was not examined since.
        original = _original_of(view, entry.partition, assignment)
        if entry.route is Route.LEGACY and view.requests.legacy is not None:
            original = _original_of_entry(view, entry, original, view.requests.legacy.czxid)
    else:
        original = before.original
        if original is None:
            original = _original_of(view, entry.partition, assignment)
        named = before.abandoned | frozenset(before.target)
        abandoned = named - frozenset(entry.target) - frozenset(original or ()) or abandoned
    return model.ReassignmentSpec(
        entry.target,
        original,
        entry.request,
        entry.route,
        None if before is None else before.version,
        abandoned=abandoned,
        topic_czxid=topic.czxid,
        expected=entry.expected,
        log_dirs=entry.log_dirs,
        unplaced=model.NO_BROKERS if before is None else before.unplaced_by(entry.log_dirs),
    )


def _acceptance_records(
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


def _original_of(
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
    view: ClusterView, entry: PlanEntry, original: Replicas | None, plan: model.Zxid
) -> Replicas | None:
    """
    Return the replicas of a partition before the plan that lists it, None when unknown.

    A controller of Kafka 2.3 that began an entry wrote the former replicas and those of the entry
    together, unmarked, after the plan appeared. What we saw before that proves which were the
    former.
    """
    topic, target = view.topics.by_name[entry.partition.topic], set(entry.target)
    written = topic.unmarked.get(entry.partition.partition)
    if written is None or original is None or not target <= set(original):
        return original
    is_older = 0 < written < plan
    seen = view.reassignments.before.get(entry.partition)
    if seen is not None and not is_older and set(seen) | target == set(original):
        return seen
    return None if written > plan else original


def cycle_share(view: ClusterView, most: int) -> int:
    """
    Reduce a per-cycle limit while other requests wait to be accepted.

    Long cycles have more throughput; a single request, or one that was accepted long ago, waits
    for no cycle. A request that was just submitted may be a small one.
    """
    session, legacy = view.requests_session, view.requests.legacy
    if session.short_cycles:
        return max(most // SHARES, 1)
    waiting = {
        s.request for name, s in session.submissions.items() if name not in session.left_submissions
    }
    is_plan_waiting = legacy is not None and len(legacy.entries) > view.reassignments.other_routes
    requesting = len(waiting) + bool(session.unread) + is_plan_waiting
    return most if requesting <= 1 else max(most // SHARES, 1)
