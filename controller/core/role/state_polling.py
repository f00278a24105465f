"""
Poll states that others write: watched ones at once, the rest in rounds.

Where a broker stays the controller, leaders do not notify us of ISR changes, and new partitions get
their first state some time after their topic znode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from itertools import chain, islice
from math import ceil
from typing import Final

from controller.core.effects import Effect, ReadPurpose, ReadStates, SetTimer
from controller.core.model import Instant, TopicPartition
from controller.core.reassignments.records import OrphanEndedRecord
from controller.core.records import Change, Decision
from controller.core.role.records import StatesPolledRecord
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

ROUND_TIMER: Final = "round"
ROUND_EVERY_S: Final = 5.0
ROUND_STATES: Final = 1000
"""States read at a time: first those out of sync, then the next of all others."""
MISSING_TIMER: Final = "missing_states"
MISSING_EVERY_S: Final = 1.0
"""The interval of reads of up to ``ROUND_STATES`` missing states; more take longer."""


def follow_watched(view: ClusterView, due: Worklist) -> Decision:
    """Read the awaited states whose watch fired; delete obsolete orphan records."""
    wanted = tuple(p for p in sorted(due.changed) if p in view.reassignments.by_partition)
    effects: tuple[Effect, ...] = (ReadStates(wanted, ReadPurpose.WATCH),) if wanted else ()
    return Decision(tuple(_end_settled_orphans(view, due)), effects)


def _end_settled_orphans(view: ClusterView, due: Worklist) -> list[Change]:
    """
    End the records of orphans whose log or topic is gone, or whose broker is a replica again.

    A log that is gone is no proof while the topic is being read: the controller may have given the
    broker a replica, and the record ends with that.
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
            is_over = (
                topic.czxid != orphan.topic_czxid
                or (assignment is not None and orphan.broker in assignment.replicas)
                or (orphan in due.gone_orphans and not topic.stale)
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
        return Decision(effects=(SetTimer(ROUND_TIMER, role.round_at),))
    known = [
        *leadership.states,
        *(p for p in leadership.stateless if p not in leadership.states),
    ]
    rest = islice(chain(known[role.round_from :], known[: role.round_from]), ROUND_STATES)
    wanted = tuple(dict.fromkeys(chain(islice(view.pacing.shrunk, ROUND_STATES), rest)))
    again = Instant(now + ROUND_EVERY_S)
    record = StatesPolledRecord(again, (role.round_from + ROUND_STATES) % max(len(known), 1))
    effects: list[Effect] = [SetTimer(ROUND_TIMER, again)]
    if wanted:
        effects.append(ReadStates(wanted, ReadPurpose.ROUND))
    return Decision((Change((record,)),), tuple(effects))


def read_missing(
    view: ClusterView, due: Worklist, missing: Iterable[TopicPartition], now: Instant
) -> Decision:
    """
    Read missing states again that reassignments wait for.

    All of them at once, in one pipelined read: no watch reports the creation of a state.

    Args:
        view: Everything known.
        due: What changed since the last cycle.
        missing: Partitions without a state znode, or with an unreadable one.
        now: The time of this cycle.

    """
    if not view.reassignments.by_partition:
        return Decision()
    if now < view.role.missing_at:
        again = SetTimer(MISSING_TIMER, view.role.missing_at)
        return Decision(effects=(again,) if due.timer else ())
    wanted = tuple(sorted(p for p in missing if p in view.reassignments.by_partition))
    if not wanted:
        return Decision()
    again = SetTimer(MISSING_TIMER, missing_again(wanted, now))
    return Decision(effects=(ReadStates(wanted, ReadPurpose.MISSING), again))


def missing_again(partitions: Sized, now: Instant) -> Instant:
    """Return when missing states are read again, after a read of this many."""
    return Instant(now + MISSING_EVERY_S * ceil(len(partitions) / ROUND_STATES))
