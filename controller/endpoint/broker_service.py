"""
Requests of brokers to their controller, on their way to the loop and back.

Each becomes a ``BrokerAsked`` in the inbox; the answer comes back by its ticket. A request that the
loop does not answer in time is answered NOT_CONTROLLER, and the broker sends it again: the core
answers repeated requests by what is durable.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from controller.core import broker_requests
from controller.core.broker_requests import BrokerAnswer, BrokerAsk
from controller.core.controllership.broker_asks import refused
from controller.core.events import BrokerAsked
from controller.endpoint import codec
from controller.endpoint.peers import Peer
from controller.errors import RemoteProtocolError
from controller.reactor.ports import Inbox

ANSWER_S: Final = 25.0
"""How long an answer is awaited: brokers wait 30 s (``controller.socket.timeout.ms``)."""

VERSIONS: Final[Mapping[int, tuple[int, int]]] = {
    key: codec.ADVERTISED[key]
    for key in (codec.CONTROLLED_SHUTDOWN, codec.ALTER_PARTITION, codec.ALLOCATE_PRODUCER_IDS)
}
"""The requests that brokers send to their controller."""

RESULTS: Final[Mapping[int, str]] = {
    broker_requests.NONE: "answered",
    broker_requests.NOT_CONTROLLER: "not_controller",
    broker_requests.STALE_BROKER_EPOCH: "stale_broker_epoch",
}
"""Labels of metrics for errors that concern a whole request."""
OTHER: Final = "other_error"


class AskObserver(Protocol):
    """Counts requests of brokers; called on the server's thread."""

    def endpoint_answered(self, request: str, result: str) -> None:
        """A request of this class was answered so; both have few values."""
        ...


class _Waiting(NamedTuple):
    request: BrokerAsk
    answer: asyncio.Future[BrokerAnswer]


class BrokerService:
    """Implements ``ports.ControllerEndpoint`` for the loop, and ``Service`` for the server."""

    versions = VERSIONS

    def __init__(self, inbox: Inbox, observer: AskObserver, *, answer_s: float = ANSWER_S) -> None:
        """
        Prepare.

        Args:
            inbox: The loop's inbox.
            observer: Counts requests.
            answer_s: How long an answer of the loop is awaited.

        """
        self._answer_s = answer_s
        self._inbox = inbox
        self._observer = observer
        self._tickets = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self.post: Callable[[Callable[[], object]], None] = _nowhere
        """Runs work on the server's thread; set when the server exists."""

    # --- the loop's thread ---------------------------------------------------------------------

    def respond(self, ticket: int, response: BrokerAnswer) -> None:
        """Answer a request; ignored if the broker does not wait for it any more."""
        self.post(lambda: self._settle(ticket, response))

    def refuse_all(self) -> None:
        """Answer NOT_CONTROLLER to all requests that wait: the role is lost or given back."""
        self.post(self._refuse_waiting)

    # --- the server's thread -------------------------------------------------------------------

    async def answer(self, peer: Peer, header: codec.RequestHeader, frame: bytes) -> bytes | None:
        """Pass a request to the loop and wait for the answer."""
        del peer, header
        header, request = codec.decode(frame)
        if not isinstance(request, BrokerAsk):
            raise RemoteProtocolError(f"API key {header.api_key} is no request of a broker")
        answer = await self._answer_to(request)
        result = RESULTS.get(answer.error, OTHER)
        self._observer.endpoint_answered(type(request).__name__, result)
        return codec.encode(header, answer)

    async def _answer_to(self, request: BrokerAsk) -> BrokerAnswer:
        ticket = next(self._tickets)
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting[ticket] = waiting
        self._inbox.put(BrokerAsked(ticket, request))
        try:
            async with asyncio.timeout(self._answer_s):
                return await waiting.answer
        except TimeoutError:
            return refused(request, broker_requests.NOT_CONTROLLER)
        finally:
            del self._waiting[ticket]

    def _settle(self, ticket: int, response: BrokerAnswer) -> None:
        waiting = self._waiting.get(ticket)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(response)

    def _refuse_waiting(self) -> None:
        for ticket, waiting in self._waiting.items():
            self._settle(ticket, refused(waiting.request, broker_requests.NOT_CONTROLLER))


def _nowhere(work: Callable[[], object]) -> None:
    """Drop work: no server runs."""
    del work
