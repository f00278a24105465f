"""The vocabulary of brokers, and the ledger of those that are registered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from controller.core import model
from controller.core.ledger import Ledger, Lifetime
from controller.core.model import (
    BrokerId,
    Instant,
)


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
class ClusterLedger(Ledger):
    """
    The registered brokers.

    A new session reads them again and compares: a broker that restarted meanwhile is noticed.
    """

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
