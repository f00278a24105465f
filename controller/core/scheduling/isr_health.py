"""
The health of partitions without a reassignment: no step begins while some are under min ISR.

Candidates are partitions whose ISR is smaller than their replica set; only their topics' settings
are requested. A shrunk partition with a reassignment holds no other: reassigning it may be the
remedy. States that this tenure has not read are not judged.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from controller.core import model, options, wakeups
from controller.core.model import Blocked, BlockedBy, Instant, TopicPartition
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

NAMED_MAX: Final = 5


def topics_in_question(view: ClusterView, due: Worklist) -> set[str]:
    """Return the topics of shrunk partitions whose settings are needed."""
    tenure = view.tenure
    if view.options.under_min_isr is options.UnderMinIsr.IGNORE or not (due.health or due.timer):
        return set()
    return tenure.unjudged_topics | {p.topic for p in tenure.under_min_isr}


def health_gate(view: ClusterView) -> Blocked | None:
    """Return why no step that copies may begin; the same for all, so computed once per cycle."""
    tenure = view.tenure
    if view.options.under_min_isr is not options.UnderMinIsr.WAIT:
        return None
    if tenure.under_min_isr:
        obstacle = (len(tenure.under_min_isr), *islice(tenure.under_min_isr, NAMED_MAX))
        detail = under_min_isr_sentence(view)
        return Blocked(BlockedBy.CLUSTER_HEALTH, detail, obstacle=obstacle)
    unknown = sorted(t for t in tenure.unjudged_topics if t not in view.session.config_errors)
    if unknown:
        return Blocked(
            BlockedBy.CLUSTER_HEALTH,
            f"the min.insync.replicas of {_named(unknown)} is being read",
            obstacle=tuple(unknown[: NAMED_MAX + 1]),
        )
    return None


def under_min_isr_sentence(view: ClusterView) -> str:
    """Name the partitions under min ISR that have no reassignment; empty if there are none."""
    if not view.tenure.under_min_isr:
        return ""
    named = _named([str(p) for p in islice(view.tenure.under_min_isr, NAMED_MAX + 1)])
    return f"below min.insync.replicas: {len(view.tenure.under_min_isr)} partitions, {named}"


def _named(names: list[str]) -> str:
    more = ", ..." if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


# --- what is folded into the view --------------------------------------------------------------


def judge(view: ClusterView, partition: TopicPartition) -> None:
    """Judge a partition again after a change of any fact about it."""
    tenure = view.tenure
    state = tenure.states.get(partition)
    assignment = view.session.known_assignment(partition)
    is_shrunk = (
        state is not None
        and assignment is not None
        and partition not in view.work.reassignments
        # Its deletion does not wait for replicas, and its recovery is not awaited.
        and partition.topic not in (view.session.deletions or ())
        and (state.leader == model.NO_LEADER or len(state.isr) < len(assignment.replicas))
    )
    if not is_shrunk or state is None or assignment is None:
        forget_health(view, partition)
        return
    tenure.shrunk[partition] = None
    config = view.session.configs.get(partition.topic)
    if config is None:
        tenure.under_min_isr.pop(partition, None)
        if partition.topic not in tenure.unjudged_topics:
            tenure.unjudged_topics.add(partition.topic)
            wakeups.wake(view.due, wakeups.Finding.HEALTH_UNKNOWN)
        return
    # With fewer replicas than min.insync.replicas it cannot be better.
    floor = min(config.min_insync_replicas, len(assignment.replicas))
    if state.leader == model.NO_LEADER or len(state.isr) < floor:
        if partition not in tenure.under_min_isr:
            tenure.under_min_isr[partition] = None
            wakeups.wake(view.due, wakeups.Finding.HEALTH_UNKNOWN)
    elif partition in tenure.under_min_isr:
        del tenure.under_min_isr[partition]
        wakeups.wake(view.due, wakeups.Finding.HEALTH_JUDGED)


def judge_topic(view: ClusterView, topic: str) -> None:
    """Judge a topic's partitions again: its settings, or an error instead, were read."""
    known = view.session.topics.get(topic)
    if known is None:
        view.tenure.unjudged_topics.discard(topic)
        return
    if topic in view.session.configs:
        view.tenure.unjudged_topics.discard(topic)
    for number in known.partitions:
        if TopicPartition(topic, number) in view.tenure.shrunk:
            judge(view, TopicPartition(topic, number))
    wakeups.wake(view.due, wakeups.Finding.HEALTH_JUDGED)


def forget_health(view: ClusterView, partition: TopicPartition) -> None:
    """Remove a partition from the lists: it is healthy, gone, or being reassigned."""
    tenure = view.tenure
    if partition not in tenure.shrunk:
        return
    del tenure.shrunk[partition]
    if partition in tenure.under_min_isr:
        del tenure.under_min_isr[partition]
        wakeups.wake(view.due, wakeups.Finding.HEALTH_JUDGED)
    if partition.topic in tenure.unjudged_topics:
        known = view.session.topics.get(partition.topic)
        others = () if known is None else known.partitions
        if not any(TopicPartition(partition.topic, n) in tenure.shrunk for n in others):
            tenure.unjudged_topics.discard(partition.topic)
            wakeups.wake(view.due, wakeups.Finding.HEALTH_JUDGED)


def note_isr(
    view: ClusterView,
    partition: TopicPartition,
    before: model.PartitionState | None,
    after: model.PartitionState,
    now: Instant,
) -> None:
    """Keep as evidence that a partition without a reassignment lost a replica from its ISR."""
    if before is None or partition in view.work.reassignments:
        return
    if not set(before.isr) <= set(after.isr):
        view.tenure.isr_losses.append(model.IsrLoss(partition, now))
