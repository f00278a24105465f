"""The topic znode in its three formats."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import PartitionAssignment, TopicAssignment, ZkVersion, Zxid
from controller.znodes.topics import decode_topic, encode_topic
from tests.znodes.strategies import ANY_BYTES, REPLICAS, document

V, C = ZkVersion(7), Zxid(40)


@st.composite
def assignments(draw: st.DrawFn) -> PartitionAssignment:
    """Draw an assignment whose changes are among its replicas."""
    replicas = draw(REPLICAS)
    part = st.lists(st.sampled_from(replicas), unique=True).map(tuple)
    return PartitionAssignment(replicas, draw(part), draw(part))


@given(
    st.dictionaries(st.integers(0, 2**31 - 1), assignments(), max_size=6),
    st.none() | st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True),
)
def test_what_is_encoded_is_decoded(
    partitions: dict[int, PartitionAssignment], topic_id: str | None
) -> None:
    """A round trip loses nothing."""
    assignment = TopicAssignment(partitions, V, C, topic_id, is_marked=True)
    assert decode_topic(encode_topic(assignment), V, C) == assignment


def test_a_znode_of_kafka_2_3_is_known_by_what_it_lacks() -> None:
    """It does not name adding replicas, so they are unknown."""
    read = decode_topic(b'{"version":1,"partitions":{"0":[1,2]}}', V, C, Zxid(70))
    assert isinstance(read, TopicAssignment)
    assert (read.is_marked, read.mzxid) == (False, 70)


@given(ANY_BYTES)
def test_any_bytes_give_an_assignment_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_topic(data, V, C), str | TopicAssignment)


def test_format_1_has_partitions_only() -> None:
    """As Kafka up to 2.3 writes it."""
    read = decode_topic(document(version=1, partitions={"1": [2, 1], "0": [1, 2]}), V, C)
    assert isinstance(read, TopicAssignment)
    assert read.partitions == {
        0: PartitionAssignment((1, 2)),  # type: ignore[arg-type]
        1: PartitionAssignment((2, 1)),  # type: ignore[arg-type]
    }
    assert (read.version, read.czxid, read.topic_id) == (7, 40, None)


def test_idle_partitions_are_not_listed_as_changing() -> None:
    """Format 2 lists only what is being added or removed, partitions in order of their number."""
    written = encode_topic(
        TopicAssignment(
            {
                10: PartitionAssignment((1, 2, 3), (3,), (1,)),  # type: ignore[arg-type]
                2: PartitionAssignment((1,)),  # type: ignore[arg-type]
            },
            V,
            C,
        )
    )
    assert written == (
        b'{"version":2,"partitions":{"2":[1],"10":[1,2,3]},'
        b'"adding_replicas":{"10":[3]},"removing_replicas":{"10":[1]}}'
    )


def test_a_topic_id_makes_it_format_3() -> None:
    """Losing the id would make another topic of it."""
    written = encode_topic(TopicAssignment({}, V, C, "A" * 22))
    read = json.loads(written)
    assert (read["version"], read["topic_id"]) == (3, "A" * 22)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (document(version=2), "partitions is not an object"),
        (document(partitions=[]), "partitions is not an object"),
        (document(partitions={"00": [1]}), '"00" is not a partition'),
        (document(partitions={"0": []}), "empty"),
        (document(partitions={"0": [1, 1]}), "twice"),
        (document(partitions={"0": [True]}), "true is not a broker id"),
        (document(partitions={"0": [1]}, adding_replicas={"0": [2]}), "not among its replicas"),
        (document(partitions={"0": [1]}, removing_replicas={"1": [1]}), "partition 1"),
        (document(partitions={"0": [1]}, adding_replicas=[]), "adding_replicas"),
        (document(partitions={}, topic_id=5), "topic id"),
    ],
)
def test_a_refusal_names_what_is_wrong(data: bytes, why: str) -> None:
    """An operator can act on the reason."""
    read = decode_topic(data, V, C)
    assert isinstance(read, str)
    assert why in read
