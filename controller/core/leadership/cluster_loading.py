"""
Load the cluster in a tenure: topic znodes and first states, and send brokers what was found.

Accepted work is read first, the rest in the background, one bounded read at a time.
"""

from __future__ import annotations

from itertools import chain, islice

from controller.core import effects
from controller.core.leadership import duties, records
from controller.core.leadership.duties import leader_bounced, send_leader_and_isr
from controller.core.model import Instant, TopicPartition
from controller.core.reassignments import phases
from controller.core.records import Change, Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

NAMES_AT_ONCE = 200
"""Notifications deleted in one multi: it must stay well below ZooKeeper's limit."""
SEED_TIMER = "seed"
HEAD_START_S = 0.5


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

    Each after its topic, of which nothing is decided before it was read in this tenure. The rest
    waits a moment where there is work: reading thousands of states keeps a processor busy.
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
    leadership = view.leadership
    following: list[effects.Effect] = []
    for partition in due.seeded:
        if partition in leadership.states and not leader_bounced(view, due, partition):
            replicas = view.receivers(view.serving_replicas(partition), partition)
            following += send_leader_and_isr(view, partition, replicas)
    changed = tuple(p for p in chain(due.seeded, due.refreshed) if p in leadership.states)
    if changed:
        following.append(effects.SendUpdateMetadata(changed))
    return Decision(effects=tuple(following))


def follow_watches(view: ClusterView, due: Worklist) -> Decision:
    """Read the states whose watch fired and that a reassignment waits for."""
    reassignments = view.reassignments
    wanted = tuple(
        p
        for p in sorted(due.changed)
        if p in reassignments.by_partition
        and isinstance(reassignments.by_partition[p].phase, phases.Syncing)
    )
    return Decision(
        effects=(effects.ReadStates(wanted, effects.ReadPurpose.WATCH),) if wanted else ()
    )


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
                following += duties.send_leader_and_isr(view, partition, (broker,))
    changes = [
        Change((records.NotificationsDeletedRecord(kind, names[start : start + NAMES_AT_ONCE]),))
        for kind, names in view.leadership_process.notifications.items()
        for start in range(0, len(names), NAMES_AT_ONCE)
    ]
    return Decision(tuple(changes), tuple(following))
