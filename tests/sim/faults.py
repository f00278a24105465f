"""
Seeded misfortune: brokers die, disks fail, sessions expire, connections break, daemons crash.

What is drawn never exceeds what Kafka promises to survive: a disk is replaced by an empty one only
when no ISR counts on it. ``heal`` ends all of it, so that a history can be asked whether everything
came to a good end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from tests.sim.brokers import DIRECTORIES, SimBroker

if TYPE_CHECKING:
    from tests.sim.daemons import Build, SimDaemon
    from tests.sim.world import World

AWAY_S: Final = (0.5, 15.0)
BOUNCE_S: Final = (0.01, 0.3)
PASSING_S: Final = (0.5, 6.0)
"""How long a fault that ends by itself lasts."""
LOSS: Final = 0.3
SLOW_FETCH_S: Final = 1.0
BOUNDARIES_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How often each kind of fault is drawn, relative to the others; 0 is never."""

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
    ) -> None:
        """
        Prepare, without starting.

        Args:
            world: Whom it befalls.
            every_s: Mean time between two faults.
            weights: What is drawn how often.
            brokers_down_max: How many brokers may be down at once.
            daemon: Builds the daemon that replaces one that crashed; None for a world without.

        """
        self._world = world
        self._every_s = every_s
        self._brokers_down_max = brokers_down_max
        self._daemon = daemon
        self._is_running = False
        self.drawn: Counter[str] = Counter()
        """How often each fault happened."""
        self._kinds: Mapping[str, Callable[[], bool]] = {
            "broker_killed": lambda: self._away(SimBroker.kill, AWAY_S),
            "broker_bounced": lambda: self._away(SimBroker.kill, BOUNCE_S),
            "broker_stopped": lambda: self._away(SimBroker.stop, AWAY_S),
            "broker_session_expired": self._expire_broker,
            "fetches_slow": self._slow_fetches,
            "directory_failed": self._fail_directory,
            "network_lossy": self._lose_messages,
            "controller_removed": self._remove_controller,
            "kafka_controller_dies": self._kafka_controller_dies,
            "daemon_crashed": self._crash_daemon,
            "daemon_crashed_between": self._crash_daemon_between,
            "daemon_session_expired": self._expire_daemon,
            "daemon_paused": self._pause_daemon,
            "commit_broken": self._break_commit,
            "configs_unknown": self._hide_configs,
        }
        chosen = weights or Weights()
        self._names = [n for n in self._kinds if getattr(chosen, n) > 0]
        self._weights = [getattr(chosen, n) for n in self._names]

    def start(self) -> None:
        """Begin to draw."""
        self._is_running = True
        self._later()

    def heal(self) -> None:
        """End every fault: all brokers run, with all their disks, and a daemon lives."""
        self._is_running = False
        world = self._world
        world.fabric.network.loss = 0.0
        world.fabric.kafka_crash_rate = 0.0
        for broker in world.brokers.values():
            broker.replication.extra_fetch_s = 0.0
            if broker.offline_directories:
                broker.kill()
                self._mend(broker)
            broker.start()
        for daemon in self._daemons():
            daemon.configs.failure_rate = 0.0
            daemon.spare()
        self._keep_a_daemon()

    def _later(self) -> None:
        self._world.schedule.call_between(0.0, 2 * self._every_s, self._draw)

    def _draw(self) -> None:
        if not self._is_running:
            return
        self._keep_a_daemon()
        name = self._chance.choices(self._names, self._weights)[0]
        if self._kinds[name]():
            self.drawn[name] += 1
        self._later()

    def _keep_a_daemon(self) -> None:
        if self._daemon is not None and not self._daemons():
            self._world.add_daemon(self._daemon)

    @property
    def _chance(self) -> Random:
        return self._world.schedule.random

    # --- brokers -------------------------------------------------------------------------------

    def _a_broker(self) -> SimBroker | None:
        """Choose a live broker, unless enough are down."""
        alive = [b for b in self._world.brokers.values() if b.is_alive]
        down = len(self._world.brokers) - len(alive)
        if down >= self._brokers_down_max or not alive:
            return None
        return self._chance.choice(alive)

    def _away(self, end: Callable[[SimBroker], None], away_s: tuple[float, float]) -> bool:
        broker = self._a_broker()
        if broker is None:
            return False
        end(broker)

        def return_() -> None:
            if not broker.is_alive:
                self._mend(broker)
                broker.start()

        self._world.schedule.call_between(*away_s, return_)
        return True

    def _expire_broker(self) -> bool:
        broker = self._a_broker()
        if broker is None:
            return False
        broker.expire()
        return True

    def _slow_fetches(self) -> bool:
        broker = self._a_broker()
        if broker is None:
            return False
        replication = broker.replication
        replication.extra_fetch_s = SLOW_FETCH_S

        def recover() -> None:
            replication.extra_fetch_s = 0.0

        self._world.schedule.call_between(*PASSING_S, recover)
        return True

    def _fail_directory(self) -> bool:
        broker = self._a_broker()
        if broker is None or any(b.offline_directories for b in self._world.brokers.values()):
            return False
        broker.fail_directory(self._chance.randrange(DIRECTORIES))

        def restart() -> None:
            broker.kill()
            self._mend(broker)
            broker.start()

        self._world.schedule.call_between(*AWAY_S, restart)
        return True

    def _mend(self, broker: SimBroker) -> None:
        """Repair the failed disks of a broker that is down, or replace those nobody counts on."""
        world = self._world
        lost = [p for p, log in broker.logs.items() if not log.is_online]
        states = [world.state(p) for p in lost]
        if lost and all(s is not None and broker.id not in s.isr for s in states):
            broker.replace_directories()
        else:
            broker.repair_directories()

    def _lose_messages(self) -> bool:
        network = self._world.fabric.network
        network.loss = LOSS

        def recover() -> None:
            network.loss = 0.0

        self._world.schedule.call_between(*PASSING_S, recover)
        return True

    def _remove_controller(self) -> bool:
        self._world.remove_controller()
        return True

    def _kafka_controller_dies(self) -> bool:
        """Let the next active Kafka controller die between two of its writes."""
        fabric = self._world.fabric
        if self._a_broker() is None or not self._world.kafka_controllers:
            return False
        fabric.kafka_crash_rate = 0.05

        def recover() -> None:
            fabric.kafka_crash_rate = 0.0
            for broker in self._world.brokers.values():
                self._mend(broker) if not broker.is_alive else None
                broker.start()

        self._world.schedule.call_between(*PASSING_S, recover)
        return True

    # --- daemons -------------------------------------------------------------------------------

    def _daemons(self) -> list[SimDaemon]:
        return [d for d in self._world.daemons if d.is_alive]

    def _a_daemon(self) -> SimDaemon | None:
        daemons = self._daemons()
        return self._chance.choice(daemons) if daemons else None

    def _replace_later(self) -> None:
        self._world.schedule.call_between(*AWAY_S, self._keep_a_daemon)

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
        daemon.store.break_commit(after=self._chance.randrange(3))
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
