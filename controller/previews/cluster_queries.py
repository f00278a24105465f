"""The access of previews to brokers, and to the status of the leading daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.core.cluster.model import LiveBroker
from controller.core.model import BrokerId

if TYPE_CHECKING:
    from controller.brokers.connection_settings import ConnectionSettings
    from controller.doctor.broker_answers import (
        BrokerAnswers,
        Disks,
        Protocol,
        SettingVerdicts,
    )
    from controller.doctor.snapshot import Znodes
    from controller.settings import Settings
    from controller.zk.operator_client import OperatorClient

QueryBrokers = Callable[["Settings", Collection[LiveBroker], Collection[str]], "BrokerAnswers"]
"""Return the answers of brokers, with the settings of topics."""
JudgeSettings = Callable[["Settings", "Znodes"], "SettingVerdicts"]
"""Return what brokers say of the settings in ZooKeeper."""
QueryMinInsync = Callable[
    ["Settings", Collection[LiveBroker], Collection[str]], Mapping[str, int | str]
]
"""Return the effective ``min.insync.replicas`` by topic; a text is the reason why it is unknown."""
QueryProtocols = Callable[["Settings", Collection[LiveBroker]], "Mapping[BrokerId, Protocol | str]"]
"""Return the protocol of each broker; a text is the reason why it is unknown."""


def broker_connections(settings: Settings) -> ConnectionSettings:
    """Return the settings of connections to brokers, whose losses are not logged."""
    from controller.brokers.broker_connections import quiet_kafka  # noqa: PLC0415 - most commands ask no broker
    from controller.brokers.connection_settings import connection_settings_of  # noqa: PLC0415 - as above

    quiet_kafka()
    return connection_settings_of(settings)


def query_brokers(
    settings: Settings, brokers: Collection[LiveBroker], topics: Collection[str]
) -> BrokerAnswers:
    """Ask the brokers for their log directories and for the settings of topics."""
    from controller.brokers import surveys  # noqa: PLC0415 - most commands ask no broker

    return surveys.query_brokers(broker_connections(settings), brokers, topics)


def judge_settings(settings: Settings, znodes: Znodes) -> SettingVerdicts:
    """Ask the brokers whether the settings of topics and brokers are valid."""
    from controller.brokers import setting_survey  # noqa: PLC0415 - most commands ask no broker

    connections = broker_connections(settings)
    topics = {name: own for name, own in znodes.topic_settings.items() if name in znodes.topics}
    return setting_survey.judge_settings(
        connections, list(znodes.brokers.values()), topics, znodes.broker_settings
    )


def query_min_insync(
    settings: Settings, brokers: Collection[LiveBroker], topics: Collection[str]
) -> Mapping[str, int | str]:
    """Ask any broker for min.insync.replicas, see ``QueryMinInsync``."""
    from controller.brokers import surveys  # noqa: PLC0415 - most commands ask no broker

    return surveys.query_min_insync(broker_connections(settings), brokers, topics)


def query_protocols(
    settings: Settings, brokers: Collection[LiveBroker]
) -> Mapping[BrokerId, Protocol | str]:
    """Ask each broker for its protocol, see ``QueryProtocols``."""
    from controller.brokers import surveys  # noqa: PLC0415 - most commands ask no broker

    return surveys.query_protocols(broker_connections(settings), brokers)


@dataclass(frozen=True, kw_only=True)
class ClusterQueries:
    """What the preview of a plan asks, besides ZooKeeper."""

    settings: Settings
    status: Callable[[OperatorClient], Mapping[str, Any] | None]
    """Returns the status of the leading daemon, None if it does not answer."""
    query_brokers: QueryBrokers = query_brokers
    query_min_insync: QueryMinInsync = query_min_insync
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    unix_s: Callable[[], float] = time.time

    def log_dirs(self, brokers: Collection[LiveBroker]) -> Mapping[BrokerId, Disks | str]:
        """Return the log directories of brokers; a text is the reason why they are unknown."""
        return self.query_brokers(self.settings, brokers, ()).disks
