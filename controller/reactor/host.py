"""
The host of the loop: its thread, the inbox that wakes it, signals, and the handling of errors.

This module has the program's one broad ``except``, which asks for the verdict of an error. A signal
only puts an event into the inbox.

During a large plan each event would cause a cycle of its own, with a write to ZooKeeper and a
request to every broker. So after a busy cycle events gather for a moment and share the next. Events
that do not belong to a plan in flight, above all requests of operators, are not delayed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final

from controller.core.disks.records import LogDirsDescribed
from controller.core.leadership import records as leadership
from controller.core.model import Instant
from controller.core.pacing.records import WallClockRead
from controller.core.reassignments.records import StopReplicaAnswered
from controller.core.records import Event, TimerFired
from controller.core.requests.records import LegacyPlanRead
from controller.core.role.eligibility import refusals
from controller.core.role.records import Deposed, ShutdownRequested, UpdateMetadataAnswered
from controller.core.topics.records import TopicsRead
from controller.core.view import ClusterView
from controller.errors import InvariantError, NativeRefusedError, Verdict, verdict_of
from controller.reactor.loop import Reactor
from controller.reactor.ports import Clock

GATHER_AFTER: Final = 8
"""Changes that make a cycle busy: a small plan is never delayed."""
GATHER_S: Final = 0.05
"""Longest time that events gather, in seconds."""

_MAY_WAIT: Final = (
    leadership.StateChanged,
    leadership.StatesRead,
    TopicsRead,
    leadership.LeaderAndIsrAnswered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
    leadership.IsrNotificationsRead,
    LegacyPlanRead,
    LogDirsDescribed,
    TimerFired,
    WallClockRead,
)
"""Events of a plan in flight; the legacy plan is read again whenever it is written."""


IDLE_S = 1.0
"""Longest sleep: the watchdog checks the adapters' threads at least this often."""

WALL_EVERY_S = 30.0
"""Interval at which the core receives the wall-clock time."""

SHUTDOWN_S = 10.0
"""Longest duration of a resignation; after it the process ends, and its session with it."""


class WakingInbox:
    """
    The loop's inbox: any thread may put events, which wake the loop.

    Events wait until a reactor is attached.
    """

    def __init__(self) -> None:
        self._waiting: list[Event] = []
        self._reactor: Reactor | None = None
        self._wake = threading.Event()
        self._pressing = threading.Event()

    def attach(self, reactor: Reactor) -> None:
        """Deliver events, also those that waited, to this reactor."""
        self._reactor = reactor
        for event in self._waiting:
            reactor.put(event)
        self._waiting.clear()
        self._wake.set()

    def put(self, event: Event) -> None:
        """Add an event and wake the loop."""
        if self._reactor is None:
            self._waiting.append(event)
        else:
            self._reactor.put(event)
        if not isinstance(event, _MAY_WAIT):
            self._pressing.set()
        self._wake.set()

    def gather(self, longest_s: float) -> None:
        """Sleep until an event arrives that may not wait, or the time is over."""
        self._pressing.wait(max(0.0, longest_s))

    def begin_cycle(self) -> None:
        """Note that a cycle begins: it handles every event put before."""
        self._pressing.clear()

    def wait(self, timeout_s: float) -> None:
        """Sleep until an event arrives or the time is over."""
        self._wake.wait(timeout_s)
        self._wake.clear()


class Host:
    """Drives a reactor until it is finished."""

    def __init__(  # noqa: PLR0913 - the parts it is composed of, by name
        self,
        *,
        reactor: Reactor,
        inbox: WakingInbox,
        clock: Clock,
        on_error: Callable[[BaseException, Verdict], None],
        after_cycle: Callable[[ClusterView], float],
        threads: Callable[[], Iterable[tuple[str, bool]]],
        unix_s: Callable[[], float],
    ) -> None:
        """
        Prepare to run.

        ``after_cycle`` is called with the view after each cycle, at least every ``IDLE_S``, and
        returns how soon it wants to be called again, in seconds. ``threads`` returns (name, alive)
        of every thread that must never end, ``unix_s`` the seconds since 1970.
        """
        self._reactor = reactor
        self._inbox = inbox
        self._clock = clock
        self._on_error = on_error
        self._after_cycle = after_cycle
        self._again_s = IDLE_S
        self._threads = threads
        self._unix_s = unix_s
        self._wall_due: Instant | None = None
        self._is_eligible = False
        self._deadline: Instant | None = None
        self.last_cycle: Instant = clock.now()
        """When the last cycle ended, for the liveness probe."""

    def request_shutdown(self) -> None:
        """Ask the loop to resign and end; from any thread, but not from a signal handler."""
        self._inbox.put(ShutdownRequested())

    def run(self) -> None:
        """
        Run cycles until the loop is finished.

        Raises:
            NativeRefusedError: no engine that the settings allow is safe on this cluster.
            ControllerError: the process has to end; a standby takes over.

        """
        self._inbox.attach(self._reactor)
        self._reactor.start()
        while not self._reactor.finished:
            self._put_wall_clock()
            if not self._reactor.view.due:
                self._gather()
                self._inbox.wait(self._sleep_s())
            self._inbox.begin_cycle()
            self._cycle()
            self.last_cycle = self._clock.now()
            self._again_s = self._after_cycle(self._reactor.view)
            self._check_eligibility()
            self._watch()

    def _gather(self) -> None:
        """Let events gather after a busy cycle."""
        if self._reactor.changes >= GATHER_AFTER and not self._reactor.view.role.stopping:
            self._inbox.gather(self.last_cycle + GATHER_S - self._clock.now())

    def _cycle(self) -> None:
        try:
            self._reactor.run_cycle()
        except Exception as error:  # the one broad handler: it asks for the verdict
            verdict = verdict_of(error)
            self._on_error(error, verdict)
            if verdict is Verdict.CRASH:
                raise
            if verdict is Verdict.RESIGN:
                self._inbox.put(Deposed(str(error)))

    def _put_wall_clock(self) -> None:
        """Put the wall-clock time into the inbox, periodically: wall clocks are adjusted."""
        now = self._clock.now()
        if self._wall_due is None or now >= self._wall_due:
            self._wall_due = Instant(now + WALL_EVERY_S)
            self._inbox.put(WallClockRead(self._unix_s()))

    def _check_eligibility(self) -> None:
        """Refuse a cluster on which no engine is safe, once the view is warm."""
        view = self._reactor.view
        if self._is_eligible or not view.is_warm:
            return
        reasons = refusals(view)
        if reasons:
            raise NativeRefusedError("; ".join(reasons))
        # Whether the controller serves AlterPartitionReassignments is known only after a probe.
        self._is_eligible = view.tenure.held is not None or (
            view.role.engine is not None and view.is_native
        )

    def _sleep_s(self) -> float:
        longest_s = min(IDLE_S, self._again_s)
        wakes_at = self._reactor.wakes_at()
        if wakes_at is None:
            return longest_s
        return min(longest_s, max(0.0, wakes_at - self._clock.now()))

    def _watch(self) -> None:
        for name, alive in self._threads():
            if not alive:
                raise InvariantError(f"thread {name} ended")
        if not self._reactor.view.role.stopping:
            return
        if self._deadline is None:
            self._deadline = Instant(self._clock.now() + SHUTDOWN_S)
        elif self._clock.now() >= self._deadline:
            self._reactor.finished = True


class Signals:
    """Turns SIGTERM and SIGINT into a request to stop; without a loop, ends the process."""

    def __init__(self) -> None:
        self._host: Host | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._received)

    def hand_over(self, host: Host) -> None:
        """Pass further signals to this host."""
        self._host = host

    def _received(self, number: int, frame: FrameType | None) -> None:
        """
        Request the shutdown from another thread.

        A handler interrupts the main thread, which runs the loop and may hold the inbox's lock.
        """
        del number, frame
        if self._host is None:
            raise SystemExit(0)
        threading.Thread(target=self._host.request_shutdown, name="shutdown").start()
