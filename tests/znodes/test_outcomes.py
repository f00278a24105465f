"""How a request ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import Refusal, RefusalReason, RequestId
from controller.core.records import OutcomeRecord
from controller.znodes.outcomes import (
    OUTCOME_MAX_BYTES,
    RAW_MAX_BYTES,
    Outcome,
    decode_outcome,
    encode_outcome,
)
from tests.znodes.strategies import ANY_BYTES, document

R = RequestId("legacy-0000000000000001")
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def refusal(entry: str = "t-0 -> [1]", detail: str = "why") -> Refusal:
    """Build a refusal."""
    return Refusal(R, entry, RefusalReason.UNKNOWN_BROKER, detail)


@given(
    st.integers(0, 10**6),
    st.lists(st.builds(refusal, WORDS, WORDS), max_size=5),
    st.none() | st.binary(max_size=50),
)
def test_what_is_encoded_is_decoded(done: int, refused: list[Refusal], raw: bytes | None) -> None:
    """While it fits, a round trip loses nothing."""
    data = encode_outcome(OutcomeRecord(R, done, tuple(refused), raw))
    assert decode_outcome(data) == Outcome(R, done, tuple(refused), 0, raw, 0)


@given(ANY_BYTES)
def test_any_bytes_give_an_outcome_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_outcome(data), str | Outcome)


def test_a_large_outcome_is_cut_and_says_so() -> None:
    """ZooKeeper would refuse what grows without bound; escapes count as they are written."""
    refused = tuple(refusal(f"t-{n} -> [1]", "é" * 100) for n in range(20_000))
    data = encode_outcome(OutcomeRecord(R, 5, refused, b"\0" * (2 * RAW_MAX_BYTES)))
    assert len(data) <= OUTCOME_MAX_BYTES
    read = decode_outcome(data)
    assert isinstance(read, Outcome)
    assert len(read.refused) + read.refused_left_out == 20_000
    assert read.refused
    assert read.raw_left_out == RAW_MAX_BYTES


def test_an_unknown_reason_is_refused() -> None:
    """Written by a version of the future."""
    row = {"entry": "", "detail": "", "reason": "later"}
    assert isinstance(decode_outcome(document(version=1, request=R, done=0, refused=[row])), str)
