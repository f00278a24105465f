"""Evidence of strain in the cluster, by which the adaptive limit is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.core.model import BrokerId, Instant, TopicPartition

EVIDENCE_KEPT: Final = 1000
"""Pieces kept of each kind; older ones hardly matter."""


@dataclass(frozen=True, slots=True)
class IsrLoss:
    """The ISR of a partition without a reassignment lost a replica."""

    partition: TopicPartition
    at: Instant


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """A broker was slow to answer a controller request."""

    broker: BrokerId
    took_s: float
    at: Instant
