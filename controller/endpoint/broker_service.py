"""
Requests on their way to the loop and back, and the service for those of brokers.

Each becomes an event with a number, the ticket, in the inbox; the answer comes back by the ticket.
A request that the loop does not answer in time is answered NOT_CONTROLLER, and the peer sends it
again: the core answers repeated requests by what is durable. So is every request while the role is
not held; the loop lets brokers know the daemon as the controller later than that.

Each request comes with the permission to make it, which is given for one tenure. A peer that was
authorised before a claim, or whose request takes longer to decode than the tenure lasts, is not
authorised in the tenure in which its request would arrive.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, overload

from kafka.protocol.api_key import ApiKey

from controller.core.calls import client_requests
from controller.core.calls.broker_calls import error_answer
from controller.core.calls.broker_requests import (
    AlterPartition,
    BrokerAnswer,
    Permission,
    RequestFromBroker,
)
from controller.core.calls.client_requests import ClientAnswer, RequestFromClient
from controller.core.calls.records import BrokerRequestReceived, ClientRequestReceived
from controller.core.model import ControllerEpoch
from controller.endpoint import codec
from controller.endpoint.peers import PARTITION_BYTES, EndpointObserver, Peer
from controller.endpoint.strict_decoding import DecodingThread
from controller.errors import RemoteProtocolError
from controller.kafka_errors import NONE, NOT_CONTROLLER, STALE_BROKER_EPOCH
from controller.reactor.ports import Inbox

ANSWER_S: Final = 25.0
"""How long an answer is awaited: brokers wait 30 s (``controller.socket.timeout.ms``)."""
FIRST: Final = ControllerEpoch(0)
"""Of a tenure that no claim began."""
REQUESTS: Final = tuple(ApiKey(key).name for key in codec.OF_BROKERS)
"""Requests by which the metrics count."""
RESULTS: Final[Mapping[int, str]] = {
    NONE: "answered",
    NOT_CONTROLLER: "not_controller",
    STALE_BROKER_EPOCH: "stale_broker_epoch",
}
"""Labels of metrics for errors that concern a whole request."""
OTHER: Final = "other_error"


class _Waiting(NamedTuple):
    request: RequestFromBroker | RequestFromClient
    answer: asyncio.Future[Any]


@dataclass(eq=False, slots=True)
class Tickets:
    """Implements ``ports.ControllerEndpoint`` for the loop."""

    inbox: Inbox
    answer_s: float = ANSWER_S
    tenure: ControllerEpoch | None = None
    """The tenure in which the loop has the role; None: it has not."""
    held_until: float = -math.inf
    """When the role ended last; the clock of the event loop, which is ``time.monotonic``."""
    post: Callable[[Callable[[], object]], None] = lambda _: None
    """Runs work on the server's thread; set when the server exists."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _waiting: dict[int, _Waiting] = field(default_factory=dict)

    # --- the loop's thread ---------------------------------------------------------------------

    def respond(self, ticket: int, response: BrokerAnswer | ClientAnswer) -> None:
        """Answer a request; ignored if the peer does not wait for it any more."""
        self.post(lambda: self._settle(ticket, response))

    def serve(self, epoch: ControllerEpoch = FIRST) -> None:
        """Pass on requests that are permitted in this tenure from now on: the role is held."""
        self.tenure = epoch

    def refuse_all(self) -> None:
        """Answer NOT_CONTROLLER to all requests, until the role is held again."""
        if self.tenure is not None:
            self.held_until = time.monotonic()
        self.tenure = None
        self.post(self._refuse_waiting)

    # --- the server's thread -------------------------------------------------------------------

    def is_current(self, permission: Permission) -> bool:
        """Return whether the tenure for which a permission was given lasts."""
        return permission.controller_epoch == self.tenure

    @overload
    async def answer_to(
        self, request: RequestFromBroker, permission: Permission, within_s: float | None = None
    ) -> BrokerAnswer: ...
    @overload
    async def answer_to(
        self, request: RequestFromClient, permission: Permission, within_s: float | None = None
    ) -> ClientAnswer: ...
    async def answer_to(
        self,
        request: RequestFromBroker | RequestFromClient,
        permission: Permission,
        within_s: float | None = None,
    ) -> BrokerAnswer | ClientAnswer:
        """
        Pass a request to the loop and wait for the answer, by default for ``ANSWER_S``.

        The permission to make it is void as soon as its tenure ended.
        """
        if not self.is_current(permission):
            return _not_controller(request)
        ticket = next(self._numbers)
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting[ticket] = waiting
        if isinstance(request, RequestFromBroker):
            self.inbox.put(BrokerRequestReceived(ticket, request, permission))
        else:
            self.inbox.put(ClientRequestReceived(ticket, request, permission))
        try:
            async with asyncio.timeout(self.answer_s if within_s is None else within_s):
                answer: BrokerAnswer | ClientAnswer = await waiting.answer
        except TimeoutError:
            return _not_controller(request)
        finally:
            del self._waiting[ticket]
        return answer

    def _settle(self, ticket: int, response: BrokerAnswer | ClientAnswer) -> None:
        waiting = self._waiting.get(ticket)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(response)

    def _refuse_waiting(self) -> None:
        for ticket, waiting in self._waiting.items():
            self._settle(ticket, _not_controller(waiting.request))


def _not_controller(request: RequestFromBroker | RequestFromClient) -> BrokerAnswer | ClientAnswer:
    if isinstance(request, RequestFromBroker):
        return error_answer(request, NOT_CONTROLLER)
    return client_requests.error_answer(request, NOT_CONTROLLER)


@dataclass(eq=False, slots=True)
class BrokerService:
    """Implements ``Service`` for requests of brokers to their controller."""

    tickets: Tickets
    observer: EndpointObserver
    _thread: DecodingThread = field(default_factory=DecodingThread)

    versions = codec.OF_BROKERS

    async def answer(self, peer: Peer, header: codec.RequestHeader, frame: bytes) -> bytes | None:
        """Answer a peer that the server permits to act as a broker."""
        tenure = self.tickets.tenure
        if tenure is None:
            return self.refusal(header)
        who = f"{peer.principal} at {peer.address}"
        return await self.answer_permitted(peer, header, frame, Permission(who, None, tenure))

    def refusal(self, header: codec.RequestHeader) -> bytes:
        """Return NOT_CONTROLLER, whatever the request says: the role is not held."""
        answer = codec.refusal(header, NOT_CONTROLLER)
        self._count(header, NOT_CONTROLLER)
        return answer

    async def answer_permitted(
        self, peer: Peer, header: codec.RequestHeader, frame: bytes, permission: Permission
    ) -> bytes:
        """Pass a request to the loop and wait for the answer."""
        _, request = await self._thread.run(len(frame), partial(codec.decode, frame))
        if not isinstance(request, RequestFromBroker):
            raise RemoteProtocolError(f"API key {header.api_key} is no request of a broker")
        if isinstance(request, AlterPartition):
            peer.hold_decoded(len(request.changes) * PARTITION_BYTES)
        answer = await self.tickets.answer_to(request, permission)
        self._count(header, answer.error)
        return await self._thread.run(len(frame), partial(codec.encode, header, answer))

    def _count(self, header: codec.RequestHeader, error: int) -> None:
        name = ApiKey(header.api_key).name
        self.observer.endpoint_answered(name, RESULTS.get(error, OTHER))
