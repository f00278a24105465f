"""
The partitions on drained brokers, as the facts about them are folded in.

A partition is noted as long as it has a replica on a drained broker, or its reassignment leads to
one, or off it: a broker that is dead is dropped before its successor has copied. Which of them may
be given another target is noted beside: ``requests.drain_targets`` decides.
"""

from __future__ import annotations

from collections import Counter

from controller.core import wakeups
from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition
from controller.core.pacing.controls import DRAINS
from controller.core.requests.model import kind_of
from controller.core.view import ClusterView


def drained_brokers(view: ClusterView) -> frozenset[BrokerId]:
    """Return the brokers that are drained."""
    return frozenset(view.pacing_process.controls.drains.brokers)


def may_stand(view: ClusterView, request: RequestId) -> bool:
    """Return whether a request is that of the drains, as far as is known."""
    controls = view.pacing_process.controls
    if not view.pacing_session.controls_read or DRAINS in controls.unreadable:
        return True
    return bool(controls.drains.brokers) and controls.drains.request == request


def replicas_to_be(view: ClusterView, partition: TopicPartition) -> Replicas | None:
    """Return where a partition is to be: its target, or without a reassignment its replicas."""
    running = view.reassignments.by_partition.get(partition)
    if running is not None and not view.is_of_former_topic(partition):
        return running.spec.target
    assignment = view.topics.known_assignment(partition)
    return None if assignment is None else assignment.target_replicas


def brokers_of(view: ClusterView, partition: TopicPartition) -> frozenset[BrokerId]:
    """Return where a partition is, and is to be; and until its drain has ended, where it was."""
    assignment = view.topics.known_assignment(partition)
    held = () if assignment is None else assignment.replicas
    running = view.reassignments.by_partition.get(partition)
    is_drained = running is not None and kind_of(running.spec.request) == "drain"
    was = running.spec.original or () if running is not None and is_drained else ()
    return frozenset((*held, *(replicas_to_be(view, partition) or ()), *was))


def needs_a_target(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Return whether no reassignment leads a partition off the drained brokers.

    One of a drain that has not begun needs another target, too, if a broker that it adds has died.
    """
    replicas = replicas_to_be(view, partition)
    if replicas is None or not drained_brokers(view).isdisjoint(replicas):
        return replicas is not None
    running = view.reassignments.by_partition.get(partition)
    assignment = view.topics.known_assignment(partition)
    if running is None or assignment is None or running.has_moved or running.may_be_made:
        return False
    added = (r for r in replicas if r not in assignment.replicas)
    is_of_drain = kind_of(running.spec.request) == "drain"
    return is_of_drain and any(r not in view.cluster.brokers for r in added)


def replicas_left(view: ClusterView) -> Counter[BrokerId]:
    """Count the replicas on each drained broker, also those to come, and those being replaced."""
    drained = drained_brokers(view)
    left = Counter[BrokerId](dict.fromkeys(drained, 0))
    for partition in view.pacing_session.on_drained:
        left.update(drained & brokers_of(view, partition))
    return left


def replicas_held(view: ClusterView) -> Counter[BrokerId]:
    """Count the replicas that each drained broker has by the topic znodes."""
    drained, held = drained_brokers(view), Counter[BrokerId]()
    for partition in view.pacing_session.on_drained:
        assignment = view.topics.known_assignment(partition)
        held.update(drained.intersection(() if assignment is None else assignment.replicas))
    return held


def judge(view: ClusterView, partition: TopicPartition) -> None:
    """Note a partition again after a change of its replicas or of its reassignment."""
    drained, session = drained_brokers(view), view.pacing_session
    if not drained:
        return
    had_none = partition in session.to_drain
    session.forget(partition)
    if not drained.isdisjoint(brokers_of(view, partition)):
        session.on_drained[partition] = None
        if needs_a_target(view, partition):
            session.to_drain[partition] = None
    if had_none or partition in session.to_drain:
        wakeups.wake(view.due, wakeups.Trigger.DRAIN_CONCERNED)


def judge_all(view: ClusterView) -> None:
    """Note every partition again: the drains are others."""
    session = view.pacing_session
    session.on_drained.clear()
    session.to_drain.clear()
    if not drained_brokers(view):
        return
    for partition in (*view.topics.partitions(), *view.reassignments.by_partition):
        judge(view, partition)


def judge_noted(view: ClusterView) -> None:
    """Note those again that are noted: brokers came or went."""
    for partition in tuple(view.pacing_session.on_drained):
        judge(view, partition)
