"""
By what a request that is all or nothing was found good, as a value that can be compared.

Made and compared in ``requests.atomic``; kept by the view until the request has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core.model import BrokerId, TopicConfig, ZkVersion, Zxid
from controller.core.options import EngineName


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """What there was of a topic when entries of its partitions were found good."""

    czxid: Zxid
    version: ZkVersion
    """With ``czxid`` it says what stood in the znode."""
    config: TopicConfig | None


@dataclass(frozen=True, slots=True)
class AtomicCheck:
    """By what a request that is all or nothing was found good: as long as it stands, it is."""

    parts: frozenset[tuple[str, Zxid, ZkVersion]]
    refused: int
    """Refusals it had."""
    brokers: frozenset[BrokerId]
    deletions: frozenset[str] | None
    unreadable_specs: frozenset[str]
    engine: EngineName | None
    other_routes: int
    """As ``ClusterView`` counts them."""
    topics: Mapping[str, TopicCheck | None]
    """Of every topic with an entry; None where nothing can be said of it."""
