"""
A producer with acks=all that finds leaders as clients do and never retries.

Every value is sent once, so a log never holds one twice. What was acknowledged is remembered by the
witnesses, not here; here are only the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from controller import kafka_errors
from controller.core.model import TopicPartition

if TYPE_CHECKING:
    from tests.sim.brokers import SimBroker
    from tests.sim.fabric import Fabric


class SimProducer:
    """Appends one record to every partition, again and again."""

    def __init__(self, fabric: Fabric, *, interval_s: float = 0.2) -> None:
        self._fabric = fabric
        self._interval_s = interval_s
        self._next_value = 0
        self._is_running = False
        self.partitions: list[TopicPartition] = []
        self.answers: Counter[int] = Counter()
        """Answers so far, by error code."""
        self.acknowledged: Counter[TopicPartition] = Counter()

    def start(self) -> None:
        """Produce until ``stop``."""
        if not self._is_running:
            self._is_running = True
            self._later()

    def stop(self) -> None:
        """Produce nothing more; what is on its way may still be acknowledged."""
        self._is_running = False

    def _later(self) -> None:
        self._fabric.schedule.call_between(
            self._interval_s * 0.5, self._interval_s * 1.5, self._round
        )

    def _round(self) -> None:
        if not self._is_running:
            return
        alive = [b for b in self._fabric.brokers.values() if b.is_alive]
        for partition in self.partitions if alive else ():
            self._produce(partition, alive)
        self._later()

    def _produce(self, partition: TopicPartition, alive: Sequence[SimBroker]) -> None:
        """Send one record to the leader that a live broker names."""
        cached = self._fabric.schedule.random.choice(alive).metadata.get(partition)
        leader = None if cached is None else self._fabric.brokers.get(cached.leader)
        if leader is None or not leader.is_alive:
            self.answers[kafka_errors.NOT_LEADER_OR_FOLLOWER] += 1
            return
        self._next_value += 1

        def answered(error: int) -> None:
            self.answers[error] += 1
            if error == kafka_errors.NONE:
                self.acknowledged[partition] += 1

        leader.replication.append(partition, self._next_value, answered)
