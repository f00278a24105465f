"""
States that others change while we work: the watched ones at once, the rest in rounds.

Only where a broker stays the controller: nobody announces to us then whose ISR changed.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Final

from controller.core.agendas import Due
from controller.core.effects import Effect, ReadPurpose, ReadStates, SetTimer
from controller.core.model import Instant
from controller.core.records import Change, Decision, LookedRoundRecord, OrphanEndedRecord
from controller.core.view import ClusterView

ROUND_TIMER: Final = "round"
ROUND_EVERY_S: Final = 5.0
ROUND_STATES: Final = 1000
"""States read at a time: first those out of sync, then the next of all others."""


def follow_watched(view: ClusterView, due: Due) -> Decision:
    """Read the states whose watch fired and that somebody waits for; forget useless records."""
    wanted = tuple(p for p in sorted(due.changed) if p in view.reassignments)
    effects: tuple[Effect, ...] = (ReadStates(wanted, ReadPurpose.WATCH),) if wanted else ()
    return Decision(tuple(_readopted(view, due)), effects)


def _readopted(view: ClusterView, due: Due) -> list[Change]:
    """End the records of orphans whose topic is gone, or whose broker is a replica again."""
    if not (due.orphans or due.claimed or due.listed_topics):
        return []
    ended = []
    for orphan in view.orphans.values():
        topic = view.topics.get(orphan.partition.topic)
        if topic is None:
            is_over = view.listed is not None and orphan.partition.topic not in view.listed
        else:
            assignment = topic.partitions.get(orphan.partition.partition)
            is_over = topic.czxid != orphan.topic_czxid or (
                assignment is not None and orphan.broker in assignment.replicas
            )
        if is_over:
            ended.append(Change((OrphanEndedRecord(orphan),)))
    return ended


def look_round(view: ClusterView, due: Due, now: Instant) -> Decision:
    """Read some states anew while there is work: the health of the cluster decides about steps."""
    if not view.reassignments or not (due.timer or due.claimed or due.plan):
        return Decision()
    if now < view.round_at:
        return Decision(effects=(SetTimer(ROUND_TIMER, view.round_at),))
    known = list(view.states)
    rest = islice(chain(known[view.round_from :], known[: view.round_from]), ROUND_STATES)
    wanted = tuple(dict.fromkeys(chain(islice(view.shrunk, ROUND_STATES), rest)))
    again = Instant(now + ROUND_EVERY_S)
    record = LookedRoundRecord(again, (view.round_from + ROUND_STATES) % max(len(known), 1))
    effects: list[Effect] = [SetTimer(ROUND_TIMER, again)]
    if wanted:
        effects.append(ReadStates(wanted, ReadPurpose.ROUND))
    return Decision((Change((record,)),), tuple(effects))
