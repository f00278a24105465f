"""Events and records of the requests that brokers and clients send to the controller."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.bases import Durable, Fact, Volatile
from controller.core.calls.broker_requests import (
    BrokerAnswer,
    Permission,
    ProducerIdBlock,
    RequestFromBroker,
)
from controller.core.calls.client_requests import RequestFromClient, SubmittedReassignments
from controller.core.model import ZkVersion


@dataclass(frozen=True, slots=True)
class BrokerRequestReceived(Fact, wakes=("pending_requests",)):
    """A broker sent a request to its controller, and waits for the answer."""

    ticket: int
    """The number of the request, by which it is answered; unique in the process."""
    request: RequestFromBroker
    permission: Permission


@dataclass(frozen=True, slots=True)
class ClientRequestReceived(Fact, wakes=("pending_requests", "tenure")):
    """A client sent a request to the controller, as a broker permits it, and waits."""

    ticket: int
    """As in ``BrokerRequestReceived``; the numbers of both are one sequence."""
    request: RequestFromClient
    permission: Permission


@dataclass(frozen=True, slots=True)
class ReassignmentsSubmitted(Fact, wakes=("pending_requests",)):
    """The request and cancellation of a client are durable, or the reason why they are not."""

    ticket: int
    submitted: SubmittedReassignments


@dataclass(frozen=True, slots=True)
class ProducerIdsRead(Fact, wakes=("pending_requests",)):
    """``/latest_producer_id_block``: read at a claim where the daemon serves brokers."""

    block: ProducerIdBlock | str | None
    """The last block that was handed out; a text where it cannot be decoded; None: no block yet."""
    version: ZkVersion | None = None
    """None where there is no znode."""


@dataclass(frozen=True, slots=True)
class RequestAnsweredRecord(Volatile, wakes=(), is_journaled=False):
    """The request of a broker or a client is answered."""

    ticket: int
    answer: BrokerAnswer | None = None
    """None to a client, and where nothing follows from the answer."""


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord(Durable, wakes=(), is_journaled=False):
    """``/latest_producer_id_block``: created when ``expected_version`` is None, else replaced."""

    block: ProducerIdBlock
    expected_version: ZkVersion | None


CallEvent = BrokerRequestReceived | ClientRequestReceived | ReassignmentsSubmitted | ProducerIdsRead


CallRecord = RequestAnsweredRecord | ProducerIdsRecord
