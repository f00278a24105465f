"""Tests of ``controller.cli.submitting``."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import RequestOptions
from controller.znodes.plans import decode_submission, submissions_of
from tests.core.builders import replicas, tp

OWN = RequestId("req-1")
OPTIONS = RequestOptions(reason="because", priority=3)
ROOM = 500

_partitions = st.builds(
    TopicPartition, st.sampled_from(["t", "a.topic", "x" * 60]), st.integers(0, 9_999)
)
_replicas = st.lists(st.integers(0, 99_999).map(BrokerId), min_size=1, max_size=5, unique=True)


@given(st.dictionaries(_partitions, _replicas.map(tuple), min_size=1, max_size=60))
def test_the_parts_are_the_plan_and_none_is_too_large(
    plan: dict[TopicPartition, Replicas],
) -> None:
    """Whatever the plan: every entry in exactly one part, all parts of one request."""
    parts = submissions_of(plan, OPTIONS, OWN, bytes_max=ROOM)
    read = [
        decode_submission(f"request_{n:010}", d, ZkVersion(0), Zxid(n), 0)
        for n, d in enumerate(parts)
    ]
    found = [entry for submission in read for entry in submission.entries.items()]
    assert len(found) == len(plan)
    assert dict(found) == plan
    assert all(len(data) <= ROOM for data in parts)
    assert {s.options.parts for s in read} == {len(parts)}
    assert all(s.options.reason == "because" and s.options.priority == 3 for s in read)
    if len(parts) > 1:
        assert {s.request for s in read} == {OWN}


def test_what_fits_into_one_znode_is_named_by_zookeeper() -> None:
    """A short name that people can type."""
    (data,) = submissions_of({tp(0): replicas(1, 2)}, OPTIONS, OWN)
    assert json.loads(data) == {
        "version": 1,
        "assignments": {"t": {"0": [1, 2]}},
        "reason": "because",
        "priority": 3,
    }


def test_the_order_of_a_plan_is_kept() -> None:
    """What is listed first goes first, topic by topic."""
    plan = {TopicPartition(t, n): replicas(1) for t in ("z", "a") for n in (2, 1)}
    (data,) = submissions_of(plan, RequestOptions(), OWN)
    assert list(json.loads(data)["assignments"]) == ["z", "a"]
    assert list(json.loads(data)["assignments"]["z"]) == ["2", "1"]
