"""Events and records of topic deletions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from controller.core import model
from controller.core.bases import Durable, Fact, Flags, Volatile
from controller.core.calls.topic_requests import TopicResult
from controller.core.deletions.model import TopicTree


@dataclass(frozen=True, slots=True)
class DeletionsRead(Fact):
    """Topics queued under ``/admin/delete_topics``."""

    wakes: ClassVar[Flags] = ("tenure", "plan", "capacity", "deletions")

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicTreesRead(Fact):
    """The znodes of topics that are to be deleted; None for a topic that does not exist."""

    wakes: ClassVar[Flags] = ("deletions",)

    trees: Mapping[str, TopicTree | None]


@dataclass(frozen=True, slots=True)
class DeletionRequestedRecord(Durable):
    """``/admin/delete_topics/T`` is created, for a client's DeleteTopics, if the topic exists."""

    wakes: ClassVar[Flags] = ("pending_requests",)

    ticket: int
    result: TopicResult
    """The client's."""


@dataclass(frozen=True, slots=True)
class DeletionBegunRecord(Durable):
    """
    The deletion of a topic begins: its marker exists and its znode is as it was read.

    Nothing is written; the multi checks both.
    """

    wakes: ClassVar[Flags] = ("deletions",)

    topic: str
    version: model.ZkVersion
    """The version of the topic znode."""


@dataclass(frozen=True, slots=True)
class PartitionZnodesDeletedRecord(Durable):
    """Some znodes below a topic znode are deleted: the topic has too many for one multi."""

    wakes: ClassVar[Flags] = ("deletions",)
    is_journaled: ClassVar[bool] = False

    topic: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicDeletedRecord(Durable):
    """
    A topic, the rest below it, its settings and its marker are deleted in one multi.

    What there is to delete is what was listed of it (``DeletionLedger.trees``).
    """

    wakes: ClassVar[Flags] = (
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
    )

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionMarkerEndedRecord(Durable):
    """``/admin/delete_topics/T`` is deleted: there is no such topic."""

    wakes: ClassVar[Flags] = ("tenure", "pending_requests")

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionBlockedRecord(Volatile):
    """What the deletion of a topic waits for; None when it proceeds."""

    wakes: ClassVar[Flags] = ("tenure", "capacity", "deletions")

    topic: str
    wait: str | None


DeletionEvent = DeletionsRead | TopicTreesRead


DeletionRecord = (
    DeletionRequestedRecord
    | DeletionBegunRecord
    | PartitionZnodesDeletedRecord
    | TopicDeletedRecord
    | DeletionMarkerEndedRecord
    | DeletionBlockedRecord
)
