"""Events and records of topic deletions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core import model
from controller.core.bases import Durable, Fact, Volatile
from controller.core.deletions.model import TopicTree
from controller.core.topics.model import TopicResult


@dataclass(frozen=True, slots=True)
class DeletionsRead(Fact, wakes=("tenure", "plan", "capacity", "deletions")):
    """Topics queued under ``/admin/delete_topics``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicTreesRead(Fact, wakes=("deletions",)):
    """The znodes of topics that are to be deleted; None for a topic that does not exist."""

    trees: Mapping[str, TopicTree | None]


@dataclass(frozen=True, slots=True)
class DeletionRequestedRecord(Durable, wakes=("pending_requests",)):
    """``/admin/delete_topics/T`` is created, for a client's DeleteTopics, if the topic exists."""

    ticket: int
    result: TopicResult
    """The client's."""


@dataclass(frozen=True, slots=True)
class DeletionBegunRecord(Durable, wakes=("deletions",)):
    """
    The deletion of a topic begins: its marker exists and its znode is as it was read.

    Nothing is written; the multi checks both.
    """

    topic: str
    version: model.ZkVersion
    """The version of the topic znode."""


@dataclass(frozen=True, slots=True)
class PartitionZnodesDeletedRecord(Durable, wakes=("deletions",), is_journaled=False):
    """Some znodes below a topic znode are deleted: the topic has too many for one multi."""

    topic: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicDeletedRecord(
    Durable,
    wakes=(
        "listed_topics",
        "tenure",
        "plan",
        "capacity",
        "submissions",
        "queue",
        "cancel",
        "orphans",
        "pending_requests",
        "deletions",
    ),
):
    """
    A topic, the rest below it, its settings and its marker are deleted in one multi.

    What there is to delete is what was listed of it (``DeletionLedger.trees``).
    """

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionMarkerEndedRecord(Durable, wakes=("tenure", "pending_requests")):
    """``/admin/delete_topics/T`` is deleted: there is no such topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class StaleMarkerEndedRecord(Durable, wakes=("tenure", "pending_requests", "deletions")):
    """
    ``/admin/delete_topics/T`` is deleted, and the topic stays: it was created after the marker.

    The multi checks that the topic znode is as it was read.
    """

    topic: str
    version: model.ZkVersion
    """The version of the topic znode."""
    marker_version: model.ZkVersion


@dataclass(frozen=True, slots=True)
class DeletionBlockedRecord(Volatile, wakes=("tenure", "capacity", "deletions")):
    """What the deletion of a topic waits for; None when it proceeds."""

    topic: str
    wait: str | None


DeletionEvent = DeletionsRead | TopicTreesRead


DeletionRecord = (
    DeletionRequestedRecord
    | DeletionBegunRecord
    | PartitionZnodesDeletedRecord
    | TopicDeletedRecord
    | DeletionMarkerEndedRecord
    | StaleMarkerEndedRecord
    | DeletionBlockedRecord
)
