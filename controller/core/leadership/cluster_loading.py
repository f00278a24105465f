"""
The reads of a tenure, and the states that brokers are sent from them.

Accepted work is read first, the rest in the background, one bounded read at a time. Where a broker
stays the controller, leaders do not notify us of ISR changes, and new partitions get their first
state some time after their topic znode: watched states are read at once, the others in rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from itertools import chain, islice
from math import ceil
from typing import Final

from controller.core import effects
from controller.core.leadership import records
from controller.core.leadership.duties import leader_bounced, send_leader_and_isr, send_states
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.reassignments import phases
from controller.core.reassignments.records import OrphanEndedRecord
from controller.core.records import Change, Decision
from controller.core.role.records import StatesPolledRecord
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

NAMES_AT_ONCE: Final = 200
"""Notifications deleted in one multi: it must stay well below ZooKeeper's limit."""
SEED_TIMER: Final = "seed"
HEAD_START_S: Final = 0.5
ROUND_TIMER: Final = "round"
ROUND_EVERY_S: Final = 5.0
ROUND_STATES: Final = 1000
"""States read at a time: first those out of sync, then the next of all others."""
MISSING_TIMER: Final = "missing_states"
MISSING_EVERY_S: Final = 1.0
"""The interval of reads of up to ``ROUND_STATES`` missing states; more take longer."""


def read_topics(view: ClusterView, due: Worklist) -> Decision:
    """Read topics that are listed and not known yet, and those to be read again now."""
    topics = view.topics
    wanted = set(due.overtaken_topics)
    if due.listed_topics and topics.listed is not None:
        known = topics.by_name.keys() | topics.requested | topics.unreadable.keys()
        wanted |= topics.listed - known
    return Decision(effects=(effects.ReadTopics(tuple(sorted(wanted))),) if wanted else ())


def seed(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """
    Read the states this tenure has not read: the work first, the rest in the background.

    Each after its topic. The rest waits a moment where there is work: reading thousands of states
    keeps a processor busy.
    """
    tenure, leadership = view.tenure, view.leadership
    if not leadership.unseeded or tenure.held is None:
        return Decision()
    first: dict[TopicPartition, None] = {}
    if due.claimed or due.plan:
        plan = view.requests.legacy.entries if view.requests.legacy is not None else {}
        first = dict.fromkeys(
            p
            for p in chain(view.reassignments.by_partition, plan)
            if p in leadership.unseeded and p not in leadership.seeding
        )
    if not first and not leadership.seeding:
        ready_at = Instant(tenure.held.since + HEAD_START_S)
        if now < ready_at and (view.requests.legacy is not None or view.reassignments.by_partition):
            return Decision(effects=(effects.SetTimer(SEED_TIMER, ready_at),))
        first = dict.fromkeys(islice(leadership.unseeded, view.options.seed_chunk))
    if not first:
        return Decision()
    return Decision(effects=reads_of(view, tuple(first), effects.ReadPurpose.SEED))


def reads_of(
    view: ClusterView, partitions: tuple[TopicPartition, ...], purpose: effects.ReadPurpose
) -> tuple[effects.Effect, ...]:
    """Return the reads of states, and before them of their topics that are invalid."""
    topics, being_read = view.topics.by_name, view.topics_tenure.reading
    named = dict.fromkeys(p.topic for p in partitions if p.topic not in being_read)
    invalid = tuple(name for name in named if name in topics and topics[name].stale)
    read = effects.ReadStates(partitions, purpose)
    return (effects.ReadTopics(invalid), read) if invalid else (read,)


def send_reads(view: ClusterView, due: Worklist) -> Decision:
    """
    Send first reads to the brokers concerned, and ISR changes of leaders to all brokers.

    Brokers ignore an epoch they have; others may lack it, as the former controller died before it
    sent. The answers are also the only source for offline log directories.
    """
    following: list[effects.Effect] = [*send_states(view, due, due.seeded)]
    changed = tuple(p for p in chain(due.seeded, due.refreshed) if p in view.leadership.states)
    if changed:
        following.append(effects.SendUpdateMetadata(changed))
    return Decision(effects=tuple(following))


def follow_watches(view: ClusterView, due: Worklist) -> Decision:
    """Read the states whose watch fired and that a reassignment waits for."""
    moved, awaiting = view.reassignments.by_partition, phases.Syncing | phases.Stopping
    waiting = (p for p in due.changed if p in moved and isinstance(moved[p].phase, awaiting))
    return Decision(effects=_watched_reads(waiting))


def _watched_reads(partitions: Iterable[TopicPartition]) -> tuple[effects.Effect, ...]:
    wanted = tuple(sorted(partitions))
    return (effects.ReadStates(wanted, effects.ReadPurpose.WATCH),) if wanted else ()


def follow_notifications(view: ClusterView, due: Worklist) -> Decision:
    """Handle the notifications of leaders and brokers, and delete them."""
    leadership = view.leadership
    following: list[effects.Effect] = []
    notified = tuple(p for p in due.notified if p in leadership.states)
    if notified:
        following.append(effects.ReadStates(notified, effects.ReadPurpose.REFRESH))
    for broker in sorted(due.log_dir_brokers):
        for partition in leadership.states:
            is_served = broker in view.serving_replicas(partition)
            if is_served and not leader_bounced(view, due, partition):
                following += send_leader_and_isr(view, partition, (broker,))
    changes = [
        Change((records.NotificationsDeletedRecord(kind, names[start : start + NAMES_AT_ONCE]),))
        for kind, names in view.leadership_process.notifications.items()
        for start in range(0, len(names), NAMES_AT_ONCE)
    ]
    return Decision(tuple(changes), tuple(following))


# --- brokers that come and go ---------------------------------------------------------------------


def channels(view: ClusterView, due: Worklist) -> Decision:
    """Open and close channels, and send every broker the live brokers."""
    brokers = view.cluster.brokers
    following: list[effects.Effect] = []
    if due.claimed:
        following += map(effects.OpenChannel, brokers.values())
    else:
        following += map(effects.CloseChannel, sorted(due.left | due.bounced | due.elsewhere))
        following += [effects.OpenChannel(brokers[b]) for b in sorted(due.joined) if b in brokers]
    if due.claimed or due.brokers_changed:
        following.append(effects.SendLiveBrokers())
    return Decision(effects=tuple(following))


def inform_joined(view: ClusterView, due: Worklist) -> Decision:
    """
    Send a joined broker everything: all metadata, every replica it has, every pending StopReplica.

    The same for one with new endpoints: requests under way to it are lost. After a claim nothing is
    needed: the seeding informs every broker.
    """
    leadership = view.leadership
    joined = tuple(b for b in sorted(due.joined) if b in view.cluster.brokers)
    if due.claimed or not joined:
        return Decision()
    following: list[effects.Effect] = [effects.SendUpdateMetadata(tuple(leadership.states), joined)]
    for broker in joined:
        # A dictionary: it keeps the order, and a broker may lead tens of thousands.
        led = dict.fromkeys(
            p
            for p, state in leadership.states.items()
            if state.leader == broker and p.topic not in view.deletions.running
        )
        for partition in leadership.states:
            if broker in view.serving_replicas(partition) and partition not in led:
                following += send_leader_and_isr(view, partition, (broker,))
        if led:
            # It lost the states that it led, and may have changed an ISR since we read it: a
            # leader that gets an older ISR of its own epoch commits without the replicas it lacks.
            following.append(effects.ReadStates(tuple(led), effects.ReadPurpose.CONFLICT))
        following += _stops(view, broker)
    return Decision(effects=tuple(following))


def _stops(view: ClusterView, broker: BrokerId) -> list[effects.Effect]:
    """Repeat the StopReplica requests that may be lost with a broker's former channel."""
    states = view.leadership.states
    return [
        effects.SendStopReplica(partition, broker, states[partition].leader_epoch, delete)
        for partition, reassignment in view.reassignments.by_partition.items()
        if isinstance(reassignment.phase, phases.Stopping)
        and broker in reassignment.phase.waiting
        and partition in states
        for delete in ((False, True) if reassignment.phase.deletes else (False,))
    ]


# --- states that others write -------------------------------------------------------------------


def follow_watched(view: ClusterView, due: Worklist) -> Decision:
    """Read the awaited states whose watch fired; delete obsolete orphan records."""
    waiting = (p for p in due.changed if p in view.reassignments.by_partition)
    return Decision(tuple(_end_settled_orphans(view, due)), _watched_reads(waiting))


def _end_settled_orphans(view: ClusterView, due: Worklist) -> list[Change]:
    """
    End the records of orphans whose log or topic is gone, or whose broker is a replica again.

    Nothing is certain while the topic is being read: the controller may have given the broker a
    replica, or dropped the one that was read.
    """
    topics = view.topics
    if not (due.orphans or due.claimed or due.listed_topics or due.gone_orphans):
        return []
    ended = []
    for orphan in view.reassignments.orphans.values():
        topic = topics.by_name.get(orphan.partition.topic)
        if topic is None:
            is_over = topics.listed is not None and orphan.partition.topic not in topics.listed
        else:
            assignment = topic.partitions.get(orphan.partition.partition)
            is_over = not topic.stale and (
                topic.czxid != orphan.topic_czxid
                or (assignment is not None and orphan.broker in assignment.replicas)
                or orphan in due.gone_orphans
            )
        if is_over:
            ended.append(Change((OrphanEndedRecord(orphan),)))
    return ended


def poll_states(view: ClusterView, due: Worklist, now: Instant) -> Decision:
    """Read some states again while there is work: steps depend on the health of the cluster."""
    leadership, role = view.leadership, view.role
    if not view.reassignments.by_partition or not (due.timer or due.claimed or due.plan):
        return Decision()
    if now < role.round_at:
        return Decision(effects=(effects.SetTimer(ROUND_TIMER, role.round_at),))
    known = [*leadership.states, *(p for p in leadership.stateless if p not in leadership.states)]
    rest = islice(chain(known[role.round_from :], known[: role.round_from]), ROUND_STATES)
    wanted = tuple(dict.fromkeys(chain(islice(view.pacing.shrunk, ROUND_STATES), rest)))
    again = Instant(now + ROUND_EVERY_S)
    record = StatesPolledRecord(again, (role.round_from + ROUND_STATES) % max(len(known), 1))
    following: list[effects.Effect] = [effects.SetTimer(ROUND_TIMER, again)]
    if wanted:
        following.append(effects.ReadStates(wanted, effects.ReadPurpose.ROUND))
    return Decision((Change((record,)),), tuple(following))


def read_missing(
    view: ClusterView, due: Worklist, missing: Iterable[TopicPartition], now: Instant
) -> Decision:
    """Read ``missing`` states that reassignments wait for: no watch reports their creation."""
    if not view.reassignments.by_partition:
        return Decision()
    if now < view.role.missing_at:
        again = effects.SetTimer(MISSING_TIMER, view.role.missing_at)
        return Decision(effects=(again,) if due.timer else ())
    wanted = tuple(sorted(p for p in missing if p in view.reassignments.by_partition))
    if not wanted:
        return Decision()
    again = effects.SetTimer(MISSING_TIMER, missing_again(wanted, now))
    return Decision(effects=(effects.ReadStates(wanted, effects.ReadPurpose.MISSING), again))


def missing_again(partitions: Sized, now: Instant) -> Instant:
    """Return when missing states are read again, after a read of this many."""
    return Instant(now + MISSING_EVERY_S * ceil(len(partitions) / ROUND_STATES))
