"""The codecs of what is kept of a request beside its summary."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import (
    OutcomeKind,
    PartitionOutcome,
    Refusal,
    RefusalReason,
    RequestId,
    ZkVersion,
    Zxid,
)
from controller.core.requests.outcomes import Part
from controller.core.requests.submissions import AcceptedEntry
from controller.znodes.histories import (
    decode_accepted,
    decode_ended,
    decode_part,
    encode_accepted,
    encode_ended,
    encode_part,
)
from tests.znodes.strategies import ANY_BYTES, OPTIONS, PARTITIONS, REPLICAS, WORDS, document

R = RequestId("request_0000000001")
PARTS = st.builds(
    Part,
    st.from_regex(r"request_[0-9]{10}", fullmatch=True) | st.integers(0, 2**31 - 1).map(str),
    st.integers(0, 2**31),
    st.integers(0, 2**63 - 1),
    OPTIONS,
)
ACCEPTED = st.builds(AcceptedEntry, PARTITIONS, st.none() | REPLICAS, REPLICAS)
REFUSALS = st.builds(
    Refusal,
    st.just(R),
    WORDS,
    st.sampled_from(RefusalReason),
    WORDS,
    st.none() | PARTITIONS,
    st.integers(0, 2**31 - 1),
    st.booleans(),
)
_OUTCOMES = (st.just(R), PARTITIONS, st.sampled_from(OutcomeKind))
ENDINGS = st.builds(
    PartitionOutcome, *_OUTCOMES, WORDS.filter(lambda words: not words.startswith("by "))
) | st.builds(
    PartitionOutcome,
    *_OUTCOMES,
    by=st.from_regex(r"cancel-[0-9a-f]{16}", fullmatch=True).map(RequestId),
)


@given(PARTS)
def test_a_part_comes_back_as_it_was_written(part: Part) -> None:
    """Path and content together say everything."""
    assert decode_part(f"part-{part.name}", encode_part(part)) == part


@pytest.mark.parametrize("version", ["0", "12"])
def test_the_part_of_a_cancellation_is_named_by_its_version(version: str) -> None:
    """Else a restarted daemon would choose anew, and cancel what was asked for later."""
    part = Part(version, 0, 5)
    assert decode_part(f"part-{version}", encode_part(part)) == part


def test_the_part_of_a_cancellation_says_what_it_cancels_and_undoes() -> None:
    """By request; a part without them is one of an earlier release."""
    one, two = RequestId("request_0000000001"), RequestId("drain-000000000000000a")
    part = Part("0", 0, 5, cancels={one: 2}, undoes={one: 3, two: 1})
    assert decode_part("part-0", encode_part(part)) == part
    assert decode_part("part-0", encode_part(Part("0", 0, 5))) == Part("0", 0, 5)
    for wrong in (b'{"": 1}', b'{"request_0000000001": "1"}', b"[]"):
        data = b'{"version": 1, "total": 0, "created_ms": 5, "undoes": ' + wrong + b"}"
        assert isinstance(decode_part("part-0", data), str)


def test_a_part_keeps_the_version_that_was_verified() -> None:
    """The rest of an approved request is accepted by it after a restart."""
    part = Part("request_0000000001", 2, 5, approved_version=ZkVersion(3))
    assert decode_part("part-request_0000000001", encode_part(part)) == part


@given(st.lists(ACCEPTED, max_size=5))
def test_accepted_entries_come_back_in_their_order(entries: list[AcceptedEntry]) -> None:
    """A round trip loses nothing; unknown originals stay unknown."""
    assert decode_accepted(encode_accepted(entries)) == tuple(entries)
    recorded = tuple(replace(entry, recorded_in=Zxid(7)) for entry in entries)
    assert decode_accepted(encode_accepted(entries), Zxid(7)) == recorded


@given(st.lists(REFUSALS, max_size=4), st.lists(ENDINGS, max_size=4))
def test_exceptions_come_back_as_they_were_written(
    refusals: list[Refusal], endings: list[PartitionOutcome]
) -> None:
    """A round trip loses nothing."""
    assert decode_ended(R, encode_ended(refusals, endings)) == (tuple(refusals), tuple(endings))


@given(st.text(max_size=30), ANY_BYTES)
def test_any_bytes_give_a_value_or_a_reason(name: str, data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_part(name, data), str | Part)
    assert isinstance(decode_part(f"part-{R}", data), str | Part)
    assert isinstance(decode_accepted(data), str | tuple)
    assert isinstance(decode_ended(R, data), str | tuple)


@pytest.mark.parametrize("name", ["part-", "part-x", "part-../x", "request_0000000001", "summary"])
def test_what_is_not_named_like_a_part_is_none(name: str) -> None:
    """Nothing is made up for it."""
    assert isinstance(decode_part(name, document(version=1, total=1, created_ms=0)), str)


@pytest.mark.parametrize(
    "row", [["t", 0, [1]], ["t", 0, None, None], ["a/b", 0, [1], [1]], ["t", True, [1], [1]], "t"]
)
def test_a_bad_row_refuses_the_shard(row: object) -> None:
    """A partition is never led back to replicas that are half right."""
    assert isinstance(decode_accepted(document(version=1, accepted=[row])), str)


def test_an_unknown_fate_is_refused() -> None:
    """Written by a version of the future."""
    data = document(version=1, refused=[], ended=[["t", 0, "later", ""]])
    assert isinstance(decode_ended(R, data), str)
