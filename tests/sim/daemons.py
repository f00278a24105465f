"""
The host of one daemon in a simulation: gives the real loop its turns, and lets it die.

The caller builds the loop from the ports given here; this module uses only the four methods below.
A crash is an exception that the loop does not know, raised at one of the boundaries between writes
and sends that the loop announces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from controller.core.model import BrokerId, Instant
from controller.core.pacing.records import WallClockRead
from controller.core.records import Event
from controller.core.role.records import ShutdownRequested
from controller.reactor.ports import Channels, Clock, SessionLease, Store
from integration.rigs.failpoints import Failpoint, Reached
from tests.sim.channels import SimChannels
from tests.sim.configs import SimConfigs
from tests.sim.controller_endpoints import SimEndpoint
from tests.sim.store import SimStore

if TYPE_CHECKING:
    from tests.sim.fabric import Fabric
    from tests.sim.schedule import Scheduled

TURN_S: Final = (0.0002, 0.004)
"""The time that an event waits in the inbox before the loop's cycle."""
CONTROLLER_ID: Final = BrokerId(1000000)


class SimulatedCrash(Exception):  # noqa: N818 - not an error of anything
    """The daemon's process ends here."""


class DaemonLoop(Protocol):
    """The part of the loop that a host uses (``controller.reactor.loop.Reactor``)."""

    @property
    def finished(self) -> bool:
        """True once the loop has returned the role and can end."""
        ...

    def start(self) -> None:
        """Ask for everything that has to be known."""
        ...

    def put(self, event: Event) -> None:
        """Add an event to the inbox."""
        ...

    def run_cycle(self) -> None:
        """Work until nothing is left to do without waiting."""
        ...

    def wakes_at(self) -> Instant | None:
        """Return when the next cycle is due without further events."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports that a loop is built from."""

    store: Store
    channels: Channels
    configs: SimConfigs
    clock: Clock
    reached: Reached
    """The function to call at every boundary between two writes or sends."""
    endpoint: SimEndpoint | None
    """Where brokers ask; None: nowhere."""
    lease: SessionLease
    """The time until which the ZooKeeper session certainly lives."""


Build = Callable[[Ports], DaemonLoop]


class SimDaemon:
    """One daemon process, from its start to its end; a restart is a new one."""

    def __init__(
        self,
        fabric: Fabric,
        build: Build,
        *,
        session_timeout_s: float = 10.0,
        competes: bool = True,
    ) -> None:
        self._fabric = fabric
        self._paused = False
        self._turn_due: Scheduled | None = None
        self._timer: Scheduled | None = None
        self._boundaries_left: int | None = None
        self._fatal: Failpoint | None = None
        self._passes_left = 0
        self._is_to_die_in_commit = False
        self._resumed_at = 0.0
        self.is_alive = True
        self.failpoints = 0
        """Boundaries passed so far."""
        self.died_at: Failpoint | None = None
        """The boundary it was to die at, once it did."""
        self.turns = 0
        self.store = SimStore(
            fabric.zookeeper,
            fabric.schedule,
            self,
            controller_id=CONTROLLER_ID,
            session_timeout_s=session_timeout_s,
            competes=competes,
            struck=fabric.strike,
        )
        self.channels = SimChannels(fabric, self)
        self.configs = SimConfigs(fabric, self)
        self.endpoint = SimEndpoint(fabric, self, CONTROLLER_ID) if fabric.has_endpoint else None
        """Where brokers ask."""
        self.loop = build(
            Ports(
                self.store,
                self.channels,
                self.configs,
                fabric.schedule,
                self._pass_boundary,
                self.endpoint,
                self.store,
            )
        )
        self.loop.put(WallClockRead(fabric.schedule.unix_s()))
        self.loop.start()
        if competes:
            self.store.compete()

    @property
    def is_running(self) -> bool:
        """True if the daemon is alive and not paused."""
        return self.is_alive and not self._paused

    @property
    def hears_since(self) -> float:
        """The time since which it hears without delay; now, where something delays it."""
        if self._paused:
            return self._fabric.schedule.now()
        return max(self._resumed_at, self.store.session.hears_since, self.store.lanes.on_time_since)

    # --- running -------------------------------------------------------------------------------

    def put(self, event: Event) -> None:
        """Add an event to the loop's inbox and let it have a turn soon."""
        if self.is_alive:
            self.loop.put(event)
            self._turn_soon()

    def _turn_soon(self) -> None:
        if self._turn_due is None and not self._paused:
            self._turn_due = self._fabric.schedule.call_between(*TURN_S, self._turn)

    def _turn(self) -> None:
        self._turn_due = None
        if not self.is_alive or self._paused:
            return
        self.turns += 1
        try:
            self.loop.run_cycle()
        except SimulatedCrash:
            self.crash()
            return
        if self.loop.finished:
            self.is_alive = False
            self._close_endpoint()
            self.channels.close_all()
            self.store.close()
            return
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self.loop.wakes_at()
        if at is not None:
            self._timer = self._fabric.schedule.call_at(at, self._turn)

    # --- faults --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask the daemon to hand back and end."""
        self.put(ShutdownRequested())

    def crash(self) -> None:
        """End the process without a word; the session lasts until its timeout."""
        if self.is_alive:
            self.is_alive = False
            self._close_endpoint()
            self.channels.close_all()
            self.store.abandon()

    def _close_endpoint(self) -> None:
        if self.endpoint is not None:
            self.endpoint.close()

    def crash_after(self, failpoints: int) -> None:
        """Die at a later boundary between a write and a send: 0 is the next one."""
        self._boundaries_left = failpoints

    def crash_at(self, failpoint: Failpoint, *, nth: int = 1) -> None:
        """Die at a named boundary, when it is reached for the nth time from now."""
        self._fatal, self._passes_left = failpoint, nth

    def crash_in_commit(self, *, after: int) -> None:
        """Die between two multis of one commit: 0 is the next time there are two."""

        def die() -> None:
            if self._is_to_die_in_commit:
                self._fabric.strike("daemon_crashed_in_commit")
                raise SimulatedCrash

        self._is_to_die_in_commit = True
        self.store.faults.interrupt_commit(die, after=after, is_inside=True)

    def spare(self) -> None:
        """Take back a crash that has not happened yet."""
        self._is_to_die_in_commit = False
        self._boundaries_left = None
        self._fatal = None

    def pause(self, seconds: float, *, loses_connection: bool) -> None:
        """Pause, as a stopped process does; with or without its ZooKeeper connection."""
        if not self.is_alive or self._paused:
            return
        self._paused = True
        if self._turn_due is not None:
            self._turn_due.cancel()
            self._turn_due = None
        if loses_connection:
            self.store.session.suspend()

        def resume() -> None:
            self._paused = False
            self._resumed_at = self._fabric.schedule.now()
            if self.is_alive:
                self.store.session.resume()
                self._turn_soon()

        self._fabric.schedule.call_in(seconds, resume)

    def _pass_boundary(self, reached: Collection[Failpoint]) -> None:
        self.failpoints += 1
        if self._fatal is not None and self._fatal in reached:
            self._passes_left -= 1
            if self._passes_left == 0:
                self.died_at = self._fatal
                raise SimulatedCrash(self._fatal)
        if self._boundaries_left is None:
            return
        if self._boundaries_left == 0:
            self._fabric.strike("daemon_crashed_between")
            raise SimulatedCrash
        self._boundaries_left -= 1
