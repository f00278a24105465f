"""
The brake: no step begins whose copies could harm partitions below their min ISR.

Candidates are partitions without a reassignment whose ISR is smaller than their replica set; only
their topics' settings are requested. What harms one depends on what it lacks:

- A live replica that is not in the ISR, or an election: it recovers by itself, and every copy may
  slow that down. No step that copies begins.
- Only replicas that are not live: nothing recovers before their broker is back or a plan replaces
  them, so waiting would forbid the repair. Only copies to and from the brokers that still serve it
  wait, as its last replicas are there. A step that replaces replicas out of the ISR is itself a
  repair, and does not wait for such partitions.
- All of its ISR: it is offline, and no copy can harm it.

A partition with a reassignment holds no other: that may be the remedy. States that this tenure has
not read are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from controller.core import model, wakeups
from controller.core.model import Blocked, BlockedBy, BrokerId, Instant, TopicPartition
from controller.core.pacing.controls import UnderMinIsr
from controller.core.pacing.limits_in_force import under_min_isr
from controller.core.pacing.model import IsrLoss, SlowAnswer
from controller.core.view import ClusterView
from controller.core.worklist import Worklist

NAMED_MAX: Final = 5
SLOW_ANSWER_S: Final = 5.0
"""A broker that answers a controller request later is overloaded."""


def topics_in_question(view: ClusterView, due: Worklist) -> set[str]:
    """Return the topics of shrunk partitions whose settings are needed."""
    pacing = view.pacing
    if under_min_isr(view) is UnderMinIsr.IGNORE or not (due.health or due.timer):
        return set()
    return pacing.unjudged_topics | {p.topic for p in pacing.under_min_isr}


def health_gate(view: ClusterView) -> Blocked | None:
    """Return why no step that copies may begin; the same for all, so computed once per cycle."""
    pacing = view.pacing
    if under_min_isr(view) is not UnderMinIsr.WAIT:
        return None
    if pacing.recovering:
        which = _count_and_names(pacing.recovering)
        detail = f"below min.insync.replicas, and live replicas catch up: {which}"
        return _health_hold(detail, pacing.recovering)
    unknown = sorted(t for t in pacing.unjudged_topics if t not in view.topics.config_errors)
    if unknown:
        return Blocked(
            BlockedBy.CLUSTER_HEALTH,
            f"the min.insync.replicas of {_first_names(unknown)} is being read",
            obstacle=tuple(unknown[: NAMED_MAX + 1]),
        )
    return None


def exposure_gate(
    view: ClusterView, partition: TopicPartition, brokers: Iterable[BrokerId]
) -> Blocked | None:
    """Return why a step may not copy to or from these brokers: they serve what must not shrink."""
    exposed = view.pacing.exposed
    if not exposed or under_min_isr(view) is not UnderMinIsr.WAIT:
        return None
    broker = next((b for b in brokers if b in exposed), None)
    if broker is None or _repairs(view, partition):
        return None
    return _health_hold(
        f"broker {broker} serves partitions below min.insync.replicas whose other replicas are not "
        f"live: {_count_and_names(exposed[broker])}",
        exposed[broker],
    )


def _repairs(view: ClusterView, partition: TopicPartition) -> bool:
    """Return whether the next step replaces replicas that are not in the ISR."""
    state = view.leadership.states.get(partition)
    assignment = view.topics.known_assignment(partition)
    if state is None or assignment is None:
        return False
    return not set(assignment.origin_replicas) <= set(state.isr)


def _health_hold(detail: str, partitions: Mapping[TopicPartition, None]) -> Blocked:
    obstacle = (len(partitions), *islice(partitions, NAMED_MAX))
    return Blocked(BlockedBy.CLUSTER_HEALTH, detail, obstacle=obstacle)


def under_min_isr_sentence(view: ClusterView) -> str:
    """Name the partitions under min ISR without a reassignment, and what waits for them."""
    pacing = view.pacing
    if not pacing.under_min_isr:
        return ""
    sentence = f"below min.insync.replicas: {_count_and_names(pacing.under_min_isr)}"
    if under_min_isr(view) is not UnderMinIsr.WAIT:
        return sentence
    if pacing.recovering:
        is_some = len(pacing.recovering) < len(pacing.under_min_isr)
        which = f" of {_count_and_names(pacing.recovering)}" if is_some else ""
        return f"{sentence}; every copy waits until live replicas{which} have caught up"
    if pacing.exposed:
        brokers = _first_names([str(b) for b in islice(sorted(pacing.exposed), NAMED_MAX + 1)])
        noun = "broker" if len(pacing.exposed) == 1 else "brokers"
        return f"{sentence}; copies to and from {noun} {brokers} wait, except repairs"
    return f"{sentence}; no copy waits for them"


def _count_and_names(partitions: Mapping[TopicPartition, None]) -> str:
    named = _first_names([str(p) for p in islice(partitions, NAMED_MAX + 1)])
    return f"{model.count_text(len(partitions), 'partition')}, {named}"


def _first_names(names: list[str]) -> str:
    more = ", ..." if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


# --- what is folded into the view --------------------------------------------------------------


def judge(view: ClusterView, partition: TopicPartition) -> None:
    """Judge a partition again after a change of any fact about it."""
    pacing = view.pacing
    if partition in view.reassignments.by_partition:
        forget_health(view, partition)
        return
    state = view.leadership.states.get(partition)
    assignment = view.topics.known_assignment(partition)
    is_shrunk = (
        state is not None
        and assignment is not None
        # Its deletion does not wait for replicas, and its recovery is not awaited.
        and not view.is_to_be_deleted(partition.topic)
        and (state.leader == model.NO_LEADER or len(state.isr) < len(assignment.replicas))
    )
    if not is_shrunk or state is None or assignment is None:
        forget_health(view, partition)
        return
    pacing.shrunk[partition] = None
    config = view.topics.configs.get(partition.topic)
    if config is None:
        _note(view, partition, _HEALTHY)
        if partition.topic not in pacing.unjudged_topics:
            pacing.unjudged_topics.add(partition.topic)
            wakeups.wake(view.due, wakeups.Trigger.HEALTH_UNKNOWN)
        return
    # With fewer replicas than min.insync.replicas it cannot be better.
    floor = min(config.min_insync_replicas, len(assignment.replicas))
    is_below = state.leader == model.NO_LEADER or len(state.isr) < floor
    found = _exposure(view, partition, state, assignment) if is_below else _HEALTHY
    _note(view, partition, found)


def judge_again(view: ClusterView) -> None:
    """Judge the partitions below min ISR again: brokers came or went."""
    for partition in tuple(view.pacing.under_min_isr):
        judge(view, partition)


class _Exposure(NamedTuple):
    """What could harm a partition that is below its min ISR, or not known to be."""

    is_below: bool = False
    is_recovering: bool = False
    serving: frozenset[BrokerId] = model.NO_BROKERS
    """The brokers whose replicas must not shrink."""


_HEALTHY: Final = _Exposure()


def _exposure(
    view: ClusterView,
    partition: TopicPartition,
    state: model.PartitionState,
    assignment: model.PartitionAssignment,
) -> _Exposure:
    live = view.live(assignment.replicas, partition)
    serving = frozenset(r for r in live if r in state.isr)
    if serving and (state.leader not in serving or len(serving) < len(live)):
        return _Exposure(is_below=True, is_recovering=True)
    return _Exposure(is_below=True, serving=serving)


def _note(view: ClusterView, partition: TopicPartition, found: _Exposure) -> None:
    """Keep what could harm a partition."""
    pacing = view.pacing
    was_below, was_recovering = partition in pacing.under_min_isr, partition in pacing.recovering
    if not (found.is_below or was_below):
        return
    had = {b for b, exposed in pacing.exposed.items() if partition in exposed}
    for broker in had - found.serving:
        del pacing.exposed[broker][partition]
        if not pacing.exposed[broker]:
            del pacing.exposed[broker]
    for broker in found.serving:
        pacing.exposed.setdefault(broker, {})[partition] = None
    for partitions, is_in in (
        (pacing.under_min_isr, found.is_below),
        (pacing.recovering, found.is_recovering),
    ):
        if is_in:
            partitions[partition] = None
        else:
            partitions.pop(partition, None)
    if (was_recovering and not found.is_recovering) or not had <= found.serving:
        wakeups.wake(view.due, wakeups.Trigger.HEALTH_JUDGED)
    if found.is_below and not was_below:
        wakeups.wake(view.due, wakeups.Trigger.HEALTH_UNKNOWN)


def judge_topic(view: ClusterView, topic: str) -> None:
    """Judge a topic's partitions again: its settings, or an error instead, were read."""
    is_known = topic in view.topics.by_name
    if not is_known or topic in view.topics.configs:
        view.pacing.unjudged_topics.discard(topic)
    if not is_known:
        return
    for partition in view.topics.partitions_of(topic):
        if partition in view.pacing.shrunk:
            judge(view, partition)
    wakeups.wake(view.due, wakeups.Trigger.HEALTH_JUDGED)


def forget_health(view: ClusterView, partition: TopicPartition) -> None:
    """Remove a partition from the lists: it is healthy, gone, or being reassigned."""
    pacing = view.pacing
    if partition not in pacing.shrunk:
        return
    del pacing.shrunk[partition]
    _note(view, partition, _HEALTHY)
    topic = partition.topic
    if topic not in pacing.unjudged_topics:
        return
    if not any(p in pacing.shrunk for p in view.topics.partitions_of(topic)):
        pacing.unjudged_topics.discard(topic)
        wakeups.wake(view.due, wakeups.Trigger.HEALTH_JUDGED)


def note_isr(
    view: ClusterView,
    partition: TopicPartition,
    before: model.PartitionState | None,
    after: model.PartitionState,
    now: Instant,
) -> None:
    """Keep as evidence that the ISR of a partition without a reassignment lost replicas."""
    if before is None or partition in view.reassignments.by_partition:
        return
    gone = [r for r in before.isr if r not in after.isr]
    lost = view.live(gone, partition)
    if lost:
        brokers = frozenset((*lost, after.leader))
        view.pacing.isr_losses.append(IsrLoss(partition, now, brokers))
    elif gone and after.leader != model.NO_LEADER:
        view.pacing.went_offline[after.leader] = IsrLoss(partition, now, frozenset(gone))


def note_answer(view: ClusterView, broker: BrokerId, took_s: float, now: Instant) -> None:
    """Keep a slow answer of a broker as evidence."""
    if took_s > SLOW_ANSWER_S:
        view.pacing.slow_answers.append(SlowAnswer(broker, took_s, now))
