"""How the cluster bears the work, for the log: each fact when it begins and when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controller.core.model import BrokerId, TopicPartition
from controller.core.options import UnderMinIsr
from controller.core.scheduling.isr_health import under_min_isr_sentence
from controller.core.scheduling.partition_sizes import slow_throttles
from controller.core.view import ClusterView
from controller.telemetry.log_events import LINES_MAX, LogEvent, info, warning


class HealthEvents:
    """Tells what begins and what ends; remembers what was told."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._is_unwell = False
        self._slow: frozenset[str] = frozenset()
        self._kept: frozenset[str] = frozenset()
        self._unreachable: frozenset[BrokerId] = frozenset()

    def reach(self, view: ClusterView, unreachable: Mapping[BrokerId, str]) -> Iterator[LogEvent]:
        """
        Return which brokers cannot be reached any more, and which can again.

        A broker that is not registered any more, or that is of no concern as the role was given
        back, ends without a note: others tell of both.

        Args:
            view: What is known.
            unreachable: Registered brokers without a connection while the role is held, and why.

        """
        found = frozenset(unreachable) & view.brokers.keys()
        for broker in sorted(found - self._unreachable):
            yield warning("broker_unreachable", broker=broker, reason=unreachable[broker])
        if view.tenure is not None:
            for broker in sorted((self._unreachable - found) & view.brokers.keys()):
                yield info("broker_reachable", broker=broker)
        self._unreachable = frozenset(found)

    def of(self, view: ClusterView, in_flight: Iterable[TopicPartition]) -> Iterator[LogEvent]:
        """Return what changed."""
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
