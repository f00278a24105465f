"""Where znodes stand, and which names may stand in a path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import BrokerId, RequestId, TopicPartition
from controller.znodes import paths
from tests.znodes.strategies import PARTITIONS


def test_paths_are_those_of_kafka_and_of_the_design() -> None:
    """One example of each that takes a name."""
    partition = TopicPartition("a-b", 3)
    assert paths.broker_path(BrokerId(1)) == "/brokers/ids/1"
    assert paths.topic_path("t") == "/brokers/topics/t"
    assert paths.partitions_path("t") == "/brokers/topics/t/partitions"
    assert paths.partition_path(partition) == "/brokers/topics/a-b/partitions/3"
    assert paths.state_path(partition) == "/brokers/topics/a-b/partitions/3/state"
    assert paths.goal_topic_path("t") == "/admin/reassignments/t"
    assert paths.goal_path(partition) == "/admin/reassignments/a-b/3"
    assert paths.orphan_path(BrokerId(1), partition) == "/reassigner/orphans/1/a-b-3"
    assert paths.outcome_path(RequestId("r")) == "/reassigner/outcomes/r/summary"


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
