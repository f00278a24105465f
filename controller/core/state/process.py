"""
The facts that last as long as the process: the history of the cluster, and the controller role.

A new session reads the brokers again and compares: a broker that restarted meanwhile is noticed.
The two counters of ``ClusterHistory`` only grow, so that an answer to an old read or request is
recognised. ``retry_claim_at``, ``rejected_by_brokers``, the times of topic deletions and of orphans
are what one tenure leaves to the decision about the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from controller.core import model, options
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import START, BrokerId, Instant, Replicas, TopicPartition
from controller.core.reassignments.model import Orphan


class RemovedReplica(NamedTuple):
    """A replica that another controller removed from an assignment."""

    broker: BrokerId
    partition: TopicPartition
    topic_czxid: model.Zxid
    """The topic, as a later one of the same name has nothing to do with it."""


class KnownSettings(NamedTuple):
    """The settings of a broker that matter to a controller, in one registration."""

    epoch: model.BrokerEpoch
    deletes_topics: bool | None
    """Whether it deletes topics when it is the controller; None: it has not answered or cannot."""
    is_known: bool
    """Whether it answered, or will not."""
    requested_at: Instant
    protocol: str | None = None
    """Its inter-broker protocol; None: it has not answered or cannot."""


@dataclass(slots=True)
class ClusterHistory(Ledger):
    """The brokers, and the history that no read shows again."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    brokers: dict[BrokerId, model.LiveBroker] = field(default_factory=dict)
    registered: dict[BrokerId, Instant] = field(default_factory=dict)
    """When brokers were seen to register; not of those that the first read showed."""
    broker_settings: dict[BrokerId, KnownSettings] = field(default_factory=dict)
    """
    What brokers said of their settings.

    Those below inter-broker protocol 2.7 are asked while a topic deletion is pending, all others as
    soon as they register.
    """
    read_generation: int = 0
    """
    How often cached reads were invalidated, by a claim or a rejected write.

    A read carries the generation in which it began, so that an answer that was under way at an
    invalidation is recognised.
    """
    config_request: model.ConfigRequest = model.NEVER_REQUESTED
    """The newest request for settings."""
    before: dict[TopicPartition, Replicas] = field(default_factory=dict)
    """The replicas of a partition before another client began to change them."""
    departed: dict[RemovedReplica, Instant] = field(default_factory=dict)
    """Replicas that another controller removed, and when that was seen."""
    notifications: dict[str, tuple[str, ...]] = field(default_factory=dict)
    round_at: Instant = START
    """When the next round reads states that others change."""
    round_from: int = 0
    missing_at: Instant = START
    """When missing or unreadable states of reassignments may be read again."""
    preferred_at: Instant = START
    balanced_at: Instant = START
    """When the balance of leaderships was last checked."""
    wall: tuple[Instant, float] | None = None
    """An instant and the wall clock's reading at it, in seconds since 1970."""

    def unix_s(self, now: Instant) -> float | None:
        """Return the wall clock's reading at an instant; None until it was read."""
        if self.wall is None:
            return None
        at, unix_s = self.wall
        return unix_s + (now - at)


@dataclass(slots=True)
class RoleState(Ledger):
    """The leadership of this daemon, its engine, and the grounds for the next claim."""

    lifetime: ClassVar[Lifetime] = Lifetime.PROCESS

    leading: bool = False
    leading_since: Instant = START
    """When this daemon became the leader, the last time."""
    stopping: bool = False
    engine: options.EngineName | None = None
    """The engine at work; None before it is chosen."""
    engine_why: str | None = None
    delegable: bool = False
    """Whether the cluster's controller supports AlterPartitionReassignments."""
    undelegable: str | None = None
    """Why the cluster's controller does not support it; None where it may."""
    claimed_at: Instant = START
    """When the role was last claimed: bounces since then are left to this daemon."""
    retry_claim_at: Instant = START
    rejected_by_brokers: str | None = None
    """The reason for which brokers refused the last tenure, until one accepts a request."""
    unreached: str | None = None
    """
    The reason for which brokers could not reach the endpoint in the last tenure.

    With ``native`` until the next claim, with ``auto`` as long as the process lasts.
    """
    orphans_after: Instant = START
    """Orphans alone are no reason to claim before this time."""
    orphans_retry_s: float = 0.0
    """The back-off after the last tenure that led to that time, in seconds."""
    orphans_left: dict[Orphan, Replicas] = field(default_factory=dict)
    """
    Orphans that the last tenure left although their brokers were live, with the ISRs it saw.

    Each with all brokers seen in the ISR of a partition with a leader since brokers last came or
    went.
    """
