"""
The states of one replica and which may precede which (KAFKA-42, ``ReplicaStateMachine`` in Kafka).

The state of a replica is not stored: it follows from the view. ``replica_state`` derives it, and
``can_become`` is the table that tests cross with every pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from controller.core.model import BrokerId, TopicPartition
from controller.core.view import ClusterView


class ReplicaState(StrEnum):
    """Where a replica stands."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Being created: it may only be told to follow."""
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    """Its broker is dead, its directory failed, or it was excluded and is being stopped."""


VALID_PREVIOUS: Final[Mapping[ReplicaState, frozenset[ReplicaState]]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: frozenset({ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE}),
    ReplicaState.OFFLINE: frozenset({ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.OFFLINE}),
}


def can_become(before: ReplicaState, after: ReplicaState) -> bool:
    """Return whether the transition is one a controller may make."""
    return before in VALID_PREVIOUS[after]


def replica_state(view: ClusterView, partition: TopicPartition, broker: BrokerId) -> ReplicaState:
    """Derive a replica's state from what is known now."""
    assignment = view.assignment(partition)
    if assignment is None or broker not in assignment.replicas:
        return ReplicaState.NON_EXISTENT
    if not view.is_live(broker, partition):
        return ReplicaState.OFFLINE
    if broker in assignment.removing_replicas and view.has_excluded(partition):
        return ReplicaState.OFFLINE
    state = view.states.get(partition)
    if broker in assignment.adding_replicas and (state is None or broker not in state.isr):
        return ReplicaState.NEW
    return ReplicaState.ONLINE
