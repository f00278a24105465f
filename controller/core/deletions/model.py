"""The vocabulary of topic deletions, and the ledgers of what is known of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from controller.core.bases import Ledger, Lifetime
from controller.core.model import (
    START,
    BrokerId,
    Instant,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
    Zxid,
)

LEADER_DURING_DELETE: Final = BrokerId(-2)
"""
The leader in UpdateMetadata for a partition that is being deleted: brokers remove it from the
metadata they serve.
"""
EPOCH_DURING_DELETE: Final = LeaderEpoch(-2)
"""The leader epoch in StopReplica for a replica whose topic is being deleted: never fenced."""
DELETION_PATIENCE_S: Final = 30.0
"""
How long a pending deletion delays a claim, and a tenure a pending deletion, in seconds.

A broker that got the role for deletions also keeps it that long, unless they end sooner.
"""


class DeletionMarker(NamedTuple):
    """A znode in ``/admin/delete_topics``."""

    czxid: Zxid
    version: ZkVersion


class TopicTree(NamedTuple):
    """The znodes of a topic, as they were listed to be deleted."""

    czxid: Zxid
    version: ZkVersion
    below: tuple[str, ...]
    """The paths below the topic znode, children before their parents."""
    has_configs: bool
    """Whether ``/config/topics/T`` exists."""
    marker: DeletionMarker | None = None
    """The marker, read before the topic znode; None: it is gone."""

    @property
    def is_newer(self) -> bool:
        """
        Return whether the topic was created after its marker, which meant a former one.

        A controller that died after it deleted a topic znode leaves the marker. A client creates
        the marker of a topic that exists.
        """
        return self.marker is not None and self.marker.czxid < self.czxid


@dataclass(slots=True)
class TopicDeletion:
    """The deletion of a topic that this tenure began."""

    waiting: dict[BrokerId, set[int]]
    """The partitions of each broker whose replica it has not confirmed to be deleted."""
    informing: set[BrokerId]
    """Live brokers that have not confirmed to know nothing of the topic any more."""
    unsent: dict[BrokerId, set[int]]
    """
    Brokers of both that are to be sent the requests, first or again, with their partitions.

    One that is not live is sent them when it is back.
    """
    unreached: set[BrokerId] = field(default_factory=set)
    """
    Brokers with a replica that were not sent the deletion since they registered.

    They may be sent the states of their replicas, as by Kafka's controller: only the answer to that
    shows a replica that is in a failed log directory since the broker started.
    """
    errors: dict[BrokerId, int] = field(default_factory=dict)
    """The error of a broker that cannot delete a replica before it restarts."""
    has_begun: bool = True
    """Whether its marker and the topic were found as they were read; False: to be checked again."""


class DeletedTopic(NamedTuple):
    """A topic that this tenure deleted: reads of it that were under way are ignored."""

    czxid: Zxid
    read_generation: int
    """States that were read in an earlier generation are its own."""


@dataclass(slots=True)
class DeletionLedger(Ledger):
    """The deletions that this tenure carries out."""

    lifetime: ClassVar[Lifetime] = Lifetime.TENURE

    being_deleted: frozenset[str] = frozenset()
    """
    Topics whose deletion a Kafka controller may have begun: pending at the claim, and since then.

    Brokers are sent them with the leader that means deletion. A Kafka controller sends the same
    after a failover, also of topics whose deletion it cannot continue yet; otherwise a half-deleted
    topic would appear to clients again. A deletion that is requested during the tenure begins only
    after it: until then clients keep the topic.
    """
    running: dict[str, TopicDeletion] = field(default_factory=dict)
    """
    Topics of these that this tenure deletes: brokers are sent nothing that would create a replica
    again.
    """
    waits: dict[str, str] = field(default_factory=dict)
    """Why pending deletions do not proceed."""
    trees: dict[str, TopicTree | None] = field(default_factory=dict)
    """The znodes of topics to be deleted, as they were listed; None: there is no such topic."""
    requested_trees: set[str] = field(default_factory=set)
    """Topics whose znodes are being listed."""
    done: dict[str, DeletedTopic] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    """
    Topics whose deletion an operator revoked after it began.

    Another deletion is left to the next controller: requests of this one may be under way.
    """

    def record_deleted_znodes(self, topic: str, paths: Iterable[str]) -> None:
        """Note which znodes of a topic are gone."""
        tree = self.trees.get(topic)
        if tree is not None:
            gone = set(paths)
            self.trees[topic] = tree._replace(below=tuple(p for p in tree.below if p not in gone))

    def record_stop(self, partition: TopicPartition, broker: BrokerId, *, delete: bool) -> None:
        """Note that a broker is sent the StopReplica of a deletion."""
        deletion = self.running.get(partition.topic)
        if deletion is None:
            return
        deletion.unreached.discard(broker)
        # A replica that was recorded since the request was decided is still to be sent.
        left = deletion.unsent.get(broker, set())
        if delete:
            left.discard(partition.partition)
        if not left:
            deletion.unsent.pop(broker, None)


@dataclass(slots=True)
class DeletionSession(Ledger):
    """The deletions that are requested."""

    lifetime: ClassVar[Lifetime] = Lifetime.SESSION

    markers: frozenset[str] | None = None


@dataclass(slots=True)
class DeletionHistory(Ledger):
    """The times of pending deletions, for the decision when a broker is given the role for them."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    since: dict[str, Instant] = field(default_factory=dict)
    """
    Since when each topic deletion has been pending.

    The time of our tenures does not count for those that are not in ``yielded``.
    """
    held_up_since: Instant = START
    """Since when consecutive deletions have delayed a claim."""
    yielded: frozenset[str] = frozenset()
    """Deletions for which a broker already had the role for their time."""

    def note_yielded(self, now: Instant) -> None:
        """Note at a claim which deletions had their time while a broker could be the controller."""
        self.yielded |= {t for t, at in self.since.items() if now >= at + DELETION_PATIENCE_S}

    def begin_to_yield(self, now: Instant) -> None:
        """Restart the time of deletions that did not have it: a tenure ended."""
        self.held_up_since = now
        self.since = {t: at if t in self.yielded else now for t, at in self.since.items()}
