"""
What clients see, measured while a throttle ``auto`` is in force: by the produce probe and a query.

The thread sleeps otherwise. About once a second it puts a ``LatencyMeasured``, also where nothing
could be measured: then with the problem. What the readings mean is decided in
``core.pacing.governor``.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

from controller.background_threads import BackgroundThread
from controller.brokers.produce_probe import INTERVAL_S, ProduceProbe
from controller.core.model import BrokerId, Instant
from controller.core.pacing.model import Signal, SignalKind
from controller.core.pacing.records import LatencyMeasured
from controller.reactor.ports import Clock, Inbox

READING_S: Final = 1.0
IDLE_S: Final = 1.0


class LatencyQuery(Protocol):
    """The operator's own measurement."""

    @property
    def problem(self) -> str:
        """Why there is no reading; empty where there is one."""

    def measure(self) -> None:
        """Query again, in the background, unless that is under way."""

    def take_readings(self) -> tuple[Signal, ...]:
        """Return what arrived since the last call."""


class MeasuredLatencies(BackgroundThread):
    """Implements ``reactor.ports.Latencies``."""

    def __init__(
        self, inbox: Inbox, clock: Clock, probe: ProduceProbe | None, query: LatencyQuery | None
    ) -> None:
        """Prepare the thread; ``start`` begins it."""
        super().__init__("latencies")
        self._inbox = inbox
        self._clock = clock
        self._probe = probe
        self._query = query
        self._wanted = (Instant(float("-inf")), frozenset[BrokerId]())
        """Until when to measure, and the brokers of the probe's topic."""
        self._wake = threading.Event()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the thread; records on their way are left behind."""
        self._stopping.set()
        self._wake.set()
        self._join()

    def measure(self, until: Instant, hosts: frozenset[BrokerId]) -> None:
        """Measure until an instant; see ``reactor.ports.Latencies``."""
        self._wanted = (max(until, self._wanted[0]), hosts)
        self._wake.set()

    def _is_wanted(self, now: Instant) -> bool:
        return now < self._wanted[0] and not self._stopping.is_set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._is_wanted(self._clock.now()):
                self._measure()

    def _measure(self) -> None:
        due = Instant(self._clock.now() + READING_S)
        while self._is_wanted(now := self._clock.now()):
            pause_s = min(INTERVAL_S / 2, max(0.0, due - now))
            if self._probe is not None:
                self._probe.work(self._wanted[1], now, longest_s=pause_s)
            if self._probe is None or not self._probe.is_open:
                self._stopping.wait(pause_s)
            now = self._clock.now()
            if now >= due:
                due = max(Instant(due + READING_S), now)
                self._inbox.put(self._measured(now))
        if self._probe is not None:
            self._probe.close()

    def _measured(self, now: Instant) -> LatencyMeasured:
        readings: tuple[Signal, ...] = ()
        expected, problems = set[SignalKind](), dict[SignalKind, str]()
        if self._probe is not None:
            readings += self._probe.take_readings(now)
            if not self._probe.is_refused:
                expected.add(SignalKind.PROBE)
            if self._probe.problem:
                problems[SignalKind.PROBE] = self._probe.problem
        if self._query is not None:
            self._query.measure()
            readings += self._query.take_readings()
            expected.add(SignalKind.QUERY)
            if self._query.problem:
                problems[SignalKind.QUERY] = self._query.problem
        return LatencyMeasured(readings, frozenset(expected), problems)
