"""
The comparison of what was acknowledged with what can be read.

Every acknowledged record must be readable at the offset at which it was acknowledged. A record that
failed may be readable or not; it only must not be there twice, unless the client began a new epoch
(``Traffic.restarts``).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from integration.rigs.cluster import QUIET

UNKNOWN_OFFSET: Final = -1
"""
The offset of what no broker acknowledged itself, but a later batch of the same partition did.

librdkafka concludes it from the sequence numbers, which a leader takes only without a gap.
"""


class Record(NamedTuple):
    """One record by where it is and which it is."""

    topic: str
    partition: int
    offset: int
    key: int
    """Unique within one run of traffic."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The comparison of the acknowledged records with the readable ones."""

    acknowledged: int
    readable: int
    missing: tuple[Record, ...]
    """Acknowledged, but not readable at the offset of the acknowledgement, if it had one."""
    duplicates: tuple[Record, ...]
    """The second and further times that a key was read."""
    restarts: int = 0
    """The number of new producer epochs (``Traffic.restarts``)."""
    evidence: tuple[str, ...] = ()
    """Lines on what is missing or twice: client, reader, cluster and replicas' logs."""

    @property
    def is_clean(self) -> bool:
        """True if nothing is missing, and only new producer epochs caused duplicates."""
        return not self.missing and (not self.duplicates or self.restarts > 0)

    @property
    def is_exact(self) -> bool:
        """True if every record is there once, as long as leaders are not without a controller."""
        return not self.missing and not self.duplicates

    def __str__(self) -> str:
        """Return the counts, with the first examples and what is known of what is missing."""
        counts = (
            f"missing {len(self.missing)}: {self.missing[:3]}, twice {len(self.duplicates)}: "
            f"{self.duplicates[:3]}, new epochs of the producer: {self.restarts}"
        )
        return "\n".join((counts, *self.evidence))


def audit(
    acknowledged: Iterable[Record], readable: Iterable[Record], *, restarts: int = 0
) -> Audit:
    """Compare the acknowledged records with the readable ones."""
    expected, found = list(acknowledged), list(readable)
    present = set(found)
    seen: set[tuple[str, int, int]] = set()
    duplicates = []
    for record in found:
        identity = (record.topic, record.partition, record.key)
        if identity in seen:
            duplicates.append(record)
        seen.add(identity)
    return Audit(
        acknowledged=len(expected),
        readable=len(found),
        missing=tuple(record for record in expected if not _is_readable(record, present, seen)),
        duplicates=tuple(duplicates),
        restarts=restarts,
    )


def _is_readable(
    record: Record, present: Collection[Record], keys: Collection[tuple[str, int, int]]
) -> bool:
    if record.offset == UNKNOWN_OFFSET:
        return (record.topic, record.partition, record.key) in keys
    return record in present


def read_everything(
    bootstrap_servers: str,
    partitions: Mapping[str, int],
    *,
    within_s: float = 120.0,
    security: Mapping[str, str] | None = None,
) -> list[Record]:
    """
    Read every partition from its beginning to the end it has now.

    Raises:
        TimeoutError: Not all was read in time.
        KafkaException: The reader lost its place: what it wanted next is not in the log.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "audit",  # demanded by the client, unused: nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # A reader that loses its place has to say so, not to go on at the end.
            "auto.offset.reset": "error",
            **(security or {}),
            **QUIET,
        }
    )
    deadline = time.monotonic() + within_s
    records: list[Record] = []
    try:
        unread = {(topic, n) for topic, count in partitions.items() for n in range(count)}
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for topic, n in unread])
        while unread:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"not read to the end in {within_s:g} s: {sorted(unread)}")
            for message in consumer.consume(num_messages=1000, timeout=1.0):
                _take(message, records, unread)
    finally:
        consumer.close()
    return records


def _take(message: Message, records: list[Record], unread: set[tuple[str, int]]) -> None:
    error = message.error()
    if error is None:
        records.append(record_of(message))
    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public spelling
        unread.discard((str(message.topic()), int(message.partition() or 0)))
    elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - the client's public spelling
        raise KafkaException(error)


def record_of(message: Message, *, default_offset: int | None = None) -> Record:
    """
    Return a record of ``Traffic`` as it was read or acknowledged.

    Args:
        message: The record.
        default_offset: Its offset where the message has none; None where it has to have one.

    Raises:
        ValueError: It was produced by another client.
    """
    topic, partition, key = message.topic(), message.partition(), message.key()
    offset = message.offset()
    offset = default_offset if offset is None else offset
    if topic is None or partition is None or offset is None or key is None:
        raise ValueError(f"not one of ours: {topic}-{partition} at {offset}, key {key!r}")
    return Record(topic, partition, offset, int(key))
