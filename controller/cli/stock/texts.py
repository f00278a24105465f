"""
The texts of Kafka's tool, of 3.9 and of the versions before 2.6, to the byte.

Scripts read them. ``integration/test_stock.py`` runs both tools side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.cli.stock.files import ANY_LOG_DIR, Placement
from controller.core.model import Replicas, TopicPartition
from controller.previews.active_reassignments import ActiveReassignment
from controller.units import ids

EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
RUN_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
RUN_VERIFY_BEFORE_2_6: Final = (
    "Warning: You must run Verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed. You can also alter the throttle by rerunning the Execute command passing "
    "a new value."
)
NONE_ACTIVE: Final = "None of the specified partition reassignments are active."
NO_MOVES: Final = "None of the specified partition moves are active."
"""Moves between log directories; Kafka's tool prints no newline after it."""
EMPTY_PLAN: Final = "Partition reassignment list cannot be empty"
EMPTY_PLAN_BEFORE_2_6: Final = "Partition reassignment data file is empty"
UNKNOWN_TOPIC: Final = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
"""The name of the exception, which Kafka's tool prints before its message."""


def plan_json(plan: Mapping[TopicPartition, Replicas]) -> str:
    """Encode a plan: sorted, on one line, with log directories."""
    return _json(
        {
            "version": 1,
            "partitions": [
                {
                    "topic": p.topic,
                    "partition": p.partition,
                    "replicas": list(replicas),
                    "log_dirs": [ANY_LOG_DIR for _ in replicas],
                }
                for p, replicas in sorted(plan.items())
            ],
        }
    )


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))


def proposal_text(
    before: Mapping[TopicPartition, Replicas], after: Mapping[TopicPartition, Replicas]
) -> str:
    """Return a proposal: the current and the proposed plan."""
    return _proposal(plan_json(before), plan_json(after))


def documents_text(current: object, proposed: object) -> str:
    """Return a proposal of two documents of plans, which have no log directories."""
    return _proposal(_json(current), _json(proposed))


def _proposal(current: str, proposed: str) -> str:
    return (
        f"Current partition replica assignment\n{current}\n\n"
        f"Proposed partition reassignment configuration\n{proposed}"
    )


def plural(count: int) -> str:
    """Return the ending of a plural."""
    return "" if count == 1 else "s"


def partitions_text(partitions: Iterable[TopicPartition]) -> str:
    """List partitions, sorted."""
    return ",".join(map(str, sorted(partitions)))


def current_text(plan: Mapping[TopicPartition, Replicas]) -> str:
    """Return the current replicas, which serve as a rollback plan."""
    return (
        f"Current partition replica assignment\n\n{plan_json(plan)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def active_text(active: Mapping[TopicPartition, ActiveReassignment]) -> str:
    """List the active reassignments."""
    if not active:
        return "No partition reassignments found."
    lines = [f"{p}: {_active(active[p])}" for p in sorted(active)]
    return "\n".join(("Current partition reassignments:", *lines))


def _active(found: ActiveReassignment) -> str:
    adding = f" adding: {ids(found.adding)}." if found.adding else ""
    removing = f" removing: {ids(found.removing)}." if found.removing else ""
    return f"replicas: {ids(found.replicas)}.{adding}{removing}"


def verified_text(partition: TopicPartition, now: Sequence[int] | None, target: Replicas) -> str:
    """Return the state of a partition; ``now`` is None while its reassignment is active."""
    if now is None:
        return f"Reassignment of partition {partition} is still in progress."
    if tuple(now) == target:
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {ids(now)} "
        f"rather than {ids(target)}."
    )


def move_text(move: Placement, here: str | None, future: str | None) -> str:
    """Return the state of a replica that is to be in a log directory."""
    partition, broker, wanted = move
    if here is None:
        return (
            f"Partition {partition} is not found in any live log dir on broker {broker}. There is "
            "likely an offline log directory on the broker."
        )
    if future is None and here == wanted:
        return f"Reassignment of replica {partition}-{broker} completed successfully."
    if future is None:
        return (
            f"Partition {partition} on broker {broker} is not being moved from log dir {here} to "
            f"{wanted}."
        )
    if future == wanted:
        return f"Reassignment of replica {partition}-{broker} is still in progress."
    return (
        f"Partition {partition} on broker {broker} is being moved to log dir {future} instead of "
        f"{wanted}."
    )


def move_started_text(move: Placement) -> str:
    """Return the message about a replica that gets a log directory; it ends with a space."""
    partition, broker, wanted = move
    return (
        f"Successfully started moving log directory to {wanted} for replica {partition} with "
        f"broker {broker} "
    )


def throttle_text(bytes_per_s: int) -> str:
    """Return the message about the throttle of copies."""
    return f"The inter-broker throttle limit was set to {bytes_per_s} B/s"


def log_dir_throttle_text(bytes_per_s: int) -> str:
    """Return the message about the throttle of moves between log directories."""
    return f"The replica-alter-dir throttle limit was set to {bytes_per_s} B/s"


def started_text(partitions: Sequence[TopicPartition]) -> str:
    """Return the message of a successful ``--execute``."""
    names = partitions_text(partitions)
    return f"Successfully started partition reassignment{plural(len(partitions))} for {names}"


def cancelled_text(partitions: Sequence[TopicPartition]) -> str:
    """Return the message of a successful ``--cancel``."""
    names = partitions_text(partitions)
    return f"Successfully cancelled partition reassignment{plural(len(partitions))} for: {names}"


def clearing_text(level: str, names: Sequence[object]) -> str:
    """Return the message about the cleared throttles of brokers or topics."""
    found = ",".join(map(str, names))
    return f"Clearing {level}-level throttles on {level}{plural(len(names))} {found}"
