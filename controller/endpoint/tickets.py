"""
Requests on their way to the loop and back.

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
from collections.abc import Callable
from typing import Any, Final, NamedTuple, overload

from controller import kafka_errors
from controller.core.calls import client_requests
from controller.core.calls.broker_calls import error_answer
from controller.core.calls.broker_requests import BrokerAnswer, Permission, RequestFromBroker
from controller.core.calls.client_requests import ClientAnswer, RequestFromClient
from controller.core.calls.records import BrokerRequestReceived, ClientRequestReceived
from controller.core.model import ControllerEpoch
from controller.reactor.ports import Inbox

ANSWER_S: Final = 25.0
"""How long an answer is awaited: brokers wait 30 s (``controller.socket.timeout.ms``)."""
FIRST: Final = ControllerEpoch(0)
"""Of a tenure that no claim began."""


class _Waiting(NamedTuple):
    request: RequestFromBroker | RequestFromClient
    answer: asyncio.Future[Any]


class Tickets:
    """Implements ``ports.ControllerEndpoint`` for the loop."""

    def __init__(self, inbox: Inbox, *, answer_s: float = ANSWER_S) -> None:
        """
        Prepare.

        Args:
            inbox: The loop's inbox.
            answer_s: How long an answer of the loop is awaited.

        """
        self._inbox = inbox
        self._answer_s = answer_s
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self.tenure: ControllerEpoch | None = None
        """The tenure in which the loop has the role; None: it has not."""
        self.held_until = -math.inf
        """When the role ended last; the clock of the event loop, which is ``time.monotonic``."""
        self.post: Callable[[Callable[[], object]], None] = _nowhere
        """Runs work on the server's thread; set when the server exists."""

    # --- the loop's thread ---------------------------------------------------------------------

    def respond(self, ticket: int, response: BrokerAnswer | ClientAnswer) -> None:
        """Answer a request; ignored if the peer does not wait for it any more."""
        self.post(lambda: self._settle(ticket, response))

    def serve(self, epoch: ControllerEpoch = FIRST) -> None:
        """
        Pass on requests that are permitted from now on: the role is held.

        Args:
            epoch: Of the tenure, for which permissions are given.

        """
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
        Pass a request to the loop and wait for the answer.

        Args:
            request: The request.
            permission: To make it; void as soon as its tenure ended.
            within_s: How long; by default ``ANSWER_S``, less than brokers wait.

        """
        if not self.is_current(permission):
            return _not_controller(request)
        ticket = next(self._numbers)
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting[ticket] = waiting
        if isinstance(request, RequestFromBroker):
            self._inbox.put(BrokerRequestReceived(ticket, request, permission))
        else:
            self._inbox.put(ClientRequestReceived(ticket, request, permission))
        try:
            async with asyncio.timeout(self._answer_s if within_s is None else within_s):
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
        return error_answer(request, kafka_errors.NOT_CONTROLLER)
    return client_requests.error_answer(request, kafka_errors.NOT_CONTROLLER)


def _nowhere(work: Callable[[], object]) -> None:
    """Drop work: no server runs."""
    del work
