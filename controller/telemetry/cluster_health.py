"""How the cluster bears the work, for the status: throttles, under min ISR, the adaptive pace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from controller.core.model import TopicPartition
from controller.core.scheduling.isr_health import under_min_isr_sentence
from controller.core.scheduling.partition_sizes import slow_throttles
from controller.core.view import ClusterView

SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """What there is of it at one moment; lists are cut, counts are whole."""

    under_min_isr: int = 0
    """Partitions outside the work known to be below ``min.insync.replicas``."""
    detail: str = ""
    pace: int | None = None
    throttled: int = 0
    """Topics and brokers with a throttle of ours in their settings."""
    kept: tuple[str, ...] = ()
    """Settings of others that stand where a throttle of ours is wanted."""
    slow: tuple[str, ...] = ()
    """Throttles below what producers send to the partitions copied under them."""

    def as_status(self) -> dict[str, Any]:
        """Return what the status document says of it."""
        return {
            "under_min_isr": {"partitions": self.under_min_isr, "detail": self.detail},
            "pace": self.pace,
            "throttles": {
                "set": self.throttled,
                "kept": list(self.kept),
                "below_produce_rate": list(self.slow),
            },
        }


def cluster_health(view: ClusterView, in_flight: Iterable[TopicPartition]) -> ClusterHealth:
    """Return how the cluster bears the partitions in flight."""
    kept = sorted(view.kept_throttles.items())[:SHOWN_MAX]
    return ClusterHealth(
        under_min_isr=len(view.under_min_isr),
        detail=under_min_isr_sentence(view),
        pace=view.pace,
        throttled=len(view.applied_throttles),
        kept=tuple(f"{entity}: {text}" for entity, texts in kept for text in texts),
        slow=tuple(str(s) for s in slow_throttles(view, in_flight)[:SHOWN_MAX]),
    )
