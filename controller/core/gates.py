"""
Whether a step may begin, and whether its dropped replicas may leave.

A gate answers None (go on) or what is waited for, in words. It is evaluated on the very state that
the next compare-and-set is conditional on; after a version conflict everything is decided anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.model import (
    Blocked,
    BlockedBy,
    BrokerId,
    Goal,
    PartitionState,
    Replicas,
    TopicPartition,
)
from controller.core.steps import Step
from controller.core.view import ClusterView, Load


def ids(replicas: Iterable[BrokerId]) -> str:
    """Format broker ids for a sentence."""
    return ",".join(str(r) for r in replicas)


def isr_floor(view: ClusterView, topic: str, goal: Goal) -> int | None:
    """
    Return how many live ISR members must remain after a drop; None until topic settings are known.

    max(1, min(min.insync.replicas, |FTR|)): Kafka's controller never checks it, and producers
    break.
    """
    config = view.configs.get(topic)
    if config is None:
        return None
    return max(1, min(config.min_insync_replicas, len(goal.target)))


def begin_gate(
    view: ClusterView,
    partition: TopicPartition,
    state: PartitionState,
    current: Replicas,
    step: Step,
) -> Blocked | None:
    """Return what keeps a step from beginning: settings, a dead broker, a replica out of ISR."""
    if partition.topic not in view.configs:
        why = view.config_errors.get(partition.topic, "not read yet")
        return Blocked(BlockedBy.CONFIG_UNKNOWN, f"min.insync.replicas is unknown: {why}")
    dead = tuple(r for r in step.adding if not view.is_live(r, partition))
    if dead:
        return Blocked(BlockedBy.BROKER_DEAD, f"broker {ids(dead)} of the target is not live")
    for broker in step.adding:
        orphan = view.orphans.get((broker, partition))
        if orphan is not None and orphan not in view.orphans_failed:
            # A StopReplica may be under way, and below version 3 no epoch would fence it.
            return Blocked(
                BlockedBy.STOP_REPLICA_ACK, f"broker {broker} is still deleting its old copy"
            )
    lagging = tuple(r for r in current if r not in state.isr and r not in step.hopeless)
    if lagging:
        return _not_in_isr(view, partition, lagging)
    return None


def sync_gate(
    view: ClusterView,
    partition: TopicPartition,
    goal: Goal,
    state: PartitionState,
    target: Replicas,
) -> Blocked | None:
    """
    Return what keeps the step's target from being within the ISR.

    A replica that is not part of the final target is not waited for: if it died or lags, it is the
    first that the next step drops.
    """
    lagging = tuple(r for r in target if r in goal.target and r not in state.isr)
    return _not_in_isr(view, partition, lagging) if lagging else None


def _not_in_isr(view: ClusterView, partition: TopicPartition, lagging: Replicas) -> Blocked:
    dead = tuple(r for r in lagging if not view.is_live(r, partition))
    if dead:
        return Blocked(BlockedBy.BROKER_DEAD, f"replica {ids(dead)} is not live")
    return Blocked(BlockedBy.REPLICA_NOT_IN_ISR, f"replica {ids(lagging)} is not in ISR")


def drop_gate(
    view: ClusterView,
    partition: TopicPartition,
    goal: Goal,
    state: PartitionState,
    dropping: Replicas,
) -> Blocked | None:
    """Return what keeps the dropped replicas from leaving the ISR now."""
    floor = isr_floor(view, partition.topic, goal)
    if floor is None:
        return Blocked(BlockedBy.CONFIG_UNKNOWN, "min.insync.replicas is unknown")
    remaining = view.live((r for r in state.isr if r not in dropping), partition)
    if len(remaining) < floor:
        return Blocked(
            BlockedBy.MIN_ISR,
            f"only {ids(remaining) or 'no replica'} would stay in sync without {ids(dropping)}, "
            f"{floor} needed",
        )
    return None


class Budget:
    """
    The limits of one turn, counted down as steps are planned.

    Starts from what is in flight; a step that copies nothing (``adding`` empty) costs only a slot.
    """

    def __init__(self, view: ClusterView, hold: Blocked | None = None) -> None:
        """Take the present counts of the view; ``hold`` forbids every new step."""
        self._options = view.options
        self._in_flight = view.in_flight
        self._incoming = dict(view.incoming)
        self._outgoing = dict(view.outgoing)
        self._hold = hold

    @property
    def has_slot(self) -> bool:
        """Whether another partition may be in flight."""
        return self._hold is None and self._in_flight < self._options.max_partitions_in_flight

    def gate(self, adding: Replicas, leader: BrokerId) -> Blocked | None:
        """Return which limit is reached, if any."""
        if self._hold is not None:
            return self._hold
        if self._in_flight >= self._options.max_partitions_in_flight:
            cap = self._options.max_partitions_in_flight
            return Blocked(BlockedBy.LIMIT, f"{cap} partitions are in flight")
        for broker in adding:
            if self._incoming.get(broker, 0) >= self._options.max_incoming_per_broker:
                return Blocked(BlockedBy.LIMIT, f"broker {broker} receives its limit of copies")
        if adding and self._outgoing.get(leader, 0) >= self._options.max_outgoing_per_broker:
            return Blocked(BlockedBy.LIMIT, f"broker {leader} serves its limit of copies")
        return None

    def give_back(self, load: Load | None) -> None:
        """Count a step that ends this turn: its partition may use its own slot again."""
        self._in_flight -= 1
        if load is None:
            return
        for broker in load.incoming:
            self._incoming[broker] = self._incoming.get(broker, 0) - 1
        if load.outgoing is not None:
            self._outgoing[load.outgoing] = self._outgoing.get(load.outgoing, 0) - 1

    def take(self, adding: Replicas, leader: BrokerId) -> None:
        """Count a step that begins this turn."""
        self._in_flight += 1
        for broker in adding:
            self._incoming[broker] = self._incoming.get(broker, 0) + 1
        if adding:
            self._outgoing[leader] = self._outgoing.get(leader, 0) + 1
