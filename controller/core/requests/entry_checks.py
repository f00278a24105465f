"""
Checks of one entry of a plan: those of ``PartitionReassignedListener`` and our own.

Commands and pages preview a plan with them; the listener's checks are in KAFKA-42.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.core import model
from controller.core.disks import known_directories
from controller.core.model import (
    LogDirs,
    Refusal,
    RefusalReason,
    Replicas,
    RequestId,
    Route,
    TopicPartition,
    count_text,
    entry_text,
    ids,
)
from controller.core.pacing.drained_replicas import drained_brokers
from controller.core.requests import submissions
from controller.core.view import ClusterView

SPECS_PATH: Final = "/admin/reassignments"
"""The prefix by which unreadable records are named."""


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """An entry of a plan or a request."""

    request: RequestId
    partition: TopicPartition
    target: Replicas
    log_dirs: LogDirs = ()
    """The log directories that it names: it is done when the replicas are there."""
    expected: Replicas | None = None
    """The replicas that an approved entry names."""
    route: Route = Route.REQUEST

    def refusal(self, reason: RefusalReason, detail: str, *, was_accepted: bool = False) -> Refusal:
        """Return the refusal of the entry."""
        text = entry_text(self.partition, self.target)
        return Refusal(
            self.request, text, reason, detail, self.partition, was_accepted=was_accepted
        )


def refusal_of(view: ClusterView, entry: PlanEntry) -> Refusal | None:
    """Return why an entry is refused, None when it is valid or cannot be judged yet."""
    return (
        _refusal_of_target(view, entry)
        or _refusal_of_directories(view, entry)
        or _refusal_of_drifted(view, entry)
    )


def _refusal_of_target(  # noqa: PLR0911 - one return per reason
    view: ClusterView, entry: PlanEntry
) -> Refusal | None:
    topics, partition, target, refuse = view.topics, entry.partition, entry.target, entry.refusal
    topic = topics.by_name.get(partition.topic)
    assignment = topic.partitions.get(partition.partition) if topic else None
    why = topics.unreadable.get(partition.topic)
    if not why and (unreadable := view.reassignments.unreadable_specs):
        why = unreadable.get(f"{SPECS_PATH}/{partition.topic}/{partition.partition}")
    if why is not None:
        return refuse(RefusalReason.UNREADABLE, f"one of its znodes cannot be decoded: {why}")
    if assignment is None:
        what = "partition" if topic else "topic"
        return refuse(RefusalReason.UNKNOWN_PARTITION, f"the {what} does not exist")
    if view.is_to_be_deleted(partition.topic):
        return refuse(RefusalReason.TOPIC_BEING_DELETED, "the topic is queued for deletion")
    if not target:
        return refuse(RefusalReason.EMPTY_REPLICAS, "the replica list is empty")
    if len(set(target)) != len(target):
        return refuse(RefusalReason.DUPLICATE_REPLICAS, "a broker is listed twice")
    origin = assignment.replicas
    dead = tuple(r for r in target if r not in origin and r not in view.cluster.brokers)
    if dead:
        return refuse(
            RefusalReason.UNKNOWN_BROKER, f"broker {ids(dead)} is not live and not a replica yet"
        )
    drained = tuple(r for r in target if r not in origin and r in drained_brokers(view))
    if drained:
        return refuse(
            RefusalReason.DRAINED_BROKER,
            f"broker {ids(drained)} is drained: `reassigner drain --stop` ends that",
        )
    config = topics.configs.get(partition.topic)
    if config is not None and len(target) < min(config.min_insync_replicas, len(origin)):
        return refuse(
            RefusalReason.BELOW_MIN_ISR,
            f"{count_text(len(target), 'replica')}, fewer than min.insync.replicas "
            f"({config.min_insync_replicas}): producers would fail",
        )
    return None


def _refusal_of_drifted(view: ClusterView, entry: PlanEntry) -> Refusal | None:
    assignment = view.topics.known_assignment(entry.partition)
    if entry.expected is None or assignment is None:
        return None
    running = view.reassignments.by_partition.get(entry.partition)
    spec = model.ReassignmentSpec(
        entry.target, None, entry.request, Route.REQUEST, expected=entry.expected
    )
    if submissions.has_drifted(spec, assignment):
        detail = submissions.drift_text(entry.expected, assignment)
    elif running is not None and (running.in_flight or running.may_be_made):
        detail = f"it is being reassigned by {running.spec.request}"
    else:
        return None
    return entry.refusal(RefusalReason.DRIFTED, detail)


def _refusal_of_directories(view: ClusterView, entry: PlanEntry) -> Refusal | None:
    problem = known_directories.problem_of(view, entry.log_dirs)
    return None if problem is None else entry.refusal(RefusalReason.LOG_DIR, problem)


def is_undecidable(view: ClusterView, partition: TopicPartition) -> bool:
    """
    Return whether a read of the topic, or the end of a record of a former topic, comes first.

    That record would be taken for a reassignment of the present topic, by this route or another.
    """
    if view.is_of_former_topic(partition):
        return True
    topic = partition.topic
    known = view.topics.by_name.get(topic)
    awaits_read = topic in (view.topics.listed or ()) if known is None else known.stale
    return awaits_read and topic not in view.topics.unreadable
