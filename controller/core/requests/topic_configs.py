"""
Which topics' settings have to be known, and when they are asked for again.

``min.insync.replicas`` matters where something is reassigned, ``unclean.leader.election.enable``
where only a replica out of sync could lead, both where a partition may be under min ISR. Of all
other topics no settings are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controller.core.agendas import Due
from controller.core.effects import DescribeTopicConfigs, Effect, SetTimer
from controller.core.model import NO_LEADER, Instant, TopicPartition
from controller.core.nodes import PlanNode
from controller.core.records import Decision
from controller.core.view import ClusterView

CONFIG_TIMER = "topic_configs"
UNWELL_TIMER = "unwell_topic_configs"
CONFIG_RETRY_S = 5.0


def ask(
    view: ClusterView, topics: Collection[str], now: Instant, timer: str = CONFIG_TIMER
) -> list[Effect]:
    """Return the requests for settings that are unknown or old, and when to look again."""
    wanted = []
    for topic in topics:
        asked = view.asked_configs.get(topic)
        interval = view.options.config_refresh_s if topic in view.configs else CONFIG_RETRY_S
        if asked is None or now - asked >= interval:
            wanted.append(topic)
    if wanted:
        again = SetTimer(timer, Instant(now + CONFIG_RETRY_S))
        return [DescribeTopicConfigs(tuple(sorted(wanted))), again]
    if topics:
        return [SetTimer(timer, Instant(now + view.options.config_refresh_s))]
    return []


def unknown(view: ClusterView, partitions: Iterable[TopicPartition]) -> set[str]:
    """Return the topics of these partitions that exist and whose settings are not known."""
    return {p.topic for p in partitions if p.topic in view.topics} - view.configs.keys()


def ask_ahead(view: ClusterView, legacy: PlanNode, now: Instant) -> Decision:
    """Ask for the settings of a new plan's topics while the role is still being claimed."""
    never_asked = unknown(view, legacy.entries) - view.asked_configs.keys()
    return Decision(effects=tuple(ask(view, never_asked, now)))


def ask_for_unwell(
    view: ClusterView, due: Due, now: Instant, in_question: Collection[str]
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
    topics = {p.topic for p in due.partitions if _is_stranded(view, p)} | set(in_question)
    return Decision(effects=tuple(ask(view, topics, now, UNWELL_TIMER)))


def _is_stranded(view: ClusterView, partition: TopicPartition) -> bool:
    state = view.states.get(partition)
    if state is None or state.leader != NO_LEADER:
        return False
    return bool(view.live(view.serving_replicas(partition), partition))
