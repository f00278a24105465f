"""
Check what clients want of new topics and partitions, as Kafka's controller does.

The errors and their texts are Kafka's (``Topic``, ``AdminZkClient``, ``ZkAdminManager``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from controller import kafka_errors
from controller.core.calls.topic_requests import NewTopic, TopicRefusedError
from controller.core.model import BrokerId, Replicas
from controller.core.view import ClusterView

NAME_MAX: Final = 249
"""The longest name of a topic: its directory has a suffix."""
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_PARTITION_BYTES: Final = 12
_REPLICA_BYTES: Final = 2
"""Estimates for a partition in its topic's znode, and for each replica besides its id."""


def check_name(name: str, colliding: Sequence[str]) -> None:
    """
    Check the name of a new topic.

    Args:
        name: The name.
        colliding: Topics that exist and whose metrics would have the same name.

    Raises:
        TopicRefusedError: it is invalid, or collides.

    """
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
    if reason is not None:
        text = f"Topic name is invalid: {reason}"
        raise TopicRefusedError(kafka_errors.INVALID_TOPIC_EXCEPTION, text)
    if colliding:
        text = f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
        raise TopicRefusedError(kafka_errors.INVALID_TOPIC_EXCEPTION, text)


def check_assigned(view: ClusterView, topic: NewTopic) -> None:
    """
    Check the replicas that a client wants for a new topic.

    Raises:
        TopicRefusedError: they are invalid.

    """
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


def check_added(
    brokers: Iterable[BrokerId],
    assignments: tuple[Replicas, ...],
    more: int,
    present: int,
    first: Replicas,
) -> None:
    """
    Check the replicas that a client wants for additional partitions.

    Args:
        brokers: Those that are live.
        assignments: The replicas of each additional partition.
        more: How many partitions are added.
        present: How many there are.
        first: The replicas of partition 0.

    Raises:
        TopicRefusedError: they are invalid.

    """
    invalid = kafka_errors.INVALID_REPLICA_ASSIGNMENT
    unknown = sorted({r for replicas in assignments for r in replicas}.difference(brokers))
    if unknown:
        text = f"Unknown broker(s) in replica assignment: {_listed(unknown)}."
        raise TopicRefusedError(invalid, text)
    if len(assignments) != more:
        text = (
            f"Increasing the number of partitions by {more} but {len(assignments)} assignments "
            "provided."
        )
        raise TopicRefusedError(invalid, text)
    for number, replicas in enumerate(assignments, present):
        if not replicas:
            text = f"Cannot have replication factor of 0 for partition id {number}."
            raise TopicRefusedError(invalid, text)
        if len(set(replicas)) != len(replicas):
            text = (
                f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} for "
                f"partition id {number}."
            )
            raise TopicRefusedError(invalid, text)
    uneven = {n: len(rs) for n, rs in enumerate(assignments, present) if len(rs) != len(first)}
    if uneven:
        text = (
            "Inconsistent replication factor between partitions, partition 0 has "
            f"{len(first)} while partitions [{_listed(uneven)}] have replication factors "
            f"[{_listed(uneven.values())}], respectively."
        )
        raise TopicRefusedError(invalid, text)


def _listed(numbers: Iterable[int]) -> str:
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
