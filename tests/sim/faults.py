"""
Seeded misfortune: brokers die, disks fail, sessions expire, connections break, daemons crash.

Here it is drawn; what each kind does is in ``broker_faults`` and ``daemon_faults``. ``heal`` ends
all of it, so that a history can be asked whether everything came to a good end. What operators and
clients do meanwhile is ``operators``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.sim.broker_faults import BrokerFaults
from tests.sim.daemon_faults import DaemonFaults

if TYPE_CHECKING:
    from tests.sim.daemons import Build
    from tests.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """
    The relative frequency of each kind of fault; 0 is never.

    A kind that is never drawn consumes no random numbers: older seeds stay the same histories.
    """

    broker_killed: int = 3
    broker_bounced: int = 2
    broker_stopped: int = 1
    broker_session_expired: int = 2
    fetches_slow: int = 2
    directory_failed: int = 1
    network_lossy: int = 2
    controller_removed: int = 1
    kafka_controller_dies: int = 1
    daemon_crashed: int = 2
    daemon_crashed_between: int = 4
    daemon_session_expired: int = 2
    daemon_paused: int = 2
    commit_broken: int = 3
    configs_unknown: int = 1
    answers_late: int = 0
    ensemble_member_lost: int = 0
    daemon_stopped: int = 0
    daemons_paused: int = 0
    reads_late: int = 0
    writes_refused: int = 0
    write_refused: int = 0
    role_taken_in_commit: int = 0
    daemon_crashed_in_commit: int = 0
    record_refused: int = 0
    records_refused: int = 0
    claim_refused: int = 0
    broker_restarted_without_disk: int = 0
    broker_bounced_at_claim: int = 0
    broker_lost: int = 0
    requests_refused: int = 0
    broker_shut_down: int = 0
    log_lost_behind_cut: int = 0


LATENT: Final = frozenset(
    {
        "fetches_slow",
        "network_lossy",
        "kafka_controller_dies",
        "daemon_crashed_between",
        "daemon_crashed_in_commit",
        "commit_broken",
        "configs_unknown",
        "answers_late",
        "reads_late",
        "writes_refused",
        "write_refused",
        "records_refused",
        "record_refused",
        "claim_refused",
        "broker_bounced_at_claim",
        "role_taken_in_commit",
        "requests_refused",
        "log_lost_behind_cut",
    }
)
"""Faults that take effect later, if at all, and are counted where they do."""


class Faults:
    """Draws a fault every now and then, until healed."""

    def __init__(
        self,
        world: World,
        *,
        every_s: float = 2.0,
        weights: Weights | None = None,
        brokers_down_max: int = 2,
        daemon: Build | None = None,
        daemons: int = 1,
    ) -> None:
        """
        Prepare, without starting.

        Args:
            world: Whom it befalls.
            every_s: Mean time between two faults.
            weights: What is drawn how often.
            brokers_down_max: How many brokers may be down at once.
            daemon: Builds the daemon that replaces one that crashed; None for a world without.
            daemons: How many there are to be.

        """
        self._world = world
        self._every_s = every_s
        self._brokers = BrokerFaults(world, down_max=brokers_down_max)
        self._daemons = DaemonFaults(world, daemon, count=daemons)
        self._is_running = False
        self.drawn: Counter[str] = Counter()
        """The number of times that each fault happened."""
        self._kinds: Mapping[str, Callable[[], bool]] = {
            **self._brokers.kinds,
            **self._daemons.kinds,
        }
        chosen = weights or Weights()
        self._names = [n for n in self._kinds if getattr(chosen, n) > 0]
        self._weights = [getattr(chosen, n) for n in self._names]

    def start(self) -> None:
        """Begin to draw."""
        self._is_running = True
        self._later()

    def heal(self) -> None:
        """End every fault: all brokers run, with all their disks, and enough daemons live."""
        self._is_running = False
        self._world.fabric.note("all faults end")
        self._brokers.heal()
        self._daemons.heal()

    def _later(self) -> None:
        self._world.schedule.call_between(0.0, 2 * self._every_s, self._draw)

    def _draw(self) -> None:
        if not self._is_running:
            return
        self._daemons.keep_enough()
        name = self._world.schedule.random.choices(self._names, self._weights)[0]
        if self._kinds[name]():
            self.drawn[name] += 1
            if name not in LATENT:
                self._world.fabric.strike(name)
            self._world.fabric.note(name)
        self._later()
