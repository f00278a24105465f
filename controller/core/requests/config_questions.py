"""
Choose which topics' settings to ask for, and when to ask again.

``min.insync.replicas`` matters where something is reassigned, ``unclean.leader.election.enable``
where only a replica out of sync could lead, both where a partition may be under min ISR. Of all
other topics no settings are read.

An answer counts for ``config_refresh`` from its question on (``config_reads.forget_old_configs``).
What stays in use is asked for again at half that age, so that it does not become unknown between
two answers. One question covers every topic concerned, never a single partition.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.core.cached_znodes import PlanNode
from controller.core.effects import DescribeTopicConfigs, Effect, SetTimer
from controller.core.model import NO_LEADER, Instant, TopicPartition
from controller.core.records import Decision
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

CONFIG_TIMER = "topic_configs"
UNWELL_TIMER = "unwell_topic_configs"
CONFIG_RETRY_S = 5.0
NO_MARKS: Final[Mapping[str, int]] = {}


def ask(
    view: ClusterView,
    topics: Collection[str],
    now: Instant,
    timer: str = CONFIG_TIMER,
    after: Mapping[str, int] = NO_MARKS,
) -> list[Effect]:
    """
    Return the requests for settings that are unknown or half as old as they may be.

    Args:
        view: Everything known.
        topics: Whose settings are wanted.
        now: The time of this turn.
        timer: The timer to set for the next look.
        after: Topics of which only the answer to a question newer than this one counts.

    """
    times = {topic: _ask_at(view, topic, after.get(topic, -1)) for topic in topics}
    wanted = tuple(sorted(topic for topic, at in times.items() if at <= now))
    if not times:
        return []
    again = min((at for at in times.values() if at > now), default=math.inf)
    if not wanted:
        return [SetTimer(timer, Instant(again))]
    again = min(again, now + _retry_s(view))
    return [DescribeTopicConfigs(wanted), SetTimer(timer, Instant(again))]


def _ask_at(view: ClusterView, topic: str, after: int) -> float:
    """Return when a topic's settings are to be asked for: before what is known grows too old."""
    asked, known = view.asked_configs.get(topic), view.config_answers.get(topic)
    if asked is None or asked.number <= after:
        return -math.inf
    again = asked.at + _retry_s(view)
    if known is None or known.number <= after:
        return again
    return max(again, known.at + view.options.config_refresh_s / 2)


def _retry_s(view: ClusterView) -> float:
    return min(CONFIG_RETRY_S, view.options.config_refresh_s / 2)


def unknown(view: ClusterView, partitions: Iterable[TopicPartition]) -> set[str]:
    """Return the topics of these partitions that exist and whose settings are not known."""
    return {p.topic for p in partitions if p.topic in view.topics} - view.configs.keys()


def ask_ahead(view: ClusterView, legacy: PlanNode, now: Instant) -> Decision:
    """Ask for the settings of a new plan's topics while the role is still being claimed."""
    refresh_s = view.options.config_refresh_s
    not_asked = [
        topic
        for topic in unknown(view, legacy.entries)
        if (asked := view.asked_configs.get(topic)) is None or now - asked.at >= refresh_s
    ]
    return Decision(effects=tuple(ask(view, not_asked, now)))


def ask_for_unwell(
    view: ClusterView, due: Worklist, now: Instant, in_question: Collection[str]
) -> Decision:
    """
    Ask whether a replica out of sync may lead, where no other is left, and what is under min ISR.

    Again from time to time: an operator who gives records up says so when the partition is offline.

    Args:
        view: Everything known.
        due: What changed since the last turn.
        now: The time of this turn.
        in_question: Topics of which the cluster's health has to be judged.

    """
    marks: dict[str, int] = {}
    for partition in due.partitions:
        if _is_stranded(view, partition):
            mark = view.leaderless.get(partition, -1)
            marks[partition.topic] = max(marks.get(partition.topic, -1), mark)
    topics = marks.keys() | set(in_question)
    return Decision(effects=tuple(ask(view, topics, now, UNWELL_TIMER, marks)))


def _is_stranded(view: ClusterView, partition: TopicPartition) -> bool:
    state = view.states.get(partition)
    if state is None or state.leader != NO_LEADER:
        return False
    return bool(view.live(view.serving_replicas(partition), partition))
