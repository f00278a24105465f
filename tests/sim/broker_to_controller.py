"""
What a broker of protocol 2.7 or later asks of its controller, and how it finds it.

As in Kafka (``BrokerToControllerChannelManager``): the address of the controller comes from the
last UpdateMetadata and is kept until a disconnect or NOT_CONTROLLER. One request is in flight, and
it is sent again until it is answered. A connection that breaks may have delivered the request, and
may deliver it late, after it was sent again: so a controller handles some requests twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from controller import kafka_errors
from controller.core.calls.broker_requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionAnswer,
    BrokerAnswer,
    ControlledShutdown,
    ControlledShutdownAnswer,
    IsrChange,
    IsrResult,
    ProducerIdsAnswer,
    RequestFromBroker,
)
from controller.core.leadership.isr_changes import FORGETTING
from controller.core.model import BrokerEpoch, LeaderEpoch, Replicas, TopicPartition, ZkVersion
from tests.sim.fabric import FIRST_WITH_IDS

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.controller_endpoints import ControllerListener
    from tests.sim.fabric import Fabric

LISTENER: Final = "BROKERS"
"""The listener of brokers under which a daemon is found; clients have another one."""
AGAIN_S: Final = 0.1
"""The interval at which a broker without a controller's address looks again."""
REFUSED_S: Final = 0.05
"""The delay before a request is sent again after an error of the whole request."""
TIMEOUT_S: Final = 30.0
"""``controller.socket.timeout.ms``: then the connection is given up."""
LATE_SHARE: Final = 0.5
"""The share of broken connections whose request arrives all the same."""
GHOST_S: Final = 3.0
"""How late a request may arrive whose connection broke."""
TRIES: Final = 3
"""``controlled.shutdown.max.retries``."""
TRY_EVERY_S: Final = 5.0
"""``controlled.shutdown.retry.backoff.ms``."""
IDS_EVERY_S: Final = (1.0, 6.0)
"""The interval at which a broker needs another block of producer ids."""

Request = Callable[[], RequestFromBroker | None]
"""Builds the request at the moment it is sent; None: nothing is left to be asked."""
Done = Callable[[BrokerAnswer], bool]
"""Called with the answer; returns False where the request has to be sent again."""
Answer = TypeVar("Answer")


def transmit(
    fabric: Fabric,
    deliver: Callable[[Callable[[Answer | None], None]], None],
    once: Callable[[Answer | None], None],
    loss: float,
) -> None:
    """
    Send a request over a connection that may break before it or its answer arrives.

    Args:
        fabric: Time, chance and the delays of the network.
        deliver: Called when the request arrives, with what takes the answer.
        once: Called with the answer, or None where the connection ends without one.
        loss: How likely the connection breaks on the way there, and on the way back.

    """
    network, chance, schedule = fabric.network, fabric.schedule.random, fabric.schedule

    def come_back(answer: Answer | None) -> None:
        is_lost = answer is not None and chance.random() < loss
        if is_lost:
            fabric.strike("answer_lost")
        reply = None if is_lost else answer
        schedule.call_between(*network.delay_s, lambda: once(reply))

    if chance.random() >= loss:
        schedule.call_between(*network.delay_s, lambda: deliver(come_back))
        return
    # The connection broke; what was written to it may still arrive.
    if chance.random() < LATE_SHARE:
        fabric.strike("request_doubled")
        schedule.call_between(0.0, GHOST_S, lambda: deliver(lambda _: None))
    schedule.call_between(*network.delay_s, lambda: once(None))


class ControllerChannel:
    """One connection of a broker to its controller."""

    def __init__(self, broker: SimBroker, fabric: Fabric) -> None:
        self._broker = broker
        self._fabric = fabric
        self._is_busy = False
        self._known: ControllerListener | None = None
        """The cached address."""

    def reset(self) -> None:
        """Begin anew with the broker's process."""
        self._is_busy = False
        self._known = None

    def send(self, request: Request, done: Done) -> None:
        """Send a request until it is answered; ignored while another one is under way."""
        if not self._is_busy:
            self._is_busy = True
            self._send(request, done, self._broker.incarnation)

    def _later(self, seconds: float, request: Request, done: Done, incarnation: int) -> None:
        self._fabric.schedule.call_in(seconds, lambda: self._send(request, done, incarnation))

    def _send(self, request: Request, done: Done, incarnation: int) -> None:
        broker = self._broker
        if incarnation != broker.incarnation:
            return
        if self._known is None:
            self._known = broker.controller
        sent = request()
        if sent is None:
            self._is_busy = False
            return
        if self._known is None:
            self._later(AGAIN_S, request, done, incarnation)
            return
        is_over = False

        def once(answer: BrokerAnswer | None) -> None:
            nonlocal is_over
            if not is_over and incarnation == broker.incarnation:
                is_over = True
                self._answered(answer, request, done, incarnation)

        known, network = self._known, self._fabric.network

        def send() -> None:
            transmit(self._fabric, lambda reply: known.handle(sent, reply), once, network.loss)

        if broker.id in network.cut:
            network.held.append(send)
        else:
            send()
        self._fabric.schedule.call_in(TIMEOUT_S, lambda: once(None))

    def _answered(
        self, answer: BrokerAnswer | None, request: Request, done: Done, incarnation: int
    ) -> None:
        if answer is None or _is_moved(answer):
            if answer is not None:
                self._fabric.strike("old_address")
            self._known = None
            self._later(REFUSED_S, request, done, incarnation)
        elif done(answer):
            self._is_busy = False
        else:
            self._later(REFUSED_S, request, done, incarnation)


def _is_moved(answer: BrokerAnswer) -> bool:
    """Return whether an answer says NOT_CONTROLLER, also of one partition."""
    if answer.error == kafka_errors.NOT_CONTROLLER:
        return True
    results = answer.results if isinstance(answer, AlterPartitionAnswer) else ()
    return any(r.error == kafka_errors.NOT_CONTROLLER for r in results)


class BrokerToController:
    """Everything that one broker asks of its controller."""

    def __init__(self, broker: SimBroker, fabric: Fabric) -> None:
        self._broker = broker
        self._fabric = fabric
        self._isr_changes: dict[TopicPartition, IsrChange] = {}
        """Changes that are not answered yet (``AlterPartitionManager.unsentIsrUpdates``)."""
        self._isr_requested: AlterPartition | None = None
        """The request under way."""
        self._channels = {
            name: ControllerChannel(broker, fabric) for name in ("isr", "ids", "stop")
        }
        self._incarnation = 0
        self.is_shutting_down = False
        """True from the first request for a controlled shutdown until the process ends."""
        self.stopping_as: BrokerEpoch | None = None
        """The last registration in which it asked to stop: a controller may hear of it later."""
        broker.started.append(self._started)
        broker.ended.append(self._ended)

    @property
    def is_stopping(self) -> bool:
        """Whether a controller may have heard that the present registration is to end."""
        return self.is_shutting_down or self.stopping_as == self._broker.epoch

    def _started(self) -> None:
        """Begin with the process; a process that only registers again continues."""
        if self._incarnation != self._broker.incarnation:
            self._incarnation = self._broker.incarnation
            self._need_ids_later(self._incarnation)

    def _ended(self) -> None:
        self.is_shutting_down = False
        self._isr_changes = {}
        self._isr_requested = None
        for channel in self._channels.values():
            channel.reset()

    # --- ISR changes ---------------------------------------------------------------------------

    def change_isr(self, partition: TopicPartition, isr: Replicas) -> bool:
        """Ask for an ISR; return False where an earlier request for the partition waits."""
        if partition in self._isr_changes:
            return False
        replica = self._broker.hosted[partition]
        epoch, version = LeaderEpoch(replica.leader_epoch), ZkVersion(replica.partition_epoch)
        topic_id = replica.log.topic_id if self._fabric.has_topic_ids else None
        name = partition.topic if topic_id is None else None
        change = IsrChange(name, topic_id, partition.partition, epoch, isr, 0, version)
        self._isr_changes[partition] = change
        for witness in self._fabric.endpoint_witnesses:
            witness.isr_wanted(self._broker.id, partition, change)
        self._channels["isr"].send(self._isr_request, self._isr_answered)
        return True

    def forget_isr_change(self, partition: TopicPartition) -> None:
        """
        Forget what was asked of a partition before a new leader epoch (``clearPending``).

        Up to Kafka 2.8 this includes a request under way, whose answer then ends the next one
        unsent: the leader waits for an answer until the leader epoch after that (KAFKA-12686).
        """
        if self._forgets:
            self._isr_changes.pop(partition, None)

    def waits_in_vain(self, partition: TopicPartition) -> bool:
        """Return whether the leader waits for an answer to a request that it forgot."""
        replica = self._broker.hosted.get(partition)
        is_waiting = replica is not None and replica.wanted is not None
        return self._forgets and is_waiting and partition not in self._isr_changes

    @property
    def _forgets(self) -> bool:
        return self._fabric.alter_partition_version <= FORGETTING

    def _isr_request(self) -> AlterPartition | None:
        if self._isr_requested is not None and self._forgets:
            return self._isr_requested  # until it is answered, the same one is sent again
        if not self._isr_changes:
            return None
        changes = tuple(self._isr_changes.values())
        version = self._fabric.alter_partition_version
        if any(change.topic is not None for change in changes):
            version = min(version, FIRST_WITH_IDS - 1)
        sent = AlterPartition(self._broker.id, self._broker.epoch, version, changes)
        self._isr_requested = sent
        return sent

    def _isr_answered(self, answer: BrokerAnswer) -> bool:
        if not isinstance(answer, AlterPartitionAnswer):
            raise TypeError(answer)
        under_way, self._isr_requested = self._isr_requested, None
        if answer.error:
            return False
        sent = {(c.topic, c.topic_id, p.partition): p for p, c in self._isr_changes.items()}
        for result in answer.results:
            partition = sent.get((result.topic, result.topic_id, result.partition))
            if partition is not None:
                change = self._isr_changes.pop(partition)
                if under_way is None or change in under_way.changes:
                    self._settle(partition, change, result)
                else:
                    self._fabric.strike("request_forgotten")
        # What was asked meanwhile follows.
        self._fabric.schedule.call_in(
            0.0, lambda: self._channels["isr"].send(self._isr_request, self._isr_answered)
        )
        return True

    def _settle(self, partition: TopicPartition, change: IsrChange, result: IsrResult) -> None:
        """Take an answer (``Partition.handleAlterPartitionUpdate`` and ``...Error``)."""
        replica = self._broker.hosted.get(partition)
        if replica is None or not replica.leads(self._broker.id):
            return
        if change.leader_epoch != replica.leader_epoch or replica.wanted != change.isr:
            return
        if result.error in {
            kafka_errors.INELIGIBLE_REPLICA,
            kafka_errors.OPERATION_NOT_ATTEMPTED,
        }:
            replica.wanted = None
        elif (
            not result.error
            and result.leader_epoch == replica.leader_epoch
            and result.partition_epoch >= replica.partition_epoch
        ):
            replica.wanted = None
            replica.isr = result.isr
            replica.partition_epoch = result.partition_epoch
            self._broker.replication.isr_settled(partition, replica)

    # --- producer ids --------------------------------------------------------------------------

    def _need_ids_later(self, incarnation: int) -> None:
        def need() -> None:
            if incarnation == self._broker.incarnation and self._fabric.needs_producer_ids:
                self._channels["ids"].send(self._ids_request, self._ids_answered)
                self._need_ids_later(incarnation)

        self._fabric.schedule.call_between(*IDS_EVERY_S, need)

    def _ids_request(self) -> AllocateProducerIds:
        return AllocateProducerIds(self._broker.id, self._broker.epoch)

    def _ids_answered(self, answer: BrokerAnswer) -> bool:
        if not isinstance(answer, ProducerIdsAnswer):
            raise TypeError(answer)
        if not answer.error:
            for witness in self._fabric.endpoint_witnesses:
                witness.ids_received(self._broker.id, answer)
        return True

    # --- controlled shutdown -------------------------------------------------------------------

    def shut_down(self, stop: Callable[[], None]) -> None:
        """Ask to lose the leaderships, up to three times, then stop."""
        self.is_shutting_down = True
        self._try_to_stop(TRIES, stop, self._broker.incarnation)

    def _try_to_stop(self, tries: int, stop: Callable[[], None], incarnation: int) -> None:
        if incarnation != self._broker.incarnation:
            return
        is_over = False

        def end(*, is_clean: bool) -> None:
            nonlocal is_over
            if is_over or incarnation != self._broker.incarnation:
                return
            is_over = True
            if is_clean:
                self._fabric.strike("shut_down_cleanly")
            if is_clean or tries <= 1:
                stop()
                return
            again = lambda: self._try_to_stop(tries - 1, stop, incarnation)  # noqa: E731
            self._fabric.schedule.call_in(TRY_EVERY_S, again)

        def answered(answer: BrokerAnswer) -> bool:
            if not isinstance(answer, ControlledShutdownAnswer):
                raise TypeError(answer)
            end(is_clean=not answer.error and not answer.remaining)
            return True

        def request() -> ControlledShutdown | None:
            if is_over:
                return None
            self.stopping_as = self._broker.epoch
            return ControlledShutdown(self._broker.id, self._broker.epoch)

        self._channels["stop"].send(request, answered)
        self._fabric.schedule.call_in(TIMEOUT_S, lambda: end(is_clean=False))
