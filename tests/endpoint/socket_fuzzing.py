"""
Frames that no broker sends, to a running server.

``python -m tests.endpoint.socket_fuzzing [--seed N] [--count N]`` sends ``count`` of them over TCP.
Each is answered or closes its connection, and the server serves others as before.
"""

from __future__ import annotations

import argparse
import random
import socket
import struct
from collections import Counter
from typing import cast

from kafka.protocol.api_key import ApiKey

from controller.core.calls.broker_requests import BrokerAnswer
from controller.core.calls.records import BrokerRequestReceived
from controller.endpoint import codec
from controller.endpoint.peers import EndpointLimits
from tests.endpoint.fuzzing import answer_to, hostile_frame
from tests.endpoint.requests import request_frame
from tests.endpoint.serving import Served, answer_of, framed, serving

HELLO = framed(request_frame(ApiKey.ApiVersions, 3))
HONEST_EVERY = 500
"""After so many frames, a peer that behaves well has to be served."""


def answered(event: BrokerRequestReceived) -> BrokerAnswer:
    """Return an answer that contains what the request contains."""
    return cast("BrokerAnswer", answer_to(event.request))


def fuzz_socket(count: int, seed: int = 0) -> Counter[str]:
    """
    Send as many frames; count those that are answered and those that close the connection.

    Raises:
        AssertionError: an answer has another correlation id, or an honest peer is not served.
        TimeoutError: a frame is neither answered nor closes its connection.

    """
    outcomes: Counter[str] = Counter()
    with serving(answered, EndpointLimits(frame_s=0.2)) as served:
        peer = served.connect()
        for each in range(seed, seed + count):
            outcome = _sent(peer, each)
            outcomes[outcome] += 1
            if outcome == "closed":
                peer.close()
                peer = served.connect()
            if each % HONEST_EVERY == 0:
                _is_served(served)
        peer.close()
        _is_served(served)
        outcomes["errors"] = served.counts.refused["error"]
    return outcomes


def _sent(peer: socket.socket, seed: int) -> str:
    """Send a frame, a few of them with a wrong length or in pieces; return what came of it."""
    dice, frame = random.Random(seed), hostile_frame(seed)
    whole = framed(frame)
    if dice.random() < 0.01:
        whole = struct.pack(">i", dice.choice((-1, 0, 2**31 - 1, codec.FRAME_MAX + 1))) + frame
    cut = dice.randrange(len(whole)) if dice.random() < 0.1 else len(whole)
    try:
        peer.sendall(whole[:cut])
        peer.sendall(whole[cut:])
    except ConnectionError:
        return "closed"
    answer = answer_of(peer)
    if not answer:
        return "closed"
    assert answer[:4] == frame[4:8], f"seed {seed}: {frame.hex()}"
    return "answered"


def _is_served(served: Served) -> None:
    """Let a peer that behaves well ask."""
    with served.connect() as honest:
        honest.sendall(HELLO)
        assert struct.unpack_from(">ih", answer_of(honest)) == (77, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print(dict(fuzz_socket(chosen.count, chosen.seed)))  # noqa: T201 - the result of the command
