"""Readings of a produce probe by chance, for histories in which the governor sets the rates."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, cast

from controller.core.core_settings import Options
from controller.core.model import BrokerId, Instant
from controller.core.pacing.model import Signal, SignalKind
from controller.core.pacing.records import LatencyMeasured
from controller.core.requests.submissions import AUTO

if TYPE_CHECKING:
    from controller.reactor.ports import Inbox
    from tests.sim.daemons import Ports
    from tests.sim.schedule import Schedule
    from tests.sim.store import SimStore

OBJECTIVE_S: Final = 0.5
STRAINS: Final = (0.01, 0.1, 0.5, 0.9, 1.2, 3.0)
SILENT_SHARE: Final = 0.1
"""The share of seconds without any reading."""


class SimLatencies:
    """Implements ``reactor.ports.Latencies``."""

    def __init__(self, inbox: Inbox, schedule: Schedule, chance: Random) -> None:
        """Prepare; nothing is measured yet."""
        self._inbox = inbox
        self._schedule = schedule
        self._chance = chance
        self._until = 0.0
        self._hosts: frozenset[BrokerId] = frozenset()
        self._is_measuring = False

    def measure(self, until: Instant, hosts: frozenset[BrokerId]) -> None:
        """Put a reading of each host into the inbox once a second."""
        self._until, self._hosts = max(self._until, until), hosts
        if not self._is_measuring:
            self._is_measuring = True
            self._schedule.call_in(1.0, self._read)

    def _read(self) -> None:
        now = self._schedule.now()
        if now >= self._until:
            self._is_measuring = False
            return
        self._schedule.call_in(1.0, self._read)
        is_silent = self._chance.random() < SILENT_SHARE
        readings = () if is_silent else tuple(self._of(b, now) for b in sorted(self._hosts))
        self._inbox.put(LatencyMeasured(readings, frozenset({SignalKind.PROBE})))

    def _of(self, broker: BrokerId, now: float) -> Signal:
        value = self._chance.choice(STRAINS) * OBJECTIVE_S
        return Signal(
            kind=SignalKind.PROBE,
            value=value,
            objective=OBJECTIVE_S,
            since=Instant(now - 1.0),
            at=Instant(now),
            evidence=f"broker {broker} acknowledges in {value} s",
            broker=broker,
        )


def latencies_of(options: Options, ports: Ports) -> SimLatencies | None:
    """Return what a daemon with a throttle auto measures; None for any other."""
    if options.throttle != AUTO:
        return None
    store = cast("SimStore", ports.store)
    schedule = cast("Schedule", ports.clock)
    return SimLatencies(store.inbox, schedule, Random(f"latencies {schedule.now()}"))
