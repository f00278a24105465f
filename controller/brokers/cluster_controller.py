"""
Requests to the cluster's own controller (KIP-455), implementing ``reactor.ports.Reassignments``.

They go to the broker that ``/controller`` names.

An alter entry is sent once: the controller deletes a replica that the entry does not name without
regard to the ISR, so the entry is safe only by what was known when it was decided. A failure is
reported at once, and the core decides anew. An election takes the ISR into account itself: it is
repeated when the controller changes, after the entries that wait.

Invariants: every entry is answered, by the controller or with the reason why it did not answer,
unless it was forgotten; no entry is sent later than ``FRESH_S`` after it was handed over; after
``forget``, nothing that was handed over before is sent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from tenacity import wait_random_exponential

from controller.brokers.broker_connections import BrokerConnection, ConnectionLimits, Gate, connect
from controller.brokers.broker_queries import BrokerQuery
from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.frames import by_topic, frame_of
from controller.clocks import pause_s
from controller.core.cluster.model import LiveBroker
from controller.core.model import AlterOutcome, BrokerId, TopicPartition
from controller.core.reassignments.records import AlterResult, ReassignmentsAltered
from controller.core.role.records import ReassignmentsProbed
from controller.errors import BrokerUnreachableError, ProtocolError, TransientError
from controller.kafka_errors import NONE, NOT_CONTROLLER, REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR
from controller.reactor.ports import AlterEntry, Inbox

ELECT_LEADERS_MAX: Final = 1
"""Version 2 only changes the encoding; version 1 is the first with the kind of election."""


ANSWER_WITHIN_S: Final = 20.0
LIMITS: Final = ConnectionLimits(connect_timeout_s=5.0, request_timeout_s=25.0)
GIVE_UP_S: Final = 60.0
"""Seconds for which an election is repeated."""
REPEAT: Final = wait_random_exponential(multiplier=0.2, max=0.5, min=0.1)
"""Pauses before that; short, as entries that wait are sent after them."""
FRESH_S: Final = 2.0
"""Seconds in which an entry must be sent; if connecting takes longer, the next entry benefits."""
VOUCHED_S: Final = 3.0
"""Seconds after ``vouch`` in which entries may be sent; shorter than any session timeout."""


@dataclass(slots=True)
class _Call:
    """A request to the controller: alter entries, an election, or (neither) a probe."""

    gate: Gate
    entries: tuple[AlterEntry, ...] = ()
    elections: tuple[TopicPartition, ...] = ()
    since: float = field(default_factory=time.monotonic)
    has_left: bool = False
    """Whether the request was sent completely: only then can the controller act on it."""
    tries: int = 0

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.since

    @property
    def is_probe(self) -> bool:
        return not (self.entries or self.elections)


class _NotControllerError(TransientError):
    """The broker is not the controller, or not yet."""


class _OutdatedError(TransientError):
    """The entries are too old, or the daemon may no longer lead."""


class ClusterController(BrokerQuery):
    """Implements ``reactor.ports.Reassignments``."""

    def __init__(self, inbox: Inbox, connections: ConnectionSettings) -> None:
        super().__init__("cluster-controller", inbox, connections)
        self._gate = Gate()
        self._vouched_at = time.monotonic()
        # Touched on the IO thread only:
        self._controller: BrokerId | None = None
        self._open: tuple[LiveBroker, BrokerConnection, Gate] | None = None
        self._calls: deque[_Call] = deque()
        self._busy = False

    def stop(self) -> None:
        """End the thread; what was not sent is dropped."""
        self.forget()
        super().stop()

    def update_controller(self, controller: BrokerId | None) -> None:
        """Replace which broker is the controller; None: none is."""
        self._io.post(partial(setattr, self, "_controller", controller))

    # --- Reassignments -------------------------------------------------------------------------

    def alter(self, entries: Sequence[AlterEntry]) -> None:
        """Send alter entries: one ``ReassignmentsAltered`` follows."""
        self.vouch()
        self._post(_Call(self._gate, entries=tuple(entries)))

    def elect(self, partitions: Sequence[TopicPartition]) -> None:
        """Request preferred leader elections; no event follows."""
        self._post(_Call(self._gate, elections=tuple(partitions)))

    def probe(self) -> None:
        """Ask whether the controller serves the request: ``ReassignmentsProbed`` follows."""
        self._post(_Call(self._gate))

    def vouch(self) -> None:
        """Allow sending for another ``VOUCHED_S``: the loop runs."""
        self._vouched_at = time.monotonic()

    def forget(self) -> None:
        """Drop everything that was not sent, also a request that is partly written."""
        self._gate.close()
        self._gate = Gate()

    # --- on the IO thread ----------------------------------------------------------------------

    def _post(self, call: _Call) -> None:
        self._io.post(lambda: self._enqueue(call))

    def _enqueue(self, call: _Call) -> None:
        self._calls.append(call)
        if not self._busy:
            self._busy = True
            self._io.spawn(self._work)

    async def _work(self) -> None:
        while self._calls:
            call = self._calls.popleft()
            if call.gate.is_open and not await self._carry_out(call):
                self._calls.append(call)
                call.tries += 1
                await self._io.net.sleep(pause_s(REPEAT, call.tries))
        self._busy = False

    async def _carry_out(self, call: _Call) -> bool:
        """Send a request; return whether it needs no repetition."""
        try:
            await self._try(call)
        except _OutdatedError as error:
            # The connection is usable by the next request.
            self._fail(call, str(error))
        except (TransientError, ProtocolError) as error:
            self._close_all()
            if call.elections:
                return call.age_s > GIVE_UP_S
            self._fail(call, str(error))
        return True

    async def _try(self, call: _Call) -> None:
        named = self._controller
        controller = None if named is None else self._brokers.get(named)
        if controller is None:
            raise BrokerUnreachableError("no broker is the controller at the moment")
        connection = await self._connection(controller, call.gate)
        understood = connection.understood.get(ApiKey.AlterPartitionReassignments)
        if call.is_probe or understood is None:
            self._answer_probe(controller, is_understood=understood is not None)
        if understood is None:
            self._fail(call, "the controller does not know the request")
        elif call.entries:
            self._inbox.put(await self._alter(controller, connection, call))
        elif call.elections:
            await self._elect(connection, call)

    async def _connection(self, controller: LiveBroker, gate: Gate) -> BrokerConnection:
        known = self._open
        if known is not None and known[0] == controller and known[1].is_open and known[2] is gate:
            return known[1]
        self._close_all()
        connection = await connect(self._io, controller, self._connections, LIMITS, gate)
        self._open = (controller, connection, gate)
        return connection

    async def _alter(
        self, controller: LiveBroker, connection: BrokerConnection, call: _Call
    ) -> ReassignmentsAltered:
        frame = frame_of(alter_request(call.entries))
        if time.monotonic() - self._vouched_at > VOUCHED_S:
            raise _OutdatedError("the loop has not confirmed that the daemon still leads")
        if call.age_s > FRESH_S:
            raise _OutdatedError("it took too long to reach the controller")
        try:
            answer = await connection.send_and_receive(frame)
        finally:
            call.has_left = connection.may_have_delivered
        return ReassignmentsAltered(results_of(answer, call.entries), controller.id, call.age_s)

    async def _elect(self, connection: BrokerConnection, call: _Call) -> None:
        version = connection.version(ApiKey.ElectLeaders, ELECT_LEADERS_MAX)
        request = elect_request(call.elections, version)
        answer = await connection.send_and_receive(frame_of(request))
        if getattr(answer, "error_code", NONE) == NOT_CONTROLLER:
            raise _NotControllerError("the broker that was to elect is not the controller")

    def _answer_probe(self, controller: LiveBroker, *, is_understood: bool) -> None:
        problem = (
            f"broker {controller.id}, the controller, does not serve AlterPartitionReassignments: "
            "it is older than Kafka 2.4"
        )
        event = ReassignmentsProbed(None if is_understood else problem, is_final=not is_understood)
        self._inbox.put(event)

    def _fail(self, call: _Call, why: str) -> None:
        """Report that there was no answer, except for an election."""
        if not call.gate.is_open:
            return
        if call.entries:
            outcome = AlterOutcome.UNKNOWN if call.has_left else AlterOutcome.UNSENT
            results = tuple(
                AlterResult(e.partition, e.target, REQUEST_TIMED_OUT, why, outcome)
                for e in call.entries
            )
            self._inbox.put(ReassignmentsAltered(results, None, call.age_s))
        elif call.is_probe and self._open is None:
            self._inbox.put(ReassignmentsProbed(why))

    def _close_all(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def alter_request(entries: Sequence[AlterEntry]) -> ApiMessage:
    """Build the request; a refused entry does not affect the others."""
    rows = (
        (topic, (number, None if cancels else target))
        for (topic, number), target, cancels in entries
    )
    return AlterPartitionReassignmentsRequest(
        timeout_ms=int(ANSWER_WITHIN_S * 1000), topics=by_topic(rows), version=0
    )


def elect_request(partitions: Sequence[TopicPartition], version: int) -> ApiMessage:
    """Build the request for preferred leader elections."""
    return ElectLeadersRequest(
        election_type=0,
        topic_partitions=by_topic(partitions),
        timeout_ms=int(ANSWER_WITHIN_S * 1000),
        version=version,
    )


def results_of(
    answer: Any,  # noqa: ANN401 - kafka-python has no types
    entries: Sequence[AlterEntry],
) -> tuple[AlterResult, ...]:
    """Decode the result of each entry; an error of the whole request applies to all."""
    if answer.error_code:
        why = _words(answer.error_code, answer.error_message)
        return tuple(_result(entry, answer.error_code, why) for entry in entries)
    answered: Mapping[TopicPartition, tuple[int, str]] = {
        TopicPartition(topic.name, row.partition_index): (
            row.error_code,
            _words(row.error_code, row.error_message) if row.error_code else "",
        )
        for topic in answer.responses
        for row in topic.partitions
    }
    missing = (UNKNOWN_SERVER_ERROR, "the controller's response does not contain it")
    return tuple(_result(entry, *answered.get(entry.partition, missing)) for entry in entries)


def _result(entry: AlterEntry, error: int, why: str) -> AlterResult:
    """Return the result of an entry; NOT_CONTROLLER means that it had no effect."""
    outcome = AlterOutcome.UNSENT if error == NOT_CONTROLLER else AlterOutcome.ANSWERED
    return AlterResult(entry.partition, entry.target, error, why, outcome)


def _words(code: int, message: str | None) -> str:
    return f"the controller refuses it: {message or 'no message'} (error {code})"
