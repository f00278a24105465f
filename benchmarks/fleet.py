"""
A fleet of simulated brokers: registered in ZooKeeper, answering controllers, growing the ISR.

``python -m benchmarks.fleet ZOOKEEPER FIRST COUNT`` runs brokers FIRST to FIRST + COUNT - 1 in one
process until its standard input closes; with ``--disks`` they describe log directories with the
replicas of their requests. They have no data: a follower is in sync a moment after its
LeaderAndIsr, when the leader writes the ISR to ZooKeeper, as brokers do below inter-broker protocol
2.7; of topics that begin with ``--behind`` it never is. They accept every controller's requests, so
one controller may follow another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import struct
import sys
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.client import KazooClient

from benchmarks.canned import (
    API_VERSIONS,
    DESCRIBE_LOG_DIRS,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    Request,
    State,
    answer_log_dirs,
    answer_metadata,
    answer_partitions,
    answer_versions,
    request_of,
    states_of,
    stopped_of,
)

IN_SYNC_AFTER_S: Final = 0.2
"""From a LeaderAndIsr to the ISR with the added replicas."""
NOTIFIES_EVERY_S: Final = 2.5
"""Kafka's own pause between two notifications of ISR changes."""
REPLICA_BYTES: Final = 1 << 30
"""The leader epoch and role of each replica."""
DISKS: Final = "--disks"
BEHIND: Final = "--behind"
_AT_ONCE: Final = 64
_TURN_S: Final = 0.02
_LOCALHOST: Final = "127.0.0.1"
_LENGTH: Final = struct.Struct(">i")


@dataclass
class Replication:
    """
    What leaders of the fleet write: ISRs that grew, and notifications of that.

    Many states go into one multi, unlike those of real brokers: a process that plays fifty of them
    must not be slower than fifty.
    """

    zookeeper: KazooClient
    behind_topics: str | None
    """What the names of topics begin with whose new replicas never are in sync."""
    behind: dict[tuple[str, int], State] = field(default_factory=dict)
    due: deque[tuple[float, str, int]] = field(default_factory=deque)
    changed: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def receive(self, broker: int, states: list[State]) -> None:
        """Note the LeaderAndIsr of a leader."""
        at = time.monotonic() + IN_SYNC_AFTER_S
        with self.lock:
            for state in states:
                if state.leader != broker or self._never_grows(state.topic):
                    continue
                key = (state.topic, state.partition)
                if set(state.replicas) <= set(state.isr):
                    self.behind.pop(key, None)
                    continue
                self.behind[key] = state
                self.due.append((at, *key))

    def _never_grows(self, topic: str) -> bool:
        return self.behind_topics is not None and topic.startswith(self.behind_topics)

    def run(self) -> None:
        """Write, for ever."""
        notified = time.monotonic()
        while True:
            time.sleep(_TURN_S)
            self._grow(self._ripe())
            if time.monotonic() - notified >= NOTIFIES_EVERY_S:
                notified = time.monotonic()
                self._notify()

    def _ripe(self) -> list[State]:
        now = time.monotonic()
        ripe: list[State] = []
        with self.lock:
            while self.due and self.due[0][0] <= now:
                _, topic, partition = self.due.popleft()
                state = self.behind.pop((topic, partition), None)
                if state is not None:
                    ripe.append(state)
        return ripe

    def _grow(self, states: list[State]) -> None:
        pending = [
            (some, self._write(some))
            for some in (states[n : n + _AT_ONCE] for n in range(0, len(states), _AT_ONCE))
        ]
        for some, answer in pending:
            if any(isinstance(r, Exception) for r in answer.get()):
                for state in some:  # one has changed since: the others go alone
                    self._write([state]).get()
            for state in some:
                self.changed.setdefault(state.leader, []).append((state.topic, state.partition))

    def _write(self, states: list[State]) -> Any:
        multi = self.zookeeper.transaction()
        for state in states:
            content = {
                "controller_epoch": state.controller_epoch,
                "leader": state.leader,
                "version": 1,
                "leader_epoch": state.leader_epoch,
                "isr": list(state.replicas),
            }
            multi.set_data(
                f"/brokers/topics/{state.topic}/partitions/{state.partition}/state",
                json.dumps(content).encode(),
                version=state.partition_epoch,
            )
        return multi.commit_async()

    def _notify(self) -> None:
        changed, self.changed = self.changed, {}
        for partitions in changed.values():
            content = {
                "version": 1,
                "partitions": [{"topic": t, "partition": p} for t, p in partitions],
            }
            self.zookeeper.create_async(
                "/isr_change_notification/isr_change_", json.dumps(content).encode(), sequence=True
            )


@dataclass
class Disks:
    """The replicas of a broker by its requests, where log directories are described."""

    are_described: bool
    held: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def take(self, states: list[State]) -> None:
        """Take note of replicas."""
        if self.are_described:
            for state in states:
                self.held[state.topic].add(state.partition)

    def drop(self, partitions: list[tuple[str, int]]) -> None:
        """Forget replicas."""
        if self.are_described:
            for topic, partition in partitions:
                self.held[topic].discard(partition)


async def serve(
    zookeeper: KazooClient, replication: Replication, broker: int, *, describes_disks: bool
) -> None:
    """Listen as a broker, and register."""
    disks = Disks(describes_disks)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                writer.write(answer(request_of(await reader.readexactly(size))))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def answer(request: Request) -> bytes:
        match request.api_key:
            case key if key == LEADER_AND_ISR:
                states = states_of(request.body)
                replication.receive(broker, states)
                disks.take(states)
                return answer_partitions(request, [(s.topic, s.partition) for s in states])
            case key if key == STOP_REPLICA:
                stopped = stopped_of(request.body)
                disks.drop(stopped)
                return answer_partitions(request, stopped)
            case key if key == UPDATE_METADATA:
                return answer_metadata(request)
            case key if key == API_VERSIONS:
                return answer_versions(request, describes_disks=describes_disks)
            case key if key == DESCRIBE_LOG_DIRS and describes_disks:
                return answer_log_dirs(request, disks.held, REPLICA_BYTES)
            case _:
                raise ConnectionError(f"API key {request.api_key} is not served")

    server = await asyncio.start_server(converse, _LOCALHOST, 0, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    registration = {
        "version": 4,
        "host": _LOCALHOST,
        "port": port,
        "jmx_port": -1,
        "timestamp": str(time.time_ns() // 1_000_000),
        "endpoints": [f"PLAINTEXT://{_LOCALHOST}:{port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    }
    zookeeper.create(f"/brokers/ids/{broker}", json.dumps(registration).encode(), ephemeral=True)


async def run(
    address: str, first: int, count: int, *, behind: str | None, describes_disks: bool
) -> None:
    """Run brokers until standard input closes."""
    zookeeper = KazooClient(address, timeout=30.0)
    zookeeper.start(timeout=30)
    replication = Replication(zookeeper, behind)
    threading.Thread(target=replication.run, daemon=True).start()
    for broker in range(first, first + count):
        await serve(zookeeper, replication, broker, describes_disks=describes_disks)
    print("serving", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    zookeeper.stop()
    os._exit(0)  # in the middle of a hundred conversations


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument(BEHIND)
    parser.add_argument(DISKS, action="store_true", dest="describes_disks")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(run(**vars(_arguments())))
