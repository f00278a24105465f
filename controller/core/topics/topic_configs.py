"""
Settings of topics: which to request and when, how answers are folded in, and how long they count.

``min.insync.replicas`` matters where something is reassigned, ``unclean.leader.election.enable``
where only a replica out of sync could lead, both where a partition may be under min ISR; no others
are read. An answer is valid for ``config_refresh`` from the instant of its request
(``forget_old_configs``). Settings in use are requested again at half that age, so that they do not
become unknown between two answers. One request covers every topic concerned.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.core import effects, wakeups
from controller.core.model import NO_LEADER, Instant, TopicConfig, TopicPartition
from controller.core.pacing.isr_health import judge_topic
from controller.core.records import Decision
from controller.core.requests.model import PlanNode
from controller.core.topics import records
from controller.core.topics.model import ConfigRequest
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

CONFIG_TIMER = "topic_configs"
UNWELL_TIMER = "unwell_topic_configs"
CONFIG_RETRY_S = 5.0
NO_MARKS: Final[Mapping[str, int]] = {}


def request_configs(
    view: ClusterView,
    topics: Collection[str],
    now: Instant,
    timer: str = CONFIG_TIMER,
    after: Mapping[str, int] = NO_MARKS,
) -> list[effects.Effect]:
    """
    Return the requests for settings that are unknown or half as old as permitted.

    ``timer`` is set for the next look. Of the topics in ``after``, only the answer to a request
    newer than that one counts.
    """
    times = {topic: _request_at(view, topic, after.get(topic, -1)) for topic in topics}
    wanted = tuple(sorted(topic for topic, at in times.items() if at <= now))
    if not times:
        return []
    again = min((at for at in times.values() if at > now), default=math.inf)
    if not wanted:
        return [effects.SetTimer(timer, Instant(again))]
    again = min(again, now + _retry_s(view))
    return [effects.DescribeTopicConfigs(wanted), effects.SetTimer(timer, Instant(again))]


def _request_at(view: ClusterView, topic: str, after: int) -> float:
    """Return when a topic's settings are to be requested: before the known ones grow too old."""
    topics = view.topics
    request, known = topics.requested_configs.get(topic), topics.config_answers.get(topic)
    if request is None or request.number <= after:
        return -math.inf
    again = request.at + _retry_s(view)
    if known is None or known.number <= after:
        return again
    return max(again, known.at + view.options.config_refresh_s / 2)


def _retry_s(view: ClusterView) -> float:
    return min(CONFIG_RETRY_S, view.options.config_refresh_s / 2)


def unknown(view: ClusterView, partitions: Iterable[TopicPartition]) -> set[str]:
    """Return the topics of these partitions that exist and whose settings are not known."""
    topics = view.topics
    return {p.topic for p in partitions if p.topic in topics.by_name} - topics.configs.keys()


def request_ahead(view: ClusterView, legacy: PlanNode, now: Instant) -> Decision:
    """Request the settings of a new plan's topics while the role is still being claimed."""
    unrequested = [
        topic
        for topic in unknown(view, legacy.entries)
        if (request := view.topics.requested_configs.get(topic)) is None
        or now - request.at >= view.options.config_refresh_s
    ]
    return Decision(effects=tuple(request_configs(view, unrequested, now)))


def request_for_unhealthy(
    view: ClusterView, due: Worklist, now: Instant, in_question: Collection[str]
) -> Decision:
    """
    Request the settings of partitions without a leader, and of those possibly under min ISR.

    Of the latter, the topics are ``in_question``. Repeated from time to time: an operator permits
    an unclean election when the partition is offline.
    """
    marks: dict[str, int] = {}
    for partition in due.partitions:
        if _is_stranded(view, partition):
            mark = view.leadership.leaderless.get(partition, -1)
            marks[partition.topic] = max(marks.get(partition.topic, -1), mark)
    topics = marks.keys() | set(in_question)
    return Decision(effects=tuple(request_configs(view, topics, now, UNWELL_TIMER, marks)))


def _is_stranded(view: ClusterView, partition: TopicPartition) -> bool:
    state = view.leadership.states.get(partition)
    if state is None or state.leader != NO_LEADER:
        return False
    return bool(view.live(view.serving_replicas(partition), partition))


# --- answers -------------------------------------------------------------------------------------


def topic_configs_read(view: ClusterView, event: records.TopicConfigsRead, now: Instant) -> None:
    """
    Fold in settings of topics, or why they could not be read.

    An answer is as old as its request. One that is too old already, that a newer answer overtook,
    or that may describe a deleted topic of the same name is ignored.
    """
    topics = view.topics
    is_late = now - event.request.at >= view.options.config_refresh_s
    unread: set[str] = set()
    permitting: set[str] = set()
    for topic, answer in event.configs.items():
        present = topics.by_name.get(topic)
        if present is None or event.request.number <= present.requests_before:
            continue
        request = topics.requested_configs.get(topic)
        if request is not None:
            topics.requested_configs[topic] = ConfigRequest(request.number, now)
        read = "the answer took longer than config_refresh" if is_late else answer
        if isinstance(read, TopicConfig):
            known = topics.config_answers.get(topic)
            if known is None or event.request.number >= known.number:
                _config(view, topic, read, event.request)
                if read.unclean_leader_election:
                    permitting.add(topic)
            continue
        if topics.config_errors.get(topic) != read:
            topics.config_errors[topic] = read
            unread.add(topic)
        judge_topic(view, topic)
    if permitting:
        view.due.add(p for p in view.leadership.leaderless if p.topic in permitting)
    if unread:
        # What waits for these settings has to report why they are not known.
        wakeups.wake(view.due, wakeups.Trigger.SETTINGS_UNREADABLE)
        view.due.add(p for p in view.reassignments.by_partition if p.topic in unread)


def _config(view: ClusterView, topic: str, read: TopicConfig, request: ConfigRequest) -> None:
    """Take the settings of a topic; where they changed, examine what depends on them."""
    topics = view.topics
    topics.config_errors.pop(topic, None)
    before, topics.configs[topic] = topics.configs.get(topic), read
    topics.config_answers[topic] = request
    topics.config_oldest = min(topics.config_oldest, request.at)
    if before == read:
        return
    judge_topic(view, topic)
    wakeups.wake(view.due, wakeups.Trigger.SETTINGS_CHANGED)
    if view.tenure.held is not None:
        view.due.add(TopicPartition(topic, n) for n in topics.by_name[topic].partitions)


def forget_old_configs(view: ClusterView, now: Instant) -> None:
    """
    Remove the settings whose request is as old as ``config_refresh``: they may have changed.

    Called whenever time has passed, before anything is decided or sent.
    """
    topics = view.topics
    limit = now - view.options.config_refresh_s
    if topics.config_oldest > limit:
        return
    for topic in [t for t, question in topics.config_answers.items() if question.at <= limit]:
        del topics.configs[topic], topics.config_answers[topic]
        if topic in view.reassignments.topics_at_work:
            wakeups.wake(view.due, wakeups.Trigger.SETTINGS_EXPIRED)
    oldest = min((question.at for question in topics.config_answers.values()), default=now)
    topics.config_oldest = oldest
