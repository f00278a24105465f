"""
Choose which topics' settings to request, and when to request them again.

``min.insync.replicas`` matters where something is reassigned, ``unclean.leader.election.enable``
where only a replica out of sync could lead, both where a partition may be under min ISR. Of all
other topics no settings are read.

An answer is valid for ``config_refresh`` from its request
(``topic_config_reads.forget_old_configs``). Settings in use are requested again at half that age,
so that they do not become unknown between two answers. One request covers every topic concerned,
never a single partition.
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
    Return the requests for settings that are unknown or half as old as permitted.

    Args:
        view: Everything known.
        topics: The topics whose settings are wanted.
        now: The time of this cycle.
        timer: The timer to set for the next look.
        after: Topics for which only the answer to a request newer than this one counts.

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
    """Return when a topic's settings are to be requested: before the known ones grow too old."""
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
    """Request the settings of a new plan's topics while the role is still being claimed."""
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
    Request the settings of partitions without a leader, and of those possibly under min ISR.

    Repeated from time to time: an operator permits an unclean election when the partition is
    offline.

    Args:
        view: Everything known.
        due: What changed since the last cycle.
        now: The time of this cycle.
        in_question: Topics whose partitions are to be judged for the health of the cluster.

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
