"""
The facts by which an atomic request was judged good, as a value that can be compared.

Made and compared in ``requests.atomic``; kept by the view until the request has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core.model import BrokerId, TopicConfig, ZkVersion, Zxid
from controller.core.options import EngineName


@dataclass(frozen=True, slots=True)
class TopicCheck:
    """A topic as it was when entries of its partitions were judged good."""

    czxid: Zxid
    version: ZkVersion
    """With ``czxid`` it identifies the content of the znode."""
    config: TopicConfig | None


@dataclass(frozen=True, slots=True)
class AtomicCheck:
    """The facts by which an atomic request was judged good; while they hold, it still is."""

    parts: frozenset[tuple[str, Zxid, ZkVersion]]
    refused: int
    """The number of its refusals."""
    brokers: frozenset[BrokerId]
    deletions: frozenset[str] | None
    unreadable_specs: frozenset[str]
    engine: EngineName | None
    other_routes: int
    """As in ``ClusterView``."""
    topics: Mapping[str, TopicCheck | None]
    """Every topic with an entry; None where it cannot be judged."""
