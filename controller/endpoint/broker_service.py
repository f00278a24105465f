"""Requests of brokers to their controller: decoded, passed to the loop, answered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

from kafka.protocol.api_key import ApiKey

from controller import kafka_errors
from controller.core.calls.broker_requests import (
    AlterPartition,
    Permission,
    RequestFromBroker,
)
from controller.endpoint import codec
from controller.endpoint.decoding_thread import DecodingThread
from controller.endpoint.peers import PARTITION_BYTES, Peer
from controller.endpoint.tickets import Tickets
from controller.errors import RemoteProtocolError
from controller.kafka_errors import NOT_CONTROLLER

REQUESTS: Final = tuple(ApiKey(key).name for key in codec.OF_BROKERS)
"""Requests by which the metrics count."""
RESULTS: Final[Mapping[int, str]] = {
    kafka_errors.NONE: "answered",
    kafka_errors.NOT_CONTROLLER: "not_controller",
    kafka_errors.STALE_BROKER_EPOCH: "stale_broker_epoch",
}
"""Labels of metrics for errors that concern a whole request."""
OTHER: Final = "other_error"


class RequestObserver(Protocol):
    """Counts requests of brokers and clients; called on the server's thread."""

    def endpoint_answered(self, request: str, result: str) -> None:
        """A request of this class was answered so; both have few values."""
        ...


class BrokerService:
    """Implements ``Service`` for the server."""

    versions = codec.OF_BROKERS

    def __init__(self, tickets: Tickets, observer: RequestObserver) -> None:
        """
        Prepare.

        Args:
            tickets: The way to the loop.
            observer: Counts requests.

        """
        self._tickets = tickets
        self._observer = observer
        self._thread = DecodingThread()

    async def answer(self, peer: Peer, header: codec.RequestHeader, frame: bytes) -> bytes | None:
        """Answer a peer that the server permits to act as a broker."""
        tenure = self._tickets.tenure
        if tenure is None:
            return self.refusal(header)
        who = f"{peer.principal} at {peer.address}"
        return await self.answer_permitted(peer, header, frame, Permission(who, None, tenure))

    def refusal(self, header: codec.RequestHeader) -> bytes:
        """
        Return NOT_CONTROLLER, whatever the request says: the role is not held.

        Raises:
            RemoteProtocolError: a request of this kind or version is not served.

        """
        answer = codec.refusal(header, NOT_CONTROLLER)
        self._count(header, NOT_CONTROLLER)
        return answer

    async def answer_permitted(
        self, peer: Peer, header: codec.RequestHeader, frame: bytes, permission: Permission
    ) -> bytes:
        """
        Pass a request to the loop and wait for the answer.

        Raises:
            RemoteProtocolError: it is malformed, or there is no memory for it.

        """
        _, request = await self._thread.run(len(frame), partial(codec.decode, frame))
        if not isinstance(request, RequestFromBroker):
            raise RemoteProtocolError(f"API key {header.api_key} is no request of a broker")
        if isinstance(request, AlterPartition):
            peer.hold_decoded(len(request.changes) * PARTITION_BYTES)
        answer = await self._tickets.answer_to(request, permission)
        self._count(header, answer.error)
        return await self._thread.run(len(frame), partial(codec.encode, header, answer))

    def _count(self, header: codec.RequestHeader, error: int) -> None:
        name = ApiKey(header.api_key).name
        self._observer.endpoint_answered(name, RESULTS.get(error, OTHER))
