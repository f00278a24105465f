"""What brokers answer about their log directories, and about settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controller.core import model
from controller.core.pacing.throttle_settings import Entity


@dataclass(frozen=True, slots=True)
class Disks:
    """One broker's answer about its log directories (DescribeLogDirs)."""

    replicas: frozenset[model.TopicPartition]
    """Those with a directory, without those being deleted."""
    failed: tuple[str, ...] = ()
    """Log directories that are offline."""
    sizes: Mapping[model.TopicPartition, int] = field(default_factory=dict)
    """Bytes of each replica."""
    dirs: tuple[model.LogDir, ...] = ()
    """Its log directories, with the space of their volumes where the broker reports it."""
    placed: Mapping[model.TopicPartition, str] = field(default_factory=dict)
    """The directory of each replica."""
    futures: Mapping[model.TopicPartition, str] = field(default_factory=dict)
    """The directories that replicas are being moved to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswers:
    """The brokers' answers; a text is the reason why there is none."""

    disks: Mapping[model.BrokerId, Disks | str] = field(default_factory=dict)
    min_insync_replicas: Mapping[str, int | str] = field(default_factory=dict)
    """Effective ``min.insync.replicas`` by topic."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a broker says of its release."""

    inter_broker: str
    """``inter.broker.protocol.version``, in effect."""
    is_bridge: bool
    """Whether it is of Kafka 3.9, from which clusters are migrated to KRaft."""


class NoVerdict(StrEnum):
    """Why no broker judges some settings, other than an error that it answers with."""

    NOBODY_ANSWERS = "no broker answers"
    NOT_LIVE = "the broker is not live"
    ENCRYPTED = "passwords among them are encrypted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingVerdicts:
    """What brokers say of the settings of topics and brokers in ZooKeeper; others are valid."""

    rejected: Mapping[Entity, str] = field(default_factory=dict)
    """Why brokers reject the settings of an entity."""
    unknown: Mapping[Entity, str] = field(default_factory=dict)
    """Why brokers do not say: a ``NoVerdict``, or the error that a broker answers with."""
