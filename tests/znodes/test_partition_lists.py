"""Notifications of brokers to the controller, and lists of partitions from tools."""

from __future__ import annotations

import pytest
from hypothesis import given

from controller.core.model import TopicPartition
from controller.znodes.topics import (
    decode_log_dir_event,
    decode_partition_list,
)
from tests.znodes.strategies import ANY_BYTES, document


def test_notifications_and_elections_list_partitions() -> None:
    """As leaders and the stock tool write them."""
    rows = [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
    read = decode_partition_list(document(version=1, partitions=rows))
    assert read == frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})


@pytest.mark.parametrize(
    "row",
    [5, {}, {"topic": "t"}, {"topic": "a/b", "partition": 0}, {"topic": "t", "partition": "0"}],
)
def test_a_list_is_taken_whole_or_not_at_all(row: object) -> None:
    """Only programs write it."""
    assert isinstance(decode_partition_list(document(version=1, partitions=[row])), str)


def test_a_log_dir_event_names_its_broker() -> None:
    """As brokers write it."""
    assert decode_log_dir_event(document(version=1, broker=3, event=1)) == 3


@pytest.mark.parametrize("broker", [None, -1, True, "3"])
def test_a_log_dir_event_without_a_broker_is_refused(broker: object) -> None:
    """There is nothing to look at then."""
    assert isinstance(decode_log_dir_event(document(version=1, broker=broker, event=1)), str)


@given(ANY_BYTES)
def test_any_bytes_give_a_value_or_a_reason(data: bytes) -> None:
    """No bytes whatever raise."""
    assert isinstance(decode_partition_list(data), str | frozenset)
    assert isinstance(decode_log_dir_event(data), str | int)
