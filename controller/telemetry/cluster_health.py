"""
Health of the work and of the cluster, and log events about its changes.

``log_events`` has an event for each blocked partition, at debug level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from controller.core.disks.disk_budget import slow_throttles
from controller.core.disks.disk_space import unguarded_brokers
from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.pacing import limits_in_force
from controller.core.pacing.controls import UnderMinIsr
from controller.core.pacing.isr_health import under_min_isr_sentence
from controller.core.view import ClusterView
from controller.telemetry.cluster_counts import Example, WorkCounts
from controller.telemetry.json_values import Clocks
from controller.telemetry.log_events import LINES_MAX, LogEvent, info, warning

EVERY_S: Final = 10.0
"""Shortest time between two events about one reason."""
SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The effects of reassignments on the cluster at one moment."""

    under_min_isr: int = 0
    """Partitions without a reassignment below ``min.insync.replicas``."""
    detail: str = ""
    pace: int | None = None
    """The governor's limit of partitions in flight; None without one."""
    throttled: int = 0
    """Topics and brokers with a throttle set by the daemon."""
    kept: tuple[str, ...] = ()
    """Settings of others that stand where the daemon wants a throttle."""
    slow: Mapping[str, str] = field(default_factory=dict)
    """Throttles below the produce rate of the partitions that are copied under them, in words."""

    def as_status(self) -> dict[str, Any]:
        """Return it for the status document, with the first ``SHOWN_MAX`` of each list."""
        return {
            "under_min_isr": {"partitions": self.under_min_isr, "detail": self.detail},
            "pace": self.pace,
            "throttles": {
                "set": self.throttled,
                "kept": list(self.kept[:SHOWN_MAX]),
                "below_produce_rate": list(self.slow.values())[:SHOWN_MAX],
            },
        }


def cluster_health(view: ClusterView, in_flight: Iterable[TopicPartition]) -> ClusterHealth:
    """Return the effects of the partitions in flight."""
    kept = sorted(view.pacing_leadership.kept_throttles.items())
    return ClusterHealth(
        under_min_isr=len(view.pacing.under_min_isr),
        detail=under_min_isr_sentence(view),
        pace=view.pacing.pace,
        throttled=len(view.pacing_process.applied_throttles),
        kept=tuple(f"{entity}: {text}" for entity, texts in kept for text in texts),
        slow={f"{s.broker} {s.receives}": str(s) for s in slow_throttles(view, in_flight)},
    )


class HealthEvents:
    """Makes a log event when one of the effects begins and when it ends."""

    def __init__(self) -> None:
        self._is_unwell = False
        self._slow: frozenset[str] = frozenset()
        self._kept: frozenset[str] = frozenset()
        self._unreachable: frozenset[BrokerId] = frozenset()
        self._unguarded: frozenset[BrokerId] = frozenset()

    def reach(self, view: ClusterView, unreachable: Mapping[BrokerId, str]) -> Iterator[LogEvent]:
        """
        Return events for brokers that became ``unreachable`` in a tenure, or reachable again.

        There is no event for a broker that is no longer registered, nor when the tenure ends: both
        have events of their own.
        """
        found = frozenset(unreachable) & view.cluster.brokers.keys()
        for broker in sorted(found - self._unreachable):
            yield warning("broker_unreachable", broker=broker, reason=unreachable[broker])
        if view.tenure.held is not None:
            for broker in sorted((self._unreachable - found) & view.cluster.brokers.keys()):
                yield info("broker_reachable", broker=broker)
        self._unreachable = frozenset(found)

    def of(self, view: ClusterView, health: ClusterHealth) -> Iterator[LogEvent]:
        """Return events for what changed since the last call."""
        is_unwell = bool(health.under_min_isr) and bool(view.reassignments.by_partition)
        if is_unwell and not self._is_unwell:
            waits = limits_in_force.under_min_isr(view) is UnderMinIsr.WAIT
            yield warning("under_min_isr", detail=health.detail, waits=waits)
        elif self._is_unwell and not is_unwell:
            yield info("under_min_isr_ended")
        self._is_unwell = is_unwell
        for key in sorted(health.slow.keys() - self._slow):
            yield warning("throttle_below_produce_rate", detail=health.slow[key])
        self._slow = frozenset(health.slow)
        without = unguarded_brokers(view)
        for broker in sorted(without.keys() - self._unguarded)[:LINES_MAX]:
            yield warning("disks_unguarded", broker=broker, reason=without[broker])
        if view.tenure.held is not None:
            self._unguarded = frozenset(without)
        kept = frozenset(health.kept)
        for text in sorted(kept - self._kept)[:LINES_MAX]:
            yield info("throttle_of_others_kept", setting=text)
        self._kept = kept


class BlockedEvents:
    """
    Makes log events about the blocked and stalled partitions.

    One when a reason appears, changes or disappears, with the first few partitions, at most every
    ``EVERY_S`` seconds; and one for each partition that becomes stalled or makes progress again, up
    to ``LINES_MAX``.
    """

    def __init__(self) -> None:
        self._logged: dict[str, tuple[int, Sequence[Example]]] = {}
        self._logged_at: dict[str, Instant] = {}
        self._stalled: dict[TopicPartition, str] = {}

    def of(self, work: WorkCounts, clocks: Clocks) -> Iterator[LogEvent]:
        """Return the events of the newest counts."""
        now = clocks.now
        for by in sorted(work.blocked.keys() | self._logged.keys()):
            found = (work.blocked[by], work.examples.get(by, []))
            before = self._logged.get(by, (0, []))
            logged_at = self._logged_at.get(by)
            if found == before or (logged_at is not None and now < logged_at + EVERY_S):
                continue
            self._logged_at[by] = now
            if found[0]:
                self._logged[by] = found
                sample = [
                    f"{e.partition}: {e.detail}"
                    + ("" if e.since is None else f" since {clocks.at(e.since)}")
                    for e in found[1]
                ]
                yield info("blocked", by=by, partitions=found[0], sample=sample)
            else:
                del self._logged[by]
                yield info("unblocked", by=by, partitions=before[0])
        yield from self._stalls(work.stalled)

    def _stalls(self, stalled: Mapping[TopicPartition, str]) -> Iterator[LogEvent]:
        fresh = {p: by for p, by in stalled.items() if p not in self._stalled}
        ended = {p: by for p, by in self._stalled.items() if p not in stalled}
        self._stalled = dict(stalled)
        yield from _by_name("stalled", fresh, warning)
        yield from _by_name("goes_on", ended, info)


def _by_name(
    kind: str, partitions: Mapping[TopicPartition, str], make: Callable[..., LogEvent]
) -> Iterator[LogEvent]:
    names = sorted(partitions)
    for partition in names[:LINES_MAX]:
        yield make(kind, **partition._asdict(), by=partitions[partition])
    if len(names) > LINES_MAX:
        more = Counter(partitions[p] for p in names[LINES_MAX:])
        yield make(f"{kind}_more", partitions=more.total(), by=more)
