"""
The observer of the loop: turns its callbacks into log events, metrics and snapshots.

Log events go to the log, the journal and the notifier. No callback waits for a disk or a network,
and none returns anything that changes a decision. ``TimedInbox`` measures how long events wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Protocol

from controller.core.disks.records import LogDirsDescribed
from controller.core.model import BrokerId, Instant
from controller.core.pacing.records import ControlsRead
from controller.core.reassignments.records import (
    BlockedRecord,
    PhaseRecord,
    SpecEndedRecord,
    SpecRecord,
)
from controller.core.records import Change, Decision, Event
from controller.core.requests.records import (
    CancellationRead,
    KillSwitchRead,
    PartRecord,
    RequestOutcomeRecord,
)
from controller.core.role.records import ControllerClaimed, Deposed, LeadershipLost
from controller.core.view import ClusterView
from controller.reactor.ports import BrokerRequest, Clock, Inbox, WriteError
from controller.telemetry.cluster_health import BlockedEvents, HealthEvents
from controller.telemetry.copies import CopyEnded, CopyEvent, Received
from controller.telemetry.journal import Journal, kind_of
from controller.telemetry.json_values import Clocks
from controller.telemetry.log_events import LogEvent, LogEvents, change_events, phase_event, warning
from controller.telemetry.logs import LogLines
from controller.telemetry.metrics import Measurements, Metrics
from controller.telemetry.phase_changes import PhaseMemory
from controller.telemetry.request_events import RequestEvents, copy_events
from controller.telemetry.status_publisher import StatusPublisher, StatusSnapshot
from controller.telemetry.timelines import TrendPoint

if TYPE_CHECKING:
    from structlog.typing import WrappedLogger

PROGRESS = frozenset({SpecRecord, SpecEndedRecord, PhaseRecord})
"""Records that mean that a reassignment made progress, as does every byte that is copied."""

BY_OPERATORS = (ControlsRead, KillSwitchRead, CancellationRead)
OF_REQUESTS = frozenset({PartRecord, RequestOutcomeRecord})
"""Records of requests that were taken up, and that ended."""


class Notifier(Protocol):
    """Receives the log events of the leader; sends notifications of some."""

    def take(self, event: LogEvent, at: datetime) -> None:
        """Add an event."""

    def send_due(self, now: Instant, at: datetime) -> None:
        """Send what is due, without waiting."""


class TelemetryObserver:
    """Implements ``reactor.ports.Observer``."""

    def __init__(  # noqa: PLR0913 - its outputs
        self,
        *,
        log: WrappedLogger,
        metrics: Metrics,
        journal: Journal,
        publisher: StatusPublisher,
        clock: Clock,
        wall: Callable[[], datetime],
        arrivals: TimedInbox | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        """``wall`` is in UTC."""
        self._lines = LogLines(log, clock)
        self._metrics = metrics
        self._event_processing = cache(metrics.event_processing.labels)
        self._measurements = Measurements(metrics, lambda: wall().timestamp())
        self._journal = journal
        self._publisher = publisher
        self._clock = clock
        self._wall = wall
        self._arrivals = arrivals
        self._phases = PhaseMemory()
        self._events = LogEvents()
        self._health = HealthEvents()
        self._had_tenure = False
        self._is_changed = False
        """Whether this cycle took in what an operator wrote."""
        self._blocked = BlockedEvents()
        self._progress_at = clock.now()
        self._requests = RequestEvents()
        self._point: TrendPoint | None = None
        self._notifier = notifier
        self._leading = False
        self._last_callback = Instant(float("-inf"))
        if arrivals is not None:
            metrics.event_queue_depth.set_function(arrivals.__len__)

    def on_event(self, event: Event, view: ClusterView) -> None:
        """Log, count and time an event."""
        self._measure(event)
        self._leading = view.role.leading
        now = self._clock.now()
        self._publish_copies(self._publisher.copies.follow_event(event, view, now))
        if isinstance(event, LogDirsDescribed):
            self._write(self._requests.sizes(event, view), keep=True)
        self._write(self._events.of(event, view), keep=True)
        self._measurements.event(event, view, had_tenure=self._had_tenure)
        if isinstance(event, Deposed | LeadershipLost):
            self._phases.forget()
            self._publish_copies(self._publisher.copies.forget(self._clock.now()))
        elif isinstance(event, ControllerClaimed):
            self._phases.take_up(view)
        if isinstance(event, BY_OPERATORS):
            self._is_changed = True
        turned = self._had_tenure != (view.tenure.held is not None)
        self._had_tenure = view.tenure.held is not None
        self.tend(view, at_once=turned)
        self._last_callback = self._clock.now()

    def _publish_copies(self, events: Iterable[CopyEvent]) -> None:
        found = list(events)
        if not found:
            return
        clocks = Clocks(self._clock.now(), self._wall())
        self._publisher.progress.count(found)
        if any(isinstance(event, Received) for event in found):
            self._progress_at = clocks.now
        for copy in found:
            match copy:
                case CopyEnded(is_whole=True, is_throttled=False, bytes=int(size)) if size:
                    ended = clocks.wall.timestamp()
                    rates = self._publisher.copy_rates
                    rates.add(copy.replica, ended - copy.seconds, ended, size)
                case _:
                    pass
        self._measurements.count_copies(found)
        self._write(copy_events(found, clocks), keep=True)

    def _measure(self, event: Event) -> None:
        arrived = None if self._arrivals is None else self._arrivals.arrival_of(event)
        if arrived is None:
            return
        now = self._clock.now()
        # Handling starts when the event has arrived and the previous callback has returned.
        begun = max(arrived, self._last_callback)
        self._metrics.event_queue.observe(max(0.0, begun - arrived))
        self._event_processing(type(event).__name__).observe(max(0.0, now - begun))

    def on_committed(self, change: Change, view: ClusterView) -> None:
        """Log, count and journal a durable change."""
        if len(change.records) == 1 and isinstance(change.records[0], BlockedRecord):
            # Every second change is a new reason to wait: nothing else follows it.
            self._write(change_events(change), keep=False)
            self._last_callback = self._clock.now()
            return
        now, at = self._clock.now(), self._wall()
        moved = self._phases.changes(change, view)
        for phase in moved:
            self._measurements.phase(phase)
            self._publisher.timelines.add_change(phase, at)
        self._write(map(phase_event, moved), keep=True)
        self._publish_copies(self._publisher.copies.follow_change(change, moved, view, now))
        self._measurements.count_change(change)
        self._write(change_events(change), keep=False)
        for record in change.records:
            if type(record) in PROGRESS:
                self._progress_at = now
            elif type(record) in OF_REQUESTS:
                self._is_changed = True
                if isinstance(record, RequestOutcomeRecord):
                    self._requests.concluded(record.summary.request)
            if record.is_journaled:
                self._journal.append(at, kind_of(record), record)
        self._last_callback = self._clock.now()

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """Log and count a change that the store rejected."""
        del view
        self._metrics.write_rejections.labels(error.value).inc()
        kinds = tuple(kind_of(r) for r in change.records)
        fields = {} if change.partition is None else change.partition._asdict()
        self._write([warning("write_rejected", error=error, records=kinds, **fields)], keep=True)
        self._last_callback = self._clock.now()

    def on_request_sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Count a controller request."""
        self._measurements.count_request(broker, request)

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:
        """Measure a cycle and publish its results."""
        del decision
        for part, taken in seconds.items():
            self._metrics.turn.labels(part).observe(taken)
        if self._is_changed:
            self._is_changed = False
            self._publisher.hasten()
        # The end of a request must be logged before the process stops.
        is_end_due = view.role.stopping and self._requests.owes_an_end()
        self.tend(
            view, at_once=is_end_due or (not view.reassignments.by_partition and self._shows_work())
        )
        self._last_callback = self._clock.now()

    def tend(self, view: ClusterView, *, at_once: bool = False) -> float:
        """
        Publish a snapshot if one is due; also called while the loop is idle.

        Return the seconds until the next call is needed; infinite if no snapshot is in the making.
        """
        self._lines.tend()
        snapshot = self._publisher.tend(view, at_once=at_once)
        if snapshot is not None:
            self._publish(view, snapshot)
        return self._publisher.due_in_s

    def _publish(self, view: ClusterView, snapshot: StatusSnapshot) -> None:
        self._metrics.show(snapshot)
        self._measurements.forget_brokers(view)
        self._write(self._events.eligibility(view), keep=True)
        self._write(self._events.emptied(snapshot.status["drains"]), keep=True)
        self._write(self._health.of(view, snapshot.health), keep=True)
        self._write(self._health.reach(view, snapshot.unreachable), keep=True)
        clocks = Clocks(self._clock.now(), self._wall())
        self._write(self._blocked.of(snapshot.work, clocks), keep=True)
        for event in self._requests.of(snapshot.status, clocks.now):
            self._write([event], keep=True)
            if event.kind == "request_ended":
                self._publisher.timelines.end_request(event.fields, clocks.wall)
        self._log_throughput()
        self._metrics.lost_lines(self._journal.dropped)
        if self._notifier is not None:
            self._notifier.send_due(clocks.now, clocks.wall)
        is_busy = bool(view.reassignments.by_partition) and view.role.leading
        self._metrics.progress_age.set(clocks.now - self._progress_at if is_busy else 0.0)

    def _log_throughput(self) -> None:
        """Journal a new point of the charts while there is work, and the first without."""
        point, before = self._publisher.trend[-1], self._point
        if point is not before and (point.in_flight or (before is not None and before.in_flight)):
            _, bytes_per_s, in_flight, copying = point
            fields = {"bytes_per_s": bytes_per_s, "in_flight": in_flight, "copying": copying}
            self._journal.append(point.wall, "throughput", fields)
        self._point = point

    def close(self) -> None:
        """Log what is still to be logged."""
        self._lines.flush()

    def _shows_work(self) -> bool:
        latest = self._publisher.latest
        return latest is not None and bool(latest.work.phases)

    def _write(self, events: Iterable[LogEvent], *, keep: bool) -> None:
        for event in events:
            at = self._wall()
            if self._leading and self._notifier is not None:
                self._notifier.take(event, at)
            self._lines.write(event)
            if keep:
                self._journal.append(at, event.kind, event.content)


class TimedInbox:
    """
    An inbox around the loop's inbox that remembers when each event arrived.

    Adapters put events here; the loop takes them from the inner inbox. Every event is taken once,
    so memory is bounded by the events that wait.
    """

    def __init__(self, inner: Inbox, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._arrived: dict[int, Instant] = {}
        """By the identity of the event, which the inner inbox keeps alive."""

    def put(self, event: Event) -> None:
        """Record the time and pass the event on."""
        self._arrived[id(event)] = self._clock.now()
        self._inner.put(event)

    def __len__(self) -> int:
        """Return how many events wait; safe from any thread."""
        return len(self._arrived)

    def arrival_of(self, event: Event) -> Instant | None:
        """Return when the event arrived; None for events of the loop itself."""
        return self._arrived.pop(id(event), None)
