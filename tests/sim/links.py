"""
A connection from a controller to one broker: in order, one at a time, resent until answered.

Both the daemon's channels and the simulated Kafka controller send through it. It knows addresses,
not identities: a request meant for a broker's former life reaches the present one, which may refuse
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from controller import kafka_errors
from controller.core.model import BrokerEpoch, BrokerId
from controller.reactor.ports import BrokerRequest

if TYPE_CHECKING:
    from tests.sim.brokers import Answer, SimBroker
    from tests.sim.controller_endpoints import ControllerListener
    from tests.sim.fabric import Fabric

Answered = Callable[["Answer", bool], None]
"""Called with the answer and whether the request may have reached the broker before."""


class Link:
    """One ordered connection."""

    def __init__(
        self,
        fabric: Fabric,
        broker: BrokerId,
        epoch: BrokerEpoch,
        *,
        is_daemon: bool = False,
        sender: ControllerListener | None = None,
    ) -> None:
        self.broker = broker
        self.epoch = epoch
        self._fabric = fabric
        self._queue: deque[tuple[BrokerRequest, Answered]] = deque()
        self._is_open = True
        self._is_daemon = is_daemon
        self._sender = sender

    def send(self, request: BrokerRequest, answered: Answered) -> None:
        """Queue a request."""
        self._queue.append((request, answered))
        if len(self._queue) == 1:
            self._transmit(resent=False)

    def close(self) -> None:
        """Send nothing more, hear nothing more; what is on its way still arrives."""
        self._is_open = False
        self._queue.clear()

    def _transmit(self, *, resent: bool) -> None:
        network, chance = self._fabric.network, self._fabric.schedule.random
        request, answered = self._queue[0]
        breaks_before = chance.random() < network.loss
        breaks_after = chance.random() < network.loss
        if breaks_before or breaks_after:
            self._fabric.strike("network_lossy")

        def arrive() -> None:
            broker = self._fabric.brokers.get(self.broker)
            if breaks_before or broker is None or not broker.is_alive:
                self._try_again(resent=resent)
                return
            answer = self._handled(broker, request)
            incarnation = broker.incarnation

            def return_() -> None:
                if breaks_after or broker.incarnation != incarnation:
                    self._try_again(resent=True)
                elif self._is_open:
                    self._queue.popleft()
                    if self._queue:
                        self._transmit(resent=False)
                    answered(answer, resent)

            low, high = network.delay_s
            late_s = network.late_s.get(self.broker, 0.0)
            if late_s:
                self._fabric.strike("answers_late")
            self._fabric.schedule.call_between(low, high + late_s, return_)

        self._fabric.schedule.call_between(*network.delay_s, arrive)

    def _handled(self, broker: SimBroker, request: BrokerRequest) -> Answer:
        """Return what the broker answers; what it does not allow it does not even look at."""
        if self._is_daemon and self.broker in self._fabric.network.refusing:
            self._fabric.strike("requests_refused")
            return broker.refuse()
        answer = broker.handle(request, self.epoch, self._sender)
        if answer.error == kafka_errors.NONE:
            self._fabric.accepted_epochs.add(request.controller_epoch)
        return answer

    def _try_again(self, *, resent: bool) -> None:
        def transmit() -> None:
            if self._is_open:
                self._transmit(resent=resent)

        if self._is_open:
            self._fabric.schedule.call_between(*self._fabric.network.resend_s, transmit)
