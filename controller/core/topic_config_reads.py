"""
Fold in the settings of topics that brokers report, and forget those that are too old.

The rule of freshness: settings are valid for ``config_refresh`` from the instant of their request.
``requests/config_questions`` decides when to request them.
"""

from __future__ import annotations

from controller.core.events import TopicConfigsRead
from controller.core.model import ConfigQuestion, Instant, TopicConfig, TopicPartition
from controller.core.scheduling.isr_health import judge_topic
from controller.core.view import ClusterView


def topic_configs_read(view: ClusterView, event: TopicConfigsRead, now: Instant) -> None:
    """
    Fold in settings of topics, or why they could not be read.

    An answer is as old as its request. One that is too old already, that a newer answer overtook,
    or that may describe a deleted topic of the same name is ignored.
    """
    unread: set[str] = set()
    permitting: set[str] = set()
    for topic, answer in event.configs.items():
        if topic not in view.topics or event.asked.number <= view.topics[topic].asked_before:
            continue
        asked = view.asked_configs.get(topic)
        if asked is not None:
            view.asked_configs[topic] = ConfigQuestion(asked.number, now)
        read = _in_time(view, answer, event.asked, now)
        if isinstance(read, TopicConfig):
            if _is_news(view, topic, event.asked):
                _config(view, topic, read, event.asked)
                if read.unclean_leader_election:
                    permitting.add(topic)
            continue
        if view.config_errors.get(topic) != read:
            view.config_errors[topic] = read
            unread.add(topic)
        judge_topic(view, topic)
    if permitting:
        view.due.add(p for p in view.leaderless if p.topic in permitting)
    if unread:
        # What waits for these settings has to report why they are not known.
        view.due.capacity = True
        view.due.add(p for p in view.reassignments if p.topic in unread)


def _config(view: ClusterView, topic: str, read: TopicConfig, asked: ConfigQuestion) -> None:
    """Take the settings of a topic; where they changed, examine what depends on them."""
    view.config_errors.pop(topic, None)
    before, view.configs[topic] = view.configs.get(topic), read
    view.config_answers[topic] = asked
    view.config_oldest = min(view.config_oldest, asked.at)
    if before == read:
        return
    judge_topic(view, topic)
    view.due.plan = view.due.capacity = True
    view.due.submissions = view.due.queue = True
    if view.tenure is not None:
        view.due.add(TopicPartition(topic, n) for n in view.topics[topic].partitions)


def _in_time(
    view: ClusterView, answer: TopicConfig | str, asked: ConfigQuestion, now: Instant
) -> TopicConfig | str:
    """Return an answer, or that it came too late: it is as old as its request."""
    if now - asked.at < view.options.config_refresh_s:
        return answer
    return "the answer took longer than config_refresh"


def _is_news(view: ClusterView, topic: str, asked: ConfigQuestion) -> bool:
    """Return whether no answer to a later request is known."""
    known = view.config_answers.get(topic)
    return known is None or asked.number >= known.number


def forget_old_configs(view: ClusterView, now: Instant) -> None:
    """
    Remove the settings whose request is as old as ``config_refresh``: they may have changed.

    The rule of freshness for both engines and every reader. Called whenever time has passed, before
    anything is decided or sent.
    """
    limit = now - view.options.config_refresh_s
    if view.config_oldest > limit:
        return
    for topic in [t for t, question in view.config_answers.items() if question.at <= limit]:
        del view.configs[topic], view.config_answers[topic]
        if topic in view.topics_at_work:
            view.due.plan = True
    oldest = min((question.at for question in view.config_answers.values()), default=now)
    view.config_oldest = oldest
