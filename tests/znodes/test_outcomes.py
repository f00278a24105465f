"""The codec of the summary of a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import OutcomeKind, Refusal, RefusalReason, RequestId
from controller.core.requests.outcomes import Summary
from controller.znodes.histories import (
    OUTCOME_MAX_BYTES,
    RAW_MAX_BYTES,
    decode_outcome,
    encode_outcome,
)
from tests.znodes.strategies import ANY_BYTES, PARTITIONS, WORDS, document

R = RequestId("legacy-0000000000000001")
MS = st.integers(0, 2**53)

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
SUMMARIES = st.builds(
    Summary,
    request=st.just(R),
    kind=st.sampled_from(["legacy", "request", "queue", "cancel"]),
    total=st.integers(0, 10**6),
    done=st.integers(0, 10**6),
    refused=st.lists(REFUSALS, max_size=4).map(tuple),
    fates=st.dictionaries(st.sampled_from(OutcomeKind), st.integers(0, 10**6)),
    reason=WORDS,
    requested_by=WORDS,
    approved=st.just("0" * 64),
    approved_by=WORDS,
    submitted_ms=MS,
    ended_ms=MS,
    moved_bytes=st.none() | MS,
    raw=st.none() | st.binary(max_size=50),
)


@given(SUMMARIES)
def test_what_is_encoded_is_decoded(summary: Summary) -> None:
    """While it fits, a round trip loses nothing."""
    assert decode_outcome(encode_outcome(summary)) == summary


@given(ANY_BYTES)
def test_any_bytes_give_a_summary_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_outcome(data), str | Summary)


def test_a_large_outcome_is_cut_and_says_so() -> None:
    """ZooKeeper would refuse what grows without bound; escapes count as they are written."""
    refused = tuple(
        Refusal(R, f"t-{n} -> [1]", RefusalReason.UNKNOWN_BROKER, "é" * 100) for n in range(20_000)
    )
    data = encode_outcome(
        Summary(
            request=R,
            kind="legacy",
            total=20_005,
            done=5,
            refused=refused,
            reason="\U0001f600" * 1000,
            requested_by="\U0001f600" * 1000,
            approved="0" * 64,
            approved_by="\U0001f600" * 1000,
            raw=b"\0" * (2 * RAW_MAX_BYTES),
        )
    )
    assert len(data) <= OUTCOME_MAX_BYTES
    read = decode_outcome(data)
    assert isinstance(read, Summary)
    assert len(read.refused) + read.refused_left_out == 20_000
    assert read.refused
    assert read.raw_left_out == RAW_MAX_BYTES


def test_a_summary_of_an_older_format_is_understood() -> None:
    """It counts what was done and lists what was refused; the rest is not known."""
    row = {"entry": "e", "reason": "unknown_broker", "detail": "d"}
    data = document(version=1, request=R, done=3, refused=[row], refused_left_out=2)
    assert decode_outcome(data) == Summary(
        request=R,
        kind="legacy",
        total=6,
        done=3,
        refused=(Refusal(R, "e", RefusalReason.UNKNOWN_BROKER, "d"),),
        refused_left_out=2,
    )


@pytest.mark.parametrize(
    "members",
    [
        {"refused": [{"entry": "", "detail": "", "reason": "later"}]},
        {"fates": {"vanished": 1}},
        {"fates": {"cancelled": -1}},
        {"total": "many"},
        {"raw": "no base64!"},
    ],
)
def test_what_is_not_understood_is_refused(members: dict[str, object]) -> None:
    """Written by a version of the future."""
    good: dict[str, object] = {"version": 1, "request": R, "done": 0, "refused": []}
    assert isinstance(decode_outcome(document(**good)), Summary)
    assert isinstance(decode_outcome(document(**(good | members))), str)
