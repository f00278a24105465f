"""The codec of cancellations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import Cancellation, CancelScope, Window
from controller.znodes.cancellations import decode_cancellation, encode_cancellation
from tests.znodes.strategies import ANY_BYTES, PARTITIONS, REQUESTS, TOPICS, WORDS, document

CANCELLATIONS = st.builds(
    Cancellation,
    version=st.just(ZkVersion(2)),
    czxid=st.just(Zxid(8)),
    created_ms=st.just(1000),
    requests=st.frozensets(REQUESTS, max_size=3),
    topics=st.frozensets(TOPICS, max_size=3),
    partitions=st.frozensets(PARTITIONS, max_size=3),
    scope=st.sampled_from(CancelScope),
    reason=WORDS,
    requested_by=WORDS,
).flatmap(
    lambda c: (
        st.just(c)
        if c.scope is not CancelScope.ALL
        else st.builds(
            replace,
            st.just(c),
            throttle=st.none() | st.integers(1, 10**12),
            window=st.none() | st.just(Window(22 * 60, 5 * 60, "Europe/Berlin")),
        )
    )
)


def decode(data: bytes) -> Cancellation:
    """Decode as if read at version 2."""
    return decode_cancellation(data, ZkVersion(2), Zxid(8), 1000)


@given(CANCELLATIONS)
def test_what_is_encoded_is_decoded(cancellation: Cancellation) -> None:
    """A round trip loses nothing; above all it never selects more."""
    assert decode(encode_cancellation(cancellation)) == cancellation


@given(ANY_BYTES)
def test_any_bytes_give_a_cancellation(data: bytes) -> None:
    """No bytes whatever raise; what is unreadable selects nothing by itself and is kept."""
    read = decode(data)
    assert (read.version, read.czxid, read.created_ms) == (2, 8, 1000)
    assert read.unreadable is None or read.raw == data


def test_an_empty_node_is_everything_in_progress() -> None:
    """As KIP-236 has it."""
    read = decode(b"")
    assert read.is_everything
    assert (read.scope, read.unreadable) == (CancelScope.IN_FLIGHT, None)
    assert encode_cancellation(read) == b""


def test_selections_are_read() -> None:
    """Requests, topics and partitions side by side."""
    read = decode(
        document(
            requests=["request_0000000001"],
            topics=["t"],
            partitions=[{"topic": "u", "partition": 3}],
            scope="all",
        )
    )
    assert read.requests == {RequestId("request_0000000001")}
    assert read.topics == {"t"}
    assert read.partitions == {TopicPartition("u", 3)}
    assert read.scope is CancelScope.ALL
    assert not read.is_everything


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b" ", "JSON"),
        (b"null", "object"),
        (document(version=2), "version 2"),
        (document(requests=[]), "requests is empty"),
        (document(topics=[], requests=["r"]), "topics is empty"),
        (document(requests="r"), "requests is not a list"),
        (document(requests=["../r"]), "request id"),
        (document(topics=["a/b"]), "topic name"),
        (document(partitions=["t-0"]), "not a partition"),
        (document(partitions=[{"topic": "t", "partition": 0, "to": 1}]), "not a partition"),
        (document(scope="everything"), "scope"),
        (document(topic=["t"]), "topic"),
        (document(requests=["r"], throttle=1), "throttle and window are for finished"),
        (document(requests=["r"], scope="all", throttle=0), "throttle"),
        (document(requests=["r"], scope="all", window="night"), "window"),
        (document(reason=5), "reason"),
        (b'{"topics":["t"],"topics":["u"]}', "twice"),
    ],
)
def test_what_is_not_understood_cancels_nothing(data: bytes, why: str) -> None:
    """Least of all everything."""
    read = decode(data)
    assert read.unreadable is not None
    assert why in read.unreadable
