"""
A producer that remembers what was acknowledged, and the proof that nothing of it was lost.

What is missing is explained from the result alone (``Audit.evidence``): the run may never fail
again.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from integration.rigs.audits import (
    UNKNOWN_OFFSET,
    Audit,
    Record,
    audit,
    read_everything,
    record_of,
)
from integration.rigs.replica_logs import describe_partition
from integration.rigs.waiting import eventually

_FLUSH_WITHIN_S: Final = 120.0
_STATISTICS_WITHIN_S: Final = 10.0
"""librdkafka gives them once a second."""
_SOME_RECORDS: Final = 20
_CLIENT_LINES: Final = 10_000
"""Of librdkafka's log; without broken connections there are a few for each partition."""
_SHOWN: Final = 20
"""Of the missing records of a partition, of the client's lines on it, and of gaps."""


class Acknowledgement(NamedTuple):
    """When a record was acknowledged."""

    at: float
    """By ``time.time``."""
    took_s: float
    """Since it was produced."""


class Traffic:
    """
    Produces to every partition in turn, with acks=all, on its own thread.

    A partition takes a single record until one is acknowledged. Else the first could be lost with
    an acknowledgement: its leader refuses it for a moment, then takes the next batch, which is in
    flight already, as brokers from 2.5 to 4.4 take any sequence from a producer that they do not
    know (KAFKA-15591); and librdkafka takes that for an acknowledgement of both.

    Args:
        bootstrap_servers: Where to begin.
        partitions: Number of partitions by topic.
        records_per_s: Over all partitions.
        payload_bytes: Size of a record's value.
        give_up_after_s: How long a record may wait for its acknowledgement. Others of its batch,
            in flight when one is given up, may be written a second time: librdkafka begins anew.
        security: librdkafka's security settings.
        first_key: The key of the first record; later ones count on. What produces to the same
            topics after another begins above it, or their records cannot be told apart.
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
        first_key: int = 0,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._first_key = first_key
        self._security = dict(security or {})
        self._partitions = dict(partitions)
        self._targets = [(topic, n) for topic, count in partitions.items() for n in range(count)]
        self._interval_s = 1.0 / records_per_s
        self._payload = b"x" * payload_bytes
        self._client_log = _ClientLog()
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
                "log_level": 7,
                "debug": "eos",
            },
            logger=self._client_log,
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._crash: BaseException | None = None
        self._acknowledged: list[Record] = []
        self._acknowledgements: list[Acknowledgement] = []
        """Of each of the acknowledged records."""
        self._openers: set[tuple[str, int]] = set()
        """Partitions whose first record is on its way; of the thread that produces."""
        self._leaders: dict[tuple[str, int], list[tuple[float, int]]] = {}
        """Whom the client took for the leader, with the time of each change."""
        self._counts: Counter[tuple[str, int]] = Counter()
        self._failed: Counter[str] = Counter()
        self._last_at: dict[tuple[str, int], float] = {}
        self._longest_pause = Pause()
        self._restarts = 0
        self._statistics_at_us = 0.0
        """By the client's clock, which is that of ``time.monotonic``."""

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

    @property
    def acknowledgements(self) -> Sequence[Acknowledgement]:
        """When each of these records was acknowledged."""
        return self._acknowledgements[:]

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
        self._await_statistics()
        readable = read_everything(
            self._bootstrap_servers, self._partitions, security=self._security
        )
        mine = [record for record in readable if record.key >= 0]
        found = audit(self._acknowledged, mine, restarts=self._restarts)
        return replace(found, evidence=tuple(self._evidence(found, readable)))

    def _await_statistics(self) -> None:
        """
        Wait for statistics from after the last record: a late new epoch is counted only then.

        Raises:
            TimeoutError: The client gives none.
        """
        stopped_at_us = time.monotonic() * 1e6
        deadline = time.monotonic() + _STATISTICS_WITHIN_S
        while self._statistics_at_us < stopped_at_us:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no statistics in {_STATISTICS_WITHIN_S:g} s")
            self._producer.poll(0.1)

    def _evidence(self, found: Audit, readable: Sequence[Record]) -> Iterator[str]:
        """Give what is known of each partition that misses records or has some twice."""
        for where, records in groupby(sorted(found.missing), key=itemgetter(0, 1)):
            lost = list(records)
            name = f"{where[0]}-{where[1]}"
            yield f"{name}: {len(lost)} of {self._counts[where]} acknowledged records are missing"
            for record in lost[:_SHOWN]:
                at, took_s = self._acknowledgements[self._acknowledged.index(record)]
                offset = "no offset" if record.offset == UNKNOWN_OFFSET else str(record.offset)
                yield f"  key {record.key}: {offset}, acknowledged {_when(at)} after {took_s:.3f} s"
            yield from self._known_of(where, lost, readable)
        twice = found.duplicates if not self._restarts else ()
        for where, records in groupby(sorted(twice), key=itemgetter(0, 1)):
            again = list(records)
            yield f"{where[0]}-{where[1]}: {len(again)} of {self._counts[where]} records twice"
            yield from self._known_of(where, again, readable)

    def _known_of(
        self, where: tuple[str, int], records: Sequence[Record], readable: Sequence[Record]
    ) -> Iterator[str]:
        """Give what client, reader, cluster and replicas' logs know of some of its records."""
        leaders = self._leaders.get(where, [])
        changes = ", ".join(f"{leader} from {_when(at)}" for at, leader in leaders)
        yield f"  leaders of the client: {changes or 'unknown'}"
        offsets = (record.offset for record in readable if record[:2] == where)
        yield f"  the reader was given {_stretches(offsets)}"
        yield from (f"  client: {line}" for line in self._client_log.about(*where))
        yield from (
            f"  {line}"
            for line in describe_partition(
                self._bootstrap_servers,
                where,
                {record.key: record.offset for record in records[:_SHOWN]},
                security=self._security,
            )
        )

    def _on_statistics(self, statistics: str) -> None:
        found = json.loads(statistics)
        # Ids are counted there, but not the epochs that the client gives itself under the same id.
        known = found["eos"]
        self._statistics_at_us = found["ts"]
        self._restarts = max(self._restarts, known["epoch_cnt"] - 1 + known["producer_epoch"])
        for topic, of_topic in found["topics"].items():
            for partition in of_topic["partitions"].values():
                leaders = self._leaders.setdefault((topic, partition["partition"]), [])
                if not leaders or leaders[-1][1] != partition["leader"]:
                    leaders.append((time.time(), partition["leader"]))

    def _run(self) -> None:
        try:
            self._produce()
            self._producer.flush(_FLUSH_WITHIN_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, who stops it has to hear of it
            self._crash = error

    def _produce(self) -> None:
        key = self._first_key
        due = time.monotonic()
        while not self._stopping.is_set():
            where = self._targets[key % len(self._targets)]
            try:
                self._produce_one(where, key)
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

    def _produce_one(self, where: tuple[str, int], key: int) -> None:
        """Produce a record, unless the first of its partition is on its way."""
        if where in self._openers:
            return
        topic, partition = where
        self._producer.produce(
            topic, self._payload, str(key), partition, on_delivery=self._on_delivery
        )
        if not self._counts[where]:
            self._openers.add(where)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        self._openers.discard((str(message.topic()), int(message.partition() or 0)))
        if error is not None:
            self._failed[error.name()] += 1
            return
        record = record_of(message, default_offset=UNKNOWN_OFFSET)
        self._acknowledged.append(record)
        self._acknowledgements.append(Acknowledgement(time.time(), message.latency() or 0.0))
        where, now = (record.topic, record.partition), time.monotonic()
        self._counts[where] += 1
        pause_s = now - self._last_at.get(where, now)
        self._longest_pause = max(self._longest_pause, Pause(pause_s, now, *where))
        self._last_at[where] = now


class _ClientLog(logging.Logger):
    """What librdkafka says of its idempotence: refused batches, ids, what it concludes."""

    def __init__(self) -> None:
        super().__init__("librdkafka", logging.DEBUG)
        self._lines: deque[tuple[float, str]] = deque(maxlen=_CLIENT_LINES)

    def handle(self, record: logging.LogRecord) -> None:
        """Keep a line, unless it is about connections: those break on purpose here."""
        if record.levelno == logging.DEBUG:
            self._lines.append((record.created, record.getMessage()))

    def about(self, topic: str, partition: int) -> list[str]:
        """Return the first lines that name a partition, and say how many more there are."""
        name = f" {topic} [{partition}]"
        found = [f"{_when(at)} {line}" for at, line in self._lines if name in line]
        more = [f"and {len(found) - _SHOWN} lines more"] if len(found) > _SHOWN else []
        return found[:_SHOWN] + more


def _when(at: float) -> str:
    """Return a time as brokers log it, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]


def _stretches(offsets: Iterable[int]) -> str:
    """Return in words which offsets were read, and which between them were not."""
    read = sorted(offsets)
    if not read:
        return "nothing"
    skipped = [f"{a + 1} to {b - 1}" for a, b in pairwise(read) if b - a > 1]
    but = f", but not {', '.join(skipped[:_SHOWN])}" if skipped else ""
    return f"offsets {read[0]} to {read[-1]}{but}"


class Pause(NamedTuple):
    """A time without acknowledgements of one partition."""

    seconds: float = 0.0
    until: float = 0.0
    """Its end, by ``time.monotonic``."""
    topic: str = ""
    partition: int = -1
