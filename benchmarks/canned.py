"""
The controller's requests, read and answered as fast as Python can: for simulated brokers only.

Versions that a controller sends at inter-broker protocol 2.6 (LeaderAndIsr 4, StopReplica 3,
UpdateMetadata 6), taken apart by hand because a general decoder would be the bottleneck of a fleet.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
API_VERSIONS: Final = 18
DESCRIBE_LOG_DIRS: Final = 35
LOG_DIRS_VERSION: Final = 1
LOG_DIR: Final = "/data"

VERSIONS: Final = {LEADER_AND_ISR: 4, STOP_REPLICA: 3, UPDATE_METADATA: 6, API_VERSIONS: 2}
"""The one version of each request that is understood."""

_HEADER: Final = struct.Struct(">hhih")
_STATE: Final = struct.Struct(">iiii")
_INT: Final = struct.Struct(">i")
_REPLICA: Final = struct.Struct(">iqqb")
_STOP: Final = struct.Struct(">iib")
_NO_TAGS: Final = b"\x00"
_FLEXIBLE: Final = frozenset({LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA})
_FIRST_FIELDS: Final = 16
"""Controller id and epoch, broker epoch."""
_COUNT_MAX_BYTES: Final = 5


class Request(NamedTuple):
    """A request taken out of its frame."""

    api_key: int
    version: int
    correlation_id: int
    body: memoryview


class State(NamedTuple):
    """One partition of a LeaderAndIsr."""

    topic: str
    partition: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]


def request_of(frame: bytes) -> Request:
    """Take a frame apart."""
    api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
    start = _HEADER.size + max(length, 0) + (1 if api_key in _FLEXIBLE else 0)
    return Request(api_key, version, correlation_id, memoryview(frame)[start:])


def states_of(body: memoryview) -> list[State]:
    """Return what a LeaderAndIsr says of each partition."""
    states: list[State] = []
    at = _FIRST_FIELDS
    topics, at = _count(body, at)
    for _ in range(topics):
        topic, at = _text(body, at)
        partitions, at = _count(body, at)
        for _ in range(partitions):
            partition, controller_epoch, leader, leader_epoch = _STATE.unpack_from(body, at)
            isr, at = _ids(body, at + _STATE.size)
            (partition_epoch,) = _INT.unpack_from(body, at)
            replicas, at = _ids(body, at + _INT.size)
            _, at = _ids(body, at)
            _, at = _ids(body, at)
            at += 2  # whether it is new, and no tags
            states.append(
                State(
                    topic,
                    partition,
                    controller_epoch,
                    leader,
                    leader_epoch,
                    isr,
                    partition_epoch,
                    replicas,
                )
            )
        at += 1
    return states


def stopped_of(body: memoryview) -> list[tuple[str, int]]:
    """Return the partitions a StopReplica names."""
    stopped: list[tuple[str, int]] = []
    at = _FIRST_FIELDS
    topics, at = _count(body, at)
    for _ in range(topics):
        topic, at = _text(body, at)
        partitions, at = _count(body, at)
        for _ in range(partitions):
            partition, _, _ = _STOP.unpack_from(body, at)
            at += _STOP.size + 1
            stopped.append((topic, partition))
        at += 1
    return stopped


def answer_versions(request: Request, *, describes_disks: bool) -> bytes:
    """Answer ApiVersions, of whichever version, as version 0 does when it cannot: Kafka's rule."""
    versions = VERSIONS | ({DESCRIBE_LOG_DIRS: LOG_DIRS_VERSION} if describes_disks else {})
    if request.version > VERSIONS[API_VERSIONS]:
        return _framed(request.correlation_id, struct.pack(">h", 35) + _listed(versions))
    throttle = _INT.pack(0) if request.version else b""
    return _framed(request.correlation_id, struct.pack(">h", 0) + _listed(versions) + throttle)


def answer_log_dirs(request: Request, held: Mapping[str, Collection[int]], size: int) -> bytes:
    """Answer DescribeLogDirs, whatever was asked: one directory with these partitions, one size."""
    body = bytearray(_INT.pack(0) + _INT.pack(1) + b"\x00\x00")
    body += _string(LOG_DIR) + _INT.pack(len(held))
    for topic, partitions in held.items():
        body += _string(topic) + _INT.pack(len(partitions))
        for partition in partitions:
            body += _REPLICA.pack(partition, size, 0, 0)
    return _framed(request.correlation_id, bytes(body))


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def answer_partitions(request: Request, partitions: list[tuple[str, int]]) -> bytes:
    """Answer LeaderAndIsr or StopReplica: no error anywhere."""
    body = bytearray(_NO_TAGS + b"\x00\x00" + _counted(len(partitions)))
    name, head = "", b""
    for topic, partition in partitions:
        if topic != name:
            encoded = topic.encode()
            name, head = topic, _counted(len(encoded)) + encoded
        body += head + _INT.pack(partition) + b"\x00\x00" + _NO_TAGS
    return _framed(request.correlation_id, bytes(body) + _NO_TAGS)


def answer_metadata(request: Request) -> bytes:
    """Answer UpdateMetadata, unread."""
    return _framed(request.correlation_id, _NO_TAGS + b"\x00\x00" + _NO_TAGS)


def _listed(versions: dict[int, int]) -> bytes:
    rows = b"".join(struct.pack(">hhh", key, 0, version) for key, version in versions.items())
    return _INT.pack(len(versions)) + rows


def _framed(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def _counted(number: int) -> bytes:
    """Encode the size of a compact string or array: one more than it is, seven bits a byte."""
    return bytes(_septets(number + 1))


def _septets(number: int) -> Iterator[int]:
    while number > 0x7F:
        yield number & 0x7F | 0x80
        number >>= 7
    yield number


def _count(body: memoryview, at: int) -> tuple[int, int]:
    value = body[at]
    if value < 0x80:
        return value - 1, at + 1
    value &= 0x7F
    for n in range(1, _COUNT_MAX_BYTES):
        byte = body[at + n]
        value |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            return value - 1, at + n + 1
    raise ValueError(f"no count at {at}")


def _text(body: memoryview, at: int) -> tuple[str, int]:
    length, at = _count(body, at)
    return str(body[at : at + length], "utf-8"), at + length


def _ids(body: memoryview, at: int) -> tuple[tuple[int, ...], int]:
    number, at = _count(body, at)
    return struct.unpack_from(f">{number}i", body, at), at + 4 * number
