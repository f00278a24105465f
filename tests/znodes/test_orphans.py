"""Replicas that could not be deleted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerEpoch, Zxid
from controller.core.reassignments.model import Orphan
from controller.znodes.reassignments import decode_orphan, encode_orphan
from tests.znodes.strategies import ANY_BYTES, BROKERS, PARTITIONS, document

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


EPOCHS = st.none() | st.integers(0, 2**63 - 1).map(BrokerEpoch)


@given(st.builds(Orphan, BROKERS, PARTITIONS, st.integers(0, 2**63 - 1).map(Zxid), WORDS, EPOCHS))
def test_what_is_encoded_is_decoded(orphan: Orphan) -> None:
    """Path and content together say everything."""
    read = decode_orphan(str(orphan.broker), str(orphan.partition), encode_orphan(orphan))
    assert read == orphan


@given(st.text(), st.text(), ANY_BYTES)
def test_any_path_and_bytes_give_an_orphan_or_a_reason(broker: str, name: str, data: bytes) -> None:
    """Nothing whatever raises."""
    assert isinstance(decode_orphan(broker, name, data), str | Orphan)
    assert isinstance(decode_orphan("1", "t-0", data), str | Orphan)


@pytest.mark.parametrize(
    ("broker", "name", "data"),
    [
        ("x", "t-0", document(version=1, topic_czxid=1, reason="")),
        ("1", "t", document(version=1, topic_czxid=1, reason="")),
        ("1", "t-0", document(version=1, topic_czxid=-1, reason="")),
        ("1", "t-0", document(version=1, topic_czxid=1)),
        ("1", "t-0", document(topic_czxid=1, reason="")),
        ("1", "t-0", document(version=1, topic_czxid=1, reason="", failed_in="1")),
    ],
)
def test_what_is_no_orphan_is_refused(broker: str, name: str, data: bytes) -> None:
    """Nothing is deleted on a guess."""
    assert isinstance(decode_orphan(broker, name, data), str)
