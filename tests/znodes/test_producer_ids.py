"""Tests of ``controller.znodes.producer_ids``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.calls.broker_requests import ProducerIdBlock
from controller.core.model import BrokerId
from controller.znodes.producer_ids import decode_producer_ids, encode_producer_ids

BLOCK = ProducerIdBlock(BrokerId(3), 1000, 1999)


def test_what_is_written_is_read() -> None:
    """As Kafka writes it: the bounds are strings."""
    assert decode_producer_ids(encode_producer_ids(BLOCK)) == BLOCK
    written = b'{"version":1,"broker":3,"block_start":"1000","block_end":"1999"}'
    assert decode_producer_ids(written) == BLOCK


def test_new_znode_has_no_block() -> None:
    """Brokers create it without content."""
    assert decode_producer_ids(b"") is None


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b'{"version":2,"broker":3,"block_start":"0","block_end":"999"}',
        b'{"version":1,"broker":"3","block_start":"0","block_end":"999"}',
        b'{"version":1,"broker":3,"block_start":0,"block_end":999}',
        b'{"version":1,"broker":3,"block_start":"1000","block_end":"999"}',
        b'{"version":1,"broker":3,"block_start":"0","block_end":"9223372036854775808"}',
        b'{"version":1,"broker":3,"block_start":"-5","block_end":"999"}',
        b'{"version":1,"broker":3}',
    ],
)
def test_unreadable_content_is_refused(data: bytes) -> None:
    """Ids that follow from a guess may be in use."""
    assert isinstance(decode_producer_ids(data), str)


@given(st.binary(max_size=60))
def test_no_content_raises(data: bytes) -> None:
    """Other clients write the znode, too."""
    assert decode_producer_ids(data) is None or isinstance(
        decode_producer_ids(data), str | ProducerIdBlock
    )
