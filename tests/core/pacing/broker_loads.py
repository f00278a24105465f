"""
A model of brokers under load, in which the governor is tuned: disk, network, and queues of produce.

A broker writes what is produced, what it replicates and what it copies in, and reads what it copies
out. Below its capacity a record waits the longer the nearer to it the broker is; above, a backlog
grows and is worked off later. A replication quota follows a new rate with Kafka's window of samples,
and a copy ends at the lower rate of its two brokers. Time goes in steps of a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from controller.core.model import BrokerId, Instant
from controller.core.pacing import governor
from controller.core.pacing.governor import GovernedRate, GovernorLimits, Signal, SignalKind

MB: Final = 1_000_000
QUOTA_FOLLOWS: Final = 0.35
"""The share of the way to a new rate that Kafka's quota goes in a second."""
SAMPLES_PER_S: Final = 10
WINDOW_S: Final = 10.0
BASE_S: Final = 0.004
"""The time of an acknowledgement on an idle broker."""


@dataclass(slots=True)
class LoadedBroker:
    """One broker, with what it can write and what producers send to it."""

    id: BrokerId
    capacity: float
    """Bytes per second."""
    produced: float
    """Bytes per second, replication of others' partitions included."""
    copied: float = 0.0
    """The rate at which it copies now: the quota lags behind the rate that is set."""
    backlog: float = 0.0
    samples: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=600))
    """The second and the latency of each record of the probe."""

    def pass_second(self, rate: float, at: float, random: Random) -> None:
        """Let a second pass with a replication rate."""
        self.copied += (rate - self.copied) * QUOTA_FOLLOWS
        burst = random.lognormvariate(0.0, 0.05)
        arriving = (self.produced + self.copied) * burst
        self.backlog = max(0.0, self.backlog + arriving - self.capacity)
        # Producers stop at their time-outs and buffers: the backlog is bounded.
        self.backlog = min(self.backlog, 20 * self.capacity)
        use = min(arriving / self.capacity, 0.995)
        waits = BASE_S / (1.0 - use) + self.backlog / self.capacity
        for _ in range(SAMPLES_PER_S):
            self.samples.append((at, waits * random.lognormvariate(0.0, 0.3)))

    def p99(self, since: float, until: float) -> float | None:
        """Return the 99th percentile of the probe's records of an interval; None without any."""
        found = sorted(s for at, s in self.samples if since <= at <= until)
        return found[min(len(found) - 1, int(len(found) * 0.99))] if found else None


@dataclass(slots=True)
class LoadedCluster:
    """Brokers whose replication rates the governor sets, with the probe between them."""

    brokers: list[LoadedBroker]
    random: Random
    objective_s: float = 0.5
    delay_s: float = 1.0
    """The time after which a reading arrives."""
    lies: float = 0.0
    """The share of readings that are wrong."""
    frozen: frozenset[BrokerId] = frozenset()
    """Brokers of which the probe has no readings."""
    limits: GovernorLimits = field(
        default_factory=lambda: GovernorLimits(rate_min=MB, rate_max=1000 * MB)
    )
    needed: float = 0.0
    now: float = 100.0
    rates: dict[BrokerId, GovernedRate] = field(default_factory=dict)
    rates_over_time: dict[BrokerId, list[int]] = field(default_factory=dict)
    waits_over_time: dict[BrokerId, list[float]] = field(default_factory=dict)
    writes: list[tuple[float, BrokerId]] = field(default_factory=list)

    def _signals(self, index: int, rate: GovernedRate) -> list[Signal]:
        broker = self.brokers[index]
        if broker.id in self.frozen:
            return []
        until = self.now - self.delay_s
        since = max(until - WINDOW_S, rate.changed_at + governor.SETTLE_S)
        if until - since < 3.0:
            return []
        led = [self._acknowledged_in(index + n, since, until) for n in (-1, 0, 1)]
        value = led[1] if led[2] <= self.objective_s * governor.CALM else min(led[0], led[1])
        if self.random.random() < self.lies:
            value *= self.random.choice((0.1, 8.0))
        evidence = f"broker {broker.id} acknowledges in {value:.2f} s"
        strain = value / self.objective_s
        return [
            Signal(SignalKind.PROBE, strain, Instant(since), Instant(until), evidence, broker.id)
        ]

    def _acknowledged_in(self, index: int, since: float, until: float) -> float:
        """Return the 99th percentile of the records that a broker leads, and the next one follows."""
        pair = (self.brokers[n % len(self.brokers)] for n in (index, index + 1))
        return max(broker.p99(since, until) or 0.0 for broker in pair)

    def run(self, seconds: int, each: Callable[[LoadedCluster], None] | None = None) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.now += 1.0
            for index, broker in enumerate(self.brokers):
                rate = self.rates.get(broker.id)
                if rate is None:
                    rate = governor.first_rate(self.limits, int(self.needed), Instant(self.now))
                change = governor.governed(
                    rate,
                    self._signals(index, rate),
                    {SignalKind.PROBE},
                    self.limits,
                    int(self.needed),
                    Instant(self.now),
                )
                if change.evidence:
                    self.writes.append((self.now, broker.id))
                self.rates[broker.id] = change.rate
                broker.pass_second(change.rate.bytes_per_s, self.now, self.random)
                self.rates_over_time.setdefault(broker.id, []).append(change.rate.bytes_per_s)
                wait = broker.p99(self.now, self.now) or 0.0
                self.waits_over_time.setdefault(broker.id, []).append(wait)
            if each is not None:
                each(self)


def random_cluster(seed: int, *, lies: float = 0.0) -> LoadedCluster:
    """Make a cluster of unequal brokers."""
    random = Random(seed)
    brokers = [_random_broker(BrokerId(n), random) for n in range(random.randint(3, 8))]
    return LoadedCluster(brokers, random, delay_s=random.uniform(0.5, 3.0), lies=lies)


def _random_broker(broker: BrokerId, random: Random) -> LoadedBroker:
    capacity = random.uniform(50, 500) * MB
    return LoadedBroker(broker, capacity, capacity * random.uniform(0.05, 0.6))


def spread(values: Iterable[int]) -> float:
    """Return how far values are from their median at most, as a share of it."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return max(ordered[-1] / middle - 1.0, 1.0 - ordered[0] / middle)
