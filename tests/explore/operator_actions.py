"""
What operators and clients do at any instant, and how Kafka's controller deletes a topic.

A shape names what its operator does. Whatever begins something costs a part of the budget; what
only ends it is free. Kafka's controller takes each step of a deletion at any instant, or never: it
sends StopReplica to every broker, then removes the states, the topic znode, and the marker. A
client may create the topic again once its znode is gone: all but its czxid is as before. A shape
may do all of that in one instant (``replace``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.explore import production as p
from tests.explore.brokers import DURING_DELETE
from tests.explore.system import (
    FREE,
    OPERATOR,
    PARTITION,
    TOPIC,
    TOPIC_PATH,
    Action,
    Budget,
    System,
    request,
    topic_znode,
)

MARKER: Final = p.paths.deletion_path(TOPIC)
STEPS: Final = ("logs", "states", "topic", "marker")
"""A deletion by Kafka's controller."""


def choices(system: System, budget: Budget) -> Iterator[tuple[Action, Budget]]:
    """Yield what an operator, a client or a deletion by Kafka's controller may do next."""
    does, has_topic = system.shape.operations, system.data(TOPIC_PATH) is not None
    if "cancel" in does and budget.operator:
        yield ("cancel",), OPERATOR
    if "retarget" in does and budget.operator:
        yield ("retarget",), OPERATOR
    if "recreate" in does:
        if budget.operator:
            if not has_topic:
                yield ("create topic",), OPERATOR
            elif system.data(MARKER) is None:
                yield ("delete topic",), OPERATOR
        step = _deletion_step(system)
        if step is not None:
            yield ("erase", step), FREE
    if "replace" in does and budget.operator and has_topic and _may_delete(system):
        yield ("replace topic",), OPERATOR


def act(system: System, action: Action, fault: Action | None = None) -> None:
    """Carry out an action of any kind."""
    match action:
        case ("cancel",):
            system.zookeeper.put(p.paths.CANCEL, b"")
        case ("retarget",):
            request(system, system.shape.retarget)
        case ("delete topic",):
            system.zookeeper.put(MARKER, b"")
        case ("create topic",):
            system.zookeeper.ensure(TOPIC_PATH, topic_znode(system.shape.before))
        case ("erase", step):
            _erase(system, step)
        case ("replace topic",):
            system.zookeeper.put(MARKER, b"")
            for step in STEPS:
                _erase(system, step)
            system.zookeeper.ensure(TOPIC_PATH, topic_znode(system.shape.before))
            system.do_duty()
        case _:
            system.do(action, fault)
            return
    system.follow()


def _may_delete(system: System) -> bool:
    """Return whether Kafka's controller may carry out a deletion: not while replicas move."""
    assignment = system.assignment()
    return system.is_kafkas() and (
        assignment is None
        or (
            not assignment.is_reassigning
            and all(system.brokers[r].is_alive for r in assignment.replicas)
        )
    )


def _deletion_step(system: System) -> str | None:
    """Return the next step of a deletion by Kafka's controller."""
    if system.data(MARKER) is None or not _may_delete(system):
        return None
    if system.assignment() is None:
        return "marker"
    brokers = system.brokers.values()
    if any(b.is_alive and (PARTITION in b.hosted or PARTITION in b.logs) for b in brokers):
        return "logs"
    return "states" if system.zookeeper.children(TOPIC_PATH) else "topic"


def _erase(system: System, step: str) -> None:
    zookeeper = system.zookeeper
    match step:
        case "logs":
            epoch = p.ControllerEpoch(int(system.data(p.paths.CONTROLLER_EPOCH) or b"0"))
            stop = p.StopReplicaState(PARTITION, p.LeaderEpoch(DURING_DELETE), delete=True)
            for broker in system.brokers.values():
                if broker.is_alive:
                    broker.handle(p.StopReplica(epoch, (stop,)), broker.epoch, system.news)
        case "states":
            zookeeper.remove_tree(f"{TOPIC_PATH}/partitions")
        case "topic":
            zookeeper.remove_tree(TOPIC_PATH)
        case _:
            zookeeper.remove_tree(MARKER)
