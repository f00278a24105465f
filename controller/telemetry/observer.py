"""
The observer of the loop: everything telemetry hears, it hears here.

Each callback becomes notes (log and journal), measurements (metrics) and, when it is time, a
snapshot for the status page. Nothing waits for a disk or a network, and nothing here has an answer:
telemetry observes decisions, it never steers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from controller.core.events import Deposed, Event, LeadershipLost, SizesRead, StatesRead
from controller.core.model import BrokerId, Instant
from controller.core.records import (
    AtomicCheckedRecord,
    BlockedRecord,
    Change,
    Decision,
    ForeignAdoptedRecord,
    IdleRecord,
    JudgedRecord,
    LeaderMovedRecord,
    LeadersBalancedRecord,
    PendingSortedRecord,
    PhaseRecord,
    PreferredTriedRecord,
    RequestOutcomeRecord,
    SpecEndedRecord,
    SpecRecord,
    StartSkippedRecord,
    StatesPolledRecord,
    SubmissionReliedRecord,
    ThrottlesSettledRecord,
)
from controller.core.view import ClusterView
from controller.reactor.ports import BrokerRequest, Clock, WriteError
from controller.telemetry.blocked_events import BlockedEvents
from controller.telemetry.copies import CopyEvent
from controller.telemetry.event_arrivals import TimedInbox
from controller.telemetry.health_events import HealthEvents
from controller.telemetry.journal import Journal, kind_of
from controller.telemetry.log_events import LogEvent, LogEvents, change_events, phase_event, warning
from controller.telemetry.log_lines import Log, LogLines
from controller.telemetry.measurements import Measurements
from controller.telemetry.metrics import Metrics
from controller.telemetry.phase_changes import PhaseMemory
from controller.telemetry.request_events import RequestEvents, copy_events
from controller.telemetry.status_publisher import Snapshot, StatusPublisher

UNJOURNALED = (
    BlockedRecord,
    ForeignAdoptedRecord,
    AtomicCheckedRecord,
    IdleRecord,
    JudgedRecord,
    LeaderMovedRecord,
    LeadersBalancedRecord,
    StatesPolledRecord,
    PendingSortedRecord,
    StartSkippedRecord,
    PhaseRecord,
    PreferredTriedRecord,
    SubmissionReliedRecord,
    ThrottlesSettledRecord,
)
"""Volatile records: phases have a note of their own, the others tell nothing lasting."""


PROGRESS = (SpecRecord, SpecEndedRecord, PhaseRecord)
"""Records that mean that a reassignment came on."""


class Notifier(Protocol):
    """Receives the log events of the leader; sends notifications of some."""

    def take(self, event: LogEvent, at: datetime) -> None:
        """Add an event."""
        ...

    def send_due(self, now: Instant, at: datetime) -> None:
        """Send what is due, without waiting."""
        ...


class TelemetryObserver:
    """Implements ``reactor.ports.Observer``."""

    def __init__(  # noqa: PLR0913 - what it tells
        self,
        *,
        log: Log,
        metrics: Metrics,
        journal: Journal,
        publisher: StatusPublisher,
        clock: Clock,
        wall: Callable[[], datetime],
        arrivals: TimedInbox | None = None,
        notifier: Notifier | None = None,
        unreachable: Callable[[], Mapping[BrokerId, str]] = dict,
    ) -> None:
        """
        Observe into these.

        Args:
            log: Where lines go.
            metrics: What is counted and measured.
            journal: What is kept.
            publisher: Publishes the snapshots of the status.
            clock: The loop's clock.
            wall: The time of day, in UTC.
            arrivals: The inbox that knows when events arrived; without it queueing is not measured.
            notifier: Sends notifications; without it none are sent.
            unreachable: Returns the brokers that have no connection, and why.

        """
        self._lines = LogLines(log, clock)
        self._metrics = metrics
        self._measurements = Measurements(metrics, lambda: wall().timestamp())
        self._journal = journal
        self._publisher = publisher
        publisher.unreachable = unreachable
        self._clock = clock
        self._wall = wall
        self._arrivals = arrivals
        self._phases = PhaseMemory()
        self._events = LogEvents()
        self._strains = HealthEvents()
        self._had_tenure = False
        self._blockages = BlockedEvents()
        self._progress_at = clock.now()
        self._requests = RequestEvents()
        self._notifier = notifier
        self._leading = False
        self._last_callback = Instant(float("-inf"))
        if arrivals is not None:
            metrics.watch_queue(arrivals.__len__)

    def on_event(self, event: Event, view: ClusterView) -> None:
        """Tell, count and time an event."""
        self._timed(event)
        self._leading = view.leading
        self._follow_copies(event, view)
        self._tell(self._events.of(event, view), keep=True)
        self._measurements.event(event, view, had_tenure=self._had_tenure)
        if isinstance(event, Deposed | LeadershipLost):
            self._phases.forget()
            self._copied(self._publisher.copies.forget(self._clock.now()))
        turned = self._had_tenure != (view.tenure is not None)
        self._had_tenure = view.tenure is not None
        self.tend(view, at_once=turned)
        self._last_callback = self._clock.now()

    def _follow_copies(self, event: Event, view: ClusterView) -> None:
        match event:
            case StatesRead():
                self._copied(self._publisher.copies.states_read(event, view, self._clock.now()))
            case SizesRead():
                self._copied(self._publisher.copies.sizes_read(event))
                self._tell(self._requests.sizes(event, view), keep=True)
            case _:
                pass

    def _copied(self, events: Iterable[CopyEvent]) -> None:
        found = list(events)
        if not found:
            return
        now = self._clock.now()
        self._publisher.book.count(found, now)
        self._measurements.copied(found)
        self._tell(copy_events(found, now, self._wall()), keep=True)

    def _timed(self, event: Event) -> None:
        """Measure how long the event waited, and how long folding it took at most."""
        arrived = None if self._arrivals is None else self._arrivals.taken(event)
        if arrived is None:
            return
        now = self._clock.now()
        # The loop was free from the later of the two on.
        begun = max(arrived, self._last_callback)
        self._metrics.event_queue.observe(max(0.0, begun - arrived))
        self._metrics.event_processing.labels(type(event).__name__).observe(max(0.0, now - begun))

    def on_committed(self, change: Change, view: ClusterView) -> None:
        """Tell, count and keep a change that became durable."""
        moved = self._phases.changes(change, view)
        for phase in moved:
            self._measurements.phase(phase)
            self._tell([phase_event(phase)], keep=True)
            self._publisher.timelines.changed(phase, self._wall())
        self._copied(self._publisher.copies.committed(change, moved, view, self._clock.now()))
        if any(isinstance(r, PROGRESS) for r in change.records):
            self._progress_at = self._clock.now()
        self._measurements.committed(change)
        self._tell(change_events(change), keep=False)
        at = self._wall()
        for record in change.records:
            if isinstance(record, RequestOutcomeRecord):
                self._requests.concluded(record.summary.request)
            if not isinstance(record, UNJOURNALED):
                self._journal.append(at, kind_of(record), record)
        self._last_callback = self._clock.now()

    def on_rejected(self, change: Change, error: WriteError, view: ClusterView) -> None:
        """Tell and count a change the store refused."""
        del view
        self._metrics.write_rejections.labels(error.value).inc()
        records = tuple(kind_of(r) for r in change.records)
        fields = {} if change.partition is None else change.partition._asdict()
        self._tell([warning("write_rejected", error=error, records=records, **fields)], keep=True)
        self._last_callback = self._clock.now()

    def on_request_sent(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Count a request."""
        self._measurements.sent(broker, request)

    def on_cycle(self, decision: Decision, view: ClusterView, seconds: Mapping[str, float]) -> None:
        """Time a turn and publish what it led to."""
        del decision
        for part, taken in seconds.items():
            self._metrics.turn.labels(part).observe(taken)
        # The end of what was short, or came last of all, has to be told before the process is gone.
        is_owed = view.stopping and self._requests.owes_an_end()
        self.tend(view, at_once=is_owed or (not view.reassignments and self._shows_work()))
        self._last_callback = self._clock.now()

    def tend(self, view: ClusterView, *, at_once: bool = False) -> float:
        """
        Publish a snapshot if it is time; also to be called while the loop idles.

        Returns:
            How soon to call again, in seconds; for ever where nothing is half done.

        """
        self._lines.tend()
        snapshot = self._publisher.tend(view, at_once=at_once)
        if snapshot is not None:
            self._published(view, snapshot)
        return self._publisher.due_in_s

    def _published(self, view: ClusterView, snapshot: Snapshot) -> None:
        self._metrics.show(snapshot)
        self._tell(self._events.eligibility(view), keep=True)
        self._tell(self._strains.of(view, snapshot.work.in_flight), keep=True)
        self._tell(self._strains.reach(view, snapshot.unreachable), keep=True)
        now = self._clock.now()
        self._tell(self._blockages.of(snapshot.work, now, self._wall()), keep=True)
        for note in self._requests.of(snapshot.status, now):
            self._tell([note], keep=True)
            if note.kind == "request_ended":
                self._publisher.timelines.ended(note.fields, self._wall())
        self._metrics.lost_lines(self._journal.dropped)
        if self._notifier is not None:
            self._notifier.send_due(now, self._wall())
        is_busy = bool(view.reassignments) and view.leading
        self._metrics.progress_age.set(now - self._progress_at if is_busy else 0.0)

    def close(self) -> None:
        """Tell what is still to be told: nothing will be observed any more."""
        self._lines.flush()

    def _shows_work(self) -> bool:
        latest = self._publisher.latest
        return latest is not None and bool(latest.work.phases)

    def _tell(self, notes: Iterable[LogEvent], *, keep: bool) -> None:
        at = self._wall()
        for note in notes:
            if self._leading and self._notifier is not None:
                self._notifier.take(note, at)
            self._lines.write(note)
            if keep:
                self._journal.append(at, note.kind, note.content)
