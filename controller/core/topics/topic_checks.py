"""
Check what clients want of new topics and partitions, as Kafka's controller does.

The errors and their texts are those of ``Topic``, ``AdminZkClient`` and ``ZkAdminManager``. All
refuse with a ``TopicRefusedError``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from controller import kafka_errors
from controller.core.calls.client_requests import NewTopic, TopicRefusedError
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId, Replicas
from controller.core.view import ClusterView

NAME_MAX: Final = 249
"""The longest name of a topic: its directory has a suffix."""
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_PARTITION_BYTES: Final = 12
_REPLICA_BYTES: Final = 2
"""Estimates for a partition in its topic's znode, and for each replica besides its id."""


def check_name(name: str, colliding: Sequence[str]) -> None:
    """Check the name of a new topic; metrics of ``colliding`` topics have the same name."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_MAX}"
    elif _NAME.fullmatch(name) is None:
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    problem = None if reason is None else f"Topic name is invalid: {reason}"
    if problem is None and colliding:
        problem = f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
    if problem is not None:
        raise TopicRefusedError(kafka_errors.INVALID_TOPIC_EXCEPTION, problem)


def check_assigned(view: ClusterView, topic: NewTopic) -> None:
    """Check the replicas that a client wants for a new topic."""
    invalid = kafka_errors.INVALID_REPLICA_ASSIGNMENT
    assigned = topic.assigned
    if len({len(replicas) for replicas in assigned.values()}) != 1:
        raise TopicRefusedError(invalid, "All partitions should have the same number of replicas")
    for replicas in assigned.values():
        if len(set(replicas)) != len(replicas):
            raise TopicRefusedError(
                invalid, f"Duplicate replica assignment found: {list(replicas)}"
            )
        # Kafka's controller accepts any number, and lists without any: it creates partitions that
        # no controller can serve.
        if not replicas or min(replicas) < 0 or view.options.controller_id in replicas:
            raise TopicRefusedError(invalid, f"No broker can hold the replicas {list(replicas)}")
    if list(assigned) != list(range(len(assigned))):
        raise TopicRefusedError(
            invalid, "partitions should be a consecutive 0-based integer sequence"
        )
    check_size(view, len(assigned), len(assigned[0]))


def problem_of_added(
    brokers: Iterable[BrokerId],
    assignments: tuple[Replicas, ...],
    more: int,
    present: int,
    first: Replicas,
) -> str | None:
    """
    Return why ``more`` partitions besides those ``present`` cannot have these replicas, if so.

    Of the live ``brokers``; ``first`` are the replicas of partition 0.
    """
    unknown = sorted({r for replicas in assignments for r in replicas}.difference(brokers))
    if unknown:
        return f"Unknown broker(s) in replica assignment: {_list_text(unknown)}."
    if len(assignments) != more:
        return (
            f"Increasing the number of partitions by {more} but {len(assignments)} assignments "
            "provided."
        )
    for number, replicas in enumerate(assignments, present):
        if not replicas:
            return f"Cannot have replication factor of 0 for partition id {number}."
        if len(set(replicas)) != len(replicas):
            return (
                f"Duplicate brokers not allowed in replica assignment: {_list_text(replicas)} for "
                f"partition id {number}."
            )
    uneven = {n: len(rs) for n, rs in enumerate(assignments, present) if len(rs) != len(first)}
    if not uneven:
        return None
    return (
        f"Inconsistent replication factor between partitions, partition 0 has {len(first)} while "
        f"partitions [{_list_text(uneven)}] have replication factors "
        f"[{_list_text(uneven.values())}], respectively."
    )


def _list_text(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def check_size(view: ClusterView, partitions: int, replication_factor: int) -> None:
    """Refuse more partitions than ZooKeeper takes in a znode."""
    widest = max((len(str(b)) for b in view.cluster.brokers), default=1)
    each = _PARTITION_BYTES + (_REPLICA_BYTES + widest) * replication_factor
    if partitions * each > view.options.request_bytes * 9 // 10:
        raise TopicRefusedError(
            kafka_errors.INVALID_PARTITIONS,
            f"{partitions} partitions exceed the largest znode that ZooKeeper takes",
        )


def check(brokers: Collection[LiveBroker], count: int, replication_factor: int) -> None:
    """Refuse impossible numbers, and racks of some brokers only, before anything is computed."""
    invalid = kafka_errors.INVALID_REPLICATION_FACTOR
    if count <= 0:
        text = "Number of partitions must be larger than 0."
        raise TopicRefusedError(kafka_errors.INVALID_PARTITIONS, text)
    if replication_factor <= 0:
        raise TopicRefusedError(invalid, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        text = (
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}."
        )
        raise TopicRefusedError(invalid, text)
    with_rack = sum(b.rack is not None for b in brokers)
    if with_rack not in (0, len(brokers)):
        text = "Not all brokers have rack information for replica rack aware assignment."
        raise TopicRefusedError(kafka_errors.UNKNOWN_SERVER_ERROR, text)
