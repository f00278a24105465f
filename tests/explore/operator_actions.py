"""
What operators and clients do at any instant, and how Kafka's controller deletes a topic.

A shape names what its operator does. Whatever begins something costs a part of the budget; what
only ends it is free. Kafka's controller takes each step of a deletion at any instant, or never: it
sends StopReplica to every broker, then removes the states, the topic znode, and the marker. A
client may create the topic again once its znode is gone: all but its czxid is as before. A shape
may do all of that in one instant (``replace``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
RATE: Final = 2000
"""The throttle that an operator sets for all requests, and removes."""
UNKNOWN: Final = (99,)
"""Replicas of a plan that is refused: there is no such broker."""
STEPS: Final = ("logs", "states", "topic", "marker")
"""A deletion by Kafka's controller."""


def choices(system: System, budget: Budget) -> Iterator[tuple[Action, Budget]]:
    """Yield what an operator, a client or a deletion by Kafka's controller may do next."""
    if not system.shape.acts_early or _is_early(system):
        for name, may in BEGUN.items():
            if budget.operator and name in system.shape.operations and may(system):
                yield (name,), OPERATOR
    if "pause" in system.shape.operations and system.data(p.PAUSES) is not None:
        yield ("resume",), FREE
    step = _deletion_step(system) if "delete topic" in system.shape.operations else None
    if step is not None:
        yield ("erase", step), FREE


def act(  # noqa: C901 - one arm per action
    system: System, action: Action, fault: Action | None = None
) -> None:
    """Carry out an action of any kind."""
    match action:
        case ("cancel",):
            system.zookeeper.put(p.paths.CANCEL, b"")
        case ("retarget",):
            request(system, system.shape.retarget)
        case ("refused plan",):
            request(system, UNKNOWN)
        case ("take role",):
            system.zookeeper.remove_tree(p.paths.CONTROLLER)
        case ("pause",):
            system.zookeeper.put(p.PAUSES, p.encode_pauses(p.Pauses(p.Pause())))
        case ("resume",):
            system.zookeeper.remove_tree(p.PAUSES)
        case ("drain",):
            drains = p.Drains({p.BrokerId(system.shape.drained): p.Drain()})
            system.zookeeper.put(p.paths.DRAINS, p.encode_drains(drains))
        case ("occupy",):
            system.occupy()
        case ("throttle",):
            system.zookeeper.put(p.paths.THROTTLE, p.encode_throttle(RATE))
        case ("unthrottle",):
            system.zookeeper.remove_tree(p.paths.THROTTLE)
        case _:
            _act_on_topic(system, action, fault)
            return
    system.follow()


def _act_on_topic(system: System, action: Action, fault: Action | None) -> None:
    match action:
        case ("delete topic",):
            system.zookeeper.put(MARKER, b"")
        case ("create topic",):
            system.zookeeper.ensure(TOPIC_PATH, topic_znode(system.shape.before))
        case ("rewrite topic",):
            system.zookeeper.put(TOPIC_PATH, system.data(TOPIC_PATH) or b"")
        case ("erase", step):
            _erase(system, step)
        case ("replace topic",):
            system.zookeeper.put(MARKER, b"")
            for step in STEPS:
                _erase(system, step)
            system.zookeeper.ensure(TOPIC_PATH, topic_znode(system.shape.before))
            system.run_kafka()
        case _:
            system.do(action, fault)
            return
    system.follow()


def _has_topic(system: System) -> bool:
    return system.data(TOPIC_PATH) is not None


def _may_replace(system: System) -> bool:
    """
    Return whether a topic may be deleted and created again in one instant.

    With the delegated engine only while no request is on its way, and none can be sent: a request
    has no topic id, and is carried out for whatever topic has the name.
    """
    is_free = "occupy" not in system.shape.operations or (
        system.calls and not any(call.entries for call in system.calls)
    )
    return bool(is_free) and _has_topic(system) and _may_delete(system)


def _is_reassigning(system: System) -> bool:
    assignment = system.assignment()
    return assignment is not None and assignment.is_reassigning


def _is_early(system: System) -> bool:
    """Return whether no daemon has begun a step: before, at and right after a claim."""
    state, assignment = system.state(), system.assignment()
    return (state is None or not state.leader_epoch) and (
        assignment is None or not assignment.is_reassigning
    )


def _may_delete(system: System) -> bool:
    """Return whether Kafka's controller may carry out a deletion: not while replicas move."""
    assignment = system.assignment()
    return system.kafka is not None and (
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


BEGUN: Final[dict[str, Callable[[System], bool]]] = {
    "cancel": lambda _: True,
    "retarget": lambda _: True,
    "refused plan": lambda _: True,
    "take role": lambda system: system.data(p.paths.CONTROLLER) is not None,
    "drain": lambda system: system.data(p.paths.DRAINS) is None,
    "occupy": lambda system: not system.calls and not _is_reassigning(system),
    "pause": lambda system: system.data(p.PAUSES) is None,
    "throttle": lambda system: system.data(p.paths.THROTTLE) is None,
    "unthrottle": lambda system: system.data(p.paths.THROTTLE) is not None,
    "delete topic": lambda system: _has_topic(system) and system.data(MARKER) is None,
    "create topic": lambda system: not _has_topic(system),
    "rewrite topic": _is_reassigning,
    "replace topic": _may_replace,
}
"""What an operator may begin, and when."""
