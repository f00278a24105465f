"""
Idempotent producers that start, and brokers that are asked for producer ids all the time.

Each broker hands out ids from blocks of a thousand that it asks its controller for.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from integration.rigs.cluster import QUIET
from integration.rigs.reserved_ports import LOCALHOST

AT_A_TIME: Final = 24
"""Producers that start side by side."""
START_WITHIN_S: Final = 60.0
_ANSWER_WITHIN_S: Final = 40.0
"""Longer than a broker of 3.0 to 3.5 keeps a request while it waits for a block."""
_LOADING: Final = 14
"""COORDINATOR_LOAD_IN_PROGRESS: the broker has no block and asks for one."""
_INIT_PRODUCER_ID: Final = 22
# Header version 1 and body version 0: no client id, no transactional id, a time-out that is unused.
_REQUEST: Final = struct.pack(">hhihhi", _INIT_PRODUCER_ID, 0, 0, -1, -1, 60_000)


class Starts:
    """Results of producers that were started: their ids, and the seconds each took."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.took_s: list[float] = []

    def start(self, count: int, bootstrap_servers: str, topic: str, partitions: int) -> None:
        """
        Start producers, each for one record that the whole ISR acknowledges.

        Raises:
            KafkaException: A record was not acknowledged in time.

        """

        def start_one(number: int) -> tuple[int, float]:
            return _started(bootstrap_servers, topic, number % partitions)

        with ThreadPoolExecutor(AT_A_TIME) as threads:
            for producer_id, took_s in threads.map(start_one, range(count)):
                self.ids.append(producer_id)
                self.took_s.append(took_s)


def _started(bootstrap_servers: str, topic: str, partition: int) -> tuple[int, float]:
    """Start a producer and return its id and the seconds to its first acknowledgement."""
    seen: list[int] = []
    failed: list[KafkaError] = []

    def on_statistics(statistics: str) -> None:
        if (known := json.loads(statistics)["eos"]["producer_id"]) >= 0:
            seen.append(known)

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    begun = time.monotonic()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": int(START_WITHIN_S * 1000),
            "statistics.interval.ms": 100,
            "stats_cb": on_statistics,
            **QUIET,
        }
    )
    producer.produce(topic, b"first", partition=partition, on_delivery=on_delivery)
    left = producer.flush(START_WITHIN_S + 5.0)
    took_s = time.monotonic() - begun
    if failed or left:
        raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - its only name
    while not seen:
        producer.poll(0.05)
    return seen[-1], took_s


class IdRequests:
    """
    Ask every broker for producer ids all the time, on a thread for each.

    Args:
        ports: Of the brokers, on this machine.
        per_s: Ids of each broker in a second.

    """

    def __init__(self, ports: Sequence[int], *, per_s: float) -> None:
        self.ids: list[int] = []
        self.longest_wait_s = 0.0
        self._interval_s = 1.0 / per_s
        self._stopping = threading.Event()
        self._crashes: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(port,), name="ids", daemon=True)
            for port in ports
        ]

    def __enter__(self) -> Self:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """End, without asking how it went."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def judge(self) -> None:
        """
        See that each request so far was answered.

        Raises:
            RuntimeError: A broker closed the connection, or answered with an error.

        """
        if self._crashes:
            raise RuntimeError("a broker handed out no producer id") from self._crashes[0]

    def _run(self, port: int) -> None:
        try:
            with socket.create_connection((LOCALHOST, port), timeout=_ANSWER_WITHIN_S) as broker:
                self._send(broker)
        except (OSError, AssertionError) as error:
            self._crashes.append(error)

    def _send(self, broker: socket.socket) -> None:
        waiting_since = time.monotonic()
        while not self._stopping.is_set():
            broker.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            error, producer_id = struct.unpack_from(">hq", _answer(broker), 8)
            assert error in {0, _LOADING}, f"error {error}"
            now = time.monotonic()
            if error == _LOADING:
                self._stopping.wait(0.05)
                continue
            self.ids.append(producer_id)
            self.longest_wait_s = max(self.longest_wait_s, now - waiting_since)
            self._stopping.wait(self._interval_s)
            waiting_since = time.monotonic()


def _answer(broker: socket.socket) -> bytes:
    """Return an answer without its length: correlation id, throttle time, error, id, epoch."""
    (length,) = struct.unpack(">i", _exactly(broker, 4))
    return _exactly(broker, length)


def _exactly(broker: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        chunk = broker.recv(count - len(found))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        found += chunk
    return found
