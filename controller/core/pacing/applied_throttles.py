"""
Applied throttles: what we set in Kafka's dynamic settings, and the former values.

A record covers one entity, a topic or a broker, as ``/config`` names it. It is written in the same
multi as the setting itself, and deleted in the multi that restores the setting.
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
MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
"""Of moves between the log directories of a broker."""
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """The dynamic settings of one entity as read; ``version`` None: the znode does not exist."""

    values: Mapping[str, str]
    version: ZkVersion | None


@dataclass(frozen=True, slots=True)
class AppliedThrottle:
    """``/reassigner/throttles/<entity>``: per setting our value and the former one."""

    entity: Entity
    ours: Mapping[str, str]
    before: Mapping[str, str | None]
    """None: the setting did not exist."""
    version: ZkVersion | None = None
    """The version of the record; None until it is written."""


@dataclass(frozen=True, slots=True)
class ThrottleRefusal:
    """A throttle that could not be written, since when, and why: permissions, sizes."""

    why: str
    at: Instant


def topic_entity(topic: str) -> Entity:
    """Return the entity of a topic."""
    return Entity(f"topics/{topic}")


def broker_entity(broker: BrokerId) -> Entity:
    """Return the entity of a broker."""
    return Entity(f"brokers/{broker}")
