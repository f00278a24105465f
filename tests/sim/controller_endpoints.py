"""
The controllers that brokers ask: a daemon's endpoint, and Kafka's own.

Both are addresses: whoever has the role, a request to an address is handled by what lives there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from controller import kafka_errors
from controller.core.calls import client_requests
from controller.core.calls.broker_calls import error_answer
from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionAnswer,
    BrokerAnswer,
    ControlledShutdownAnswer,
    IsrChange,
    IsrResult,
    Permission,
    ProducerIdBlock,
    ProducerIdsAnswer,
    RequestFromBroker,
)
from controller.core.calls.client_requests import (
    ClientAnswer,
    CreatePartitionsAnswer,
    CreateTopicsAnswer,
    RequestOnTopics,
    TopicAnswer,
)
from controller.core.calls.records import BrokerRequestReceived, ClientRequestReceived
from controller.core.cluster.model import Endpoint, LiveBroker
from controller.core.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionState,
    TopicAssignment,
    TopicPartition,
    ZkVersion,
)
from controller.errors import ensure
from controller.reactor.ports import SetData
from controller.znodes import paths
from controller.znodes.producer_ids import decode_producer_ids, encode_producer_ids
from controller.znodes.topics import encode_state
from tests.sim.broker_to_controller import LISTENER
from tests.sim.decoded import read_state, read_topic
from tests.sim.kafka_cluster import ControllerMoved
from tests.sim.kafka_topics import make_topics
from tests.sim.zookeeper import Make

if TYPE_CHECKING:
    from tests.sim.daemons import SimDaemon
    from tests.sim.fabric import Fabric
    from tests.sim.kafka_controller import KafkaController

FIRST_PORT: Final = 7000
LATE_EVERY: Final = 5
"""How many requests pass for one that is late."""
LATE_S: Final = 3.0
"""How long a late request takes from its permission to the inbox."""

Reply = Callable[[BrokerAnswer | None], None]
"""Called with the answer, or None where the connection ends without one."""
TopicReply = Callable[[TopicAnswer | None], None]
"""The same for a client."""


class ControllerListener(Protocol):
    """What listens at the address of a controller."""

    def handle(self, request: RequestFromBroker, reply: Reply) -> None:
        """Handle a request."""
        ...

    def handle_topics(self, request: RequestOnTopics, reply: TopicReply) -> None:
        """Handle a client's creation of topics or partitions."""
        ...


class SimEndpoint:
    """The endpoint of a daemon: ``ControllerEndpoint`` for its loop."""

    def __init__(self, fabric: Fabric, daemon: SimDaemon, controller_id: BrokerId) -> None:
        port = FIRST_PORT + len(fabric.endpoints)
        fabric.endpoints[port] = self
        self._fabric = fabric
        self._daemon = daemon
        self._waiting: dict[int, tuple[RequestFromBroker, Reply]] = {}
        self._clients: dict[int, tuple[RequestOnTopics, TopicReply]] = {}
        self._tickets = 0
        self._permitted: dict[int, ControllerEpoch] = {}
        self._tenure: ControllerEpoch | None = None
        self.entry = LiveBroker(
            controller_id,
            BrokerEpoch(-1),
            (Endpoint(LISTENER, "sim", port, "PLAINTEXT"),),
        )
        """What brokers hear of it."""

    def handle(self, request: RequestFromBroker, reply: Reply) -> None:
        """Pass a request to the loop; a process that is gone refuses the connection."""
        if not self._daemon.is_alive:
            reply(None)
            return
        if self._tenure is None:
            reply(error_answer(request, kafka_errors.NOT_CONTROLLER))
            return
        self._tickets += 1
        self._waiting[self._tickets] = (request, reply)
        self._pass_on(BrokerRequestReceived(self._tickets, request, _permission(self._tenure)))

    def handle_topics(self, request: RequestOnTopics, reply: TopicReply) -> None:
        """Pass a client's request to the loop; a process that is gone refuses the connection."""
        if not self._daemon.is_alive:
            reply(None)
            return
        if self._tenure is None:
            reply(client_requests.topic_error(request, kafka_errors.NOT_CONTROLLER))
            return
        self._tickets += 1
        self._clients[self._tickets] = (request, reply)
        for witness in self._fabric.topic_witnesses:
            witness.request_received(self, self._tickets, request)
        self._pass_on(ClientRequestReceived(self._tickets, request, _permission(self._tenure)))

    def _pass_on(self, event: BrokerRequestReceived | ClientRequestReceived) -> None:
        """Pass it on, some late, as long ones are: their tenure may be over by then."""
        self._permitted[event.ticket] = event.permission.controller_epoch
        if event.ticket % LATE_EVERY:
            self._daemon.put(event)
        else:
            self._fabric.schedule.call_in(LATE_S, lambda: self._daemon.put(event))

    @property
    def session(self) -> int:
        """The daemon's present ZooKeeper session."""
        return self._daemon.store.session.id

    def respond(self, ticket: int, response: BrokerAnswer | ClientAnswer) -> None:
        """Answer a request, after the rules about answers."""
        permitted = self._permitted.pop(ticket, None)
        # None: it was answered when the role was lost, and this answer reaches no peer.
        ensure(
            permitted in {None, self._tenure} or response.error == kafka_errors.NOT_CONTROLLER,
            f"request {ticket} was permitted in tenure {permitted}, not in {self._tenure}",
        )
        if isinstance(response, CreateTopicsAnswer | CreatePartitionsAnswer):
            self._answer_client(ticket, response)
            return
        request, reply = self._waiting.pop(ticket, (None, None))
        if request is None or reply is None or not isinstance(response, BrokerAnswer):
            return
        for witness in self._fabric.endpoint_witnesses:
            witness.daemon_answers(self._daemon.store.session.id, request, response)
        reply(response)

    def _answer_client(self, ticket: int, answer: TopicAnswer) -> None:
        if ticket in self._clients:
            request, reply = self._clients.pop(ticket)
            for witness in self._fabric.topic_witnesses:
                witness.daemon_answers(self, ticket, request, answer)
            reply(answer)

    def serve(self, epoch: ControllerEpoch) -> None:
        """Pass on requests from now on."""
        self._tenure = epoch

    def refuse_all(self) -> None:
        """Answer NOT_CONTROLLER to all, until the role is held again."""
        self._tenure = None
        self._permitted.clear()
        for ticket, (requested, _) in list(self._clients.items()):
            refusal = client_requests.topic_error(requested, kafka_errors.NOT_CONTROLLER)
            self._answer_client(ticket, refusal)
        waiting, self._waiting = self._waiting, {}
        for request, reply in waiting.values():
            reply(error_answer(request, kafka_errors.NOT_CONTROLLER))

    def close(self) -> None:
        """End the connections with the process."""
        self._tenure = None
        self._permitted.clear()
        clients, self._clients = self._clients, {}
        for _, answered in clients.values():
            answered(None)
        waiting, self._waiting = self._waiting, {}
        for _, reply in waiting.values():
            reply(None)


def _permission(tenure: ControllerEpoch) -> Permission:
    return Permission("a peer", None, tenure)


class KafkaEndpoint:
    """Kafka's controller on one broker; each request is one event of its event thread."""

    def __init__(self, fabric: Fabric, controller: KafkaController) -> None:
        self._fabric = fabric
        self._controller = controller

    def handle(self, request: RequestFromBroker, reply: Reply) -> None:
        """Handle a request at once, on what ZooKeeper has now."""
        if not self._controller.is_running:
            reply(None)
            return
        duties = self._controller.duties
        if duties is None or not self._controller.is_connected:
            reply(error_answer(request, kafka_errors.NOT_CONTROLLER))
            return
        known = self._fabric.zookeeper.get(paths.broker_path(request.broker))
        if known is None or known.czxid != request.broker_epoch:
            reply(error_answer(request, kafka_errors.STALE_BROKER_EPOCH))
            return
        try:
            reply(self._handled(request))
        except ControllerMoved:
            duties.end()
            reply(error_answer(request, kafka_errors.NOT_CONTROLLER))

    def handle_topics(self, request: RequestOnTopics, reply: TopicReply) -> None:
        """Create topics or partitions at once; their first states follow with the next pass."""
        if not self._controller.is_running:
            reply(None)
            return
        duties = self._controller.duties
        moved = client_requests.topic_error(request, kafka_errors.NOT_CONTROLLER)
        if duties is None or not self._controller.is_connected:
            reply(moved)
            return
        try:
            reply(make_topics(self._fabric, duties, request))
        except ControllerMoved:
            duties.end()
            reply(moved)

    def _handled(self, request: RequestFromBroker) -> BrokerAnswer:
        match request:
            case AlterPartition():
                results = tuple(self._altered(request, change) for change in request.changes)
                return AlterPartitionAnswer(0, results)
            case AllocateProducerIds():
                return self._allocated(request.broker)
            case _:
                # It moves the leaderships when the broker is gone.
                return ControlledShutdownAnswer(0)

    def _altered(self, request: AlterPartition, change: IsrChange) -> IsrResult:
        name = self._name_of(change)
        if name is None:
            return _result(change, kafka_errors.UNKNOWN_TOPIC_ID, None)
        partition = TopicPartition(name, change.partition)
        znode = self._fabric.zookeeper.get(paths.state_path(partition))
        state = None if znode is None else read_state(znode)
        if not isinstance(state, PartitionState):
            return _result(change, kafka_errors.UNKNOWN_TOPIC_OR_PARTITION, None)
        error = kafka_errors.NONE
        if change.leader_epoch != state.leader_epoch or request.broker != state.leader:
            error = kafka_errors.FENCED_LEADER_EPOCH
        elif set(change.isr) == set(state.isr):
            pass
        elif change.partition_epoch != state.version:
            error = kafka_errors.INVALID_UPDATE_VERSION
        elif not self._holds_committed(partition, change, state.leader):
            error = kafka_errors.INELIGIBLE_REPLICA
        else:
            state = self._written(partition, change, state)
        return _result(change, error, state)

    def _holds_committed(
        self, partition: TopicPartition, change: IsrChange, leader: BrokerId
    ) -> bool:
        """
        Return whether the members of an ISR hold what the leader has committed.

        Kafka's ZooKeeper controller cannot know. It writes a request that is older than the new
        disk of a member (KIP-903); no daemon has the role then, and none is to be judged by it.
        """
        log = self._fabric.brokers[leader].copy(partition)
        committed = [] if log is None else log.records[: log.high_watermark]
        copies = [self._fabric.brokers[member].copy(partition) for member in change.isr]
        return all(copy is not None and copy.holds(committed) for copy in copies)

    def _name_of(self, change: IsrChange) -> str | None:
        """Return the topic of a change; None where no topic has its id."""
        if change.topic is not None:
            return change.topic
        for name in self._fabric.zookeeper.children(paths.TOPICS) or ():
            znode = self._fabric.zookeeper.get(paths.topic_path(name))
            topic = None if znode is None else read_topic(znode)
            if isinstance(topic, TopicAssignment) and topic.topic_id == change.topic_id:
                return name
        return None

    def _written(
        self, partition: TopicPartition, change: IsrChange, state: PartitionState
    ) -> PartitionState:
        data = encode_state(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=change.isr,
            controller_epoch=state.controller_epoch,
            leader_recovery_state=0,
        )
        duties = self._controller.duties
        if duties is None:
            raise ControllerMoved
        duties.write([SetData(paths.state_path(partition), data, state.version)])
        return PartitionState(
            state.leader,
            state.leader_epoch,
            change.isr,
            state.controller_epoch,
            ZkVersion(state.version + 1),
        )

    def _allocated(self, broker: BrokerId) -> ProducerIdsAnswer:
        znode = self._fabric.zookeeper.get(paths.PRODUCER_IDS)
        block = None if znode is None else decode_producer_ids(znode.data)
        first = block.last + 1 if isinstance(block, ProducerIdBlock) else 0
        data = encode_producer_ids(ProducerIdBlock(broker, first, first + 999))
        duties = self._controller.duties
        if duties is None:
            raise ControllerMoved
        if znode is None:
            duties.write([Make(paths.PRODUCER_IDS, data)])
        else:
            duties.write([SetData(paths.PRODUCER_IDS, data, ZkVersion(znode.version))])
        return ProducerIdsAnswer(0, first, 1000)


def _result(change: IsrChange, error: int, state: PartitionState | None) -> IsrResult:
    return IsrResult(
        topic=change.topic,
        topic_id=change.topic_id,
        partition=change.partition,
        error=error,
        leader=BrokerId(-1) if state is None else state.leader,
        leader_epoch=LeaderEpoch(-1) if state is None else state.leader_epoch,
        isr=() if state is None else state.isr,
        leader_recovery_state=0,
        partition_epoch=ZkVersion(-1) if state is None else state.version,
    )
