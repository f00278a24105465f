"""What says that the cluster is under strain: the evidence the adaptive pace is set by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.core.model import BrokerId, Instant, TopicPartition

EVIDENCE_KEPT: Final = 1000
"""Pieces kept of each kind; what is older hardly matters."""


@dataclass(frozen=True, slots=True)
class IsrLoss:
    """The ISR of a partition we do not move lost a replica."""

    partition: TopicPartition
    at: Instant


@dataclass(frozen=True, slots=True)
class SlowAnswer:
    """A broker took long to answer a request of the controller."""

    broker: BrokerId
    took_s: float
    at: Instant
