"""Events of the cluster: registrations and settings of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from controller.core import model
from controller.core.bases import Fact, Flags
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId


@dataclass(frozen=True, slots=True)
class BrokersRead(Fact):
    """All registrations under ``/brokers/ids``."""

    wakes: ClassVar[Flags] = ("tenure",)

    brokers: Mapping[BrokerId, LiveBroker]


@dataclass(frozen=True, slots=True)
class BrokerSettingsRead(Fact):
    """Settings of a broker that change with a restart only, and matter to a controller."""

    wakes: ClassVar[Flags] = ("tenure", "plan", "capacity", "deletions")

    broker: BrokerId
    broker_epoch: model.BrokerEpoch
    """A broker reads the settings when it starts."""
    deletes_topics: bool | None
    """``delete.topic.enable``; None: it did not answer."""
    problem: str = ""
    """Why it did not answer."""
    protocol: str | None = None
    """``inter.broker.protocol.version``; None: it did not answer, or with none."""


ClusterEvent = BrokersRead | BrokerSettingsRead
