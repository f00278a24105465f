"""
The life of ``/admin/reassign_partitions``: accepted, in step with what is in flight, deleted last.

Entries leave it as they finish. What a Kafka controller would find in it, if we died now, it would
start whole; so under ``absorb`` it lists only what is in flight.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.core.agendas import Due
from controller.core.effects import Effect
from controller.core.foreign import foreign_goal
from controller.core.model import (
    Instant,
    Refusal,
    RefusalReason,
    Route,
    TopicPartition,
)
from controller.core.moves.remnants import left_where_it_stands
from controller.core.nodes import PlanNode
from controller.core.options import LegacyMode
from controller.core.records import (
    Change,
    Decision,
    ForeignAdoptedRecord,
    GoalEndedRecord,
    GoalRecord,
    LegacyEntryRecord,
    LegacyPlanEndedRecord,
    OutcomeRecord,
    Record,
    RefusalRecord,
)
from controller.core.requests.acceptance import (
    accept_legacy,
    entry_text,
    is_taken,
    legacy_request_id,
)
from controller.core.requests.conclusions import summary_of
from controller.core.requests.topic_configs import ask
from controller.core.view import ClusterView
from controller.core.works import Reassignment


def follow_plan(
    view: ClusterView, due: Due, now: Instant, starting: Collection[TopicPartition]
) -> Decision:
    """Accept new entries, drop what an operator took out, tidy the znode, learn topic settings."""
    changes = [*drop_taken_out(view, due, starting).changes]
    legacy = view.legacy
    if legacy is not None and not legacy.stale:
        accepted = accept_legacy(view, legacy)
        if not (accepted.changes or changes) and accepted.is_complete:
            changes += _tidy(view, legacy, starting, now)
        changes += accepted.changes
    return Decision(tuple(changes), tuple(_learn_configs(view, now)))


def drop_taken_out(
    view: ClusterView, due: Due, starting: Collection[TopicPartition] = ()
) -> Decision:
    """End what an operator took out of the znode, but for what begins in this turn."""
    gone = [p for p in sorted(due.dropped) if p not in starting]
    return Decision(tuple(c for p in gone if (c := _dropped(view, p)) is not None))


def _learn_configs(view: ClusterView, now: Instant) -> list[Effect]:
    """Ask for the settings of every topic with work, again when they are old."""
    planned = {p.topic for p in view.legacy.entries} if view.legacy is not None else set()
    return ask(view, (planned | view.topics_at_work.keys()) & view.topics.keys(), now)


def _dropped(view: ClusterView, partition: TopicPartition) -> Change | None:
    """
    End what an operator took out of the znode before it began; what is in flight goes on.

    Another controller may have begun it: the topic znode says so before its next step is decided.
    """
    reassignment, assignment = view.reassignments.get(partition), view.assignment(partition)
    if reassignment is None or reassignment.has_moved:
        return None
    if assignment is None or assignment.is_reassigning:
        return None
    if reassignment.goal.route is not Route.LEGACY or reassignment.goal.rolls_back:
        # What goes back has no entry any more: the one taken out was another plan's.
        return None
    listed = {} if view.legacy is None else view.legacy.entries
    if listed.get(partition) == reassignment.goal.target:
        # It was listed again while it was not known whether it has begun.
        return None
    refusal = Refusal(
        reassignment.goal.request,
        entry_text(partition, reassignment.goal.target),
        RefusalReason.DROPPED_BY_OPERATOR,
        "it was taken out of /admin/reassign_partitions before it began",
        partition,
        was_accepted=True,
    )
    records: tuple[Record, ...] = (
        *left_where_it_stands(view, partition, reassignment),
        ended(partition, reassignment, "dropped"),
        RefusalRecord((refusal,)),
    )
    return Change(records, partition=partition)


def ended(partition: TopicPartition, reassignment: Reassignment, outcome: str) -> GoalEndedRecord:
    """Return the end of a reassignment that did not reach its target."""
    goal = reassignment.goal
    return GoalEndedRecord(partition, goal.version, goal.request, outcome)


def _tidy(
    view: ClusterView, legacy: PlanNode, starting: Collection[TopicPartition], now: Instant
) -> list[Change]:
    """Leave in the znode only what belongs there, and take it away with the last entry."""
    if not legacy.entries and not view.legacy_reassignments():
        return [_plan_ended(view, legacy, now)]
    mirror = view.options.legacy_mode is LegacyMode.MIRROR
    surplus = tuple(
        LegacyEntryRecord(p, None)
        for p in legacy.entries
        if p not in starting and not _belongs(view, p, mirror=mirror)
    )
    if not surplus and view.options.annotate_legacy and not legacy.written:
        # Written as they are: whoever writes them adds where they come from.
        surplus = tuple(LegacyEntryRecord(p, r) for p, r in legacy.entries.items())
    return [Change(surplus)] if surplus else []


def _belongs(view: ClusterView, partition: TopicPartition, *, mirror: bool) -> bool:
    reassignment = view.reassignments.get(partition)
    return reassignment is not None and (mirror or reassignment.begun)


def unlisted(view: ClusterView) -> tuple[LegacyEntryRecord, ...]:
    """
    Return the entries to take out before a broker becomes the controller: it would start them.

    What waits, even between two steps, is durable in our own records. What is in flight stays, and
    what was not judged: nobody else knows of it.
    """
    legacy = view.legacy
    if legacy is None or legacy.stale or view.options.legacy_mode is LegacyMode.MIRROR:
        return ()
    waiting = (p for p, target in legacy.entries.items() if is_taken(view, p, target))
    return tuple(LegacyEntryRecord(p, None) for p in waiting if not view.reassignments[p].in_flight)


def would_be_started(view: ClusterView) -> bool:
    """Whether entries stay listed that a broker would start if it became the controller."""
    legacy = view.legacy
    return (
        legacy is not None
        and view.options.legacy_mode is LegacyMode.MIRROR
        and bool(legacy.entries)
    )


def has_undecided(view: ClusterView) -> bool:
    """Whether entries will soon be accepted or refused; one whose settings fail may never be."""
    legacy = view.legacy
    if legacy is None:
        return False
    return legacy.stale or any(
        p.topic not in view.config_errors and not is_taken(view, p, target)
        for p, target in legacy.entries.items()
    )


def _plan_ended(view: ClusterView, legacy: PlanNode, now: Instant) -> Change:
    request = legacy_request_id(legacy.czxid)
    outcome = OutcomeRecord(summary_of(view, request, now))
    return Change((LegacyPlanEndedRecord(legacy.version), outcome))


def is_judged(view: ClusterView) -> bool:
    """Whether every entry of the znode became a goal or was refused."""
    if view.legacy is None:
        return True
    accepted = accept_legacy(view, view.legacy)
    return accepted.is_complete and not accepted.changes


def adopt_foreign(view: ClusterView) -> Decision:
    """Take up what others recorded in the topic znodes, with their own target."""
    changes: list[Change] = []
    for name, topic in view.topics.items():
        if topic.stale:
            continue
        for number, assignment in topic.partitions.items():
            partition = TopicPartition(name, number)
            if not assignment.is_reassigning or partition in view.reassignments:
                continue
            told = GoalRecord(partition, foreign_goal(assignment))
            changes.append(Change((told,), partition=partition))
    if not any(topic.stale for topic in view.topics.values()):
        changes.append(Change((ForeignAdoptedRecord(),)))
    return Decision(tuple(changes))
