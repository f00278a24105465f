"""
Frames that no broker sends, for the codec of the controller endpoint.

``python -m tests.endpoint.fuzzing [--seed N] [--count N]`` decodes ``count`` of them and stops at
the first that does anything but return a request or raise ``RemoteProtocolError``.
"""

from __future__ import annotations

import argparse
import random
import struct
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from kafka.protocol.api_key import ApiKey

from controller.core.calls import broker_requests, client_requests
from controller.core.calls.client_requests import CreatePartitionsAnswer, CreateTopicsAnswer
from controller.core.model import BrokerId
from controller.core.topics.model import TopicResult
from controller.endpoint import client_codec, codec, topic_codec
from controller.errors import RemoteProtocolError
from tests.endpoint.requests import (
    CLIENT_VERSIONS,
    EVERY_VERSION,
    client_frame,
    request_frame,
    unclean_frame,
)

SECONDS_MAX: Final = 0.5
"""Time of the processor for one frame, which is far more than a thousand bytes can cost."""
FRAME_LENGTH_MAX: Final = 1000
OWN_ID: Final = 1_000_000

_OFFERED: Final = [*EVERY_VERSION, *CLIENT_VERSIONS]
_VALID: Final = [
    *(request_frame(key, version) for key, version in EVERY_VERSION),
    *(client_frame(key, version) for key, version in CLIENT_VERSIONS),
    unclean_frame(),
]
_EDGES: Final = [
    *(struct.pack(">i", n) for n in (-1, -2, 2**31 - 1, -(2**31), 2**24)),
    *(struct.pack(">h", n) for n in (-1, -2, 2**15 - 1, -(2**15))),
    *(b"\xff" * n for n in range(1, 11)),
    *(b"\x80" * n for n in range(1, 11)),
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x00",
    b"\x01",
]
"""Lengths and counts at the limits of their types."""


def _overwrite(frame: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(frame))
    edge = dice.choice(_EDGES)
    frame[at : at + len(edge)] = edge


def _insert(frame: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(frame) + 1)
    frame[at:at] = dice.choice([*_EDGES, dice.randbytes(dice.randrange(1, 9))])


def _flip(frame: bytearray, dice: random.Random) -> None:
    frame[dice.randrange(len(frame))] ^= 1 << dice.randrange(8)


def _cut(frame: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(frame))
    del frame[at : at + dice.randrange(1, 9)]


def _repeat(frame: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(frame))
    part = bytes(frame[at : at + dice.randrange(1, 40)])
    frame[at:at] = part * dice.randrange(1, 6)


def _join(frame: bytearray, dice: random.Random) -> None:
    frame[dice.randrange(len(frame)) :] = dice.choice(_VALID)[dice.randrange(10) :]


_MUTATIONS: Final[list[Callable[[bytearray, random.Random], None]]] = [
    _overwrite,
    _insert,
    _flip,
    _cut,
    _repeat,
    _join,
]


def hostile_frame(seed: int) -> bytes:
    """Return a frame: mostly a valid one that was changed in a few places, else random bytes."""
    dice = random.Random(seed)
    if dice.random() < 0.1:
        key, version = dice.choice(_OFFERED)
        header = struct.pack(">hhi", key, version, dice.getrandbits(31))
        return header[: dice.randrange(9)] + dice.randbytes(dice.randrange(FRAME_LENGTH_MAX))
    frame = bytearray(dice.choice(_VALID))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        if frame:
            dice.choice(_MUTATIONS)(frame, dice)
    return bytes(frame[:FRAME_LENGTH_MAX])


def outcome_of(frame: bytes) -> str:
    """
    Decode a frame, and encode an answer to what it contains.

    Returns:
        The name of the request, or ``refused``.

    Raises:
        AssertionError: it took too long.
        Exception: anything but RemoteProtocolError, which is the defect this looks for.
    """
    began = time.process_time()
    try:
        if codec.header_of(frame).api_key not in codec.ADVERTISED:
            return _client_outcome_of(frame)
        header, request = codec.decode(frame)
    except RemoteProtocolError:
        return "refused"
    finally:
        assert time.process_time() - began < SECONDS_MAX
    answer = answer_to(request)
    if answer is None:
        codec.api_versions_response(header, codec.ADVERTISED)
    else:
        codec.encode(header, answer)
    return type(request).__name__


def _client_outcome_of(frame: bytes) -> str:
    """Do the same with a request of a client; other requests are relayed as they are."""
    header = codec.header_of(frame)
    if header.api_key in client_codec.SERVED:
        _, requested = client_codec.decode(frame, "a client")
        if requested is not None:
            client_codec.encode(header, client_requests.error_answer(requested, 41))
        return type(requested).__name__
    if header.api_key in client_codec.ENTRY_REQUESTS:
        local = client_codec.local_answer(header, frame, OWN_ID)
        return "relayed" if local is None else "local"
    lowest, highest = topic_codec.TOPICS_SERVED.get(header.api_key, (0, -1))
    if not lowest <= header.version <= highest:
        return "relayed"
    _, wanted = topic_codec.decode(frame)
    if header.api_key == ApiKey.DeleteTopics:
        ended = [topic_codec.DeletionResult(topic, 17, "é") for topic in wanted.deleted]
        topic_codec.encode_deletion(header, ended)
        return "DeleteTopicsAnswer"
    results = tuple(TopicResult(name, 17, name) for name in wanted.names)
    is_new = header.api_key == ApiKey.CreateTopics
    answer = CreateTopicsAnswer(0, results) if is_new else CreatePartitionsAnswer(0, results)
    topic_codec.encode(header, answer, {})
    return type(answer).__name__


def answer_to(request: codec.Request) -> codec.Answer | None:
    """Return an answer that contains what the request contains; None for ApiVersions."""
    match request:
        case broker_requests.AlterPartition():
            return broker_requests.AlterPartitionAnswer(
                0,
                tuple(
                    broker_requests.IsrResult(
                        c.topic,
                        c.topic_id,
                        c.partition,
                        0,
                        BrokerId(1),
                        c.leader_epoch,
                        c.isr,
                        c.leader_recovery_state,
                        c.partition_epoch,
                    )
                    for c in request.changes
                ),
            )
        case broker_requests.AllocateProducerIds():
            return broker_requests.ProducerIdsAnswer(0, 1000, 1000)
        case broker_requests.ControlledShutdown():
            return broker_requests.ControlledShutdownAnswer(0, ())
        case codec.SaslHandshake():
            return codec.SaslHandshakeAnswer((request.mechanism,))
        case codec.SaslAuthenticate():
            return codec.SaslAuthenticate(request.auth_bytes)
        case _:
            return None


def fuzz(count: int, seed: int = 0) -> Counter[str]:
    """Decode as many frames and count the outcomes."""
    outcomes: Counter[str] = Counter()
    for each in range(seed, seed + count):
        frame = hostile_frame(each)
        try:
            outcomes[outcome_of(frame)] += 1
        except Exception as error:
            error.add_note(f"seed {each}: {frame.hex()}")
            raise
    return outcomes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print(dict(fuzz(chosen.count, chosen.seed)))  # noqa: T201 - the result of the command
