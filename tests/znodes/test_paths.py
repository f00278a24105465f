"""The paths of znodes, and the names that may stand in them."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, RequestId, TopicPartition
from controller.core.pacing.throttle_settings import broker_entity, topic_entity
from controller.znodes import paths
from tests.znodes.strategies import PARTITIONS


def test_paths_are_those_of_kafka_and_of_the_design() -> None:
    """One example of each that takes a name."""
    partition = TopicPartition("a-b", 3)
    assert paths.broker_path(BrokerId(1)) == "/brokers/ids/1"
    assert paths.topic_path("t") == "/brokers/topics/t"
    assert paths.partitions_path("t") == "/brokers/topics/t/partitions"
    assert paths.state_path(partition) == "/brokers/topics/a-b/partitions/3/state"
    assert paths.reassignment_topic_path("t") == "/admin/reassignments/t"
    assert paths.reassignment_path(partition) == "/admin/reassignments/a-b/3"
    assert paths.orphan_path(BrokerId(1), partition) == "/reassigner/orphans/1/a-b-3"
    assert paths.submission_path("request_1") == "/admin/reassignment_requests/request_1"
    assert paths.NEW_SUBMISSION == "/admin/reassignment_requests/request_"
    request = RequestId("r")
    assert paths.history_path(request) == "/reassigner/outcomes/r"
    assert paths.outcome_path(request) == "/reassigner/outcomes/r/summary"
    assert paths.part_path(request, "request_1") == "/reassigner/outcomes/r/part-request_1"
    shard = paths.Shard("accepted", 7, 2, 500)
    assert paths.shard_path(request, shard) == "/reassigner/outcomes/r/accepted-7-2-500"
    assert paths.entity_config_path(topic_entity("t")) == "/config/topics/t"
    assert paths.NEW_ANNOUNCEMENT == "/config/changes/config_change_"
    assert (
        paths.applied_throttle_path(broker_entity(BrokerId(5))) == "/reassigner/throttles/brokers:5"
    )


@given(PARTITIONS)
def test_a_partition_is_read_back_from_its_text(partition: TopicPartition) -> None:
    """Dashes and digits in the topic's own name do not confuse it."""
    assert paths.parse_topic_partition(str(partition)) == partition


@pytest.mark.parametrize(
    "text", ["", "t", "t-", "-1", "t-01", "t--", "t-٣", "t-2147483648", "a/b-1"]
)
def test_what_is_no_partition_is_none(text: str) -> None:
    """Nothing is guessed."""
    assert paths.parse_topic_partition(text) is None


@given(st.text())
def test_any_text_is_a_partition_or_none(text: str) -> None:
    """No text raises."""
    read = paths.parse_topic_partition(text)
    assert read is None or str(read) == text


def test_the_topic_of_a_path_is_that_of_the_znode_itself() -> None:
    """A path below it, above it or beside it has none."""
    assert paths.parse_topic(paths.topic_path("t")) == "t"
    assert paths.parse_deletion(paths.deletion_path("t")) == "t"
    for path in (paths.partitions_path("t"), paths.TOPICS, paths.deletion_path("t")):
        assert paths.parse_topic(path) is None
    for path in (paths.topic_path("t"), paths.DELETIONS, f"{paths.DELETIONS}/t/more"):
        assert paths.parse_deletion(path) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "a\n", "x" * 250])
def test_names_kafka_refuses_are_invalid_topics(name: str) -> None:
    """Kafka's ``Topic.validate``."""
    assert not paths.valid_topic(name)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * 249])
def test_names_kafka_accepts_are_valid_topics(name: str) -> None:
    """Kafka's ``Topic.validate``."""
    assert paths.valid_topic(name)


@pytest.mark.parametrize("name", ["", "..", "../leader", "a/b"])
def test_a_request_id_cannot_leave_its_directory(name: str) -> None:
    """A garbled record must not make us write elsewhere."""
    assert not paths.valid_request(name)


@given(st.sampled_from(["accepted", "ended"]), st.tuples(*[st.integers(0, 2**31)] * 3))
def test_a_shard_is_read_back_from_its_name(
    kind: Literal["accepted", "ended"], numbers: tuple[int, int, int]
) -> None:
    """The name alone says how many rows there are."""
    shard = paths.Shard(kind, *numbers)
    assert paths.parse_shard(str(shard)) == shard


@pytest.mark.parametrize(
    "name", ["summary", "part-x", "accepted-1-2", "accepted-1-2-x", "kept-1-2-3"]
)
def test_what_is_no_shard_is_none(name: str) -> None:
    """Nothing is counted that is not there."""
    assert paths.parse_shard(name) is None


@pytest.mark.parametrize("text", ["", "topics", "topics/", "topics/a/b", "brokers/01", "users/u"])
def test_what_is_no_entity_is_none(text: str) -> None:
    """Settings of users and clients are none of our business."""
    assert paths.parse_entity(text) is None


@pytest.mark.parametrize("name", ["request_0000000001", "request_-000000001", "request_x"])
def test_whatever_a_client_calls_a_request_is_one(name: str) -> None:
    """Sequence numbers may overflow, and clients need not use them."""
    assert paths.is_submission(name)


@pytest.mark.parametrize(
    "name", ["", "legacy-0000000000000001", "request_/x", "request_\u00e9", "r"]
)
def test_other_children_are_no_requests(name: str) -> None:
    """What would be kept of them could stand in another's place."""
    assert not paths.is_submission(name)


@pytest.mark.parametrize("name", ["foreign", "legacy-1", "queue-1", "cancel-1"])
def test_the_ids_we_give_ourselves_are_reserved(name: str) -> None:
    """A submitted request that bore one would mix with what it is not."""
    assert paths.is_reserved(RequestId(name))
    assert not paths.is_reserved(RequestId("request_0000000001"))


@pytest.mark.parametrize(
    "path",
    [
        paths.history_path(RequestId("r")),
        paths.applied_throttle_path(topic_entity("t")),
        paths.orphan_path(BrokerId(1), TopicPartition("t", 0)),
        paths.reassignment_path(TopicPartition("t", 0)),
        paths.submission_path("request_1"),
        paths.CANCEL,
        paths.QUEUE,
        paths.entity_config_path(broker_entity(BrokerId(5))),
        paths.NEW_ANNOUNCEMENT,
    ],
)
def test_our_own_records_are_paperwork(path: str) -> None:
    """No Kafka controller decides by them."""
    assert paths.is_paperwork(path)


@pytest.mark.parametrize(
    "path",
    [
        paths.CONTROLLER,
        paths.CONTROLLER_EPOCH,
        paths.EPOCH,
        paths.LEADER,
        f"{paths.LEADER}/lock",
        paths.LEGACY_PLAN,
        paths.PREFERRED_ELECTION,
        paths.KILL_SWITCH,
        paths.topic_path("t"),
        paths.state_path(TopicPartition("t", 0)),
        f"{paths.DELETIONS}/t",
        f"{paths.ISR_NOTIFICATIONS}/x",
        "/config/users/u",
        "/config",
        "/a",
    ],
)
def test_what_a_controller_decides_by_is_not(path: str) -> None:
    """Nor what says who may write."""
    assert not paths.is_paperwork(path)
