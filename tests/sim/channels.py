"""
The daemon's channels in a simulation: ``Channels`` on top of ``links``, answers into the inbox.

Opening, closing and sending are immediate here; everything on the wire takes time. A closed
channel's answers never reach the inbox, though its last request may still reach the broker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult
from controller.core.model import BrokerId, TopicPartition
from controller.core.reassignments.records import StopReplicaAnswered, StopReplicaResult
from controller.core.role.records import UpdateMetadataAnswered
from controller.reactor.ports import (
    BrokerRequest,
    Inbox,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from tests.sim.links import Link

if TYPE_CHECKING:
    from tests.sim.brokers import Answer
    from tests.sim.fabric import Fabric


class SimChannels:
    """One link per broker that the daemon opened a channel to."""

    def __init__(self, fabric: Fabric, inbox: Inbox) -> None:
        """Begin without a channel; answers go to ``inbox``."""
        self._fabric = fabric
        self._inbox = inbox
        self._links: dict[BrokerId, Link] = {}
        self.sent = 0
        """Requests handed over so far."""

    def open(self, broker: LiveBroker) -> None:
        """Connect; a channel to another epoch of the broker is replaced."""
        link = self._links.get(broker.id)
        if link is not None:
            if link.epoch == broker.epoch:
                return
            link.close()
        self._links[broker.id] = Link(self._fabric, broker.id, broker.epoch, is_daemon=True)

    def close(self, broker: BrokerId) -> None:
        """Disconnect from one broker."""
        link = self._links.pop(broker, None)
        if link is not None:
            link.close()

    def close_all(self) -> None:
        """Disconnect from every broker."""
        for broker in list(self._links):
            self.close(broker)

    def send(self, broker: BrokerId, request: BrokerRequest) -> None:
        """Queue a request on the broker's channel, if there is one."""
        link = self._links.get(broker)
        if link is None:
            return
        self.sent += 1
        for listener in self._fabric.on_sent:
            listener(broker, request)
        # A broker refuses what was addressed to its former registration.
        if isinstance(request, StopReplica) and link.epoch == self._fabric.brokers[broker].epoch:
            for witness in self._fabric.witnesses:
                witness.daemon_stops(broker, request)

        sent_at = self._fabric.schedule.now()

        def answered(answer: Answer, resent: bool) -> None:  # noqa: FBT001 - a callback
            took_s = self._fabric.schedule.now() - sent_at
            event = _event(link, request, answer, resent=resent)
            self._inbox.put(replace(event, took_s=took_s))

        link.send(request, answered)


def _event(
    link: Link, request: BrokerRequest, answer: Answer, *, resent: bool
) -> LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered:
    errors: dict[TopicPartition, int] = dict(answer.results)
    match request:
        case LeaderAndIsr():
            return LeaderAndIsrAnswered(
                broker=link.broker,
                broker_epoch=link.epoch,
                error=answer.error,
                results=tuple(
                    LeaderAndIsrResult(s.partition, s.leader_epoch, errors[s.partition])
                    for s in request.states
                    if s.partition in errors
                ),
                resent=resent,
            )
        case StopReplica():
            return StopReplicaAnswered(
                broker=link.broker,
                broker_epoch=link.epoch,
                error=answer.error,
                results=tuple(
                    StopReplicaResult(s.partition, s.leader_epoch, s.delete, errors[s.partition])
                    for s in request.states
                    if s.partition in errors
                ),
                resent=resent,
            )
        case UpdateMetadata():
            return UpdateMetadataAnswered(link.broker, link.epoch, answer.error)
