"""
A producer that remembers what was acknowledged, a reader that reads everything, their comparison.

The proof that nothing was lost: every acknowledged record must be readable afterwards, at the
offset at which it was acknowledged. A record that failed may be readable or not; it only must not
be there twice, unless the client began a new epoch (``Traffic.restarts``).
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from integration.rigs.cluster import QUIET
from integration.rigs.waiting import eventually

_FLUSH_WITHIN_S: Final = 120.0
_SOME_RECORDS: Final = 20
UNKNOWN_OFFSET: Final = -1
"""The offset of what a leader had already when it was sent again: that it has it is all it says."""


class Record(NamedTuple):
    """One record by where it is and which it is."""

    topic: str
    partition: int
    offset: int
    key: int
    """Unique within one run of traffic."""


class Traffic:
    """
    Produces to every partition in turn, with acks=all, on its own thread.

    Args:
        bootstrap_servers: Where to begin.
        partitions: Number of partitions by topic.
        records_per_s: Over all partitions.
        payload_bytes: Size of a record's value.
        give_up_after_s: How long a record may wait for its acknowledgement. Others of its batch,
            in flight when one is given up, may be written a second time: librdkafka begins anew.
        security: librdkafka's security settings.
    """

    def __init__(  # noqa: PLR0913 - what a producer is made of
        self,
        bootstrap_servers: str,
        partitions: Mapping[str, int],
        *,
        records_per_s: float = 500.0,
        payload_bytes: int = 100,
        give_up_after_s: float = 60.0,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._security = dict(security or {})
        self._partitions = dict(partitions)
        self._targets = [(topic, n) for topic, count in partitions.items() for n in range(count)]
        self._interval_s = 1.0 / records_per_s
        self._payload = b"x" * payload_bytes
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": int(give_up_after_s * 1000),
                # A broker that hangs is abandoned in time to find the new leader.
                "socket.timeout.ms": 10_000,
                # A leader change is noticed by the next record, not five minutes later.
                "topic.metadata.refresh.interval.ms": 1_000,
                # A broker that starts while there is no controller knows no topic for a while.
                "topic.metadata.propagation.max.ms": int(give_up_after_s * 1000),
                "statistics.interval.ms": 1_000,
                "stats_cb": self._on_statistics,
                **self._security,
                **QUIET,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._crash: BaseException | None = None
        self._acknowledged: list[Record] = []
        self._counts: Counter[tuple[str, int]] = Counter()
        self._failed: Counter[str] = Counter()
        self._last_at: dict[tuple[str, int], float] = {}
        self._longest_pause = Pause()
        self._restarts = 0

    def __enter__(self) -> Self:
        """Start producing."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop producing, without asking how it went."""
        self._stopping.set()
        self._thread.join()

    def stop(self) -> None:
        """
        Stop producing and wait until every record is acknowledged or has failed.

        Raises:
            RuntimeError: The thread ended by an error of its own.
        """
        self._stopping.set()
        self._thread.join()
        if self._crash is not None:
            raise RuntimeError("the producer's thread crashed") from self._crash

    @property
    def acknowledged(self) -> Sequence[Record]:
        """The records acknowledged so far, in the order of acknowledgement."""
        return self._acknowledged[:]

    def await_flow(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, within_s: float = 60.0
    ) -> None:
        """
        Wait until each of these partitions, by default all, acknowledged some more records.

        A sum over partitions would hide one that keeps its producer waiting.
        """
        requested = self._targets if partitions is None else list(partitions)
        before = self._counts.copy()

        def stuck() -> list[tuple[str, int]]:
            return [p for p in requested if self._counts[p] < before[p] + _SOME_RECORDS]

        eventually(
            lambda: not stuck(),
            within_s=within_s,
            what=lambda: f"records flow; they do not in {stuck()}; failed: {self.failed}",
        )

    @property
    def failed(self) -> Mapping[str, int]:
        """The number of records given up, by error name."""
        return dict(self._failed)

    @property
    def longest_pause_s(self) -> float:
        """The longest time between two acknowledgements of one partition, in seconds."""
        return self._longest_pause.seconds

    @property
    def longest_pause(self) -> Pause:
        """The longest time between two acknowledgements of one partition."""
        return self._longest_pause

    @property
    def restarts(self) -> int:
        """
        The number of new producer epochs: records in flight may be duplicated at each.

        librdkafka begins one when a leader finds a gap in its sequence, as when a record was still
        on its way to the former leader, or when a leader did not answer in time: its disk failed,
        or there was no controller for a while.
        """
        return self._restarts

    def audited(self) -> Audit:
        """
        Read all records and compare them with the acknowledged ones.

        Records with a key below zero do not count: they are the ballast of copies that are held.

        Raises:
            TimeoutError: Not all could be read in time.
        """
        readable = read_everything(
            self._bootstrap_servers, self._partitions, security=self._security
        )
        mine = [record for record in readable if record.key >= 0]
        return audit(self._acknowledged, mine, restarts=self._restarts)

    def _on_statistics(self, statistics: str) -> None:
        # Ids are counted there, but not the epochs that the client gives itself under the same id.
        known = json.loads(statistics)["eos"]
        self._restarts = max(self._restarts, known["epoch_cnt"] - 1 + known["producer_epoch"])

    def _run(self) -> None:
        try:
            self._produce()
            self._producer.flush(_FLUSH_WITHIN_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, who stops it has to hear of it
            self._crash = error

    def _produce(self) -> None:
        key = 0
        due = time.monotonic()
        while not self._stopping.is_set():
            topic, partition = self._targets[key % len(self._targets)]
            try:
                self._producer.produce(
                    topic,
                    self._payload,
                    str(key),
                    partition,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: the cluster is slow
                continue
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_TOPIC:  # noqa: SLF001 - its name
                    raise
                self._producer.poll(0.1)  # a broker that just started knows no topic yet
                continue
            key += 1
            due += self._interval_s
            self._producer.poll(max(0.0, due - time.monotonic()))
            due = max(due, time.monotonic() - 1.0)  # after a stall: catch up a little, no burst

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed[error.name()] += 1
            return
        record = record_of(message, default_offset=UNKNOWN_OFFSET)
        self._acknowledged.append(record)
        where, now = (record.topic, record.partition), time.monotonic()
        self._counts[where] += 1
        pause_s = now - self._last_at.get(where, now)
        self._longest_pause = max(self._longest_pause, Pause(pause_s, now, *where))
        self._last_at[where] = now


class Pause(NamedTuple):
    """A time without acknowledgements of one partition."""

    seconds: float = 0.0
    until: float = 0.0
    """Its end, by ``time.monotonic``."""
    topic: str = ""
    partition: int = -1


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

    @property
    def is_clean(self) -> bool:
        """True if nothing is missing, and only new producer epochs caused duplicates."""
        return not self.missing and (not self.duplicates or self.restarts > 0)

    @property
    def is_exact(self) -> bool:
        """True if every record is there once, as long as leaders are not without a controller."""
        return not self.missing and not self.duplicates

    def __str__(self) -> str:
        """Return the counts, with the first examples."""
        return (
            f"missing {len(self.missing)}: {self.missing[:3]}, twice {len(self.duplicates)}: "
            f"{self.duplicates[:3]}, new epochs of the producer: {self.restarts}"
        )


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
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "audit",  # demanded by the client, unused: nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
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
