"""
Faults of brokers, disks, the network and ZooKeeper itself.

What is drawn never exceeds what Kafka promises to survive: a disk is replaced by an empty one only
when no ISR counts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

from controller.znodes import paths
from tests.sim.brokers import DIRECTORIES, SimBroker
from tests.sim.zookeeper import Transaction

if TYPE_CHECKING:
    from controller.core.model import TopicPartition
    from tests.sim.sessions import SimSession
    from tests.sim.world import World

AWAY_S: Final = (0.5, 15.0)
LOST_S: Final = (40.0, 80.0)
"""Longer than a daemon keeps the role for a step that waits for the broker."""
BOUNCE_S: Final = (0.01, 0.3)
SEEDING_S: Final = 2.0
"""The time that states may take to arrive at a claim during which a broker bounces."""
PASSING_S: Final = (0.5, 6.0)
"""The duration of a fault that ends by itself."""
WITHOUT_DISK_S: Final = (4.0, 20.0)
"""The time after which the failed disk of a broker that restarted without it is repaired."""
UNTIL_REJOINING_S: Final = (0.2, 2.0)
"""The time in which leaders ask for a broker that is back to be in sync again."""
WHILE_CUT_S: Final = 20.0
"""The delay of every fetch of a broker that lost its logs, until their requests were handled."""
UNTIL_WHOLE_S: Final = (0.5, 5.0)
"""The time until their requests arrive, once a daemon has heard of the broker's restart."""
MEMBER_LOST_S: Final = (0.2, 12.0)
"""The time in which clients of a lost ZooKeeper server find another; some lose their session."""
MEMBER_SHARE: Final = 1 / 3
"""The share of the clients that are connected to one server of an ensemble."""
LOSS: Final = 0.3
LATE_S: Final = 20.0
SLOW_FETCH_S: Final = 1.0


class BrokerFaults:
    """The kinds of faults, each a method that returns whether it could happen."""

    def __init__(self, world: World, *, down_max: int) -> None:
        self._world = world
        self._down_max = down_max
        self._is_to_bounce = False
        """True if a broker bounces when a daemon claims the role."""
        world.zookeeper.listeners.append(self._transacted)
        self.kinds: Mapping[str, Callable[[], bool]] = {
            "broker_killed": lambda: self._away(SimBroker.kill, AWAY_S),
            "broker_bounced": lambda: self._away(SimBroker.kill, BOUNCE_S),
            "broker_bounced_at_claim": self._bounce_at_claim,
            "broker_stopped": lambda: self._away(SimBroker.stop, AWAY_S),
            "broker_session_expired": self._expire_broker,
            "fetches_slow": self._slow_fetches,
            "directory_failed": self._fail_directory,
            "broker_restarted_without_disk": self._restart_without_disk,
            "network_lossy": self._lose_messages,
            "controller_removed": self._remove_controller,
            "kafka_controller_dies": self._kafka_controller_dies,
            "broker_shut_down": self._shut_down,
            "answers_late": self._delay_answers,
            "broker_lost": lambda: self._away(SimBroker.kill, LOST_S),
            "requests_refused": self._refuse_requests,
            "ensemble_member_lost": self._lose_member,
            "log_lost_behind_cut": self._lose_log_behind_cut,
        }

    def heal(self) -> None:
        """End all of it: every broker runs, with all its disks."""
        world = self._world
        self._is_to_bounce = False
        world.fabric.network.loss = 0.0
        world.fabric.network.late_s.clear()
        world.fabric.network.refusing.clear()
        self._mend()
        world.fabric.kafka_crash_rate = 0.0
        for broker in world.brokers.values():
            broker.replication.extra_fetch_s = 0.0
            if broker.session is not None:
                broker.session.resume()
            if broker.to_controller is not None and broker.to_controller.is_shutting_down:
                broker.stop()
            if broker.offline_directories:
                broker.kill()
                self._repair(broker)
            broker.start()

    @property
    def _chance(self) -> Random:
        return self._world.schedule.random

    def _a_broker(self) -> SimBroker | None:
        """Choose a live broker, unless enough are down."""
        alive = [b for b in self._world.brokers.values() if b.is_alive]
        down = len(self._world.brokers) - len(alive)
        if down >= self._down_max or not alive:
            return None
        return self._chance.choice(alive)

    def _away(self, end: Callable[[SimBroker], None], away_s: tuple[float, float]) -> bool:
        broker = self._a_broker()
        if broker is None:
            return False
        end(broker)

        def return_() -> None:
            if not broker.is_alive:
                self._repair(broker)
                broker.start()

        self._world.schedule.call_between(*away_s, return_)
        return True

    def _shut_down(self) -> bool:
        """Let a broker ask for a controlled shutdown, stop, and come back."""
        broker = self._a_broker()
        if broker is None or broker.to_controller is None or broker.to_controller.is_shutting_down:
            return False

        def return_() -> None:
            if not broker.is_alive:
                self._repair(broker)
                broker.start()

        def stop() -> None:
            broker.stop()
            self._world.schedule.call_between(*AWAY_S, return_)

        broker.to_controller.shut_down(stop)
        return True

    def _bounce_at_claim(self) -> bool:
        """Let a broker bounce when a daemon next takes the role, before it has read the states."""
        self._is_to_bounce = True
        return True

    def _transacted(self, transaction: Transaction) -> None:
        is_claim = any(written.path == paths.CONTROLLER_EPOCH for written in transaction.written)
        is_daemon = self._world.invariants.is_daemon(transaction.session)
        if self._is_to_bounce and is_claim and is_daemon:
            self._is_to_bounce = False
            self._world.schedule.call_in(0.0, self._bounce_while_seeding)

    def _bounce_while_seeding(self) -> None:
        lanes = [daemon.store.lanes.bulk for daemon in self._world.daemons]

        def lag(seconds: float) -> None:
            for lane in lanes:
                lane.lag_s = seconds

        lag(SEEDING_S)
        self._world.schedule.call_in(SEEDING_S, lambda: lag(0.0))
        if self._away(SimBroker.kill, BOUNCE_S):
            self._world.fabric.strike("broker_bounced_at_claim")

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
            self._repair(broker)
            broker.start()

        self._world.schedule.call_between(*AWAY_S, restart)
        return True

    def _restart_without_disk(self) -> bool:
        """Let a disk fail and the broker restart before it is repaired."""
        broker = self._a_broker()
        if broker is None or any(b.offline_directories for b in self._world.brokers.values()):
            return False
        broker.fail_directory(self._chance.randrange(DIRECTORIES))

        def restart() -> None:
            if broker.is_alive:
                broker.kill()
                self._world.schedule.call_between(*BOUNCE_S, broker.start)

        def repair() -> None:
            broker.kill()
            self._repair(broker)
            broker.start()

        self._world.schedule.call_between(*BOUNCE_S, restart)
        self._world.schedule.call_between(*WITHOUT_DISK_S, repair)
        return True

    def _lose_log_behind_cut(self) -> bool:
        """
        Let a broker be back and lose its logs while requests to have it in the ISR are held up.

        Only the way from the leaders to the controller is cut. Their requests, older than the loss,
        arrive when the broker is back once more, and before it has copied.
        """
        broker, network = self._a_broker(), self._world.fabric.network
        is_failing = any(b.offline_directories for b in self._world.brokers.values())
        if broker is None or broker.to_controller is None or network.cut or is_failing:
            return False
        schedule = self._world.schedule
        network.cut |= self._world.brokers.keys() - {broker.id}
        broker.stop()

        def lose() -> None:
            if network.cut and broker.is_alive and not broker.offline_directories:
                broker.kill()
                self._lose_unneeded(broker)
                broker.replication.extra_fetch_s = WHILE_CUT_S
                schedule.call_between(*BOUNCE_S, return_)
            else:
                self._mend()

        def return_() -> None:
            broker.start()
            since = schedule.now()
            schedule.call_between(*UNTIL_WHOLE_S, lambda: self._mend_when_heard(since))

        schedule.call_between(*BOUNCE_S, broker.start)
        schedule.call_between(*UNTIL_REJOINING_S, lose)
        return True

    def _lose_unneeded(self, broker: SimBroker) -> None:
        """Replace the disks of a broker that is down by empty ones, where no ISR counts on them."""
        for directory in broker.directories:
            lost = [p for p, log in broker.logs.items() if log.directory == directory]
            states = [self._world.state(p) for p in lost]
            if lost and all(s is not None and broker.id not in s.isr for s in states):
                broker.empty_directory(directory)
                self._world.fabric.strike("log_lost_behind_cut")

    def _mend_when_heard(self, since: float) -> None:
        """Let the requests arrive once a daemon with the role knows who registered at a time."""
        world = self._world
        controller = world.zookeeper.get(paths.CONTROLLER)
        session = -1 if controller is None else controller.ephemeral_owner
        if not world.invariants.is_daemon(session) or world.invariants.had_to_hear(session, since):
            self._mend()
        else:
            world.schedule.call_in(1.0, lambda: self._mend_when_heard(since))

    def _mend(self) -> None:
        network = self._world.fabric.network
        if network.cut:
            self._world.schedule.call_in(WHILE_CUT_S, self._fetch_at_once)
        network.deliver()

    def _fetch_at_once(self) -> None:
        for broker in self._world.brokers.values():
            broker.replication.extra_fetch_s = 0.0

    def _repair(self, broker: SimBroker) -> None:
        """Repair failed disks of a broker that is down, or replace those without needed logs."""
        world = self._world
        for partition in list(broker.unseen):
            if self._is_left_over(broker, partition):
                # The broker could not delete the log without its disk; an operator removes it.
                del broker.unseen[partition]
        lost = [p for p, log in broker.logs.items() if not log.is_online] + list(broker.unseen)
        states = [world.state(p) for p in lost]
        if lost and all(s is not None and broker.id not in s.isr for s in states):
            broker.replace_directories()
        else:
            broker.repair_directories()

    def _is_left_over(self, broker: SimBroker, partition: TopicPartition) -> bool:
        """Return whether the broker is no replica any more, or of another topic of that name."""
        topic = self._world.zookeeper.get(paths.topic_path(partition.topic))
        if topic is None or topic.czxid > broker.unseen_since:
            return True
        assignment = self._world.topic(partition.topic).partitions.get(partition.partition)
        return assignment is None or broker.id not in assignment.replicas

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
                self._repair(broker) if not broker.is_alive else None
                broker.start()

        self._world.schedule.call_between(*PASSING_S, recover)
        return True

    def _delay_answers(self) -> bool:
        """Let one broker answer late: it carries out a request long before its response arrives."""
        broker = self._a_broker()
        if broker is None:
            return False
        late_s = self._world.fabric.network.late_s
        late_s[broker.id] = self._chance.uniform(1.0, LATE_S)
        self._world.schedule.call_between(*AWAY_S, lambda: late_s.update({broker.id: 0.0}))
        return True

    def _refuse_requests(self) -> bool:
        """Let one broker, or all, not allow a daemon to be the controller for a while."""
        refusing = self._world.fabric.network.refusing
        broker = self._a_broker()
        if broker is None or refusing:
            return False
        refusing |= {broker.id} if self._chance.random() < 0.5 else set(self._world.brokers)
        self._world.schedule.call_between(*PASSING_S, refusing.clear)
        return True

    def _lose_member(self) -> bool:
        """Lose one ZooKeeper server: a part of the clients has to find another one."""
        sessions: list[SimSession] = [d.store.session for d in self._world.daemons if d.is_running]
        sessions += [b.session for b in self._world.brokers.values() if b.is_alive and b.session]
        hit = [s for s in sessions if s.is_connected and self._chance.random() < MEMBER_SHARE]
        for session in hit:
            session.suspend()
            self._world.schedule.call_between(*MEMBER_LOST_S, session.resume)
        return bool(hit)
