"""
The broker that librdkafka has for its own tests: refuses and answers late at the moment one wants.

It takes any sequence of an idempotent producer, as brokers from 2.5 to 4.4 do where they do not
know the producer. The Python client has no functions for it; the library inside has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka

_LIBRARIES: Final = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
_BROKER: Final = 1
_PRODUCE: Final = 0
_PRODUCER: Final = 0


class NoMockBrokerError(Exception):
    """The client came without a library of its own, as from a distribution's packages."""


class MockBroker:
    """
    One broker with one topic; ``running`` makes one that is cleaned up.

    Attributes:
        address: ``host:port``.
    """

    def __init__(self, library: ctypes.CDLL, cluster: ctypes.c_void_p, topic: str) -> None:
        self._library = library
        self._cluster = cluster
        self._topic = topic.encode()
        address = library.rd_kafka_mock_cluster_bootstraps
        address.restype = ctypes.c_char_p
        self.address = str(address(cluster).decode())

    @classmethod
    @contextmanager
    def running(cls, topic: str, partitions: int) -> Iterator[MockBroker]:
        """
        Yield a broker with a topic.

        Raises:
            NoMockBrokerError: There is no library to be had.
        """
        found = next(_LIBRARIES.glob("librdkafka*"), None)
        if found is None:
            raise NoMockBrokerError(f"{_LIBRARIES} has no librdkafka")
        library = ctypes.CDLL(str(found))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
            getattr(library, name).restype = ctypes.c_void_p
        said = ctypes.create_string_buffer(512)
        settings = ctypes.c_void_p(library.rd_kafka_conf_new())
        library.rd_kafka_conf_set(settings, b"log_level", b"0", said, ctypes.c_size_t(512))
        client = ctypes.c_void_p(
            library.rd_kafka_new(_PRODUCER, settings, said, ctypes.c_size_t(512))
        )
        cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, 1))
        broker = cls(library, cluster, topic)
        try:
            _check(library.rd_kafka_mock_topic_create(cluster, broker._topic, partitions, 1))
            yield broker
        finally:
            library.rd_kafka_mock_cluster_destroy(cluster)
            library.rd_kafka_destroy(client)

    def refuse_produce_requests(self, count: int, error: int, *, after_ms: int) -> None:
        """Answer the next produce requests with an error, each so late."""
        answers = (ctypes.c_int(n) for _ in range(count) for n in (error, after_ms))
        _check(
            self._library.rd_kafka_mock_broker_push_request_error_rtts(
                self._cluster,
                ctypes.c_int32(_BROKER),
                ctypes.c_int16(_PRODUCE),
                ctypes.c_size_t(count),
                *answers,
            )
        )

    def delete_records(self, partition: int, before: int) -> None:
        """Delete a partition's records before an offset."""
        _check(
            self._library.rd_kafka_mock_partition_delete_records(
                self._cluster, self._topic, ctypes.c_int32(partition), ctypes.c_int64(before)
            )
        )


def _check(error: int) -> None:
    if error:
        raise RuntimeError(f"librdkafka's mock broker refuses: error {error}")
