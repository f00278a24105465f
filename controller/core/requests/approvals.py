"""
Approved plans: the hash that an approval names, and whether a partition is still as approved.

An approval covers the target replicas of each entry and the replicas from which they are reached,
both in order. The first step of an approved entry begins only from these replicas. From then on it
is an ordinary reassignment: its record no longer names them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from controller.core import model
from controller.core.model import Replicas, TopicPartition
from controller.core.requests.submissions import NO_DIRS, NamedDirs, listed_dirs

REQUIRED: Final = (
    "require_approval is set: only approved plans are accepted; see `reassigner execute --approved`"
)
"""The reason for which an entry without an approval is refused."""


def plan_hash(
    entries: Mapping[TopicPartition, Replicas],
    expected: Mapping[TopicPartition, Replicas],
    log_dirs: NamedDirs = NO_DIRS,
) -> str:
    """
    Return the hash of a plan: SHA-256 of its sorted entries as canonical JSON.

    It covers everything that an entry can choose, so that equal hashes mean equal changes.

    Args:
        entries: The target replicas.
        expected: The replicas of each partition before the first step.
        log_dirs: The log directories of the entries that name any.

    """
    rows = [
        {
            "topic": p.topic,
            "partition": p.partition,
            "replicas": entries[p],
            "original_replicas": expected.get(p),
            **({"log_dirs": listed_dirs(entries[p], log_dirs[p])} if p in log_dirs else {}),
        }
        for p in sorted(entries)
    ]
    canonical = json.dumps(rows, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class Standing(Enum):
    """The relation of a partition to the approval of its reassignment."""

    UNCHANGED = auto()
    """It has the replicas that were approved, or the target replicas already."""
    BEGUN = auto()
    """Its first step began, or no approval is recorded."""
    DRIFTED = auto()
    """Another client changed its replicas before the first step."""


def standing_of(spec: model.ReassignmentSpec, assignment: model.PartitionAssignment) -> Standing:
    """Return whether a partition is as its reassignment was approved for."""
    if spec.expected is None:
        return Standing.BEGUN
    if not assignment.is_reassigning and assignment.replicas in (spec.expected, spec.target):
        return Standing.UNCHANGED
    is_from_there = set(assignment.origin_replicas) == set(spec.expected)
    # A controller that has carried out the step keeps no trace of its origin.
    is_step = is_from_there or not assignment.is_reassigning
    if is_step and assignment.target_replicas == spec.asked:
        return Standing.BEGUN
    return Standing.DRIFTED


def has_drifted(spec: model.ReassignmentSpec, assignment: model.PartitionAssignment | None) -> bool:
    """Return whether another client changed the replicas of an approved entry before it began."""
    return assignment is not None and standing_of(spec, assignment) is Standing.DRIFTED


def drift_text(expected: Replicas, assignment: model.PartitionAssignment) -> str:
    """Describe how the replicas differ from those that were approved."""
    text = f"it was approved for the replicas {list(expected)}, it has {list(assignment.replicas)}"
    if assignment.adding_replicas:
        text += f", adding {list(assignment.adding_replicas)}"
    if assignment.removing_replicas:
        text += f", removing {list(assignment.removing_replicas)}"
    return text
