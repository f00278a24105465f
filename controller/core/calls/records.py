"""Events and records of the requests that brokers and clients send to the controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from controller.core import model
from controller.core.bases import Durable, Fact, Flags, Volatile
from controller.core.calls.broker_requests import (
    BrokerAnswer,
    Permission,
    ProducerIdBlock,
    RequestFromBroker,
)
from controller.core.calls.client_requests import RequestFromClient, SubmittedReassignments


@dataclass(frozen=True, slots=True)
class BrokerRequestReceived(Fact):
    """A broker sent a request to its controller, and waits for the answer."""

    wakes: ClassVar[Flags] = ("pending_requests",)

    ticket: int
    """The number of the request, by which it is answered; unique in the process."""
    request: RequestFromBroker
    permission: Permission


@dataclass(frozen=True, slots=True)
class ClientRequestReceived(Fact):
    """A client sent a request to the controller, as a broker permits it, and waits."""

    wakes: ClassVar[Flags] = ("pending_requests", "tenure")

    ticket: int
    """As in ``BrokerRequestReceived``; the numbers of both are one sequence."""
    request: RequestFromClient
    permission: Permission


@dataclass(frozen=True, slots=True)
class ReassignmentsSubmitted(Fact):
    """The request and cancellation of a client are durable, or the reason why they are not."""

    wakes: ClassVar[Flags] = ("pending_requests",)

    ticket: int
    submitted: SubmittedReassignments


@dataclass(frozen=True, slots=True)
class ProducerIdsRead(Fact):
    """``/latest_producer_id_block``: read at a claim where the daemon serves brokers."""

    wakes: ClassVar[Flags] = ("pending_requests",)

    block: ProducerIdBlock | str | None
    """The last block that was handed out; a text where it cannot be decoded; None: no block yet."""
    version: model.ZkVersion | None = None
    """None where there is no znode."""


@dataclass(frozen=True, slots=True)
class RequestAnsweredRecord(Volatile):
    """The request of a broker or a client is answered."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    ticket: int
    answer: BrokerAnswer | None = None
    """None to a client, and where nothing follows from the answer."""


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord(Durable):
    """``/latest_producer_id_block``: created when ``expected_version`` is None, else replaced."""

    wakes: ClassVar[Flags] = ()
    is_journaled: ClassVar[bool] = False

    block: ProducerIdBlock
    expected_version: model.ZkVersion | None


CallEvent = BrokerRequestReceived | ClientRequestReceived | ReassignmentsSubmitted | ProducerIdsRead


CallRecord = RequestAnsweredRecord | ProducerIdsRecord
