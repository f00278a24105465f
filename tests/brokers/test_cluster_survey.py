"""The survey of a whole cluster from the responses of its brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.brokers.connection_settings import ConnectionSettings
from controller.brokers.surveys import HeldReplica, holdings_of, query_holdings
from controller.core.model import BrokerId, LogDir
from controller.errors import BrokerUnreachableError
from tests.core.builders import tp

BROKER = BrokerId(1)


def a_directory(name: str, *rows: tuple[int, int, bool], error: int = 0, **volume: int) -> Any:  # noqa: ANN401 - as kafka-python has it
    """Return a log directory with replicas of the topic t: partition, bytes, whether future."""
    partitions = [
        SimpleNamespace(partition_index=n, partition_size=size, is_future_key=future)
        for n, size, future in rows
    ]
    topics = [SimpleNamespace(name="t", partitions=partitions)]
    return SimpleNamespace(log_dir=name, error_code=error, topics=topics, **volume)


def test_every_replica_is_listed_with_its_directory() -> None:
    """A future replica on another disk does not count; an offline directory lists nothing."""
    answer = SimpleNamespace(
        results=[
            a_directory("/a", (0, 10, False), (1, 99, True)),
            a_directory("/b", (1, 20, False)),
            a_directory("/c", (2, 30, False), error=56),
        ]
    )
    found = holdings_of(BROKER, answer, {})
    assert found.replicas == (HeldReplica(tp(0), "/a", 10), HeldReplica(tp(1), "/b", 20))
    assert found.capacity is None


def test_capacity_is_what_is_held_and_what_is_free_on_each_volume_once() -> None:
    """Two directories of one volume report the same free space; it is counted once."""
    answer = SimpleNamespace(
        results=[
            a_directory("/a", (0, 10, False), total_bytes=500, usable_bytes=300),
            a_directory("/b", (1, 20, False), total_bytes=500, usable_bytes=300),
            a_directory("/c", total_bytes=900, usable_bytes=70),
        ]
    )
    assert holdings_of(BROKER, answer, {}).capacity == 10 + 20 + 300 + 70


def test_a_broker_that_does_not_report_its_volumes_has_no_known_capacity() -> None:
    """Brokers before Kafka 3.3 answer -1."""
    answer = SimpleNamespace(results=[a_directory("/a", total_bytes=-1, usable_bytes=-1)])
    assert holdings_of(BROKER, answer, {}).capacity is None


def test_a_volume_without_free_space_is_full_and_not_unknown() -> None:
    """Its capacity is what it holds."""
    answer = SimpleNamespace(
        results=[a_directory("/a", (0, 10, False), total_bytes=10, usable_bytes=0)]
    )
    assert holdings_of(BROKER, answer, {}).capacity == 10


def test_directories_have_their_volumes_and_failed_ones_are_marked() -> None:
    """The replicas that a directory will get are not free space; a failed one has no size."""
    answer = SimpleNamespace(
        results=[
            a_directory("/a", (0, 10, False), total_bytes=500, usable_bytes=300),
            a_directory("/b", (1, 20, False), total_bytes=500, usable_bytes=300),
            a_directory("/c", error=56, total_bytes=-1, usable_bytes=-1),
        ]
    )
    found = holdings_of(BROKER, answer, {})
    assert found.dirs == (
        LogDir("/a", 500, 300, 1),
        LogDir("/b", 500, 300, 1),
        LogDir("/c", is_failed=True),
    )
    assert found.volumes == {"/a": "/a", "/b": "/a", "/c": "/c"}


def test_configured_capacities_stand_in_where_none_are_reported() -> None:
    """Each configured directory is a volume of its own, of which its replicas take a part."""
    answer = SimpleNamespace(
        results=[
            a_directory("/a", (0, 10, False), (1, 5, True), total_bytes=-1, usable_bytes=-1),
            a_directory("/b", total_bytes=-1, usable_bytes=-1),
        ]
    )
    found = holdings_of(BROKER, answer, {"/a": 100, "/b": 100})
    assert [(d.path, d.total, d.usable) for d in found.dirs] == [("/a", 100, 85), ("/b", 100, 100)]
    assert found.volumes == {"/a": "/a", "/b": "/b"}
    assert found.capacity == 10 + 85 + 100


def test_a_cluster_without_a_live_broker_has_no_snapshot() -> None:
    """All sizes would be unknown, and every partition without bytes."""
    with pytest.raises(BrokerUnreachableError, match="no broker is live"):
        next(query_holdings(ConnectionSettings(), ()))
