"""
The plans that are znodes: ``/admin/reassign_partitions``, and the queue of KIP-236.

Entries of the legacy plan are accepted at once and leave it as they finish. A Kafka controller that
takes over starts everything it finds there; so under ``absorb`` it lists only what is in flight.
The znode is deleted last.

``/admin/reassign_partitions_queue`` is drained as slots become free. An entry leaves it in the
multi that accepts it. Where its partition is in flight, the step is retargeted, whatever the route
of its reassignment. While reassignments are disabled or paused no entry leaves the queue. While the
reassigner is quiesced all are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice

from controller.core import core_settings, effects
from controller.core.disks import known_directories, log_dir_queries
from controller.core.model import Instant, RefusalReason, Route, TopicPartition, request_text
from controller.core.pacing.limits_in_force import in_flight_max
from controller.core.reassignments import foreign_policy
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.orphans import left_where_it_stands
from controller.core.reassignments.records import ForeignAdoptedRecord, SpecEndedRecord, SpecRecord
from controller.core.records import Change, Decision
from controller.core.requests import acceptance, completion, records
from controller.core.requests.acceptance import Judgement
from controller.core.requests.entry_checks import PlanEntry, is_undecidable, refusal_of
from controller.core.requests.model import PlanNode
from controller.core.requests.submissions import legacy_request_id, queue_request_id
from controller.core.topics import topic_configs
from controller.core.topics.model import Topic
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

QUEUE_CONFIG_TIMER = "queue_topic_configs"


def follow_plan(
    view: ClusterView, due: Worklist, now: Instant, starting: Collection[TopicPartition]
) -> Decision:
    """Accept new entries, end removed ones, tidy the znode, request topic settings."""
    changes = [*end_removed(view, due, starting).changes]
    following: list[effects.Effect] = []
    legacy = view.requests.legacy
    planned = set() if legacy is None else {p.topic for p in legacy.entries}
    if legacy is not None and not legacy.stale:
        judged = _judge_plan(view, legacy)
        if not (judged.changes or changes or judged.waits):
            changes += _tidy(view, legacy, starting, now)
        changes += judged.changes
        following = log_dir_queries.query_named(view, judged.unknown_brokers, now)
    # The settings of every topic with work are requested again when they are old.
    topics = (planned | view.reassignments.topics_at_work.keys()) & view.topics.by_name.keys()
    configs = topic_configs.request_configs(view, topics, now)
    return Decision(tuple(changes), (*configs, *following))


def end_removed(
    view: ClusterView, due: Worklist, starting: Collection[TopicPartition] = ()
) -> Decision:
    """End entries that an operator removed from the znode, except those beginning in this cycle."""
    gone = [p for p in sorted(due.dropped) if p not in starting]
    return Decision(tuple(c for p in gone if (c := _end_removed_entry(view, p)) is not None))


def _end_removed_entry(view: ClusterView, partition: TopicPartition) -> Change | None:
    """
    End an entry that was removed before it began; one in flight continues.

    Another controller may have begun it: the topic znode says so before its next step is decided.
    """
    reassignment = view.reassignments.by_partition.get(partition)
    assignment = view.topics.assignment(partition)
    if reassignment is None or reassignment.has_moved:
        return None
    if assignment is None or assignment.is_reassigning:
        return None
    if reassignment.may_have_placed(assignment):
        return None
    spec = reassignment.spec
    if spec.route is not Route.LEGACY or spec.rolls_back:
        # A rollback has no entry any more: the removed one was another plan's.
        return None
    listed = {} if view.requests.legacy is None else view.requests.legacy.entries
    if listed.get(partition) == spec.target:
        # It was listed again while it was not known whether it has begun.
        return None
    refusal = PlanEntry(spec.request, partition, spec.target).refusal(
        RefusalReason.DROPPED_BY_OPERATOR,
        "it was removed from /admin/reassign_partitions before it began",
        was_accepted=True,
    )
    return Change(
        (
            *left_where_it_stands(view, partition, reassignment),
            spec_end(partition, reassignment, "dropped"),
            records.RefusalRecord((refusal,)),
        ),
        partition=partition,
    )


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
        summary = completion.summary_of(view, legacy_request_id(legacy.czxid), now)
        ended = records.LegacyPlanEndedRecord(legacy.version)
        return [Change((ended, records.RequestOutcomeRecord(summary)))]
    mirror = view.options.legacy_mode is core_settings.LegacyMode.MIRROR
    known = view.reassignments.by_partition
    surplus = tuple(
        records.LegacyEntryRecord(p, None)
        for p in legacy.entries
        if p not in starting and not (p in known and (mirror or known[p].begun))
    )
    return [Change(surplus)] if surplus else []


# --- the entries of the legacy plan --------------------------------------------------------------


def _judge_plan(view: ClusterView, plan: PlanNode) -> Judgement:
    """Judge the entries of ``/admin/reassign_partitions`` that are not accepted yet."""
    request, judged = legacy_request_id(plan.czxid), Judgement()
    if plan.unreadable is not None:
        ended = records.LegacyPlanEndedRecord(plan.version)
        judged.changes.append(
            acceptance.refuse_unreadable(ended, request, plan.unreadable, plan.raw)
        )
        return judged
    judged.changes += acceptance.refuse_malformed(view, request, plan.refused)
    chunk = acceptance.cycle_share(view, view.options.acceptance_chunk)
    for partition, target in plan.entries.items():
        if len(judged.changes) >= chunk:
            judged.waits = True
            break
        if not is_taken(view, plan, partition):
            log_dirs = plan.log_dirs.get(partition, ())
            entry = PlanEntry(request, partition, target, log_dirs, route=Route.LEGACY)
            _judge_listed(view, entry, judged)
    return judged


def is_taken(view: ClusterView, plan: PlanNode, partition: TopicPartition) -> bool:
    """
    Return whether an entry of the plan is recorded as it is listed.

    A Kafka controller that rewrites the plan omits the directories, which then stay as recorded.
    """
    known = view.reassignments.by_partition.get(partition)
    if known is None or known.spec.route is not Route.LEGACY:
        return False
    named = plan.log_dirs.get(partition, ())
    if known.spec.target != plan.entries[partition] or (
        named not in {(), known.spec.log_dirs} and not known.spec.rolls_back
    ):
        return False
    return not view.is_of_former_topic(partition)


def _judge_listed(view: ClusterView, entry: PlanEntry, judged: Judgement) -> None:
    if is_undecidable(view, entry.partition):
        judged.waits = True
        return
    running = view.reassignments.by_partition.get(entry.partition)
    refusal = refusal_of(view, entry) or acceptance.refused_without_approval(view, entry)
    if refusal is None and view.disabled_because is not None and running is None:
        refusal = entry.refusal(RefusalReason.DISABLED, view.disabled_because)
    if refusal is None and running is not None and running.spec.route is Route.REQUEST:
        why = f"it is being reassigned by {request_text(running.spec.request)}"
        refusal = entry.refusal(RefusalReason.OTHER_ROUTE, why)
    if refusal is not None:
        left = records.LegacyEntryRecord(entry.partition, None)
        refused = (left, records.RefusalRecord((refusal,)))
        judged.changes.append(Change(refused, partition=entry.partition))
    elif judged.is_decidable(view, entry):
        judged.changes.append(acceptance.accept_entry(view, entry))


def entries_to_remove(view: ClusterView) -> tuple[records.LegacyEntryRecord, ...]:
    """
    Return the entries to remove before a broker becomes the controller: it would start them.

    Pending ones, also between two steps, are durable in our own records. What is in flight stays,
    and so do unjudged entries, which exist nowhere else.
    """
    legacy = view.requests.legacy
    if (
        legacy is None
        or legacy.stale
        or view.options.legacy_mode is core_settings.LegacyMode.MIRROR
    ):
        return ()
    return tuple(
        records.LegacyEntryRecord(p, None)
        for p in legacy.entries
        if is_taken(view, legacy, p) and not view.reassignments.by_partition[p].in_flight
    )


def would_be_started(view: ClusterView) -> bool:
    """Return whether entries are listed that a broker would start as the controller."""
    legacy = view.requests.legacy
    is_mirror = view.options.legacy_mode is core_settings.LegacyMode.MIRROR
    return is_mirror and legacy is not None and bool(legacy.entries)


def has_undecided(view: ClusterView) -> bool:
    """Return whether entries of the legacy plan will soon be accepted or refused."""
    legacy = view.requests.legacy
    if legacy is None:
        return False
    return legacy.stale or any(
        p.topic not in view.topics.config_errors and not is_taken(view, legacy, p)
        for p in legacy.entries
    )


def is_judged(view: ClusterView) -> bool:
    """Return whether every entry of the legacy plan was accepted or refused."""
    if view.requests.legacy is None:
        return True
    judged = _judge_plan(view, view.requests.legacy)
    return not (judged.waits or judged.changes)


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
            adopted = SpecRecord(partition, foreign_policy.foreign_spec(assignment, topic.czxid))
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


# --- the queue -----------------------------------------------------------------------------------


def is_standing_still(view: ClusterView) -> bool:
    """Return whether nothing may leave the queue."""
    pauses, queue = view.pacing_process.controls.pauses, view.requests.queue
    if view.requests_session.kill_switch or pauses.everything is not None or queue is None:
        return True
    return queue_request_id(queue.czxid) in pauses.requests


def drain_queue(view: ClusterView, now: Instant) -> Decision:
    """Take as many entries as there are slots, in their order."""
    queue = view.requests.queue
    if (
        queue is None
        or queue.stale
        or view.requests.is_choosing
        or not view.requests_leadership.history_read
    ):
        return Decision()
    request, ended = queue_request_id(queue.czxid), records.QueueEndedRecord(queue.version)
    if queue.unreadable is not None:
        refused = acceptance.refuse_unreadable(ended, request, queue.unreadable, queue.raw)
        return Decision((refused,))
    judged = Judgement(acceptance.refuse_malformed(view, request, queue.refused))
    if not queue.entries and not judged.changes:
        return Decision((Change((ended,)),))
    if view.quiesce is not None:
        return Decision((*judged.changes, *_refuse_queued(view, queue, str(view.quiesce))))
    if is_standing_still(view):
        return Decision(tuple(judged.changes))
    pacing = view.pacing
    begun = pacing.in_flight + len(pacing.waiting) + len(pacing.resumed)
    for partition, target in islice(queue.entries.items(), max(in_flight_max(view) - begun, 0)):
        entry = PlanEntry(request, partition, target, queue.log_dirs.get(partition, ()))
        change = _take_queued(view, entry, judged)
        if change is not None:
            judged.changes.append(change)
        else:
            judged.unknown_brokers |= known_directories.unknown_brokers(view, entry.log_dirs)
    following = judged.reads(view, now, QUEUE_CONFIG_TIMER)
    return Decision(tuple(judged.changes), tuple(following))


def _refuse_queued(view: ClusterView, queue: PlanNode, why: str) -> Iterator[Change]:
    """Refuse the next entries of the queue whatever they are: that needs no controller role."""
    request = queue_request_id(queue.czxid)
    for partition, target in islice(queue.entries.items(), view.options.acceptance_chunk):
        refusal = PlanEntry(request, partition, target).refusal(RefusalReason.DISABLED, why)
        left = records.QueueEntryEndedRecord(partition)
        yield Change((left, records.RefusalRecord((refusal,))), partition=partition)


def _take_queued(view: ClusterView, entry: PlanEntry, judged: Judgement) -> Change | None:
    """Return how an entry leaves the queue, accepted or refused; None: it waits."""
    partition = entry.partition
    if is_undecidable(view, partition):
        return None
    left = records.QueueEntryEndedRecord(partition)
    refusal = (
        refusal_of(view, entry)
        or acceptance.refused_without_approval(view, entry)
        or acceptance.refused_for_foreign(view, entry)
    )
    if refusal is not None:
        return Change((left, records.RefusalRecord((refusal,))), partition=partition)
    if foreign_policy.waits_for_foreign(view, partition) or not judged.is_decidable(view, entry):
        return None
    taken = take_over(view, entry)
    return None if taken is None else replace(taken, records=(*taken.records, left))


def take_over(view: ClusterView, entry: PlanEntry) -> Change | None:
    """
    Return the acceptance of an entry, whatever the route of the reassignment that it replaces.

    None: an entry of the legacy plan is removed with that, which is read again first.
    """
    partition, legacy = entry.partition, view.requests.legacy
    running = view.reassignments.by_partition.get(partition)
    accepted = acceptance.accept_entry(view, entry)
    if running is None or running.spec.route is not Route.LEGACY or legacy is None:
        return accepted
    if legacy.stale:
        # The removal of its entry would be rejected until the znode is read again.
        return None
    if partition not in legacy.entries:
        return accepted
    removed = records.LegacyEntryRecord(partition, None)
    return replace(accepted, records=(*accepted.records, removed))
