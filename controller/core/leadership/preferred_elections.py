"""Hold preferred elections, requested or for balance, at a limited rate: each disturbs clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from controller.core import effects, wakeups
from controller.core.leadership import duties, records
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.pacing.budget import Budget
from controller.core.pacing.records import LeaderMovedRecord
from controller.core.records import Change, Decision
from controller.core.view import ClusterView

BALANCE_TIMER = "leader_balance"


def hold_elections(view: ClusterView, now: Instant, budget: Budget) -> Decision:
    """
    Move leaderships to the first assigned replicas at a limited rate, then end the request.

    The change that writes an election removes it from the list: if the write is rejected the
    election is decided again, and only after all of them the request is deleted.
    """
    leadership = view.leadership
    ready, due_at = _ready(view)
    if not ready:
        version = leadership.preferred_version
        if version is None or leadership.preferred or leadership.unseeded:
            return Decision()
        return Decision((Change((records.PreferredElectionEndedRecord(version),)),))
    if now < due_at:
        return Decision(effects=(effects.SetTimer(wakeups.PREFERRED_TIMER, due_at),))
    changes = (c for p in ready if (c := _election(view, p, now, budget)) is not None)
    held = tuple(islice(changes, view.options.preferred_elections_per_second))
    # Also for the last ones: their write may be rejected.
    return Decision(held, (effects.SetTimer(wakeups.PREFERRED_TIMER, Instant(now + 1.0)),))


def _ready(view: ClusterView) -> tuple[list[TopicPartition], Instant]:
    """Return the partitions to elect for, except those with a reassignment, and when to do so."""
    ready = [p for p in view.leadership.preferred if p not in view.reassignments.by_partition]
    return ready, Instant(view.leadership_process.preferred_at + 1.0)


def _election(
    view: ClusterView, partition: TopicPartition, now: Instant, budget: Budget
) -> Change | None:
    """Return the change that removes an election from the list; None while it has to wait."""
    tried = records.PreferredTriedRecord((partition,), now)
    if _is_out_of_question(view, partition):
        return Change((tried,))
    if partition not in view.leadership.states or view.topics.assignment(partition) is None:
        return None
    if view.awaits_repair(partition):
        return None
    elected = duties.elect_preferred(view, partition)
    if elected is None:
        return Change((tried,))
    moved = _moved_leader(view, elected, now, budget)
    return None if moved is None else replace(elected, records=(*elected.records, moved, tried))


def _is_out_of_question(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Return whether an election of the partition is impossible or excluded.

    It has no state, or its topic is to be deleted: Kafka's controller refuses elections of topics
    that are queued for deletion. A state or topic that is being read is still undecided.
    """
    topics, leadership = view.topics, view.leadership
    name, number = partition
    topic = topics.by_name.get(name)
    if view.is_to_be_deleted(name) or name in topics.unreadable:
        return True
    if topic is None:
        return topics.listed is not None and name not in topics.listed
    if topic.stale or partition in leadership.states:
        return False
    reads = (leadership.unseeded, leadership.seeding, leadership.distrusted)
    is_awaited = any(partition in awaited for awaited in reads)
    return number not in topic.partitions or not is_awaited


def _moved_leader(
    view: ClusterView, elected: Change, now: Instant, budget: Budget
) -> LeaderMovedRecord | None:
    """Return the record of the leader move; None where a broker's limit is reached."""
    (write,) = [r for r in elected.records if isinstance(r, records.StateRecord)]
    old = view.leadership.states[write.partition].leader
    if budget.leader_gate(old, write.leader) is not None:
        return None
    budget.move_leader(old, write.leader)
    return LeaderMovedRecord((old, write.leader), now)


def balance_leaders(view: ClusterView, now: Instant) -> Decision:
    """
    Schedule preferred elections for brokers that lead too few of the partitions preferring them.

    As Kafka's controller does with ``auto.leader.rebalance.enable``
    (``checkAndTriggerAutoLeaderRebalance``), with two differences. The first check comes an
    interval after the claim, not seconds: the balance is no concern of a short tenure. And Kafka
    elects none while any partition is reassigned, which is nearly always so while we have the role;
    here only partitions with a reassignment are left out.
    """
    if not view.options.auto_leader_rebalance or view.tenure.held is None:
        return Decision()
    interval_s = view.options.leader_imbalance_check_interval_s
    check_at = Instant(
        max(view.leadership_process.balanced_at, view.tenure.held.since) + interval_s
    )
    if now < check_at:
        return Decision(effects=(effects.SetTimer(BALANCE_TIMER, check_at),))
    checked = records.LeadersBalancedRecord(tuple(_partitions_to_balance(view)), now)
    again = effects.SetTimer(BALANCE_TIMER, Instant(now + interval_s))
    return Decision((Change((checked,)),), (again,))


def _partitions_to_balance(view: ClusterView) -> Iterator[TopicPartition]:
    """Yield the partitions to elect for: of each broker above the percentage, those it can lead."""
    topics = view.topics
    preferring: Counter[BrokerId] = Counter()
    led_by_others: dict[BrokerId, list[TopicPartition]] = {}
    for partition in topics.partitions():
        assignment, state = topics.assignment(partition), view.leadership.states.get(partition)
        if assignment is None or view.is_to_be_deleted(partition.topic):
            continue
        preferred = assignment.replicas[0]
        preferring[preferred] += 1
        if state is not None and state.leader != preferred:
            led_by_others.setdefault(preferred, []).append(partition)
    percentage = view.options.leader_imbalance_per_broker_percentage
    for broker, partitions in led_by_others.items():
        if 100 * len(partitions) > percentage * preferring[broker]:
            idle = (p for p in partitions if p not in view.reassignments.by_partition)
            yield from (p for p in idle if duties.elect_preferred(view, p) is not None)


def request_elections(view: ClusterView, now: Instant) -> Decision:
    """Have the cluster's controller elect preferred leaders, at a limited rate."""
    ready, due_at = _ready(view)
    if not ready:
        return Decision()
    if now < due_at:
        return Decision(effects=(effects.SetTimer(wakeups.PREFERRED_TIMER, due_at),))
    tried = tuple(ready[: view.options.preferred_elections_per_second])
    requested = tuple(p for p in tried if not view.is_to_be_deleted(p.topic))
    later = effects.SetTimer(wakeups.PREFERRED_TIMER, Instant(now + 1.0))
    again = () if len(tried) == len(ready) else (later,)
    following = (effects.ElectPreferred(requested), *again) if requested else again
    return Decision((Change((records.PreferredTriedRecord(tried, now),)),), following)
