"""The codec of submitted requests: three forms, valid entries beside malformed ones, options."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.core.model import BrokerId, Replicas, RequestId, TopicPartition, ZkVersion, Zxid
from controller.core.requests.submissions import RequestOptions, Submission, Window
from controller.znodes.plans import decode_submission, encode_submission
from tests.znodes.strategies import ANY_BYTES, JSON, OPTIONS, PARTITIONS, REPLICAS, document

NAME = "request_0000000007"
T0 = TopicPartition("t", 0)
MOVED = {T0: (BrokerId(1), BrokerId(2))}
GOOD: dict[str, object] = {"version": 1, "assignments": {"t": {"0": [1, 2]}}}


def decode(data: bytes) -> Submission:
    """Decode as if read at version 0."""
    return decode_submission(NAME, data, ZkVersion(0), Zxid(8), 1000)


def reason_of(data: bytes) -> str:
    """Return why a node as a whole is refused."""
    read = decode(data)
    assert read.unreadable is not None
    assert (read.entries, read.refused, read.raw) == ({}, (), data)
    return read.unreadable


@given(st.dictionaries(PARTITIONS, REPLICAS, max_size=6), OPTIONS)
def test_what_is_encoded_is_decoded(
    entries: dict[TopicPartition, Replicas], options: RequestOptions
) -> None:
    """A round trip loses neither an entry nor a wish."""
    read = decode(encode_submission(entries, options))
    assert read == Submission(NAME, entries, ZkVersion(0), Zxid(8), 1000, options)


@given(ANY_BYTES)
def test_any_bytes_give_a_submission(data: bytes) -> None:
    """No bytes whatever raise; an unreadable node has no entries and keeps what stood there."""
    read = decode(data)
    assert (read.name, read.czxid, read.created_ms) == (NAME, 8, 1000)
    if read.unreadable is not None:
        assert (read.entries, read.raw) == ({}, data)


@given(st.dictionaries(st.text(max_size=4) | st.sampled_from(["t", "u"]), JSON, max_size=4))
def test_every_assignment_is_accepted_or_refused(assignments: dict[str, object]) -> None:
    """None is lost on the way, and none is judged twice."""
    text = json.dumps({"version": 1, "assignments": assignments})
    assume("NaN" not in text and "Infinity" not in text)
    read = decode(text.encode())
    requested = sum(len(p) if isinstance(p, dict) else 1 for p in assignments.values())
    assert read.unreadable is None
    assert len(read.entries) + len(read.refused) == requested


@pytest.mark.parametrize(
    "data",
    [
        document(**GOOD),
        document(assignments={"t": {"0": [1, 2]}}),
        document(t={"0": [1, 2]}),
        document(version=1, partitions=[{"topic": "t", "partition": 0, "replicas": [1, 2]}]),
        document(partitions=[{"topic": "t", "partition": 0, "replicas": [1, 2]}]),
    ],
)
def test_all_three_forms_are_understood(data: bytes) -> None:
    """The project's own, KIP-236's, and the one of Kafka's tool."""
    read = decode(data)
    assert (read.entries, read.refused, read.warnings, read.unreadable) == (MOVED, (), (), None)


@pytest.mark.parametrize(
    "data",
    [document(**GOOD, legacy=True), document(t={"0": [1, 2]}, legacy=True)],
)
def test_a_clients_legacy_flag_is_ignored_with_a_warning(data: bytes) -> None:
    """Which route a request came by is not its to say."""
    read = decode(data)
    assert read.entries == MOVED
    assert len(read.warnings) == 1


@pytest.mark.parametrize("name", ["legacy", "assignments", "partitions", "version"])
def test_a_topic_may_be_named_like_a_key(name: str) -> None:
    """In the bare form every object is a topic."""
    read = decode(json.dumps({name: {"0": [1, 2]}}).encode())
    assert read.entries == {TopicPartition(name, 0): MOVED[T0]}


def test_a_bad_entry_does_not_keep_the_others() -> None:
    """Entries are judged one by one, whatever is wrong with them."""
    bad = {"t": {"0": [1, 2], "x": [1], "1": [], "2": [1, 1], "03": [1]}, "a/b": {"0": [1]}, "u": 5}
    read = decode(document(version=1, assignments=bad))
    assert read.entries == MOVED
    assert len(read.refused) == 6
    assert read.unreadable is None


def test_options_are_read() -> None:
    """Every wish arrives as it was spelled."""
    wishes: dict[str, object] = {
        "reason": "drain",
        "requested_by": "ada",
        "priority": -5,
        "step_size": "all",
        "throttle": 50_000_000,
        "window": "22:00-05:30 Europe/Berlin",
        "max_partitions_in_flight": 3,
        "atomic": True,
        "part_of": "request_0000000001",
        "parts": 4,
    }
    read = decode(document(**GOOD, **wishes))
    assert read.options == RequestOptions(
        reason="drain",
        requested_by="ada",
        priority=-5,
        step_size="all",
        throttle=50_000_000,
        window=Window(1320, 330, "Europe/Berlin"),
        max_partitions_in_flight=3,
        atomic=True,
        part_of=RequestId("request_0000000001"),
        parts=4,
    )
    assert read.request == "request_0000000001"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ({"priority": 1001}, "priority"),
        ({"priority": True}, "priority"),
        ({"step_size": 0}, "step_size"),
        ({"step_size": "ALL"}, "step_size"),
        ({"step_size": None}, "step_size"),
        ({"throttle": 0}, "throttle"),
        ({"throttle": "50MB"}, "throttle"),
        ({"window": "22:00"}, "window"),
        ({"window": "22:00-05:00 Mars/Base"}, "time zone"),
        ({"max_partitions_in_flight": 0}, "max_partitions_in_flight"),
        ({"atomic": "yes"}, "atomic"),
        ({"part_of": "../x"}, "part_of"),
        ({"part_of": "legacy-0000000000000001"}, "part_of"),
        ({"part_of": "foreign"}, "part_of"),
        ({"parts": 0}, "parts"),
        ({"reason": 5}, "reason"),
        ({"reason": "x" * 1001}, "longer"),
        ({"prioriy": 5}, "prioriy"),
        ({"version": 2}, "version 2"),
        ({"partitions": []}, "both"),
    ],
)
def test_a_bad_option_refuses_the_whole_and_is_named(option: dict[str, object], why: str) -> None:
    """Carried out without it, the request would be another than the one asked for."""
    assert why in reason_of(document(**(GOOD | option)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"[]", "object"),
        (document(version=1), "neither"),
        (document(version=1, assignments=[]), "assignments"),
        (document(t={"0": [1]}, reason="bare requests have no options"), "not known"),
        (b'{"t":{"0":[1],"0":[2]}}', '"0" is there twice'),
        (b'{"version":1,"assignments":{},"priority":1,"priority":2}', "priority"),
    ],
)
def test_a_node_that_is_no_request_says_why(data: bytes, why: str) -> None:
    """The whole node is set aside with its reason."""
    assert why in reason_of(data)


def test_a_request_without_entries_is_a_request() -> None:
    """There is nothing to do, and nothing wrong."""
    read = decode(document(version=1, assignments={}))
    assert (read.entries, read.refused, read.unreadable) == ({}, (), None)


def test_an_approved_request_names_the_replicas_of_its_entries() -> None:
    """Without an approval they are ignored."""
    there = {T0: (BrokerId(3), BrokerId(4))}
    options = RequestOptions(approved="0" * 64, approved_by="bob")
    read = decode(encode_submission(MOVED, options, there))
    assert (read.entries, read.expected, read.options) == (MOVED, there, options)
    read = decode(encode_submission(MOVED, RequestOptions(), there))
    assert (read.entries, read.expected) == (MOVED, {})


def test_an_approval_that_is_no_hash_makes_the_request_unreadable() -> None:
    """Without it, the request would be carried out without its approval."""
    assert reason_of(document(**GOOD, approved="abc")) == ('approved is not a SHA-256 but "abc"')


def test_request_with_directories_lists_its_entries() -> None:
    """With an approval or without; no option is lost."""
    named = {T0: ((BrokerId(1), "/data/1"),)}
    there = {T0: (BrokerId(3), BrokerId(4))}
    for options in (RequestOptions(), RequestOptions(approved="0" * 64, log_dirs_throttle=7)):
        read = decode(encode_submission(MOVED, options, there, named))
        assert (read.entries, read.log_dirs, read.options) == (MOVED, named, options)
    assert decode(encode_submission(MOVED, RequestOptions(), log_dirs=named)).log_dirs == named
