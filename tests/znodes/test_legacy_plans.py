"""``/admin/reassign_partitions``: good entries beside bad ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, Replicas, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import LegacyPlan
from controller.znodes.plans import decode_legacy_plan, encode_legacy_plan
from tests.znodes.strategies import ANY_BYTES, PARTITIONS, REPLICAS, document

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
GOOD: dict[str, object] = {"topic": "t", "partition": 0, "replicas": [1, 2]}


def decode(data: bytes) -> LegacyPlan:
    """Decode as if read at version 3."""
    return decode_legacy_plan(data, ZkVersion(3), Zxid(8))


def plan(*entries: object, **members: object) -> LegacyPlan:
    """Decode a plan of these entries."""
    return decode(document(partitions=list(entries), **({"version": 1} | members)))


def brokers(*ids: int) -> Replicas:
    """Write a replica list."""
    return tuple(BrokerId(i) for i in ids)


@given(st.dictionaries(PARTITIONS, REPLICAS, max_size=6))
def test_what_is_encoded_is_decoded(entries: dict[TopicPartition, Replicas]) -> None:
    """A round trip loses nothing, not even the order."""
    read = decode(encode_legacy_plan(entries))
    assert list(read.entries.items()) == list(entries.items())
    assert (read.refused, read.unreadable) == ((), None)


def test_directories_are_those_of_the_replicas_that_name_one() -> None:
    """Every replica has a path or "any"; where all say "any", none is named."""
    named = {T0: ((BrokerId(2), "/data/1"),)}
    read = decode(encode_legacy_plan({T0: brokers(1, 2), T1: brokers(3)}, named))
    assert (read.entries, read.log_dirs) == ({T0: brokers(1, 2), T1: brokers(3)}, named)
    assert plan(GOOD | {"log_dirs": ["any", "any"]}).log_dirs == {}


def test_entries_that_differ_in_directories_contradict_each_other() -> None:
    """Neither is guessed to be meant."""
    read = plan(GOOD | {"log_dirs": ["any", "/a"]}, GOOD | {"log_dirs": ["any", "/b"]})
    assert (read.entries, read.log_dirs, len(read.refused)) == ({}, {}, 2)


@given(ANY_BYTES)
def test_any_bytes_give_a_plan(data: bytes) -> None:
    """No bytes whatever raise; an unreadable node has no entries and keeps what stood there."""
    read = decode(data)
    assert (read.version, read.czxid) == (3, 8)
    if read.unreadable is not None:
        assert (read.entries, read.raw) == ({}, data)


ENTRY_VALUES = st.sampled_from(["t", "u", 0, 1, -1, True, [1], [1, 2], [], ["any"], [1, 1]])
ENTRIES = st.dictionaries(
    st.sampled_from(["topic", "partition", "replicas", "log_dirs"]), ENTRY_VALUES
)


@given(st.lists(ENTRIES | st.just(GOOD), max_size=8))
def test_every_entry_is_accepted_or_refused(entries: list[dict[str, object]]) -> None:
    """What is refused alone is refused in company; what is accepted alone may be contradicted."""
    together = plan(*entries)
    for entry in entries:
        alone = plan(entry)
        assert set(alone.refused) <= set(together.refused)
        for partition, replicas in alone.entries.items():
            contradicted = any(str(partition) in reason for _, reason in together.refused)
            assert together.entries.get(partition) == replicas or contradicted


def test_nothing_but_kafkas_own_keys_is_written() -> None:
    """An unknown key makes Kafka drop the whole plan."""
    assert encode_legacy_plan({T0: brokers(2, 1)}) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}'
    )


def test_a_bad_entry_does_not_keep_the_others() -> None:
    """Entries are judged one by one."""
    read = plan({"topic": "t"}, GOOD)
    assert read.entries == {T0: brokers(1, 2)}
    assert len(read.refused) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"topic": 5}, "topic name"),
        ({"topic": "a/b"}, "topic name"),
        ({"topic": "\ud800"}, "topic name"),
        ({"partition": -1}, "-1 is not a partition"),
        ({"partition": True}, "true is not a partition"),
        ({"partition": 2**31}, "not a partition"),
        ({"replicas": []}, "empty"),
        ({"replicas": [1, 1]}, "twice"),
        ({"replicas": [-1]}, "-1"),
        ({"replicas": [2**31]}, "2147483648"),
        ({"replicas": ["1"]}, "broker id"),
        ({"replicas": None}, "list"),
        ({"log_dirs": ["any", "data"]}, "neither an absolute path"),
        ({"log_dirs": ["any"]}, "as long as"),
        ({"log_dirs": None}, "log_dirs"),
        ({"logdirs": []}, "logdirs"),
    ],
)
def test_a_refusal_names_what_is_wrong(change: dict[str, object], why: str) -> None:
    """An operator can act on the reason."""
    read = plan(GOOD | change)
    assert not read.entries
    ((_, reason),) = read.refused
    assert why in reason


def test_any_as_log_directory_and_originals_are_accepted() -> None:
    """What the stock tool writes, and the annotation of KIP-236."""
    read = plan(GOOD | {"log_dirs": ["any", "any"], "original_replicas": [7]})
    assert read.entries == {T0: brokers(1, 2)}


def test_a_contradiction_refuses_every_version() -> None:
    """Which one is meant is not guessed, not even when one of them is repeated."""
    read = plan(GOOD, GOOD | {"replicas": [3]}, GOOD)
    assert not read.entries
    assert len(read.refused) == 3


def test_a_repetition_is_kept_once() -> None:
    """It says nothing new."""
    read = plan(GOOD, GOOD)
    assert (read.entries, read.refused) == ({T0: brokers(1, 2)}, ())


def test_an_absent_version_is_1() -> None:
    """As old tools write it."""
    assert decode(document(partitions=[GOOD])).entries


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"garbage", "JSON"),
        (document(version=1), "partitions"),
        (document(version=2, partitions=[]), "version 2"),
        (document(version=True, partitions=[]), "version true"),
        (document(version=1, partitions=[], throttle=5), "throttle"),
    ],
)
def test_a_node_that_is_no_plan_says_why(data: bytes, why: str) -> None:
    """The whole node is set aside with its reason."""
    read = decode(data)
    assert read.unreadable is not None
    assert why in read.unreadable


def test_an_empty_list_is_a_plan() -> None:
    """It stands while what was accepted is under way."""
    assert plan().unreadable is None
