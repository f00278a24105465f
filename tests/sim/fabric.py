"""
The shared parts of a simulated cluster: the schedule, ZooKeeper, the brokers and the witnesses.

It does nothing itself. A ``Witness`` is notified of events that no znode shows (what a broker
accepted, acknowledged or deleted); ``invariants`` judges them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from controller.core.cluster.model import BEFORE_FEATURES, WITH_RECOVERY, is_protocol_at_least
from controller.core.model import BrokerId, Replicas, TopicConfig, TopicPartition
from controller.reactor.ports import StopReplica
from controller.znodes import paths

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.controller_endpoints import SimEndpoint
    from tests.sim.disks import SimDisks
    from tests.sim.endpoint_rules import EndpointRules
    from tests.sim.logs import Log
    from tests.sim.schedule import Schedule
    from tests.sim.topic_rules import TopicRules
    from tests.sim.zookeeper import SimZooKeeper


class Witness(Protocol):
    """Sees what happens inside the brokers and between them and the daemon."""

    def leader_accepted(
        self, broker: BrokerId, partition: TopicPartition, leader_epoch: int, replicas: Replicas
    ) -> None:
        """A broker became, or remained, leader by a LeaderAndIsr with these replicas."""
        ...

    def acknowledged(
        self, partition: TopicPartition, log: Log, offset: int, leader_epoch: int
    ) -> None:
        """A leader of this epoch acknowledged the record at this offset of its log."""
        ...

    def truncated(self, broker: BrokerId, partition: TopicPartition) -> None:
        """A follower shortened its log."""
        ...

    def deleted(self, broker: BrokerId, partition: TopicPartition, leader_epoch: int) -> None:
        """A broker deleted its log because of a StopReplica with this epoch."""
        ...

    def daemon_stops(self, broker: BrokerId, request: StopReplica) -> None:
        """The daemon hands a StopReplica to the channel of a broker."""
        ...


DEFAULT_CONFIG = TopicConfig(min_insync_replicas=1, unclean_leader_election=False)
FIRST_WITH_IDS = 2
"""The first version of AlterPartition that names topics by their ids."""


@dataclass(slots=True)
class Network:
    """How the connections between controllers and brokers behave."""

    delay_s: tuple[float, float] = (0.001, 0.02)
    loss: float = 0.0
    """How likely a connection breaks while a request is under way."""
    resend_s: tuple[float, float] = (0.1, 0.6)
    late_s: dict[BrokerId, float] = field(default_factory=dict)
    """Brokers whose answers take up to so much longer; the request was carried out long before."""
    refusing: set[BrokerId] = field(default_factory=set)
    """Brokers that do not allow daemons what only a controller may."""
    cut: set[BrokerId] = field(default_factory=set)
    """
    Brokers whose requests do not reach the controller; its requests reach them.

    Of brokers that write the ISR themselves: those whose writes wait for their connection.
    """
    held: list[Callable[[], None]] = field(default_factory=list)
    """What they sent meanwhile: it arrives when the network is whole again."""

    def deliver(self) -> None:
        """Make the network whole: what was held arrives."""
        self.cut.clear()
        held, self.held = self.held, []
        for send in held:
            send()


@dataclass(slots=True)
class Fabric:
    """The shared parts; ``replica_lag_s`` is ``replica.lag.time.max.ms`` of every broker."""

    schedule: Schedule
    zookeeper: SimZooKeeper
    brokers: dict[BrokerId, SimBroker] = field(default_factory=dict)
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    former_configs: dict[str, list[tuple[float, TopicConfig]]] = field(default_factory=dict)
    """What a topic's settings were before, each with the time until which they were in force."""
    network: Network = field(default_factory=Network)
    witnesses: list[Witness] = field(default_factory=list)
    replica_lag_s: float = 3.0
    broker_session_s: float = 6.0
    fences_stop_replica: bool = True
    """StopReplica carries leader epochs (version 3, protocol 2.6 and later)."""
    deletes_topics: bool | None = True
    """What brokers say of ``delete.topic.enable``; None: they do not, and Kafka's deletes."""
    kafka_crash_rate: float = 0.0
    """How likely a broker dies after a write of its active controller."""
    accepted_epochs: set[int] = field(default_factory=set)
    """Controller epochs of which a broker accepted a request."""
    joins_late: bool = False
    """Whether a fetch that is being handled adds an excluded replica to the ISR once more."""
    joined_late: set[tuple[TopicPartition, BrokerId]] = field(default_factory=set)
    """Replicas that were added so, until their leader hears of them again."""
    stalls_moves: bool = False
    """Whether a new leader epoch stalls a move between directories (Kafka before 2.5)."""
    disks: SimDisks | None = None
    """Log directories of limited size; None: there is room for everything."""
    has_endpoint: bool = False
    """Whether leaders ask the controller to change an ISR (protocol 2.7 and later)."""
    needs_producer_ids: bool = True
    """Whether brokers that ask need producer ids now and then."""
    alter_partition_version: int = 1
    """
    The version of AlterPartition: 0 knows no errors about members of the ISR; from 2 on topics have
    ids, and requests carry nothing else of them.
    """
    ids_sent_from: float = 0.0
    """Until this time Kafka's controllers send no topic ids, as before a rolling upgrade."""
    endpoints: dict[int, SimEndpoint] = field(default_factory=dict)
    """The endpoints of all daemons so far, by port."""
    endpoint_witnesses: list[EndpointRules] = field(default_factory=list)
    """Judge what brokers ask and hear."""
    topic_witnesses: list[TopicRules] = field(default_factory=list)
    """Judge the creations of topics and partitions, and what clients hear of them."""
    chronicle: list[tuple[float, str]] = field(default_factory=list)
    """When which misfortune or operator struck: what a failing seed prints."""

    struck: Counter[str] = field(default_factory=Counter)
    """How often each misfortune took effect, and each operator acted."""
    on_sent: list[Callable[[int, object], None]] = field(default_factory=list)
    """Called with each request that a daemon sends: to a broker, or, as -1, to the controller."""

    @property
    def has_topic_ids(self) -> bool:
        """Whether topics are created with an id (protocol 2.8 and later)."""
        return self.has_endpoint and self.alter_partition_version >= FIRST_WITH_IDS

    @property
    def protocol(self) -> str:
        """The inter-broker protocol of every broker."""
        if not self.has_endpoint:
            return BEFORE_FEATURES
        return "3.9" if self.has_topic_ids else "2.7"

    @property
    def marks_recovery(self) -> bool:
        """Whether controllers mark unclean elections (KIP-704)."""
        return is_protocol_at_least(self.protocol, WITH_RECOVERY)

    def is_of_daemon(self, epoch: int) -> bool:
        """Whether a controller epoch is the present one, and that of no broker."""
        znode, present = (self.zookeeper.get(p) for p in (paths.CONTROLLER, paths.CONTROLLER_EPOCH))
        if znode is None or present is None or int(present.data) != epoch:
            return False
        is_claimed = present.mzxid >= znode.czxid  # The epoch follows, where it is another write.
        return is_claimed and json.loads(znode.data)["brokerid"] not in self.brokers

    def strike(self, what: str) -> None:
        """Count what took effect: what is drawn may never do."""
        self.struck[what] += 1

    def note(self, what: str) -> None:
        """Write down what was done to the cluster."""
        self.chronicle.append((self.schedule.now(), what))

    def config(self, topic: str) -> TopicConfig:
        """Return the effective settings of a topic."""
        return self.configs.get(topic, DEFAULT_CONFIG)

    def change_config(self, topic: str, config: TopicConfig) -> None:
        """Let an operator change the settings of a topic."""
        former = self.former_configs.setdefault(topic, [])
        former.append((self.schedule.now(), self.config(topic)))
        self.configs[topic] = config

    def configs_since(self, topic: str, since: float) -> list[TopicConfig]:
        """Return every setting of a topic that was in force at some time since then."""
        former = self.former_configs.get(topic, ())
        return [self.config(topic), *(config for until, config in former if until >= since)]
