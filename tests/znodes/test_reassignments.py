"""Our record of one reassignment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import ReassignmentSpec, RequestId, Route, ZkVersion, Zxid
from controller.znodes.reassignments import decode_spec, encode_spec
from tests.znodes.strategies import ANY_BYTES, BROKERS, REPLICAS, REQUESTS, document, without

GOOD: dict[str, object] = {
    "version": 1,
    "original": [1, 2],
    "target": [2, 3],
    "request": "legacy-0000000000000001",
    "route": "legacy",
}

SPECS = st.builds(
    ReassignmentSpec,
    target=REPLICAS,
    original=st.none() | REPLICAS,
    request=st.from_regex(r"[a-z0-9_-]{1,20}", fullmatch=True).map(RequestId),
    route=st.sampled_from([Route.LEGACY, Route.REQUEST]),
    version=st.integers(0, 9).map(ZkVersion),
    cancelled_by=st.none() | REQUESTS,
    abandoned=st.frozensets(BROKERS, max_size=3),
    topic_czxid=st.none() | st.integers(0, 2**63 - 1).map(Zxid),
    expected=st.none() | REPLICAS,
    asked=st.none() | REPLICAS,
    unplaced=st.frozensets(BROKERS, max_size=3),
)
PATHS = st.lists(st.sampled_from([None, "/d", "/data/1"]), min_size=10, max_size=10)


def placed(spec: ReassignmentSpec, paths: list[str | None]) -> ReassignmentSpec:
    """Return a spec that names directories for some of its replicas."""
    pairs = zip(spec.target, paths, strict=False)
    return replace(spec, log_dirs=tuple((b, path) for b, path in pairs if path is not None))


@given(SPECS, PATHS)
def test_what_is_encoded_is_decoded(spec: ReassignmentSpec, paths: list[str | None]) -> None:
    """A round trip loses nothing; unknown originals stay unknown."""
    spec = placed(spec, paths)
    assert spec.version is not None
    assert decode_spec(encode_spec(spec), spec.version) == spec


@given(ANY_BYTES)
def test_any_bytes_give_a_goal_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_spec(data, ZkVersion(0)), str | ReassignmentSpec)


@pytest.mark.parametrize("key", ["version", "target", "request", "route"])
def test_a_missing_member_is_named(key: str) -> None:
    """Nothing is made up for it."""
    read = decode_spec(without(GOOD, key), ZkVersion(0))
    assert isinstance(read, str)
    assert key in read


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("original", []),
        ("expected", []),
        ("asked", [1, 1]),
        ("target", [1, 1]),
        ("request", "../x"),
        ("route", "foreign"),
        ("route", 1),
        ("cancelled_by", "../x"),
        ("cancelled_by", 5),
        ("abandoned", [1, 1]),
        ("abandoned", 5),
        ("topic_czxid", "9"),
        ("topic_czxid", -1),
    ],
)
def test_a_wrong_member_is_refused(key: str, value: object) -> None:
    """A goal is never half right."""
    assert isinstance(decode_spec(document(**(GOOD | {key: value})), ZkVersion(0)), str)


def test_what_most_goals_do_not_need_is_left_out() -> None:
    """A record of an older format reads as one that was never turned round."""
    read = decode_spec(document(**GOOD), ZkVersion(0))
    assert isinstance(read, ReassignmentSpec)
    assert (read.rolls_back, read.abandoned, read.topic_czxid) == (False, frozenset(), None)
    assert b"cancelled_by" not in encode_spec(read)
    assert b"abandoned" not in encode_spec(read)
    assert b"topic_czxid" not in encode_spec(read)
