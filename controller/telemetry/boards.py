"""
The notice board between the loop and everybody else: the newest snapshot, replaced, never changed.

The loop publishes at most a few times per second, and less often where the view is so large that
making the snapshot takes long. Readers on other threads take the reference that is there.

A snapshot names few of many partitions; about a single one a reader asks, and the loop answers the
next time it looks at the board.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from controller.core.engines import holds_role
from controller.core.model import Instant, TopicPartition
from controller.core.view import ClusterView
from controller.reactor.ports import Clock
from controller.telemetry.counts import ClusterCounts, WorkCounts, cluster_counts, work_counts
from controller.telemetry.explanations import explanation_of
from controller.telemetry.status import Clocks, status_of
from controller.telemetry.strains import Strain, strain_of

INTERVAL_S: Final = 0.2
CLUSTER_INTERVAL_S: Final = 5.0
"""Counting every partition of the cluster is the longest part and the least urgent."""
SHARE: Final = 0.05
"""The part of the loop's time that snapshots may take."""
QUESTIONS_MAX: Final = 64
"""Questions that may wait; beyond, the oldest is forgotten and its asker gives up in time."""

Question = tuple[TopicPartition, Future[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the loop last said of itself."""

    status: Mapping[str, Any]
    work: WorkCounts
    cluster: ClusterCounts | None
    """None while we are not the controller."""
    strain: Strain = field(default_factory=Strain)


class StatusBoard:
    """Written by the loop, read by anybody."""

    def __init__(
        self,
        *,
        clock: Clock,
        wall: Callable[[], datetime],
        engine: str,
        stalled_after_s: float,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """
        Begin with nothing to show.

        Args:
            clock: The loop's clock.
            wall: The time of day, in UTC.
            engine: Which engine is at work, as the status says it.
            stalled_after_s: Without progress for so long a partition in flight counts as stalled.
            interval_s: Shortest time between two snapshots.

        """
        self._clock = clock
        self._wall = wall
        self._engine = engine
        self._stalled_after_s = stalled_after_s
        self._interval_s = interval_s
        self._latest: Snapshot | None = None
        self._next_at = Instant(float("-inf"))
        self._next_count_at = Instant(float("-inf"))
        self._cluster: ClusterCounts | None = None
        self._questions: deque[Question] = deque(maxlen=QUESTIONS_MAX)

    @property
    def latest(self) -> Snapshot | None:
        """The newest snapshot; None before the loop's first turn."""
        return self._latest

    def tend(self, view: ClusterView, *, at_once: bool = False) -> Snapshot | None:
        """
        Publish a snapshot if it is time.

        Args:
            view: What is known.
            at_once: Do not wait for the interval: something changed that people look for.

        Returns:
            The new snapshot, None if it is too early.

        """
        started = self._clock.now()
        self._answer(view, started)
        if started < self._next_at and not at_once:
            return None
        clocks = Clocks(started, self._wall())
        self._count(view, started)
        work = work_counts(view, started, self._stalled_after_s)
        status = status_of(view, clocks, work, engine=self._engine)
        strain = strain_of(view, work.in_flight)
        snapshot = Snapshot({**status, "strain": strain.as_status()}, work, self._cluster, strain)
        self._latest = snapshot
        ended = self._clock.now()
        self._next_at = Instant(ended + max(self._interval_s, (ended - started) / SHARE))
        return snapshot

    def ask(self, partition: TopicPartition) -> Future[Mapping[str, Any]]:
        """Ask the loop about a partition; safe from any thread."""
        future: Future[Mapping[str, Any]] = Future()
        self._questions.append((partition, future))
        return future

    def _answer(self, view: ClusterView, now: Instant) -> None:
        while self._questions:
            partition, future = self._questions.popleft()
            if future.set_running_or_notify_cancel():
                clocks = Clocks(now, self._wall())
                future.set_result(
                    explanation_of(view, partition, clocks, stalled_after_s=self._stalled_after_s)
                )

    def _count(self, view: ClusterView, now: Instant) -> None:
        if not holds_role(view):
            self._cluster = None
            self._next_count_at = now
        elif self._cluster is None or now >= self._next_count_at:
            self._cluster = cluster_counts(view)
            ended = self._clock.now()
            self._next_count_at = Instant(ended + max(CLUSTER_INTERVAL_S, (ended - now) / SHARE))
