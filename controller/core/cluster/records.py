"""Events of the cluster: registrations and settings of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core import model
from controller.core.bases import Fact
from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId


@dataclass(frozen=True, slots=True)
class BrokersRead(Fact, wakes=("tenure",)):
    """All registrations under ``/brokers/ids``."""

    brokers: Mapping[BrokerId, LiveBroker]


@dataclass(frozen=True, slots=True)
class BrokerSettingsRead(Fact, wakes=("tenure", "plan", "capacity", "deletions")):
    """Settings of a broker that change with a restart only, and matter to a controller."""

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
