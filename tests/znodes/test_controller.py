"""The codec of ``/controller``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.znodes.brokers_and_controller import (
    ControllerNode,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
)
from tests.znodes.strategies import ANY_BYTES, EPOCHS, document


@given(EPOCHS, st.integers(0, 2**60))
def test_what_is_encoded_is_decoded(controller_id: int, timestamp_ms: int) -> None:
    """Ours is an ordinary ZooKeeper-mode controller."""
    read = decode_controller(encode_controller(controller_id, timestamp_ms))
    assert read == ControllerNode(controller_id)  # type: ignore[arg-type]


def test_the_timestamp_is_a_text() -> None:
    """As in every Kafka version."""
    assert encode_controller(5, 12) == b'{"version":1,"brokerid":5,"timestamp":"12"}'


def test_a_kraft_epoch_is_read() -> None:
    """Format 2; a KRaft controller during a migration."""
    read = decode_controller(document(version=2, brokerid=3000, kraftControllerEpoch=4))
    assert isinstance(read, ControllerNode)
    assert read.kraft_controller_epoch == 4


@given(ANY_BYTES)
def test_any_bytes_give_a_controller_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_controller(data), str | ControllerNode)
    assert isinstance(decode_controller_epoch(data), str | int)


@given(st.integers(0, 2**31 - 2))
def test_an_epoch_is_plain_digits(epoch: int) -> None:
    """Not JSON."""
    assert decode_controller_epoch(str(epoch).encode()) == epoch


@pytest.mark.parametrize("data", [b"", b"-1", b" 1", b"1\n", b"1.0", b"2147483647", b"9" * 5000])
def test_what_is_no_epoch_is_refused(data: bytes) -> None:
    """Nor one that could not be incremented."""
    assert isinstance(decode_controller_epoch(data), str)
