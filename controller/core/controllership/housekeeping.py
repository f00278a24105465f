"""
The smaller duties of a tenure: preferred elections, notifications, orphans.

None of them delays a reassignment; elections are limited, because each disturbs clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from controller.core import effects, events, model, records, wakeups
from controller.core.controllership import duties
from controller.core.cycle import leader_bounced
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.partition.orphans import is_kept, orphan_records
from controller.core.records import Change, Decision
from controller.core.scheduling.budget import Budget
from controller.core.state.process import Departure
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

BALANCE_TIMER = "leader_balance"
NAMES_AT_ONCE = 200
"""Notifications deleted in one multi: it must stay well below ZooKeeper's limit."""
LOST_WITHIN_S: Final = 5.0
"""
The time within which a broker carries out the StopReplica for a dropped replica, in seconds.

One whose death is read within it after the drop may have missed the request.
"""


def hold_elections(view: ClusterView, now: Instant, budget: Budget) -> Decision:
    """
    Move leaderships to the first assigned replicas at a limited rate, then end the request.

    The change that writes an election removes it from the list: if the write is rejected the
    election is decided again, and only after all of them the request is deleted.
    """
    tenure = view.tenure
    ready = [p for p in tenure.preferred if p not in view.work.reassignments]
    if not ready:
        if tenure.preferred_version is not None and not tenure.preferred and not tenure.unseeded:
            return Decision(
                (Change((records.PreferredElectionEndedRecord(tenure.preferred_version),)),)
            )
        return Decision()
    if now < view.cluster.preferred_at + 1.0:
        return Decision(
            effects=(
                effects.SetTimer(wakeups.PREFERRED_TIMER, Instant(view.cluster.preferred_at + 1.0)),
            )
        )
    changes = (c for p in ready if (c := _election(view, p, now, budget)) is not None)
    held = tuple(islice(changes, view.options.preferred_elections_per_second))
    # Also for the last ones: their write may be rejected.
    return Decision(held, (effects.SetTimer(wakeups.PREFERRED_TIMER, Instant(now + 1.0)),))


def _election(
    view: ClusterView, partition: TopicPartition, now: Instant, budget: Budget
) -> Change | None:
    """Return the change that removes an election from the list; None while it has to wait."""
    tried = records.PreferredTriedRecord((partition,), now)
    if _is_out_of_question(view, partition):
        return Change((tried,))
    if partition not in view.tenure.states or view.session.assignment(partition) is None:
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
    session, tenure = view.session, view.tenure
    name, number = partition
    topic = session.topics.get(name)
    if name in (session.deletions or ()) or name in session.unreadable_topics:
        return True
    if topic is None:
        return session.listed is not None and name not in session.listed
    if topic.stale or partition in tenure.states:
        return False
    is_awaited = (
        partition in tenure.unseeded
        or partition in tenure.seeding
        or partition in tenure.distrusted
    )
    return number not in topic.partitions or not is_awaited


def _moved_leader(
    view: ClusterView, elected: Change, now: Instant, budget: Budget
) -> records.LeaderMovedRecord | None:
    """Return the record of the leader move; None where a broker's limit is reached."""
    (write,) = [r for r in elected.records if isinstance(r, records.StateRecord)]
    old = view.tenure.states[write.partition].leader
    if budget.leader_gate(old, write.leader) is not None:
        return None
    budget.move_leader(old, write.leader)
    return records.LeaderMovedRecord((old, write.leader), now)


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
    check_at = Instant(max(view.cluster.balanced_at, view.tenure.held.since) + interval_s)
    if now < check_at:
        return Decision(effects=(effects.SetTimer(BALANCE_TIMER, check_at),))
    checked = records.LeadersBalancedRecord(tuple(_unbalanced(view)), now)
    again = effects.SetTimer(BALANCE_TIMER, Instant(now + interval_s))
    return Decision((Change((checked,)),), (again,))


def _unbalanced(view: ClusterView) -> Iterator[TopicPartition]:
    """Yield the partitions to elect for: of each broker above the percentage, those it can lead."""
    session = view.session
    preferring: Counter[BrokerId] = Counter()
    led_by_others: dict[BrokerId, list[TopicPartition]] = {}
    for partition in session.partitions():
        assignment, state = session.assignment(partition), view.tenure.states.get(partition)
        if assignment is None or partition.topic in (session.deletions or ()):
            continue
        preferred = assignment.replicas[0]
        preferring[preferred] += 1
        if state is not None and state.leader != preferred:
            led_by_others.setdefault(preferred, []).append(partition)
    percentage = view.options.leader_imbalance_per_broker_percentage
    for broker, partitions in led_by_others.items():
        if 100 * len(partitions) > percentage * preferring[broker]:
            yield from (p for p in partitions if _may_be_balanced(view, p))


def _may_be_balanced(view: ClusterView, partition: TopicPartition) -> bool:
    return (
        partition not in view.work.reassignments
        and duties.elect_preferred(view, partition) is not None
    )


def order_elections(view: ClusterView, now: Instant) -> Decision:
    """Have the cluster's controller elect preferred leaders, at a limited rate."""
    ready = [p for p in view.tenure.preferred if p not in view.work.reassignments]
    if not ready:
        return Decision()
    if now < view.cluster.preferred_at + 1.0:
        return Decision(
            effects=(
                effects.SetTimer(wakeups.PREFERRED_TIMER, Instant(view.cluster.preferred_at + 1.0)),
            )
        )
    tried = tuple(ready[: view.options.preferred_elections_per_second])
    again = (
        ()
        if len(tried) == len(ready)
        else (effects.SetTimer(wakeups.PREFERRED_TIMER, Instant(now + 1.0)),)
    )
    ordered = tuple(p for p in tried if p.topic not in (view.session.deletions or ()))
    following = (effects.ElectPreferred(ordered), *again) if ordered else again
    return Decision((Change((records.PreferredTriedRecord(tried, now),)),), following)


def follow_notifications(view: ClusterView, due: Worklist) -> Decision:
    """Handle the notifications of leaders and brokers, and delete them."""
    tenure = view.tenure
    following: list[effects.Effect] = []
    notified = tuple(p for p in due.notified if p in tenure.states)
    if notified:
        following.append(effects.ReadStates(notified, effects.ReadPurpose.REFRESH))
    for broker in sorted(due.log_dir_brokers):
        for partition in tenure.states:
            is_served = broker in view.serving_replicas(partition)
            if is_served and not leader_bounced(view, due, partition):
                following += duties.send_leader_and_isr(view, partition, (broker,))
    changes = [
        Change((records.NotificationsDeletedRecord(kind, names[start : start + NAMES_AT_ONCE]),))
        for kind, names in view.cluster.notifications.items()
        for start in range(0, len(names), NAMES_AT_ONCE)
    ]
    return Decision(tuple(changes), tuple(following))


def announce_departures(view: ClusterView, due: Worklist) -> Decision:
    """
    Record the replicas that another controller dropped just before our claim: they may remain.

    Recorded once: the record is deleted when the broker confirmed that no log is left. Where a
    reassignment of ours continues, its own end records them.
    """
    work, cluster = view.work, view.cluster
    changes = []
    # Of other topics nothing new is known before a read.
    for departure in cluster.departed if due.claimed or due.plan else ():
        broker, partition, _ = departure
        assignment = _assignment_since(view, departure)
        if assignment is None or partition in work.reassignments:
            continue
        if broker not in assignment.replicas and (broker, partition) not in work.orphans:
            left = ((broker, "dropped by another controller"),)
            state = view.tenure.states.get(partition)
            # Nothing is deleted before the leader confirmed the present epoch.
            leader = (
                (state.leader,) if state is not None and state.leader in cluster.brokers else ()
            )
            is_informed = not leader_bounced(view, due, partition)
            following = duties.send_leader_and_isr(view, partition, leader) if is_informed else ()
            written = orphan_records(view, partition, left)
            changes.append(Change(written, partition=partition, effects=following))
    return Decision(tuple(changes))


def _assignment_since(view: ClusterView, departure: Departure) -> model.PartitionAssignment | None:
    """Return the present assignment; None if it is not known, or of a later topic."""
    topic = view.session.topics.get(departure.partition.topic)
    if topic is None or topic.czxid != departure.topic_czxid:
        return None
    return view.session.assignment(departure.partition)


def record_lost(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """
    Record replicas that the cluster's controller dropped from brokers that prove to be dead.

    A topic znode may be read before the registrations of brokers, though these changed first. The
    controller sends StopReplica once; a broker that misses it keeps the log.
    """
    if not due.brokers_changed:
        return Decision()
    changes = []
    for departure, seen in view.cluster.departed.items():
        broker, partition, _ = departure
        is_gone = broker not in view.cluster.brokers or broker in due.bounced
        if not is_gone or now - seen > LOST_WITHIN_S:
            continue
        reassignment = view.work.reassignments.get(partition)
        if reassignment is not None and broker in reassignment.lost:
            continue
        assignment = _assignment_since(view, departure)
        if assignment is None or broker in assignment.replicas:
            continue
        if (broker, partition) not in view.work.orphans:
            left = ((broker, "its broker died when the controller dropped the replica"),)
            changes.append(Change(orphan_records(view, partition, left), partition=partition))
    return Decision(tuple(changes))


def delete_orphans(view: ClusterView, due: Worklist) -> Decision:
    """Delete orphans whose broker is back, if it is still safe."""
    tenure = view.tenure
    ended = set(due.buried)
    following: list[effects.Effect] = []
    if due.orphans or due.claimed or due.joined or due.seeded or due.listed_topics:
        for orphan in view.work.orphans.values():
            if _is_obsolete(view, orphan):
                ended.add(orphan)
                continue
            if orphan in tenure.orphans_tried or view.is_undeletable(orphan):
                continue
            if orphan.broker in view.cluster.brokers and _is_deletable(view, orphan):
                epoch = tenure.states[orphan.partition].leader_epoch
                following += [
                    effects.SendStopReplica(orphan.partition, orphan.broker, epoch, delete)
                    for delete in (False, True)
                ]
    changes = [Change((records.OrphanEndedRecord(orphan),)) for orphan in _in_order(ended)]
    return Decision(tuple(changes), tuple(following))


def _in_order(orphans: Iterable[events.Orphan]) -> list[events.Orphan]:
    return sorted(orphans, key=lambda o: (o.broker, o.partition))


def _is_obsolete(view: ClusterView, orphan: events.Orphan) -> bool:
    """
    Return whether a record will never be ours to delete.

    The topic is gone, was recreated, or has a replica on that broker again. A kept record would be
    endless work, and the role would be held for it.
    """
    name, number = orphan.partition
    topic = view.session.topics.get(name)
    if topic is None or topic.stale:
        return view.session.listed is not None and name not in view.session.listed
    assignment = topic.partitions.get(number)
    again = assignment is not None and orphan.broker in assignment.replicas
    return again or topic.czxid != orphan.topic_czxid


def _is_deletable(view: ClusterView, orphan: events.Orphan) -> bool:
    """
    Return whether an orphan may be deleted.

    Its very topic exists, has no replica on that broker, and the present leader confirmed the
    present epoch in this tenure; and no live replica lacks its data.
    """
    topic = view.session.topics.get(orphan.partition.topic)
    if topic is None or topic.stale or topic.czxid != orphan.topic_czxid:
        return False
    assignment = topic.partitions.get(orphan.partition.partition)
    state = view.tenure.states.get(orphan.partition)
    if assignment is None or state is None:
        return False
    if orphan.broker in assignment.replicas or orphan.broker in state.isr:
        return False
    if is_kept(view, orphan.partition):
        return False
    return view.tenure.confirmed.get(orphan.partition) == (state.leader, state.leader_epoch)
