"""
Live settings of operators, the znodes of ``/reassigner/control``: pauses, limits, and others.

Commands write them, and operators may edit them by hand. So they are decoded as strictly as a plan:
an ignored unknown key would be a limit without effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.pacing.controls import (
    BrokerLimits,
    Drain,
    Drains,
    Evacuation,
    Evacuations,
    Limits,
    Pause,
    Pauses,
    QueueOrder,
    Quiesce,
    RequestLimits,
    UnderMinIsr,
)
from controller.core.requests.submissions import AUTO, PRIORITY_MAX, Throttle, Window
from controller.znodes import json_documents as documents
from controller.znodes.json_documents import Members, UnreadableError, excerpt, total
from controller.znodes.paths import parse_number, read_request, valid_topic

_PAUSES: Final = frozenset({"version", "everything", "requests", "brokers", "quiesce"})
_PAUSE: Final = frozenset(member.name for member in fields(Pause))
_QUIESCE: Final = frozenset(member.name for member in fields(Quiesce))
_DRAINS: Final = frozenset({"version", "brokers", "throttle", "window"})
_DRAIN: Final = frozenset(member.name for member in fields(Drain))
_EVACUATIONS: Final = frozenset({"version", "brokers", "former"})
_EVACUATION: Final = frozenset(member.name for member in fields(Evacuation))
_LIMITS: Final = frozenset({"version", *(limit.name for limit in fields(Limits))})
_BROKER: Final = frozenset(limit.name for limit in fields(BrokerLimits))
_REQUEST: Final = frozenset(limit.name for limit in fields(RequestLimits))
_ORDERS: Final = {order.value: order for order in QueueOrder}
_BRAKES: Final = {brake.value: brake for brake in UnderMinIsr}

_Choice = TypeVar("_Choice", QueueOrder, UnderMinIsr)


# --- pauses --------------------------------------------------------------------------------------


@total
def decode_pauses(data: bytes) -> Pauses:
    """Decode pauses."""
    members = _members(data, _PAUSES)
    everything = _pause(members.within("everything", members.mapping("everything"), _PAUSE))
    quiesce = _quiesce(members.within("quiesce", members.mapping("quiesce"), _QUIESCE))
    return Pauses(
        everything if "everything" in members else None,
        {request: _pause(own) for request, own in _by_request(members, _PAUSE)},
        {broker: _pause(own) for broker, own in _by_broker(members, _PAUSE)},
        quiesce if "quiesce" in members else None,
    )


def encode_pauses(pauses: Pauses) -> bytes:
    """Encode pauses."""
    document: dict[str, object] = {"version": 1}
    if pauses.everything is not None:
        document["everything"] = asdict(pauses.everything)
    if pauses.requests:
        document["requests"] = {r: asdict(p) for r, p in sorted(pauses.requests.items())}
    if pauses.brokers:
        document["brokers"] = {str(b): asdict(p) for b, p in sorted(pauses.brokers.items())}
    if pauses.quiesce is not None:
        given = asdict(pauses.quiesce)
        document["quiesce"] = {key: value for key, value in given.items() if value is not None}
    return documents.write_document(document)


def _pause(members: Members) -> Pause:
    return Pause(members.text("reason"), members.text("by"), _time(members, "since_ms") or 0)


def _quiesce(members: Members) -> Quiesce:
    pause = _pause(members)
    return Quiesce(pause.reason, pause.by, pause.since_ms, _time(members, "deadline_ms"))


def _time(members: Members, key: str) -> int | None:
    return members.number(key, low=0, high=documents.LONG_MAX)


# --- limits --------------------------------------------------------------------------------------


@total
def decode_limits(data: bytes) -> Limits:
    """Decode the limits that operators changed."""
    members = _members(data, _LIMITS)
    return Limits(
        max_partitions_in_flight=members.number("max_partitions_in_flight"),
        max_incoming_per_broker=members.number("max_incoming_per_broker"),
        max_outgoing_per_broker=members.number("max_outgoing_per_broker"),
        max_bytes_in_flight=members.rate("max_bytes_in_flight"),
        max_leader_moves_per_broker_per_second=members.number(
            "max_leader_moves_per_broker_per_second"
        ),
        step_size=members.step_size("step_size"),
        order=_one_of(members, "order", _ORDERS),
        under_min_isr=_one_of(members, "under_min_isr", _BRAKES),
        window=members.window("window"),
        brokers={broker: _broker_limits(own) for broker, own in _by_broker(members, _BROKER)},
        requests={request: _request_limits(own) for request, own in _by_request(members, _REQUEST)},
    )


def encode_limits(limits: Limits) -> bytes:
    """Encode the limits that operators changed."""
    document = {"version": 1} | _given_limits(limits)
    if limits.brokers:
        document["brokers"] = {
            str(b): _given_limits(own) for b, own in sorted(limits.brokers.items())
        }
    if limits.requests:
        document["requests"] = {r: _given_limits(own) for r, own in sorted(limits.requests.items())}
    return documents.write_document(document)


def _given_limits(limits: Limits | BrokerLimits | RequestLimits) -> dict[str, object]:
    """Return the limits that have a value, without those of single brokers and requests."""
    values = {limit.name: getattr(limits, limit.name) for limit in fields(limits)}
    return {
        name: str(value) if isinstance(value, Window | StrEnum) else value
        for name, value in values.items()
        if value is not None and not isinstance(value, Mapping)
    }


def _one_of(members: Members, key: str, values: Mapping[str, _Choice]) -> _Choice | None:
    if key not in members:
        return None
    named = members.text(key)
    if named not in values:
        raise members.error(f"{key} is one of {', '.join(values)}, not {excerpt(named)}")
    return values[named]


def _broker_limits(members: Members) -> BrokerLimits:
    # 0 is a limit too: no copies to, or from, that broker.
    return BrokerLimits(
        max_incoming=members.number("max_incoming", low=0),
        max_outgoing=members.number("max_outgoing", low=0),
    )


def _request_limits(members: Members) -> RequestLimits:
    return RequestLimits(
        priority=members.number("priority", -PRIORITY_MAX, PRIORITY_MAX),
        step_size=members.step_size("step_size"),
        max_partitions_in_flight=members.number("max_partitions_in_flight"),
        throttle=members.throttle("throttle"),
        window=members.window("window"),
        tolerate_lagging=members.broker_ids("tolerate_lagging"),
    )


# --- throttle ------------------------------------------------------------------------------------


class CommonThrottle(NamedTuple):
    """The throttle of all requests; a reason why one cannot be decoded is a text, as ``AUTO``."""

    throttle: Throttle


@total
def decode_throttle(data: bytes) -> CommonThrottle:
    """Decode the throttle of all requests."""
    members = _members(data, frozenset({"version", "bytes_per_s", "throttle"}))
    if ("bytes_per_s" in members) == ("throttle" in members):
        raise UnreadableError('it has one of bytes_per_s and "throttle": "auto"')
    if "throttle" not in members:
        return CommonThrottle(members.rate("bytes_per_s") or 0)
    if members.throttle("throttle") != AUTO:
        raise UnreadableError('throttle is "auto"; a rate is bytes_per_s')
    return CommonThrottle(AUTO)


def encode_throttle(throttle: Throttle) -> bytes:
    """Encode the throttle of all requests."""
    key = "throttle" if throttle == AUTO else "bytes_per_s"
    return documents.write_document({"version": 1, key: throttle})


# --- drains --------------------------------------------------------------------------------------


@total
def decode_drains(data: bytes, version: ZkVersion, czxid: Zxid) -> Drains:
    """Decode the drained brokers; the creation of the znode identifies their request."""
    members = _members(data, _DRAINS)
    return Drains(
        {broker: _drain(own) for broker, own in _by_broker(members, _DRAIN)},
        members.throttle("throttle"),
        members.window("window"),
        version,
        czxid,
    )


def encode_drains(drains: Drains) -> bytes:
    """Encode the drained brokers."""
    document: dict[str, object] = {"version": 1}
    document["brokers"] = {str(b): asdict(d) for b, d in sorted(drains.brokers.items())}
    if drains.throttle is not None:
        document["throttle"] = drains.throttle
    if drains.window is not None:
        document["window"] = str(drains.window)
    return documents.write_document(document)


def _drain(members: Members) -> Drain:
    since_ms = members.number("since_ms", low=0, high=documents.LONG_MAX)
    return Drain(
        members.text("reason"), members.text("by"), since_ms or 0, members.text("approved_by")
    )


# --- evacuations ---------------------------------------------------------------------------------


@total
def decode_evacuations(data: bytes) -> Evacuations:
    """Decode the evacuated brokers, and the former order of replicas."""
    members = _members(data, _EVACUATIONS)
    return Evacuations(
        {broker: _evacuation(own) for broker, own in _by_broker(members, _EVACUATION)},
        dict(_orders(members.mapping("former"))),
    )


@total
def decode_evacuated(data: bytes) -> Mapping[BrokerId, Evacuation]:
    """Decode the evacuated brokers alone; nothing is made of each partition."""
    members = _members(data, _EVACUATIONS)
    return {broker: _evacuation(own) for broker, own in _by_broker(members, _EVACUATION)}


def encode_evacuations(evacuations: Evacuations) -> bytes:
    """Encode evacuations."""
    former: dict[str, dict[str, Replicas]] = {}
    for partition, replicas in sorted(evacuations.former.items()):
        former.setdefault(partition.topic, {})[str(partition.partition)] = replicas
    brokers = {str(b): asdict(about) for b, about in sorted(evacuations.brokers.items())}
    return documents.write_document({"version": 1, "brokers": brokers, "former": former})


def _evacuation(members: Members) -> Evacuation:
    pause = _pause(members)
    return Evacuation(pause.reason, pause.by, pause.since_ms, members.flag("returning"))


def _orders(topics: documents.Document) -> Iterator[tuple[TopicPartition, Replicas]]:
    for topic, partitions in topics.items():
        where = f"former: {excerpt(topic)}: "
        if not valid_topic(topic) or not documents.is_object(partitions):
            raise UnreadableError(f"{where}it is not a topic with partitions")
        for name, replicas in partitions.items():
            number = parse_number(name)
            if number is None:
                raise UnreadableError(f"{where}{excerpt(name)} is not a partition")
            yield TopicPartition(topic, number), documents.read_replicas(replicas, where)


# --- shared --------------------------------------------------------------------------------------


def _members(data: bytes, known: frozenset[str]) -> Members:
    return Members(documents.read_versioned(data, unique=True), known)


def _by_request(members: Members, known: frozenset[str]) -> Iterator[tuple[RequestId, Members]]:
    for name, value in members.mapping("requests").items():
        yield read_request(name, "requests: "), members.within(f"requests: {name}", value, known)


def _by_broker(members: Members, known: frozenset[str]) -> Iterator[tuple[BrokerId, Members]]:
    for name, value in members.mapping("brokers").items():
        number = parse_number(name)
        if number is None:
            raise UnreadableError(f"brokers: {excerpt(name)} is not a broker id")
        yield BrokerId(number), members.within(f"brokers: {name}", value, known)
