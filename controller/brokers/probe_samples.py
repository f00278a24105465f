"""
Readings of the produce probe: how long each leader takes to acknowledge a record.

Pure: ``produce_probe`` sends the records and hears of their acknowledgements.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from controller.core.model import BrokerId, Instant
from controller.core.pacing.model import Signal, SignalKind
from controller.units import show_latency

SHARE: Final = 0.99
LEAST_AGE_S: Final = 1.0
"""The age from which a record that is not acknowledged counts where none is acknowledged."""
UNDER_WAY_MAX: Final = 20
"""The records on their way to a broker, at most."""


@dataclass(frozen=True, slots=True)
class Target:
    """A partition of the topic, and the brokers that its records measure."""

    partition: int
    leader: BrokerId
    follower: BrokerId | None


@dataclass(slots=True)
class ProbeRecord:
    """A record on its way, or acknowledged."""

    sent_at: Instant
    target: Target
    took_s: float | None = None
    """None: it is not acknowledged."""


class ProbeSamples:
    """The records since the last reading, and those on their way; pure."""

    def __init__(self, objective_s: float) -> None:
        self._objective_s = objective_s
        self._on_their_way: dict[BrokerId, deque[ProbeRecord]] = {}
        """By leader, the oldest first."""
        self._acknowledged: list[ProbeRecord] = []
        self._known: set[Target] = set()
        """Those that acknowledged a record: the first one of each opens connections."""

    def follow(self, targets: Collection[Target]) -> None:
        """Forget the records to brokers that do not lead their partition any more."""
        self._known.intersection_update(targets)
        for leader, records in list(self._on_their_way.items()):
            kept = deque(r for r in records if r.target in targets)
            if kept:
                self._on_their_way[leader] = kept
            else:
                del self._on_their_way[leader]

    def is_free(self, target: Target) -> bool:
        """Return whether one more record may be sent to the leader; the first one goes alone."""
        under_way = len(self._on_their_way.get(target.leader, ()))
        return under_way < (UNDER_WAY_MAX if target in self._known else 1)

    def send(self, target: Target, now: Instant) -> ProbeRecord:
        """Note that a record is sent."""
        record = ProbeRecord(now, target)
        self._on_their_way.setdefault(target.leader, deque()).append(record)
        return record

    def acknowledge(self, record: ProbeRecord, took_s: float) -> None:
        """Note that a record was acknowledged, or given up, after this time."""
        if self._forget(record):
            record.took_s = took_s
            if record.target in self._known:
                self._acknowledged.append(record)
            self._known.add(record.target)

    def drop(self, record: ProbeRecord) -> None:
        """Forget a record that says nothing about a latency."""
        self._forget(record)

    def _forget(self, record: ProbeRecord) -> bool:
        leader = record.target.leader
        records = self._on_their_way.get(leader, ())
        kept = deque(r for r in records if r is not record)
        if len(kept) == len(records):
            return False
        if kept:
            self._on_their_way[leader] = kept
        else:
            del self._on_their_way[leader]
        return True

    def take(self, now: Instant) -> tuple[Signal, ...]:
        """Return a reading for each leader with records, and begin the next ones."""
        ended: dict[Target, list[ProbeRecord]] = {}
        for record in self._acknowledged:
            ended.setdefault(record.target, []).append(record)
        self._acknowledged.clear()
        waiting = {records[0].target: records[0] for records in self._on_their_way.values()}
        return tuple(
            reading
            for target in {**ended, **waiting}
            if (reading := self._reading(target, ended.get(target, ()), waiting.get(target), now))
        )

    def _reading(
        self,
        target: Target,
        ended: Iterable[ProbeRecord],
        waiting: ProbeRecord | None,
        now: Instant,
    ) -> Signal | None:
        took = sorted(r.took_s for r in ended if r.took_s is not None)
        since = min((r.sent_at for r in ended), default=now)
        age = 0.0 if waiting is None else now - waiting.sent_at
        if waiting is not None and age > max(took, default=LEAST_AGE_S):
            took.append(age)
            since = min(since, waiting.sent_at)
        if not took:
            return None
        value = took[math.ceil(len(took) * SHARE) - 1]
        of_follower = "" if target.follower is None else f", with follower {target.follower}"
        return Signal(
            kind=SignalKind.PROBE,
            value=value,
            objective=self._objective_s,
            since=since,
            at=now,
            evidence=f"broker {target.leader} acknowledges the probe's records in "
            f"{show_latency(value)} (p99{of_follower})",
            broker=target.leader,
            follower=target.follower,
            median=median(took),
        )


def targets_of(partitions: Iterable[Any]) -> dict[BrokerId, Target]:
    """Return one partition for each leader: one with a follower in sync, if there is one."""
    found: dict[BrokerId, Target] = {}
    for partition in sorted(partitions, key=lambda p: p.id):
        leader = BrokerId(partition.leader)
        if leader < 0:
            continue
        followers = [BrokerId(b) for b in partition.isrs if b != leader]
        target = Target(partition.id, leader, followers[0] if followers else None)
        if leader not in found or (found[leader].follower is None and followers):
            found[leader] = target
    return found
