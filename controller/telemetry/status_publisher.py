"""
Publishes snapshots of the view for readers on other threads, and passes their questions.

A snapshot is immutable and replaced as a whole. The loop makes one a few times per second at most,
less often for a large view, in slices between other work; counts of one snapshot may be of
different moments. It names few partitions: a reader asks for a single one, or for a page of them,
and the loop answers at its next call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from controller.core.model import BrokerId, Instant, TopicPartition
from controller.core.view import ClusterView
from controller.reactor.ports import Clock
from controller.telemetry import cluster_counts as counts
from controller.telemetry.cluster_counts import Incremental
from controller.telemetry.cluster_health import ClusterHealth, cluster_health
from controller.telemetry.copies import Copies
from controller.telemetry.json_values import Clocks
from controller.telemetry.partition_documents import Filter, PartitionDocuments
from controller.telemetry.progress import ProgressTracker
from controller.telemetry.status_document import status_of
from controller.telemetry.timelines import Past, TrendPoint, replay

INTERVAL_S: Final = 0.2
CLUSTER_INTERVAL_S: Final = 5.0
"""Counting every partition of the cluster takes longest and is least urgent."""
ASSIGNED_INTERVAL_S: Final = 30.0
"""The same for every replica of a large cluster: plans change their places one by one."""
ASSIGNED_PER_S: Final = 3_000
"""Replicas counted in a second on average: a small cluster is counted for each snapshot."""
SHARE: Final = 0.05
"""Largest part of the loop's time for snapshots."""
SLICE_S: Final = 0.01
"""Longest time in one cycle for a snapshot; a large one takes several cycles."""
ANSWERING_S: Final = 0.1
"""Time for answers in one call; further questions wait for the next."""
TREND_INTERVAL_S: Final = 5.0
TREND_KEPT: Final = timedelta(hours=1)
QUESTIONS_MAX: Final = 64
"""Questions that may wait; beyond it the oldest is dropped, and its reader times out."""

Document = Mapping[str, Any]
Question = tuple[Callable[[PartitionDocuments], Document], Future[Document]]
"""What a reader wants of the partitions, and the future of its result."""


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """The state of the daemon at one moment."""

    status: Mapping[str, Any]
    work: counts.WorkCounts
    cluster: Mapping[str, int] | None
    """None while the daemon is not the controller."""
    health: ClusterHealth = field(default_factory=ClusterHealth)
    role: Mapping[str, float] = field(default_factory=dict)
    """See ``role_counts``."""
    received: Mapping[BrokerId, int] = field(default_factory=dict)
    """Bytes copied to each broker since the daemon started."""
    served: Mapping[BrokerId, int] = field(default_factory=dict)
    """Bytes copied from each broker."""
    dead: Sequence[BrokerId] = ()
    """Brokers with replicas that are not registered."""
    unreachable: Mapping[BrokerId, str] = field(default_factory=dict)
    """Registered brokers without a connection during a tenure, and why."""


class StatusPublisher:
    """Written by the loop; ``latest`` and the questions are safe from any thread."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        *,
        clock: Clock,
        wall: Callable[[], datetime],
        engine: str,
        stalled_after_s: float,
        interval_s: float = INTERVAL_S,
        journal: Path | None = None,
    ) -> None:
        """
        Take up what the directory of the journal has of earlier processes.

        ``engine`` is that of the settings; ``interval_s`` the shortest between snapshots.
        """
        self._clock = clock
        self._wall = wall
        self._engine = engine
        self._stalled_after_s = stalled_after_s
        self._interval_s = interval_s
        self.latest: StatusSnapshot | None = None
        """The newest snapshot; None before the loop's first cycle."""
        self._next_at = Instant(float("-inf"))
        self._draft: Incremental[StatusSnapshot] | None = None
        self._is_hastened = False
        """Whether the next one begins as soon as there is no draft, which may miss a change."""
        self._next_count_at = Instant(float("-inf"))
        self._cluster: Mapping[str, int] | None = None
        self._next_assigned_at = Instant(float("-inf"))
        self._assigned = counts.AssignedReplicas()
        self._questions: deque[Question] = deque(maxlen=QUESTIONS_MAX)
        self.copies = Copies()
        """The copies in progress; the observer updates it."""
        self.progress = ProgressTracker()
        past = Past(logged=self.progress.logged)
        if journal is not None:
            replay(journal, past)
        self.copy_rates = past.rates
        """The rates of past copies; the observer updates it."""
        self.timelines = past.timelines
        self.trend = tuple(past.trend)
        """The last hour, the oldest first."""
        self._next_point_at = Instant(float("-inf"))
        self.cluster = ""
        """The cluster's name; empty while it is not known."""
        self.unreachable: Callable[[], Mapping[BrokerId, str]] = dict
        """Returns the registered brokers without a connection, and why."""
        self.journal: Callable[[], Mapping[str, object]] = dict
        """Returns how far the journal is written."""

    def tend(self, view: ClusterView, *, at_once: bool = False) -> StatusSnapshot | None:
        """
        Answer questions, and publish a snapshot if one is due; a large one takes several calls.

        Return the new snapshot; None if it is not due or not ready. ``at_once`` begins a new one
        without waiting for the interval.
        """
        self._answer(view, self._clock.now())
        started = self._clock.now()
        if at_once:
            self._draft = None
        elif started < self._next_at and (self._draft is not None or not self._is_hastened):
            return None
        if self._draft is None:
            self._draft, self._is_hastened = self._drafted(view, started), False
        # There may be no further call after a shutdown.
        until = float("inf") if view.role.stopping else started + SLICE_S
        snapshot = None
        try:
            while self._clock.now() < until:
                next(self._draft)
        except StopIteration as end:
            snapshot, self._draft = end.value, None
        ended = self._clock.now()
        pause_s = (ended - started) / SHARE
        if snapshot is not None:
            self.latest = snapshot
            self._add_to_trend(snapshot, ended)
            pause_s = max(self._interval_s, pause_s)
        self._next_at = Instant(ended + pause_s)
        return snapshot

    def hasten(self) -> None:
        """Have the next snapshot made at once: an operator may look for what was just changed."""
        self._is_hastened = True

    @property
    def due_in_s(self) -> float:
        """Seconds until the next slice of a snapshot; infinite without one in the making or due."""
        if self._draft is None:
            return 0.0 if self._is_hastened else float("inf")
        return max(0.0, self._next_at - self._clock.now())

    def _drafted(self, view: ClusterView, now: Instant) -> Incremental[StatusSnapshot]:
        clocks = Clocks(now, self._wall())
        yield from self._count(view, now)
        yield from self._count_replicas(view, now)
        work = yield from counts.work_counts(
            view, now, self._stalled_after_s, self.copies.gained_at
        )
        yield from self.progress.measure(view, self.copies, work, clocks)
        documents = self._documents(view, clocks)
        status = yield from status_of(
            view,
            clocks,
            work,
            engine=self._engine,
            progress=self.progress,
            documents=documents,
            assigned=self._assigned,
        )
        health, role = cluster_health(view, work.in_flight), counts.role_counts(view, now)
        unreachable = self.unreachable() if view.tenure.held is not None else {}
        return StatusSnapshot(
            status={
                "cluster": self.cluster,
                **status,
                "strain": health.as_status(),
                "copy_rates": self.copy_rates.as_status(),
                "orders": {"unanswered": role["orders_unanswered"]},
                "journal": self.journal(),
                "unreachable_brokers": {str(b): why for b, why in unreachable.items()},
            },
            unreachable=unreachable,
            work=work,
            cluster=self._cluster,
            health=health,
            role=role,
            dead=self._assigned.dead(view),
            received=dict(self.progress.received),
            served=dict(self.progress.served),
        )

    def _add_to_trend(self, snapshot: StatusSnapshot, now: Instant) -> None:
        if now < self._next_point_at:
            return
        self._next_point_at = Instant(now + TREND_INTERVAL_S)
        work, rate = snapshot.work, snapshot.status["total"]["bytes_per_s"]
        point = TrendPoint(self._wall(), rate, len(work.in_flight), work.copying)
        # Readers on other threads keep the tuple that they have.
        since = point.wall - TREND_KEPT
        self.trend = (*(p for p in self.trend if p.wall > since), point)

    def request_partition(self, partition: TopicPartition) -> Future[Document]:
        """Ask the loop about a partition; safe from any thread."""
        return self._request(lambda documents: documents.explanation(partition))

    def request_partitions(self, wanted: Filter) -> Future[Document]:
        """Ask the loop for a page of the partitions; safe from any thread."""
        return self._request(lambda documents: documents.page(wanted))

    def _request(self, answer: Callable[[PartitionDocuments], Document]) -> Future[Document]:
        future: Future[Document] = Future()
        self._questions.append((answer, future))
        return future

    def _answer(self, view: ClusterView, now: Instant) -> None:
        while self._questions and self._clock.now() < now + ANSWERING_S:
            answer, future = self._questions.popleft()
            if future.set_running_or_notify_cancel():
                clocks = Clocks(now, self._wall())
                future.set_result(answer(self._documents(view, clocks)))

    def _documents(self, view: ClusterView, clocks: Clocks) -> PartitionDocuments:
        return PartitionDocuments(view, clocks, self.copies, self.progress, self._stalled_after_s)

    def _count_replicas(self, view: ClusterView, now: Instant) -> Incremental[None]:
        if not view.role.leading:
            self._assigned, self._next_assigned_at = counts.AssignedReplicas(), now
        elif now >= self._next_assigned_at and view.is_warm:
            self._assigned = yield from counts.assigned_replicas(view)
            pause_s = self._assigned.replicas.total() / ASSIGNED_PER_S
            self._next_assigned_at = Instant(now + min(ASSIGNED_INTERVAL_S, pause_s))

    def _count(self, view: ClusterView, now: Instant) -> Incremental[None]:
        if not view.is_controller:
            self._cluster = None
            self._next_count_at = now
        elif self._cluster is None or now >= self._next_count_at:
            self._cluster = yield from counts.cluster_counts(view)
            self._next_count_at = Instant(now + CLUSTER_INTERVAL_S)
