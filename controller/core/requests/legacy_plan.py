"""
The life of ``/admin/reassign_partitions``: accepted, kept in step with the work, deleted last.

Entries leave it as they finish. A Kafka controller that takes over starts everything it finds
there; so under ``absorb`` it lists only what is in flight.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.core import effects, options
from controller.core.disks import log_dir_queries
from controller.core.model import Instant, Refusal, RefusalReason, Route, TopicPartition
from controller.core.reassignments import gates
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.orphans import left_where_it_stands
from controller.core.reassignments.records import ForeignAdoptedRecord, SpecEndedRecord, SpecRecord
from controller.core.records import Change, Decision, Record
from controller.core.requests import acceptance, completion, records
from controller.core.requests.model import PlanNode
from controller.core.topics import topic_configs
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.core.worklist import Worklist


def follow_plan(
    view: ClusterView, due: Worklist, now: Instant, starting: Collection[TopicPartition]
) -> Decision:
    """Accept new entries, end removed ones, tidy the znode, request topic settings."""
    changes = [*end_removed(view, due, starting).changes]
    following: list[effects.Effect] = []
    legacy = view.requests.legacy
    if legacy is not None and not legacy.stale:
        accepted = acceptance.accept_legacy(view, legacy)
        if not (accepted.changes or changes) and accepted.is_complete:
            changes += _tidy(view, legacy, starting, now)
        changes += accepted.changes
        if accepted.unknown_brokers:
            following = log_dir_queries.query_named(view, accepted.unknown_brokers, now)
    return Decision(tuple(changes), (*_learn_configs(view, now), *following))


def end_removed(
    view: ClusterView, due: Worklist, starting: Collection[TopicPartition] = ()
) -> Decision:
    """End entries that an operator removed from the znode, except those beginning in this cycle."""
    gone = [p for p in sorted(due.dropped) if p not in starting]
    return Decision(tuple(c for p in gone if (c := _end_removed_entry(view, p)) is not None))


def _learn_configs(view: ClusterView, now: Instant) -> list[effects.Effect]:
    """Request the settings of every topic with work, again when they are old."""
    requests = view.requests
    planned = {p.topic for p in requests.legacy.entries} if requests.legacy is not None else set()
    return topic_configs.request_configs(
        view, (planned | view.reassignments.topics_at_work.keys()) & view.topics.by_name.keys(), now
    )


def _end_removed_entry(view: ClusterView, partition: TopicPartition) -> Change | None:
    """
    End an entry that was removed before it began; one in flight continues.

    Another controller may have begun it: the topic znode says so before its next step is decided.
    """
    reassignment, assignment = (
        view.reassignments.by_partition.get(partition),
        view.topics.assignment(partition),
    )
    if reassignment is None or reassignment.has_moved:
        return None
    if assignment is None or assignment.is_reassigning:
        return None
    if reassignment.may_have_placed(assignment):
        return None
    if reassignment.spec.route is not Route.LEGACY or reassignment.spec.rolls_back:
        # A rollback has no entry any more: the removed one was another plan's.
        return None
    listed = {} if view.requests.legacy is None else view.requests.legacy.entries
    if listed.get(partition) == reassignment.spec.target:
        # It was listed again while it was not known whether it has begun.
        return None
    refusal = Refusal(
        reassignment.spec.request,
        acceptance.entry_text(partition, reassignment.spec.target),
        RefusalReason.DROPPED_BY_OPERATOR,
        "it was removed from /admin/reassign_partitions before it began",
        partition,
        was_accepted=True,
    )
    written: tuple[Record, ...] = (
        *left_where_it_stands(view, partition, reassignment),
        spec_end(partition, reassignment, "dropped"),
        records.RefusalRecord((refusal,)),
    )
    return Change(written, partition=partition)


def spec_end(
    partition: TopicPartition, reassignment: Reassignment, outcome: str
) -> SpecEndedRecord:
    """Return the end of a reassignment that did not reach its target."""
    spec = reassignment.spec
    return SpecEndedRecord(partition, spec.version, spec.request, outcome)


def _tidy(
    view: ClusterView, legacy: PlanNode, starting: Collection[TopicPartition], now: Instant
) -> list[Change]:
    """Leave in the znode only what belongs there, and delete it with the last entry."""
    if not legacy.entries and not view.reassignments.legacy_reassignments():
        return [_plan_ended(view, legacy, now)]
    mirror = view.options.legacy_mode is options.LegacyMode.MIRROR
    surplus = tuple(
        records.LegacyEntryRecord(p, None)
        for p in legacy.entries
        if p not in starting and not _belongs(view, p, mirror=mirror)
    )
    return [Change(surplus)] if surplus else []


def _belongs(view: ClusterView, partition: TopicPartition, *, mirror: bool) -> bool:
    reassignment = view.reassignments.by_partition.get(partition)
    return reassignment is not None and (mirror or reassignment.begun)


def entries_to_remove(view: ClusterView) -> tuple[records.LegacyEntryRecord, ...]:
    """
    Return the entries to remove before a broker becomes the controller: it would start them.

    Pending ones, also between two steps, are durable in our own records. What is in flight stays,
    and so do unjudged entries, which exist nowhere else.
    """
    legacy = view.requests.legacy
    if legacy is None or legacy.stale or view.options.legacy_mode is options.LegacyMode.MIRROR:
        return ()
    waiting = (p for p, target in legacy.entries.items() if acceptance.is_taken(view, p, target))
    return tuple(
        records.LegacyEntryRecord(p, None)
        for p in waiting
        if not view.reassignments.by_partition[p].in_flight
    )


def would_be_started(view: ClusterView) -> bool:
    """Return whether entries are listed that a broker would start as the controller."""
    legacy = view.requests.legacy
    return (
        legacy is not None
        and view.options.legacy_mode is options.LegacyMode.MIRROR
        and bool(legacy.entries)
    )


def has_undecided(view: ClusterView) -> bool:
    """Return whether entries will soon be accepted or refused."""
    legacy = view.requests.legacy
    if legacy is None:
        return False
    return legacy.stale or any(
        p.topic not in view.topics.config_errors and not acceptance.is_taken(view, p, target)
        for p, target in legacy.entries.items()
    )


def _plan_ended(view: ClusterView, legacy: PlanNode, now: Instant) -> Change:
    request = acceptance.legacy_request_id(legacy.czxid)
    outcome = records.RequestOutcomeRecord(completion.summary_of(view, request, now))
    return Change((records.LegacyPlanEndedRecord(legacy.version), outcome))


def is_judged(view: ClusterView) -> bool:
    """Return whether every entry of the znode was accepted or refused."""
    if view.requests.legacy is None:
        return True
    accepted = acceptance.accept_legacy(view, view.requests.legacy)
    return accepted.is_complete and not accepted.changes


def adopt_foreign(view: ClusterView) -> Decision:
    """Adopt the foreign reassignments in the topic znodes, with their own target."""
    topics = view.topics
    changes: list[Change] = []
    for name, topic in topics.by_name.items():
        if topic.stale:
            continue
        for number, assignment in topic.partitions.items():
            partition = TopicPartition(name, number)
            if not assignment.is_reassigning or partition in view.reassignments.by_partition:
                continue
            spec = gates.foreign_spec(assignment, topic.czxid)
            adopted = SpecRecord(partition, spec)
            changes.append(Change((adopted,), partition=partition))
    if not any(_is_awaited(view, name, topic) for name, topic in topics.by_name.items()):
        changes.append(Change((ForeignAdoptedRecord(),)))
    return Decision(tuple(changes))


def _is_awaited(view: ClusterView, name: str, topic: Topic) -> bool:
    """
    Return whether foreign reassignments of a topic are not known before it is read.

    Another topic that shows one when it is read has them adopted once more.
    """
    return topic.stale and (
        name in view.reassignments.topics_at_work
        or any(assignment.is_reassigning for assignment in topic.partitions.values())
    )
