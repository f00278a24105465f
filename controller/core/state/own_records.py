"""
The reads of the daemon's own records, and of the settings that it throttles with.

Another daemon may write them while this one does not lead, and a write at the end of a tenure may
have an unknown outcome. So a new one takes its place when a tenure ends and when a leadership
begins; the reads that follow put them into ``WorkState``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from controller.core.ledger import Ledger, Lifetime
from controller.core.model import Instant, TopicPartition
from controller.core.pacing.applied_throttles import Entity, EntityConfig, ThrottleRefusal


@dataclass(slots=True)
class OwnRecords(Ledger):
    """The knowledge of the daemon's own records: which were read, and which await another read."""

    lifetime: ClassVar[Lifetime] = Lifetime.LEADERSHIP

    specs_read: bool = False
    orphans_read: bool = False
    history_read: bool = False
    unconfirmed_specs: set[TopicPartition] = field(default_factory=set)
    """Records of which a write was rejected: the next read shows whether they exist."""
    applied_throttles_read: bool = False
    unconfirmed_throttles: set[Entity] = field(default_factory=set)
    """Applied throttles of which a write was rejected: the next read shows whether they exist."""
    entity_configs: dict[Entity, EntityConfig | str] = field(default_factory=dict)
    """Dynamic settings of the topics and brokers that are, or are to be, throttled."""
    requested_entities: dict[Entity, Instant] = field(default_factory=dict)
    """When dynamic settings were last requested."""
    throttle_refusals: dict[Entity, ThrottleRefusal] = field(default_factory=dict)
    kept_throttles: dict[Entity, tuple[str, ...]] = field(default_factory=dict)
    """Settings of others that occupy the place of a wanted throttle."""
