"""
Kafka's controller: that of ``tests.sim.kafka_duties``, one event of its thread at a time.

What it sends arrives at once, at live brokers alone; a broker that registers again is sent
everything. It may die after each of its writes. Topics are deleted in smaller steps
(``operator_actions``), and a slow one carries out no reassignment.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.explore import production as p

if TYPE_CHECKING:
    from tests.explore.brokers import Broker
    from tests.explore.system import System

SCHEDULE: Final = p.Schedule(0)
"""Nothing is scheduled: an event is carried out when the explorer chooses it."""


class Fabric:
    """What the simulator's controller needs to know of the cluster."""

    __slots__ = ("system",)

    kafka_crash_rate = 0.0
    ids_sent_from = 0.0
    marks_recovery = False
    schedule = SCHEDULE

    def __init__(self, system: System) -> None:
        self.system = system

    def copied(self, memo: Any) -> Fabric:
        """Return the same of the system that the copy belongs to."""
        return Fabric(memo[id(self.system)])

    @property
    def zookeeper(self) -> Any:
        """The server."""
        return self.system.zookeeper

    @property
    def brokers(self) -> dict[int, Broker]:
        """The brokers by their ids."""
        return self.system.brokers

    @property
    def has_topic_ids(self) -> bool:
        """Whether topics have ids."""
        return self.system.has_topic_ids

    @property
    def protocol(self) -> str:
        """The inter-broker protocol: it decides whether ids are sent."""
        return self.system.protocol

    def config(self, _topic: str) -> Any:
        """Return the settings of a topic."""
        return p.TopicConfig(self.system.shape.min_isr, unclean_leader_election=False)


class Context(p.KafkaCluster):
    """The controller's context, whose requests arrive at once."""

    passed = 0
    """Writes of the present event."""
    fatal: int | None = None
    """The write after which it dies."""

    def watch(self) -> Any:
        """Return a watch that wakes the controller."""
        return self._broker.session, "kafka"

    def connect(self, broker: Any) -> None:
        """Send to a registration of a broker."""
        self._links[broker.id] = broker.epoch

    def disconnect(self, broker: Any) -> None:
        """Send nothing more to a broker."""
        self._links.pop(broker, None)

    def read_topics(self) -> None:
        """Read everything, without topics that are to be deleted: nothing is sent of those."""
        super().read_topics()
        for topic in self.zookeeper.children(p.paths.DELETIONS) or ():
            read = self.topics.get(topic)
            if read is not None and not any(a.is_reassigning for a in read.partitions.values()):
                del self.topics[topic]

    def write(self, operations: list[Any]) -> None:
        """Write under the fence; the process may end after that."""
        super().write(operations)
        self.passed += 1
        if self.passed == self.fatal:
            raise p.ControllerMoved

    def _send(self, broker: Any, request: Any) -> None:
        fabric: Any = self._fabric
        fabric.system.hand_over(broker, self._links[broker], request)


class Slow(p.KafkaReassignments):
    """The reassignments of a controller that does not come to them."""

    def work(self, *, failover: bool, joined: set[Any], doomed: Collection[str]) -> None:
        """Carry out nothing."""


class Duties(p.KafkaDuties):
    """One tenure of Kafka's controller; ``broker`` has the role."""

    def __init__(self, broker: Broker, system: System, epoch: Any, fence: Any) -> None:
        self.is_due = False
        fabric, by = Fabric(system), broker
        super().__init__(by, fabric, epoch, fence, Context)  # type: ignore[arg-type] # enough of both
        self.broker = broker
        self.unknown = {b.id: b.epoch for b in system.brokers.values() if b.lost}
        """Registrations of brokers that lost their log before its election: it cannot know that."""
        if system.shape.is_kafka_busy:
            self._reassignments = Slow(self._cluster)

    @property
    def epoch(self) -> int:
        """The controller epoch of this tenure."""
        return self._cluster.epoch

    @property
    def writes(self) -> int:
        """How often the last event wrote."""
        return self._cluster.passed  # type: ignore[attr-defined, no-any-return] # of ``Context``

    def wake(self) -> None:
        """Note that an event waits."""
        self.is_due = True

    def run(self, fatal: int | None = None, *, failover: bool = False) -> bool:
        """Carry out what is due; return whether the process lives on."""
        context: Any = self._cluster
        context.passed, context.fatal = 0, fatal
        self.is_due = False
        try:
            self._work(failover=failover)
        except p.ControllerMoved:
            return False
        return True

    def _deletions(self, *, failover: bool) -> None:
        """Leave deletions to ``operator_actions``."""

    def form(self) -> Any:
        """Return the canonical form of what it keeps from one event to the next."""
        context, moves = self._cluster, self._reassignments
        return (
            self.broker.id,
            self.unknown,
            context.epoch,
            self.is_due,
            {broker: known.epoch for broker, known in context.live.items()},
            context.moved,
            moves._started,
            moves.requested,
            moves._plan,
        )


class Role(NamedTuple):
    """What ``KafkaEndpoint`` needs to know of the controller."""

    duties: Duties
    is_running: bool = True
    is_connected: bool = True


def judged(system: System, duties: Duties, request: Any) -> Any:
    """Return the answer of Kafka's controller to a leader that asks for an ISR."""
    answers: list[Any] = []
    endpoint = p.KafkaEndpoint(Fabric(system), Role(duties))  # type: ignore[arg-type] # enough of both
    endpoint.handle(request, answers.append)
    return answers[0]
