"""
The health of partitions without a reassignment: no step begins while some are under min ISR.

Candidates are partitions whose ISR is smaller than their replica set; only their topics' settings
are requested. A shrunk partition with a reassignment holds no other: reassigning it may be the
remedy. States that this tenure has not read are not judged.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from controller.core.model import (
    NO_LEADER,
    Blocked,
    BlockedBy,
    Instant,
    IsrLoss,
    PartitionState,
    TopicPartition,
)
from controller.core.options import UnderMinIsr
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

NAMED_MAX: Final = 5


def topics_in_question(view: ClusterView, due: Worklist) -> set[str]:
    """Return the topics of shrunk partitions whose settings are needed."""
    if view.options.under_min_isr is UnderMinIsr.IGNORE or not (due.health or due.timer):
        return set()
    return view.unjudged_topics | {p.topic for p in view.under_min_isr}


def health_gate(view: ClusterView) -> Blocked | None:
    """Return why no step that copies may begin; the same for all, so computed once per cycle."""
    if view.options.under_min_isr is not UnderMinIsr.WAIT:
        return None
    if view.under_min_isr:
        obstacle = (len(view.under_min_isr), *islice(view.under_min_isr, NAMED_MAX))
        detail = under_min_isr_sentence(view)
        return Blocked(BlockedBy.CLUSTER_HEALTH, detail, obstacle=obstacle)
    unknown = sorted(t for t in view.unjudged_topics if t not in view.config_errors)
    if unknown:
        return Blocked(
            BlockedBy.CLUSTER_HEALTH,
            f"the min.insync.replicas of {_named(unknown)} is being read",
            obstacle=tuple(unknown[: NAMED_MAX + 1]),
        )
    return None


def under_min_isr_sentence(view: ClusterView) -> str:
    """Name the partitions under min ISR that have no reassignment; empty if there are none."""
    if not view.under_min_isr:
        return ""
    named = _named([str(p) for p in islice(view.under_min_isr, NAMED_MAX + 1)])
    return f"below min.insync.replicas: {len(view.under_min_isr)} partitions, {named}"


def _named(names: list[str]) -> str:
    more = ", ..." if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


# --- what is folded into the view --------------------------------------------------------------


def judge(view: ClusterView, partition: TopicPartition) -> None:
    """Judge a partition again after a change of any fact about it."""
    state = view.states.get(partition)
    assignment = view.known_assignment(partition)
    is_shrunk = (
        state is not None
        and assignment is not None
        and partition not in view.reassignments
        # Its deletion does not wait for replicas, and its recovery is not awaited.
        and partition.topic not in (view.deletions or ())
        and (state.leader == NO_LEADER or len(state.isr) < len(assignment.replicas))
    )
    if not is_shrunk or state is None or assignment is None:
        forget_health(view, partition)
        return
    view.shrunk[partition] = None
    config = view.configs.get(partition.topic)
    if config is None:
        view.under_min_isr.pop(partition, None)
        if partition.topic not in view.unjudged_topics:
            view.unjudged_topics.add(partition.topic)
            view.due.health = True
        return
    # With fewer replicas than min.insync.replicas it cannot be better.
    floor = min(config.min_insync_replicas, len(assignment.replicas))
    if state.leader == NO_LEADER or len(state.isr) < floor:
        if partition not in view.under_min_isr:
            view.under_min_isr[partition] = None
            view.due.health = True
    elif partition in view.under_min_isr:
        del view.under_min_isr[partition]
        view.due.capacity = True


def judge_topic(view: ClusterView, topic: str) -> None:
    """Judge a topic's partitions again: its settings, or an error instead, were read."""
    known = view.topics.get(topic)
    if known is None:
        view.unjudged_topics.discard(topic)
        return
    if topic in view.configs:
        view.unjudged_topics.discard(topic)
    for number in known.partitions:
        if TopicPartition(topic, number) in view.shrunk:
            judge(view, TopicPartition(topic, number))
    view.due.capacity = True


def forget_health(view: ClusterView, partition: TopicPartition) -> None:
    """Remove a partition from the lists: it is healthy, gone, or being reassigned."""
    if partition not in view.shrunk:
        return
    del view.shrunk[partition]
    if partition in view.under_min_isr:
        del view.under_min_isr[partition]
        view.due.capacity = True
    if partition.topic in view.unjudged_topics:
        known = view.topics.get(partition.topic)
        others = () if known is None else known.partitions
        if not any(TopicPartition(partition.topic, n) in view.shrunk for n in others):
            view.unjudged_topics.discard(partition.topic)
            view.due.capacity = True


def forget_all_health(view: ClusterView) -> None:
    """Forget the health of all partitions: without a tenure no states are known."""
    view.shrunk.clear()
    view.under_min_isr.clear()
    view.unjudged_topics.clear()
    view.isr_losses.clear()
    view.slow_answers.clear()


def note_isr(
    view: ClusterView,
    partition: TopicPartition,
    before: PartitionState | None,
    after: PartitionState,
    now: Instant,
) -> None:
    """Keep as evidence that a partition without a reassignment lost a replica from its ISR."""
    if before is None or partition in view.reassignments:
        return
    if not set(before.isr) <= set(after.isr):
        view.isr_losses.append(IsrLoss(partition, now))
