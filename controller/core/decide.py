"""
``decide``: what to write and what to send, from what is known and what changed.

``decide`` is a function of the view, the worklist and the time. It changes nothing. It is
level-triggered: two calls with the same view return the same decision, and an event that was missed
is made up for when its partition is examined next.

The changes of a decision are independent: each becomes durable as a whole or not at all, and its
effects follow only then. The decision's own effects need no write first; they are carried out after
the changes, so that they send what was just written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from controller.core import effects, wakeups
from controller.core.calls import broker_calls, client_calls
from controller.core.deletions import pending_deletions, topic_deletions
from controller.core.disks import log_dir_queries
from controller.core.leadership import cluster_loading, duties
from controller.core.leadership.duties import leader_bounced
from controller.core.leadership.records import StateRecord
from controller.core.model import (
    NO_BROKERS,
    Blocked,
    BlockedBy,
    Instant,
    RefusalReason,
    Route,
    TopicPartition,
)
from controller.core.pacing import isr_health
from controller.core.pacing.budget import Budget
from controller.core.pacing.governed_rates import govern_rates
from controller.core.pacing.throttles import follow_throttles
from controller.core.reassignments import phases
from controller.core.reassignments.gates import is_deleted
from controller.core.reassignments.model import Reassignment
from controller.core.reassignments.native import STOP_TIMER
from controller.core.reassignments.records import SpecEndedRecord, SpecRecord
from controller.core.reassignments.start_pending import (
    advance,
    order_pending,
    start_pending,
    step_or_wait,
)
from controller.core.records import Change, Decision, Record
from controller.core.requests import (
    completion,
    drains,
    legacy_plan_and_queue,
    quiescence,
    submitted,
)
from controller.core.requests.cancellation import follow_cancellation, needs_the_role
from controller.core.requests.entry_checks import PlanEntry
from controller.core.requests.model import PlanNode
from controller.core.requests.records import LegacyEntryRecord, RefusalRecord
from controller.core.requests.submissions import legacy_request_id
from controller.core.role import engines
from controller.core.role.claims_and_resignations import consider_tenure, hold_of
from controller.core.topics import topic_configs
from controller.core.topics.records import AssignmentRecord
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

AnyRecord = TypeVar("AnyRecord")

ACK_TIMER = "leader_acknowledgement"
ACK_AGAIN_S = 30.0
"""The time after which an unacknowledged LeaderAndIsr is sent again, in seconds."""


def decide(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Return the decision of this cycle; ``due`` is what changed since the last one."""
    tenure = view.tenure
    parts = [cluster_loading.read_topics(view, due), submitted.read_submissions(view)]
    if due.tenure:
        parts.append(consider_tenure(view, now))
    parts.append(govern_rates(view, due, now))
    parts += [follow_throttles(view, due, now), log_dir_queries.query_log_dirs(view, due, now)]
    if view.is_native:
        parts.append(topic_deletions.query_brokers(view, due, now))
    if tenure.held is None and view.role.leading and view.requests.legacy is not None:
        parts.append(topic_configs.request_ahead(view, view.requests.legacy, now))
    if tenure.held is not None and not tenure.resigning and tenure.fenced is None:
        parts += _in_tenure(view, due, now)
    elif tenure.held is None and view.role.leading and view.is_warm and not view.role.claiming:
        parts += _without_role(view, due, now)
    if due.pending_requests:
        states = {r.partition for r in _written(parts, StateRecord)}
        parts.append(broker_calls.answer_brokers(view, now, states))
        topics = {r.partition.topic for r in _written(parts, AssignmentRecord)}
        parts.append(client_calls.answer_clients(view, now, topics))
    return Decision(
        tuple(_first_of_each(chain.from_iterable(p.changes for p in parts))),
        tuple(chain.from_iterable(p.effects for p in parts)),
    )


def _written(parts: Iterable[Decision], kind: type[AnyRecord]) -> Iterator[AnyRecord]:
    every = chain.from_iterable(c.records for part in parts for c in part.changes)
    return (r for r in every if isinstance(r, kind))


def _first_of_each(changes: Iterable[Change]) -> Iterator[Change]:
    # Overlapping requests may be accepted in one cycle. The later write of a partition's record
    # would be rejected, at a round trip each; once the first is durable it is decided again.
    written: set[TopicPartition] = set()
    for change in changes:
        own = {
            r.partition
            for r in change.records
            if isinstance(r, SpecRecord)
            or (isinstance(r, SpecEndedRecord) and r.version is not None)
        }
        if written.isdisjoint(own):
            written |= own
            yield change


def _in_tenure(view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
    """Return everything that is due in a tenure; the order matters: brokers before partitions."""
    before = engines.duties_before(view, due, now)
    if view.is_native and not view.tenure.accepted_by_broker:
        # Entries removed from the plan are known only now; everything else is examined again then.
        return [*before, legacy_plan_and_queue.end_removed(view, due)]
    # Cancellations precede everything else that is requested, and any step.
    cancelled = Decision()
    if due.cancel or due.plan or due.claimed or due.capacity:
        cancelled, ended = follow_cancellation(view, now), quiescence.end_work(view, now)
        cancelled = Decision((*cancelled.changes, *ended), cancelled.effects)
    requested = _decide_requests(view, due, now)
    respecified = _respecified_partitions(cancelled.changes)
    replaced = _respecified_partitions(chain.from_iterable(a.changes for a in requested))
    budget = Budget(view, now, hold_of(view), isr_health.health_gate(view))
    partitions = _partitions(view, due, now, respecified | replaced, budget)
    unhealthy = isr_health.topics_in_question(view, due)
    parts = [*before, partitions]
    parts.append(topic_configs.request_for_unhealthy(view, due, now, unhealthy))
    if due.plan:
        starting = {c.partition for c in partitions.changes if c.partition is not None}
        parts.append(legacy_plan_and_queue.follow_plan(view, due, now, starting | respecified))
    if (
        view.reassignments_tenure.may_have_foreign
        and (due.plan or due.claimed)
        and legacy_plan_and_queue.is_judged(view)
    ):
        # Before requests, which then know the foreign reassignments that they replace.
        parts.append(legacy_plan_and_queue.adopt_foreign(view))
    parts += [cancelled, *requested]
    parts += engines.duties_after(view, due, now, budget)
    if view.is_native and (due.timer or due.claimed):
        parts.append(_deadlines(view, due, now))
    return parts


def _without_role(view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
    """Return what a leading daemon may write without being the controller: no znode of Kafka."""
    parts = []
    if due.submissions or due.tenure:
        parts.append(submitted.refuse_wholes(view))
    if view.quiesce is not None and (due.queue or due.tenure):
        parts.append(legacy_plan_and_queue.drain_queue(view, now))
    if (due.cancel or due.tenure) and not needs_the_role(view):
        parts.append(follow_cancellation(view, now))
    if due.drains or due.tenure:
        parts.append(Decision(tuple(drains.open_or_end(view, now))))
    if due.endings or due.tenure:
        parts.append(completion.conclude(view, now))
    return parts


def _decide_requests(view: ClusterView, due: Worklist, now: Instant) -> list[Decision]:
    parts = []
    if due.submissions or due.claimed:
        parts.append(submitted.accept_submissions(view, now))
    if due.queue or due.capacity or due.claimed:
        parts.append(legacy_plan_and_queue.drain_queue(view, now))
    if due.drains or due.claimed:
        parts.append(drains.follow_drains(view, now))
    if due.endings or due.claimed:
        parts.append(completion.conclude(view, now))
    if due.order or due.claimed:
        parts.append(order_pending(view))
    return parts


def _respecified_partitions(requested: Iterable[Change]) -> set[TopicPartition]:
    # They take no step in the same cycle: it would be based on the former spec. A record that is
    # deleted while its first step is written leaves a step that is never ended, and a step towards
    # a replaced target copies without the throttle of the new one.
    return {
        change.partition
        for change in requested
        if change.partition is not None
        and any(isinstance(r, SpecRecord | SpecEndedRecord) for r in change.records)
    }


def _deadlines(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Send overdue LeaderAndIsr again, and set the timers of the next deadlines."""
    reassignments, leadership = view.reassignments, view.leadership
    following: list[effects.Effect] = []
    deadlines = []
    for partition, reassignment in reassignments.by_partition.items():
        phase = reassignment.phase
        if isinstance(phase, phases.Stopping):
            if phase.deadline > now:
                deadlines.append(phase.deadline)
            if phase.deletes:
                continue
        owes = reassignments.has_excluded(partition) and not leadership.is_acknowledged(partition)
        is_late = now >= reassignment.phase_since + ACK_AGAIN_S
        state = leadership.states.get(partition)
        is_refused = state is not None and (state.leader, partition) in leadership.id_conflicts
        if owes and is_late and not is_refused and not leader_bounced(view, due, partition):
            replicas = view.receivers(view.serving_replicas(partition), partition)
            following += duties.send_leader_and_isr(view, partition, replicas)
    if view.tenure.refusers:
        # No other request may be due that would show that they accept again.
        following.append(effects.SendLiveBrokers())
    following.append(effects.SetTimer(ACK_TIMER, Instant(now + ACK_AGAIN_S)))
    if deadlines:
        following.append(effects.SetTimer(STOP_TIMER, min(deadlines)))
    return Decision(effects=tuple(following))


def _partitions(
    view: ClusterView,
    due: Worklist,
    now: Instant,
    respecified: Collection[TopicPartition],
    budget: Budget,
) -> Decision:
    """Repair partitions, then advance them; then give free slots to pending ones."""
    changes: list[Change] = []
    for partition in due.partitions:
        settled = _end_or_repair(view, due, partition)
        if settled is not None:
            changes.append(settled)
        elif (
            partition in view.reassignments.by_partition
            and partition not in respecified
            and not _is_first_read_awaited(view, partition)
        ):
            changes += step_or_wait(view, partition, _step(view, partition, now, budget), now)
    waiting = Decision()
    if due.capacity or due.claimed or due.line:
        waiting = start_pending(view, due, now, budget, respecified)
    again: tuple[effects.Effect, ...] = ()
    if budget.refused_leader_moves:
        again = (effects.SetTimer(wakeups.LEADER_MOVES_TIMER, Instant(now + 1.0)),)
    if budget.lacking_room:
        again += log_dir_queries.query_room(view, budget.lacking_room, now).effects
    return Decision((*changes, *waiting.changes), (*waiting.effects, *again))


def _is_first_read_awaited(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Return whether a step that a tenure took up waits for the read of its partition's state.

    All steps do at the begin of a tenure. Their common reason is not noted for each
    (``BlockedReasons``): it would delay the reads.
    """
    phase, leadership = view.reassignments.by_partition[partition].phase, view.leadership
    is_read = partition not in leadership.unseeded or partition in leadership.states
    return isinstance(phase, phases.Expanding) and not is_read


def _step(
    view: ClusterView, partition: TopicPartition, now: Instant, budget: Budget
) -> Change | Blocked | None:
    """Return the next step of a reassignment, or what it waits for."""
    if partition.topic in view.deletions.running:
        return Blocked(BlockedBy.TOPIC_DELETION, f"the topic is being deleted: {partition.topic}")
    if view.awaits_repair(partition):
        detail = "a broker restarted, and the state znode is being read"
        return Blocked(BlockedBy.STATE_UNKNOWN, detail)
    return advance(view, partition, now, budget)


def _end_or_repair(view: ClusterView, due: Worklist, partition: TopicPartition) -> Change | None:
    """Return the end of a reassignment whose partition is gone, or the repair of a partition."""
    if is_deleted(view, partition) or pending_deletions.is_carried_out(view, partition.topic):
        return _end_deleted(view, partition)
    if partition.topic in view.deletions.running:
        return None
    leadership = view.leadership
    kept = leadership.bounced.get(partition, NO_BROKERS)
    state = leadership.states.get(partition)
    if kept and state is not None and view.is_live(state.leader, partition):
        return None  # The state is read first: any write before that would take them for in sync.
    bounced = due.bounced.union(due.bounced_from.get(partition, NO_BROKERS), kept)
    settled = engines.repair(view, partition, bounced)
    if settled is None:
        return None
    # A broker that is dead now may be back before a rejected write is decided again.
    isr = () if state is None else state.isr
    failed = bounced.union(r for r in isr if r not in view.cluster.brokers)
    return replace(settled, bounced=frozenset(failed))


def _end_deleted(view: ClusterView, partition: TopicPartition) -> Change | None:
    """End the reassignment of a partition that does not exist any more, or not for long."""
    reassignment, legacy = view.reassignments.by_partition.get(partition), view.requests.legacy
    if reassignment is None:
        return None
    listed: tuple[Record, ...] = ()
    if legacy is not None and _is_listed(legacy, partition, reassignment):
        if legacy.stale:
            # Its entry is removed with it: that would be rejected until the znode is read again.
            return None
        listed = (LegacyEntryRecord(partition, None),)
    if view.is_of_former_topic(partition):
        ending, why = "topic deleted", "the topic was deleted and created again"
    else:
        topic = view.topics.by_name.get(partition.topic)
        what = "topic" if topic is None or partition.partition in topic.partitions else "partition"
        ending, why = f"{what} deleted", f"the {what} was deleted"
    end = legacy_plan_and_queue.spec_end(partition, reassignment, ending)
    if reassignment.spec.route is Route.FOREIGN:
        # A foreign reassignment has no request whose outcome would be recorded.
        return Change((end,), partition=partition)
    spec = reassignment.spec
    refusal = PlanEntry(spec.request, partition, spec.target).refusal(
        RefusalReason.UNKNOWN_PARTITION, why, was_accepted=True
    )
    return Change((end, *listed, RefusalRecord((refusal,))), partition=partition)


def _is_listed(legacy: PlanNode, partition: TopicPartition, reassignment: Reassignment) -> bool:
    """Return whether the plan lists a reassignment; a newer plan's entry is judged by itself."""
    is_of_plan = reassignment.spec.request == legacy_request_id(legacy.czxid)
    return is_of_plan and partition in legacy.entries
