"""
The one door: what to write and what to send, given what is known and what changed.

``decide`` is a function of the view, the list of things due and the time. It changes nothing. Every
answer is level-triggered: calling it twice with the same view gives the same answer, and a thing
that was missed once is decided the next time its partition is looked at.

A decision's changes are independent of each other: each is durable as a whole or not at all, and
its effects follow only when it is. The decision's own effects need no write first; they are carried
out after the changes, so that what they tell brokers is what was just written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeGuard

from controller.core.agendas import Due
from controller.core.effects import Effect, SendLiveBrokers, SetTimer
from controller.core.model import (
    BrokerId,
    Instant,
    Refusal,
    RefusalReason,
    Route,
    TopicPartition,
)
from controller.core.moves.lacks import is_gone
from controller.core.moves.native import STOP_TIMER
from controller.core.pace.budgets import LEADER_MOVES_TIMER, Budget
from controller.core.pace.health import health_gate, topics_in_question
from controller.core.pace.paces import follow_pace
from controller.core.pace.sizes import follow_sizes
from controller.core.phases import Stopping
from controller.core.records import (
    Change,
    Decision,
    GoalEndedRecord,
    GoalRecord,
    LegacyEntryRecord,
    Record,
    RefusalRecord,
)
from controller.core.requests.acceptance import entry_text
from controller.core.requests.cancelling import follow_cancellation, needs_the_role
from controller.core.requests.conclusions import conclude
from controller.core.requests.legacy import (
    adopt_foreign,
    drop_taken_out,
    ended,
    follow_plan,
    is_judged,
)
from controller.core.requests.orders import put_in_order
from controller.core.requests.queues import drain_queue
from controller.core.requests.requests import accept_submissions, learn_submissions, refuse_disabled
from controller.core.requests.topic_configs import ask_ahead, ask_for_unwell
from controller.core.role.duties import introduce, leader_bounced
from controller.core.role.engines import engine_of
from controller.core.role.seeding import learn_topics
from controller.core.role.tenures import consider_tenure, hold_of
from controller.core.scans import outcome, scan
from controller.core.throttling.throttles import follow_throttles
from controller.core.view import ClusterView

ACK_TIMER = "leader_acknowledgement"
ACK_AGAIN_S = 30.0
"""How long a leader may leave a LeaderAndIsr unacknowledged before it is told again."""


def decide(view: ClusterView, due: Due, now: Instant) -> Decision:
    """
    Return what this turn wants.

    Args:
        view: Everything known; not changed.
        due: What changed since the last turn.
        now: The time of this turn.

    """
    parts = [learn_topics(view, due), learn_submissions(view)]
    if due.tenure:
        parts.append(consider_tenure(view, now))
    parts += [follow_throttles(view, due, now), follow_sizes(view, due, now)]
    if view.tenure is None and view.leading and view.legacy is not None:
        parts.append(ask_ahead(view, view.legacy, now))
    if view.tenure is not None and not view.resigning and view.fenced is None:
        parts += _in_tenure(view, due, now)
    elif view.tenure is None and view.leading and view.is_warm and not view.claiming:
        parts += _paperwork(view, due, now)
    return Decision(
        tuple(_first_of_each(chain.from_iterable(p.changes for p in parts))),
        tuple(chain.from_iterable(p.effects for p in parts)),
    )


def _first_of_each(changes: Iterable[Change]) -> Iterator[Change]:
    """
    Yield all but those that change a reassignment's record that another one before them changes.

    Overlapping requests are accepted in one turn, say. The later write would be refused, at a round
    trip for each partition; once the first is durable the other is decided anew.
    """
    written: set[TopicPartition] = set()
    for change in changes:
        own = {r.partition for r in change.records if _writes_goal(r)}
        if written.isdisjoint(own):
            written |= own
            yield change


def _writes_goal(record: Record) -> TypeGuard[GoalRecord | GoalEndedRecord]:
    match record:
        case GoalRecord():
            return True
        case GoalEndedRecord(version=version):
            return version is not None
        case _:
            return False


def _in_tenure(view: ClusterView, due: Due, now: Instant) -> list[Decision]:
    """Everything there is to do; the order of effects matters: brokers before partitions."""
    engine = engine_of(view)
    before = engine.duties(view, due, now)
    if engine.holds_role and not view.heeded:
        # What an operator took out of the plan is known now only; all else is looked at then.
        return [*before, _waiting(view, due, now), drop_taken_out(view, due)]
    cancelled = _cancelled(view, due, now)
    asked = _asked(view, due, now)
    turned = _turned(cancelled.changes)
    overtaken = _turned(chain.from_iterable(a.changes for a in asked))
    budget = Budget(view, now, hold_of(view), health_gate(view))
    partitions = _partitions(view, due, now, turned | overtaken, budget)
    parts = [
        *before,
        partitions,
        ask_for_unwell(view, due, now, topics_in_question(view, due)),
    ]
    if due.plan:
        starting = {c.partition for c in partitions.changes if c.partition is not None}
        parts.append(follow_plan(view, due, now, starting | turned))
    if view.may_have_foreign and (due.plan or due.claimed) and is_judged(view):
        # Before what is asked for, which then knows what of others it takes the place of.
        parts.append(adopt_foreign(view))
    parts += [cancelled, *asked]
    parts += engine.chores(view, due, now, budget)
    parts.append(follow_pace(view, due, now))
    if engine.holds_role and (due.timer or due.claimed):
        parts.append(_deadlines(view, due, now))
    return parts


def _waiting(view: ClusterView, due: Due, now: Instant) -> Decision:
    """Note what holds up everything, for the partitions that are to be looked at."""
    held = hold_of(view)
    return Decision(tuple(c for p in due.partitions for c in outcome(view, p, held, now)))


def _paperwork(view: ClusterView, due: Due, now: Instant) -> list[Decision]:
    """What a leading daemon may write without being the controller: nothing of Kafka's."""
    parts = []
    if due.submissions or due.tenure:
        parts.append(refuse_disabled(view))
    if (due.cancel or due.tenure) and not needs_the_role(view):
        parts.append(follow_cancellation(view, now))
    if due.endings or due.tenure:
        parts.append(conclude(view, now))
    return parts


def _asked(view: ClusterView, due: Due, now: Instant) -> list[Decision]:
    """What operators ask for besides: requests, then the queue."""
    parts = []
    if due.submissions or due.claimed:
        parts.append(accept_submissions(view, now))
    if due.queue or due.capacity or due.claimed:
        parts.append(drain_queue(view, now))
    if due.endings or due.claimed:
        parts.append(conclude(view, now))
    if due.order or due.claimed:
        parts.append(put_in_order(view))
    return parts


def _cancelled(view: ClusterView, due: Due, now: Instant) -> Decision:
    """Cancellations go before everything else that is asked for, and before any step."""
    if due.cancel or due.plan or due.claimed or due.capacity:
        return follow_cancellation(view, now)
    return Decision()


def _turned(asked: Iterable[Change]) -> set[TopicPartition]:
    """
    Return the partitions whose way a cancellation or an order ends or changes in this turn.

    No step of theirs is taken in the same turn: it would be decided on what they were. A record
    that goes while its first step is written leaves a step that nobody ends, and a step towards a
    target that is given up copies without the throttle of the new one.
    """
    return {
        change.partition
        for change in asked
        if change.partition is not None
        and any(isinstance(r, GoalRecord | GoalEndedRecord) for r in change.records)
    }


def _deadlines(view: ClusterView, due: Due, now: Instant) -> Decision:
    """Tell leaders again that owe an acknowledgement for long, and ask for the next times."""
    effects: list[Effect] = []
    deadlines = []
    for partition, reassignment in view.reassignments.items():
        phase = reassignment.phase
        if isinstance(phase, Stopping):
            if phase.deadline > now:
                deadlines.append(phase.deadline)
            continue
        owes = view.has_excluded(partition) and not view.is_acknowledged(partition)
        is_late = now >= reassignment.phase_since + ACK_AGAIN_S
        if owes and is_late and not leader_bounced(view, due, partition):
            replicas = view.live(view.serving_replicas(partition), partition)
            effects += introduce(view, partition, replicas)
    if view.refusers:
        # Nothing else may be sent to them that would show that they accept again.
        effects.append(SendLiveBrokers())
    effects.append(SetTimer(ACK_TIMER, Instant(now + ACK_AGAIN_S)))
    if deadlines:
        effects.append(SetTimer(STOP_TIMER, min(deadlines)))
    return Decision(effects=tuple(effects))


def _partitions(
    view: ClusterView,
    due: Due,
    now: Instant,
    turned: Collection[TopicPartition],
    budget: Budget,
) -> Decision:
    """Repair first, then advance; then give free slots to what waits."""
    changes: list[Change] = []
    for partition in due.partitions:
        if is_gone(view, partition):
            settled = _gone(view, partition)
        else:
            bounced = due.bounced | due.bounced_from.get(partition, set())
            settled = engine_of(view).repair(view, partition, bounced)
            if settled is not None:
                # What is dead now may be back before a write that is refused is tried again.
                failed = bounced | _dead_members(view, partition)
                settled = replace(settled, bounced=frozenset(failed))
        if settled is not None:
            changes.append(settled)
        elif partition in view.reassignments and partition not in turned:
            step = engine_of(view).advance(view, partition, now, budget)
            changes += outcome(view, partition, step, now)
    waiting = Decision()
    if due.capacity or due.claimed or due.line:
        waiting = scan(view, due, now, budget, turned)
    again: tuple[Effect, ...] = ()
    if budget.refused_leader_moves:
        again = (SetTimer(LEADER_MOVES_TIMER, Instant(now + 1.0)),)
    return Decision((*changes, *waiting.changes), (*waiting.effects, *again))


def _dead_members(view: ClusterView, partition: TopicPartition) -> set[BrokerId]:
    """Return the members of the ISR whose brokers are not registered."""
    state = view.states.get(partition)
    return set() if state is None else {r for r in state.isr if r not in view.brokers}


def _gone(view: ClusterView, partition: TopicPartition) -> Change | None:
    """End the reassignment of a partition that does not exist any more."""
    reassignment, legacy = view.reassignments.get(partition), view.legacy
    if reassignment is None:
        return None
    listed: tuple[Record, ...] = ()
    if legacy is not None and partition in legacy.entries:
        if legacy.stale:
            # Its entry goes with it: that would be refused until the znode is read again.
            return None
        listed = (LegacyEntryRecord(partition, None),)
    what = "partition" if partition.topic in view.topics else "topic"
    end = ended(partition, reassignment, f"{what} deleted")
    if reassignment.goal.route is Route.FOREIGN:
        # There is no request of ours whose outcome would ever be complete.
        return Change((end,), partition=partition)
    refusal = Refusal(
        reassignment.goal.request,
        entry_text(partition, reassignment.goal.target),
        RefusalReason.UNKNOWN_PARTITION,
        f"the {what} was deleted meanwhile",
        partition,
        was_accepted=True,
    )
    return Change((end, *listed, RefusalRecord((refusal,))), partition=partition)
