"""
The controller's requests to brokers: their encoding, and events from the responses.

Pure: builds messages from the values of ``reactor.ports``; ``channels`` sends them.

Invariants: ``is_kraft_controller`` is never set and the request type is always 0, because other
values make brokers of a migrating cluster delete logs (KIP-866); every partition that was sent has
exactly one result, and a partition that is missing in the response is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, assert_never

from kafka.protocol.api_message import ApiMessage

from controller.brokers import frames, messages
from controller.brokers.connection_settings import SECURITY_PROTOCOL_IDS, ListenerChoice
from controller.brokers.messages import WITHOUT_IDS, Versions
from controller.core.cluster.model import LiveBroker
from controller.core.leadership.records import LeaderAndIsrAnswered, LeaderAndIsrResult
from controller.core.model import BrokerEpoch, BrokerId, ControllerEpoch
from controller.core.reassignments.records import StopReplicaAnswered, StopReplicaResult
from controller.core.role.records import UpdateMetadataAnswered
from controller.kafka_errors import UNKNOWN_SERVER_ERROR
from controller.reactor import ports

# --- requests ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sender:
    """The fields that identify sender and receiver in every request of a channel."""

    controller_id: BrokerId
    broker_epoch: BrokerEpoch
    """The receiver's epoch: a broker refuses requests for an earlier incarnation of itself."""


_BROKER_EPOCH_AT: Final[Mapping[int, int]] = {5: 8, 6: 8, 7: 8, 8: 9}
"""Offset of the broker epoch in an UpdateMetadata, by version: fixed-size fields precede it."""

_RECENT: Final = 128
"""Cached UpdateMetadata: brokers that are slower receive them later than the others."""

_Content = tuple[int, ControllerEpoch, tuple[ports.UpdateMetadataState, ...]]
"""Version, controller epoch and states of an UpdateMetadata."""


class Encoder:
    """
    Encodes the requests of all channels.

    All brokers receive the same UpdateMetadata, so it is encoded once, and only the broker epoch is
    replaced. With a hundred brokers this saves a second per cycle. The list of live brokers, which
    every UpdateMetadata contains, is also encoded once.
    """

    def __init__(self, controller_id: BrokerId, listeners: ListenerChoice) -> None:
        self._controller_id = controller_id
        self._listeners = listeners
        self._recent: deque[tuple[_Content, frames.Frame]] = deque(maxlen=_RECENT)
        self._live: tuple[int, tuple[LiveBroker, ...], bytes] | None = None

    def encode(
        self, request: ports.BrokerRequest, versions: Versions, broker_epoch: BrokerEpoch
    ) -> frames.Frame:
        """Encode a request in the version chosen for its broker; see ``frame_of``."""
        sender = Sender(self._controller_id, broker_epoch)
        match request:
            case ports.LeaderAndIsr():
                version = versions.leader_and_isr
                if any(s.topic_id is None for s in request.states):
                    # The answers as of version 5 name topics by their ids only.
                    version = min(version, WITHOUT_IDS.leader_and_isr)
                message = leader_and_isr_request(request, version, sender, self._listeners)
            case ports.StopReplica():
                message = stop_replica_request(request, versions.stop_replica, sender)
            case ports.UpdateMetadata():
                return self._update_metadata(request, versions.update_metadata, sender)
            case _:
                assert_never(request)
        return frames.frame_of(message)

    def _update_metadata(
        self, request: ports.UpdateMetadata, version: int, sender: Sender
    ) -> frames.Frame:
        # The states of two such requests are mostly identical objects, which compare quickly.
        content = (version, request.controller_epoch, request.states)
        head = next((frame for known, frame in self._recent if known == content), None)
        if head is None:
            alone = replace(request, live_brokers=())
            bare = frames.frame_of(update_metadata_request(alone, version, sender))
            head = replace(bare, body=bare.body[: -_no_live_brokers(version)])
            self._recent.appendleft((content, head))
        frame = replace(head, body=head.body + self._live_brokers(request, version, sender))
        offset = _BROKER_EPOCH_AT.get(version)
        return frame if offset is None else frame.readdressed(offset, sender.broker_epoch)

    def forget(self) -> None:
        """Clear the cache, which is large with very many partitions."""
        self._recent.clear()

    def _live_brokers(self, request: ports.UpdateMetadata, version: int, sender: Sender) -> bytes:
        """Return the encoded live brokers, the last field of an UpdateMetadata."""
        if self._live is None or self._live[:2] != (version, request.live_brokers):
            alone = update_metadata_request(replace(request, states=()), version, sender)
            nothing = replace(request, states=(), live_brokers=())
            empty = frames.frame_of(update_metadata_request(nothing, version, sender)).body
            end = frames.frame_of(alone).body[len(empty) - _no_live_brokers(version) :]
            self._live = (version, request.live_brokers, end)
        return self._live[2]


def _no_live_brokers(version: int) -> int:
    """Return the length of an empty list of live brokers: its size, since version 6 with tags."""
    return 2 if version >= 6 else 4  # noqa: PLR2004 - KIP-482


# Rows are tuples in the order of the schema: objects for 100,000 partitions would take seconds.


def leader_and_isr_request(
    request: ports.LeaderAndIsr, version: int, sender: Sender, listeners: ListenerChoice
) -> ApiMessage:
    """Build a LeaderAndIsr message."""
    return messages.LeaderAndIsrRequest(
        version=version,
        controller_id=sender.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=sender.broker_epoch,
        **_states(
            request.states,
            lambda state: _leader_and_isr_row(state, version),
            is_grouped=version >= 2,  # noqa: PLR2004 - KIP-380
            has_id=version >= 5,  # noqa: PLR2004 - KIP-516
        ),
        live_leaders=[
            (broker.id, endpoint.host, endpoint.port)
            for broker in request.live_leaders
            if (endpoint := listeners.endpoint_of(broker)) is not None
        ],
    )


def _leader_and_isr_row(state: ports.LeaderAndIsrState, version: int) -> tuple[Any, ...]:
    row: tuple[Any, ...] = (
        state.partition.partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.replicas,
    )
    if version >= 3:  # noqa: PLR2004 - KIP-455
        row += (state.adding_replicas, state.removing_replicas)
    row += (state.is_new,)
    return (*row, state.leader_recovery_state) if version >= 6 else row  # noqa: PLR2004 - KIP-704


def update_metadata_request(
    request: ports.UpdateMetadata, version: int, sender: Sender
) -> ApiMessage:
    """Build an UpdateMetadata message."""
    return messages.UpdateMetadataRequest(
        version=version,
        controller_id=sender.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=sender.broker_epoch,
        **_states(
            request.states,
            _update_metadata_row,
            is_grouped=version >= 5,  # noqa: PLR2004 - KIP-380
            has_id=version >= 7,  # noqa: PLR2004 - KIP-516
        ),
        live_brokers=[_live_broker_row(broker) for broker in request.live_brokers],
    )


def _update_metadata_row(state: ports.UpdateMetadataState) -> tuple[Any, ...]:
    return (
        state.partition.partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.replicas,
        state.offline_replicas,
    )


def _live_broker_row(broker: LiveBroker) -> tuple[Any, ...]:
    endpoints = [
        (e.port, e.host, e.listener, SECURITY_PROTOCOL_IDS[e.security_protocol])
        for e in broker.endpoints
        if e.security_protocol in SECURITY_PROTOCOL_IDS
    ]
    return (broker.id, endpoints, broker.rack)


def stop_replica_request(request: ports.StopReplica, version: int, sender: Sender) -> ApiMessage:
    """
    Build a StopReplica message.

    Below version 3, a request has one delete flag, taken from the first state: all have the same.
    """
    topics = frames.by_topic(
        (s.partition.topic, (s.partition.partition, s.leader_epoch, s.delete))
        for s in request.states
    )
    return messages.StopReplicaRequest(
        version=version,
        controller_id=sender.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=sender.broker_epoch,
        delete_partitions=bool(request.states) and request.states[0].delete,
        ungrouped_partitions=[(s.partition.topic, s.partition.partition) for s in request.states],
        topics=[(topic, [row[0] for row in rows]) for topic, rows in topics],
        topic_states=topics,
    )


_State = TypeVar("_State", bound=ports.LeaderAndIsrState | ports.UpdateMetadataState)


def _states(
    states: Sequence[_State],
    row_of: Callable[[_State], tuple[Any, ...]],
    *,
    is_grouped: bool,
    has_id: bool,
) -> Mapping[str, Sequence[tuple[Any, ...]]]:
    """Return the fields of a message with the states: in one list, or in one for each topic."""
    if not is_grouped:
        rows: list[tuple[Any, ...]] = [(s.partition.topic, *row_of(s)) for s in states]
        return {"ungrouped_partition_states": rows, "topic_states": []}
    grouped: list[tuple[Any, ...]] = []
    for topic, own in frames.by_topic((state.partition.topic, state) for state in states):
        rows = [row_of(state) for state in own]
        topic_id = messages.topic_uuid(own[0].topic_id)
        grouped.append((topic, topic_id, rows) if has_id else (topic, rows))
    return {"ungrouped_partition_states": [], "topic_states": grouped}


# --- responses -----------------------------------------------------------------------------------

Answered = LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered


def event_of(
    broker: LiveBroker,
    request: ports.BrokerRequest,
    error: int,
    response: ApiMessage | None,
    *,
    resent: bool = False,
) -> Answered:
    """
    Return the event for a broker's answer, or (without one) for a request that was not sent.

    Args:
        broker: As it was when the channel was opened; the request carries its epoch.
        request: The request.
        error: The error of the whole request.
        response: The decoded answer.
        resent: Whether an earlier attempt may have reached the broker.
    """
    match request:
        case ports.LeaderAndIsr():
            results = () if response is None else _leader_and_isr_results(request, response)
            return LeaderAndIsrAnswered(broker.id, broker.epoch, error, results, resent)
        case ports.StopReplica():
            stopped = () if response is None else _stop_replica_results(request, response)
            return StopReplicaAnswered(broker.id, broker.epoch, error, stopped, resent)
        case ports.UpdateMetadata():
            return UpdateMetadataAnswered(broker.id, broker.epoch, error)
        case _:
            assert_never(request)


def _leader_and_isr_results(
    request: ports.LeaderAndIsr, response: ApiMessage
) -> tuple[LeaderAndIsrResult, ...]:
    by_id = response.version >= 5  # noqa: PLR2004 - KIP-516: keyed by topic id, and by nothing else
    if by_id:
        topics = response.topics or ()
        rows = [(t.topic_id, row) for t in topics for row in t.partition_errors or ()]
    else:
        rows = [(row.topic_name, row) for row in response.partition_errors or ()]
    errors = _worst_errors(rows)
    missing = response.error_code or UNKNOWN_SERVER_ERROR
    results = []
    for state in request.states:
        topic = messages.topic_uuid(state.topic_id) if by_id else state.partition.topic
        error = errors.get((topic, state.partition.partition), missing)
        results.append(LeaderAndIsrResult(state.partition, state.leader_epoch, error))
    return tuple(results)


def _stop_replica_results(
    request: ports.StopReplica, response: ApiMessage
) -> tuple[StopReplicaResult, ...]:
    errors = _worst_errors((row.topic_name, row) for row in response.partition_errors or ())
    missing = response.error_code or UNKNOWN_SERVER_ERROR
    return tuple(
        StopReplicaResult(
            state.partition,
            state.leader_epoch,
            state.delete,
            errors.get((state.partition.topic, state.partition.partition), missing),
        )
        for state in request.states
    )


def _worst_errors(rows: Iterable[tuple[object, Any]]) -> Mapping[tuple[object, int], int]:
    """Return errors by topic and partition; one replaces a success if a partition comes twice."""
    errors: dict[tuple[object, int], int] = {}
    for topic, row in rows:
        key = topic, row.partition_index
        errors[key] = errors.get(key) or row.error_code
    return errors
