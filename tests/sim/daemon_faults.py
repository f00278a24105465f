"""
Faults of daemons: crashes, pauses, lost sessions, and refusals by ZooKeeper.

A daemon that ended is replaced some time later; how many there are is decided by the plot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from controller.reactor.ports import WriteError
from controller.znodes import paths
from tests.sim.broker_faults import AWAY_S, PASSING_S
from tests.sim.store_faults import Refusal

if TYPE_CHECKING:
    from tests.sim.daemons import Build, SimDaemon
    from tests.sim.world import World

BOUNDARIES_MAX: Final = 60
SPLITS_MAX: Final = 12
"""The multis that may follow another one of their commit before a daemon dies between two."""
LAG_S: Final = 3.0
REFUSED: Final = (
    paths.TOPICS,
    f"{paths.TOPICS}/three",
    f"{paths.TOPICS}/three/partitions/1",
    paths.REASSIGNMENTS,
    f"{paths.REASSIGNMENTS}/two",
    paths.ORPHANS,
    paths.LEGACY_PLAN,
    paths.ISR_NOTIFICATIONS,
)
"""The znodes whose writes ZooKeeper may refuse: permissions and sizes differ by znode."""
RECORDS_REFUSED: Final = (
    paths.OUTCOMES,
    paths.APPLIED_THROTTLES,
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.REQUESTS,
    paths.CANCEL,
    paths.QUEUE,
)
"""The same of what is kept of requests, and of what operators ask by."""


class DaemonFaults:
    """The kinds of faults, each a method that returns whether it could happen."""

    def __init__(self, world: World, build: Build | None, *, count: int) -> None:
        self._world = world
        self._build = build
        self._count = count
        self.kinds: Mapping[str, Callable[[], bool]] = {
            "daemon_crashed": self._crash_daemon,
            "daemon_crashed_between": self._crash_daemon_between,
            "daemon_session_expired": self._expire_daemon,
            "daemon_paused": self._pause_daemon,
            "commit_broken": self._break_commit,
            "configs_unknown": self._hide_configs,
            "daemon_stopped": self._stop_daemon,
            "daemons_paused": self._pause_all,
            "reads_late": self._delay_reads,
            "writes_refused": lambda: self._refuse_for_a_while(REFUSED, "writes_refused"),
            "write_refused": lambda: self._refuse(REFUSED, "write_refused"),
            "role_taken_in_commit": self._take_role,
            "daemon_crashed_in_commit": self._crash_daemon_in_commit,
            "record_refused": lambda: self._refuse(RECORDS_REFUSED, "record_refused"),
            "records_refused": lambda: self._refuse_for_a_while(RECORDS_REFUSED, "records_refused"),
            "claim_refused": lambda: self._refuse((paths.CONTROLLER,), "claim_refused"),
        }

    def heal(self) -> None:
        """End all of it: enough daemons run, and nothing is in their way."""
        for daemon in self._daemons():
            daemon.configs.failure_rate = 0.0
            daemon.store.lanes.lag(0.0)
            daemon.store.faults.end()
            if daemon.is_running:
                daemon.store.session.resume()
            daemon.spare()
        self.keep_enough()

    def keep_enough(self) -> None:
        """Start a daemon for each that ended."""
        if self._build is not None:
            while len(self._daemons()) < self._count:
                self._world.add_daemon(self._build)

    @property
    def _chance(self) -> Random:
        return self._world.schedule.random

    def _daemons(self) -> list[SimDaemon]:
        return [d for d in self._world.daemons if d.is_alive]

    def _a_daemon(self) -> SimDaemon | None:
        daemons = self._daemons()
        return self._chance.choice(daemons) if daemons else None

    def _replace_later(self) -> None:
        self._world.schedule.call_between(*AWAY_S, self.keep_enough)

    def _crash_daemon(self) -> bool:
        daemon = self._a_daemon()
        if daemon is None:
            return False
        daemon.crash()
        self._replace_later()
        return True

    def _crash_daemon_between(self) -> bool:
        """Let it die at a boundary between a write and a send, a little later."""
        daemon = self._a_daemon()
        if daemon is None:
            return False
        daemon.crash_after(self._chance.randrange(BOUNDARIES_MAX))
        return True

    def _crash_daemon_in_commit(self) -> bool:
        """Let it die when a part of what it commits is durable, a little later."""
        daemon = self._a_daemon()
        if daemon is None:
            return False
        daemon.crash_in_commit(after=self._chance.randrange(SPLITS_MAX))
        return True

    def _expire_daemon(self) -> bool:
        daemon = self._a_daemon()
        if daemon is None:
            return False
        daemon.store.session.expire()
        return True

    def _pause_daemon(self) -> bool:
        daemon = self._a_daemon()
        if daemon is None:
            return False
        loses_connection = self._chance.random() < 0.5
        daemon.pause(self._chance.uniform(*AWAY_S), loses_connection=loses_connection)
        return True

    def _break_commit(self) -> bool:
        daemon = self._a_daemon()
        if daemon is None:
            return False
        daemon.store.faults.break_commit(after=self._chance.randrange(3))
        return True

    def _hide_configs(self) -> bool:
        daemon = self._a_daemon()
        if daemon is None:
            return False
        configs = daemon.configs
        configs.failure_rate = 0.5

        def recover() -> None:
            configs.failure_rate = 0.0

        self._world.schedule.call_between(*PASSING_S, recover)
        return True

    def _stop_daemon(self) -> bool:
        """Ask it to end: it gives the role back first."""
        daemon = self._a_daemon()
        if daemon is None:
            return False
        daemon.stop()
        self._replace_when_ended(daemon)
        return True

    def _replace_when_ended(self, daemon: SimDaemon) -> None:
        """Return the role late, and later if the daemon is paused."""
        if daemon.is_alive:
            self._world.schedule.call_in(1.0, lambda: self._replace_when_ended(daemon))
        else:
            self.keep_enough()

    def _pause_all(self) -> bool:
        """Pause one daemon after the other, each before the previous one continues."""
        daemons = self._daemons()
        self._chance.shuffle(daemons)
        for number, daemon in enumerate(daemons):
            seconds, loses = self._chance.uniform(5.0, 25.0), self._chance.random() < 0.5
            self._world.schedule.call_in(
                number * self._chance.uniform(1.0, 12.0), _pausing(daemon, seconds, loses=loses)
            )
        return bool(daemons)

    def _delay_reads(self) -> bool:
        """Let what the store's threads read arrive late, and overtaken by other news."""
        daemon = self._a_daemon()
        if daemon is None:
            return False
        lanes = daemon.store.lanes
        lanes.lag(self._chance.uniform(0.05, LAG_S))
        self._world.schedule.call_between(*AWAY_S, lambda: lanes.lag(0.0))
        return True

    def _refuse_for_a_while(self, where: Sequence[str], name: str) -> bool:
        """Let ZooKeeper refuse some writes for a while."""
        daemon = self._refused(where, name, is_once=False)
        if daemon is None:
            return False
        self._world.schedule.call_between(*PASSING_S, lambda: daemon.store.faults.refuse(None))
        return True

    def _refuse(self, where: Sequence[str], name: str) -> bool:
        """Let ZooKeeper refuse one multi."""
        return self._refused(where, name, is_once=True) is not None

    def _refused(self, where: Sequence[str], name: str, *, is_once: bool) -> SimDaemon | None:
        daemon = self._a_daemon()
        if daemon is not None:
            below = self._chance.choice(where)
            error = self._chance.choice((WriteError.OTHER, WriteError.TOO_LARGE))
            daemon.store.faults.refuse(Refusal(below, error, is_once, name))
        return daemon

    def _take_role(self) -> bool:
        """Let a Kafka controller step in between two multis of one commit."""
        daemon = self._a_daemon()
        if daemon is None or not self._world.kafka_controllers:
            return False

        def seize() -> None:
            self._world.fabric.strike("role_taken_in_commit")
            self._world.seize_role()

        daemon.store.faults.interrupt_commit(seize, after=self._chance.randrange(1, 3))
        return True


def _pausing(daemon: SimDaemon, seconds: float, *, loses: bool) -> Callable[[], None]:
    return lambda: daemon.pause(seconds, loses_connection=loses)
