"""
Replication throttles as a lease: what we set in Kafka's dynamic settings, and what stood there.

A lease covers one entity, a topic or a broker, as ``/config`` names it. It is durable before, and
written in the same multi as, the setting itself; it ends in the multi that restores the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NewType

from controller.core.model import BrokerId, Instant, ZkVersion

Entity = NewType("Entity", str)
"""``topics/<name>`` or ``brokers/<id>``: the path below ``/config``."""

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """The dynamic settings of one entity as read; ``version`` None: there is no such znode."""

    values: Mapping[str, str]
    version: ZkVersion | None


@dataclass(frozen=True, slots=True)
class AppliedThrottle:
    """``/reassigner/throttles/<entity>``: per setting what we set and what stood there before."""

    entity: Entity
    ours: Mapping[str, str]
    before: Mapping[str, str | None]
    """None: there was no such setting."""
    version: ZkVersion | None = None
    """Version of our record; None until it is written."""


@dataclass(frozen=True, slots=True)
class ThrottleRefusal:
    """A lease that could not be written, since when, and why: permissions, sizes."""

    why: str
    at: Instant


def topic_entity(topic: str) -> Entity:
    """Return a topic's entity."""
    return Entity(f"topics/{topic}")


def broker_entity(broker: BrokerId) -> Entity:
    """Return a broker's entity."""
    return Entity(f"brokers/{broker}")
