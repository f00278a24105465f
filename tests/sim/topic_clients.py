"""
Clients that create topics and partitions through whatever broker or daemon is the controller.

They find it as clients do, in the metadata of any broker. An answer may be lost, a request may
arrive twice, or late; a client that hears nothing, or NOT_CONTROLLER, asks again. Some ask for what
exists, or moves, or is being deleted, or for what nobody can create. Now and then the daemon that
is asked dies within its next writes, or loses the role.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from controller import kafka_errors
from controller.core.calls.client_requests import (
    CreatePartitions,
    CreateTopics,
    MorePartitions,
    NewTopic,
    RequestOnTopics,
    TopicAnswer,
    TopicDefaults,
)
from controller.core.model import (
    NO_LEADER,
    BrokerId,
    Replicas,
    TopicAssignment,
    TopicConfig,
    TopicPartition,
    ZkVersion,
)
from controller.core.pacing.throttle_settings import Entity, EntityConfig
from controller.core.topics.model import BY_DEFAULT
from controller.znodes import paths
from controller.znodes.entity_configs import decode_entity_config, encode_entity_config
from tests.sim.broker_to_controller import transmit
from tests.sim.controller_endpoints import SimEndpoint
from tests.sim.decoded import read_topic
from tests.sim.zookeeper import NO_SESSION, Make, Transaction, Written

if TYPE_CHECKING:
    from tests.sim.controller_endpoints import ControllerListener
    from tests.sim.operators import Operators
    from tests.sim.world import World

NAMES: Final = ("client", "client_x", "client.x")
"""The topics of clients; Kafka refuses the last two beside each other."""
PARTITIONS_MAX: Final = 3
NEW_MAX: Final = 2
DOUBLED_EVERY: Final = 7
"""One of so many new topics has a setting and a partition that are sent twice."""
TIMEOUTS_S: Final = (0.0, 1.0, 5.0, 20.0)
GRACE_S: Final = 6.0
"""How much longer than its timeout a client waits for the answer."""
AGAIN_S: Final = (0.05, 1.0)
TRIES: Final = 6
LOSS: Final = 0.1
"""How likely a client's connection breaks, whatever that of the others does."""
CRASH_MAX: Final = 6
"""The boundaries between writes and sends that a daemon passes before it dies."""
MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Troubles:
    """What happens to a daemon that a client asks, each with its probability."""

    dies: float = 0.0
    disconnects: float = 0.0
    loses_role: float = 0.0


class TopicClients:
    """Draws a request every now and then, until stopped."""

    def __init__(
        self,
        world: World,
        operators: Operators,
        *,
        every_s: float,
        deletes: bool,
        troubles: Troubles,
    ) -> None:
        """
        Prepare, without starting.

        Args:
            world: The cluster.
            operators: Theirs are the plans and settings of all topics.
            every_s: Mean time between two requests.
            deletes: Whether topics are deleted, too.
            troubles: What happens to daemons that are asked.

        """
        self._world = world
        self._operators = operators
        self._every_s = every_s
        self._troubles = troubles
        self._chance = Random(f"topic clients {world.seed}")
        self._is_running = False
        self._requesting = 0
        """Requests under way."""
        self._numbers = 0
        self._former: RequestOnTopics | None = None
        """The last request of all."""
        kinds: list[tuple[Callable[[], str | None], int]] = [
            (self._create, 5),
            (self._grow, 5),
            (self._repeat, 2),
            (self._leave_settings, 1),
            (self._delete, 2 if deletes else 0),
        ]
        self._kinds = [kind for kind, _ in kinds]
        self._weights = [weight for _, weight in kinds]
        world.zookeeper.listeners.append(self._transacted)

    def start(self) -> None:
        """Begin to ask."""
        self._is_running = True
        self._later()

    def stop(self) -> None:
        """Ask nothing more; what is under way is not asked again."""
        self._is_running = False

    @property
    def is_quiet(self) -> bool:
        """Whether no request is under way."""
        return not self._requesting

    def _later(self) -> None:
        wait_s = self._chance.uniform(0.0, 2 * self._every_s)
        self._world.schedule.call_in(wait_s, self._draw)

    def _draw(self) -> None:
        if not self._is_running:
            return
        done = self._chance.choices(self._kinds, self._weights)[0]()
        if done is not None:
            self._world.fabric.note(done)
        self._later()

    # --- what becomes of topics ----------------------------------------------------------------

    def _transacted(self, transaction: Transaction) -> None:
        """Produce to what clients created, with its settings."""
        for written in transaction.written:
            match written.path.split("/")[1:]:
                case ["brokers", "topics", name] if name in NAMES:
                    self._topic_written(name, written)
                case ["config", "topics", name] if name in NAMES:
                    self._settings_written(transaction, name)
                case _:
                    pass

    def _topic_written(self, name: str, written: Written) -> None:
        world = self._world
        read = None if written.after is None else read_topic(written.after)
        numbers = set(read.partitions) if isinstance(read, TopicAssignment) else set()
        if written.before is None:
            # A dead broker keeps the logs of a deleted topic; an operator removes them.
            for broker in world.brokers.values():
                broker.discard_strays(name)
            settings = self._settings(name)
            least = int(settings.get(MIN_ISR, "1"))
            world.fabric.configs[name] = TopicConfig(least, unclean_leader_election=False)
            world.fabric.former_configs.pop(name, None)
            self._operators.settings.choose(Entity(f"topics/{name}"), settings)
        known = {p.partition for p in world.producer.partitions if p.topic == name}
        world.producer.partitions += [TopicPartition(name, n) for n in sorted(numbers - known)]

    def _settings_written(self, transaction: Transaction, name: str) -> None:
        """Note settings that Kafka's controller writes before the topic: it may die then."""
        # Daemons write throttles, also without the role.
        if any(b.session_id == transaction.session for b in self._world.brokers.values()):
            self._operators.settings.choose(Entity(f"topics/{name}"), self._settings(name))

    def _settings(self, name: str) -> dict[str, str]:
        znode = self._world.zookeeper.get(f"{paths.TOPIC_CONFIGS}/{name}")
        read = None if znode is None else decode_entity_config(znode.data, ZkVersion(0))
        return dict(read.values) if isinstance(read, EntityConfig) else {}

    def _delete(self) -> str | None:
        world = self._world
        doomed = world.zookeeper.children(paths.DELETIONS) or ()
        names = [n for n in NAMES if n in self._existing() and n not in doomed]
        if not names:
            return None
        name = self._chance.choice(names)
        world.delete_topic(name)
        expected = self._operators.expected
        expected.take_back([p for p in world.partitions() if p.topic == name])
        return f"{name} is to be deleted"

    def _leave_settings(self) -> str | None:
        """Let a tool die between its write of the settings and that of the topic."""
        name = self._chance.choice(NAMES)
        path = f"{paths.TOPIC_CONFIGS}/{name}"
        if name in self._existing() or self._world.zookeeper.get(path) is not None:
            return None
        settings = {"retention.ms": "1"}
        make = Make(path, encode_entity_config(settings.items()))
        self._world.zookeeper.transact(NO_SESSION, [make])
        self._operators.settings.choose(Entity(f"topics/{name}"), settings)
        return f"settings of {name} without a topic"

    def _existing(self) -> tuple[str, ...]:
        return self._world.zookeeper.children(paths.TOPICS) or ()

    # --- requests ------------------------------------------------------------------------------

    def _create(self) -> str:
        count = self._chance.choice((1, 1, 1, 2))
        names = self._chance.sample(NAMES, count)
        if self._chance.random() < 0.05:
            names.append(names[0])
        return self._begin(
            CreateTopics(
                tuple(self._new(name) for name in names),
                TopicDefaults(1, 2, uses_topic_ids=self._world.fabric.has_topic_ids),
                self._chance.choice(TIMEOUTS_S),
                self._chance.random() < 0.1,
            )
        )

    def _new(self, name: str) -> NewTopic:
        self._numbers += 1
        chance, size = self._chance, self._chance.choice((1, 2, 2, 3))
        count = chance.randint(1, NEW_MAX)
        configs: tuple[tuple[str, str], ...]
        configs = ((MIN_ISR, str(min(size, 2))), ("retention.ms", str(self._numbers)))
        if self._numbers % DOUBLED_EVERY == 0:
            configs = ((MIN_ISR, "9"), *configs)
        topic = NewTopic(name, count, size, (), configs, "")
        kind = chance.random()
        if kind < 0.2:
            configs = (*configs, (MIN_ISR, "1"))
            return replace(
                topic, num_partitions=BY_DEFAULT, replication_factor=BY_DEFAULT, configs=configs
            )
        if kind < 0.6:
            return topic
        listed = tuple((n, self._replicas(size)) for n in range(count))
        if self._numbers % DOUBLED_EVERY == 0:
            listed = ((0, listed[0][1][:1]), *listed)
        assigned = replace(
            topic,
            num_partitions=BY_DEFAULT,
            replication_factor=BY_DEFAULT,
            assignments=listed,
        )
        if kind < 0.85:
            return assigned
        own = BrokerId(1_000_000)
        return chance.choice(
            (
                replace(topic, replication_factor=9),
                replace(topic, num_partitions=0),
                replace(topic, configs=(("retention.ms", None),)),
                replace(topic, config_problem="unknown setting"),
                replace(assigned, num_partitions=count),
                replace(assigned, assignments=((0, (own, listed[0][1][0])),)),
                replace(assigned, assignments=((0, (*listed[0][1], listed[0][1][0])),)),
                replace(assigned, assignments=((1, listed[0][1]),)),
            )
        )

    def _replicas(self, size: int) -> Replicas:
        brokers = sorted(self._world.brokers)
        return tuple(self._chance.sample(brokers, min(size, len(brokers))))

    def _grow(self) -> str:
        chance = self._chance
        name = chance.choice((*NAMES, *NAMES, *self._existing()))
        znode = self._world.zookeeper.get(paths.topic_path(name))
        read = None if znode is None else read_topic(znode)
        partitions = read.partitions if isinstance(read, TopicAssignment) else {}
        present = len(partitions)
        count = present + chance.choice((1, 1, 1, 2))
        if count > PARTITIONS_MAX or chance.random() < 0.1:
            count = present - chance.choice((0, 1))
        assignments = None
        if chance.random() < 0.4 and count > present > 0:
            size = len(partitions[0].replicas) + (chance.random() < 0.1)
            assignments = tuple(self._replicas(size) for _ in range(count - present))
        more = MorePartitions(name, count, assignments)
        timeout_s = chance.choice(TIMEOUTS_S)
        return self._begin(CreatePartitions((more,), timeout_s, chance.random() < 0.1))

    def _repeat(self) -> str | None:
        """Ask once more what a client asked before, whatever became of it."""
        return None if self._former is None else self._begin(self._former)

    # --- asking --------------------------------------------------------------------------------

    def _begin(self, wanted: RequestOnTopics) -> str:
        self._former = wanted
        self._requesting += 1
        self._send(wanted, TRIES)
        return f"a client asks: {wanted}"

    def _fresh(self, wanted: RequestOnTopics) -> RequestOnTopics:
        """Return a request with new topic ids, as the controller that it arrives at draws them."""
        if not isinstance(wanted, CreateTopics):
            return wanted
        topics: list[NewTopic] = []
        for topic in wanted.topics:
            self._numbers += 1
            topics.append(replace(topic, topic_id=f"c{self._numbers:021}"))
        return replace(wanted, topics=tuple(topics))

    def _send(self, wanted: RequestOnTopics, tries: int) -> None:
        live = [b for b in self._world.brokers.values() if b.is_alive]
        known = self._chance.choice(live).controller if live else None
        is_over = False

        def once(answer: TopicAnswer | None) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._answered(answer, wanted, tries)

        if known is None:
            once(None)
            return
        fabric, schedule = self._world.fabric, self._world.schedule
        requested = self._fresh(wanted)
        loss = max(LOSS, fabric.network.loss) if self._is_running else 0.0
        transmit(fabric, lambda reply: known.handle_topics(requested, reply), once, loss)
        schedule.call_in(wanted.timeout_s + GRACE_S, lambda: once(None))
        self._trouble(known)

    def _answered(self, answer: TopicAnswer | None, wanted: RequestOnTopics, tries: int) -> None:
        errors = {NO_LEADER} if answer is None else {r.error for r in answer.results}
        is_moved = answer is None or answer.error == kafka_errors.NOT_CONTROLLER
        is_late = kafka_errors.REQUEST_TIMED_OUT in errors and self._chance.random() < 0.5
        if answer is not None and not any(errors) and not wanted.validate_only:
            self._world.fabric.strike("client_satisfied")
        if (is_moved or is_late) and self._is_running and tries > 1:
            self._world.schedule.call_in(
                self._chance.uniform(*AGAIN_S), lambda: self._send(wanted, tries - 1)
            )
        else:
            self._requesting -= 1

    # --- what happens to the daemon ------------------------------------------------------------

    def _trouble(self, requested: ControllerListener) -> None:
        """Let the daemon that is asked die, or lose its connection or the role, soon."""
        daemon = next((d for d in self._world.daemons if d.endpoint is requested), None)
        if daemon is None or not isinstance(requested, SimEndpoint) or not self._is_running:
            return
        drawn, troubles, note = self._chance.random(), self._troubles, self._world.fabric.note
        schedule = self._world.schedule
        if drawn < troubles.dies:
            boundaries, wait_s = self._chance.randrange(CRASH_MAX), self._chance.uniform(0.0, 0.05)
            note(f"the daemon that is asked dies after {boundaries} boundaries")
            schedule.call_in(wait_s, lambda: daemon.crash_after(boundaries))
            return
        drawn -= troubles.dies
        if drawn < troubles.disconnects:
            durable = self._chance.randrange(2)
            note(f"the daemon that is asked loses its connection, {durable} multis are durable")
            wait_s = self._chance.uniform(0.0, 0.05)
            schedule.call_in(wait_s, lambda: daemon.store.faults.break_commit(after=durable))
            return
        drawn -= troubles.disconnects
        if drawn < troubles.loses_role:
            note("the daemon that is asked loses the role")
            schedule.call_in(self._chance.uniform(0.0, 0.3), self._world.remove_controller)
