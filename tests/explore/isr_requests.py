"""
ISR changes that leaders ask their controller for: what waits in a broker, and in a daemon.

The rules are those of ``tests.sim.broker_to_controller`` (Kafka's ``AlterPartitionManager``) for
one partition. A request is built when it is sent, and sent again until it is answered. All of a
broker's part is one immutable value.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.explore import production as p
from tests.explore.brokers import FORGETTING, Broker, Replica

LISTENER: Final = "BROKERS"
"""The listener of brokers under which a daemon is found; clients have another one."""
ENDPOINT: Final = p.LiveBroker(
    p.BrokerId(1000000), p.BrokerEpoch(-1), (p.Endpoint(LISTENER, "sim", 7000, "PLAINTEXT"),)
)
"""What brokers hear of a daemon."""
PROTOCOLS: Final = {None: "2.6", 0: "2.7", 3: "3.6"}
"""The inter-broker protocol that comes with a version of AlterPartition."""
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
FIRST_WITH_IDS: Final = 2
TAKEN_BACK: Final = frozenset(
    {p.kafka_errors.INELIGIBLE_REPLICA, p.kafka_errors.OPERATION_NOT_ATTEMPTED}
)


class Request(NamedTuple):
    """A request that a daemon has not answered yet."""

    request: Any
    broker: int
    broker_epoch: int
    """The registration of the process that waits; another one hears no answer."""
    is_copy: bool = False
    """Whether its connection broke, so that nobody hears the answer."""


class DaemonEndpoint:
    """``reactor.ports.ControllerEndpoint``: requests that were permitted, and answers to send."""

    def __init__(self) -> None:
        self.tenure: Any = None
        self.waiting: dict[int, Request] = {}
        self.answered: list[tuple[Request, Any]] = []
        """Answers that were not passed on yet."""

    def form(self) -> Any:
        """Return the canonical form."""
        return self.tenure, tuple(sorted(self.waiting.items()))

    def received(self, request: Request, used: frozenset[int] = frozenset()) -> Any:
        """Permit a request in the present tenure: return the event; ``used`` tickets are taken."""
        taken = used.union(self.waiting)
        ticket = next(n for n in range(1, len(taken) + 2) if n not in taken)
        self.waiting[ticket] = request
        permission = p.Permission("a peer", None, self.tenure)
        return p.BrokerRequestReceived(ticket, request.request, permission)

    def respond(self, ticket: int, response: Any) -> None:
        """Answer a request."""
        request = self.waiting.pop(ticket, None)
        if request is not None:
            self.answered.append((request, response))

    def serve(self, epoch: Any) -> None:
        """Pass on requests from now on."""
        self.tenure = epoch

    def refuse_all(self) -> None:
        """Answer NOT_CONTROLLER to all, until the role is held again."""
        self.tenure = None
        for ticket in sorted(self.waiting):
            self.respond(ticket, p.AlterPartitionAnswer(p.kafka_errors.NOT_CONTROLLER))


def want(broker: Broker, partition: Any, isr: tuple[int, ...]) -> None:
    """Ask for an ISR: until the answer the leader counts the members of both."""
    replica = broker.hosted[partition]
    has_ids = broker.asks is not None and broker.asks >= FIRST_WITH_IDS
    change = p.IsrChange(
        topic=None if has_ids else partition.topic,
        topic_id=TOPIC_ID if has_ids else None,
        partition=partition.partition,
        leader_epoch=p.LeaderEpoch(replica.leader_epoch),
        isr=tuple(p.BrokerId(member) for member in isr),
        leader_recovery_state=0,
        partition_epoch=p.ZkVersion(replica.partition_epoch),
    )
    broker.asking = broker.asking._replace(change=change)
    broker.hosted[partition] = replica._replace(wanted=isr)


def request_of(broker: Broker) -> Any:
    """Return the request to send next; None: nothing is asked, or an answer is awaited."""
    asking = broker.asking
    if not broker.is_alive or asking.is_sent or asking.answer is not None:
        return None
    if asking.request is not None and broker.asks == FORGETTING:
        return asking.request  # until it is answered, the same one is sent again
    if asking.change is None or broker.asks is None:
        return None
    return p.AlterPartition(
        p.BrokerId(broker.id), p.BrokerEpoch(broker.epoch), broker.asks, (asking.change,)
    )


def take_answer(broker: Broker, partition: Any) -> None:
    """Take an answer (``Partition.handleAlterPartitionUpdate`` and ``...Error``)."""
    asking = broker.asking
    request, change, answer = asking.request, asking.change, asking.answer
    assert answer is not None
    broker.asking = asking._replace(request=None, is_sent=False, answer=None)
    if answer.error or change is None or not answer.results:
        return
    broker.asking = broker.asking._replace(change=None)
    replica = broker.hosted.get(partition)
    if change not in request.changes or replica is None or replica.leader != broker.id:
        return
    if change.leader_epoch == replica.leader_epoch and replica.wanted == change.isr:
        broker.hosted[partition] = _settled(replica, answer.results[0])


def _settled(replica: Replica, result: Any) -> Replica:
    if result.error in TAKEN_BACK:
        return replica._replace(wanted=None)
    is_present = (
        not result.error
        and result.leader_epoch == replica.leader_epoch
        and result.partition_epoch >= replica.partition_epoch
    )
    if not is_present:
        return replica
    return replica._replace(
        wanted=None, isr=tuple(result.isr), partition_epoch=result.partition_epoch
    )
