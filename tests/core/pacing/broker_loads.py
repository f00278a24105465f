"""
A model of brokers under load, in which the governor is tuned: disk, network, and queues of produce.

A broker writes what is produced and what it copies. Below its capacity a record waits the longer
the nearer to it the broker is; above, a backlog grows and is worked off later. Copied bytes may
come in bursts, as responses of a fetch are large (``burst_s``): then records wait as those of an
M/M/1 queue do. With 18 ms this is what five brokers showed that sent 3 MB/s at most, 0.75 of it for
producers: a 99th percentile of 0.2, 0.3 and 0.4 s with copies at 1.25, 1.5 and 1.75 MB/s, and a
median of 30, 50 and 80 ms. A replication quota follows a new rate with a lag. The probe of a broker
waits for the next broker, too. Its readings arrive late, and some are wrong. Time goes in steps of
a second.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist, median
from typing import Final

from controller.core.model import BrokerId, Instant
from controller.core.pacing import governor
from controller.core.pacing.governor import RateBounds
from controller.core.pacing.model import GovernedRate, Signal, SignalKind

MB: Final = 1_000_000
OBJECTIVE_S: Final = 0.5
QUOTA_SAMPLES: Final = 3
"""Kafka's replication quota is an average of so many seconds (``replication.quota.window.num``): a
higher one begins with a burst."""
SMOOTHNESS: Final = 0.8
"""The least share of what the quota allows in a second that is copied then."""
FASTEST: Final = 1.1
"""What copies take at most, as a multiple of what producers leave."""
FREE_MIN: Final = 0.1
"""What producers leave to copies, as a share of the capacity, when they need all of it."""
BASE_S: Final = 0.004
"""The time of an acknowledgement on an idle broker."""
BUSIEST: Final = 0.98
"""The use of a broker in a second with a burst: what exceeds its capacity is its backlog."""
QUEUED: Final = 0.88
BURSTS: Final = 0.05
SCATTER: Final = 0.3
RECORDS_PER_S: Final = 10
BACKLOG_S: Final = 20.0
"""Producers stop at their time-outs and buffers."""
_NORMAL: Final = NormalDist()


@dataclass(slots=True)
class LoadedBroker:
    """One broker, with what it can write and what producers send to it."""

    id: BrokerId
    capacity: float
    """Bytes per second."""
    produced: float
    """Bytes per second, replication of others' partitions included."""
    rate: GovernedRate
    burst_s: float = 0.0
    """The mean time that a response with copied bytes takes."""
    copied: float = 0.0
    """The rate at which it copies now."""
    sent: deque[float] = field(default_factory=lambda: deque(maxlen=QUOTA_SAMPLES - 1))
    """What it copied in each of the last seconds that the quota counts."""
    backlog_s: float = 0.0
    use: float = 0.0
    """The use of its capacity in this second, below 1.0."""
    waits_s: float = 0.0
    """The median of acknowledgements in this second that wait for no burst."""
    readings: deque[Signal] = field(default_factory=lambda: deque(maxlen=15))
    rates: list[int] = field(default_factory=list)
    """The rate of each second."""
    late: list[float] = field(default_factory=list)
    """The share of records of each second that missed the objective."""

    @property
    def free(self) -> float:
        """What producers leave."""
        return self.capacity - self.produced

    def pass_second(self, random: Random) -> None:
        """Let a second pass."""
        allowed = self.rate.bytes_per_s * (len(self.sent) + 1) - sum(self.sent)
        most = max(self.free, self.capacity * FREE_MIN) * FASTEST
        self.copied = min(max(0.0, allowed) * random.uniform(SMOOTHNESS, 1.0), most)
        self.sent.append(self.copied)
        use = (self.produced + self.copied) * random.lognormvariate(0.0, BURSTS) / self.capacity
        self.backlog_s = min(max(0.0, self.backlog_s + use - 1.0), BACKLOG_S)
        self.use = min(use, QUEUED)
        self.waits_s = BASE_S / (1.0 - min(use, BUSIEST)) + self.backlog_s
        self.rates.append(self.rate.bytes_per_s)
        late = 1.0 - _NORMAL.cdf(math.log(OBJECTIVE_S / self.waits_s) / SCATTER)
        self.late.append(1.0 - (1.0 - late) * (1.0 - self._waits_for_bursts(OBJECTIVE_S)))

    def _waits_for_bursts(self, longer_s: float) -> float:
        """Return the share of records that wait longer, for bursts."""
        if not self.burst_s:
            return 0.0
        left_s = max(0.0, longer_s - self.waits_s)
        return self.use * math.exp(-left_s * (1.0 - self.use) / self.burst_s)

    def took_s(self, share: float) -> float:
        """Return the time in which such a share of records is acknowledged."""
        waited = self.waits_s * math.exp(SCATTER * _NORMAL.inv_cdf(share))
        if share <= 1.0 - self.use:
            return waited
        return waited + self.burst_s / (1.0 - self.use) * math.log(self.use / (1.0 - share))


@dataclass(slots=True)
class LoadedCluster:
    """Brokers whose replication rates the governor sets, with the probe between them."""

    brokers: list[LoadedBroker]
    random: Random
    bounds: RateBounds
    delay_s: float
    """The time after which a reading arrives."""
    lies: float
    """The share of readings that are wrong."""
    needed: float = 0.0
    frozen: frozenset[BrokerId] = frozenset()
    """Brokers of whose probe there are no readings."""
    now: float = 100.0
    under_way: list[tuple[float, LoadedBroker, Signal]] = field(default_factory=list)
    writes: list[tuple[float, BrokerId]] = field(default_factory=list)

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.now += 1.0
            for broker in self.brokers:
                broker.pass_second(self.random)
            for index in range(len(self.brokers)):
                self._probe(index)
            arrived = [(b, s) for at, b, s in self.under_way if at <= self.now]
            self.under_way = [u for u in self.under_way if u[0] > self.now]
            for broker, reading in arrived:
                broker.readings.append(reading)
            for index, broker in enumerate(self.brokers):
                self._govern(broker, self.brokers[index - 1])

    def _probe(self, index: int) -> None:
        """Measure a broker's probe: the slowest of some records, or how long they wait already."""
        led, followed = self.brokers[index], self.brokers[(index + 1) % len(self.brokers)]
        slowest = min(max(self.random.random(), 1e-9) ** (1 / RECORDS_PER_S), 1.0 - 1e-9)
        took = max(led.took_s(slowest), followed.took_s(slowest))
        value = min(took, 2 * OBJECTIVE_S + self.random.random())
        if self.random.random() < self.lies:
            value *= self.random.choice((0.1, 8.0))
        reading = Signal(
            kind=SignalKind.PROBE,
            value=value,
            objective=OBJECTIVE_S,
            since=Instant(self.now - 1.0),
            at=Instant(self.now),
            evidence=f"broker {led.id} acknowledges in {value:.2f} s",
            broker=led.id,
            follower=followed.id,
            median=max(led.took_s(0.5), followed.took_s(0.5)),
        )
        if led.id not in self.frozen:
            arrives = self.now + min(took, 2 * OBJECTIVE_S) + self.delay_s
            self.under_way.append((arrives, led, reading))

    def _govern(self, broker: LoadedBroker, before: LoadedBroker) -> None:
        readings = governor.attributed(tuple(broker.readings), tuple(before.readings))
        last = readings[-1].at if readings else 100.0
        missing = "no reading" if self.now - last > governor.HOLD_S else ""
        known = governor.floor_of(self.bounds, self.needed)
        rate = governor.with_floor(broker.rate, known)
        now = Instant(self.now)
        measured = governor.Measured(
            readings=readings, led=tuple(broker.readings), is_probed=True, missing=missing
        )
        after = governor.judged(rate, measured, self.bounds, now)
        if after.bytes_per_s != rate.bytes_per_s:
            self.writes.append((self.now, broker.id))
        broker.rate = after


def random_cluster(seed: int, *, lies: float = 0.03, bursts_s: float = 0.0) -> LoadedCluster:
    """Make a cluster of unequal brokers, whose load may triple."""
    random = Random(seed)
    bounds = RateBounds(5 * MB, 1000 * MB)
    cluster = LoadedCluster([], random, bounds, random.uniform(0.5, 3.0), lies)
    for number in range(random.randint(3, 8)):
        capacity = random.uniform(50, 500) * MB
        produced = capacity * random.uniform(0.05, 0.28)
        first = governor.begun(None, bounds.least, bounds, Instant(cluster.now))
        cluster.brokers.append(LoadedBroker(BrokerId(number), capacity, produced, first))
    for broker in cluster.brokers if bursts_s else ():
        broker.burst_s = bursts_s * random.uniform(0.5, 1.0)
    return cluster


def spread(rates: list[int], share: float = 0.95) -> float:
    """Return how far rates are from their median for such a share of the time, relative to it."""
    middle = median(rates)
    apart = sorted(max(rate / middle - 1.0, 1.0 - rate / middle) for rate in rates)
    return apart[min(len(apart) - 1, int(len(apart) * share))]


def first_met(late: list[float], window: int = 10) -> int:
    """Return the second from which 99 % of a window's records meet the objective."""
    for second in range(len(late) - window):
        if sum(late[second : second + window]) <= 0.01 * window:
            return second
    return len(late)
