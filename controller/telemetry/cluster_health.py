"""Effects of the reassignments on the cluster: throttles, under min ISR, unreachable brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.core.model import BrokerId, TopicPartition
from controller.core.options import UnderMinIsr
from controller.core.scheduling.isr_health import under_min_isr_sentence
from controller.core.scheduling.partition_sizes import slow_throttles
from controller.core.view import ClusterView
from controller.telemetry.log_events import LINES_MAX, LogEvent, info, warning

SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The effects at one moment; lists are cut at ``SHOWN_MAX``, counts are not."""

    under_min_isr: int = 0
    """Partitions without a reassignment below ``min.insync.replicas``."""
    detail: str = ""
    pace: int | None = None
    """The adaptive limit of partitions in flight; None without one."""
    throttled: int = 0
    """Topics and brokers with a throttle set by the daemon."""
    kept: tuple[str, ...] = ()
    """Settings of others that stand where the daemon wants a throttle."""
    slow: tuple[str, ...] = ()
    """Throttles below the produce rate of the partitions that are copied under them."""

    def as_status(self) -> dict[str, Any]:
        """Return it for the status document."""
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
    """Return the effects of the partitions in flight."""
    kept = sorted(view.kept_throttles.items())[:SHOWN_MAX]
    return ClusterHealth(
        under_min_isr=len(view.under_min_isr),
        detail=under_min_isr_sentence(view),
        pace=view.pace,
        throttled=len(view.applied_throttles),
        kept=tuple(f"{entity}: {text}" for entity, texts in kept for text in texts),
        slow=tuple(str(s) for s in slow_throttles(view, in_flight)[:SHOWN_MAX]),
    )


class HealthEvents:
    """Makes a log event when one of the effects begins and when it ends."""

    def __init__(self) -> None:
        """Start without effects."""
        self._is_unwell = False
        self._slow: frozenset[str] = frozenset()
        self._kept: frozenset[str] = frozenset()
        self._unreachable: frozenset[BrokerId] = frozenset()

    def reach(self, view: ClusterView, unreachable: Mapping[BrokerId, str]) -> Iterator[LogEvent]:
        """
        Return events for brokers that became unreachable, or reachable again.

        There is no event for a broker that is no longer registered, nor when the tenure ends: both
        have events of their own.

        Args:
            view: The view.
            unreachable: Registered brokers without a connection during a tenure, and why.

        """
        found = frozenset(unreachable) & view.brokers.keys()
        for broker in sorted(found - self._unreachable):
            yield warning("broker_unreachable", broker=broker, reason=unreachable[broker])
        if view.tenure is not None:
            for broker in sorted((self._unreachable - found) & view.brokers.keys()):
                yield info("broker_reachable", broker=broker)
        self._unreachable = frozenset(found)

    def of(self, view: ClusterView, in_flight: Iterable[TopicPartition]) -> Iterator[LogEvent]:
        """Return events for what changed since the last call."""
        is_unwell = bool(view.under_min_isr) and bool(view.reassignments)
        if is_unwell and not self._is_unwell:
            waits = view.options.under_min_isr is UnderMinIsr.WAIT
            yield warning("under_min_isr", detail=under_min_isr_sentence(view), waits=waits)
        elif self._is_unwell and not is_unwell:
            yield info("under_min_isr_ended")
        self._is_unwell = is_unwell
        slow = {f"{s.broker} {s.receives}": str(s) for s in slow_throttles(view, in_flight)}
        for key in sorted(slow.keys() - self._slow):
            yield warning("throttle_below_produce_rate", detail=slow[key])
        self._slow = frozenset(slow)
        kept = {
            f"{entity}: {text}" for entity, texts in view.kept_throttles.items() for text in texts
        }
        for text in sorted(kept - self._kept)[:LINES_MAX]:
            yield info("throttle_of_others_kept", setting=text)
        self._kept = frozenset(kept)
