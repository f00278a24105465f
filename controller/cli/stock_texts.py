"""
The texts of Kafka's own tool, of 3.9 and of those that spoke to ZooKeeper. Scripts read them.

Copied to the byte, odd ones included; ``integration/test_stock.py`` runs both tools side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.cli.report_text import ids
from controller.cli.stock_activities import Activity
from controller.cli.stock_files import ANY_LOG_DIR
from controller.core.model import Replicas, TopicPartition

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
"""Of replicas between log directories; the tool does not end this line."""
RACKLESS: Final = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make "
    "replica assignment without rack information."
)
UNKNOWN_TOPIC: Final = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
"""The name of a class, which the tool prints before such a message."""


def plan_json(plan: Mapping[TopicPartition, Replicas]) -> str:
    """Write a plan as the tool does: sorted, on one line, with log directories."""
    return json.dumps(
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
        },
        separators=(",", ":"),
    )


def plural(count: int) -> str:
    """Return the letter that tells one from several."""
    return "" if count == 1 else "s"


def listed(partitions: Iterable[TopicPartition]) -> str:
    """List partitions in order."""
    return ",".join(map(str, sorted(partitions)))


def current_text(plan: Mapping[TopicPartition, Replicas]) -> str:
    """Tell what is, so that it can be gone back to."""
    return (
        f"Current partition replica assignment\n\n{plan_json(plan)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def activities_text(active: Mapping[TopicPartition, Activity]) -> str:
    """List what is being reassigned."""
    if not active:
        return "No partition reassignments found."
    lines = [f"{p}: {_activity(active[p])}" for p in sorted(active)]
    return "\n".join(("Current partition reassignments:", *lines))


def _activity(activity: Activity) -> str:
    adding = f" adding: {ids(activity.adding)}." if activity.adding else ""
    removing = f" removing: {ids(activity.removing)}." if activity.removing else ""
    return f"replicas: {ids(activity.replicas)}.{adding}{removing}"


def verified_text(partition: TopicPartition, now: Sequence[int] | None, target: Replicas) -> str:
    """Tell where a partition stands; ``now`` is None while it is being reassigned."""
    if now is None:
        return f"Reassignment of partition {partition} is still in progress."
    if tuple(now) == target:
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {ids(now)} "
        f"rather than {ids(target)}."
    )


def throttle_text(bytes_per_s: int) -> str:
    """Tell that copies are throttled."""
    return f"The inter-broker throttle limit was set to {bytes_per_s} B/s"


def log_dir_throttle_text(bytes_per_s: int) -> str:
    """Tell that copies between log directories are throttled."""
    return f"The replica-alter-dir throttle limit was set to {bytes_per_s} B/s"


def started_text(partitions: Sequence[TopicPartition]) -> str:
    """Tell that a plan is being carried out."""
    names = listed(partitions)
    return f"Successfully started partition reassignment{plural(len(partitions))} for {names}"


def cancelled_text(partitions: Sequence[TopicPartition]) -> str:
    """Tell that reassignments are called off."""
    names = listed(partitions)
    return f"Successfully cancelled partition reassignment{plural(len(partitions))} for: {names}"


def clearing_text(level: str, names: Sequence[object]) -> str:
    """Tell that the throttles of brokers or topics are taken away."""
    found = ",".join(map(str, names))
    return f"Clearing {level}-level throttles on {level}{plural(len(names))} {found}"
