"""
Clients that must not notice who the controller is: a producer and a consumer group, side by side.

The producer is ``Traffic``. The group's one member commits as ordinary consumers do, so that the
group's coordinator is needed all the time. ``unnoticed`` judges both at the end.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from integration.rigs.audits import UNKNOWN_OFFSET, Record, record_of
from integration.rigs.cluster import QUIET, Cluster
from integration.rigs.traffic import Traffic
from integration.rigs.waiting import eventually

_OFFSETS_WITHIN_S: Final = 30.0


class GroupMember:
    """
    Consumes topics as the only member of a group, on its own thread.

    Args:
        bootstrap_servers: Where to begin.
        topics: What the group subscribes to.
        group: Its id.
    """

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], *, group: str) -> None:
        self.group = group
        self._topics = list(topics)
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "topic.metadata.refresh.interval.ms": 1_000,
            **QUIET,
        }
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group member", daemon=True)
        self._crash: BaseException | None = None
        self._consumed: set[Record] = set()
        self._assignments = 0
        self._last_at: float | None = None
        self._longest_pause_s = 0.0

    def __enter__(self) -> Self:
        """Join the group."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Leave the group, without asking how it went."""
        self._stopping.set()
        self._thread.join()

    def stop(self) -> None:
        """
        Commit and leave the group.

        Raises:
            RuntimeError: The thread ended by an error of its own.
        """
        self._stopping.set()
        self._thread.join()
        if self._crash is not None:
            raise RuntimeError("the group member's thread crashed") from self._crash

    @property
    def consumed(self) -> frozenset[Record]:
        """The records consumed so far."""
        return frozenset(self._consumed.copy())

    @property
    def assignments(self) -> int:
        """The number of assignments: one, unless it dropped out of the group."""
        return self._assignments

    @property
    def longest_pause_s(self) -> float:
        """The longest time between two records, in seconds."""
        return self._longest_pause_s

    def committed(self, partitions: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """Return the group's committed offsets; ``partitions`` counts them by topic."""
        consumer = Consumer(self._settings)
        try:
            found = consumer.committed(
                [
                    TopicPartition(topic, n)
                    for topic, count in partitions.items()
                    for n in range(count)
                ],
                timeout=_OFFSETS_WITHIN_S,
            )
        finally:
            consumer.close()
        return {(of.topic, of.partition): of.offset for of in found}

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        try:
            consumer.subscribe(self._topics, on_assign=self._on_assign)
            while not self._stopping.is_set():
                for message in consumer.consume(num_messages=500, timeout=0.2):
                    self._take(message)
        except (KafkaException, ValueError) as error:
            self._crash = error
        finally:
            consumer.close()

    def _on_assign(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._assignments += 1

    def _take(self, message: Message) -> None:
        if message.error() is not None:
            return  # the coordinator it was given is dead: the pause is what counts
        self._consumed.add(record_of(message))
        now = time.monotonic()
        if self._last_at is not None:
            self._longest_pause_s = max(self._longest_pause_s, now - self._last_at)
        self._last_at = now


class Clients(NamedTuple):
    """The clients that run during a tenure."""

    traffic: Traffic
    member: GroupMember


@contextmanager
def unnoticed(
    cluster: Cluster, partitions: Mapping[str, int], *, pause_s: float
) -> Iterator[Clients]:
    """
    Have an idempotent acks=all producer and a consumer group work, and see that neither suffered.

    Afterwards nothing was given up, every acknowledged record is there once and was given to the
    group, and the group's member never dropped out.

    Args:
        cluster: Where they work.
        partitions: Number of partitions by topic.
        pause_s: The longest time a partition may take no record and the group be given none.
    """
    with (
        Traffic(cluster.bootstrap_servers, partitions, records_per_s=200) as traffic,
        GroupMember(
            cluster.bootstrap_servers, list(partitions), group=f"group-{uuid.uuid4().hex[:8]}"
        ) as member,
    ):
        eventually(lambda: len(member.consumed) > 100, within_s=60, what="records flow")
        yield Clients(traffic, member)
        traffic.stop()
        acknowledged = frozenset(r for r in traffic.acknowledged if r.offset != UNKNOWN_OFFSET)
        eventually(
            lambda: member.consumed >= acknowledged,
            within_s=60,
            what=lambda: f"the group is given {sorted(acknowledged - member.consumed)[:5]} …",
        )
        member.stop()
    assert traffic.failed == {}
    result = traffic.audited()
    assert result.is_exact, str(result)
    assert member.assignments == 1
    assert traffic.longest_pause_s < pause_s
    assert member.longest_pause_s < pause_s
    ends = {(r.topic, r.partition): 0 for r in acknowledged}
    for record in acknowledged:
        where = (record.topic, record.partition)
        ends[where] = max(ends[where], record.offset + 1)
    committed = member.committed(partitions)
    assert all(committed[where] >= end for where, end in ends.items()), (committed, ends)


def accepts_records(cluster: Cluster, topic: str, partition: int = 0) -> bool:
    """Return whether a new producer's record is acknowledged by all of the ISR, within seconds."""
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "message.timeout.ms": 20_000,
            **QUIET,
        }
    )
    producer.produce(
        topic,
        b"usable",
        partition=partition,
        on_delivery=lambda error, _: failures.append(error.name()) if error else None,
    )
    return producer.flush(25) == 0 and not failures


def records_of(cluster: Cluster, topic: str, partition: int = 0) -> int:
    """Return how many records consumers can read of a partition that was never cleaned up."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "counting", **QUIET}
    )
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
    finally:
        consumer.close()
    return int(end) - int(first)
